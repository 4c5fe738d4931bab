"""A job as its users see it, and the border where times and ids come in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.bounds import ID_CHARS_MAX
from holdfast.domain.job import Job, Lease, check_id, micros_of, moment_of
from holdfast.domain.states import FINAL, State
from holdfast.errors import SettingError


def job(**fields: Any) -> Job:
    given: dict[str, Any] = {
        "id": "0" * 16 + "0123456789abcdef", "task": "t", "queue": "q", "state": State.READY, "priority": 100, "attempt": 0,
        "attempts_max": 3, "token": 0, "arguments_json": '{"a":1}', "created_at": moment_of(0),
    }  # fmt: skip
    return Job(**{**given, **fields})


def test_a_job_is_its_id() -> None:
    assert job() == job(state=State.FAILED)
    assert job() != job(id="other")
    assert len({job(), job(), job(id="other")}) == 2
    assert job() != "0123456789abcdef"


def test_handles_are_sixteen_hex_digits() -> None:
    assert job().handle == "0123456789abcdef"
    assert len(job(id="my own").handle) == 16
    assert job(id="my own").handle == job(id="my own").handle != job(id="my other").handle
    assert int(job(id="my own").handle, 16)


def test_arguments_and_results_are_decoded_when_asked_for() -> None:
    assert job().arguments == {"a": 1}
    assert (job().result, job().result_json) == (None, None)
    assert job(result_json="[1]").result == [1]
    assert (job(arguments_json="{}").arguments, job(arguments_json="{}").arguments_json) == ({}, "{}")
    assert job().arguments_json == '{"a":1}'


@pytest.mark.parametrize("state", list(State))
def test_final(state: State) -> None:
    assert job(state=state).final == (state in FINAL)


def test_what_is_not_given_is_empty() -> None:
    bare = job()
    assert (bare.progress, bare.meter, bare.meta, bare.tags, bare.errors, bare.key) == ({}, {}, {}, (), (), None)


def test_both_print_what_one_looks_for() -> None:
    assert "ready attempt 0/3" in repr(job())
    lease = Lease(job(), 1, 7, 1, 15.0, moment_of(0))
    assert "token 7" in repr(lease)


@given(st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)))
def test_times_survive_the_way_to_microseconds_and_back(moment: datetime) -> None:
    assert moment_of(micros_of(moment)) == moment


def test_a_time_zone_is_respected_and_a_naive_time_refused() -> None:
    cest = timezone(timedelta(hours=2))
    assert micros_of(datetime(2030, 6, 1, 14, tzinfo=cest)) == micros_of(datetime(2030, 6, 1, 12, tzinfo=UTC))
    with pytest.raises(SettingError, match="2030-06-01T12:00:00 has no timezone"):
        micros_of(datetime(2030, 6, 1, 12))


@pytest.mark.parametrize("id", ["a", "my-id", "a.b:c@d/e+f=g_h", "x" * ID_CHARS_MAX])
def test_ids_that_may_be_chosen(id: str) -> None:
    assert check_id(id) == id


@pytest.mark.parametrize("id", ["", " ", "a b", "a\n", "ä", "x" * (ID_CHARS_MAX + 1), 7, None])
def test_ids_that_may_not(id: Any) -> None:
    with pytest.raises(SettingError, match="job id"):
        check_id(id)
