"""What became of a broadcast: each client's own record, against what was said and what was kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from chaos.audience import END, FEED
from chaos.broadcast import WORD
from holdfast import Event
from holdfast.torture.checker import PromiseResult

SUCCEEDED: Final = "succeeded"


class Seen(NamedTuple):
    """A frame, as a client wrote it down."""

    id: str
    event: str
    data: Any


Records = dict[str, list[Seen]]
"""By client."""


class Evidence(NamedTuple):
    said: list[Any]
    """By the job, as it says itself."""
    kept: list[Event]
    """Of the job, in the database."""
    others: dict[str, list[Event]]
    """The same of all other jobs."""
    seen: Records
    """By those who watched the job."""
    fed: Records
    """By those who watched all jobs."""


def gather(emitted: Path, records: Path, kept: list[Event], others: dict[str, list[Event]]) -> Evidence:
    said = [msgspec.json.decode(line) for line in _lines(emitted)]
    return Evidence(said, kept, others, _records(records, "client"), _records(records, FEED))


def _records(directory: Path, kind: str) -> Records:
    return {path.stem: [_seen(line) for line in _lines(path)] for path in sorted(directory.glob(f"{kind}-*.tsv"))}


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


def _seen(line: bytes) -> Seen:
    id, event, data = line.split(b"\t", 2)
    return Seen(id.decode(), event.decode(), msgspec.json.decode(data))


def judge(evidence: Evidence, clients: int, feeds: int) -> list[PromiseResult]:
    seen, fed = evidence.seen, evidence.fed
    documents = _documents(evidence)
    checks = {
        "every event once, in order, none left out": (
            seen,
            _absent(seen, clients) + _each(seen, lambda got: _unbroken(evidence.kept, got)),
        ),
        "every word that the job said, as it said it": (
            seen,
            _kept(evidence) + _each(seen, lambda got: _said(evidence.said, got)),
        ),
        "every event as it was kept": (seen | fed, _each(seen | fed, lambda got: _as_kept(documents, got))),
        "the end, once, after everything": (seen, _each(seen, _ended)),
        "all jobs' events once, each job's in order": (fed, _absent(fed, feeds) + _each(fed, lambda got: _fed(evidence, got))),
    }
    return [PromiseResult(promise, sum(map(len, whose.values())), broken) for promise, (whose, broken) in checks.items()]


def _each(records: Records, check: Callable[[list[Seen]], str | None]) -> list[str]:
    wrong = ((client, check(seen)) for client, seen in records.items())
    return [f"{client}: {what}" for client, what in wrong if what]


def _absent(records: Records, clients: int) -> list[str]:
    silent = clients - sum(bool(seen) for seen in records.values())
    return [f"{silent} of {clients} clients saw nothing"] if silent else []


def _unbroken(kept: list[Event], seen: list[Seen]) -> str | None:
    """1, 2, 3 … up to the last that is kept."""
    numbers = [each.id for each in seen if each.event != END]
    wanted = [str(event.number) for event in kept]
    if numbers == wanted:
        return None
    often = [id for id, count in Counter(numbers).items() if count > 1]
    lacking = sorted(set(wanted) - set(numbers), key=int)
    if often or lacking:
        return f"{len(often)} events came more than once {often[:5]}, {len(lacking)} never {lacking[:5]}"
    place = next(index for index, (got, want) in enumerate(zip(numbers, wanted, strict=False)) if got != want)
    return f"events came in another order: {numbers[place : place + 5]} where {wanted[place : place + 5]} should have been"


def _kept(evidence: Evidence) -> list[str]:
    """The database itself must hold what the job said: else the clients could only agree with a log that is wrong."""
    words = [event.data for event in evidence.kept if event.kind == WORD]
    numbers = [event.number for event in evidence.kept]
    lost = f"the job said {len(evidence.said):,} words and the log has {len(words):,}, or others"
    gaps = numbers != list(range(1, len(numbers) + 1))
    return [lost] * (words != evidence.said) + ["the log itself has gaps"] * gaps


def _said(said: list[Any], seen: list[Seen]) -> str | None:
    words = [each.data.get("data") for each in seen if each.event == WORD]
    if words == said:
        return None
    same = next((n for n, (got, want) in enumerate(zip(words, said, strict=False)) if got != want), len(words))
    return f"{len(words):,} words of {len(said):,}; the first {same:,} are right"


Documents = dict[tuple[str, int], dict[str, Any]]


def _documents(evidence: Evidence) -> Documents:
    events = [event for log in (evidence.kept, *evidence.others.values()) for event in log]
    return {(event.job, event.number): document(event) for event in events}


def document(event: Event) -> dict[str, Any]:
    """As it is told over HTTP."""
    return {"job": event.job, "number": event.number, "kind": event.kind, "at": event.at.isoformat(), "data": event.data}


def _as_kept(documents: Documents, seen: list[Seen]) -> str | None:
    for each in seen:
        if each.event == END:
            continue
        told = {name: value for name, value in each.data.items() if name != "cursor"}
        kept = documents.get((told.get("job", ""), told.get("number", 0)))
        if kept is None or told != kept or each.event != kept["kind"]:
            return f"{each} was kept as {kept}"
        if each.id != each.data.get("cursor", str(kept["number"])):
            return f"{each} has another's id"
    return None


def _ended(seen: list[Seen]) -> str | None:
    ends = [index for index, each in enumerate(seen) if each.event == END]
    if ends != [len(seen) - 1]:
        return f"{len(ends)} ends, at {ends[:5]} of {len(seen):,}"
    return None if seen[-1].data.get("state") == SUCCEEDED and not seen[-1].id else f"ended with {seen[-1]}"


def _fed(evidence: Evidence, seen: list[Seen]) -> str | None:
    """Of the job whose end they waited for, everything; of others, which may go on, everything up to some event."""
    wanted = {job: [event.number for event in log] for job, log in evidence.others.items()}
    watched = evidence.kept[0].job if evidence.kept else ""
    wanted[watched] = [event.number for event in evidence.kept]
    got: dict[str, list[int]] = {watched: []}
    for each in seen:
        got.setdefault(each.data["job"], []).append(each.data["number"])
    for job, numbers in got.items():
        log = wanted.get(job, [])
        if numbers != (log if job == watched else log[: len(numbers)]):
            return f"of job {job} came {len(numbers):,} events, {len(set(numbers)):,} of them different, of {len(log):,}"
    return None
