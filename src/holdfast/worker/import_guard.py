"""A module that starts a worker wherever it is loaded would start one in every child process, without end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

IMPORTING: Final[list[str]] = []
"""What is being loaded now: mostly nothing."""


@contextmanager
def loading(name: str) -> Iterator[None]:
    """While this child process loads the code of its worker."""
    IMPORTING.append(name)
    try:
        yield
    finally:
        IMPORTING.pop()


def refuse_while_importing(does: str = "starts a worker") -> None:
    if IMPORTING:
        raise RuntimeError(f'{IMPORTING[-1]} {does} when it is loaded: put that under `if __name__ == "__main__":`')
