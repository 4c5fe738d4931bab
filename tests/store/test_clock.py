"""The machine's clocks: units, order, and a boot id that is read once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.store import clock
from holdfast.store.clock import Clock, SystemClock


@pytest.fixture(autouse=True)
def fresh_boot_id() -> None:
    clock._boot_id.cache_clear()


def test_now_is_wall_time_in_microseconds() -> None:
    before, now, after = time.time(), SystemClock().now(), time.time()
    assert int(before * 1e6) - 1 <= now <= int(after * 1e6) + 1


def test_tick_never_goes_back() -> None:
    system = SystemClock()
    ticks = [system.tick() for _ in range(1000)]
    assert ticks == sorted(ticks)


@pytest.mark.skipif(sys.platform != "linux", reason="the boot-time clock is Linux's")
def test_tick_counts_suspend_on_linux() -> None:
    boottime = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
    assert 0 <= SystemClock().tick() - boottime < 1_000_000


def test_tick_does_not_follow_the_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    system = SystemClock()
    before = system.tick()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert system.now() == 0
    assert 0 <= system.tick() - before < 1_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux publishes")
def test_boot_is_the_kernels_boot_id_and_the_same_for_every_clock() -> None:
    published = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    namespace = os.readlink("/proc/self/ns/time")
    assert SystemClock().boot() == SystemClock().boot() == f"{published} {namespace}"


def test_boot_on_a_mac_asks_sysctl_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def run(command: Any, **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, 0, stdout="3F0A-11\n")

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(subprocess, "run", run)
    assert [SystemClock().boot(), SystemClock().boot()] == ["3F0A-11", "3F0A-11"]
    assert len(asked) == 1


@pytest.mark.parametrize("platform", ["darwin", "sunos5"])
def test_boot_is_empty_where_it_cannot_be_read(monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(clock, "_BOOT_ID_MAC", ("no-such-command-anywhere",))
    monkeypatch.setattr(clock, "_BOOT_ID_LINUX", Path("/no/such/file"))
    monkeypatch.setattr(clock, "_TIME_NAMESPACE", "/no/such/file")
    assert SystemClock().boot() == ""


def test_the_system_clock_is_a_clock() -> None:
    usable: Clock = SystemClock()
    assert usable.tick() > 0
