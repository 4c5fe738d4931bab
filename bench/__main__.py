"""python -m bench: measure everything in turn, print the ratios, write the JSON."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from time import monotonic

from bench import report
from bench.against import PACKAGE, beside
from bench.checkout import is_checkout
from bench.databases import ON, Database
from bench.measure import Record, surroundings
from bench.plan import Sizes, with_rounds
from bench.process import Child, ChildFailed
from bench.systems import Entry


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--on", choices=list(ON), default="sqlite", help="the database; sqlite unless told")
    parser.add_argument("--quick", action="store_true", help="small sizes and two rounds: two minutes, four on PostgreSQL")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this measure, may be repeated")
    parser.add_argument("--system", action="append", metavar="NAME", help="only this system, may be repeated")
    parser.add_argument("--rounds", type=int, help="rounds of each measure")
    parser.add_argument(
        "--against", type=Path, metavar="DIR", help="another checkout: its Holdfast is measured in turn with ours"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="where to write the figures")
    options = parser.parse_args()
    if options.against and not is_checkout(options.against):
        parser.exit(2, f"--against {options.against}: there is no src/holdfast in it; give a checkout of this repository\n")
    database = ON[options.on]
    for given, known in ((options.only, database.measures), (options.system, [entry.name for entry in database.entries])):
        if unknown := set(given or ()) - set(known):
            parser.error(f"{', '.join(sorted(unknown))}: on {options.on} there are {', '.join(known)}")
    return options


def chosen(options: argparse.Namespace, entries: tuple[Entry, ...]) -> list[Entry]:
    if options.system:
        wanted = [entry for entry in entries if entry.name in options.system]
    else:
        wanted = [entry for entry in entries if entry.quick or not options.quick]
    for entry in wanted:
        if not entry.installed():
            say(f"{entry.name}: the package {entry.package} is not installed, left out")
    installed = [entry for entry in wanted if entry.installed()]
    return list(beside(installed, options.against.resolve())) if options.against else installed


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def try_out(record: Record, entries: list[Entry]) -> None:
    """Each Holdfast starts once, so that one of the wrong checkout ends the run before anything is measured."""
    for entry in entries:
        if entry.package == PACKAGE:
            with record.where.fresh() as directory, Child(entry, directory):
                pass


def measure(options: argparse.Namespace, database: Database, record: Record, entries: list[Entry], sizes: Sizes) -> None:
    record.surroundings["start"] = surroundings()
    for name in options.only or database.measures:
        since = monotonic()
        database.measures[name](record, [entry for entry in entries if name in entry.measures], sizes)
        seen = record.surroundings[name] = surroundings()
        say(f"{name:8} {monotonic() - since:6.1f} s  others {seen['others_percent']:.0f} % CPU  sync {seen['sync_ms']:.2f} ms")


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that children, files and a server of ours go too
    options = arguments()
    database = ON[options.on]
    sizes = with_rounds(database.quick if options.quick else database.full, options.rounds)
    entries = chosen(options, database.entries)
    start = monotonic()
    with database.ground() as ground:
        record = Record(ground)
        try:
            try_out(record, entries)
            measure(options, database, record, entries, sizes)
        except ChildFailed as failure:
            say(str(failure))
            return 2
        except KeyboardInterrupt:
            say("interrupted; this is what was measured until then")
        about = ground.about()
    promised = database.thresholds(record, sizes)
    print(report.text(record, entries, promised, about))
    path = report.write(options.json, report.document(record, entries, sizes, promised, about, monotonic() - start))
    print(f"\n{path}")
    return 1 if record.failures else 0


if __name__ == "__main__":
    sys.exit(main())
