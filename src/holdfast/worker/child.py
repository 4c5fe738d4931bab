"""The program of a child process: take one job after the other from a pipe, run it, send what it reports.

It belongs to its worker: it does not outlive it, and leaves Ctrl-C and SIGTERM to it. The job runs in the
main thread, as in a program of its own; what it prints goes where the worker's output goes.
"""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import importlib
import os
import runpy
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from queue import SimpleQueue
from types import FrameType, ModuleType
from typing import Any, Final

import msgspec

from holdfast.domain.job import Job
from holdfast.domain.outcome import Failed, JobError, Outcome, error_of
from holdfast.errors import SettingError, UnknownTask
from holdfast.registry import Registry
from holdfast.store.rows import job_of_claimed
from holdfast.worker.child_log import send_records
from holdfast.worker.context import Context, Detached
from holdfast.worker.context_link import new_context
from holdfast.worker.desk import Run, leave_fork
from holdfast.worker.import_guard import loading
from holdfast.worker.runner import acall, call
from holdfast.worker.wire import LOGGED, STOP, Assignment, Message, Order, Setup, read_frame, write_frame

MAIN_NAME: Final = "__holdfast_main__"
_MAIN_PREFIX: Final = f"{MAIN_NAME}."
_PR_SET_PDEATHSIG: Final = 1
_DECIDED_BY_PARENT: Final = (signal.SIGINT, signal.SIGTERM)

Send = Callable[[str, dict[str, Any]], None]


def run_assignment(assignment: Assignment, send: Send) -> None:
    """Run one job as a worker would; whatever happens in it, one `ended` with its outcome is sent at the end."""
    process = os.getpid()
    outcome, micros = perform(assignment, send)
    if os.getpid() != process:
        leave_fork(outcome)
    send("ended", {**msgspec.to_builtins(outcome), "micros": micros})


def perform(assignment: Assignment, send: Send) -> tuple[Outcome, int | None]:
    """Also how many microseconds its code ran."""
    try:
        task = find_task(assignment)
    except BaseException as error:
        return Failed(error_of(error, traceback.format_exc()), retryable=False), None
    run = Run(assignment.claimed, task, assignment.queue, lease=0)
    run.name, run.began_at = assignment.task, assignment.began_at
    context = partial(_context, assignment, send)
    send("began", {})
    outcome = asyncio.run(acall(run, context)) if task.is_async else call(run, context)
    return _named_as_in_parent(outcome), run.micros


def _context(assignment: Assignment, send: Send, run: Run) -> Context:
    registry = Registry()
    registry.tasks[assignment.task] = run.task
    return new_context(run, ChildLink(lambda: job_of_claimed(run.claimed, assignment.task, run.queue, registry.decoders), send))


def _named_as_in_parent(outcome: Outcome) -> Outcome:
    """The classes of a script are those of `__main__` to its author, whose name is left out of errors."""
    if not isinstance(outcome, Failed) or not outcome.error.kind.startswith(_MAIN_PREFIX):
        return outcome
    error = outcome.error
    kind, trace = error.kind.removeprefix(_MAIN_PREFIX), error.traceback.replace(_MAIN_PREFIX, "")
    return msgspec.structs.replace(outcome, error=JobError(kind, error.message, trace))


class ChildLink(Detached):
    """What a job says in a child goes to its parent at once, which keeps it for the clerk."""

    def __init__(self, job: Callable[[], Job], send: Send) -> None:
        super().__init__(job)
        self._send = send
        self._lock = threading.Lock()

    def has_news(self, context: Context) -> None:
        with self._lock:  # what one thread took must not be overtaken by what another takes after it
            gathered = context._take()
            if gathered.events or gathered.progress or gathered.spent:
                self._send("gathered", msgspec.to_builtins(gathered))

    def finish(self, context: Context, on: Any, result: Any) -> None:
        raise SettingError("ctx.finish(on=...) needs the worker's own process; declare the task without process=True")

    async def afinish(self, context: Context, on: Any, result: Any) -> None:
        self.finish(context, on, result)


def find_task(assignment: Assignment) -> Any:
    found: Any = _load(assignment)
    place = found.__name__
    for name in assignment.qualname.split("."):
        found = getattr(found, name, None)
    if not hasattr(found, "signature"):
        raise UnknownTask(
            f"task {assignment.qualname!r} cannot be found in {place}; a task that runs in a process must be "
            "defined at the top level of a module, under its function's name"
        )
    return found


def _load(assignment: Assignment) -> ModuleType:
    if assignment.main_path:
        return load_script(assignment.main_path)
    if not assignment.module:
        raise UnknownTask(
            f"task {assignment.qualname!r} was defined in a session that no file keeps, where a process cannot find it; "
            "put it into a module"
        )
    with loading(assignment.module):
        return importlib.import_module(assignment.module)


@cache
def load_script(path: str) -> ModuleType:
    """The script that the parent was started with, under another name so that it does not start again."""
    with loading(path):
        content = runpy.run_path(path, run_name=MAIN_NAME)
    module = ModuleType(MAIN_NAME)
    module.__dict__.update(content)
    sys.modules[MAIN_NAME] = module
    return module


class Channel:
    """The pipe to the parent; a job may speak from many threads."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        # The collector may run a finalizer in the middle of a frame, in this thread, and that may log: its frame comes after.
        self._lock = threading.RLock()
        self._frames: deque[bytes] = deque()
        self._writing = False

    def send(self, run: int, kind: str, data: dict[str, Any]) -> None:
        frame = msgspec.json.encode(Message(run, kind, data))
        try:
            with self._lock:
                self._frames.append(frame)
                if not self._writing:
                    self._write()
        except BrokenPipeError:
            os._exit(1)  # the parent is gone

    def _write(self) -> None:
        self._writing = True
        try:
            while self._frames:
                write_frame(self._descriptor, self._frames.popleft())
        finally:
            self._writing = False


def main() -> None:
    orders, results, parent = (int(argument) for argument in sys.argv[1:4])
    die_with(parent)
    leave_signals_to_parent()
    keep_private(orders, results)
    faulthandler.enable()
    inbox: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(orders, inbox), name="holdfast-orders", daemon=True).start()
    setup, channel = msgspec.json.decode(inbox.get(), type=Setup), Channel(results)
    set_up(setup)
    send_records(setup.log_levels, partial(channel.send, 0, LOGGED))
    while (frame := inbox.get()) != STOP:
        order = msgspec.json.decode(frame, type=Order)
        run_assignment(order.assignment, partial(_send_after_output, channel, order.run))


def _send_after_output(channel: Channel, run: int, kind: str, data: dict[str, Any]) -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # closed, replaced by the job, or a pipe that nobody reads: no fault of what is said
            stream.flush()
    channel.send(run, kind, data)


def _listen(orders: int, inbox: SimpleQueue[bytes]) -> None:
    with os.fdopen(orders, "rb") as reader:
        while (frame := read_frame(reader)) is not None:
            inbox.put(frame)
        os._exit(1)  # the parent is gone, and nobody wants the result


def set_up(setup: Setup) -> None:
    sys.path[:] = setup.path
    sys.argv[:] = setup.argv
    if setup.pythonpath is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = setup.pythonpath


def die_with(parent: int) -> None:
    """Linux kills this process when the thread that started it is gone, even inside a C call."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)  # it was gone before we could ask


def leave_signals_to_parent() -> None:
    # A handler and not SIG_IGN: programs that a job starts would inherit that, and could not be terminated.
    for number in _DECIDED_BY_PARENT:
        signal.signal(number, _do_nothing)
        signal.siginterrupt(number, False)
    masks: list[set[int]] = []

    def obey_again() -> None:
        for number in _DECIDED_BY_PARENT:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.pop())

    # A fork is not a child of ours. Blocked meanwhile, a signal that comes before it obeys again is not lost.
    os.register_at_fork(
        before=lambda: masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, _DECIDED_BY_PARENT)),
        after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, masks.pop()),
        after_in_child=obey_again,
    )


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    return


def keep_private(*descriptors: int) -> None:
    """A process that a job starts or forks must not hold our pipes: their end is how a death is noticed."""
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)

    def let_go() -> None:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in descriptors:
            os.dup2(nowhere, descriptor, inheritable=False)  # not closed: the number could come to mean another
        os.close(nowhere)

    os.register_at_fork(after_in_child=let_go)


if __name__ == "__main__":
    main()
