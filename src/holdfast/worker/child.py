"""The program of a child process: take one job after the other from a pipe, run it, tell what it said.

It belongs to its worker: it does not outlive it, and leaves Ctrl-C and SIGTERM to it. The job runs in the
main thread, as in a program of its own; what it prints goes where the worker's output goes.
"""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import importlib
import inspect
import os
import runpy
import signal
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable
from functools import cache, partial
from queue import SimpleQueue
from types import FrameType, ModuleType
from typing import Any, Final

import msgspec

from holdfast.domain import codec
from holdfast.domain.bounds import EVENT_BYTES_MAX, PROGRESS_BYTES_MAX
from holdfast.domain.outcome import Ending, error_of
from holdfast.errors import UnknownTask
from holdfast.worker.processes import (
    STOP,
    Assignment,
    Message,
    Order,
    Setup,
    read_frame,
    set_loading_script,
    write_frame,
)

MAIN_NAME: Final = "__holdfast_main__"
_PR_SET_PDEATHSIG: Final = 1
_DECIDED_BY_PARENT: Final = (signal.SIGINT, signal.SIGTERM)

Send = Callable[[str, dict[str, Any]], None]


def run_assignment(assignment: Assignment, send: Send) -> None:
    """Run one job; whatever happens in it, one `returned` or `raised` is sent at the end."""
    try:
        task = find_task(assignment)
        args, kwargs = task.signature.load(assignment.job["arguments"])
        context = [ProcessContext(assignment.job, send)] if task.takes_context else []
        value = task.fn(*context, *args, **kwargs)
        if inspect.isawaitable(value):
            value = asyncio.run(_awaited(value))
        result = task.signature.encode_result(value)
    except BaseException as error:  # SystemExit too: a job does not end the child
        send("raised", described(error))
    else:
        send("returned", {"result": result})


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


class ProcessContext:
    """What a job in a child can say while it runs."""

    def __init__(self, job: dict[str, Any], send: Send) -> None:
        self.job = job
        self.token: int = job["token"]
        self.attempt: int = job["attempt"]
        self._send = send

    def progress(self, done: float | None = None, total: float | None = None, **fields: Any) -> None:
        self._say("progress", {"done": done, "total": total, "fields": fields}, PROGRESS_BYTES_MAX)

    def emit(self, kind: str, data: Any = None) -> None:
        self._say("emit", {"kind": kind, "data": data}, EVENT_BYTES_MAX)

    def meter(self, **amounts: float) -> None:
        self._say("meter", {"amounts": amounts}, EVENT_BYTES_MAX)

    def _say(self, kind: str, data: dict[str, Any], bytes_max: int) -> None:
        self._send(kind, codec.decode(codec.encode(data, kind, bytes_max)))


def described(error: BaseException) -> dict[str, Any]:
    """An exception as data: never rebuilt, told apart by the names of its classes."""
    told = error_of(error, _trace(error))
    return {
        "kind": told.kind.removeprefix(f"{MAIN_NAME}."),
        "message": told.message,
        "traceback": told.traceback,
        "mro": [_qualified(kind) for kind in type(error).__mro__[:-1]],
        "outcome": _outcome_of(error) if isinstance(error, Ending) else None,
    }


def _trace(error: BaseException) -> str:
    frames = error.__traceback__.tb_next if error.__traceback__ else None  # without our own
    try:
        return "".join(traceback.format_exception(type(error), error, frames))
    except Exception:
        return ""  # an exception that cannot even be printed


def _outcome_of(error: Ending) -> dict[str, Any]:
    name = next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == Ending.__module__)
    seconds, reason = getattr(error, "seconds", None), getattr(error, "reason", None)
    return {"name": name, "seconds": seconds, "reason": reason}


def _qualified(kind: type) -> str:
    module = "__main__" if kind.__module__ == MAIN_NAME else kind.__module__
    return f"{module}.{kind.__qualname__}"


def find_task(assignment: Assignment) -> Any:
    module = load_script(assignment.main_path) if assignment.main_path else None
    found: Any = module or importlib.import_module(assignment.module)
    place = found.__name__
    for name in assignment.qualname.split("."):
        found = getattr(found, name, None)
    if not hasattr(found, "signature"):
        raise UnknownTask(
            f"task {assignment.qualname!r} cannot be found in {place}; a task that runs in a process must be "
            "defined at the top level of a module, under its function's name"
        )
    return found


@cache
def load_script(path: str) -> ModuleType:
    """The script that the parent was started with, under another name so that it does not start again."""
    set_loading_script(path)
    try:
        content = runpy.run_path(path, run_name=MAIN_NAME)
    finally:
        set_loading_script(None)
    module = ModuleType(MAIN_NAME)
    module.__dict__.update(content)
    sys.modules[MAIN_NAME] = module
    return module


class Channel:
    """The pipe to the parent; a job may speak from many threads."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def send(self, run: int, kind: str, data: dict[str, Any]) -> None:
        frame = msgspec.json.encode(Message(run, kind, data))
        try:
            with self._lock:
                write_frame(self._descriptor, frame)
        except BrokenPipeError:
            os._exit(1)  # the parent is gone


def main() -> None:
    orders, results, parent = (int(argument) for argument in sys.argv[1:4])
    die_with(parent)
    leave_signals_to_parent()
    keep_private(orders, results)
    faulthandler.enable()
    inbox: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(orders, inbox), name="holdfast-orders", daemon=True).start()
    set_up(msgspec.json.decode(inbox.get(), type=Setup))
    channel = Channel(results)
    while (frame := inbox.get()) != STOP:
        order = msgspec.json.decode(frame, type=Order)
        run_assignment(order.assignment, partial(_send_after_output, channel, order.run))


def _send_after_output(channel: Channel, run: int, kind: str, data: dict[str, Any]) -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
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


def _do_nothing(number: int, frame: FrameType | None) -> None:
    return


def keep_private(*descriptors: int) -> None:
    """A process that a job starts or forks must not hold our pipes: their end is how a death is noticed."""
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)

    def let_go() -> None:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in descriptors:
            os.dup2(
                nowhere, descriptor, inheritable=False
            )  # not closed: the number could come to mean another
        os.close(nowhere)

    os.register_at_fork(after_in_child=let_go)


if __name__ == "__main__":
    main()
