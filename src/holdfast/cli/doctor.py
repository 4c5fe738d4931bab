"""`doctor`: what a person looks at first when something is wrong, worst last. Reads only, and migrates nothing."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Final, NamedTuple

import typer
from rich.text import Text

from holdfast.app import Holdfast
from holdfast.cli import flags
from holdfast.cli.checks import Check, Surroundings, size
from holdfast.cli.database import migrate_command, open_database
from holdfast.cli.screen import Column, document, facts_grid, line, print_grid, table
from holdfast.cli.times import age, span
from holdfast.cli.trouble import FAILED
from holdfast.domain.document import iso
from holdfast.domain.job import Job, moment_of
from holdfast.domain.sanitize import clean, one_line
from holdfast.domain.states import State
from holdfast.errors import StoreUnavailable
from holdfast.store import browse
from holdfast.store.health import Stall, stalls, standing
from holdfast.store.migrate import migrations, pending
from holdfast.store.sqlite import schema as sqlite
from holdfast.store.sqlite.file import NETWORK_FILE_SYSTEMS, check_file, file_system_of, parse_mountinfo

SQLITE_SAFE: Final = (3, 51, 3)
WAL_BYTES_MAX: Final = 256 * 1024 * 1024
SILENT_SECONDS: Final = 60.0
LATE_SECONDS: Final = 60.0
STALLED_MAX: Final = 10
_OLD_SQLITE: Final = (
    "can corrupt a file when one program empties its log while another writes (fixed in 3.51.3); Holdfast avoids it, "
    "other programs that write to this file may not"
)
_STYLES: Final = {"ok": "green", "warning": "bold yellow", "failed": "bold red"}
_WORKER_COLUMNS: Final = (
    Column("WORKER", least=12),
    Column("HOST", least=8),
    Column("PID", right=True),
    Column("RUNNING", right=True),
    Column("STARTED", right=True),
    Column("LAST BEAT", right=True),
)
_MOUNTINFO: Final = "/proc/self/mountinfo"


class Worker(NamedTuple):
    name: str
    host: str
    pid: int
    by_hand: bool
    running: int
    started_at: datetime
    beat_at: datetime
    quiet_seconds: float

    @property
    def silent(self) -> bool:
        return not self.by_hand and self.quiet_seconds > SILENT_SECONDS


class Finding(NamedTuple):
    """What the store itself could tell, at some moment by its own clock."""

    now: datetime
    counts: dict[str, int]
    oldest: Job | None
    workers: list[Worker]
    stalled: list[Stall]


def doctor(
    context: typer.Context,
    deep: Annotated[bool, typer.Option("--deep", help="Read all of it and check its integrity.")] = False,
    url: flags.Url = None,
    app: flags.App = None,
    json: flags.Json = False,
) -> int:
    """Check the database, its surroundings and its workers. Exits with 1 if something is broken."""
    with open_database(context, url, app) as store:
        schema = list(_schema(store, migrate_command(context)))
        current = not _any_failed(schema)
        around = _surroundings(store, current)
        finding = None if _any_failed([*around.checks, *schema]) else _ask(store)
        checks = [*around.checks, *schema, *([] if finding is None else _life(finding))]
        checks += [_integrity(store)] if deep and (current or _is_file(store)) else []
    ok = not _any_failed(checks)
    if json:
        document(_document(store, checks, around, finding, ok=ok))
    else:
        _print(checks, around, finding)
    return 0 if ok else FAILED


def _any_failed(checks: Iterable[Check]) -> bool:
    return any(check.status == "failed" for check in checks)


# What to look at


def _is_file(store: Holdfast) -> bool:
    return store.store.dialect == "sqlite"


def _surroundings(store: Holdfast, current: bool) -> Surroundings:
    if _is_file(store):
        return Surroundings(list(_around_file(store.store.path)))
    from holdfast.cli.doctor_postgres import examine  # needs psycopg, which a file does without

    return examine(store, current)


def _around_file(path: str) -> Iterator[Check]:
    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info >= SQLITE_SAFE:
        yield Check("sqlite", "ok", version)
    else:
        yield Check("sqlite", "warning", f"{version} {_OLD_SQLITE}")
    yield Check("file", "ok", f"{os.path.realpath(path)}, {size(os.path.getsize(path))}")
    yield _place(path)
    yield from _modes(path)
    wal = os.path.getsize(f"{path}-wal") if os.path.exists(f"{path}-wal") else 0
    advice = ": a reader that never ends keeps it from being emptied; look for an open transaction"
    yield Check("log", "ok", size(wal)) if wal <= WAL_BYTES_MAX else Check("log", "warning", f"{size(wal)}{advice}")


def _place(path: str) -> Check:
    try:
        check_file(path)
    except StoreUnavailable as error:
        return Check("place", "failed", str(error))
    kind = _file_system(path)
    return Check("place", "failed" if kind in NETWORK_FILE_SYSTEMS else "ok", kind or "file system unknown")


def _file_system(path: str) -> str:
    try:
        with open(_MOUNTINFO, encoding="utf-8", errors="surrogateescape") as mountinfo:
            return file_system_of(os.path.realpath(path), parse_mountinfo(mountinfo.read()))
    except OSError:
        return ""


def _modes(path: str) -> Iterator[Check]:
    for file in (path, f"{path}-wal", f"{path}-shm"):
        if not os.path.exists(file):
            continue
        mode = stat.S_IMODE(os.stat(file).st_mode)
        name = os.path.basename(file)
        if mode & 0o077:
            yield Check("mode", "warning", f"{name} is {mode:04o}, others can reach its jobs; chmod 600 it")
        else:
            yield Check("mode", "ok", f"{name} is {mode:04o}")


def _schema(store: Holdfast, command: str) -> Iterator[Check]:
    package = sqlite.PACKAGE if _is_file(store) else "holdfast.store.postgres"
    known = migrations(package)[-1].version
    try:
        version = store.store.version()
        due = pending(package, version, store.store.path)
    except StoreUnavailable as error:
        yield Check("schema", "failed", str(error))
        return
    if due:
        yield Check("schema", "failed", f"version {version}, this Holdfast needs {known}; run: {command}")
    else:
        yield Check("schema", "ok", f"version {version}")


def _ask(store: Holdfast) -> Finding:
    counts: dict[str, int] = {}
    for states in store.stats().values():
        for state, number in states.items():
            counts[state] = counts.get(state, 0) + number
    oldest = store.jobs(state=State.READY, newest=False, limit=1)
    rows = store.store.read(lambda _: browse.workers())
    stalled = stalls(store.store.read(standing), LATE_SECONDS)
    now = store.store.clock.now()
    workers = [
        Worker(name, host, pid, bool(by_hand), running, moment_of(started_at), moment_of(beat_at), (now - beat_at) / 1e6)
        for _, name, host, pid, by_hand, started_at, beat_at, running in rows
    ]
    return Finding(moment_of(now), counts, oldest[0] if oldest else None, workers, stalled)


def _life(finding: Finding) -> Iterator[Check]:
    numbers = ", ".join(f"{finding.counts[state]:,} {state}" for state in State if finding.counts.get(state))
    yield Check("jobs", "ok", numbers or "none")
    living = [worker for worker in finding.workers if not worker.silent and not worker.by_hand]
    if finding.oldest is not None:
        waited = age(finding.oldest.created_at, finding.now)
        late = waited > LATE_SECONDS
        text = f"{finding.oldest.id} ({clean(finding.oldest.task)}), enqueued {span(waited)} ago"
        yield Check("oldest ready", "warning" if late else "ok", text)
    if living:
        yield Check("workers", "ok", f"{len(living)} at work")
    elif finding.counts.get(State.READY) or finding.counts.get(State.RUNNING):
        yield Check("workers", "warning", "there is work, and no worker; start one: holdfast worker MODULE:APP")
    else:
        yield Check("workers", "ok", "none, and nothing to do")
    for stall in finding.stalled[:STALLED_MAX]:
        who = "" if stall.id is None else f"{stall.id} ({clean(stall.task or '')}), "
        yield Check("stalled", "warning", f"{who}for {span(stall.seconds)}: {clean(stall.reason)}")
    for worker in finding.workers:
        if worker.silent:
            yield Check("worker", "warning", f"{clean(worker.name)} has not been heard of for {span(worker.quiet_seconds)}")


def _integrity(store: Holdfast) -> Check:
    if _is_file(store):
        return _file_integrity(store.store.path)
    from holdfast.cli.doctor_postgres import integrity

    return integrity(store)


def _file_integrity(path: str) -> Check:
    """Read-only, by SQLite itself: the file is never opened in another way, for closing it would drop its locks."""
    try:
        connection = sqlite3.connect(f"file:{_quoted(path)}?mode=ro", uri=True, timeout=30)
        try:
            found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(10)")]
        finally:
            connection.close()
    except sqlite3.Error as error:
        return Check("integrity", "failed", str(error))
    if found == ["ok"]:
        return Check("integrity", "ok", "every page and index was read")
    return Check("integrity", "failed", f"{'; '.join(found)}; stop all workers and restore a backup")


def _quoted(path: str) -> str:
    return os.path.realpath(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


# How to say it


def _print(checks: list[Check], around: Surroundings, finding: Finding | None) -> None:
    rows = [(Text(check.status, style=_STYLES[check.status]), check.name, one_line(check.detail)) for check in checks]
    print_grid(facts_grid(rows, "", ""))
    if around.rows:
        line("")
        table(around.columns, around.rows)
    if finding is not None and finding.workers:
        line("")
        table(_WORKER_COLUMNS, [_row(worker, finding.now) for worker in finding.workers])


def _row(worker: Worker, now: datetime) -> list[str | Text]:
    name = f"{clean(worker.name)}{' (by hand)' if worker.by_hand else ''}"
    beat = Text(f"{span(worker.quiet_seconds)} ago", style="bold yellow" if worker.silent else "")
    started = f"{span(age(worker.started_at, now))} ago"
    return [name, clean(worker.host), str(worker.pid), str(worker.running), started, beat]


def _document(store: Holdfast, checks: list[Check], around: Surroundings, finding: Finding | None, *, ok: bool) -> dict[str, Any]:
    path = store.store.path
    return {
        "ok": ok,
        "at": datetime.now(UTC).isoformat(),
        "path": os.path.realpath(path) if _is_file(store) else path,
        **around.facts,
        "checks": [check._asdict() for check in checks],
        "counts": None if finding is None else finding.counts,
        "oldest_ready": None if finding is None or finding.oldest is None else finding.oldest.id,
        "workers": None if finding is None else [_worker_document(worker) for worker in finding.workers],
    }


def _worker_document(worker: Worker) -> dict[str, Any]:
    return {**worker._asdict(), "started_at": iso(worker.started_at), "beat_at": iso(worker.beat_at), "silent": worker.silent}
