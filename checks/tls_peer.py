"""Client of TLS that can break each rule: it makes every byte that it sends.

TLS 1.3 and 1.2 with X25519 and AES-128-GCM. It judges no certificate: the server's messages are
read only as far as the keys need them.
"""

import hashlib
import hmac
import os
import socket
import struct
import sys

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError as error:
    sys.exit(f"{error}; install the client's package: pip install cryptography")

CHANGE_CIPHER, ALERT, HANDSHAKE, DATA, HEARTBEAT = 20, 21, 22, 23, 24
CLIENT_HELLO, SERVER_HELLO, NEW_TICKET, END_OF_EARLY_DATA = 1, 2, 4, 5
CERTIFICATE, SERVER_KEY, SERVER_DONE, CLIENT_KEY = 11, 12, 14, 16
FINISHED, KEY_UPDATE, MESSAGE_HASH = 20, 24, 254
WARNING, FATAL = 1, 2
TLS_1_2, TLS_1_3 = 0x0303, 0x0304
AES_128_GCM, ECDHE_ECDSA, ECDHE_RSA = 0x1301, 0xC02B, 0xC02F
# In TLS 1.2 the group of the server's certificate must be offered, too.
X25519, P_256 = 29, 23
# Extensions.
SERVER_NAME, GROUPS, SIGNATURES, ALPN, MASTER_SECRET = 0, 10, 13, 16, 23
SESSION_TICKET, PRE_SHARED_KEY, EARLY_DATA, VERSIONS, PSK_MODES, KEY_SHARE = 35, 41, 42, 43, 45, 51
RENEGOTIATION = 0xFF01
ALERTS = {
    0: "close_notify", 10: "unexpected_message", 20: "bad_record_mac", 22: "record_overflow",
    40: "handshake_failure", 42: "bad_certificate", 47: "illegal_parameter", 48: "unknown_ca",
    50: "decode_error", 51: "decrypt_error", 70: "protocol_version", 71: "insufficient_security",
    80: "internal_error", 86: "inappropriate_fallback", 90: "user_canceled",
    100: "no_renegotiation", 109: "missing_extension", 110: "unsupported_extension",
    112: "unrecognized_name", 116: "certificate_required", 120: "no_application_protocol",
}
CLOSE_NOTIFY, USER_CANCELED = 0, 90
# Random bytes of a ServerHello that asks for another ClientHello (RFC 8446 §4.1.3).
RETRY = hashlib.sha256(b"HelloRetryRequest").digest()
RECORD_BYTES_MAX = 1 << 14
TAG_BYTES = 16


class End(Exception):
    """The connection has ended, or nothing arrives in time."""


def vector(body, length_bytes=2):
    """Bytes behind their own number."""
    return len(body).to_bytes(length_bytes, "big") + body


def numbers(*values):
    """Numbers of two bytes."""
    return b"".join(struct.pack(">H", value) for value in values)


def message(kind, body):
    """Handshake message."""
    return bytes([kind]) + vector(body, 3)


def plain(kind, body, version=TLS_1_2):
    """Record in the clear."""
    return bytes([kind]) + numbers(version) + vector(body)


def digest(key, body):
    return hmac.new(key, body, hashlib.sha256).digest()


def expand(secret, label, context=b"", length=32):
    """HKDF-Expand-Label (RFC 8446 §7.1), of at most 32 bytes."""
    info = numbers(length) + vector(b"tls13 " + label, 1) + vector(context, 1)
    return digest(secret, info + b"\x01")[:length]


def prf(secret, label, seed, length):
    """Pseudorandom function of TLS 1.2 (RFC 5246 §5)."""
    seed, block, made = label + seed, label + seed, b""
    while len(made) < length:
        block = digest(secret, block)
        made += digest(secret, block + seed)
    return made[:length]


class Keys13:
    """Keys of one direction of TLS 1.3."""

    def __init__(self, secret):
        self.secret, self.sequence = secret, 0
        self.cipher = AESGCM(expand(secret, b"key", length=16))
        self.iv = int.from_bytes(expand(secret, b"iv", length=12), "big")

    def next(self):
        return Keys13(expand(self.secret, b"traffic upd"))

    def _nonce(self):
        nonce = (self.iv ^ self.sequence).to_bytes(12, "big")
        self.sequence += 1
        return nonce

    def seal_inner(self, inner, version=TLS_1_2):
        """Record with this inner plaintext, its type and padding included."""
        head = bytes([DATA]) + numbers(version, len(inner) + TAG_BYTES)
        return head + self.cipher.encrypt(self._nonce(), inner, head)

    def seal(self, kind, body, padding=0):
        return self.seal_inner(body + bytes([kind]) + bytes(padding))

    def open(self, head, body):
        inner = self.cipher.decrypt(self._nonce(), body, head).rstrip(b"\0")
        return inner[-1], inner[:-1]


class Keys12:
    """Keys of one direction of TLS 1.2."""

    def __init__(self, key, salt):
        self.cipher, self.salt, self.sequence = AESGCM(key), salt, 0

    def _aad(self, kind, length):
        sequence = struct.pack(">Q", self.sequence)
        self.sequence += 1
        return sequence, sequence + bytes([kind]) + numbers(TLS_1_2, length)

    def seal(self, kind, body):
        sequence, aad = self._aad(kind, len(body))
        return plain(kind, sequence + self.cipher.encrypt(self.salt + sequence, body, aad))

    def open(self, head, body):
        _, aad = self._aad(head[0], len(body) - 8 - TAG_BYTES)
        return head[0], self.cipher.decrypt(self.salt + body[:8], body[8:], aad)


class Peer:
    """Connection of a client."""

    def __init__(self, address, timeout):
        self.address, self.timeout = address, timeout
        self.sock = socket.create_connection(address, timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer, self.messages = bytearray(), bytearray()
        self.reads = self.writes = self.next_reads = self.next_writes = None
        self.is_13 = self.is_extended = False
        self.server_random = self.server_public = self.master = self.secret = b""
        self.transcript = b""
        self.private = X25519PrivateKey.generate()
        self.random = os.urandom(32)
        # Alerts that ended nothing, and messages of the server behind its handshake.
        self.warnings, self.later = [], []
        # Tickets of the server, and the secrets of those that are offered to it.
        self.tickets, self.offered = [], []
        self.is_resumed = False

    def close(self):
        self.sock.close()

    # Bytes to the server.

    def public(self):
        return self.private.public_key().public_bytes_raw()

    def extensions(self, versions=(TLS_1_3,)):
        """Extensions of a ClientHello: pairs of type and body."""
        share = vector(numbers(X25519) + vector(self.public()))
        rows = [
            (SERVER_NAME, vector(b"\0" + vector(b"localhost"))),
            (GROUPS, vector(numbers(X25519) if versions else numbers(X25519, P_256))),
            (SIGNATURES, vector(numbers(0x0403, 0x0804, 0x0401))),
            (ALPN, vector(vector(b"http/1.1", 1))),
            (RENEGOTIATION, b"\0"),
        ]
        if versions:
            rows += [(VERSIONS, vector(numbers(*versions), 1)), (KEY_SHARE, share)]
        else:
            rows += [(MASTER_SECRET, b"")]
        return rows

    def hello(self, extensions=None, version=TLS_1_2, session=b"s" * 32, methods=b"\0", tail=b"",
              suites=(AES_128_GCM, ECDHE_ECDSA, ECDHE_RSA)):
        """ClientHello."""
        rows = self.extensions() if extensions is None else extensions
        body = numbers(version) + self.random + vector(session, 1) + vector(numbers(*suites))
        body += vector(methods, 1)
        body += vector(b"".join(numbers(kind) + vector(row) for kind, row in rows)) + tail
        return message(CLIENT_HELLO, body)

    def send(self, *parts):
        try:
            self.sock.sendall(b"".join(parts))
        except OSError:
            # The end is seen when the client reads.
            pass

    def end(self):
        """Ends the stream to the server, without an alert."""
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def seal(self, kind, body, **more):
        return self.writes.seal(kind, body, **more) if self.writes else plain(kind, body)

    # Bytes of the server.

    def _fill(self, length):
        while len(self.buffer) < length:
            try:
                received = self.sock.recv(1 << 16)
            except TimeoutError:
                raise End("silence") from None
            except OSError:
                raise End("reset") from None
            if not received:
                raise End("closed")
            self.buffer += received

    def receive(self):
        """Type and contents of the next record."""
        self._fill(5)
        head = bytes(self.buffer[:5])
        end = 5 + int.from_bytes(head[3:], "big")
        self._fill(end)
        body = bytes(self.buffer[5:end])
        del self.buffer[:end]
        is_clear = isinstance(self.reads, Keys13) and head[0] != DATA
        if self.reads is None or is_clear:
            return head[0], body
        try:
            return self.reads.open(head, body)
        except InvalidTag:
            raise End("a record that cannot be opened") from None

    def alert(self, body):
        """Ends with this alert, unless it is a warning."""
        name = ALERTS.get(body[1], f"alert {body[1]}")
        if body[0] == WARNING and body[1] != CLOSE_NOTIFY:
            self.warnings.append(name)
            return
        raise End(name + self._after_alert())

    def _after_alert(self):
        try:
            self._fill(len(self.buffer) + 1)
        except End as end:
            return "" if str(end) == "closed" else f", {end}"
        return ", and more"

    def next_message(self):
        """The next handshake message, which becomes a part of the transcript."""
        while len(self.messages) < 4 or len(self.messages) < 4 + self._length():
            kind, body = self.receive()
            if kind == ALERT:
                self.alert(body)
            elif kind == HANDSHAKE:
                self.messages += body
            elif kind != CHANGE_CIPHER:
                raise End(f"a record of type {kind} in a handshake")
        end = 4 + self._length()
        made = bytes(self.messages[:end])
        del self.messages[:end]
        return made

    def _length(self):
        return int.from_bytes(self.messages[1:4], "big")

    # Handshakes.

    def begin(self, hello):
        """Notes a ClientHello that has been sent, and reads the answer up to the server's last
        message. TLS 1.3 asks for another ClientHello at most once."""
        self.transcript += hello
        answer = self.next_message()
        if answer[6:38] == RETRY:
            first = message(MESSAGE_HASH, hashlib.sha256(hello).digest())
            self.transcript = first + answer
            hello = self.hello()
            self.send(plain(HANDSHAKE, hello))
            self.transcript += hello
            answer = self.next_message()
        self.transcript += answer
        self.server_random = answer[6:38]
        at = 39 + answer[38]
        found = self._found(answer[at + 5:])
        self.is_13 = VERSIONS in found
        if self.is_13:
            self._begin_13(found)
        else:
            self._begin_12(MASTER_SECRET in found)

    @staticmethod
    def _found(rows):
        found = {}
        while rows:
            kind, length = struct.unpack(">HH", rows[:4])
            found[kind], rows = rows[4:4 + length], rows[4 + length:]
        return found

    def _derive(self, secret, label):
        return expand(secret, label, hashlib.sha256(self.transcript).digest())

    def _begin_13(self, found):
        shared = self.private.exchange(X25519PublicKey.from_public_bytes(found[KEY_SHARE][4:]))
        empty = hashlib.sha256(b"").digest()
        self.is_resumed = PRE_SHARED_KEY in found
        psk = bytes(32)
        if self.is_resumed:
            psk = self.offered[int.from_bytes(found[PRE_SHARED_KEY], "big")]
        early = digest(bytes(32), psk)
        secret = digest(expand(early, b"derived", empty), shared)
        self.writes = Keys13(self._derive(secret, b"c hs traffic"))
        self.reads = Keys13(self._derive(secret, b"s hs traffic"))
        while (made := self.next_message())[0] != FINISHED:
            self.transcript += made
        self.transcript += made
        secret = digest(expand(secret, b"derived", empty), bytes(32))
        self.secret = secret
        self.next_writes = Keys13(self._derive(secret, b"c ap traffic"))
        self.reads = Keys13(self._derive(secret, b"s ap traffic"))

    def _begin_12(self, is_extended):
        self.is_extended = is_extended
        while (made := self.next_message())[0] != SERVER_DONE:
            self.transcript += made
            if made[0] == SERVER_KEY:
                self.server_public = made[8:8 + made[7]]
            elif made[0] == NEW_TICKET:
                # The session is resumed: the server's last message is next.
                self.is_resumed = True
                self.master = self.offered[0]
                self._make_keys_12()
                self.await_end_12()
                return
        self.transcript += made

    def client_key(self):
        """ClientKeyExchange."""
        return message(CLIENT_KEY, vector(self.public(), 1))

    def agree(self, made):
        """Derives the keys of TLS 1.2 behind a ClientKeyExchange."""
        self.transcript += made
        shared = self.private.exchange(X25519PublicKey.from_public_bytes(self.server_public))
        label, seed = b"master secret", self.random + self.server_random
        if self.is_extended:
            label, seed = b"extended master secret", hashlib.sha256(self.transcript).digest()
        self.master = prf(shared, label, seed, 48)
        self._make_keys_12()

    def _make_keys_12(self):
        keys = prf(self.master, b"key expansion", self.server_random + self.random, 40)
        self.next_writes = Keys12(keys[:16], keys[32:36])
        self.next_reads = Keys12(keys[16:32], keys[36:40])

    def finished(self):
        """The client's last message."""
        seen = hashlib.sha256(self.transcript).digest()
        if self.is_13:
            return message(FINISHED, digest(expand(self.writes.secret, b"finished"), seen))
        return message(FINISHED, prf(self.master, b"client finished", seen, 12))

    def change_keys(self):
        """Seals with the next keys from now on."""
        self.writes = self.next_writes

    def finish(self):
        """Sends what remains of the handshake, and reads the server's last messages."""
        if self.is_13:
            made = self.finished()
            self.send(self.seal(HANDSHAKE, made))
            self.transcript += made
            return self.change_keys()
        if not self.is_resumed:
            made = self.client_key()
            self.send(plain(HANDSHAKE, made))
            self.agree(made)
        made = self.finished()
        self.send(plain(CHANGE_CIPHER, b"\x01"))
        self.change_keys()
        self.send(self.seal(HANDSHAKE, made))
        if not self.is_resumed:
            self.transcript += made
            self.await_end_12()
        return None

    def await_end_12(self):
        """Reads the server's last messages of TLS 1.2."""
        while (record := self.receive())[0] != CHANGE_CIPHER:
            if record[0] == ALERT:
                self.alert(record[1])
            elif record[0] == HANDSHAKE:
                self.tickets.append(record[1][10:])
        self.reads = self.next_reads
        made = self.next_message()
        if made[0] != FINISHED:
            raise End("no Finished")
        self.transcript += made

    def update_key(self, request=0):
        """Record with a KeyUpdate; the next record has the next key."""
        made = self.seal(HANDSHAKE, message(KEY_UPDATE, bytes([request])))
        self.writes = self.writes.next()
        return made

    # The end.

    def clear_status(self):
        """Status of a response in the clear; empty if it is none."""
        try:
            self._fill(12)
        except End as end:
            return str(end)
        return bytes(self.buffer[9:12]).decode(errors="replace")

    def outcome(self, body_bytes):
        """The server's answer to a request, or its end."""
        text = bytearray()
        while True:
            try:
                kind, body = self.receive()
                if kind == ALERT:
                    self.alert(body)
            except End as end:
                is_whole = text.startswith(b"HTTP/1.1 200 ") and str(end) == "close_notify"
                is_whole &= len(text.partition(b"\r\n\r\n")[2]) == body_bytes
                return "response" if is_whole else f"{'response cut, ' * bool(text)}{end}"
            if kind == DATA:
                text += body
            elif kind == HANDSHAKE:
                self._keep_messages(body)

    def _keep_messages(self, body):
        """Messages of a record behind the handshake."""
        while body:
            end = 4 + int.from_bytes(body[1:4], "big")
            self.later.append(body[0])
            if body[0] == KEY_UPDATE:
                self.reads = self.reads.next()
            elif body[0] == NEW_TICKET:
                self._keep_ticket(body[12:end])
            body = body[end:]

    def _keep_ticket(self, body):
        """Keeps a ticket of TLS 1.3, and its secret."""
        nonce, rest = body[1:1 + body[0]], body[1 + body[0]:]
        secret = self._derive(self.secret, b"res master")
        ticket = rest[2:2 + int.from_bytes(rest[:2], "big")]
        self.tickets.append((ticket, expand(secret, b"resumption", nonce)))
