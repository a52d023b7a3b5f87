#!/usr/bin/env python3
"""Attacks a server over HTTP/2, and measures what its good clients notice."""

import gc
import multiprocessing
import random
import resource
import selectors
import ssl
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field

from attacks import (
    ATTACKS, CACHED_FILES, DESCRIPTORS_MAX, FIRST_S, HEAD_S, LARGE, LARGE_BYTES, LARGE_FILES,
    LINGER_S, OTHER, OTHER_BYTES, OTHER_FILES, SCARCE_ATTACKS, SCARCE_WINDOW_S, SEND_WINDOW_S,
    SEVERAL, SEVERAL_BYTES, SEVERAL_FILES, SMALL, SMALL_BYTES, Attack, large, other_streams,
    prepare_requests, start, streams,
)
from replaced import REPLACED_CASE, check_replaced_files
from rig import (
    CODES, KIB, MIB, CheckError, Connection, Folder, Server, Table, arguments, descriptors, frames,
    h2, hurry, private_dirty, program_path, request, rss_and_pss, run,
)

EPILOG = """\
Each attack runs beside good clients. They send requests at a fixed rate: alone, beside a few
attacks one after another, and alone again. An attacker whose connection ends opens another one
after a pause: a flood of handshakes is another matter. The server and the good clients run before
all other programs (SCHED_RR, for root), so that neither the attackers' own work nor that of others
delays them. The control works as much as an attacker, and sends nothing.

The last attacks, whose names begin with "scarce", are on a server with 2,048 descriptors
(RLIMIT_NOFILE). There, good clients ask for files that the cache has not. At last, files are
replaced while their streams wait: none may continue with bytes of another file.

  ended      the end of an attacker's connection: by GOAWAY with this code, by GOAWAY at a deadline
             (NO_ERROR), or by a close without GOAWAY; and the longest time from its start
  p99        response times of good clients, in the median second: beside the attack, and before
             and after it. The ratio is to the geometric mean of the last two. The bar is met if it
             is by both of them, and missed if it is by both and by 0.1 ms. Otherwise it is
             undecided, and all three are measured again
  memory     of all workers: resident and proportional set size, before, at most during, and after
  bytes      private dirty bytes that the attack adds to the workers, at most, and those left after
  files      descriptors of all workers; where they are scarce, of the worker that has most. There
             the bar is those before, the connections of the attack, those of the cache, an eighth
             of the limit for streams that wait, and 64 for files that are being opened

A run takes 8 minutes at most. Before a release: --seconds 10 --minutes 30. Exits 1 if a bar is
missed. Run it as root, or as the user that the server runs as."""

RATIO_BAR = 1.25
# Difference that the control has, too, seconds.
NOISE_S = 0.0001
# Bars for memory: what a connection stalled by TCP may hold, and what a worker may keep.
STALLED_BYTES, KEPT_BYTES = 192 * KIB, 2 * MIB
# Attacks between two measurements without one.
GROUP = 6
# Descriptors of a worker for files that are being opened, where descriptors are scarce.
OPENING_MAX = 64
# Time between two counts of descriptors, and between two of the memory, seconds.
COUNT_S, SAMPLE_S = 0.1, 0.5
# The longest time in which workers release what an attack has left, seconds.
SETTLE_S = LINGER_S + 2
# Time that the scene with scarce descriptors takes, seconds.
SCENE_S = 75
# Pause of an attacker between two connections, seconds.
PAUSE_S = 0.1
# Processes that share what the check has made.
FORK = multiprocessing.get_context("fork")
# Connections that are opened in one round of all attackers.
CONNECTS_MAX = 4
# The most that an attacker receives in one turn.
RECEIVES_MAX = 16


# An attacker.


@dataclass
class End:
    """The end of an attacker's connection."""

    how: str
    seconds: float


class Attacker:
    """Connection of an attacker: it sends all that the server takes."""

    def __init__(self, server, attack):
        self.connection = Connection(server, attack.receive_bytes)
        self.connection.sock.setblocking(False)
        self.attack, self.chunks = attack, attack.sends()
        self.pending, self.sent = b"", 0
        self.began = self.wakes_at = time.monotonic()
        self.reads_at = self.began + attack.reads_after_s
        self.goaway = None
        # The server takes no more, or the attacker has sent all.
        self.is_refused = self.is_done = False

    def turn(self):
        """Sends and reads what is possible; an `End` when the connection has ended."""
        try:
            self._send()
        except OSError as error:
            self.is_refused = not is_blocked(error)
        if self.is_done:
            return self._end("left")
        if self.is_refused or time.monotonic() >= self.reads_at:
            return self._receive()
        return None

    def _send(self):
        if self.is_refused or time.monotonic() < self.wakes_at:
            return
        if not self.pending:
            made = next(self.chunks, None)
            if made is None:
                self.is_done = True
                return
            if not isinstance(made, bytes):
                self.wakes_at = time.monotonic() + made
                return
            self.pending = made
        sent = self.connection.sock.send(self.pending)
        self.sent += sent
        self.pending = self.pending[sent:]

    def _receive(self):
        try:
            for _ in range(RECEIVES_MAX):
                received = self.connection.sock.recv(64 * KIB)
                self.connection.buffer += received
                self._read_frames()
                if not received or self.goaway:
                    break
            else:
                return None
        except OSError as error:
            if is_blocked(error):
                return None
        if self.attack.persists and not self.is_refused:
            # The server sends no more. It may still take more.
            return None
        return self._end("close")

    def _end(self, how):
        self.connection.close()
        return End(self.goaway or how, time.monotonic() - self.began)

    def _read_frames(self):
        while (frame := self.connection.take()) is not None:
            if isinstance(frame, frames.GoAwayFrame):
                self.goaway = CODES.get(frame.error_code, str(frame.error_code))


def is_blocked(error):
    return isinstance(error, (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError))


@dataclass
class Attacked:
    """What attackers have seen."""

    ends: Counter = field(default_factory=Counter)
    # The longest life of a connection that has ended.
    longest_s: float = 0.0
    # Connections that were open at the end, and the longest life of one.
    alive: int = 0
    alive_s: float = 0.0
    # Connections that were open at the same time.
    most: int = 0
    sent: int = 0

    def add(self, attacker, end):
        self.sent += attacker.sent
        if end is None:
            self.alive += 1
            self.alive_s = max(self.alive_s, time.monotonic() - attacker.began)
        else:
            self.ends[end.how] += 1
            self.longest_s = max(self.longest_s, end.seconds)


def attack_for(server, attack, seconds, extra_s=0.0):
    """Attacks for some seconds; connections that wait for a deadline have more time to end."""
    seen, began = Attacked(), time.monotonic()
    until = began + seconds
    has_deadline = not attack.repeats and attack.ends is not None
    # Many connections are opened one by one, so that their handshakes are no flood.
    pace_s = min(seconds / 2, 4) / attack.connections if attack.connections > 100 else 0
    due = [began + number * pace_s for number in range(attack.connections)]
    attackers = []
    while (now := time.monotonic()) < until + (extra_s if has_deadline else 0):
        for _ in range(CONNECTS_MAX):
            if due and due[0] <= now < until:
                due.pop(0)
                attackers.append(Attacker(server, attack))
        seen.most = max(seen.most, len(attackers))
        attackers, ended = turns(attackers, seen)
        if attack.repeats:
            due += [time.monotonic() + PAUSE_S] * ended
        elif not attackers and (not due or now >= until):
            break
    for attacker in attackers:
        seen.add(attacker, None)
        attacker.connection.close()
    return seen


def turns(attackers, seen):
    """One turn for each attacker. Returns those that continue, and how many have ended."""
    sent, rest = sum(attacker.sent for attacker in attackers), []
    for attacker in attackers:
        end = attacker.turn()
        if end is None:
            rest.append(attacker)
        else:
            seen.add(attacker, end)
    now = time.monotonic()
    is_busy = any(attacker.wakes_at <= now for attacker in rest)
    if not is_busy or sent == sum(attacker.sent for attacker in attackers):
        # They wait for their time, or for the server. The control does neither.
        time.sleep(0 if is_busy and not sent else 0.005)
    return rest, len(attackers) - len(rest)


# Good clients.


class GoodFailed(CheckError):
    """A good client does not get its answers."""


class GoodClient:
    """Client that sends requests at a fixed rate, by the library h2, for any of these paths."""

    def __init__(self, server, paths):
        self.paths = paths
        self.connection = Connection(server)
        self.sock = self.connection.sock
        config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        self.h2 = h2.connection.H2Connection(config)
        self.h2.initiate_connection()
        self.sock.sendall(self.h2.data_to_send())
        self.sock.setblocking(False)
        self.began, self.received = {}, Counter()

    def fileno(self):
        return self.sock.fileno()

    def ask(self):
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, request(random.choice(self.paths)), end_stream=True)
        self.began[stream] = time.perf_counter()
        self.sock.sendall(self.h2.data_to_send())

    def receive(self, times):
        """Takes what has arrived, and notes the times of complete responses."""
        while True:
            try:
                octets = self.sock.recv(64 * KIB)
            except (ssl.SSLWantReadError, BlockingIOError):
                break
            if not octets:
                raise CheckError("the server closes the connection of a good client")
            now = time.perf_counter()
            for event in self.h2.receive_data(octets):
                self._on_event(event, now, times)
        if rest := self.h2.data_to_send():
            self.sock.sendall(rest)

    def _on_event(self, event, now, times):
        if isinstance(event, h2.events.ResponseReceived):
            status = dict(event.headers)[":status"]
            if status != "200":
                raise CheckError(f"a good client gets {status}")
        elif isinstance(event, h2.events.DataReceived):
            self.received[event.stream_id] += len(event.data)
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            if self.received.pop(event.stream_id) != SMALL_BYTES:
                raise CheckError("a good client gets a body of another length")
            began = self.began.pop(event.stream_id)
            times.append((began, now - began))
        elif isinstance(event, (h2.events.StreamReset, h2.events.ConnectionTerminated)):
            raise CheckError(f"a good client gets {event}")


def good_clients(server, count, rate, paths, pipe):
    """Process of the good clients: for each number of seconds received, sends response times."""
    hurry(0)
    gc.disable()
    try:
        clients = [GoodClient(server, paths) for _ in range(count)]
        with selectors.DefaultSelector() as selector:
            for client in clients:
                selector.register(client, selectors.EVENT_READ)
            while (seconds := pipe.recv()) is not None:
                pipe.send(ask_for(clients, selector, seconds, rate))
    except (CheckError, OSError, EOFError, h2.exceptions.ProtocolError) as error:
        pipe.send(error)


def ask_for(clients, selector, seconds, rate):
    """Sends requests for some seconds, each client at its rate. Returns when each was sent, and how
    long its response took.
    """
    gc.collect()
    times, begin = [], time.perf_counter()
    # Clients are spread evenly; the order is another each second.
    step = 1 / (rate * len(clients))
    order = random.sample(clients, len(clients))
    asked, total = 0, int(seconds / step)
    while asked < total or any(client.began for client in clients):
        now = time.perf_counter() - begin
        if now > seconds + 10:
            raise CheckError("a good client waits for 10 s")
        while asked < total and asked * step <= now:
            order[asked % len(order)].ask()
            asked += 1
        next_at = asked * step if asked < total else now + 0.1
        for key, _ in selector.select(max(0, next_at - (time.perf_counter() - begin))):
            key.fileobj.receive(times)
    return [(began - begin, seconds) for began, seconds in times]


class Good:
    """The process of the good clients."""

    def __init__(self, server, options, paths):
        self.server = server
        self.pipe, theirs = FORK.Pipe()
        work = (server, options.good_clients, options.rate, paths, theirs)
        self.process = FORK.Process(target=good_clients, args=work, daemon=True)
        self.process.start()
        theirs.close()

    def measure(self, seconds):
        """Response times over some seconds, and the largest samples of the workers."""
        self.pipe.send(seconds)
        most, sampled = Sample(), 0.0
        while not self.pipe.poll(COUNT_S):
            now = time.monotonic()
            is_due = now >= sampled + SAMPLE_S
            sampled = now if is_due else sampled
            most = most.most(Sample.take(self.server) if is_due else Sample.count(self.server))
        try:
            got = self.pipe.recv()
        except EOFError as error:
            raise GoodFailed("their process has ended") from error
        if isinstance(got, Exception):
            raise GoodFailed(str(got) or type(got).__name__)
        return got, most

    def end(self):
        self.process.terminate()
        self.process.join()


def p99(times):
    """The p99 of each second: its median, and the largest. Other programs disturb some seconds."""
    by_second = {}
    for began, took in times:
        by_second.setdefault(int(began), []).append(took)
    each = [sorted(took)[len(took) * 99 // 100] for took in by_second.values()]
    return statistics.median(each), max(each)


# Memory.


@dataclass
class Sample:
    rss: int = 0
    pss: int = 0
    dirty: int = 0
    files: int = 0
    # Descriptors of the worker that has most.
    files_of_one: int = 0

    @classmethod
    def take(cls, server):
        sample = cls.count(server)
        for pid in server.workers():
            rss, pss = rss_and_pss(pid)
            sample.rss, sample.pss = sample.rss + rss, sample.pss + pss
            sample.dirty += private_dirty(pid)
        return sample

    @classmethod
    def count(cls, server):
        """Descriptors alone."""
        counts = [descriptors(pid) for pid in server.workers()]
        return cls(files=sum(counts), files_of_one=max(counts, default=0))

    def most(self, other):
        return Sample(*(max(pair) for pair in zip(vars(self).values(), vars(other).values())))


# The check.


@dataclass
class Scene:
    """A server, what good clients ask it for, and the attacks on it."""

    title: str
    attacks: list
    settings: dict
    paths: list
    # The limit on descriptors, if they are scarce.
    descriptors_max: int | None = None
    # Whether files are replaced at the end.
    replaces: bool = False


def scenes(options):
    """The scenes with the attacks that were chosen."""
    settings = {
        "limits.send_window_ms": SEND_WINDOW_S * 1000,
        "limits.head_ms_max": HEAD_S * 1000,
        "limits.first_request_ms_max": FIRST_S * 1000,
        "limits.linger_ms_max": LINGER_S * 1000,
        "cache.descriptors_max": CACHED_FILES,
    }
    scarce = {
        **settings,
        "limits.send_window_ms": SCARCE_WINDOW_S * 1000,
        # Files of good clients are evicted before they are asked for again.
        "cache.entries_max": CACHED_FILES,
    }
    several = [SEVERAL.format(at) for at in range(SEVERAL_FILES)]
    chosen, scarce_ones = (
        [attack for attack in attacks if options.only in attack.name]
        for attacks in (ATTACKS, SCARCE_ATTACKS)
    )
    replaces = options.only in REPLACED_CASE
    seconds = f"{options.seconds:g} s each"
    title = f"Attacks over HTTP/2 with {DESCRIPTORS_MAX:,} descriptors, {seconds}"
    all_scenes = [
        Scene(f"Attacks over HTTP/2, {seconds}", chosen, settings, [SMALL]),
        Scene(title, scarce_ones, scarce, several, DESCRIPTORS_MAX, replaces),
    ]
    found = [scene for scene in all_scenes if scene.attacks or scene.replaces]
    if not found:
        raise CheckError(f"no attack's name contains {options.only!r}; --list names all")
    return found


def attacker_process(server, attack, seconds, extra_s, pipe):
    try:
        pipe.send(attack_for(server, attack, seconds, extra_s))
    except (CheckError, OSError) as error:
        pipe.send(error)


def judge(times):
    """Whether the bar is met whichever measurement without the attack counts, and why."""
    first, beside, again = times
    faster, slower = min(first, again), max(first, again)
    most, least = beside / faster, beside / slower
    both = f"{least:.2f} and {most:.2f} × alone"
    if most <= RATIO_BAR:
        return True, both
    if least <= RATIO_BAR:
        return "undecided", f"{both}: over {RATIO_BAR} by one of them only"
    over_s = beside - slower
    if over_s <= NOISE_S:
        return "undecided", f"{both}: over {RATIO_BAR}, but by {1e3 * over_s:.2f} ms only"
    return False, f"{both}: over {RATIO_BAR} by both, and by {1e3 * over_s:.2f} ms"


@dataclass
class Trial:
    """What happens beside an attack, perhaps several times."""

    attack: Attack
    before: Sample | None = None
    most: Sample = field(default_factory=Sample)
    after: Sample = field(default_factory=Sample)
    seen: Attacked | None = None
    # Response times beside the last attack.
    beside: list = field(default_factory=list)
    # The p99 alone, beside the attack, and alone again, in each try.
    times: list = field(default_factory=list)
    # Replies to good clients, and the error of one.
    replies: int = 0
    failed: str | None = None

    def compare(self, first, again):
        """Compares the last attack with measurements before and after it."""
        if self.failed is None:
            self.times.append([p99(phase)[0] for phase in (first, self.beside, again)])

    def seconds(self):
        """The longest time that another try takes, without the measurement after it."""
        attack = self.attack
        return SETTLE_S + max(attack.seconds, attack.within_s * (not attack.repeats))

    def is_undecided(self):
        return self.failed is None and judge(self.times[-1])[0] == "undecided"


class Check:
    """The attacks of a scene on its server."""

    def __init__(self, options, table, scene, server):
        self.options, self.table, self.scene, self.server = options, table, scene, server
        self.good = Good(server, options, scene.paths)
        # The last measurement without an attack.
        self.alone = None

    def end(self):
        self.good.end()

    def attack_all(self, until):
        """Attacks in groups, and prints their rows. Those that are undecided come last, and are
        tried again until then.
        """
        attacks, undecided = self.scene.attacks, []
        for at in range(0, len(attacks), GROUP):
            trials = [Trial(attack) for attack in attacks[at:at + GROUP]]
            first = self.alone or self.measure_alone()
            for trial in trials:
                self.attack(trial)
            again = self.measure_alone()
            for trial in trials:
                trial.compare(first, again)
            undecided += [trial for trial in trials if trial.is_undecided()]
            for trial in trials:
                if not trial.is_undecided():
                    self.rows(trial)
        for trial in undecided:
            self.try_again(trial, until)
            self.rows(trial)

    def try_again(self, trial, until):
        """Attacks again while the times are undecided."""
        while trial.is_undecided() and len(trial.times) < self.options.tries:
            if time.monotonic() + trial.seconds() + 2 * self.options.seconds > until:
                break
            first = self.alone
            self.attack(trial)
            trial.compare(first, self.measure_alone())

    def measure_alone(self):
        try:
            self.alone = self.good.measure(self.options.seconds)[0]
        except GoodFailed as error:
            self.table.row("good clients, alone", f"they fail: {error}", "none fails", False)
            self.restart()
            self.alone = self.good.measure(self.options.seconds)[0]
        return self.alone

    def restart(self):
        """Other good clients."""
        self.good.end()
        self.good = Good(self.server, self.options, self.scene.paths)

    def attack(self, trial):
        """Attacks once, and waits until the connections are gone."""
        before = Sample.take(self.server)
        trial.before = trial.before or before
        try:
            trial.seen, trial.beside, most = self.measure_beside(trial.attack)
        except GoodFailed as error:
            trial.failed = str(error)
            self.restart()
            return
        trial.replies += len(trial.beside)
        self.settle(before)
        trial.most, trial.after = trial.most.most(most), Sample.take(self.server)

    def settle(self, before):
        """Waits until the workers have no more than before, or have had the time."""
        kept, until = len(self.server.workers()) * KEPT_BYTES, time.monotonic() + SETTLE_S
        time.sleep(COUNT_S)
        while time.monotonic() < until:
            # Memory takes longer to read.
            if Sample.count(self.server).files <= before.files:
                if Sample.take(self.server).dirty <= before.dirty + kept:
                    break
            time.sleep(COUNT_S)

    def measure_beside(self, attack):
        """What attackers see, response times beside them, and the largest samples."""
        seconds = attack.seconds or self.options.seconds
        pipe, theirs = FORK.Pipe()
        work = (self.server, attack, seconds, attack.within_s + 5, theirs)
        process = FORK.Process(target=attacker_process, args=work, daemon=True)
        process.start()
        theirs.close()
        try:
            beside, most = self.good.measure(seconds)
            seen = pipe.recv()
        except EOFError as error:
            raise CheckError("the attackers' process has ended") from error
        finally:
            process.terminate()
            process.join()
        if isinstance(seen, Exception):
            raise CheckError(f"the attackers fail: {seen}")
        return seen, beside, most

    # Rows.

    def rows(self, trial):
        if trial.failed is not None:
            shown = f"good clients fail: {trial.failed}"
            return self.table.row(trial.attack.name, shown, "none fails", False)
        self.end_row(trial.attack, trial.seen)
        self.time_row(trial)
        self.memory_rows(trial)
        if self.scene.descriptors_max is None:
            return self.file_row(trial)
        shown = f"{trial.replies}, all with status 200"
        self.table.row("  replies to good clients", shown, "all 200", trial.replies > 0)
        return self.scarce_row(trial)

    def end_row(self, attack, seen):
        """How the connections ended, and after how long."""
        ends = [f"{how} ×{count}" for how, count in seen.ends.most_common()]
        if seen.alive:
            ends.append(f"open ×{seen.alive}")
        longest_s = max(seen.longest_s, seen.alive_s if attack.ends else 0)
        shown = f"{', '.join(ends) or 'none'}; {longest_s:.2f} s, {seen.sent / MIB:.1f} MiB sent"
        shown += f", {seen.most} at once" if attack.connections > 8 else ""
        if attack.ends is None:
            return self.table.row(attack.name, shown)
        # Those that had no time to end are no miss.
        is_late = longest_s > attack.within_s
        others = set(seen.ends) - {attack.ends}
        met = bool(seen.ends) and not others and not is_late
        bar = f"{attack.ends} within {attack.within_s:.1f} s"
        reasons = [f"also {', '.join(sorted(others))}"] if others else []
        reasons += [f"one lasts {longest_s:.2f} s"] if is_late else []
        reasons += [] if seen.ends else ["none ends"]
        reason = "; ".join(reasons) or f"all that end, within {longest_s:.2f} s"
        return self.table.row(attack.name, shown, bar, met, reason)

    def time_row(self, trial):
        first, beside, again = (1e3 * seconds for seconds in trial.times[-1])
        worst_ms = 1e3 * p99(trial.beside)[1]
        shown = f"{beside / (first * again) ** 0.5:.2f}: {beside:.2f} ms (worst second "
        shown += f"{worst_ms:.2f}), alone {first:.2f} and {again:.2f}"
        tries = len(trial.times)
        shown += f"; try {tries}" if tries > 1 else ""
        met, reason = judge(trial.times[-1])
        if met == "undecided":
            reason += f", in try {tries} of {self.options.tries}"
        bar = f"ratio at most {RATIO_BAR}"
        self.table.row("  p99 of good clients", shown, bar, met, reason)

    def memory_rows(self, trial):
        attack, before, most, after = trial.attack, trial.before, trial.most, trial.after
        three, workers = (before, most, after), len(self.server.workers())
        rss = ", ".join(f"{sample.rss / MIB:.1f}" for sample in three)
        pss = ", ".join(f"{sample.pss / MIB:.1f}" for sample in three)
        self.table.row("  memory, MiB", f"RSS {rss}; Pss {pss}")
        added, left = most.dirty - before.dirty, after.dirty - before.dirty
        kept = workers * KEPT_BYTES
        added_max = (attack.bytes_max or attack.connections * STALLED_BYTES) + kept
        bar = f"{added_max / MIB:.1f} and {kept / MIB:.1f} MiB"
        shown = f"{added / MIB:.2f} added, {left / MIB:.2f} MiB left"
        self.table.row("  bytes", shown, bar, added <= added_max and left <= kept)

    def file_row(self, trial):
        attack, before, most, after = trial.attack, trial.before, trial.most, trial.after
        files = ", ".join(str(sample.files) for sample in (before, most, after))
        later = before.files + attack.opens * len(self.server.workers())
        limit = later + attack.connections
        met = most.files <= limit and after.files <= later
        self.table.row("  files", files, f"at most {limit}, then {later}", met)

    def scarce_row(self, trial):
        """Descriptors of the worker that has most: the bar does not depend on the streams."""
        before, most, after = (
            sample.files_of_one for sample in (trial.before, trial.most, trial.after)
        )
        later = before + CACHED_FILES
        waiting = self.scene.descriptors_max // 8
        limit = later + trial.attack.connections + waiting + OPENING_MAX
        met = most <= limit and after <= later
        shown = f"{before}, {most}, {after} of {self.scene.descriptors_max}"
        self.table.row("  files of a worker", shown, f"at most {limit}, then {later}", met)


def warm_up(server, good, scene):
    """Every worker has served every file, and all code has run: later growth is of the attack."""
    good.measure(2)
    is_scarce = scene.descriptors_max is not None
    if is_scarce:
        prepare_requests()
    for attack in scene.attacks:
        if attack.repeats:
            attack_for(server, attack, 0.05)
    for _ in range(8 * max(1, len(server.workers()))):
        client = Connection(server)
        parts = [large(stream) for stream in streams(1, LARGE_FILES)]
        client.send(start(*(other_streams() if is_scarce else parts), window=16 * KIB))
        time.sleep(0.02)
        client.close()
    time.sleep(LINGER_S + 1)


def play(scene, folder, program, options, table, until):
    """Attacks the server of a scene."""
    name = options.architecture or "default architecture"
    table.begin(f"{scene.title}: {name}")
    limit = scene.descriptors_max
    with Server(program, folder, options.architecture, scene.settings, limit) as server:
        if not all([hurry(pid) for pid in (server.process.pid, *server.workers())]):
            print("The server may not run before other programs: they disturb the p99.")
        if scene.attacks:
            check = Check(options, table, scene, server)
            try:
                warm_up(server, check.good, scene)
                check.attack_all(until)
            finally:
                check.end()
        if scene.replaces:
            check_replaced_files(server, folder, table)


def make_files(folder):
    folder.file(SMALL[1:], SMALL_BYTES)
    rows = [
        (LARGE, LARGE_BYTES, LARGE_FILES), (OTHER, OTHER_BYTES, OTHER_FILES),
        (SEVERAL, SEVERAL_BYTES, SEVERAL_FILES),
    ]
    for name, length, count in rows:
        for at in range(count):
            folder.file(name.format(at)[1:], length)


def main():
    parser = arguments(__doc__, EPILOG)
    parser.add_argument(
        "--seconds", type=float, default=5, metavar="S",
        help="seconds of each attack, and of each measurement (default: 5)",
    )
    parser.add_argument(
        "--minutes", type=float, default=8, metavar="M",
        help="minutes in which what is undecided may be measured again (default: 8)",
    )
    parser.add_argument(
        "--good-clients", type=int, default=64, metavar="N", help="good clients (default: 64)"
    )
    parser.add_argument(
        "--rate", type=float, default=4, metavar="R",
        help="requests per second of each good client (default: 4)",
    )
    parser.add_argument(
        "--tries", type=int, default=3, metavar="N",
        help="measurements of an attack while the ratio is undecided (default: 3)",
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="attacks with this in the name")
    parser.add_argument("--list", action="store_true", help="print the attacks' names, and exit")
    parser.add_argument(
        "--json", metavar="FILE", help="write the verdicts to this file; -: to standard output"
    )
    options = parser.parse_args()
    if options.list:
        print("\n".join([attack.name for attack in [*ATTACKS, *SCARCE_ATTACKS]] + [REPLACED_CASE]))
        return 0
    until = time.monotonic() + 60 * options.minutes
    chosen, table = scenes(options), Table()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    program = program_path(options.program)
    with Folder() as folder:
        make_files(folder)
        try:
            for at, scene in enumerate(chosen, 1):
                later_s = SCENE_S * (len(chosen) - at)
                play(scene, folder, program, options, table, until - later_s)
        finally:
            # What is known so far.
            table.summary()
            if options.json:
                table.write_json(options.json)
    return table.exit_code()


if __name__ == "__main__":
    run(main)
