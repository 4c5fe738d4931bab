"""A module that starts a worker wherever it is loaded would start one in every child process, without end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_loading: list[str] = []


@contextmanager
def loading(name: str) -> Iterator[None]:
    """While this child process loads the code of its worker."""
    _loading.append(name)
    try:
        yield
    finally:
        _loading.pop()


def refuse_while_loading(does: str = "starts a worker") -> None:
    if _loading:
        raise RuntimeError(f'{_loading[-1]} {does} when it is loaded: put that under `if __name__ == "__main__":`')
