"""The checks of a stream: the events in the file of each client, against what the job emitted and what the database has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from chaos.stream_clients import END, FEED
from chaos.stream_job import WORD
from holdfast import Event
from holdfast.torture.checker import PromiseResult

SUCCEEDED: Final = "succeeded"


class SeenFrame(NamedTuple):
    """A frame in the file of a client."""

    id: str
    event: str
    data: Any


Records = dict[str, list[SeenFrame]]
"""By client."""


class StreamEvidence(NamedTuple):
    emitted: list[Any]
    """What the job emitted, from its file."""
    kept: list[Event]
    """The events of the job, from the database."""
    others: dict[str, list[Event]]
    """The events of all other jobs, from the database."""
    seen: Records
    """Received by the clients that follow the job."""
    fed: Records
    """Received by the clients that follow all jobs."""


def gather(emitted: Path, records: Path, kept: list[Event], others: dict[str, list[Event]]) -> StreamEvidence:
    words = [msgspec.json.decode(line) for line in _lines(emitted)]
    return StreamEvidence(words, kept, others, _records(records, "client"), _records(records, FEED))


def _records(directory: Path, kind: str) -> Records:
    return {path.stem: [_seen(line) for line in _lines(path)] for path in sorted(directory.glob(f"{kind}-*.tsv"))}


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


def _seen(line: bytes) -> SeenFrame:
    id, event, data = line.split(b"\t", 2)
    return SeenFrame(id.decode(), event.decode(), msgspec.json.decode(data))


def judge(evidence: StreamEvidence, clients: int, feeds: int) -> list[PromiseResult]:
    seen, fed = evidence.seen, evidence.fed
    documents = _documents(evidence)
    checks = {
        "every event once, in order, none left out": (
            seen,
            _absent(seen, clients) + _each(seen, lambda got: _unbroken(evidence.kept, got)),
        ),
        "every word that the job emitted, unchanged": (
            seen,
            _kept(evidence) + _each(seen, lambda got: _words(evidence.emitted, got)),
        ),
        "every event as the database has it": (seen | fed, _each(seen | fed, lambda got: _as_kept(documents, got))),
        "the end, once, after everything": (seen, _each(seen, _ended)),
        "all jobs' events once, each job's in order": (fed, _absent(fed, feeds) + _each(fed, lambda got: _fed(evidence, got))),
    }
    return [PromiseResult(promise, sum(map(len, whose.values())), broken) for promise, (whose, broken) in checks.items()]


def _each(records: Records, check: Callable[[list[SeenFrame]], str | None]) -> list[str]:
    wrong = ((client, check(seen)) for client, seen in records.items())
    return [f"{client}: {what}" for client, what in wrong if what]


def _absent(records: Records, clients: int) -> list[str]:
    silent = clients - sum(bool(seen) for seen in records.values())
    return [f"{silent} of {clients} clients received nothing"] if silent else []


def _unbroken(kept: list[Event], seen: list[SeenFrame]) -> str | None:
    """1, 2, 3 … up to the last one in the database."""
    numbers = [each.id for each in seen if each.event != END]
    wanted = [str(event.number) for event in kept]
    if numbers == wanted:
        return None
    often = [id for id, count in Counter(numbers).items() if count > 1]
    lacking = sorted(set(wanted) - set(numbers), key=int)
    if often or lacking:
        return f"{len(often)} events came more than once {often[:5]}, {len(lacking)} never {lacking[:5]}"
    place = next(index for index, (got, want) in enumerate(zip(numbers, wanted, strict=False)) if got != want)
    return f"events came in another order: {numbers[place : place + 5]} where {wanted[place : place + 5]} were expected"


def _kept(evidence: StreamEvidence) -> list[str]:
    """The database must have what the job emitted: the clients could agree with a log that is wrong."""
    words = [event.data for event in evidence.kept if event.kind == WORD]
    numbers = [event.number for event in evidence.kept]
    lost = f"the job emitted {len(evidence.emitted):,} words and the log has {len(words):,}, or others"
    gaps = numbers != list(range(1, len(numbers) + 1))
    return [lost] * (words != evidence.emitted) + ["the log in the database has gaps"] * gaps


def _words(emitted: list[Any], seen: list[SeenFrame]) -> str | None:
    words = [each.data.get("data") for each in seen if each.event == WORD]
    if words == emitted:
        return None
    same = next((n for n, (got, want) in enumerate(zip(words, emitted, strict=False)) if got != want), len(words))
    return f"{len(words):,} words of {len(emitted):,}; the first {same:,} are right"


Documents = dict[tuple[str, int], dict[str, Any]]


def _documents(evidence: StreamEvidence) -> Documents:
    events = [event for log in (evidence.kept, *evidence.others.values()) for event in log]
    return {(event.job, event.number): document(event) for event in events}


def document(event: Event) -> dict[str, Any]:
    """As it is sent over HTTP."""
    return {"job": event.job, "number": event.number, "kind": event.kind, "at": event.at.isoformat(), "data": event.data}


def _as_kept(documents: Documents, seen: list[SeenFrame]) -> str | None:
    for each in seen:
        if each.event == END:
            continue
        sent = {name: value for name, value in each.data.items() if name != "cursor"}
        kept = documents.get((sent.get("job", ""), sent.get("number", 0)))
        if kept is None or sent != kept or each.event != kept["kind"]:
            return f"{each} is {kept} in the database"
        if each.id != each.data.get("cursor", str(kept["number"])):
            return f"{each} has the id of another event"
    return None


def _ended(seen: list[SeenFrame]) -> str | None:
    ends = [index for index, each in enumerate(seen) if each.event == END]
    if ends != [len(seen) - 1]:
        return f"{len(ends)} ends, at {ends[:5]} of {len(seen):,}"
    return None if seen[-1].data.get("state") == SUCCEEDED and not seen[-1].id else f"ended with {seen[-1]}"


def _fed(evidence: StreamEvidence, seen: list[SeenFrame]) -> str | None:
    """All events of the job; of the other jobs, which may go on, all events up to some number."""
    wanted = {job: [event.number for event in log] for job, log in evidence.others.items()}
    watched = evidence.kept[0].job if evidence.kept else ""
    wanted[watched] = [event.number for event in evidence.kept]
    got: dict[str, list[int]] = {watched: []}
    for each in seen:
        got.setdefault(each.data["job"], []).append(each.data["number"])
    for job, numbers in got.items():
        log = wanted.get(job, [])
        if numbers != (log if job == watched else log[: len(numbers)]):
            return f"of job {job} there are {len(numbers):,} events, {len(set(numbers)):,} of them different, of {len(log):,}"
    return None
