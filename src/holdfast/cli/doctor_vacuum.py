"""What keeps a PostgreSQL server from removing dead rows: transactions left open, prepared ones, slots and standbys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.cli import doctor_postgres_sql as sql
from holdfast.cli.checks import Check
from holdfast.cli.times import span
from holdfast.domain.sanitize import clip, one_line
from holdfast.store.postgres.schema import Raw

HELD_SECONDS: Final = 60.0
HELD_TRANSACTIONS: Final = 200_000
"""How far a standby may lag behind in what it still wants to see."""
QUERY_CHARS_MAX: Final = 80
_LITERAL: Final = re.compile(r"\b[eE]'(?:[^'\\]|\\.|'')*'?|'(?:[^']|'')*'?|\$(\w*)\$.*?(?:\$\1\$|$)", re.DOTALL)


class Held(NamedTuple):
    """Somebody who keeps dead rows from being removed."""

    kind: str
    name: str
    pid: int | None = None
    user: str | None = None
    application: str | None = None
    state: str | None = None
    seconds: float | None = None
    transactions: int | None = None
    query: str | None = None


def holders(raw: Raw) -> list[Held]:
    return [*_transactions(raw), *_prepared(raw), *_slots(raw), *_standbys(raw)]


def hidden_sessions(raw: Raw) -> int:
    """Of others, of whom nothing more can be seen."""
    [[hidden]] = raw.execute(sql.HIDDEN)
    return int(hidden)


def vacuum_checks(held: list[Held], hidden: int, user: str) -> Iterator[Check]:
    """All that are bad, or else the oldest. That nobody was found means something only if all could be seen."""
    bad = [each for each in held if _is_bad(each)]
    for each in bad:
        yield Check("vacuum", "warning", "; ".join(_HOLDERS[each.kind](each)))
    if hidden:
        sessions = f"{hidden} session{'s' if hidden > 1 else ''} of other users cannot be looked at"
        yield Check("vacuum", "warning", f"{sessions}, and may hold it back; GRANT pg_read_all_stats TO {user}")
    elif not bad:
        yield Check("vacuum", "ok", _HOLDERS[held[0].kind](held[0])[0] if held else "nothing holds it back")


def _transactions(raw: Raw) -> Iterator[Held]:
    for pid, user, application, state, seconds, transactions, query in raw.execute(sql.TRANSACTIONS):
        yield Held("transaction", str(pid), pid, user, application, state, seconds, transactions, _shortened(query))


def _prepared(raw: Raw) -> Iterator[Held]:
    for gid, owner, seconds, transactions in raw.execute(sql.PREPARED):
        yield Held("prepared transaction", gid, user=owner, state="prepared", seconds=seconds, transactions=transactions)


def _slots(raw: Raw) -> Iterator[Held]:
    for name, active, transactions, _ in raw.execute(sql.SLOTS):
        if transactions is not None:
            yield Held("replication slot", name, state="active" if active else "inactive", transactions=transactions)


def _standbys(raw: Raw) -> Iterator[Held]:
    for application, transactions in raw.execute(sql.STANDBYS):
        yield Held("standby", application, state="feedback", transactions=transactions)


def _shortened(query: str | None) -> str:
    """One line of it, without its texts: they tell little, and one of them may be a password."""
    return clip(one_line(_LITERAL.sub("'…'", query or "")), QUERY_CHARS_MAX)


def _is_bad(held: Held) -> bool:
    if held.seconds is not None:
        return held.seconds >= HELD_SECONDS
    return held.state == "inactive" or (held.transactions or 0) >= HELD_TRANSACTIONS


def _of_transaction(held: Held) -> tuple[str, str]:
    who = ", ".join(part for part in (held.user, held.application, held.state) if part)
    what = f"held back for {span(held.seconds or 0)} by the transaction of pid {held.pid} ({who}): {held.query}"
    return what, f"let it end, or: SELECT pg_terminate_backend({held.pid})"


def _of_prepared(held: Held) -> tuple[str, str]:
    what = f"held back for {span(held.seconds or 0)} by the prepared transaction '{held.name}' of {held.user}"
    return what, f"end it: ROLLBACK PREPARED '{held.name}' or COMMIT PREPARED '{held.name}'"


def _of_slot(held: Held) -> tuple[str, str]:
    what = f"held back for {held.transactions:,} transactions by the {held.state} replication slot {held.name}"
    if held.state == "inactive":
        return what, f"start its standby again, or: SELECT pg_drop_replication_slot('{held.name}')"
    return what, "end the long query on its standby, or set hot_standby_feedback = off there"


def _of_standby(held: Held) -> tuple[str, str]:
    what = f"held back for {held.transactions:,} transactions by a query on the standby {held.name}"
    return what, "end it there, or set hot_standby_feedback = off there"


_HOLDERS: Final = {
    "transaction": _of_transaction,
    "prepared transaction": _of_prepared,
    "replication slot": _of_slot,
    "standby": _of_standby,
}
