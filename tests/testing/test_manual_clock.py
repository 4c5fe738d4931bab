"""The clock that a test moves."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.errors import SettingError
from holdfast.testing import ManualClock

START = datetime(2031, 5, 1, tzinfo=UTC)


def test_it_stands_still() -> None:
    clock = ManualClock(START)
    assert (clock.now(), clock.tick(), clock.boot()) == (clock.now(), clock.tick(), clock.boot())
    assert clock.moment == START


def test_time_passes_on_both_clocks() -> None:
    clock = ManualClock(START)
    now, tick = clock.now(), clock.tick()
    assert clock.advance(1.5) == START + timedelta(seconds=1.5)
    clock.advance(timedelta(minutes=1))
    assert (clock.now() - now, clock.tick() - tick) == (61_500_000, 61_500_000)


@pytest.mark.parametrize("seconds", [3600, -3600, timedelta(days=-1)])
def test_a_jump_moves_the_wall_only(seconds: float | timedelta) -> None:
    clock = ManualClock(START)
    tick = clock.tick()
    jumped = clock.jump(seconds)
    assert jumped - START == (seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds))
    assert clock.tick() == tick


def test_a_reboot_begins_lease_time_anew() -> None:
    clock = ManualClock(START)
    boot, tick = clock.boot(), clock.tick()
    clock.reboot()
    assert clock.boot() != boot
    assert clock.tick() < tick
    assert clock.moment == START


def test_time_does_not_pass_backwards() -> None:
    with pytest.raises(SettingError):
        ManualClock().advance(-1)


def test_a_naive_start_is_refused() -> None:
    with pytest.raises(SettingError):
        ManualClock(datetime(2031, 5, 1))


def test_many_threads_may_move_it() -> None:
    clock = ManualClock(START)

    def move() -> None:
        for _ in range(1000):
            clock.advance(0.001)

    threads = [threading.Thread(target=move) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clock.moment == START + timedelta(seconds=8)
