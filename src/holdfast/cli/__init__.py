"""Who asks, at a prompt: `holdfast`, one file per family of commands.

The commands need typer and rich, which the core does without: the extra `[cli]` brings them.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

from holdfast import __version__


def main() -> None:
    if sys.argv[1:] == ["--version"]:  # without the import of all commands, which takes longer than the rest
        sys.stdout.write(f"holdfast {__version__}\n")
        return
    if find_spec("typer") is None or find_spec("rich") is None:
        sys.stderr.write("holdfast: the command line is an extra; install it with: pip install 'holdfast[cli]'\n")
        sys.exit(1)
    from holdfast.cli.program import run

    sys.exit(run(sys.argv[1:]))
