"""Idempotency keys of new jobs: which of the jobs that are asked for are to be made.

`take_keys` gives free keys to their jobs and locks the rows of the others, in the order of keys. For those the holder decides: it
keeps its key, gives it up because it does not hold it any more, or is replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from holdfast.domain.job import NewJob, Options
from holdfast.domain.key import Holder, Key, holds
from holdfast.domain.message import NOTHING_HIDDEN, Hidden
from holdfast.errors import Conflict
from holdfast.store import control
from holdfast.store.depth import Full
from holdfast.store.ids import id_text
from holdfast.store.lane import Pair
from holdfast.store.op import Moment, Op, Statement, json_of

_decode_seqs = msgspec.json.Decoder(list[int]).decode


class Existing(msgspec.Struct, frozen=True):
    """The job that already has the key of one that was asked for."""

    id: str
    same_arguments: bool = True
    ended: Holder | None = None
    """Set where the job itself was pruned and only its key is left."""


class New(NamedTuple):
    """A job that is asked for: its place in the batch, and what it gets if it is made."""

    at: int
    seq: int
    options: Options
    arguments: str


Keyed = tuple[New, Key]


class Batch:
    """What is decided about the jobs of one operation, as it is decided."""

    def __init__(self, moment: Moment, first_id: int) -> None:
        self.moment, self.first_id = moment, first_id
        self.lanes: dict[Pair, int] = {}
        self.chosen: dict[int, str] = {}
        self.existing: dict[int, Existing] = {}
        self.replaced: dict[int, Hidden] = {}
        """Jobs with a callback that lost their key to one of this batch, by their numbers."""

        self.bounded: set[str] = set()
        self.full: Full | None = None

    def lane(self, options: Options) -> int:
        return self.lanes[options.queue, options.task]

    def id(self, new: New) -> str:
        return new.options.id or id_text(self.first_id + new.at)


def rounds(asked: list[New]) -> Iterator[list[New]]:
    """Such that no key and no id is in one twice: a repeated one is decided when the job before it is written."""
    while asked:
        names = [_name(new) for new in asked if not (new.options.key is None and new.options.id is None)]
        if len(set(names)) == len(names):
            yield asked
            return
        first: dict[str | int, New] = {}
        repeated = [new for new in asked if first.setdefault(_name(new), new) is not new]
        yield list(first.values())
        asked = repeated


def _name(new: New) -> str | int:
    return (new.options.id or new.seq) if new.options.key is None else new.options.key.text


def with_keys(batch: Batch, asked: list[New]) -> Op[list[New]]:
    """Those of the jobs that are to be made: they have no key, or it is theirs now."""
    keyed = [(new, new.options.key) for new in asked if new.options.key is not None]
    contested: list[Keyed] = []
    for some, fields in _together(batch, keyed):
        taken = (yield Statement("take_keys", fields))[0][0]
        if taken is not None:
            fresh = set(_decode_seqs(taken))
            contested += [each for each in some if each[0].seq not in fresh]
    if contested:
        yield from _decide(batch, contested)
        return [new for new in asked if new.at not in batch.existing]
    return asked


def is_there(batch: Batch, job: NewJob) -> Op[bool]:
    """Whether the job's key would give the job that has it, so that none is made."""
    key = job.options.key
    if key is None or key.conflict != "return":
        return False
    rows = yield Statement("key_holders", {"keys": json_of([key.text])})
    return bool(rows) and holds(Holder(*rows[0][1:]), batch.moment.now)


def _decide(batch: Batch, contested: list[Keyed]) -> Op[None]:
    rows = yield Statement("key_holders", {"keys": json_of([key.text for _, key in contested])})
    holders = {row[0]: Holder(*row[1:]) for row in rows}
    given: list[Keyed] = []
    found: list[tuple[New, Holder]] = []
    for new, key in contested:
        holder = holders.get(key.text)
        if holder is None or (yield from _gives_way(batch, holder, key)):
            given.append((new, key))
        else:
            found.append((new, holder))
    for _, fields in _together(batch, given):
        yield Statement("hold_keys", fields)
    batch.existing.update((yield from _existing(found)))


def _together(batch: Batch, keyed: list[Keyed]) -> Iterator[tuple[list[Keyed], dict[str, Any]]]:
    """Keys that one statement gives to their jobs, and its parameters. In the order of keys: all transactions lock them so."""
    now = batch.moment.now

    def lasts(each: Keyed) -> tuple[Any, ...]:
        scope = each[1].scope
        if isinstance(scope, float):
            return "seconds", now + int(scope * 1e6), each[1].failed, batch.lane(each[0].options)
        return scope, None, each[1].failed, batch.lane(each[0].options)

    for (scope, until, failed, lane), group in groupby(sorted(keyed, key=lambda each: each[1].text), key=lasts):
        some = list(group)
        rows = json_of([(key.text, new.seq, batch.id(new)) for new, key in some])
        yield some, {"now": now, "scope": scope, "until": until, "failed": failed, "lane": lane, "keys": rows}


def _gives_way(batch: Batch, holder: Holder, key: Key) -> Op[bool]:
    """Whether a key is free although it was given to a job before; `replace` cancels that job."""
    if not holds(holder, batch.moment.now):
        return True
    if key.conflict == "raise":
        raise Conflict(f"key {key.text} is held by job {holder.id} ({holder.state or holder.ended or 'ready'}); "
                       "use conflict='return' to get that job, or another key")  # fmt: skip
    if key.conflict == "replace" and holder.ended is None:
        why = f"replaced by a newer job with key {key.text}"
        callback = yield from control.cancel_if_open(batch.moment, holder.id, why)
        if callback is not None:
            batch.replaced[callback] = NOTHING_HIDDEN
    return key.conflict == "replace"


def _existing(found: Iterable[tuple[New, Holder]]) -> Op[dict[int, Existing]]:
    """The jobs that have the keys, and whether each was asked for with the same arguments."""
    kept = [(holder.seq, new.arguments) for new, holder in found if holder.ended is None]
    others = set(_decode_seqs((yield Statement("other_arguments", {"jobs": json_of(kept)}))[0][0])) if kept else set()
    return {
        new.at: Existing(holder.id, holder.seq not in others, holder if holder.ended is not None else None)
        for new, holder in found
    }
