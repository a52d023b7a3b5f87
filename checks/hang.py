#!/usr/bin/env python3
"""hang.py: a directory on a FUSE mount that hangs, while a server serves other files.

For each architecture: loads files in memory, stops the process behind the mount, asks for files on
it that no cache has, loads the same files in memory again, and lets the process continue. Fails if
the load loses more than a tenth, if the error log does not name one of the files that hang, or if
one of them is not answered whole in the end. Needs bindfs and /dev/fuse.
"""

import argparse
import csv
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

PORT, HANGING, SECONDS = 9_118, 20, 8
FILE_BYTES = 40 << 10


def make_files(folder, count, size):
    """Files with the contents of their own names."""
    folder.mkdir(mode=0o755)
    for number in range(count):
        name = f"{number:03}.html"
        (folder / name).write_bytes((name * (size // len(name) + 1)).encode()[:size])


def goodput(options, folder):
    """Loads the files in memory, and returns the good answers of each second."""
    lines = folder / "seconds.csv"
    command = ["taskset", "-c", "1", options.lab, "load", f"http://127.0.0.1:{PORT}/", "--closed",
               "64", "--urls", folder / "urls", "--duration", f"{SECONDS}s", "--quiet", "--csv",
               lines]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode not in (0, 1) or not lines.exists():
        sys.exit(f"load failed: {done.stderr}")
    with lines.open() as rows:
        return [float(row["good"]) for row in csv.DictReader(rows)][1:SECONDS]


def ask(number, found):
    """Asks for a file on the mount, and notes how long its right answer took."""
    began, name = time.monotonic(), f"{number:03}.html"
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/far/{name}", timeout=60) as answer:
            body = answer.read()
    except OSError as error:
        found[number] = f"{name}: {error}"
        return
    expected = (name * (FILE_BYTES // len(name) + 1)).encode()[:FILE_BYTES]
    right = body == expected
    found[number] = time.monotonic() - began if right else f"{name}: not the file"


def run(options, folder, site, architecture):
    """What goes wrong with an architecture; prints what was measured."""
    errors = folder / f"{architecture}.log"
    mount = subprocess.Popen(["bindfs", "-f", folder / "far", site / "far"])
    while not os.path.ismount(site / "far"):
        time.sleep(0.05)
    command = ["taskset", "-c", "0", options.regatta, "serve", site, "--architecture", architecture,
               "--listen", f"127.0.0.1:{PORT}"]
    with errors.open("w") as log:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        if not server.stdout.readline().startswith("listening on"):
            return [f"did not start: {errors.read_text()}"]
        before = goodput(options, folder)
        mount.send_signal(signal.SIGSTOP)
        found = {}
        clients = [threading.Thread(target=ask, args=(number, found)) for number in range(HANGING)]
        for client in clients:
            client.start()
        time.sleep(0.5)
        during = goodput(options, folder)
        mount.send_signal(signal.SIGCONT)
        for client in clients:
            client.join(90)
        time.sleep(1.5)
    finally:
        mount.send_signal(signal.SIGCONT)
        server.terminate()
        server.wait(60)
        subprocess.run(["fusermount", "-u", site / "far"], check=False)
        mount.wait(20)
    return judge(options, architecture, before, during, found, errors.read_text())


def judge(options, architecture, before, during, found, errors):
    """Prints what was measured, and returns what is wrong with it."""
    faults = [why for why in found.values() if isinstance(why, str)]
    rates = [statistics.median(rates) for rates in (before, during)]
    print(f"{architecture}: {rates[0]:.0f} answers a second, {rates[1]:.0f} while files hang"
          f" ({rates[1] / rates[0]:.2f}; by second {' '.join(f'{rate:.0f}' for rate in during)})")
    lines = [line for line in errors.splitlines() if "disk-" in line or "worker-" in line]
    print(*(f"  {line}" for line in lines), sep="\n")
    times = [took for took in found.values() if not isinstance(took, str)]
    if times:
        print(f"  {len(times)} files that hung were answered after {max(times):.1f} s")
    if rates[1] < options.share * rates[0]:
        faults.append(f"less than {options.share} of the answers while files hang")
    if not any("disk-silent" in line and "/far/" in line for line in lines):
        faults.append("no line names a file that hangs")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--regatta", type=Path, required=True, help="the server's program")
    parser.add_argument("--lab", type=Path, required=True, help="the program regatta-lab")
    parser.add_argument("--architectures", default="auto,laio,uring")
    parser.add_argument("--share", type=float, default=0.9, help="of the answers before")
    options = parser.parse_args()
    if not shutil.which("bindfs") or not Path("/dev/fuse").exists():
        print("skipped: needs bindfs and /dev/fuse")
        return 0
    failed = False
    with tempfile.TemporaryDirectory(prefix="regatta-hang-") as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)
        site = folder / "site"
        make_files(site, 100, 4096)
        make_files(folder / "far", HANGING, FILE_BYTES)
        (site / "far").mkdir(mode=0o755)
        (folder / "urls").write_text("".join(f"/{number:03}.html\n" for number in range(100)))
        for architecture in options.architectures.split(","):
            for fault in run(options, folder, site, architecture):
                failed = True
                print(f"  FAILED: {fault}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
