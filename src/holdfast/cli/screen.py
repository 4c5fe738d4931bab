"""Where output goes: tables that fit a terminal, whole lines into a pipe, JSON when asked.

Nothing that came from a job is ever read as markup, and all of it passes through `clean`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.domain.sanitize import clean

PIPE_WIDTH: Final = 100_000
"""Into a pipe nothing is wrapped or cut."""
STYLES: Final = {
    "scheduled": "blue",
    "ready": "cyan",
    "running": "bold yellow",
    "waiting": "magenta",
    "succeeded": "green",
    "failed": "bold red",
    "cancelled": "dim",
    "skipped": "dim",
    "ok": "green",
    "warning": "bold yellow",
}


class Column(NamedTuple):
    title: str
    right: bool = False
    least: int | None = None
    """How narrow a small terminal may make it, with an ellipsis; None: never cut."""


def screen() -> Console:
    """Made anew for each use: it looks at stdout as it is now."""
    piped = not sys.stdout.isatty()
    return Console(width=PIPE_WIDTH if piped else None, no_color=piped or None, highlight=False, markup=False, emoji=False)


def watched() -> bool:
    """Whether a person sees this while it happens."""
    return screen().is_terminal and not screen().is_dumb_terminal


def document(value: Any) -> None:
    """One JSON document; ASCII only, so that no character in it can reach the terminal as itself."""
    sys.stdout.write(json_text(value) + "\n")
    sys.stdout.flush()


def json_text(value: Any, indent: int | None = 2) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=True).replace("\x7f", "\\u007f")


def compact(value: Any) -> str:
    """A value on one line, for people: letters as they are, whatever is not a letter escaped."""
    return clean(json.dumps(value, ensure_ascii=False, separators=(", ", ": ")))


def line(*parts: str | Text) -> None:
    screen().print(Text.assemble(*parts), soft_wrap=True)


def styled(word: str, style: str | None = None) -> Text:
    return Text(word, style=STYLES.get(word, "") if style is None else style)


def table(columns: Sequence[Column], rows: Iterable[Sequence[str | Text]]) -> None:
    cells = [[_cell(cell) for cell in row] for row in rows]
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for number, column in enumerate(columns):
        natural = max(cell_len(column.title), *(row[number].cell_len for row in cells))
        grid.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=column.least is None,
            overflow="ellipsis",
            min_width=natural if column.least is None else min(natural, column.least),
        )
    for row in cells:
        grid.add_row(*row)
    print_grid(grid)


def _cell(cell: str | Text) -> Text:
    text = Text(cell) if isinstance(cell, str) else cell
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def facts_grid(rows: Iterable[Sequence[str | Text]], *styles: str) -> Table:
    """Short columns and a last one that folds."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    for style in styles:
        grid.add_column(style=style, no_wrap=True)
    grid.add_column(overflow="fold")
    for row in rows:
        grid.add_row(*row)
    return grid


def print_grid(grid: Table) -> None:
    """Into a pipe without the spaces that fill a column up."""
    console = screen()
    if console.is_terminal:
        console.print(grid)
        return
    with console.capture() as captured:
        console.print(grid)
    sys.stdout.write("".join(f"{each.rstrip()}\n" for each in captured.get().splitlines()))
