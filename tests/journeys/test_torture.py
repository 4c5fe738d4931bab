"""`holdfast torture` on a small scale, and proof that its checker notices every kind of damage."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.errors import SettingError
from holdfast.torture.checker import CHECKS, database_sound, judge, nothing_lost
from holdfast.torture.evidence import Evidence, gather
from holdfast.torture.fleet import Fleet
from holdfast.torture.forks import in_child
from holdfast.torture.ledgers import Ledger
from holdfast.torture.run import plan_of
from tests.until import until

_A_GLANCE = "(SELECT seq FROM holdfast_full_job WHERE task LIKE '%.glance' AND state = 'succeeded' LIMIT 1)"
_A_BULK_JOB = "(SELECT seq FROM holdfast_full_job WHERE json_extract(arguments, '$.call') = '{bulk}')"

# Each line is a fault that a broken engine could leave behind.
DAMAGE = {
    "acknowledged jobs are never lost": [
        f"UPDATE holdfast_job_state SET state = 'running' WHERE seq = {_A_GLANCE}",
    ],
    "every job was asked for, once": [
        f"""UPDATE holdfast_job_spec SET arguments = '{{{{"call":"nobody-1"}}}}' WHERE seq = {_A_GLANCE}"""
    ],
    "a bulk request is all or nothing": [
        f"UPDATE holdfast_job_spec SET arguments = '{{{{}}}}' WHERE seq = {_A_BULK_JOB}",
    ],
    "a rolled back request leaves nothing": ["INSERT INTO torture_order VALUES ('{rolled_back}')"],
    "a caller's rows and jobs commit together": ["DELETE FROM torture_order WHERE call = '{committed}'"],
    "a key has one job, and every caller its id": [
        "UPDATE holdfast_job_spec SET key = (SELECT min(key) FROM holdfast_job_spec)"
        " WHERE key = (SELECT max(key) FROM holdfast_job_spec)"
    ],
    "a job ends once, under its current token": [
        f"""UPDATE holdfast_job_state SET result = '{{{{"call":"other","token":1}}}}' WHERE seq = {_A_GLANCE}"""
    ],
    "effects committed with a job happen once": ["INSERT INTO torture_effect SELECT call, token FROM torture_effect LIMIT 1"],
    "no job runs more often than it may": [f"UPDATE holdfast_job_spec SET attempts_max = 0 WHERE seq = {_A_GLANCE}"],
    "every job ends as its code decided": [
        f"UPDATE holdfast_job_spec SET attempts_max = 99 WHERE seq = {_A_GLANCE}",
        f"UPDATE holdfast_job_state SET state = 'failed' WHERE seq = {_A_GLANCE}",
    ],
    "event logs are gapless and legal": [f"DELETE FROM holdfast_event WHERE number = 2 AND job = {_A_GLANCE}"],
    "the tables agree with the jobs": [f"DELETE FROM holdfast_finished WHERE seq = {_A_GLANCE}"],
}


@pytest.mark.slow
def test_sixty_kills_and_every_kind_of_damage_is_seen(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "holdfast", "torture", "--kills", "60", "--seed", "5", "--dir", str(tmp_path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.startswith("seed 5,")
    found = json.loads(done.stdout)
    assert found["ok"]
    assert found["kills"] >= 60
    assert found["command"] == "holdfast torture --kills 60 --seed 5 --workers 4 --enqueuers 3"
    assert {promise["promise"]: promise["broken"] for promise in found["promises"]} == dict.fromkeys(CHECKS, 0)
    directory = Path(found["directory"])
    sound = gather(str(directory / "ledgers"), str(directory / "jobs.db"))
    assert found["acknowledged"] == len(sound.acknowledged) > 100
    assert found["acknowledged_in_forks"] > 0
    _assert_every_job_of_a_forked_child_is_missed(sound)
    for promise, statements in DAMAGE.items():
        broken = {result.promise for result in judge(_damaged(directory, sound, statements)) if result.broken}
        assert promise in broken, f"{statements} was not noticed"


def _assert_every_job_of_a_forked_child_is_missed(sound: Evidence) -> None:
    children = [call for call in sound.acknowledged if call.how == "child"]
    rows = sound.rows
    sound.rows = {id: row for id, row in rows.items() if id not in {call.id for call in children}}
    trials, broken = nothing_lost(sound)
    sound.rows = rows
    assert (trials, len(broken)) == (len(sound.acknowledged), len(children))
    assert children


def _damaged(directory: Path, sound: Evidence, statements: list[str]) -> Evidence:
    calls = sound.calls.values()
    names = {
        "bulk": next(call.call for call in calls if call.how == "bulk" and call.id),
        "rolled_back": next(call.call for call in calls if call.rolled_back),
        "committed": next(call.call for call in calls if call.how == "transaction" and call.id),
    }
    copy = directory / "damaged.db"
    connection = sqlite3.connect(copy)
    original = sqlite3.connect(directory / "jobs.db")
    original.backup(connection)  # a copy of the file alone would miss what is still in its log
    original.close()
    for statement in statements:
        assert connection.execute(statement.format(**names)).rowcount > 0, statement
    connection.commit()
    connection.close()
    return gather(str(directory / "ledgers"), str(copy))


def test_a_forked_child_that_hangs_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(kills=1, seed=1, workers=1, enqueuers=1, directory=str(tmp_path))
    for directory in (plan.ledgers, plan.logs):
        Path(directory).mkdir()
    ledger, (reader, writer) = Ledger(plan.ledgers), os.pipe()

    def hang() -> None:
        ledger.hold()
        os.close(writer)
        os.read(reader, 1)  # until this process closes its end

    child = in_child(hang)
    monkeypatch.setattr("holdfast.torture.fleet.STALL_SECONDS", 0.2)
    with closing(Fleet(plan, "sqlite:///jobs.db", "tests.journeys.short_load")) as fleet:
        until(ledger.is_held, "the child holds the ledgers")
        fleet.wait_for_children()
        assert fleet.surprises == ["a forked child had not ended 0.2 s after its parent"]
        os.close(writer)
        os.waitpid(child, 0)
        fleet.wait_for_children()
        assert len(fleet.surprises) == 1
    os.close(reader)


def test_a_damaged_file_is_seen() -> None:
    evidence = gather_nothing()
    evidence.integrity = ["row 7 missing from index"]
    assert database_sound(evidence) == (1, ["row 7 missing from index"])


def gather_nothing() -> Evidence:
    return Evidence({}, set(), {}, set(), Counter(), {}, {}, set(), Counter(), [], ["ok"], 0)


def test_a_plan_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="give one of them"):
        plan_of(1.0, 10, 1, 1, 1, str(tmp_path))
    with pytest.raises(SettingError, match="workers 0 must be 1 or more"):
        plan_of(None, 10, 1, 0, 1, str(tmp_path))
    with pytest.raises(SettingError, match="minutes 0 must be more than 0"):
        plan_of(0.0, None, 1, 1, 1, str(tmp_path))
    with pytest.raises(SettingError, match="begins with postgresql://"):
        plan_of(None, None, 1, 1, 1, str(tmp_path), "sqlite:///jobs.db")


@pytest.mark.parametrize("poison", [True, False])
def test_a_process_that_ends_by_itself_is_a_surprise(poison: bool, tmp_path: Path) -> None:
    """Unless the load has jobs that kill their worker, and a worker was killed."""
    plan = plan_of(None, 1, 1, 1, 1, str(tmp_path))
    for directory in (plan.ledgers, plan.logs):
        Path(directory).mkdir()
    with closing(Fleet(plan, "sqlite:///jobs.db", "tests.journeys.short_load", poison)) as fleet:

        def refilled() -> bool:
            fleet.fill()
            return all(slot.life > 1 for slot in fleet.slots)

        until(refilled, "both were started again")
    killed = {surprise for surprise in fleet.surprises if surprise.startswith("worker-0 ended by itself, by signal 9")}
    failed = {surprise for surprise in fleet.surprises if surprise.startswith("enqueuer-0 ended by itself, with exit code 1")}
    assert (bool(killed), bool(fleet.killed_by_jobs)) == (not poison, poison)
    assert failed
    assert set(fleet.surprises) == killed | failed
    assert "ValueError: enqueuer-0" in Path(plan.logs, "enqueuer-0.log").read_text()
