#!/usr/bin/env python3
"""Measures the memory of HTTP/2 connections over TLS, and compares it with its bars."""

import resource
import time

from rig import (
    INITIAL_WINDOW_SIZE, KIB, MIB, PATIENCE, PREFACE, WINDOW_MAX, CheckError, Connection, Folder,
    Server, Table, arguments, block, ends_stream, frames, headers, is_settings_ack, private_dirty,
    program_path, request, run, settings_ack, settings_frame, window_update,
)

EPILOG = """\
Memory is the private dirty bytes of all workers (/proc/PID/smaps_rollup). The kernel's buffers of
sockets are not part of it. A number is the difference that this many connections make, divided by
their number. Connections in the same state are open before, so that the difference has no memory
that the first ones made and later ones use again.

Run it as root, or as the user that the server runs as. Exits 1 if a bar is missed."""

IDLE_BAR = 6 * KIB
STREAM_BAR = 192
WINDOWS_BAR = 16 * KIB
TCP_BAR = 192 * KIB
BURST_BAR = 2 * MIB

STREAMS = 100
# Connections that are open before the first measurement, for each connection measured.
FIRST_SHARE = 5
# Seconds in which workers have returned memory to the kernel.
RETURN_S = 13
# Nothing ends while it is measured.
LIMITS = {
    "limits.first_request_ms_max": 600_000,
    "limits.idle_ms_max": 600_000,
    "limits.send_window_ms": 600_000,
    "limits.head_ms_max": 600_000,
}
LARGE = "/large.bin"
LARGE_BYTES = 10 * MIB
SMALL = "/small.txt"
SMALL_BYTES = 4 * KIB
# Receive buffer of clients that do not read: the kernel holds little for them.
RECEIVE_BYTES = 8 * KIB


# States of a connection.


def shaken(server):
    """The handshake is over, and the server has sent its SETTINGS."""
    client = Connection(server)
    client.receive()
    return client


def began(server, window=None, receive_bytes=None):
    """Settings have been exchanged."""
    client = Connection(server, receive_bytes)
    settings = settings_frame() if window is None else settings_frame(window=window)
    client.send(PREFACE, settings, settings_ack())
    client.receive_until(is_settings_ack)
    return client


def asked(server, window=None):
    """One request has been answered."""
    client = began(server, window)
    method = "HEAD" if window == 0 else "GET"
    client.send(headers(1, request(SMALL, method)))
    client.receive_until(ends_stream)
    return client


def open_streams(client, first=3, path=LARGE):
    """Opens streams whose responses wait for windows, and receives their heads."""
    fields = block(request(path))
    numbers = range(first, first + 2 * STREAMS, 2)
    client.send(*(headers(number, fields) for number in numbers))
    rest = set(numbers)

    def is_last(frame):
        if isinstance(frame, frames.HeadersFrame):
            rest.discard(frame.stream_id)
        return not rest

    client.receive_until(is_last)


def stalled_by_window(server):
    """One response has used up its window."""
    client = began(server)
    client.send(headers(1, request(LARGE)))
    left = 65_535

    def is_last(frame):
        nonlocal left
        left -= len(frame.data) if isinstance(frame, frames.DataFrame) else 0
        return left == 0

    client.receive_until(is_last)
    return client


def stalled_streams(server):
    """A hundred responses wait for their first window."""
    client = asked(server, window=0)
    open_streams(client)
    return client


def stalled_by_tcp(server):
    """Windows are open, and the client does not read: four responses wait for TCP."""
    client = began(server, WINDOW_MAX, RECEIVE_BYTES)
    fields = block(request(LARGE))
    streams = (headers(number, fields) for number in range(1, 9, 2))
    client.send(window_update(0, WINDOW_MAX - 65_535), *streams)
    return client


def withdrawn(server):
    """Windows are taken back after the server has read files for them."""
    client = stalled_by_tcp(server)
    time.sleep(0.002)
    client.send(frames.SettingsFrame(0, settings={INITIAL_WINDOW_SIZE: 0}))
    client.receive_until(is_settings_ack)
    return client


# Measurements.


class Check:
    def __init__(self, options, folder, table):
        self.program, self.architecture = options.program, options.architecture
        self.connections, self.settle_s = options.connections, options.settle
        self.slow_s = options.slow_seconds
        self.folder, self.table = folder, table

    def server(self, settings=None):
        settings = {**LIMITS, **(settings or {})}
        return Server(self.program, self.folder, self.architecture, settings)

    def dirty(self, server):
        """Private dirty bytes of each worker, once they do not change any more."""
        before = None
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            time.sleep(self.settle_s)
            now = {pid: private_dirty(pid) for pid in server.workers()}
            if before is not None and abs(sum(now.values()) - sum(before.values())) < 64 * KIB:
                return now
            before = now
        raise CheckError("the memory of the workers does not settle")

    def total(self, server):
        return sum(self.dirty(server).values())

    def per_connection(self, state):
        """Bytes of a connection in this state."""
        with self.server() as server:
            held = [state(server) for _ in range(self.connections // FIRST_SHARE)]
            before = self.total(server)
            held += [state(server) for _ in range(self.connections)]
            bytes_each = (self.total(server) - before) / self.connections
            close(held)
            return bytes_each

    def connection_row(self, what, state, bar):
        bytes_each = self.per_connection(state)
        self.table.row(what, size(bytes_each), f"at most {size(bar)}", bytes_each <= bar)

    def per_stream(self, settings=None):
        """Bytes of a stream: connections are idle, then open their streams."""
        with self.server(settings) as server:
            held = [stalled_streams(server) for _ in range(self.connections // FIRST_SHARE)]
            idle = [asked(server, window=0) for _ in range(self.connections)]
            before = self.total(server)
            for client in idle:
                open_streams(client)
            bytes_each = (self.total(server) - before) / (STREAMS * self.connections)
            close(held + idle)
            return bytes_each

    def stream_rows(self):
        """Streams without and with their exchange, which the log needs."""
        bytes_each = self.per_stream()
        what = f"stream that waits for a window, {STREAMS} each"
        met = bytes_each <= STREAM_BAR
        self.table.row(what, size(bytes_each), f"at most {size(STREAM_BAR)}", met)
        log = {"log.access": str(self.folder.path / "access.log")}
        exchange = self.per_stream(log) - bytes_each
        self.table.row("its exchange, where the log keeps that", size(exchange))

    def burst_row(self, what, slow):
        """Memory that is left in a worker when slow readers have gone."""
        with self.server() as server:
            # The pools of all workers are in use once.
            close([read_slowly_once(server) for _ in range(64)])
            before = self.dirty(server)
            clients = [slow(server) for _ in range(self.connections)]
            most = self.read_slowly(server, clients)
            close(clients)
            # Workers return memory a while after connections have been closed.
            time.sleep(RETURN_S)
            after = self.dirty(server)
        more = max(after.get(pid, 0) - before.get(pid, 0) for pid in after)
        number = f"{mib(more)}; {mib(most - sum(before.values()))} of all workers at most before"
        self.table.row(what, number, f"at most {mib(BURST_BAR)}", more <= BURST_BAR)

    def read_slowly(self, server, clients):
        """Reads a little of each connection in turn for a while. Returns the most memory then."""
        most, until = 0, time.monotonic() + self.slow_s
        while time.monotonic() < until:
            for client in clients:
                read_a_little(client)
            most = max(most, sum(private_dirty(pid) for pid in server.workers()))
        return most


def read_a_little(client):
    client.sock.settimeout(0)
    try:
        received = len(client.sock.recv(4 * KIB))
    except OSError:
        # Nothing has arrived.
        received = 0
    client.sock.settimeout(PATIENCE)
    if client.grants and received > 0:
        client.send(window_update(0, received), window_update(1, received))


def slow_by_tcp(server):
    client = stalled_by_tcp(server)
    client.grants = False
    return client


def slow_by_window(server):
    client = began(server)
    client.send(headers(1, request(LARGE)))
    client.grants = True
    return client


def read_slowly_once(server):
    """A client that reads a whole response, in several windows."""
    client = began(server, 256 * KIB)
    client.send(window_update(0, WINDOW_MAX - 65_535), headers(1, request(LARGE)))
    left = LARGE_BYTES

    def is_last(frame):
        nonlocal left
        if isinstance(frame, frames.DataFrame):
            left -= len(frame.data)
            if left > 0:
                client.send(window_update(1, len(frame.data)))
        return left == 0

    client.receive_until(is_last)
    return client


def close(clients):
    for client in clients:
        client.close()


def size(number):
    return f"{number:,.0f} B"


def mib(number):
    return f"{number / MIB:.2f} MiB"


def main():
    parser = arguments(__doc__, EPILOG)
    parser.add_argument(
        "--connections", type=int, default=1_000, help="connections to measure (default: 1000)"
    )
    parser.add_argument(
        "--settle", type=float, default=0.5, metavar="S",
        help="seconds between two looks at memory that has to settle (default: 0.5)",
    )
    parser.add_argument(
        "--slow-seconds", type=float, default=8, metavar="S",
        help="seconds for which slow readers read (default: 8)",
    )
    options = parser.parse_args()
    options.program = program_path(options.program)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with Folder() as folder:
        folder.file(SMALL[1:], SMALL_BYTES)
        folder.file(LARGE[1:], LARGE_BYTES)
        name = options.architecture or "default architecture"
        table = Table(f"Memory of HTTP/2 over TLS: {name}")
        check = Check(options, folder, table)
        check.connection_row("idle connection after the handshake", shaken, IDLE_BAR)
        check.connection_row("idle connection after one request", asked, IDLE_BAR)
        check.stream_rows()
        check.connection_row("stalled by windows: one response", stalled_by_window, WINDOWS_BAR)
        streams_bar = WINDOWS_BAR + STREAMS * STREAM_BAR
        what = f"stalled by windows: {STREAMS} responses"
        check.connection_row(what, stalled_streams, streams_bar)
        check.connection_row("stalled by windows that were open before", withdrawn, WINDOWS_BAR)
        check.connection_row("stalled by TCP: four responses", stalled_by_tcp, TCP_BAR)
        check.burst_row("worker after a burst of slow readers, by TCP", slow_by_tcp)
        check.burst_row("worker after a burst of slow readers, by windows", slow_by_window)
        return table.exit_code()


if __name__ == "__main__":
    run(main)
