"""The table of moves: complete, closed, and the source of everything that is said about states."""

from __future__ import annotations

import itertools
import re

import pytest

from holdfast.domain.states import EVENTS, FINAL, MOVES, State, diagram, move, verbs
from holdfast.errors import IllegalMove

STARTS: list[State | None] = [None, *State]
VERBS = sorted({verb for _, verb in MOVES})


@pytest.mark.parametrize(("start", "verb"), list(itertools.product(STARTS, VERBS)))
def test_a_pair_is_in_the_table_or_it_is_an_error(start: State | None, verb: str) -> None:
    if (start, verb) in MOVES:
        assert move(start, verb) == MOVES[start, verb]
    else:
        with pytest.raises(IllegalMove, match=f"{start} cannot be moved by '{verb}'"):
            move(start, verb)


def test_an_illegal_move_names_the_legal_ones() -> None:
    with pytest.raises(IllegalMove, match="legal here: retry, delete"):
        move(State.FAILED, "cancel")
    with pytest.raises(IllegalMove, match="legal here: delete"):
        move(State.SUCCEEDED, "retry")


def test_only_retry_and_delete_lead_out_of_a_final_state() -> None:
    out = {(start, verb) for start, verb in MOVES if start in FINAL}
    assert {verb for _, verb in out} == {"retry", "delete"}
    assert {start for start, verb in out if verb == "retry"} == {State.FAILED, State.CANCELLED, State.SKIPPED}


def test_final_states_are_the_four_of_the_design() -> None:
    assert {"succeeded", "failed", "cancelled", "skipped"} == FINAL


def test_every_state_can_be_reached_and_left() -> None:
    reached: set[State | None] = {None}
    while grown := {end for (start, _), end in MOVES.items() if start in reached} - reached:
        reached |= grown
    assert reached == {None, *State}
    assert {start for start, _ in MOVES} == {None, *State}


def test_a_running_job_cannot_be_deleted() -> None:
    assert (State.RUNNING, "delete") not in MOVES
    assert all((state, "delete") in MOVES for state in State if state is not State.RUNNING)


def test_every_verb_but_delete_leaves_an_event_of_its_own() -> None:
    assert set(EVENTS) == set(VERBS) - {"delete"}
    assert len(set(EVENTS.values())) == len(EVENTS)


def test_a_final_state_has_the_name_of_its_event() -> None:
    for verb in ("finish", "fail", "cancel", "skip"):
        assert EVENTS[verb] in FINAL
        assert MOVES[State.RUNNING, verb] == EVENTS[verb]


def test_verbs_are_those_of_the_table_in_its_order() -> None:
    assert verbs(State.FAILED) == ["retry", "delete"]
    assert verbs(None) == ["enqueue", "schedule"]
    for state in STARTS:
        assert verbs(state) == [verb for start, verb in MOVES if start == state]


def test_states_are_their_own_text() -> None:
    for state in State:
        assert f"{state}" == str(state) == state.value == state


def test_the_diagram_draws_every_move_once() -> None:
    lines = diagram().splitlines()
    assert lines[0] == "stateDiagram-v2"
    drawn = set()
    for line in lines[1:]:
        if match := re.fullmatch(r"    (\S+) --> (\S+): (.+)", line):
            drawn |= {(match[1], match[2], verb) for verb in match[3].split(", ")}
    assert drawn == {(start or "[*]", end, verb) for (start, verb), end in MOVES.items() if verb != "delete"}
    assert [line for line in lines if line.endswith("--> [*]")] == [f"    {state} --> [*]" for state in State if state in FINAL]
    assert "    running --> ready: release, expire" in lines
