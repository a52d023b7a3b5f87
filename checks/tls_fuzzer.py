#!/usr/bin/env python3
"""Breaks the rules of TLS in some 580 ways, and compares each end with those that the standards
allow."""

import itertools
import time

from rig import CheckError, Folder, Server, Table, arguments, program_path, run
from tls_cases import BODY_BYTES, all_cases
from tls_peer import End, Peer
from tls_tickets import ticket_cases

EPILOG = """\
tlsfuzzer is in no package registry, so these are conversations of our own (tls_cases.py). Groups
bear the names of tlsfuzzer's scripts that ask the same. An outcome is

  response   the whole response to a request, and the closing alert
  an alert   this fatal alert, and the end of the stream behind it
  closed     the end of the stream without an alert
  reset, silence, and others that no case expects

A known deviation is an outcome that is not as the standards say, for a reason that DEVIATIONS has.
It is counted alone. The table shows a row for each group, and one for each case that is neither as
expected nor a known deviation.

Takes at most three minutes. Exits 1 if there is such a case."""

# Seconds for an answer, and for all cases.
ANSWER_S, CHECK_S = 3, 170

# Known deviations: their reason, and for each group the beginning of names and the outcomes.
DEVIATIONS = {
    "rustls has no alert for this fault; sending one is a SHOULD (RFC 8446 §6.2)": [
        ("tls13-keyupdate", "data between its pieces", ("closed",)),
        ("tls13-zero-length-data", "1 zeros", ("closed",)),
        ("tls13-zero-length-data", "100 zeros", ("closed",)),
        ("tls13-zero-length-data", "nothing but", ("closed",)),
        ("tls13-post-handshake", "a message of 16 MiB", ("closed", "reset")),
    ],
    "rustls passes over two records of ChangeCipherSpec, which is what peers send": [
        ("tls13-ccs", "3 records", ("closed",)), ("tls13-ccs", "32 records", ("closed", "reset")),
    ],
    "rustls says decode_error of records that it does not know, or that are too long": [
        ("tls13-record-layer-limits", "record of", ("decode_error",)),
        ("tls13-unrecognised-type", "type", ("decode_error",)),
    ],
    "rustls takes an empty piece of a handshake message, of 32 in a row the last": [
        ("tls13-zero-length-data", "an empty piece", ("silence",)),
    ],
    "rustls reads the first name of a list, and no more of it": [
        ("truncating-of-client-hello", "length of name -1", ("response",)),
    ],
    "rustls reads a binder only for a ticket that is one": [
        ("tls13-psk", "a short binder", ("response",)),
    ],
    "rustls has no TLS_FALLBACK_SCSV; without TLS 1.1 there is nothing weak to fall back to": [
        ("tls12-conversation", "TLS_FALLBACK_SCSV", ("response",)),
    ],
}


def play(case, address):
    """The outcome of a case."""
    peer = Peer(address, ANSWER_S)
    try:
        return case.play(peer)
    except End as end:
        return str(end)
    finally:
        peer.close()


def deviation(case, outcome):
    """The reason of a known deviation; empty if it is none."""
    for reason, rows in DEVIATIONS.items():
        for group, name, outcomes in rows:
            if case.group == group and case.name.startswith(name) and outcome in outcomes:
                return reason
    return ""


def main():
    parser = arguments(__doc__, EPILOG)
    parser.add_argument("--port", type=int, help="try the server at this port of 127.0.0.1")
    parser.add_argument("--group", help="play the cases of this group alone, and show all")
    options = parser.parse_args()
    with Folder() as folder:
        folder.file("small.txt", BODY_BYTES)
        if options.port is not None:
            return judge(("127.0.0.1", options.port), options.group, options.program)
        program = program_path(options.program)
        with Server(program, folder, options.architecture) as server:
            code = judge(server.address, options.group, options.architecture or "default")
            if server.process.poll() is not None:
                raise CheckError(f"the server has ended:\n{server.log()}")
            return code


def judge(address, group, title):
    table = Table(f"TLS against its rules: {title}")
    counts, reasons, began = {}, {}, time.monotonic()
    for case in itertools.chain(all_cases(), ticket_cases()):
        if group not in (None, case.group):
            continue
        if time.monotonic() - began > CHECK_S:
            table.row("cases after this one", "no time for them", "-", "?")
            break
        outcome = play(case, address)
        count = counts.setdefault(case.group, [0, 0, 0])
        reason = deviation(case, outcome)
        is_met = outcome in case.expected
        count[0 if is_met else 1 if reason else 2] += 1
        if reason and not is_met:
            reasons[reason] = reasons.get(reason, 0) + 1
        if group or not (is_met or reason):
            table.row(f"{case.group}: {case.name}", outcome, " or ".join(case.expected),
                      is_met or (reason and "known") or False)
    for name, (met, known, wrong) in counts.items():
        table.row(name, f"{met} as expected, {known} known deviations, {wrong} others")
    met, known, wrong = map(sum, zip(*counts.values()))
    took = time.monotonic() - began
    numbers = f"{met} as expected, {known} known deviations, {wrong} others"
    table.row(f"all {met + known + wrong} in {took:.0f} s", numbers)
    for reason, number in reasons.items():
        print(f"  {number:3} {reason}")
    return table.exit_code()


if __name__ == "__main__":
    run(main)
