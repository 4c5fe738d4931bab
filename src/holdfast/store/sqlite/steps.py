"""Verbs that SQLite runs as several statements, and PostgreSQL as one.

PostgreSQL's cost is the round trip and the look-up; here a statement costs next to nothing, and one statement cannot write two
tables. Each function takes the verb's parameters, yields the statements of `steps/`, and returns the verb's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from holdfast.domain.bounds import CLAIMED_SLICE_MAX
from holdfast.store.op import Op, Row, Statement, json_of

Parameters = Mapping[str, Any]

_decode_offers = msgspec.json.Decoder(list[tuple[int, int, int, None]]).decode
_decode_seqs = msgspec.json.Decoder(list[int]).decode
_decode_results = msgspec.json.Decoder(dict[int, tuple[int | None, int, str | None]]).decode
_decode_rows = msgspec.json.Decoder(list[Any]).decode


def claim_jobs(given: Parameters) -> Op[list[Row]]:
    if not (yield Statement("worker_exists", given)):
        return []
    offers = _decode_offers(given["offers"])
    for lane, (priority, seq) in {lane: (priority, seq) for priority, seq, lane, _ in offers}.items():
        yield Statement("take_ready", {"lane": lane, "priority": priority, "seq": seq})
    seqs = [seq for _, seq, _, _ in offers]
    every = {**given, "seqs": json_of(seqs)}
    yield Statement("start_jobs", every)
    yield Statement("add_claims", every)
    yield Statement("record_started", every)
    rows: list[Row] = []
    for start in range(0, len(seqs), CLAIMED_SLICE_MAX):
        # Arguments can be large, and one value of SQLite's has a bound: some jobs at a time.
        found = yield Statement("claimed", {"seqs": json_of(seqs[start : start + CLAIMED_SLICE_MAX])})
        rows += _decode_rows(found[0][0])
    return rows


def finish_jobs(given: Parameters) -> Op[list[Row]]:
    rows = yield Statement("lock_claims", given)
    seqs = rows[0][0]
    if seqs != "[]":
        every = {**given, "seqs": seqs}
        if seqs.count(",") < given["leases"].count(","):  # some are not held any more: without their results
            held = set(_decode_seqs(seqs))
            every["results"] = json_of({seq: result for seq, result in _decode_results(given["results"]).items() if seq in held})
        yield Statement("end_claims", every)
        yield Statement("succeed_jobs", every)
        yield Statement("record_succeeded", every)
        yield Statement("add_finished", every)
    return [(seqs,)]


def take_keys(given: Parameters) -> Op[list[Row]]:
    yield Statement("insert_keys", given)
    ((count,),) = yield Statement("count_changes")
    if count == len(_decode_rows(given["keys"])):
        return [(None,)]
    rows: list[Row] = yield Statement("keys_taken", given)
    return rows


def add_alike(given: Parameters) -> Op[list[Row]]:
    yield Statement("add_alike_specs", given)
    yield Statement("list_alike_ready" if given["run_after"] is None else "list_alike_scheduled", given)
    return []


def add_jobs(given: Parameters) -> Op[list[Row]]:
    yield Statement("add_specs", given)
    rows: list[Row] = yield Statement("count_changes")
    yield Statement("list_ready", given)
    if given["are_scheduled"]:
        yield Statement("list_scheduled", given)
    if given["are_tagged"]:
        yield Statement("list_tags", given)
    return rows


def delete_specs(given: Parameters) -> Op[list[Row]]:
    yield Statement("keep_numbers", given)
    yield Statement("delete_spec_rows", given)
    return []


STEPS: Final[dict[str, Callable[[Parameters], Op[list[Row]]]]] = {
    verb.__name__: verb for verb in (claim_jobs, finish_jobs, take_keys, add_alike, add_jobs, delete_specs)
}
