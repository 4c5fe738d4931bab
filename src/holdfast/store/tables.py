"""The table of tables: every table of the store, its columns, and what is done with it elsewhere.

`transfer` copies by it. Tests compare it with the migrations of both databases, and with what `delete` and `prune` remove.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from holdfast.store.op import Row


class Table(NamedTuple):
    """A table by its own word, its columns with those of its key first, and how many of them the key has."""

    name: str
    columns: tuple[str, ...]
    key: int
    transferred: bool = True
    """Not workers, their claims and their notices, for none may be alive; nor sessions and tickets, which do not last."""
    job: str | None = None
    """The column that has the number of the job whose rows these are: they go when the job is deleted."""

    def key_of(self, row: Row) -> Row:
        return row[: self.key]


TABLES: Final = (
    Table("lane", ("lane", "queue", "task", "limited", "bounded"), 1),
    Table(
        "job_spec",
        ("seq", "id", "lane", "priority", "attempts_max", "created_at", "scheduled_for", "arguments", "key", "tags", "meta",
         "parent", "callback"),
        1, job="seq",
    ),
    Table(
        "job_state",
        ("seq", "lane", "state", "attempt", "token", "event_count", "run_after", "started_at", "finished_at", "result", "reason",
         "progress", "meter"),
        1, job="seq",
    ),
    Table("ready", ("lane", "priority", "seq"), 3, job="seq"),
    Table("scheduled", ("run_after", "seq", "lane"), 2, job="seq"),
    Table("running", ("seq", "token", "worker", "lease", "lane", "limited"), 1, transferred=False, job="seq"),
    Table("finished", ("finished_at", "seq", "state", "lane"), 2, job="seq"),
    Table("event", ("job", "number", "kind", "at", "data"), 2, job="job"),
    Table("error", ("job", "token", "attempt", "at", "kind", "message", "traceback"), 2, job="job"),
    Table("key", ("key", "seq", "id", "scope", "until", "failed", "ended", "lane", "created_at"), 1, job="seq"),
    Table("tag", ("tag", "seq"), 2, job="seq"),
    Table("meter", ("day", "lane", "name", "amount"), 3),
    Table(
        "queue",
        ("name", "declared", "live", "memory", "limited", "bounded", "closed_until", "kept_at", "paused_until", "changed_at"),
        1,
    ),
    Table("depth", ("queue", "jobs"), 1, transferred=False),
    Table("returned", ("id", "queue", "jobs"), 1, transferred=False),
    Table("mark", ("id", "queue", "seq"), 1, transferred=False),
    Table("queue_change", ("queue", "number", "at", "actor", "action", "detail"), 2),
    Table(
        "worker",
        ("id", "name", "host", "pid", "by_hand", "started_at", "beat_at", "beat_tick", "boot", "lease_min", "slots", "queues"),
        1, transferred=False,
    ),
    Table("notice", ("worker", "seq", "token", "kind"), 3, transferred=False),
    Table(
        "api_key",
        ("prefix", "name", "digest", "scope", "queues", "created_at", "expires_at", "last_used_at", "revoked_at"),
        1,
    ),
    Table("pass", ("digest", "kind", "api_key", "job", "expires_at"), 1, transferred=False),
    Table("identity", ("mark",), 1, transferred=False),
    Table("transfer", ("origin",), 1, transferred=False),
)  # fmt: skip


def table_named(name: str) -> Table:
    return next(each for each in TABLES if each.name == name)
