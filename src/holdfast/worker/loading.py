"""A module that starts a worker wherever it is loaded would start one in every child process, without end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

LOADING: Final[list[str]] = []
"""What is being loaded now: mostly nothing."""


@contextmanager
def loading(name: str) -> Iterator[None]:
    """While this child process loads the code of its worker."""
    LOADING.append(name)
    try:
        yield
    finally:
        LOADING.pop()


def refuse_while_loading(does: str = "starts a worker") -> None:
    if LOADING:
        raise RuntimeError(f'{LOADING[-1]} {does} when it is loaded: put that under `if __name__ == "__main__":`')
