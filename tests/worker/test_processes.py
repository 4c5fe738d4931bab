"""Jobs in child processes: what they return, raise and say arrives, and no death goes unnoticed."""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import gc
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import msgspec
import pytest

from holdfast.domain.outcome import Fatal, RetryAfter, Skip, Snooze
from holdfast.domain.signature import Signature
from holdfast.worker.processes import Assignment, Died, Message, ProcessPool

LONG = 30.0
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


class StandIn:
    """What a child needs of a task."""

    def __init__(self, fn: Callable[..., Any], takes_context: bool) -> None:
        self.fn, self.takes_context = fn, takes_context
        self.signature = Signature.of(fn, takes_context=takes_context)


def plain(fn: Callable[..., Any]) -> StandIn:
    return StandIn(fn, takes_context=False)


def with_context(fn: Callable[..., Any]) -> StandIn:
    return StandIn(fn, takes_context=True)


class Odd(ValueError):
    pass


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@plain
def add(first: int, second: int = 1) -> int:
    return first + second


@plain
async def add_later(first: int, second: int) -> int:
    await asyncio.sleep(0)
    return first + second


@plain
def whoami() -> list[Any]:
    thread = threading.current_thread() is threading.main_thread()
    return [os.getpid(), os.getppid(), thread, __name__]


@plain
def fail(name: str) -> None:
    errors: dict[str, BaseException] = {
        "odd": Odd("not even"),
        "speechless": Speechless(),
        "exit": SystemExit(3),
        "surrogate": ValueError("\ud800"),
        "huge": ValueError("x" * 1_000_000),
        "retry": RetryAfter(7.5, "come back"),
        "snooze": Snooze(60),
        "skip": Skip("not needed"),
        "fatal": Fatal("no hope"),
    }
    raise errors[name]


@plain
def unstorable() -> object:
    return object()


@plain
def large(text: str) -> str:
    return text


@with_context
def talk(ctx: Any, pages: int) -> list[Any]:
    for page in range(1, pages + 1):
        ctx.progress(page, pages, engine="tesseract")
        ctx.emit("page", {"n": page})
    ctx.meter(seconds=1.5)
    return [ctx.token, ctx.attempt, ctx.job["id"]]


@with_context
def talk_nonsense(ctx: Any) -> None:
    ctx.progress(float("nan"))


@with_context
def hold_the_lock(ctx: Any, seconds: int) -> None:
    ctx.emit("holding", os.getpid())
    ctypes.PyDLL(None).sleep(seconds)  # a C call that does not let any other thread of Python run


@with_context
def wait_for_ever(ctx: Any) -> None:
    ctx.emit("waiting", os.getpid())
    threading.Event().wait()


@with_context
def start_a_program(ctx: Any) -> None:
    program = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    ctx.emit("started", program.pid)
    program.wait()


@with_context
def terminate_a_program(ctx: Any) -> int:
    program = subprocess.Popen(
        [sys.executable, "-c", "print('up', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert program.stdout
    program.stdout.readline()
    program.terminate()
    return program.wait()


@plain
def terminate_a_fork() -> int | None:
    fork = multiprocessing.get_context("fork").Process(target=signal.pause)
    fork.start()
    fork.terminate()
    fork.join()
    return fork.exitcode


@with_context
def die_with_a_fork_left(ctx: Any) -> None:
    if not (fork := os.fork()):
        signal.pause()
    ctx.emit("forked", fork)
    os._exit(4)


@plain
def exit_hard(code: int) -> None:
    os._exit(code)


@plain
def crash() -> None:
    faulthandler.disable()  # its report would only clutter the output of the tests
    os.kill(os.getpid(), signal.SIGSEGV)


@with_context
def leave_a_chatterbox(ctx: Any) -> None:
    gate = threading.Event()
    _chatterboxes.append(gate)

    def chatter() -> None:
        gate.wait()
        ctx.emit("late", None)
        _spoken.set()

    threading.Thread(target=chatter, daemon=True).start()


_chatterboxes: list[threading.Event] = []
_spoken = threading.Event()


@plain
def let_it_chatter() -> str:
    _chatterboxes.pop().set()
    _spoken.wait()
    return "quiet"


@plain
def show(text: str) -> None:
    print(text)


@plain
def environment() -> list[Any]:
    return [os.environ.get("PYTHONPATH"), sys.path, sys.argv]


@plain
def memory_kilobytes() -> int:
    gc.collect()
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


@plain
def descriptors() -> list[str]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            continue
    return found


class Desk:
    """Gathers what a pool says."""

    def __init__(self, size: int = 2) -> None:
        self.said: SimpleQueue[tuple[int, Message]] = SimpleQueue()
        self.results: SimpleQueue[tuple[int, Message | Died]] = SimpleQueue()
        self.pool = ProcessPool(size, self._told, self._ended)
        self._seq = 0

    def _told(self, seq: int, message: Message) -> None:
        self.said.put((seq, message))

    def _ended(self, seq: int, result: Message | Died) -> None:
        self.results.put((seq, result))

    def start(self, task: str, arguments: str = "{}", module: str = __name__, main: str | None = None) -> int:
        self._seq += 1
        job = {"id": f"j{self._seq}", "token": 40 + self._seq, "attempt": 2, "arguments": arguments}
        self.pool.start(self._seq, Assignment(module, main, task, job))
        return self._seq

    def result(self) -> Message | Died:
        return self.results.get(timeout=LONG)[1]

    def run(self, task: str, arguments: str = "{}") -> Message | Died:
        self.start(task, arguments)
        return self.result()

    def value(self, task: str, arguments: str = "{}") -> Any:
        result = self.run(task, arguments)
        assert isinstance(result, Message)
        assert result.kind == "returned", result.data["traceback"]
        return msgspec.json.decode(result.data["result"])

    def error(self, task: str, arguments: str = "{}") -> dict[str, Any]:
        result = self.run(task, arguments)
        assert isinstance(result, Message)
        assert result.kind == "raised"
        return result.data

    def next_said(self) -> Message:
        return self.said.get(timeout=LONG)[1]


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
    assert (pid != os.getpid(), parent, main_thread, name) == (True, os.getpid(), True, __name__)


def test_a_large_payload_passes_both_ways(desk: Desk) -> None:
    text = "é" * 400_000
    assert desk.value("large", msgspec.json.encode({"text": text}).decode()) == text


def test_an_exception_arrives_as_text(desk: Desk) -> None:
    error = desk.error("fail", '{"name": "odd"}')
    assert error["kind"] == f"{__name__}.Odd"
    assert error["message"] == "not even"
    assert error["mro"] == [
        f"{__name__}.Odd",
        "builtins.ValueError",
        "builtins.Exception",
        "builtins.BaseException",
    ]
    assert error["outcome"] is None
    assert "raise errors[name]" in error["traceback"]
    assert "run_assignment" not in error["traceback"]


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
    assert error["kind"].endswith(kind)
    assert message in error["message"]
    assert desk.value("add", '{"first": 1}') == 2


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("retry", {"name": "RetryAfter", "seconds": 7.5, "reason": "come back"}),
        ("snooze", {"name": "Snooze", "seconds": 60.0, "reason": ""}),
        ("skip", {"name": "Skip", "seconds": None, "reason": "not needed"}),
        ("fatal", {"name": "Fatal", "seconds": None, "reason": "no hope"}),
    ],
)
def test_an_ending_on_purpose_says_which(desk: Desk, name: str, outcome: dict[str, Any]) -> None:
    assert desk.error("fail", f'{{"name": "{name}"}}')["outcome"] == outcome


def test_a_result_that_cannot_be_stored_is_an_error(desk: Desk) -> None:
    assert desk.error("unstorable")["kind"] == "holdfast.errors.PayloadError"


def test_arguments_that_do_not_fit_are_an_error(desk: Desk) -> None:
    assert desk.error("add", '{"first": "two"}')["kind"] == "holdfast.errors.PayloadError"


@pytest.mark.parametrize("qualname", ["nothing", "add.nothing", "LONG"])
def test_a_task_that_is_not_there_is_an_error(desk: Desk, qualname: str) -> None:
    error = desk.error(qualname)
    assert error["kind"] == "holdfast.errors.UnknownTask"
    assert "must be defined at the top level of a module" in error["message"]


def test_a_module_that_is_not_there_is_an_error(desk: Desk) -> None:
    desk.start("add", module="no_such_module_anywhere")
    result = desk.result()
    assert isinstance(result, Message)
    assert result.data["kind"] == "ModuleNotFoundError"


def test_what_a_job_says_arrives_in_order_before_its_end(desk: Desk) -> None:
    assert desk.value("talk", '{"pages": 50}') == [41, 2, "j1"]
    said = [desk.said.get_nowait()[1] for _ in range(101)]
    assert [message.kind for message in said] == ["progress", "emit"] * 50 + ["meter"]
    assert said[0].data == {"done": 1, "total": 50, "fields": {"engine": "tesseract"}}
    assert [message.data["data"]["n"] for message in said[1:100:2]] == list(range(1, 51))
    assert said[-1].data == {"amounts": {"seconds": 1.5}}
    assert desk.said.empty()


def test_what_cannot_be_said_is_an_error_of_the_job(desk: Desk) -> None:
    assert desk.error("talk_nonsense")["kind"] == "holdfast.errors.PayloadError"


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
    job = {"id": "j", "token": 1, "attempt": 1, "arguments": '{"pages": 1}'}
    pool.start(1, Assignment(__name__, None, "talk", job))
    result = results.get(timeout=LONG)
    assert isinstance(result, Message)
    assert result.kind == "returned"
    pool.close(LONG)


def test_a_job_that_holds_the_interpreters_lock_can_be_killed(desk: Desk) -> None:
    seq = desk.start("hold_the_lock", '{"seconds": 600}')
    pid = desk.next_said().data["data"]
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
    program = desk.next_said().data["data"]
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
    wait_until_gone(desk.next_said().data["data"])


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
    job = {"id": "j", "token": 1, "attempt": 1, "arguments": '{"first": 1}'}

    def ended(seq: int, result: Message | Died) -> None:
        results.put(result)
        if seq < 5:
            pool.start(seq + 1, Assignment(__name__, None, "add", job))

    pool = ProcessPool(1, lambda seq, message: None, ended)
    pool.start(1, Assignment(__name__, None, "add", job))
    kinds = [getattr(results.get(timeout=LONG), "kind", "died") for _ in range(5)]
    assert kinds == ["returned"] * 5
    pool.close(LONG)


@linux_only
def test_twenty_jobs_leave_no_memory_processes_or_descriptors_behind() -> None:
    desk = Desk(size=1)
    before = desk.value("memory_kilobytes")
    mine, open_before = desk.value("whoami")[0], len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        desk.value("talk", '{"pages": 20}')
    assert desk.value("memory_kilobytes") - before < 4_000
    assert len(os.listdir("/proc/self/fd")) == open_before
    for _ in range(5):
        desk.run("exit_hard", '{"code": 1}')
    assert desk.value("add", '{"first": 1}') == 2
    assert len(os.listdir("/proc/self/fd")) == open_before
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
    result = desk.results.get_nowait()[1]
    assert isinstance(result, Message)
    assert result.kind == "returned"
    with pytest.raises(RuntimeError, match="closed"):
        desk.start("add", '{"first": 1}')


@linux_only
def test_closing_kills_what_does_not_end_in_time() -> None:
    desk = Desk(size=2)
    idle = desk.value("whoami")[0]
    desk.start("wait_for_ever")
    pid = desk.next_said().data["data"]
    desk.pool.close(0.05)
    assert isinstance(desk.results.get_nowait()[1], Died)
    assert gone(pid)
    assert gone(idle)


PARENT = """
import signal, sys
from holdfast.worker.processes import Assignment, ProcessPool
pool = ProcessPool(1, lambda seq, message: print(message.data["data"], flush=True), lambda seq, result: None)
job = {"id": "j", "token": 1, "attempt": 1, "arguments": sys.argv[3]}
pool.start(1, Assignment(sys.argv[1], None, sys.argv[2], job))
signal.pause()
"""


@linux_only
@pytest.mark.parametrize(
    ("task", "arguments"), [("wait_for_ever", "{}"), ("hold_the_lock", '{"seconds": 600}')]
)
def test_a_child_dies_with_its_parent(task: str, arguments: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", PARENT, __name__, task, arguments]
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
from holdfast.domain.signature import Signature
from holdfast.worker.processes import Assignment, ProcessPool

class Mine(Exception):
    pass

class Task:
    def __init__(self, fn):
        self.fn, self.takes_context, self.signature = fn, False, Signature.of(fn, takes_context=False)

@Task
def work(text: str):
    if text == "fail":
        raise Mine(text)
    print(f"{__name__} prints {text}")
    return sys.argv[1:]

def start():
    from queue import SimpleQueue
    results = SimpleQueue()
    pool = ProcessPool(1, print, lambda seq, result: results.put(result))
    for seq, text in enumerate(["one", "fail"]):
        job = {"id": "j", "token": 1, "attempt": 1, "arguments": '{"text": "%s"}' % text}
        pool.start(seq, Assignment("", __file__, "work", job))
        result = results.get(timeout=30)
        said = result.data
        print(said.get("result"), said.get("mro", [""])[0], said.get("message"), flush=True)
    pool.close(5)
"""


def run_script(path: Path, text: str) -> str:
    path.write_text(text)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(path), "--flag"]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=LONG).stdout


def test_a_script_is_loaded_under_another_name_and_prints_where_its_parent_does(tmp_path: Path) -> None:
    output = run_script(tmp_path / "script.py", SCRIPT + '\nif __name__ == "__main__":\n    start()\n')
    assert output.splitlines() == [
        "__holdfast_main__ prints one",
        '["--flag"]  None',
        "None __main__.Mine fail",
    ]


def test_a_script_that_starts_itself_when_loaded_is_refused(tmp_path: Path) -> None:
    output = run_script(tmp_path / "script.py", SCRIPT + "\nstart()\n")
    assert 'put that under: if __name__ == "__main__":' in output


def test_a_child_imports_what_its_parent_would_and_keeps_its_environment(desk: Desk) -> None:
    pythonpath, path, argv = desk.value("environment")
    assert pythonpath == os.environ.get("PYTHONPATH")
    assert path == [os.path.abspath(entry) for entry in sys.path]
    assert argv == sys.argv


def test_a_module_of_the_working_directory_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
