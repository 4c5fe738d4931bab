"""Child processes for tasks that may hold the interpreter's lock, crash, or have to be killed.

Each place in the pool is a thread that owns one child: it starts it, hands it one job at a time over a pipe,
reads what the job says over another, and replaces it when it dies.
"""

from __future__ import annotations

import logging
import os
import signal as signals
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from io import BufferedReader
from queue import SimpleQueue
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.worker.child_log import take_record
from holdfast.worker.import_guard import refuse_while_importing
from holdfast.worker.wire import LOGGED, STOP, Assignment, Message, Order, import_path, read_frame, setup, write_frame

_KILL_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)


class Died(msgspec.Struct, frozen=True):
    """The child ended before its job did. Both numbers are None if it could not even be started."""

    exit_code: int | None
    signal: int | None
    reason: str


_decode_message: Final = msgspec.json.Decoder(Message).decode


class ProcessPool:
    """At most `size` jobs at a time, each in a child that is started when first needed and used again.

    `run` is a number of the caller's, never used twice. `told` and `ended` are called from the thread that owns the
    child; `ended` once for every `start`, when the place is free again. `start` and `kill` do not wait for the child.
    """

    def __init__(self, size: int, told: Callable[[int, Message], None], ended: Callable[[int, Message | Died], None]) -> None:
        refuse_while_importing()
        self._size, self._told, self._ended = size, told, ended
        self._lock = threading.Lock()
        self._places: list[_Place] = []
        self._idle: list[_Place] = []
        self._busy: dict[int, _Place] = {}
        self._closed = False

    @property
    def free(self) -> int:
        """How many more jobs can be started now."""
        return self._size - len(self._busy)

    def start(self, run: int, assignment: Assignment) -> None:
        work = _Work(run, msgspec.json.encode(Order(run, assignment)))
        with self._lock:
            if self._closed:
                raise RuntimeError("the process pool is closed; it starts no more jobs")
            if run in self._busy:
                raise RuntimeError(f"run {run} is in this process pool already")
            if not self.free:
                raise RuntimeError(f"all {self._size} processes of the pool are busy; start a job when one has ended")
            self._busy[run] = place = self._idle.pop() if self._idle else self._new_place()
            place.inbox.put(work)

    def kill(self, run: int) -> None:
        """SIGKILL for the child that has this run, and for what it started; nothing if the run has ended."""
        with self._lock:
            if run in self._busy:
                self._busy[run].kill()

    def abandon(self, run: int) -> None:
        """A child that does not die although it was killed (it hangs in the kernel) no longer takes up room."""
        with self._lock:
            place = self._busy.pop(run, None)
            if place is not None:
                self._places.remove(place)

    def close(self, grace_seconds: float) -> None:
        """Let running jobs end for so long, then kill them."""
        with self._lock:
            self._closed = True
            places = [place for place in self._places if place.thread is not threading.current_thread()]
        for place in places:
            place.inbox.put(None)
        deadline = time.monotonic() + grace_seconds
        for place in places:
            place.thread.join(max(0.0, deadline - time.monotonic()))
        for place in places:
            place.kill()
        for place in places:
            place.thread.join(_KILL_SECONDS)

    def _new_place(self) -> _Place:
        place = _Place(f"holdfast-process-{len(self._places) + 1}", self._told, self._release)
        self._places.append(place)
        return place

    def _release(self, place: _Place, run: int, result: Message | Died) -> None:
        with self._lock:
            self._busy.pop(run, None)  # from here on nobody can kill this run
        place.clear_after_kill()
        with self._lock:
            if place in self._places and len(self._places) <= self._size:
                self._idle.append(place)
            else:
                self._retire(place)
        self._ended(run, result)

    def _retire(self, place: _Place) -> None:
        """Another has been put where it was."""
        if place in self._places:
            self._places.remove(place)
        place.inbox.put(None)


class _Work(NamedTuple):
    run: int
    order: bytes


class _Place:
    """A thread and its child. This thread starts it and no other: on Linux the child ends with the thread."""

    def __init__(
        self, name: str, told: Callable[[int, Message], None], release: Callable[[_Place, int, Message | Died], None]
    ) -> None:
        self.inbox: SimpleQueue[_Work | None] = SimpleQueue()
        self._told, self._release = told, release
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._killed = False
        self.thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self.thread.start()

    def kill(self) -> None:
        with self._lock:
            self._killed = True
            if self._child is not None:
                self._child.kill()

    def clear_after_kill(self) -> None:
        """A kill that came too late for its run must not hit the next one: start over with another child."""
        if self._killed:
            self._bury()
        self._killed = False

    def _serve(self) -> None:
        while (work := self.inbox.get()) is not None:
            result = self._perform(work)
            _guarded(self._release, self, work.run, result)
        self._stop()

    def _perform(self, work: _Work) -> Message | Died:
        try:
            child = self._living_child()
            if child is None:
                return Died(None, signals.SIGKILL, "was killed before it began")
            child.send(work.order)
            while (frame := child.receive()) is not None:
                message = _decode_message(frame)
                if message.kind == LOGGED:
                    _guarded(take_record, message.data)
                    continue
                if message.run == work.run and message.final:
                    return message
                if message.run == work.run:
                    _guarded(self._told, work.run, message)
        except (OSError, msgspec.MsgspecError) as error:
            return self._bury(str(error))
        return self._bury()

    def _living_child(self) -> _Child | None:
        with self._lock:
            died_idle = self._child is not None and self._child.dead()
        if died_idle:
            self._bury()  # no job's fault
        with self._lock:
            if self._killed:
                return None
            fresh = self._child is None
            child = self._child = self._child or _Child()
        if fresh:
            child.send(setup())
        return child

    def _stop(self) -> None:
        """Let the child exit as a program does; `kill` helps one that does not."""
        if self._child is None:
            return
        with suppress(OSError):
            self._child.send(STOP)
            while self._child.receive() is not None:
                pass
        self._bury()

    def _bury(self, trouble: str = "") -> Died:
        """Operation sure that the child is dead, and say how it ended."""
        child = self._child
        if child is None:
            return Died(None, None, f"could not be started: {trouble}")
        with self._lock:
            child.kill()
        pause = 0.0
        while not self._forget_if_dead(child):
            time.sleep(pause)
            pause = min(pause + 0.001, 0.05)
        return child.close()

    def _forget_if_dead(self, child: _Child) -> bool:
        # No waiting under the lock, for `kill` takes it; no reaping outside it, or `kill` hits a stranger.
        with self._lock:
            if child.dead():
                self._child = None
        return self._child is None


class _Child:
    """A process, the pipe to it, and the pipe from it."""

    def __init__(self) -> None:
        orders, self._orders = os.pipe()
        told, results = os.pipe()
        self._told: BufferedReader = os.fdopen(told, "rb")
        command = [sys.executable, "-P", "-m", "holdfast.worker.child", str(orders), str(results), str(os.getpid())]
        try:
            # A group of its own: Ctrl-C is for the worker alone, and `kill` reaches what the job started.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=(orders, results),
                process_group=0,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(import_path())},
            )
        except BaseException:
            self._close_pipes()
            raise
        finally:
            os.close(orders)
            os.close(results)

    def send(self, frame: bytes) -> None:
        write_frame(self._orders, frame)

    def receive(self) -> bytes | None:
        return read_frame(self._told)

    def dead(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signals.SIGKILL)

    def close(self) -> Died:
        self._close_pipes()
        code = self._process.returncode
        if code is not None and code < 0:
            return Died(None, -code, f"was ended by signal {-code} ({signals.strsignal(-code)})")
        return Died(code, None, f"exited with code {code}")

    def _close_pipes(self) -> None:
        self._told.close()
        os.close(self._orders)


def _guarded(callback: Callable[..., None], *arguments: Any) -> None:
    try:
        callback(*arguments)
    except Exception:
        _log.exception("a callback of the process pool failed")
