"""Proof that `chaos.stream_checks` notices every kind of damage, and that `chaos.stream_clients` reads what was sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from chaos.stream_checks import SeenFrame, StreamEvidence, document, judge
from chaos.stream_clients import Chunks, Frame, Frames, Malformed

from holdfast import Event
from holdfast.domain.job import moment_of

PROMISES = (
    "every event once, in order, none left out",
    "every word that the job emitted, unchanged",
    "every event as the database has it",
    "the end, once, after everything",
    "all jobs' events once, each job's in order",
)
AT = moment_of(1_000_000)
KINDS: list[tuple[str, Any]] = [
    ("enqueued", None), ("started", {}), ("word", {"n": 0}), ("word", {"n": 1}), ("succeeded", None)
]  # fmt: skip


def evidence() -> StreamEvidence:
    """Two words, seen as they should be by two clients, and by one that sees the beginning of another job as well."""
    kept, other = ([Event(job, number, kind, AT, data) for number, (kind, data) in enumerate(KINDS, 1)] for job in ("a", "b"))
    frames = [SeenFrame(str(event.number), event.kind, document(event)) for event in kept]
    frames.append(SeenFrame("", "end", {"job": "a", "state": "succeeded"}))
    fed = [kept[0], other[0], other[1], *kept[1:]]
    feed = [SeenFrame(f"c{place}", event.kind, {**document(event), "cursor": f"c{place}"}) for place, event in enumerate(fed)]
    return StreamEvidence([{"n": 0}, {"n": 1}], kept, {"b": other}, {"one": list(frames), "two": list(frames)}, {"all": feed})


def broken(found: StreamEvidence, clients: int = 2, feeds: int = 1) -> set[str]:
    return {result.promise for result in judge(found, clients, feeds) if result.broken}


def test_a_sound_record_is_found_sound() -> None:
    assert broken(evidence()) == set()


def put(place: int, **changes: Any) -> Callable[[list[SeenFrame]], None]:
    return lambda seen: seen.__setitem__(place, seen[place]._replace(**changes))


# Each is something that a broken server, or a broken client, could bring about; and the promises that it breaks.
DAMAGE: dict[str, tuple[Callable[[list[SeenFrame]], Any], set[str]]] = {
    "one is missing": (lambda seen: seen.pop(1), {PROMISES[0]}),
    "a word is missing": (lambda seen: seen.pop(2), {PROMISES[0], PROMISES[1]}),
    "one came twice": (lambda seen: seen.insert(1, seen[1]), {PROMISES[0]}),
    "two changed places": (lambda seen: seen.insert(2, seen.pop(3)), {PROMISES[0], PROMISES[1]}),
    "one was cut short": (put(2, data={"job": "a", "number": 3, "kind": "word", "data": {}}), {PROMISES[1], PROMISES[2]}),
    "one has another's number": (put(1, id="3"), {PROMISES[0], PROMISES[2]}),
    "one has another kind": (put(4, event="failed"), {PROMISES[2]}),
    "the last is missing": (lambda seen: seen.pop(4), {PROMISES[0]}),
    "there is no end": (lambda seen: seen.pop(), {PROMISES[3]}),
    "the end comes too early": (lambda seen: seen.insert(4, seen.pop()), {PROMISES[3]}),
    "the end comes twice": (lambda seen: seen.append(seen[-1]), {PROMISES[3]}),
    "it ended otherwise": (put(5, data={"state": "failed"}), {PROMISES[3]}),
    "nothing came at all": (lambda seen: seen.clear(), {PROMISES[0], PROMISES[1], PROMISES[3]}),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_every_kind_of_damage_is_seen(damage: str) -> None:
    harm, promises = DAMAGE[damage]
    found = evidence()
    harm(found.seen["two"])
    assert broken(found) == promises


FEED_DAMAGE: dict[str, tuple[Callable[[list[SeenFrame]], Any], set[str]]] = {
    "one is missing": (lambda seen: seen.pop(3), {PROMISES[4]}),
    "one of another job is missing": (lambda seen: seen.pop(1), {PROMISES[4]}),
    "the last is missing": (lambda seen: seen.pop(), {PROMISES[4]}),
    "one came twice": (lambda seen: seen.insert(1, seen[1]), {PROMISES[4]}),
    "two changed places": (lambda seen: seen.insert(1, seen.pop(2)), {PROMISES[4]}),
    "it cannot be gone on from": (put(3, id="3"), {PROMISES[2]}),
    "nothing came at all": (lambda seen: seen.clear(), {PROMISES[4]}),
}


@pytest.mark.parametrize("damage", FEED_DAMAGE)
def test_every_kind_of_damage_to_what_all_jobs_said_is_seen(damage: str) -> None:
    harm, promises = FEED_DAMAGE[damage]
    found = evidence()
    harm(found.fed["all"])
    assert broken(found) == promises


def test_a_log_that_lost_a_word_is_seen_although_all_clients_agree_with_it() -> None:
    found = evidence()
    found.emitted.insert(1, {"n": 0.5})
    assert PROMISES[1] in broken(found)


def test_a_client_that_was_never_there_is_missed() -> None:
    assert broken(evidence(), clients=3) == {PROMISES[0]}
    assert broken(evidence(), feeds=2) == {PROMISES[4]}


# What a client reads, cut anywhere


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_chunks_and_frames_are_put_together_again(size: int) -> None:
    bodies = [b"retry: 100\n\n", b"id: 1\nevent: word\nda", b'ta: {"n": 1}\n\n:\n\nid: 2\nevent: word\ndata: 7\n\nid: 3\nda']
    wire = b"".join(b"%x\r\n%s\r\n" % (len(body), body) for body in bodies)
    chunks, frames = Chunks(), Frames("0")
    pieces = (wire[start : start + size] for start in range(0, len(wire), size))
    seen = [frame for piece in pieces for frame in frames.feed(chunks.feed(piece))]
    assert seen == [Frame("1", "word", '{"n": 1}'), Frame("2", "word", "7")]
    assert (frames.last_id, frames.retry_seconds, frames.comments, frames.is_torn) == ("2", 0.1, 1, True)
    assert not chunks.over
    assert chunks.feed(b"0\r\n\r\n") == b""
    assert chunks.over


def test_what_is_no_stream_is_refused() -> None:
    with pytest.raises(Malformed, match="chunk"):
        Chunks().feed(b"2\r\nabXX")
    with pytest.raises(Malformed, match="no known kind"):
        list(Frames("").feed(b"what: 1\n"))
