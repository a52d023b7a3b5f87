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
    ATTACKS, CACHED_FILES, FIRST_S, HEAD_S, LARGE, LARGE_BYTES, LARGE_FILES, LINGER_S, OTHER,
    OTHER_BYTES, OTHER_FILES, SEND_WINDOW_S, SMALL, SMALL_BYTES, large, start, streams,
)
from rig import (
    CODES, KIB, MIB, CheckError, Connection, Folder, Server, Table, arguments, descriptors, frames,
    h2, hurry, private_dirty, program_path, request, rss_and_pss, run,
)

EPILOG = """\
Each attack runs beside good clients. They send requests at a fixed rate, alone, beside the attack,
and alone again. An attacker whose connection ends opens another one after a pause: a flood of
handshakes is another matter. The server and the good clients run before all other programs
(SCHED_RR, for root), so that neither the attackers' own work nor that of others delays them. The
control works as much as an attacker, and sends nothing.

  ended      the end of an attacker's connection: by GOAWAY with this code, by GOAWAY at a deadline
             (NO_ERROR), or by a close without GOAWAY; and the longest time from its start
  p99        response times of good clients, in the median second: beside the attack, and before
             and after it. The ratio is to the geometric mean of the last two. The bar is met if it
             is by both of them, and missed if it is by both and by 0.1 ms. Otherwise it is
             undecided, and all three are measured again
  memory     of all workers: resident and proportional set size, before, at most during, and after
  bytes      private dirty bytes that the attack adds to the workers, at most, and those left after
  files      descriptors of all workers

Exits 1 if a bar is missed. Run it as root, or as the user that the server runs as."""

RATIO_BAR = 1.25
# Difference that the control has, too, seconds.
NOISE_S = 0.0001
# Bars for memory: what a connection stalled by TCP may hold, and what a worker may keep.
STALLED_BYTES, KEPT_BYTES = 192 * KIB, 2 * MIB
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
    # Many connections are opened one by one, so that their handshakes are no flood.
    pace_s = min(seconds / 2, 4) / attack.connections if attack.connections > 100 else 0
    due = [began + number * pace_s for number in range(attack.connections)]
    attackers = []
    while (now := time.monotonic()) < until + (0 if attack.repeats else extra_s):
        for _ in range(CONNECTS_MAX):
            if due and due[0] <= now < until:
                due.pop(0)
                attackers.append(Attacker(server, attack))
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
    """Client that sends requests at a fixed rate, by the library h2."""

    def __init__(self, server):
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

    def ask(self, path=SMALL):
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, request(path), end_stream=True)
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


def good_clients(server, count, rate, pipe):
    """Process of the good clients: for each number of seconds received, sends response times."""
    hurry(0)
    gc.disable()
    try:
        clients = [GoodClient(server) for _ in range(count)]
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

    def __init__(self, server, options):
        self.server = server
        self.pipe, theirs = FORK.Pipe()
        work = (server, options.good_clients, options.rate, theirs)
        self.process = FORK.Process(target=good_clients, args=work, daemon=True)
        self.process.start()
        theirs.close()

    def measure(self, seconds):
        """Response times over some seconds, and the largest samples of the workers."""
        self.pipe.send(seconds)
        most = Sample()
        while not self.pipe.poll(0.5):
            most = most.most(Sample.take(self.server))
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

    @classmethod
    def take(cls, server):
        sample = cls()
        for pid in server.workers():
            rss, pss = rss_and_pss(pid)
            sample.rss, sample.pss = sample.rss + rss, sample.pss + pss
            sample.dirty += private_dirty(pid)
            sample.files += descriptors(pid)
        return sample

    def most(self, other):
        return Sample(*(max(pair) for pair in zip(vars(self).values(), vars(other).values())))


# The check.


def attacker_process(server, attack, seconds, extra_s, pipe):
    try:
        pipe.send(attack_for(server, attack, seconds, extra_s))
    except (CheckError, OSError) as error:
        pipe.send(error)


def judge(times):
    """Whether the bar is met whichever measurement without the attack counts."""
    first, beside, again = times
    if beside <= RATIO_BAR * min(first, again):
        return True
    most = max(first, again)
    return False if beside > max(RATIO_BAR * most, most + NOISE_S) else "undecided"


class Check:
    def __init__(self, options, table):
        self.options, self.table = options, table

    def attack(self, server, good, attack):
        """Measures alone, beside the attack, and alone, and prints the rows of the attack."""
        seconds, times = self.options.seconds, []
        before, most = Sample.take(server), Sample()
        while True:
            alone, _ = good.measure(seconds)
            seen, beside, samples = self.beside(server, good, attack)
            time.sleep(LINGER_S + 1)
            most, after = most.most(samples), Sample.take(server)
            again, _ = good.measure(seconds)
            times.append([p99(phase)[0] for phase in (alone, beside, again)])
            worst = p99(beside)[1]
            if judge(times[-1]) != "undecided" or len(times) >= self.options.tries:
                break
        self.end_row(attack, seen)
        self.time_row(times, worst)
        self.memory_rows(attack, before, most, after, len(server.workers()))

    def beside(self, server, good, attack):
        """What attackers see, response times beside them, and the largest samples."""
        seconds = self.options.seconds
        pipe, theirs = FORK.Pipe()
        work = (server, attack, seconds, attack.within_s + 5, theirs)
        process = FORK.Process(target=attacker_process, args=work, daemon=True)
        process.start()
        theirs.close()
        beside, most = good.measure(seconds)
        seen = pipe.recv()
        process.join()
        if isinstance(seen, Exception):
            raise CheckError(f"the attackers fail: {seen}")
        return seen, beside, most

    def end_row(self, attack, seen):
        """How the connections ended, and after how long."""
        ends = [f"{how} ×{count}" for how, count in seen.ends.most_common()]
        if seen.alive:
            ends.append(f"open ×{seen.alive}")
        longest_s = max(seen.longest_s, seen.alive_s if attack.ends else 0)
        shown = f"{', '.join(ends) or 'none'}; {longest_s:.2f} s, {seen.sent / MIB:.1f} MiB sent"
        if attack.ends is None:
            return self.table.row(attack.name, shown)
        # Those that had no time to end are no miss.
        is_late = longest_s > attack.within_s
        met = bool(seen.ends) and set(seen.ends) == {attack.ends} and not is_late
        bar = f"{attack.ends} within {attack.within_s:.1f} s"
        self.table.row(attack.name, shown, bar, met)

    def time_row(self, times, worst):
        """`times`: the p99 alone, beside the attack, and alone again, in each try."""
        first, beside, again = (1e3 * seconds for seconds in times[-1])
        shown = f"{beside / (first * again) ** 0.5:.2f}: {beside:.2f} ms (worst second "
        shown += f"{1e3 * worst:.2f}), alone {first:.2f} and {again:.2f}"
        shown += f"; try {len(times)}" if len(times) > 1 else ""
        bar = f"ratio at most {RATIO_BAR}"
        self.table.row("  p99 of good clients", shown, bar, judge(times[-1]))

    def memory_rows(self, attack, before, most, after, workers):
        three = (before, most, after)
        rss = ", ".join(f"{sample.rss / MIB:.1f}" for sample in three)
        pss = ", ".join(f"{sample.pss / MIB:.1f}" for sample in three)
        self.table.row("  memory, MiB", f"RSS {rss}; Pss {pss}")
        added, left = most.dirty - before.dirty, after.dirty - before.dirty
        kept = workers * KEPT_BYTES
        added_max = (attack.bytes_max or attack.connections * STALLED_BYTES) + kept
        bar = f"{added_max / MIB:.1f} and {kept / MIB:.1f} MiB"
        shown = f"{added / MIB:.2f} added, {left / MIB:.2f} MiB left"
        self.table.row("  bytes", shown, bar, added <= added_max and left <= kept)
        files = ", ".join(str(sample.files) for sample in three)
        later = before.files + attack.opens * workers
        limit = later + attack.connections
        met = most.files <= limit and after.files <= later
        bar = f"at most {limit}, then {later}"
        self.table.row("  files", files, bar, met)


def warm_up(server, good, options):
    """Every worker has served every file, and all code has run: later growth is of the attack."""
    good.measure(2)
    for attack in ATTACKS:
        if attack.repeats:
            attack_for(server, attack, 0.05)
    for _ in range(8 * max(1, len(server.workers()))):
        client = Connection(server)
        parts = [large(stream) for stream in streams(1, LARGE_FILES)]
        client.send(start(*parts, window=16 * KIB))
        time.sleep(0.02)
        client.close()
    time.sleep(LINGER_S + 1)


def choose(options):
    chosen = [attack for attack in ATTACKS if options.only in attack.name]
    if not chosen:
        raise CheckError(f"no attack's name contains {options.only!r}; --list names all")
    return chosen


def main():
    parser = arguments(__doc__, EPILOG)
    parser.add_argument(
        "--seconds", type=float, default=10, metavar="S",
        help="seconds of each attack, and of each measurement (default: 10)",
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
    options = parser.parse_args()
    if options.list:
        print("\n".join(attack.name for attack in ATTACKS))
        return 0
    attacks = choose(options)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    settings = {
        "limits.send_window_ms": SEND_WINDOW_S * 1000,
        "limits.head_ms_max": HEAD_S * 1000,
        "limits.first_request_ms_max": FIRST_S * 1000,
        "limits.linger_ms_max": LINGER_S * 1000,
        "cache.descriptors_max": CACHED_FILES,
    }
    program = program_path(options.program)
    with Folder() as folder:
        folder.file(SMALL[1:], SMALL_BYTES)
        for at in range(LARGE_FILES):
            folder.file(LARGE.format(at)[1:], LARGE_BYTES)
        for at in range(OTHER_FILES):
            folder.file(OTHER.format(at)[1:], OTHER_BYTES)
        with Server(program, folder, options.architecture, settings) as server:
            if not all([hurry(pid) for pid in (server.process.pid, *server.workers())]):
                print("The server may not run before other programs: they disturb the p99.")
            good = Good(server, options)
            try:
                warm_up(server, good, options)
                name = options.architecture or "default architecture"
                table = Table(f"Attacks over HTTP/2, {options.seconds:g} s each: {name}")
                check = Check(options, table)
                for attack in attacks:
                    try:
                        check.attack(server, good, attack)
                    except GoodFailed as error:
                        table.row(attack.name, f"good clients fail: {error}", "none fails", False)
                        good.end()
                        good = Good(server, options)
            finally:
                good.end()
        return table.exit_code()


if __name__ == "__main__":
    run(main)
