"""Cases of `tls_fuzzer.py`: what a client sends, and how a server must answer.

The names of the groups are those of tlsfuzzer's scripts that ask the same. Each case is a function
of a new connection. It returns the outcome, or raises the end. Expected are the alerts that RFC
8446 and RFC 5246 name; where these leave it open, several.
"""

import itertools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from tls_peer import (
    AES_128_GCM, ALERT, ALPN, CERTIFICATE, CHANGE_CIPHER, CLIENT_HELLO, CLOSE_NOTIFY, DATA,
    ECDHE_ECDSA, ECDHE_RSA, END_OF_EARLY_DATA, FATAL, FINISHED, GROUPS, HANDSHAKE, HEARTBEAT,
    KEY_SHARE, KEY_UPDATE, MASTER_SECRET, NEW_TICKET, RECORD_BYTES_MAX, SERVER_NAME, SIGNATURES,
    TAG_BYTES, TLS_1_2, TLS_1_3, USER_CANCELED, VERSIONS, WARNING, X25519, message, numbers, plain,
    vector,
)

BODY_BYTES = 1 << 10
# Bytes of the usual ClientHello.
HELLO_BYTES = 190
REQUEST = b"GET /small.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
ANSWER = ("response",)
UNEXPECTED = ("unexpected_message",)
DECODE = ("decode_error",)
MALFORMED = ("decode_error", "illegal_parameter")
MAC = ("bad_record_mac",)
# Ends of a flood: bytes that the server has not read may destroy its alert.
FLOODED = UNEXPECTED + ("closed", "reset")
ILLEGAL = ("illegal_parameter",)


@dataclass
class Case:
    group: str
    name: str
    play: Callable
    # Outcomes that the standards allow.
    expected: tuple


def ask(peer):
    """Sends the request; the outcome is what follows."""
    peer.send(peer.seal(DATA, REQUEST))
    return peer.outcome(BODY_BYTES)


def greet(peer, hello, **more):
    peer.send(plain(HANDSHAKE, hello, **more))
    peer.begin(hello)


def proceed(peer, hello, **more):
    """Handshake with this first message, and the request."""
    greet(peer, hello, **more)
    peer.finish()
    return ask(peer)


def hello_12(peer, **more):
    more.setdefault("suites", (ECDHE_ECDSA, ECDHE_RSA))
    return peer.hello(peer.extensions(versions=()), **more)


def connect(peer):
    """Whole handshake of TLS 1.3."""
    greet(peer, peer.hello())
    peer.finish()


def connect_12(peer):
    greet(peer, hello_12(peer))
    peer.finish()


def after(make, start=connect):
    """A case that sends this behind the handshake, and then the request."""
    def play(peer):
        start(peer)
        peer.send(make(peer))
        return ask(peer)
    return play


def alone(make, start=connect):
    """The same without the request."""
    def play(peer):
        start(peer)
        peer.send(make(peer))
        return peer.outcome(BODY_BYTES)
    return play


def started(peer):
    """The server awaits the client's Finished."""
    greet(peer, peer.hello())


def first(make):
    """A case with this ClientHello."""
    return lambda peer: proceed(peer, make(peer))


def edited(*edits, **more):
    """A case with a ClientHello whose extensions are edited: pairs of a type, and its body, or
    `None` to leave it out. Others are added in front."""
    def make(peer):
        rows = peer.extensions()
        changes = {kind: body(peer) if callable(body) else body for kind, body in edits}
        rows = [(kind, changes.pop(kind, body)) for kind, body in rows]
        rows = list(changes.items()) + rows
        return peer.hello([row for row in rows if row[1] is not None], **more)
    return first(make)


# The first message.


def in_pieces(size, pause=0.0, one_record=False):
    """A ClientHello in pieces: records, or segments of one record."""
    def play(peer):
        hello = peer.hello()
        whole = plain(HANDSHAKE, hello) if one_record else hello
        for at in range(0, len(whole), size):
            piece = whole[at:at + size]
            peer.send(piece if one_record else plain(HANDSHAKE, piece))
            time.sleep(pause)
        peer.begin(hello)
        peer.finish()
        return ask(peer)
    return play


def split_at(at):
    def play(peer):
        hello = peer.hello()
        peer.send(plain(HANDSHAKE, hello[:at]), plain(HANDSHAKE, hello[at:]))
        peer.begin(hello)
        peer.finish()
        return ask(peer)
    return play


def fragmentation():
    rows = [(f"{size} bytes each", in_pieces(size)) for size in (1, 2, 3, 7, 50, 100)]
    rows += [("3 bytes each, 2 ms between", in_pieces(3, 0.002))]
    rows += [("a segment for each byte", in_pieces(1, one_record=True))]
    rows += [(f"in two at byte {at}", split_at(at)) for at in range(1, HELLO_BYTES)]
    for name, play in rows:
        yield Case("record-layer-fragmentation", name, play, ANSWER)

    def between(kind, body):
        def play(peer):
            hello = peer.hello()
            peer.send(plain(HANDSHAKE, hello[:20]), plain(kind, body), plain(HANDSHAKE, hello[20:]))
            return peer.outcome(BODY_BYTES)
        return play
    rows = [
        ("data", DATA, b"x", UNEXPECTED), ("an alert", ALERT, b"\1\x5a", UNEXPECTED),
        ("an empty record", HANDSHAKE, b"", UNEXPECTED + DECODE),
    ]
    for name, kind, body, expected in rows:
        yield Case("record-layer-fragmentation", f"{name} between", between(kind, body), expected)


def padded(length):
    """A ClientHello of this length."""
    def make(peer):
        rows = peer.extensions()
        missing = length - len(peer.hello(rows)) - 4
        return peer.hello([(21, bytes(missing))] + rows)
    return make


def sizes():
    group = "client-hello-max-size"
    for length in (512, 4_096, 16_000, RECORD_BYTES_MAX):
        yield Case(group, f"{length} bytes", first(padded(length)), ANSWER)
    yield Case(group, "a record with one byte too many", first(padded(RECORD_BYTES_MAX + 1)),
               ("record_overflow",))
    for count in (10, 100, 1_000, 3_900):
        rows = [(0x4000 + number, b"") for number in range(count)]
        yield Case("large-number-of-extensions", f"{count} unknown ones", edited(*rows), ANSWER)


def versions():
    group = "version-negotiation"
    grease = 0x7A7A
    offers = [
        ("GREASE first", (grease, TLS_1_3)), ("drafts and 1.4", (0x7F1C, 0x0305, TLS_1_3)),
        ("1.2 first", (TLS_1_2, TLS_1_3)), ("twice", (TLS_1_3, TLS_1_3)),
        ("old ones, too", (0x0300, 0x0301, 0x0302, TLS_1_3)),
    ]
    for name, offer in offers:
        yield Case(group, name, edited((VERSIONS, vector(numbers(*offer), 1))), ANSWER)
    for name, offer in (("1.4 alone", (0x0305,)), ("1.1 alone", (0x0302,)), ("SSL 3", (0x0300,))):
        yield Case(group, name, edited((VERSIONS, vector(numbers(*offer), 1))),
                   ("protocol_version",))
    yield Case(group, "empty list", edited((VERSIONS, b"\0")), MALFORMED)
    yield Case(group, "half a version", edited((VERSIONS, b"\x03\x03\x04\x03")), MALFORMED)
    yield Case(group, "bytes behind the list", edited((VERSIONS, b"\x02\x03\x04\0")), MALFORMED)
    for version in (0x0300, 0x0301, 0x0302, 0x0304, 0x0403, 0xFFFF):
        yield Case(group, f"legacy_version {version:#06x}", edited(version=version), ANSWER)
    for version in (0x0300, 0x0301, 0x0302, 0x0304, 0x03FF):
        yield Case(group, f"record's version {version:#06x}",
                   lambda peer, version=version: proceed(peer, peer.hello(), version=version),
                   ANSWER)
    for version in (0x0002, 0x0300, 0x0301, 0x0302):
        yield Case(group, f"no extension, version {version:#06x}",
                   first(lambda peer, version=version: hello_12(peer, version=version)),
                   ("protocol_version",))
    yield Case(group, "no extension, version 0x0304",
               first(lambda peer: hello_12(peer, version=0x0304)), ANSWER)
    yield Case(group, "a record of SSL 2", alone(lambda _: b"\x80\x2e\x01\x03\x01" + bytes(43),
                                                 start=lambda _: None),
               UNEXPECTED + DECODE + ("protocol_version",))


def shares(*rows):
    return vector(b"".join(numbers(group) + vector(body) for group, body in rows))


def host(name):
    """List of one name of a server."""
    return vector(b"\0" + vector(name))


def extensions():
    group = "tls13-keyshare"
    yield Case(group, "none of the groups: another ClientHello", edited((KEY_SHARE, b"\0\0")),
               ANSWER)
    yield Case(group, "GREASE first", edited(
        (GROUPS, vector(numbers(0x7A7A, X25519))),
        (KEY_SHARE, lambda peer: shares((0x7A7A, b"\0"), (X25519, peer.public()))),
    ), ANSWER)
    low = [("zero", bytes(32)), ("one", b"\x01" + bytes(31))]
    for name, body in low:
        yield Case(group, f"a point of low order: {name}",
                   edited((KEY_SHARE, shares((X25519, body)))), ILLEGAL)
    for length in (0, 31, 33):
        yield Case(group, f"{length} bytes", edited((KEY_SHARE, shares((X25519, b"k" * length)))),
                   MALFORMED)
    yield Case(group, "one group twice", edited(
        (KEY_SHARE, lambda peer: shares(*2 * [(X25519, peer.public())]))), ILLEGAL)
    yield Case(group, "list too long", edited((KEY_SHARE, b"\0\x40" + bytes(20))), DECODE)
    for name, kind in (("key_share", KEY_SHARE), ("supported_groups", GROUPS),
                       ("signature_algorithms", SIGNATURES)):
        yield Case("tls13-missing-extensions", name, edited((kind, None)),
                   ("missing_extension", "handshake_failure"))
    yield Case("tls13-nociphers", "no suite", edited(suites=()), MALFORMED + ("handshake_failure",))
    yield Case("tls13-nociphers", "unknown suites", edited(suites=(0xCACA, 0x00FF)),
               ("handshake_failure",))
    yield Case("tls13-nociphers", "an unknown suite first", edited(suites=(0xCACA, AES_128_GCM)),
               ANSWER)
    for name, body in (("no algorithm in common", vector(numbers(0x0201))),
                       ("unknown algorithms", vector(numbers(0xFEFE, 0xFDFD)))):
        yield Case("tls13-signature-algorithms", name, edited((SIGNATURES, body)),
                   ("handshake_failure",))
    yield Case("tls13-signature-algorithms", "empty list", edited((SIGNATURES, b"\0\0")),
               MALFORMED + ("handshake_failure",))
    yield Case("tls13-signature-algorithms", "half of one", edited((SIGNATURES, b"\0\x03\4\3\4")),
               DECODE)
    for name, methods in (("deflate alone", b"\x01"), ("deflate and none", b"\x01\0"),
                          ("none twice", b"\0\0"), ("empty", b"")):
        yield Case("invalid-compression-methods", name, edited(methods=methods), MALFORMED)
    for length in (0, 1, 32):
        yield Case("invalid-session-id", f"{length} bytes", edited(session=b"s" * length), ANSWER)
    for length in (33, 255):
        yield Case("invalid-session-id", f"{length} bytes", edited(session=b"s" * length),
                   MALFORMED)
    group = "alpn-negotiation"
    yield Case(group, "a protocol that is not served", edited((ALPN, vector(vector(b"h3", 1)))),
               ("no_application_protocol",))
    yield Case(group, "empty list", edited((ALPN, b"\0\0")), MALFORMED)
    yield Case(group, "empty name", edited((ALPN, vector(b"\0"))), MALFORMED)
    yield Case(group, "none", edited((ALPN, None)), ANSWER)
    group = "invalid-server-name-extension"
    named = ANSWER + MALFORMED + ("unrecognized_name",)
    rows = [
        ("empty list", b"\0\0", MALFORMED), ("no list", b"", MALFORMED),
        ("empty name", host(b""), MALFORMED), ("bytes behind it", host(b"a") + b"x", MALFORMED),
        ("a byte of zero", host(b"a\0b"), named), ("an address", host(b"127.0.0.1"), named),
        ("two names", vector(2 * (b"\0" + vector(b"a"))), named),
        ("300 bytes", host(b"a" * 300), named),
        ("another type", vector(b"\1" + vector(b"a")), named),
    ]
    for name, body, expected in rows:
        yield Case(group, name, edited((SERVER_NAME, body)), expected)
    yield Case("extensions", "one twice", first(
        lambda peer: peer.hello(peer.extensions() + [(ALPN, vector(vector(b"http/1.1", 1)))])),
        MALFORMED)
    yield Case("extensions", "bytes behind them", first(lambda peer: peer.hello(tail=b"\0")),
               DECODE)


# The handshake of TLS 1.3.


def cipher_changes():
    group = "tls13-ccs"

    def finish_behind(*records):
        def play(peer):
            started(peer)
            peer.send(*records)
            peer.finish()
            return ask(peer)
        return play
    one = plain(CHANGE_CIPHER, b"\x01")
    for count in (1, 2, 3, 32):
        yield Case(group, f"{count} records", finish_behind(*[one] * count), ANSWER)
    for name, body in (("two bytes", b"\1\1"), ("value 2", b"\2"), ("value 0", b"\0")):
        yield Case(group, name, finish_behind(plain(CHANGE_CIPHER, body)), UNEXPECTED)
    yield Case(group, "empty", finish_behind(plain(CHANGE_CIPHER, b"")), UNEXPECTED + DECODE)

    def before(peer):
        peer.send(one)
        return proceed(peer, peer.hello())
    yield Case(group, "before ClientHello", before, UNEXPECTED)
    yield Case(group, "sealed", alone(lambda peer: peer.seal(CHANGE_CIPHER, b"\x01"),
                                      start=started), UNEXPECTED)
    yield Case(group, "behind Finished", alone(lambda _: one), UNEXPECTED)
    yield Case(group, "sealed, behind Finished",
               alone(lambda peer: peer.seal(CHANGE_CIPHER, b"\x01")), UNEXPECTED)


def finished():
    group = "tls13-finished"

    def altered(edit):
        return alone(lambda peer: peer.seal(HANDSHAKE, edit(peer.finished())), start=started)

    def flip(at):
        def edit(made):
            made = bytearray(made)
            made[4 + at // 8] ^= 1 << at % 8
            return bytes(made)
        return edit
    for bit in range(0, 256, 8):
        yield Case(group, f"bit {bit} altered", altered(flip(bit)), ("decrypt_error",))
    wrong = ("decode_error", "decrypt_error")
    for length in (0, 1, 31):
        yield Case(group, f"{length} bytes",
                   altered(lambda made, n=length: message(FINISHED, made[4:4 + n])), wrong)
    for more in (1, 32, 16_000):
        yield Case(group, f"{more} bytes too many",
                   altered(lambda made, n=more: message(FINISHED, made[4:] + bytes(n))), wrong)
    rows = [("data", DATA, REQUEST), ("ClientHello", HANDSHAKE, message(CLIENT_HELLO, bytes(40))),
            ("KeyUpdate", HANDSHAKE, message(KEY_UPDATE, b"\0")),
            ("EndOfEarlyData", HANDSHAKE, message(END_OF_EARLY_DATA, b"")),
            ("Certificate", HANDSHAKE, message(CERTIFICATE, b"\0\0\0\0"))]
    for name, kind, body in rows:
        yield Case(group, f"{name} in its place",
                   alone(lambda peer, row=(kind, body): peer.seal(*row), start=started),
                   UNEXPECTED + DECODE)
    yield Case(group, "in the clear",
               alone(lambda peer: plain(HANDSHAKE, peer.finished()), start=started),
               UNEXPECTED + MAC + DECODE)

    def pieces(size):
        def play(peer):
            started(peer)
            made = peer.finished()
            peer.send(*(peer.seal(HANDSHAKE, made[at:at + size])
                        for at in range(0, len(made), size)))
            peer.change_keys()
            return ask(peer)
        return play
    for size in (1, 5, 20, 35):
        yield Case(group, f"in records of {size} bytes", pieces(size), ANSWER)

    def with_padding(peer):
        started(peer)
        peer.send(peer.seal(HANDSHAKE, peer.finished(), padding=1_000))
        peer.change_keys()
        return ask(peer)
    yield Case(group, "padded record", with_padding, ANSWER)
    yield Case(group, "a message behind it, with the old keys", alone(
        lambda peer: peer.seal(HANDSHAKE, peer.finished() + message(KEY_UPDATE, b"\0")),
        start=started), UNEXPECTED)


# Records of TLS 1.3.


def key_updates():
    group = "tls13-keyupdate"
    yield Case(group, "not asked for one", after(lambda peer: peer.update_key()), ANSWER)

    def asked(peer):
        connect(peer)
        peer.send(peer.update_key(1))
        outcome = ask(peer)
        if KEY_UPDATE not in peer.later:
            return f"{outcome}, without a KeyUpdate"
        return outcome
    yield Case(group, "asked for one", asked, ANSWER)
    yield Case(group, "30 in a row", after(
        lambda peer: b"".join(peer.update_key(number % 2) for number in range(30))), ANSWER)
    for count in (100, 1_000):
        yield Case(group, f"{count} in a row", after(
            lambda peer, n=count: b"".join(peer.update_key(1) for _ in range(n))), FLOODED)
        yield Case(group, f"{count}, an empty record between", after(
            lambda peer, n=count: b"".join(peer.update_key() + peer.seal(DATA, b"")
                                           for _ in range(n))), FLOODED)
    for value in (2, 255):
        yield Case(group, f"value {value}", after(lambda peer, v=value: peer.update_key(v)),
                   ILLEGAL)
    rows = [("empty", b""), ("two bytes", b"\0\0"), ("1,000 bytes", bytes(1_000))]
    for name, body in rows:
        yield Case(group, name, alone(
            lambda peer, body=body: peer.seal(HANDSHAKE, message(KEY_UPDATE, body))), DECODE)
    made = message(KEY_UPDATE, b"\0")
    yield Case(group, "two in a record", alone(lambda peer: peer.seal(HANDSHAKE, 2 * made)),
               UNEXPECTED)

    def pieces(peer):
        connect(peer)
        peer.send(*(peer.seal(HANDSHAKE, made[at:at + 1]) for at in range(len(made))))
        peer.writes = peer.writes.next()
        return ask(peer)
    yield Case(group, "a record for each byte", pieces, ANSWER)
    yield Case(group, "data between its pieces", alone(
        lambda peer: peer.seal(HANDSHAKE, made[:2]) + peer.seal(DATA, REQUEST)), UNEXPECTED)
    yield Case(group, "the old key behind it", after(
        lambda peer: peer.seal(HANDSHAKE, made)), MAC)


def records():
    group = "tls13-record-padding"
    for padding in (1, 2, 15, 16, 255, 256, 1_000, RECORD_BYTES_MAX - len(REQUEST)):
        def play(peer, padding=padding):
            connect(peer)
            peer.send(peer.seal(DATA, REQUEST, padding=padding))
            return peer.outcome(BODY_BYTES)
        yield Case(group, f"{padding} bytes", play, ANSWER)
    group = "tls13-record-layer-limits"
    yield Case(group, "one byte too many inside", alone(
        lambda peer: peer.seal(DATA, REQUEST, padding=RECORD_BYTES_MAX + 1 - len(REQUEST))),
        ("record_overflow",))
    yield Case(group, "256 bytes too many inside", alone(
        lambda peer: peer.writes.seal_inner(bytes(RECORD_BYTES_MAX) + bytes([DATA]) + bytes(
            256 - TAG_BYTES - 1))), ("record_overflow",))
    for length in (RECORD_BYTES_MAX + 257, 0x5000, 0xFFFF):
        yield Case(group, f"record of {length} bytes", alone(
            lambda _, n=length: bytes([DATA]) + numbers(TLS_1_2, n) + bytes(100)),
            ("record_overflow",))
        yield Case(group, f"first record of {length} bytes", alone(
            lambda _, n=length: bytes([HANDSHAKE]) + numbers(TLS_1_2, n) + bytes(100),
            start=lambda _: None), ("record_overflow",))
    group = "tls13-zero-length-data"

    def empty(count):
        return after(lambda peer: b"".join(peer.seal(DATA, b"") for _ in range(count)))
    for count in (1, 16, 30):
        yield Case(group, f"{count} empty records", empty(count), ANSWER)
    yield Case(group, "an empty record with padding", after(
        lambda peer: peer.seal(DATA, b"", padding=1_000)), ANSWER)
    yield Case(group, "1,000 empty records", empty(1_000), FLOODED)
    yield Case(group, "an empty piece of a handshake", alone(
        lambda peer: peer.seal(HANDSHAKE, b"")), UNEXPECTED)
    for length in (1, 100):
        yield Case(group, f"{length} zeros and no type", alone(
            lambda peer, n=length: peer.writes.seal_inner(bytes(n))), UNEXPECTED)
    yield Case(group, "nothing but what protects it", alone(
        lambda peer: peer.writes.seal_inner(b"")), UNEXPECTED + DECODE)
    yield Case(group, "record without contents", alone(lambda _: plain(DATA, b"")),
               UNEXPECTED + MAC + DECODE)
    yield Case(group, "record of 15 bytes", alone(lambda _: plain(DATA, bytes(15))), MAC + DECODE)
    yield from altered_records()


def altered_records():
    group = "tls13-fuzzed-ciphertext"

    def flipped(at):
        def make(peer):
            record = bytearray(peer.seal(DATA, REQUEST))
            record[at] ^= 1
            return bytes(record)
        return alone(make)
    for at in (5, 20, -17, -16, -1):
        yield Case(group, f"byte {at}", flipped(at), MAC)
    yield Case(group, "random bytes", alone(lambda _: plain(DATA, os.urandom(64))), MAC)
    yield Case(group, "version in the header", alone(
        lambda peer: peer.writes.seal_inner(REQUEST + bytes([DATA]), version=0x0301)), MAC + ANSWER)
    yield Case(group, "a record twice", alone(lambda peer: 2 * peer.update_key()), MAC)
    group = "tls13-unencrypted-record"
    for kind in (DATA, HANDSHAKE, ALERT, 99):
        yield Case(group, f"type {kind}", alone(lambda _, kind=kind: plain(kind, REQUEST)),
                   UNEXPECTED + MAC + DECODE)
    group = "tls13-unrecognised-type"
    for kind in (1, HEARTBEAT, 25, 99, 255):
        yield Case(group, f"type {kind} inside", alone(
            lambda peer, kind=kind: peer.seal(kind, b"x")), UNEXPECTED)
    yield Case(group, "first record of type 99", alone(
        lambda _: plain(99, bytes(40)), start=lambda _: None), UNEXPECTED)
    group = "tls13-post-handshake"
    rows = [("ClientHello", message(CLIENT_HELLO, bytes(50))), ("a ticket", message(NEW_TICKET,
            bytes(20))), ("Certificate", message(CERTIFICATE, bytes(4))),
            ("Finished", message(FINISHED, bytes(32))), ("unknown", message(99, bytes(4))),
            ("EndOfEarlyData", message(END_OF_EARLY_DATA, b""))]
    for name, made in rows:
        yield Case(group, name, alone(lambda peer, made=made: peer.seal(HANDSHAKE, made)),
                   UNEXPECTED + DECODE)
    yield Case(group, "a message of 16 MiB begins", alone(
        lambda peer: peer.seal(HANDSHAKE, b"\x18\xff\xff\xff") + b"".join(
            peer.seal(HANDSHAKE, bytes(8_000)) for _ in range(8))), UNEXPECTED + DECODE)


def alerts():
    group = "tls13-empty-alert"
    closed = ("closed",)

    def raised(*body):
        return lambda peer: peer.seal(ALERT, bytes(body))
    yield Case(group, "empty", alone(raised()), UNEXPECTED + DECODE)
    yield Case(group, "empty, in the handshake", alone(raised(), start=started),
               UNEXPECTED + DECODE)
    yield Case(group, "empty, before it", alone(
        lambda _: plain(ALERT, b""), start=lambda _: None), UNEXPECTED + DECODE)
    yield Case(group, "one byte", alone(raised(FATAL)), UNEXPECTED + DECODE)
    yield Case(group, "three bytes", alone(raised(FATAL, 80, 0)), UNEXPECTED + DECODE)
    yield Case(group, "two alerts", alone(raised(1, 90, 1, 90)), UNEXPECTED + DECODE)
    yield Case(group, "in two records", alone(
        lambda peer: peer.seal(ALERT, bytes([FATAL])) + peer.seal(ALERT, b"\x50")),
        UNEXPECTED + DECODE)
    group = "alerts"
    for level in (WARNING, FATAL):
        yield Case(group, f"close_notify, level {level}", alone(raised(level, CLOSE_NOTIFY)),
                   ("close_notify",))
    yield Case(group, "user_canceled and close_notify", alone(
        lambda peer: peer.seal(ALERT, bytes([WARNING, USER_CANCELED])) + peer.seal(
            ALERT, bytes([WARNING, CLOSE_NOTIFY]))), ("close_notify",))
    yield Case(group, "close_notify behind the request", alone(
        lambda peer: peer.seal(DATA, REQUEST) + peer.seal(ALERT, bytes([WARNING, CLOSE_NOTIFY]))),
        ANSWER)
    for name in (10, 40, 80, 255):
        yield Case(group, f"fatal {name}", alone(raised(FATAL, name)), closed)
        yield Case(group, f"fatal {name}, in the handshake", alone(
            raised(FATAL, name), start=started), closed)
    # All others than the two above are errors, whatever their level (RFC 8446 §6.2).
    yield Case(group, "warning 40", alone(raised(WARNING, 40)), closed + DECODE)
    yield Case(group, "level 3", alone(raised(3, 40)), closed + MALFORMED)
    yield Case(group, "in the middle of a head", alone(
        lambda peer: peer.seal(DATA, REQUEST[:20]) + peer.seal(ALERT, bytes([FATAL, 80]))), closed)


def closing():
    group = "connection-abort"
    goodbye = bytes([WARNING, CLOSE_NOTIFY])

    def ended(make, start=connect):
        def play(peer):
            start(peer)
            peer.send(make(peer))
            peer.end()
            return peer.outcome(BODY_BYTES)
        return play
    for name, start in (("1.3", connect), ("1.2", connect_12)):
        yield Case(group, f"{name}: request, end of the stream", ended(
            lambda peer: peer.seal(DATA, REQUEST), start), ANSWER)
        yield Case(group, f"{name}: request, close_notify, end", ended(
            lambda peer: peer.seal(DATA, REQUEST) + peer.seal(ALERT, goodbye), start), ANSWER)
        yield Case(group, f"{name}: half a request, end", ended(
            lambda peer: peer.seal(DATA, REQUEST[:20]), start), ("closed", "close_notify"))
        yield Case(group, f"{name}: end", ended(lambda _: b"", start), ("closed", "close_notify"))
        yield Case(group, f"{name}: half a record, end", ended(
            lambda peer: peer.seal(DATA, REQUEST)[:20], start), ("closed", "close_notify"))
        for count in (1, 100):
            yield Case(group, f"{name}: {count} requests behind close_notify", alone(
                lambda peer, n=count: peer.seal(ALERT, goodbye) + b"".join(
                    peer.seal(DATA, REQUEST) for _ in range(n)), start),
                ("close_notify", "close_notify, reset"))
    yield Case(group, "end before the handshake", ended(lambda _: b"", lambda _: None), ("closed",))
    yield Case(group, "end in the handshake", ended(lambda _: b"", started), ("closed",))
    yield Case(group, "half a ClientHello, end", ended(
        lambda peer: plain(HANDSHAKE, peer.hello())[:50], lambda _: None), ("closed",))


# TLS 1.2.


def answered_12(peer):
    greet(peer, hello_12(peer))


def exchange(edit_key=None, edit_finished=None, change=(plain(CHANGE_CIPHER, b"\x01"),)):
    """A handshake of TLS 1.2 with altered messages, and the request."""
    def play(peer):
        answered_12(peer)
        made = peer.client_key()
        sent = edit_key(made) if edit_key else made
        peer.send(plain(HANDSHAKE, sent))
        peer.agree(made)
        made = peer.finished()
        peer.send(*change)
        peer.change_keys()
        peer.send(peer.seal(HANDSHAKE, edit_finished(made) if edit_finished else made))
        peer.await_end_12()
        return ask(peer)
    return play


def tls_12():
    group = "tls12-conversation"
    yield Case(group, "a request", first(hello_12), ANSWER)
    yield Case(group, "without extended_master_secret", first(lambda peer: peer.hello(
        [row for row in peer.extensions(versions=()) if row[0] != MASTER_SECRET])), ANSWER)

    def marked(peer):
        answered_12(peer)
        return "marked" if peer.server_random.endswith(b"DOWNGRD\x01") else "not marked"
    yield Case(group, "downgrade is marked", marked, ("marked",))
    yield Case(group, "TLS_FALLBACK_SCSV", first(lambda peer: hello_12(
        peer, suites=(ECDHE_ECDSA, ECDHE_RSA, 0x5600))), ("inappropriate_fallback",))
    group = "fuzzed-finished"

    def flip(at):
        def edit(made):
            made = bytearray(made)
            made[4 + at] ^= 1
            return bytes(made)
        return exchange(edit_finished=edit)
    for at in range(12):
        yield Case(group, f"byte {at}", flip(at), ("decrypt_error",))
    for length in (0, 11, 13):
        yield Case(group, f"{length} bytes", exchange(edit_finished=lambda made, n=length: message(
            FINISHED, (made[4:] + b"x")[:n])), ("decode_error", "decrypt_error"))
    group = "ecdhe-padded-shared-secret"
    rows = [("a point of low order", vector(bytes(32), 1)), ("empty", b"\0"), ("none", b""),
            ("31 bytes", vector(b"k" * 31, 1)), ("33 bytes", vector(b"k" * 33, 1)),
            ("bytes behind it", vector(b"k" * 32, 1) + b"x")]
    for name, body in rows:
        yield Case(group, name, exchange(edit_key=lambda _, body=body: message(16, body)),
                   MALFORMED + UNEXPECTED + ("handshake_failure",))
    group = "message-skipping"
    one = plain(CHANGE_CIPHER, b"\x01")
    yield Case(group, "no ClientKeyExchange", alone(lambda _: one, start=answered_12), UNEXPECTED)
    yield Case(group, "Finished in its place", alone(
        lambda _: plain(HANDSHAKE, message(FINISHED, bytes(12))), start=answered_12), UNEXPECTED)
    yield Case(group, "data in its place", alone(
        lambda _: plain(DATA, REQUEST), start=answered_12), UNEXPECTED)
    yield Case(group, "ClientHello in its place", alone(
        lambda peer: plain(HANDSHAKE, hello_12(peer)), start=answered_12), UNEXPECTED)
    yield Case(group, "no ChangeCipherSpec", exchange(change=()), UNEXPECTED + DECODE)
    yield Case(group, "ChangeCipherSpec twice", exchange(change=(one, one)),
               UNEXPECTED + MAC + DECODE)
    yield Case(group, "ChangeCipherSpec of two bytes", exchange(
        change=(plain(CHANGE_CIPHER, b"\1\1"),)), UNEXPECTED + DECODE)
    yield from sessions_12()


def sessions_12():
    group = "renegotiation-disabled"

    def renegotiate(count):
        def play(peer):
            connect_12(peer)
            peer.send(*(peer.seal(HANDSHAKE, hello_12(peer)) for _ in range(count)))
            outcome = ask(peer)
            return outcome + "".join(f", {name}" for name in set(peer.warnings))
        return play
    yield Case(group, "once", renegotiate(1),
               ("response, no_renegotiation", "handshake_failure", "unexpected_message"))
    yield Case(group, "100 times", renegotiate(100), (
        "closed, no_renegotiation", "reset, no_renegotiation", "handshake_failure",
        "unexpected_message, no_renegotiation"))
    group = "tls12-records"

    def sealed(*parts):
        return alone(lambda peer: b"".join(peer.seal(*part) for part in parts), start=connect_12)
    yield Case(group, "30 empty records", sealed(*[(DATA, b"")] * 30, (DATA, REQUEST)), ANSWER)
    yield Case(group, "1,000 empty records", sealed(*[(DATA, b"")] * 1_000, (DATA, REQUEST)),
               FLOODED)
    yield Case(group, "one byte each", sealed(*((DATA, REQUEST[at:at + 1])
                                                for at in range(len(REQUEST)))), ANSWER)
    yield Case(group, "too long", sealed((DATA, bytes(RECORD_BYTES_MAX + 1))), ("record_overflow",))
    yield Case(group, "random bytes", alone(lambda _: plain(DATA, os.urandom(64)), connect_12), MAC)
    yield Case(group, "in the clear", alone(lambda _: plain(DATA, REQUEST), connect_12), MAC)
    yield Case(group, "ChangeCipherSpec", sealed((CHANGE_CIPHER, b"\x01")), UNEXPECTED + DECODE)
    for kind in (HEARTBEAT, 99):
        yield Case(group, f"type {kind}", sealed((kind, b"\x01\xff\xff")), UNEXPECTED + DECODE)
    for kind, name in ((FINISHED, "Finished"), (16, "ClientKeyExchange"), (99, "unknown message")):
        yield Case(group, name, sealed((HANDSHAKE, message(kind, bytes(12)))), UNEXPECTED + DECODE)
    for level in (WARNING, FATAL):
        yield Case("tls12-alerts", f"close_notify, level {level}", sealed(
            (ALERT, bytes([level, CLOSE_NOTIFY]))), ("close_notify",))
    yield Case("tls12-alerts", "a warning", sealed((ALERT, b"\1\x5a"), (DATA, REQUEST)), ANSWER)
    yield Case("tls12-alerts", "100 warnings", sealed(
        *[(ALERT, b"\1\x5a")] * 100, (DATA, REQUEST)), FLOODED)
    yield Case("tls12-alerts", "fatal", sealed((ALERT, b"\2\x50")), ("closed",))
    yield Case("tls12-alerts", "empty", sealed((ALERT, b"")), UNEXPECTED + DECODE)


def truncated():
    """A ClientHello with one length that is not true."""
    def play(at, by):
        def alter(peer):
            hello = bytearray(peer.hello())
            hello[at] = (hello[at] + by) % 256
            return bytes(hello)
        return first(alter)
    # Lengths of the session, suites, methods and extensions, and of the first extension's parts.
    session = 4 + 2 + 32
    suites = session + 1 + 32
    methods = suites + 2 + 6
    rows = methods + 2
    places = {
        "session": session, "suites": suites + 1, "methods": methods, "extensions": rows + 1,
        "first extension": rows + 5, "list of names": rows + 7, "name": rows + 10,
    }
    for (name, at), by in itertools.product(places.items(), (-1, 1)):
        name = f"length of {name} {by:+}"
        yield Case("truncating-of-client-hello", name, play(at, by), MALFORMED)


def conversation():
    yield Case("tls13-conversation", "a request", first(lambda peer: peer.hello()), ANSWER)

    def by_bytes(peer):
        connect(peer)
        peer.send(*(peer.seal(DATA, REQUEST[at:at + 1]) for at in range(len(REQUEST))))
        return peer.outcome(BODY_BYTES)
    yield Case("tls13-conversation", "a record for each byte of a request", by_bytes, ANSWER)

    def at_once(peer):
        started(peer)
        made = peer.seal(HANDSHAKE, peer.finished())
        peer.change_keys()
        peer.send(made, peer.seal(DATA, REQUEST))
        return peer.outcome(BODY_BYTES)
    yield Case("tls13-conversation", "Finished and the request in one segment", at_once, ANSWER)

    def in_the_clear(peer):
        peer.send(REQUEST)
        return peer.clear_status()
    yield Case("tls13-conversation", "in the clear", in_the_clear, ("400",))


def all_cases():
    groups = (
        conversation, fragmentation, sizes, truncated, versions, extensions, cipher_changes,
        finished, key_updates, records, alerts, closing, tls_12,
    )
    for group in groups:
        yield from group()
