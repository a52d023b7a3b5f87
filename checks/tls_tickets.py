"""Cases of `tls_fuzzer.py` with tickets of sessions: true ones, altered ones and none.

`resumed` is the outcome of a request on a session that the server resumed.
"""

import hashlib
import os

from tls_cases import (
    ANSWER, DECODE, ILLEGAL, MAC, MALFORMED, UNEXPECTED, Case, alone, ask, first, greet, host,
    started,
)
from tls_peer import (
    CHANGE_CIPHER, DATA, EARLY_DATA, ECDHE_ECDSA, ECDHE_RSA, HANDSHAKE, MASTER_SECRET,
    PRE_SHARED_KEY, PSK_MODES, SERVER_NAME, SESSION_TICKET, End, Peer, digest, expand, plain,
    vector,
)

MODES = (PSK_MODES, b"\x01\x01")
RESUMED = ("resumed",)
# Bytes of a binder.
BINDER_BYTES = 32


def connect_13(peer):
    """Handshake of a client that takes tickets."""
    greet(peer, peer.hello(peer.extensions() + [MODES]))
    peer.finish()


def fetch(peer, start=connect_13):
    """Tickets of another connection, and the secret of its session in TLS 1.2."""
    other = Peer(peer.address, peer.timeout)
    try:
        start(other)
        if (outcome := ask(other)) != "response":
            raise End(f"{outcome} without a ticket")
        if not other.tickets:
            raise End("no ticket")
        return other.tickets, other.master
    finally:
        other.close()


def outcome_of(peer):
    """Finishes the handshake, and sends the request."""
    peer.finish()
    outcome = ask(peer)
    return "resumed" if peer.is_resumed and outcome == "response" else outcome


# TLS 1.3.


def identity(ticket, age=b"\0\0\0\0"):
    return vector(ticket) + age


def binder(secret, text):
    """Binder of a ticket, over a ClientHello without its binders (RFC 8446 §4.2.11.2)."""
    early = digest(bytes(32), secret)
    key = expand(early, b"res binder", hashlib.sha256(b"").digest())
    return digest(expand(key, b"finished"), hashlib.sha256(text).digest())


def offer(peer, tickets, rows=None, modes=MODES, age=b"\0\0\0\0", edit=list):
    """ClientHello with these tickets and their secrets, whose binders are edited."""
    peer.offered = [secret for _, secret in tickets]
    identities = vector(b"".join(identity(ticket, age) for ticket, _ in tickets))
    length = sum(1 + len(one) for one in edit([bytes(BINDER_BYTES)] * len(tickets)))
    rows = (peer.extensions() if rows is None else rows) + [modes] * (modes is not None)
    hello = peer.hello(rows + [(PRE_SHARED_KEY, identities + vector(bytes(length)))])
    text = hello[:-2 - length]
    binders = edit([binder(secret, text) for _, secret in tickets])
    return text + vector(b"".join(vector(one, 1) for one in binders))


def resume(edit=None, name=None, count=1, early=0, edit_binders=list, **more):
    """A case with tickets of another connection. `edit` alters the pairs of ticket and secret."""
    def play(peer):
        tickets = fetch(peer)[0][:count]
        tickets = edit(tickets) if edit else tickets
        rows = peer.extensions() + [(EARLY_DATA, b"")] * bool(early)
        if name is not None:
            rows = [(kind, host(name) if kind == SERVER_NAME else body) for kind, body in rows]
        hello = offer(peer, tickets, rows, edit=edit_binders, **more)
        peer.send(plain(HANDSHAKE, hello))
        peer.send(*(plain(DATA, os.urandom(100)) for _ in range(early)))
        peer.begin(hello)
        return outcome_of(peer)
    return play


def altered(at):
    def edit(tickets):
        (ticket, secret), *rest = tickets
        ticket = bytearray(ticket)
        ticket[at] ^= 1
        return [(bytes(ticket), secret), *rest]
    return edit


def wrong(binders):
    return [bytes([binders[0][0] ^ 1]) + binders[0][1:], *binders[1:]]


def sessions():
    group = "tls13-session-resumption"
    yield Case(group, "a ticket", resume(), RESUMED)
    yield Case(group, "two tickets", resume(count=2), RESUMED)
    yield Case(group, "the first is none", resume(altered(20), count=2), RESUMED)
    yield Case(group, "the second is none", resume(lambda both: [both[0], (b"none", bytes(32))],
                                                   count=2), RESUMED)
    for at in (0, 15, 16, 27, 28, 60, -17, -1):
        yield Case(group, f"byte {at} altered", resume(altered(at)), ANSWER)
    for length in (1, 15, 16, 28, 44, 60):
        yield Case(group, f"{length} bytes of it", resume(
            lambda one, n=length: [(one[0][0][:n], one[0][1])]), ANSWER)
    for more in (1, 16, 2_000, 12_000):
        yield Case(group, f"{more} bytes too many", resume(
            lambda one, n=more: [(one[0][0] + bytes(n), one[0][1])]), ANSWER)
    yield Case(group, "an age of weeks", resume(age=b"\xff\xff\xff\xff"), RESUMED)
    yield Case(group, "another name", resume(name=b"other.example"), ANSWER)
    yield Case(group, "without a new key", resume(modes=(PSK_MODES, b"\x01\0")), ANSWER)
    yield Case(group, "both modes", resume(modes=(PSK_MODES, b"\x02\0\1")), RESUMED)
    yield Case(group, "unknown modes", resume(modes=(PSK_MODES, b"\x02\x20\x21")), ANSWER)
    yield Case(group, "no modes", resume(modes=(PSK_MODES, b"\0")), MALFORMED)
    yield Case(group, "with early data", resume(early=3), RESUMED)
    yield Case(group, "more early data than is skipped", resume(early=200), MAC + UNEXPECTED)
    group = "tls13-psk-binder"
    fault = ("decrypt_error", "illegal_parameter")
    yield Case(group, "altered", resume(edit_binders=wrong), fault)
    yield Case(group, "of another secret", resume(lambda one: [(one[0][0], bytes(32))]), fault)
    yield Case(group, "33 bytes", resume(edit_binders=lambda one: [one[0] + b"x"]), fault + DECODE)
    yield Case(group, "one too many", resume(edit_binders=lambda one: one * 2), fault + DECODE)

    def again(peer):
        tickets = fetch(peer)[0][:1]
        other = Peer(peer.address, peer.timeout)
        try:
            greet(other, offer(other, tickets))
            if (outcome := outcome_of(other)) != "resumed":
                return outcome
        finally:
            other.close()
        greet(peer, offer(peer, tickets))
        return outcome_of(peer)
    yield Case("tls13-session-resumption", "the same ticket twice", again, RESUMED)


def no_sessions():
    group = "tls13-psk"
    one = identity(b"ticket")
    binders = vector(vector(b"b" * 32, 1))

    def last(*rows):
        return first(lambda peer: peer.hello(peer.extensions() + list(rows)))
    true = (PRE_SHARED_KEY, vector(one) + binders)
    yield Case(group, "a ticket that is none", last(MODES, true), ANSWER)
    yield Case(group, "not the last extension", last(MODES, true, (21, b"")), ILLEGAL)
    yield Case(group, "without modes", last(true), ("missing_extension",))
    short = (PRE_SHARED_KEY, vector(one) + vector(vector(b"b" * 31, 1)))
    yield Case(group, "a short binder", last(MODES, short), MALFORMED)
    two = (PRE_SHARED_KEY, vector(2 * one) + binders)
    yield Case(group, "fewer binders than tickets", last(MODES, two), ILLEGAL)
    for name, body in (("no ticket", b"\0\0" + binders), ("no binder", vector(one) + b"\0\0"),
                       ("empty ticket", vector(identity(b"")) + binders)):
        yield Case(group, name, last(MODES, (PRE_SHARED_KEY, body)), MALFORMED)

    def early(records, length):
        def play(peer):
            hello = peer.hello(peer.extensions() + [(EARLY_DATA, b""), MODES, true])
            peer.send(plain(HANDSHAKE, hello), plain(CHANGE_CIPHER, b"\x01"))
            peer.send(*(plain(DATA, os.urandom(length)) for _ in range(records)))
            peer.begin(hello)
            peer.finish()
            return ask(peer)
        return play
    group = "tls13-0rtt-garbage"
    for records, length in ((1, 100), (10, 1_000), (100, 100)):
        yield Case(group, f"{records} records of {length} bytes", early(records, length), ANSWER)
    yield Case(group, "more than the server skips", early(20, 1_000), MAC + UNEXPECTED)
    yield Case(group, "not offered", alone(lambda _: plain(DATA, os.urandom(100)), start=started),
               MAC + UNEXPECTED)


# TLS 1.2.


def hello_12(peer, ticket, extended=True):
    rows = [row for row in peer.extensions(versions=()) if extended or row[0] != MASTER_SECRET]
    return peer.hello(rows + [(SESSION_TICKET, ticket)], suites=(ECDHE_ECDSA, ECDHE_RSA))


def resume_12(edit=lambda ticket: ticket, extended=True, extended_before=True):
    def start(peer):
        greet(peer, hello_12(peer, b"", extended_before))
        peer.finish()

    def play(peer):
        tickets, master = fetch(peer, start)
        peer.offered = [master]
        greet(peer, hello_12(peer, edit(tickets[0]), extended))
        return outcome_of(peer)
    return play


def sessions_12():
    group = "session-ticket-resumption"
    yield Case(group, "a ticket", resume_12(), RESUMED)
    for at in (0, 20, 40):
        yield Case(group, f"byte {at} altered", resume_12(
            lambda ticket, at=at: ticket[:at] + bytes([ticket[at] ^ 1]) + ticket[at + 1:]), ANSWER)
    yield Case(group, "half of it", resume_12(lambda ticket: ticket[:len(ticket) // 2]), ANSWER)
    yield Case(group, "bytes behind it", resume_12(lambda ticket: ticket + b"x"), ANSWER)
    # RFC 7627 §5.3.
    group = "extended-master-secret-extension"
    yield Case(group, "resumed without it", resume_12(extended=False), ILLEGAL + (
        "handshake_failure",))
    yield Case(group, "resumed with it, begun without", resume_12(extended_before=False), ANSWER)
    yield Case(group, "neither", resume_12(extended=False, extended_before=False),
               RESUMED + ANSWER)

    def of_13(peer):
        (ticket, _), *_ = fetch(peer)[0]
        peer.offered = [bytes(48)]
        greet(peer, hello_12(peer, ticket))
        return outcome_of(peer)

    def of_12(peer):
        tickets, master = fetch(peer, lambda other: (
            greet(other, hello_12(other, b"")), other.finish()))
        greet(peer, offer(peer, [(tickets[0], master[:32])]))
        return outcome_of(peer)
    yield Case("session-ticket-resumption", "a ticket of TLS 1.3", of_13, ANSWER)
    yield Case("tls13-session-resumption", "a ticket of TLS 1.2", of_12, ANSWER)


def ticket_cases():
    yield from no_sessions()
    yield from sessions()
    yield from sessions_12()
