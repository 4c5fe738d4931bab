"""Jobs in child processes: what they return, raise and say arrives, and no death goes unnoticed."""

from __future__ import annotations

import gc
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import msgspec
import pytest
from tests.worker import process_tasks

from holdfast.domain.job import Claimed
from holdfast.domain.outcome import Failed, JobError, Outcome, Skipped, Snoozed, Succeeded, WasCancelled
from holdfast.worker.process_runs import outcome_of
from holdfast.worker.processes import Died, ProcessPool
from holdfast.worker.wire import Assignment, Message

TASKS = process_tasks.__name__
LONG = 30.0
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def assignment(task: str, arguments: str = "{}", module: str = TASKS, main: str | None = None, seq: int = 1) -> Assignment:
    claimed = Claimed(
        seq=seq, token=40 + seq, lane=1, id=f"j{seq}", arguments=arguments, attempt=2, attempts_max=3, priority=100,
        created_at=0, started_at=0, more=None,
    )  # fmt: skip
    return Assignment(module, main, task, f"{module}.{task}", "default", claimed)


class Desk:
    """Gathers what a pool says."""

    def __init__(self, size: int = 2) -> None:
        self.said: SimpleQueue[tuple[int, Message]] = SimpleQueue()
        self.results: SimpleQueue[tuple[int, Message | Died]] = SimpleQueue()
        self.pool = ProcessPool(size, self._told, self._ended)
        self._seq = 0

    def _told(self, seq: int, message: Message) -> None:
        if message.kind == "gathered":
            self.said.put((seq, message))

    def _ended(self, seq: int, result: Message | Died) -> None:
        self.results.put((seq, result))

    def start(self, task: str, arguments: str = "{}", module: str = TASKS, main: str | None = None) -> int:
        self._seq += 1
        self.pool.start(self._seq, assignment(task, arguments, module, main, self._seq))
        return self._seq

    def result(self) -> Message | Died:
        return self.results.get(timeout=LONG)[1]

    def run(self, task: str, arguments: str = "{}") -> Message | Died:
        self.start(task, arguments)
        return self.result()

    def outcome(self, task: str, arguments: str = "{}") -> Outcome:
        result = self.run(task, arguments)
        assert isinstance(result, Message)
        assert result.kind == "ended"
        return outcome_of(result)

    def value(self, task: str, arguments: str = "{}") -> Any:
        outcome = self.outcome(task, arguments)
        assert isinstance(outcome, Succeeded), outcome
        return msgspec.json.decode(outcome.result)

    def failure(self, task: str, arguments: str = "{}") -> Failed:
        outcome = self.outcome(task, arguments)
        assert isinstance(outcome, Failed), outcome
        return outcome

    def error(self, task: str, arguments: str = "{}") -> JobError:
        return self.failure(task, arguments).error

    def next_said(self) -> list[tuple[str, Any]]:
        return words(self.said.get(timeout=LONG)[1])

    def next_pid(self) -> int:
        ((_, pid),) = self.next_said()
        assert isinstance(pid, int)
        return pid


def words(message: Message) -> list[tuple[str, Any]]:
    """The events in one message, their data read."""
    assert message.kind == "gathered"
    return [(kind, None if data is None else msgspec.json.decode(data)) for kind, _, data in message.data["events"]]


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.pool.close(LONG)


def gone(pid: int) -> bool:
    """A zombie whose parent has not looked yet is gone too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until_gone(pid: int) -> None:
    """By a descriptor of the process, which the kernel makes readable when it ends."""
    if sys.platform == "linux":
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        ended = select.select([descriptor], [], [], LONG)[0]
        os.close(descriptor)
        assert ended, f"process {pid} is still there"


def test_a_function_returns(desk: Desk) -> None:
    assert desk.value("add", '{"first": 2, "second": 3}') == 5
    assert desk.value("add", '{"first": 2}') == 3


def test_a_coroutine_function_returns(desk: Desk) -> None:
    assert desk.value("add_later", '{"first": 2, "second": 3}') == 5


def test_a_job_runs_in_the_main_thread_of_another_process(desk: Desk) -> None:
    pid, parent, main_thread, name = desk.value("whoami")
    assert (pid != os.getpid(), parent, main_thread, name) == (True, os.getpid(), True, TASKS)


def test_a_large_payload_passes_both_ways(desk: Desk) -> None:
    text = "é" * 400_000
    assert desk.value("large", msgspec.json.encode({"text": text}).decode()) == text


def test_an_exception_arrives_as_text(desk: Desk) -> None:
    failure = desk.failure("fail", '{"name": "odd"}')
    assert (failure.retryable, failure.after_seconds) == (True, None)
    assert (failure.error.kind, failure.error.message) == (f"{TASKS}.Odd", "not even")
    assert "raise errors[name]" in failure.error.traceback
    assert failure.error.traceback.endswith(f"{TASKS}.Odd: not even\n")
    assert "runner.py" not in failure.error.traceback


@pytest.mark.parametrize(
    ("name", "retryable"), [("value", True), ("odd", True), ("odder", False), ("key", False)], ids=lambda value: str(value)
)
def test_which_errors_are_tried_again_is_decided_where_their_classes_are_known(desk: Desk, name: str, retryable: bool) -> None:
    assert desk.failure("choosy", f'{{"name": "{name}"}}').retryable is retryable


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("speechless", "Speechless", "could not be read"),
        ("exit", "SystemExit", "3"),
        ("surrogate", "ValueError", "\\ud800"),
        ("huge", "ValueError", "xxx"),
    ],
)
def test_an_awkward_exception_is_still_an_end(desk: Desk, name: str, kind: str, message: str) -> None:
    error = desk.error("fail", f'{{"name": "{name}"}}')
    assert error.kind.endswith(kind)
    assert message in error.message
    assert desk.value("add", '{"first": 1}') == 2


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("snooze", Snoozed(60.0, "")),
        ("snooze-surrogate", Snoozed(60.0, "\\ud800")),
        ("snooze-error", Snoozed(60.0, "no text")),
        ("skip", Skipped("not needed")),
        ("skip-error", Skipped("no text")),
        ("cancelled", WasCancelled("changed my mind")),
    ],
)
def test_an_ending_on_purpose_says_which(desk: Desk, name: str, outcome: Outcome) -> None:
    assert desk.outcome("fail", f'{{"name": "{name}"}}') == outcome


def test_a_failure_on_purpose_says_what_follows(desk: Desk) -> None:
    later = desk.failure("fail", '{"name": "retry"}')
    assert (later.error.line, later.after_seconds, later.retryable) == ("RetryAfter: come back", 7.5, True)
    never = desk.failure("fail", '{"name": "fatal"}')
    assert (never.error.line, never.after_seconds, never.retryable) == ("Fatal: no hope", None, False)


def test_a_result_that_cannot_be_stored_is_an_error(desk: Desk) -> None:
    failure = desk.failure("unstorable")
    assert (failure.error.kind, failure.retryable) == ("holdfast.errors.PayloadError", False)


def test_arguments_that_do_not_fit_are_an_error(desk: Desk) -> None:
    failure = desk.failure("add", '{"first": "two"}')
    assert (failure.error.kind, failure.retryable) == ("holdfast.errors.PayloadError", False)


def test_finishing_inside_a_transaction_is_refused(desk: Desk, tmp_path: Path) -> None:
    arguments = msgspec.json.encode({"path": str(tmp_path / "rows.db")}).decode()
    for name in ("finish_itself", "finish_itself_later"):
        error = desk.error(name, arguments)
        assert error.kind == "holdfast.errors.SettingError"
        assert error.message == "ctx.finish(on=...) needs the worker's own process; declare the task without process=True"


@pytest.mark.parametrize("qualname", ["nothing", "add.nothing", "app"])
def test_a_task_that_is_not_there_is_an_error(desk: Desk, qualname: str) -> None:
    failure = desk.failure(qualname)
    assert (failure.error.kind, failure.retryable) == ("holdfast.errors.UnknownTask", False)
    assert "must be defined at the top level of a module" in failure.error.message


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("no_such_module_anywhere", "ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
        ("", "holdfast.errors.UnknownTask: task 'add' was defined in a session that no file keeps"),
    ],
    ids=["unknown", "session"],
)
def test_a_module_that_is_not_there_is_an_error(desk: Desk, module: str, line: str) -> None:
    desk.start("add", module=module)
    result = desk.result()
    assert isinstance(result, Message)
    outcome = outcome_of(result)
    assert isinstance(outcome, Failed)
    assert outcome.error.line.startswith(line)


def test_a_module_that_starts_a_worker_when_loaded_is_refused(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "starts_itself.py").write_text('from holdfast import Holdfast\nHoldfast("sqlite:///no.db").worker().run()\n')
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    desk.start("work", module="starts_itself")
    result = desk.result()
    assert isinstance(result, Message)
    assert 'put that under `if __name__ == "__main__":`' in result.data["error"]["message"]


def test_what_a_job_says_arrives_in_order_before_its_end(desk: Desk) -> None:
    assert desk.value("talk", '{"pages": 50}') == [41, 2, "j1"]
    said = [desk.said.get_nowait()[1] for _ in range(102)]
    assert desk.said.empty()
    first, second = words(said[0]), words(said[1])
    assert first == [("progress", {"done": 1, "total": 50, "engine": "tesseract", "fraction": 0.02})]
    assert second == [("page", {"n": 1})]
    assert [word for message in said for word in words(message) if word[0] == "page"] == [
        ("page", {"n": page}) for page in range(1, 51)
    ]
    assert [message.data["spent"] for message in said[-2:]] == [{"seconds": 1.5}, {"seconds": 1.0, "pages": 50.0}]


def test_what_many_threads_of_a_job_say_arrives_in_the_order_of_each(desk: Desk) -> None:
    desk.run("talk_from_many_threads", '{"threads": 4, "words": 100}')
    said: list[Message] = []
    while not desk.said.empty():
        said.append(desk.said.get_nowait()[1])
    heard = [data for message in said for _, data in words(message)]
    for thread in range(4):
        assert [word for number, word in heard if number == thread] == list(range(100))
    assert sum((message.data["spent"] or {}).get("words", 0) for message in said) == 400


def test_what_cannot_be_said_is_an_error_of_the_job(desk: Desk) -> None:
    assert desk.error("talk_nonsense").kind == "holdfast.errors.PayloadError"


def test_a_thread_that_outlives_its_job_does_not_speak_for_the_next() -> None:
    desk = Desk(size=1)
    desk.run("leave_a_chatterbox")
    assert desk.value("let_it_chatter") == "quiet"
    assert desk.said.empty()
    desk.pool.close(LONG)


def test_a_failing_callback_does_not_stop_the_pool(desk: Desk) -> None:
    def broken(seq: int, message: Message) -> None:
        raise RuntimeError("the callback's own fault")

    results: SimpleQueue[Message | Died] = SimpleQueue()
    pool = ProcessPool(1, broken, lambda seq, result: results.put(result))
    pool.start(1, assignment("talk", '{"pages": 1}'))
    result = results.get(timeout=LONG)
    assert isinstance(result, Message)
    assert isinstance(outcome_of(result), Succeeded)
    pool.close(LONG)


def test_a_job_that_holds_the_interpreters_lock_can_be_killed(desk: Desk) -> None:
    seq = desk.start("hold_the_lock", '{"seconds": 600}')
    pid = desk.next_pid()
    desk.pool.kill(seq)
    result = desk.result()
    assert isinstance(result, Died)
    assert (result.exit_code, result.signal) == (None, signal.SIGKILL)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert desk.value("add", '{"first": 1}') == 2


def test_a_job_that_holds_the_lock_leaves_the_others_alone(desk: Desk) -> None:
    seq = desk.start("hold_the_lock", '{"seconds": 600}')
    desk.next_said()
    assert desk.value("add", '{"first": 1}') == 2
    desk.pool.kill(seq)
    assert isinstance(desk.result(), Died)


def test_a_job_that_is_killed_before_its_child_is_up_ends(desk: Desk) -> None:
    seq = desk.start("wait_for_ever")
    desk.pool.kill(seq)
    result = desk.result()
    assert isinstance(result, Died)
    assert result.signal == signal.SIGKILL


@linux_only
def test_what_a_job_started_is_killed_with_it(desk: Desk) -> None:
    seq = desk.start("start_a_program")
    program = desk.next_pid()
    desk.pool.kill(seq)
    assert isinstance(desk.result(), Died)
    wait_until_gone(program)


def test_killing_a_job_that_has_ended_does_nothing(desk: Desk) -> None:
    pid = desk.value("whoami")[0]
    desk.pool.kill(1)
    assert desk.value("whoami")[0] == pid


def test_kills_that_come_at_the_end_of_a_job_never_hit_another() -> None:
    desk = Desk(size=1)
    for _ in range(6):
        seq = desk.start("add", '{"first": 1}')
        desk.pool.kill(seq)
        desk.result()
        assert desk.value("add", '{"first": 1}') == 2
    assert desk.results.empty()
    desk.pool.close(LONG)


def test_an_exit_is_a_death_with_its_code(desk: Desk) -> None:
    assert desk.run("exit_hard", '{"code": 7}') == Died(7, None, "exited with code 7")
    assert desk.run("exit_hard", '{"code": 0}') == Died(0, None, "exited with code 0")
    assert desk.value("add", '{"first": 1}') == 2


def test_a_crash_is_a_death_with_its_signal(desk: Desk) -> None:
    result = desk.run("crash")
    assert isinstance(result, Died)
    assert (result.exit_code, result.signal) == (None, signal.SIGSEGV)
    assert desk.value("add", '{"first": 1}') == 2


def test_a_child_that_died_while_idle_costs_no_job() -> None:
    desk = Desk(size=1)
    pid = desk.value("whoami")[0]
    os.kill(pid, signal.SIGKILL)
    wait_until_gone(pid)
    assert desk.value("whoami")[0] != pid
    desk.pool.close(LONG)


@linux_only
def test_a_death_is_noticed_although_a_fork_is_left(desk: Desk) -> None:
    result = desk.run("die_with_a_fork_left")
    assert result == Died(4, None, "exited with code 4")
    wait_until_gone(desk.next_pid())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_child_leaves_signals_to_its_parent(number: signal.Signals) -> None:
    desk = Desk(size=1)
    pid = desk.value("whoami")[0]
    os.kill(pid, number)
    assert desk.value("whoami")[0] == pid
    desk.pool.close(LONG)


def test_what_a_job_starts_can_be_terminated_all_the_same(desk: Desk) -> None:
    assert desk.value("terminate_a_program") == -signal.SIGTERM
    assert desk.value("terminate_a_fork") == -signal.SIGTERM


def test_children_are_used_again_and_there_are_never_more_than_the_size(desk: Desk) -> None:
    pids = {desk.value("whoami")[0] for _ in range(10)}
    assert len(pids) == 1
    first, second = desk.start("wait_for_ever"), desk.start("wait_for_ever")
    assert desk.pool.free == 0
    with pytest.raises(RuntimeError, match="all 2 processes of the pool are busy"):
        desk.start("add", '{"first": 1}')
    desk.pool.kill(first)
    desk.pool.kill(second)
    assert [type(desk.result()), type(desk.result())] == [Died, Died]
    assert desk.pool.free == 2


def test_a_job_can_be_started_from_the_end_of_another() -> None:
    results: SimpleQueue[Message | Died] = SimpleQueue()

    def ended(seq: int, result: Message | Died) -> None:
        results.put(result)
        if seq < 5:
            pool.start(seq + 1, assignment("add", '{"first": 1}'))

    pool = ProcessPool(1, lambda seq, message: None, ended)
    pool.start(1, assignment("add", '{"first": 1}'))
    assert [outcome_of(results.get(timeout=LONG)) for _ in range(5)] == [Succeeded("2")] * 5
    pool.close(LONG)


@linux_only
def test_twenty_jobs_leave_no_memory_processes_or_descriptors_behind() -> None:
    gc.collect()  # what earlier tests dropped closes now, not halfway
    desk = Desk(size=1)
    before = desk.value("memory_kilobytes")
    mine, open_before = desk.value("whoami")[0], len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        desk.value("talk", '{"pages": 20}')
    assert desk.value("memory_kilobytes") - before < 4_000
    assert len(os.listdir("/proc/self/fd")) <= open_before
    for _ in range(5):
        desk.run("exit_hard", '{"code": 1}')
    assert desk.value("add", '{"first": 1}') == 2
    assert len(os.listdir("/proc/self/fd")) <= open_before
    assert gone(mine)
    desk.pool.close(LONG)


@linux_only
def test_a_child_holds_nothing_of_its_parent_but_its_two_pipes() -> None:
    kept_read, kept_write = os.pipe()
    os.set_inheritable(kept_write, True)
    desk = Desk(size=2)
    seq = desk.start("wait_for_ever")
    desk.next_said()
    pipes = [name for name in desk.value("descriptors") if name.startswith("pipe:")]
    mine = {os.readlink(f"/proc/self/fd/{number}") for number in (1, 2)}
    assert len([name for name in pipes if name not in mine]) == 2
    desk.pool.kill(seq)
    desk.result()
    desk.pool.close(LONG)
    os.close(kept_read)
    os.close(kept_write)


def test_closing_lets_a_running_job_end(desk: Desk) -> None:
    desk.start("add", '{"first": 1}')
    desk.pool.close(LONG)
    assert outcome_of(desk.results.get_nowait()[1]) == Succeeded("2")
    with pytest.raises(RuntimeError, match="closed"):
        desk.start("add", '{"first": 1}')


@linux_only
def test_closing_kills_what_does_not_end_in_time() -> None:
    desk = Desk(size=2)
    idle = desk.value("whoami")[0]
    desk.start("wait_for_ever")
    pid = desk.next_pid()
    desk.pool.close(0.05)
    assert isinstance(desk.results.get_nowait()[1], Died)
    assert gone(pid)
    assert gone(idle)


PARENT = """
import signal, sys
from holdfast.worker.processes import ProcessPool
from tests.worker.test_processes import assignment, words
pool = ProcessPool(1, lambda run, message: print(words(message)[0][1], flush=True), lambda run, result: None)
pool.start(1, assignment(sys.argv[1], sys.argv[2]))
signal.pause()
"""


@linux_only
@pytest.mark.parametrize(("task", "arguments"), [("wait_for_ever", "{}"), ("hold_the_lock", '{"seconds": 600}')])
def test_a_child_dies_with_its_parent(task: str, arguments: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", PARENT, task, arguments]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert parent.stdout
    pid = int(parent.stdout.readline())
    assert not gone(pid)
    parent.kill()
    parent.wait()
    wait_until_gone(pid)
    parent.stdout.close()


SCRIPT = """
import sys
from holdfast import Context, Holdfast, Retry

app = Holdfast("sqlite:///" + sys.argv[1])

class Mine(Exception):
    pass

class Worse(Mine):
    pass

@app.task(process=True, retry=Retry(2, delays=[60], on=Mine, never=Worse))
def work(ctx: Context, text: str):
    print(f"{__name__} prints {text}")
    if text != "work":
        raise {"fail": Mine, "give up": Worse}[text](text)
    return [ctx.job.task, *sys.argv[2:]]

def start():
    jobs = [work.enqueue(text) for text in ("work", "fail", "give up")]
    app.worker(concurrency=1).run_until_empty()
    for job in jobs:
        job = app.get(job.id)
        print(job.state, job.attempt, job.error, job.result)
"""


GUARDED = SCRIPT + '\nif __name__ == "__main__":\n    start()\n'


def run_script(path: Path, text: str, *started_as: str) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(path.parent), *filter(None, sys.path)])}
    command = [sys.executable, *(started_as or [str(path)]), str(path.with_suffix(".db")), "--flag"]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=LONG).stdout


def test_a_script_is_loaded_under_another_name_and_prints_where_its_parent_does(tmp_path: Path) -> None:
    output = run_script(tmp_path / "script.py", GUARDED)
    assert output.splitlines() == [
        "__holdfast_main__ prints work",
        "__holdfast_main__ prints fail",
        "__holdfast_main__ prints give up",
        "succeeded 1 None ['script.work', '--flag']",
        "scheduled 1 Mine: fail None",
        "failed 1 Worse: give up None",
    ]


def test_a_module_that_is_run_by_its_name_is_found_by_it(tmp_path: Path) -> None:
    output = run_script(tmp_path / "script.py", GUARDED, "-m", "script")
    assert output.splitlines()[0] == "script prints work"
    assert "succeeded 1 None ['script.work', '--flag']" in output


def test_a_directory_that_is_run_is_loaded_as_a_script(tmp_path: Path) -> None:
    output = run_script(tmp_path / "program" / "__main__.py", GUARDED, str(tmp_path / "program"))
    assert output.splitlines()[0] == "__holdfast_main__ prints work"
    assert "scheduled 1 Mine: fail None" in output


def test_a_script_that_starts_itself_when_loaded_is_refused(tmp_path: Path) -> None:
    output = run_script(tmp_path / "script.py", SCRIPT + "\nstart()\n")
    assert 'put that under `if __name__ == "__main__":`' in output


def test_a_child_imports_what_its_parent_would_and_keeps_its_environment(desk: Desk) -> None:
    pythonpath, path, argv = desk.value("environment")
    assert pythonpath == os.environ.get("PYTHONPATH")
    assert path == [os.path.abspath(entry) for entry in sys.path]
    assert argv == sys.argv


def test_a_module_of_the_working_directory_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "msgspec.py").write_text("raise RuntimeError('taken from the working directory')")
    monkeypatch.chdir(tmp_path)
    desk = Desk(size=1)
    assert desk.value("add", '{"first": 1}') == 2
    desk.pool.close(LONG)


def test_what_a_job_prints_arrives_before_its_end(desk: Desk, capfd: pytest.CaptureFixture[str]) -> None:
    desk.run("show", '{"text": "hello from the child"}')
    assert capfd.readouterr().out == "hello from the child\n"


def test_a_child_that_cannot_be_started_ends_the_job(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    result = desk.run("add", '{"first": 1}')
    assert isinstance(result, Died)
    assert (result.exit_code, result.signal) == (None, None)
    assert result.reason.startswith("could not be started: ")
    monkeypatch.undo()
    assert desk.value("add", '{"first": 1}') == 2


def test_starting_does_not_wait_for_the_child(desk: Desk) -> None:
    text = msgspec.json.encode({"text": "x" * 900_000}).decode()  # more than a pipe holds
    begun = time.monotonic()
    desk.start("large", text)
    assert time.monotonic() - begun < 0.25
    desk.result()


@pytest.mark.parametrize("how", ["closed", "none", "odd"])
def test_a_job_may_do_to_its_output_what_it_likes(how: str) -> None:
    desk = Desk(size=1)
    assert desk.value("replace_stdout", f'{{"how": "{how}"}}') == how
    desk.pool.close(LONG)


def test_a_child_that_cannot_be_killed_takes_up_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(size=1)
    with monkeypatch.context() as patched:
        patched.setattr("holdfast.worker.processes._Child.kill", lambda child: None)
        stuck = desk.start("wait_for_ever")
        pid = desk.next_pid()
        desk.pool.kill(stuck)
        desk.pool.abandon(stuck)
        assert desk.pool.free == 1
        assert desk.value("add", '{"first": 1}') == 2
    os.kill(pid, signal.SIGKILL)
    assert isinstance(desk.result(), Died)
    assert desk.pool.free == 1
    assert desk.value("add", '{"first": 1}') == 2
    desk.pool.close(LONG)
