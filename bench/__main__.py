"""python -m bench: measure everything in turn, print the ratios, write the JSON."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from time import monotonic

from bench import report
from bench.measure import Record, surroundings
from bench.plan import FULL, MEASURES, QUICK, with_rounds
from bench.systems import ENTRIES, Entry


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes and two rounds: about a minute")
    parser.add_argument(
        "--only",
        action="append",
        choices=list(MEASURES),
        metavar="NAME",
        help=f"only this measure, may be repeated: {', '.join(MEASURES)}",
    )
    parser.add_argument(
        "--system",
        action="append",
        choices=[entry.name for entry in ENTRIES],
        metavar="NAME",
        help=f"only this system, may be repeated: {', '.join(entry.name for entry in ENTRIES)}",
    )
    parser.add_argument("--rounds", type=int, help="rounds of each measure")
    parser.add_argument("--json", type=Path, metavar="PATH", help="where to write the figures")
    return parser.parse_args()


def chosen(options: argparse.Namespace) -> list[Entry]:
    if options.system:
        wanted = [entry for entry in ENTRIES if entry.name in options.system]
    else:
        wanted = [entry for entry in ENTRIES if entry.quick or not options.quick]
    for entry in wanted:
        if not entry.installed():
            say(f"{entry.name}: the package {entry.package} is not installed, left out")
    return [entry for entry in wanted if entry.installed()]


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> int:
    options = arguments()
    sizes = with_rounds(QUICK if options.quick else FULL, options.rounds)
    entries = chosen(options)
    record = Record()
    start = monotonic()
    record.surroundings["start"] = surroundings()
    for name in options.only or MEASURES:
        since = monotonic()
        MEASURES[name](record, [entry for entry in entries if name in entry.measures], sizes)
        seen = record.surroundings[name] = surroundings()
        say(f"{name:8} {monotonic() - since:6.1f} s  others {seen['others_percent']:.0f} % CPU  sync {seen['sync_ms']:.2f} ms")
    print(report.text(record, entries, sizes))
    path = report.write(options.json, report.document(record, entries, sizes, monotonic() - start))
    print(f"\n{path}")
    return 1 if record.failures else 0


if __name__ == "__main__":
    sys.exit(main())
