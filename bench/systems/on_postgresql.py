"""The systems under test on PostgreSQL."""

from __future__ import annotations

from bench.systems import CLAIM, DRAIN, SERVE, SPECIAL, Entry

ENQUEUE = frozenset({"one", "bulk"})
HOLD = frozenset({"hold"})

ENTRIES = (
    Entry(
        "holdfast",
        "holdfast",
        "holdfast_",
        "plain",
        "its defaults; the task is a plain def",
        ENQUEUE | SPECIAL | DRAIN | SERVE | CLAIM | HOLD | {"million"},
    ),
    Entry(
        "holdfast-async",
        "holdfast",
        "holdfast_",
        "asynchronous",
        "its defaults; the task is an async def",
        DRAIN | SERVE,
    ),
    Entry(
        "limit",
        "psycopg",
        "limit_postgresql",
        "Limit",
        "hand-written SQL with psycopg on Holdfast's own tables: settle and the next claim in one transaction of 500, sent"
        " together, plans pinned, a claim goes on where the last one ended; bulk in transactions of 1,000, one by one a plain"
        " insert into one table",
        ENQUEUE | DRAIN | CLAIM | HOLD,
    ),
    Entry(
        "pgqueuer",
        "pgqueuer",
        "pgqueuer_",
        "at_its_best",
        "asyncpg and uvloop; batch size 1,000, which is its best (its default is 10); durable tables, its autovacuum settings"
        " applied; LISTEN/NOTIFY; bulk by its batch enqueue of 1,000; an async task; finished jobs leave a row in its log",
        ENQUEUE | DRAIN | SERVE | CLAIM | HOLD,
    ),
    *(
        Entry(
            f"pgqueuer-{batch}",
            "pgqueuer",
            "pgqueuer_",
            f"by_{batch}",
            f"the same with batch size {batch}",
            DRAIN,
            quick=False,
        )
        for batch in (500, 100)
    ),
    Entry(
        "procrastinate",
        "procrastinate",
        "procrastinate_",
        "Procrastinate",
        "psycopg; concurrency 10; LISTEN/NOTIFY; finished jobs and events kept, its default; bulk by batch_defer of 1,000; an"
        " async task",
        ENQUEUE | DRAIN | SERVE,
        bulk_jobs_max=20_000,
        drain_jobs_max=1_500,
    ),
    Entry(
        "chancy",
        "chancy",
        "chancy_",
        "Chancy",
        "psycopg; AsyncExecutor, concurrency 100 with eager polling; LISTEN/NOTIFY; its default plugins; logging at WARNING;"
        " results written once a second, its default; bulk by push_many of 1,000; an async task",
        ENQUEUE | DRAIN | SERVE,
        bulk_jobs_max=10_000,
        drain_jobs_max=10_000,
    ),
)
