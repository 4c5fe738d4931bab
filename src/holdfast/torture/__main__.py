"""`python -m holdfast.torture --kills 1000 --seed 7`."""

from __future__ import annotations

import argparse
import sys

from holdfast.errors import HoldfastError
from holdfast.torture.chaos import KINDS
from holdfast.torture.plan import ENQUEUERS_DEFAULT, WORKERS_DEFAULT
from holdfast.torture.run import STORES, run


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m holdfast.torture", description="Kill workers and enqueuers; judge what is left."
    )
    parser.add_argument("--minutes", type=float, help="kill for so long")
    parser.add_argument("--kills", type=int, help="kill so often (default: 1000)")
    parser.add_argument("--seed", type=int, help="repeat a run's plan (default: a new one, printed first)")
    parser.add_argument("--workers", type=int, help=f"(default: {WORKERS_DEFAULT}, in chaos 2)")
    parser.add_argument("--enqueuers", type=int, help=f"(default: {ENQUEUERS_DEFAULT}, in chaos 2)")
    parser.add_argument("--on", choices=STORES, default=STORES[0], help="which database")
    parser.add_argument("--url", help="an empty PostgreSQL database (default: a server of its own)")
    parser.add_argument("--chaos", choices=list(KINDS), help="blows at a PostgreSQL server instead of kills")
    parser.add_argument("--times", type=int, help="so many of these blows")
    parser.add_argument("--dir", dest="url_dir", help="where to work; what is there afterwards is kept")
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    try:
        return run(**vars(parser.parse_args()))
    except HoldfastError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
