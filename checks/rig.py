"""Parts that the checks share: a server of their own, a connection of HTTP/2, and a table. The
packages of HTTP/2 are imported here.

The server is a program with a command line, and everything else here is a client. Nothing of the
Rust tests is used: a mistake of ours in frames or field compression cannot hide on both sides.
"""

import argparse
import json
import os
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path

try:
    import h2.config
    import h2.connection
    import h2.events
    import h2.exceptions  # noqa: F401
    import hpack
    from hyperframe import frame as frames
except ImportError as error:
    sys.exit(f"{error}; install the clients' packages: pip install h2 hpack hyperframe")

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_HEAD_BYTES = 9
HEADER_TABLE_SIZE, ENABLE_PUSH, INITIAL_WINDOW_SIZE = 1, 2, 4
WINDOW_MAX = 2**31 - 1
PRIORITY_UPDATE = 0x10
CODES = {
    0: "NO_ERROR", 1: "PROTOCOL_ERROR", 2: "INTERNAL_ERROR", 3: "FLOW_CONTROL_ERROR",
    5: "STREAM_CLOSED", 6: "FRAME_SIZE_ERROR", 7: "REFUSED_STREAM", 9: "COMPRESSION_ERROR",
    11: "ENHANCE_YOUR_CALM",
}
# Seconds for a server to start, to answer, and to exit.
PATIENCE = 30
KIB, MIB = 1 << 10, 1 << 20
# Name in the certificate.
NAME = "localhost"
# Kinds of keys, as `openssl req` names them.
P_256 = ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
RSA_4096 = ["rsa:4096"]


class CheckError(Exception):
    """A check cannot continue: the server or a tool misbehaves."""


# The server.


class Folder:
    """Temporary directory with a site, a certificate and a configuration, removed at the end."""

    def __init__(self):
        self.path = Path(tempfile.mkdtemp(prefix="regatta-check-"))
        # Workers may run as another user.
        self.path.chmod(0o755)
        self.site = self.path / "site"
        self.site.mkdir(mode=0o755)
        self.certificate = self.path / "certificate.pem"
        self.key = self.path / "key.pem"

    def __enter__(self):
        self.make_certificate()
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def file(self, name, length):
        """Makes a file of this length. A long one is sparse: it takes no room on the disk."""
        path = self.site / name
        if length <= MIB:
            path.write_bytes((b"0123456789abcdef" * (length // 16 + 1))[:length])
        else:
            with path.open("wb") as file:
                file.truncate(length)
        path.chmod(0o644)

    def replace(self, name, content):
        """Puts a file with this content in the place of a name, as a deployment does."""
        new = self.path / "new"
        new.write_bytes(content)
        new.chmod(0o644)
        new.rename(self.site / name)

    def make_certificate(self, kind=P_256):
        """Makes a certificate, which replaces the one before."""
        command = ["openssl", "req", "-x509", "-newkey", *kind]
        command += ["-nodes", "-days", "2", "-subj", f"/CN={NAME}"]
        command += ["-addext", f"subjectAltName=DNS:{NAME}"]
        command += ["-keyout", str(self.key), "-out", str(self.certificate)]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise CheckError(f"openssl req made no certificate: {made.stderr.strip()}")

    def trust(self, protocol="h2"):
        """Context of clients that trust the certificate and speak this protocol."""
        context = ssl.create_default_context(cafile=str(self.certificate))
        context.set_alpn_protocols([protocol])
        return context


def toml(value):
    """A value in TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml(part) for part in value) + "]"
    return str(value) if isinstance(value, int) else f'"{value}"'


class Server:
    """A server with one address with TLS; ended at the end of the block. `descriptors_max` is its
    limit on descriptors (RLIMIT_NOFILE).
    """

    def __init__(self, program, folder, architecture=None, settings=None, descriptors_max=None):
        self.program, self.folder, self.architecture = program, folder, architecture
        self.descriptors_max = descriptors_max
        self.context = folder.trust()
        self.settings = {
            "server.root": str(folder.site),
            "server.listen": [],
            "tls.listen": ["127.0.0.1:0"],
            "tls.certificate": [f"{folder.certificate}:{folder.key}"],
            **(settings or {}),
        }
        self.process = None
        self.address = None

    def __enter__(self):
        config = self.folder.path / "regatta.toml"
        config.write_text(self._config())
        command = [self.program, "serve", "--config", str(config)]
        if self.architecture:
            command += ["--architecture", self.architecture]
        self.output = self.folder.path / "server.log"
        with self.output.open("w") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=self._limit_descriptors if self.descriptors_max else None,
            )
        try:
            self._wait()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_):
        self._stop()

    def _limit_descriptors(self):
        resource.setrlimit(resource.RLIMIT_NOFILE, (self.descriptors_max, self.descriptors_max))

    def _config(self):
        sections = {}
        for key, value in self.settings.items():
            section, name = key.split(".", 1)
            sections.setdefault(section, []).append(f"{name} = {toml(value)}")
        return "\n".join(f"[{name}]\n" + "\n".join(rows) for name, rows in sections.items()) + "\n"

    def _wait(self):
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and self.process.poll() is None:
            for line in self.output.read_text().splitlines():
                if line.startswith("listening on https://"):
                    host, port = line.removeprefix("listening on https://").rsplit(":", 1)
                    self.address = (host, int(port))
                    return
            time.sleep(0.02)
        raise CheckError(f"{self.program} does not start:\n{self.output.read_text()}")

    def _stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def workers(self):
        """Processes that the master has started, and theirs."""
        found, rest = [], [self.process.pid]
        while rest:
            children = children_of(rest.pop())
            found += children
            rest += children
        return sorted(found)

    def log(self):
        """Messages of the server."""
        return self.output.read_text()


def hurry(pid):
    """Runs all threads of a process before those of others; 0 is this one. False without the right
    to.
    """
    try:
        for task in os.listdir(f"/proc/{pid or 'self'}/task"):
            os.sched_setscheduler(int(task), os.SCHED_RR, os.sched_param(1))
    except OSError:
        return False
    return True


def children_of(pid):
    try:
        tasks = [path / "children" for path in Path(f"/proc/{pid}/task").iterdir()]
        return [int(child) for task in tasks for child in task.read_text().split()]
    except OSError:
        return []


# Memory and descriptors.


def _kilobytes(path, names):
    try:
        lines = [line.split() for line in Path(path).read_text().splitlines()]
    except ProcessLookupError:
        return [0] * len(names)
    except PermissionError as error:
        raise CheckError(f"{path} is not readable: run as root, or as the server's user") from error
    found = {line[0]: int(line[1]) * KIB for line in lines if line and line[0] in names}
    return [found.get(name, 0) for name in names]


def private_dirty(pid):
    """Private dirty bytes of a process: what it would return if it ended."""
    return _kilobytes(f"/proc/{pid}/smaps_rollup", ["Private_Dirty:"])[0]


def rss_and_pss(pid):
    """Resident and proportional set size of a process, bytes."""
    rss = _kilobytes(f"/proc/{pid}/status", ["VmRSS:"])
    return rss[0], _kilobytes(f"/proc/{pid}/smaps_rollup", ["Pss:"])[0]


def descriptors(pid):
    """The number of descriptors of a process."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except FileNotFoundError:
        return 0


# The client.


def serialize(*parts):
    """The bytes of frames; bytes are passed through."""
    return b"".join(part if isinstance(part, bytes) else part.serialize() for part in parts)


def settings_frame(**values):
    """SETTINGS with a window of streams, and without push."""
    names = {"window": INITIAL_WINDOW_SIZE, "table": HEADER_TABLE_SIZE}
    settings = {names[name]: value for name, value in values.items()}
    return frames.SettingsFrame(0, settings={ENABLE_PUSH: 0, **settings})


def settings_ack():
    return frames.SettingsFrame(0, flags=["ACK"])


def request(path, method="GET", more=()):
    """Fields of a request."""
    base = [(":method", method), (":scheme", "https"), (":authority", NAME), (":path", path)]
    return base + list(more)


def block(fields):
    """A field block without a dynamic table: it means the same on any connection."""
    never = [hpack.NeverIndexedHeaderTuple(*field) for field in fields]
    return hpack.Encoder().encode(never)


def extension(kind, body=b""):
    """A frame of the connection, of a type that hyperframe does not know."""
    frame = frames.ExtensionFrame(kind, 0, body=body)
    frame.body_len = len(body)
    return frame


def headers(stream, fields, ends_stream=True):
    """HEADERS with a whole field block: bytes, or a list of fields."""
    data = fields if isinstance(fields, bytes) else block(fields)
    flags = ["END_HEADERS"] + ["END_STREAM"] * ends_stream
    return frames.HeadersFrame(stream, data, flags=flags)


def window_update(stream, increment):
    return frames.WindowUpdateFrame(stream, window_increment=increment)


class Connection:
    """Connection of a client over TLS, of frames. It reads only when it is told to."""

    def __init__(self, server, receive_bytes=None, timeout=PATIENCE):
        self.plain = socket.socket()
        self.plain.settimeout(timeout)
        if receive_bytes is not None:
            self.plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.plain.connect(server.address)
        self.plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = server.context.wrap_socket(self.plain, server_hostname=NAME)
        if self.sock.selected_alpn_protocol() != "h2":
            raise CheckError("the server does not speak HTTP/2 (ALPN)")
        self.buffer = bytearray()

    def send(self, *parts):
        self.sock.sendall(serialize(*parts))

    def receive(self):
        """The next frame; `None` at the end of the connection."""
        while (frame := self.take()) is None:
            received = self.sock.recv(64 * KIB)
            if not received:
                return None
            self.buffer += received
        return frame

    def take(self):
        """The next frame of those received; `None` if it is not whole."""
        if len(self.buffer) < FRAME_HEAD_BYTES:
            return None
        frame, length = frames.Frame.parse_frame_header(memoryview(self.buffer[:FRAME_HEAD_BYTES]))
        end = FRAME_HEAD_BYTES + length
        if len(self.buffer) < end:
            return None
        frame.parse_body(memoryview(bytes(self.buffer[FRAME_HEAD_BYTES:end])))
        del self.buffer[:end]
        return frame

    def receive_until(self, is_last):
        """Receives up to the frame for which this is true, and returns it."""
        while (frame := self.receive()) is not None:
            if is_last(frame):
                return frame
            if isinstance(frame, frames.GoAwayFrame):
                code = CODES.get(frame.error_code, frame.error_code)
                raise CheckError(f"the server sends GOAWAY({code}) to a good client")
        raise CheckError("the server closes the connection of a good client")

    def close(self):
        self.sock.close()


def is_settings_ack(frame):
    return isinstance(frame, frames.SettingsFrame) and "ACK" in frame.flags


def ends_stream(frame):
    return "END_STREAM" in frame.flags


# The table.


class Table:
    """Rows with a number and perhaps a bar, printed as soon as they are known."""

    WIDTHS = (51, 62, 30)
    HEADS = ("what", "number", "bar")
    # In the order of the summary.
    VERDICTS = ("missed", "undecided", "met")

    def __init__(self, title=None):
        # One for each row that has a bar.
        self.rows = []
        self.subject = ""
        if title:
            self.begin(title)

    def begin(self, title):
        """Begins another part of the table."""
        print(f"\n{title}\n")
        self._print(self.WIDTHS, *self.HEADS, "met?")
        self._print(self.WIDTHS, *("-" * width for width in self.WIDTHS), "----")

    def _print(self, widths, *cells):
        padded = [cell.ljust(width) for cell, width in zip(cells, widths)]
        print(" | ".join([*padded, cells[-1]]), flush=True)

    def row(self, what, number, bar="-", met=None, reason=None):
        """`met`: true or false, a word if that is undecided, or `None` if there is no bar.
        `reason`: why; otherwise the number and the bar say it. A row whose name begins with spaces
        belongs to the last one whose name does not.
        """
        if not what.startswith(" "):
            self.subject = what
        words = {True: "yes", False: "NO", None: "-"}
        self._print(self.WIDTHS, what, number, bar, words.get(met, met))
        if met is not None:
            verdict = {True: "met", False: "missed"}.get(met, "undecided")
            row = {"case": self.subject, "row": what.strip(), "number": number, "bar": bar}
            self.rows.append({**row, "verdict": verdict, "reason": reason or f"{number}; {bar}"})

    def counts(self):
        """Number of rows with each verdict."""
        verdicts = [row["verdict"] for row in self.rows]
        return {verdict: verdicts.count(verdict) for verdict in self.VERDICTS}

    def summary(self):
        """Prints the verdict of each row that has a bar, and why: the missed ones first."""
        widths = (9, 75)
        print("\nSummary\n")
        self._print(widths, "verdict", "row", "reason")
        self._print(widths, *("-" * width for width in widths), "------")
        for row in sorted(self.rows, key=lambda row: self.VERDICTS.index(row["verdict"])):
            name = row["case"] if row["row"] == row["case"] else f"{row['case']}: {row['row']}"
            self._print(widths, row["verdict"], name, row["reason"])

    def write_json(self, path):
        """Writes the rows that have a bar; `-`: to standard output."""
        text = json.dumps({**self.counts(), "rows": self.rows}, indent=1, ensure_ascii=False)
        if path == "-":
            print(text)
        else:
            Path(path).write_text(text + "\n", encoding="utf-8")

    def exit_code(self):
        """1 if a bar was missed."""
        counts = self.counts()
        shown = ", ".join(f"{verdict} {counts[verdict]}" for verdict in reversed(self.VERDICTS))
        print(f"\nbars: {shown}")
        return 1 if counts["missed"] else 0


def arguments(description, epilog):
    """The parser of the arguments that all checks have."""
    parser = argparse.ArgumentParser(
        description=description, epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("program", help="the server: a release build of regatta")
    parser.add_argument("--architecture", metavar="NAME", help="run the server under this one")
    return parser


def program_path(name):
    """The path of the server's program."""
    path = shutil.which(name) or shutil.which(f"./{name}")
    if path is None:
        raise CheckError(f"{name} is no program")
    return os.path.abspath(path)


def run(main):
    """Runs a check, and exits with its code; 2 if it could not be carried out."""
    try:
        sys.exit(main())
    except (CheckError, OSError) as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
