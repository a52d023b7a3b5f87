#!/usr/bin/env python3
"""shift.py: a working set outgrows memory while servers run, and shrinks again.

Runs each architecture in an environment with little memory and a slow disk, three loads one after
the other: few files, all files, few files. Prints the goodput of each second after a change, and
checks that the first architecture is near the best of the others from `--within` seconds on.
Needs root, /dev/fuse and loop devices, as docs/environments.md says.
"""

import argparse
import csv
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FILES, FEW, FILE_BYTES = 3_000, 100, 40 << 10
MEMORY, DISK = "72M", "seek_ms=4,bandwidth=50MB"
PORT = 9_117
PHASES = ("few", "all", "few again")


def make_site(folder):
    """Files whose contents differ, and lists of a few and of all of them."""
    site = folder / "site"
    site.mkdir(mode=0o755)
    names = [f"{number:05}.html" for number in range(FILES)]
    for name in names:
        (site / name).write_bytes((name * (FILE_BYTES // len(name) + 1)).encode()[:FILE_BYTES])
    for list_name, count in (("few", FEW), ("all", FILES)):
        (folder / list_name).write_text("".join(f"/{name}\n" for name in names[:count]))
    return site


def goodput(options, folder, list_name, seconds):
    """Loads the server, and returns its good answers in each second."""
    lines = folder / "seconds.csv"
    command = [options.lab, "load", f"http://127.0.0.1:{PORT}/", "--closed", "64",
               "--urls", folder / list_name, "--shuffle", "--duration", f"{seconds}s",
               "--timeout", "20s", "--quiet", "--csv", lines]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode not in (0, 1) or not lines.exists():
        sys.exit(f"load failed: {done.stderr}")
    with lines.open() as rows:
        return [float(row["good"]) for row in csv.DictReader(rows)][:seconds]


def run(options, folder, site, architecture):
    """Goodput by second of the three phases."""
    serve = (f'exec {options.regatta} serve "$REGATTA_FILES" --listen 127.0.0.1:{PORT} '
             f"--architecture {architecture}")
    command = [*options.xtask.split(), "env", "run", "--memory", MEMORY, "--disk", DISK,
               "--server-cpus", "0", "--client-cpus", "1", "--files", str(site), "--",
               "sh", "-c", serve]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        for line in server.stdout:
            if line.startswith("listening on"):
                break
        else:
            sys.exit(f"{architecture} did not start")
        few, rest = options.few_seconds, options.seconds
        plan = zip(PHASES, ("few", "all", "few"), (few, rest, rest))
        return {phase: goodput(options, folder, names, seconds) for phase, names, seconds in plan}
    finally:
        os.killpg(server.pid, signal.SIGINT)
        server.wait(60)
        time.sleep(0.5)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--regatta", type=Path, required=True, help="the server's program")
    parser.add_argument("--lab", type=Path, required=True, help="the program regatta-lab")
    parser.add_argument("--xtask", default="cargo xtask", help="the command with `env run`")
    parser.add_argument("--architectures", default="auto,amped,sped")
    parser.add_argument("--seconds", type=int, default=20, help="length of the last two phases")
    parser.add_argument("--few-seconds", type=int, default=8, help="length of the first phase")
    parser.add_argument("--within", type=int, default=5, help="seconds to follow a change")
    parser.add_argument("--share", type=float, default=0.9, help="of the best other's goodput")
    options = parser.parse_args()
    names = options.architectures.split(",")
    with tempfile.TemporaryDirectory(prefix="regatta-shift-") as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)
        site = make_site(folder)
        found = {name: run(options, folder, site, name) for name in names}
    failed = False
    for phase in PHASES:
        print(f"{phase}:")
        for name in names:
            print(f"  {name:10}", *(f"{rate:6.0f}" for rate in found[name][phase]))
        after = {name: statistics.median(found[name][phase][options.within:]) for name in names}
        best = max(after[name] for name in names[1:])
        share = after[names[0]] / best
        failed |= share < options.share
        print(f"  from second {options.within} on: {names[0]} has {share:.2f} of the best other's")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
