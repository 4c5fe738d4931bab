"""A commit that can be read only after the watch began, although it was written before: nobody will tell of it again."""

from __future__ import annotations

from pathlib import Path

from holdfast.store.sqlite.wake import Watcher


def test_what_was_being_committed_when_the_watch_began_is_heard(tmp_path: Path) -> None:
    versions = iter([1, 1, 1, 2])
    watcher = Watcher(str(tmp_path / "jobs.db"), lambda: next(versions, 2))
    try:
        assert watcher.wait(30)
        assert watcher.wait(0) is False
    finally:
        watcher.close()
