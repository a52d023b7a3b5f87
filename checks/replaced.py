"""Files that are replaced while streams wait for windows. Where descriptors are scarce, the server
has closed them, and opens them again by their names.
"""

from collections import Counter
from dataclasses import dataclass, field

from attacks import other_streams, start, streams
from rig import (
    CODES, CheckError, Connection, block, ends_stream, frames, headers, hpack, request,
    window_update,
)

REPLACED_CASE = "scarce: files that are replaced while their streams wait"
# Connections that make descriptors scarce, and those whose files are replaced, of 100 streams each.
FILLERS, WAITERS, STREAMS = 10, 2, 100
# More than the cache keeps in memory, and than the server reads at once.
WAITING, WAITING_BYTES = "/waiting-{}.bin", 120_000
# A file that replaces another one is longer: a response could continue with it.
LONGER_BYTES = 1_000
INTERNAL_ERROR = 2


def content(number, is_new):
    """Bytes that differ at nearly each place from those of any other file."""
    length = WAITING_BYTES + LONGER_BYTES * is_new
    text = f"{'new' if is_new else 'old'} {number};".encode()
    return (text * (length // len(text) + 1))[:length]


@dataclass
class Stream:
    """A response: the number of its file, its status, what has come of it, and how it has ended."""

    number: int
    status: str | None = None
    body: bytearray = field(default_factory=bytearray)
    end: str | None = None

    def verdict(self):
        old, body = content(self.number, False), bytes(self.body)
        if self.end != "whole":
            # What has come before must be right, too.
            return self.end if old.startswith(body) else "mixed"
        if self.status != "200":
            return f"status {self.status}"
        return "whole" if body == old else "mixed"


class Waiter:
    """Connection with responses that wait for windows."""

    def __init__(self, server, first):
        self.connection, self.decoder = Connection(server), hpack.Decoder()
        self.streams = {
            stream: Stream(first + at) for at, stream in enumerate(streams(1, STREAMS))
        }
        gets = [
            headers(stream, block(request(WAITING.format(it.number))))
            for stream, it in self.streams.items()
        ]
        self.connection.send(start(*gets, window=0))

    def begin(self):
        """Receives all heads."""
        while any(it.status is None for it in self.streams.values()):
            self.take()

    def finish(self):
        """Opens all windows, and receives until each stream has ended."""
        each = WAITING_BYTES + LONGER_BYTES
        updates = [window_update(stream, each) for stream in self.streams if self.is_open(stream)]
        self.connection.send(window_update(0, len(self.streams) * each), *updates)
        while any(it.end is None for it in self.streams.values()):
            self.take()

    def is_open(self, stream):
        return self.streams[stream].end is None

    def take(self):
        frame = self.connection.receive()
        if frame is None or isinstance(frame, frames.GoAwayFrame):
            raise CheckError("the server ends the connection of a client whose files are replaced")
        stream = self.streams.get(frame.stream_id)
        if stream is None:
            return
        if isinstance(frame, frames.HeadersFrame):
            if "END_HEADERS" not in frame.flags:
                raise CheckError("a head of several frames")
            stream.status = dict(self.decoder.decode(frame.data))[":status"]
        elif isinstance(frame, frames.DataFrame):
            stream.body += frame.data
        elif isinstance(frame, frames.RstStreamFrame):
            is_internal = frame.error_code == INTERNAL_ERROR
            code = CODES.get(frame.error_code, str(frame.error_code))
            stream.end = "reset" if is_internal else f"reset ({code})"
            stream.status = stream.status or "RST_STREAM"
            return
        if ends_stream(frame):
            stream.end = "whole"


def receive_heads(connection):
    """Receives the heads of all streams, or their resets."""
    rest = STREAMS
    while rest:
        frame = connection.receive()
        if frame is None or isinstance(frame, frames.GoAwayFrame):
            raise CheckError("the server ends the connection of a client without windows")
        rest -= isinstance(frame, (frames.HeadersFrame, frames.RstStreamFrame))


def shown(verdicts):
    return ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())


def check_replaced_files(server, folder, table):
    """Replaces the files of every second stream, and judges all bodies."""
    for number in range(WAITERS * STREAMS):
        folder.replace(WAITING.format(number)[1:], content(number, False))
    fillers = [Connection(server) for _ in range(FILLERS)]
    for filler in fillers:
        filler.send(start(*other_streams(), window=0))
    for filler in fillers:
        receive_heads(filler)
    waiters = [Waiter(server, at * STREAMS) for at in range(WAITERS)]
    for waiter in waiters:
        waiter.begin()
    for number in range(0, WAITERS * STREAMS, 2):
        folder.replace(WAITING.format(number)[1:], content(number, True))
    for waiter in waiters:
        waiter.finish()
    verdicts = [Counter(), Counter()]
    for waiter in waiters:
        for stream in waiter.streams.values():
            verdicts[stream.number % 2][stream.verdict()] += 1
    for connection in [*fillers, *(waiter.connection for waiter in waiters)]:
        connection.close()
    replaced, kept = verdicts
    met = set(replaced) <= {"reset", "whole"}
    if met and not replaced["reset"]:
        met = "undecided"
    reasons = {True: "each is the old file, or is broken off", False: "another end, or other bytes"}
    reason = reasons.get(met, "no file was closed, so none was opened again")
    bar = "whole or INTERNAL_ERROR"
    table.row(REPLACED_CASE, shown(replaced), bar, met, reason)
    table.row("  files that stay the same", shown(kept), "all whole", set(kept) == {"whole"})
