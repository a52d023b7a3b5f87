#!/usr/bin/env python3
"""Reloads a server while many clients shake hands, and counts those that are lost."""

import selectors
import socket
import ssl
import subprocess
import time
from collections import Counter

from rig import (
    KIB, NAME, RSA_4096, CheckError, Folder, Server, Table, arguments, program_path, run,
)

EPILOG = """\
All clients connect at once, and send their first message before any of them reads. The key has RSA
with 4096 bits, so a worker needs seconds for all of them: most wait for their turn when the reload
begins. Each client sends one request, and reads the response to its closing alert. Before each
reload the certificate is replaced.

  while none, a tenth, half     clients that had their response when the reload was asked for
  two reloads                   the second is asked for as soon as the first is over

A client is lost if the server resets or closes its connection, refuses it, or answers otherwise, or
if it has no response in time. Takes at most three minutes. Exits 1 if a client is lost."""

PATH, BODY_BYTES = "/small.txt", 4 * KIB
# Seconds for a row, and for the whole check.
ROW_S, CHECK_S = 50, 170
# Seconds until a worker that waits serves nothing more of the configuration before.
RENEWED_S = 3
REQUEST = f"GET {PATH} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n".encode()
RECEIVE_BYTES = 64 * KIB
# Ends of a client.
ANSWERED, LATE = "answered", "no response in time"


class Client:
    """Client of one request. It never waits: the loop calls it when its socket is ready."""

    def __init__(self, address):
        self.plain = socket.socket()
        self.plain.setblocking(False)
        self.plain.connect_ex(address)
        self.sock = None
        self.received = bytearray()
        # Bytes of the certificate that the server has shown.
        self.certificate = None
        self.end = None

    def greet(self, context):
        """Sends the first message."""
        try:
            self.sock = context.wrap_socket(
                self.plain, server_hostname=NAME, do_handshake_on_connect=False,
                suppress_ragged_eofs=False,
            )
            self.turn()
        except OSError as error:
            self._over(type(error).__name__)

    def turn(self):
        """Does what is possible without waiting; true at the end."""
        try:
            if self.certificate is None:
                self.sock.do_handshake()
                self.certificate = self.sock.getpeercert(binary_form=True)
                self.sock.sendall(REQUEST)
            while received := self.sock.recv(RECEIVE_BYTES):
                self.received += received
            self._over(self._judge())
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except ssl.SSLEOFError:
            self._over("closed without an alert")
        except ssl.SSLError as error:
            self._over(error.reason or "fault of TLS")
        except OSError as error:
            self._over(type(error).__name__)
        return True

    def _judge(self):
        head, _, body = self.received.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            return head.split(b"\r\n")[0].decode(errors="replace") or "closed without a response"
        return ANSWERED if len(body) == BODY_BYTES else "part of a response"

    def _over(self, end):
        self.end = end

    def close(self):
        (self.sock or self.plain).close()


class Burst:
    """Clients that connect at once, and reloads while they shake hands."""

    def __init__(self, server, clients):
        self.server = server
        self.began = time.monotonic()
        self.clients = [Client(server.address) for _ in range(clients)]
        self.selector = selectors.DefaultSelector()
        self.reload = None
        # Clients that were open when the first reload was asked for, and when the last was over.
        self.open = []

    def run(self, context, share, reloads):
        """Has the clients shake hands. Asks for reloads when this share has been answered."""
        for client in self.clients:
            client.greet(context)
            if client.end is None:
                self.selector.register(client.sock, selectors.EVENT_READ, client)
        while time.monotonic() - self.began < ROW_S:
            for key, _ in self.selector.select(0.02):
                if key.data.turn():
                    self.selector.unregister(key.fileobj)
                    key.data.close()
            reloads -= self._reload(share, reloads)
            if not reloads and not self._unfinished():
                break
        for client in self._unfinished():
            client.end = LATE
            client.close()
        self.selector.close()

    def _reload(self, share, reloads):
        """Asks for a reload if it is time; 1 if one is over."""
        if self.reload is None and reloads:
            done = len(self.clients) - len(self._unfinished())
            if self.open or done >= share * len(self.clients):
                if not self.open:
                    self.open.append(len(self._unfinished()))
                command = [self.server.program, "reload", "--pid", str(self.server.process.pid)]
                self.reload = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        elif self.reload is not None and (code := self.reload.poll()) is not None:
            if code != 0:
                raise CheckError(f"the reload is refused:\n{self.server.log()}")
            self.reload = None
            if reloads == 1:
                self.open.append(len(self._unfinished()))
            return 1
        return 0

    def _unfinished(self):
        return [client for client in self.clients if client.end is None]

    def ends(self):
        return Counter(client.end for client in self.clients)

    def close(self):
        for client in self.clients:
            client.close()
        if self.reload is not None:
            self.reload.kill()
            self.reload.wait()


def renew(folder):
    """Replaces the certificate by the other one. Both are trusted."""
    for name in ("certificate", "key"):
        path = getattr(folder, name)
        other, spare = path.with_suffix(".other"), path.with_suffix(".spare")
        path.rename(spare)
        other.rename(path)
        spare.rename(other)


def shown(server, context):
    """The bytes of the certificate that a client receives now."""
    with socket.create_connection(server.address, timeout=ROW_S) as plain:
        with context.wrap_socket(plain, server_hostname=NAME) as sock:
            return sock.getpeercert(binary_form=True)


def is_replaced(server, context, before):
    """True if clients receive another certificate. A thread that waited in `accept` may serve one
    more client with the old one."""
    until = time.monotonic() + RENEWED_S
    while shown(server, context) == before:
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def try_row(table, server, folder, context, row, count):
    """One row: a burst, its reloads, and the certificate that clients receive behind it."""
    name, share, reloads = row
    before = shown(server, context)
    renew(folder)
    burst = Burst(server, count)
    try:
        burst.run(context, share, reloads)
    finally:
        burst.close()
    took = time.monotonic() - burst.began
    ends = burst.ends()
    lost = count - ends.pop(ANSWERED, 0)
    causes = "".join(f", {number} x {end}" for end, number in ends.most_common(3))
    waited = ", ".join(str(number) for number in burst.open)
    number = f"{lost} of {count} in {took:.1f} s; open {waited}{causes}"
    table.row(name, number, "0 lost", lost == 0)
    renewed = sum(client.certificate not in (None, before) for client in burst.clients)
    follows = is_replaced(server, context, before)
    table.row("  clients with the next certificate", f"{renewed}", "all that follow", follows)


def main():
    parser = arguments(__doc__, EPILOG)
    parser.add_argument("--clients", type=int, default=800)
    options = parser.parse_args()
    count, began = options.clients, time.monotonic()
    settings = {
        # The machine may be slow, or busy. What is judged is the end of each client.
        "tls.handshake_ms_max": 60_000, "limits.first_request_ms_max": 60_000,
        "server.drain_ms_max": 60_000,
    }
    rows = [
        ("reload while none is answered", 0, 1), ("reload while a tenth is", 0.1, 1),
        ("reload while half are", 0.5, 1), ("two reloads while none is", 0, 2),
    ]
    with Folder() as folder:
        folder.file(PATH.removeprefix("/"), BODY_BYTES)
        context = make_certificates(folder)
        program = program_path(options.program)
        with Server(program, folder, options.architecture, settings) as server:
            table = Table(f"{count} clients, RSA-4096, {options.architecture or 'default'}")
            for row in rows:
                if time.monotonic() - began > CHECK_S - ROW_S:
                    table.row(row[0], "no time for it", "0 lost", "?")
                    continue
                try_row(table, server, folder, context, row, count)
    return table.exit_code()


def make_certificates(folder):
    """Two certificates with RSA, and a context that trusts both."""
    folder.make_certificate(RSA_4096)
    for path in (folder.certificate, folder.key):
        path.rename(path.with_suffix(".other"))
    folder.make_certificate(RSA_4096)
    context = folder.trust("http/1.1")
    context.load_verify_locations(folder.certificate.with_suffix(".other"))
    return context


if __name__ == "__main__":
    run(main)
