"""`worker --reload`: a parent that starts the worker, watches the files it has loaded, and starts it again.

The child says over a socket which files it has loaded and how old they were; the parent compares their times. When
the parent dies the socket ends, and the child stops; when the child fails to import its module, the parent waits for a change.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from types import FrameType
from typing import Final

log = logging.getLogger("holdfast.cli")
VARIABLE: Final = "HOLDFAST_RELOAD_SOCKET"
LOOK_SECONDS: Final = 0.3
_INSTALLED: Final = tuple(
    os.path.realpath(path) + os.sep
    for name, path in sysconfig.get_paths().items()
    if name in ("stdlib", "platstdlib", "purelib", "platlib")
)


def is_child() -> bool:
    return VARIABLE in os.environ


# In the child


@contextmanager
def reporting(target: str) -> Iterator[None]:
    """Around the import of the user's module: tell the parent what was loaded, also if that failed."""
    if not is_child():
        yield
        return
    parent = socket.socket(fileno=int(os.environ.pop(VARIABLE)))
    try:
        yield
    except Exception as error:
        if found := _file_of(target):  # else no edit of a file that is known can cure it
            _send(parent, {*loaded_files(), *_files_of(error.__cause__ or error), *found})
        raise
    files = loaded_files()
    _send(parent, files)  # before the worker says that it works: an edit from then on is an edit of what was loaded
    threading.Thread(target=_report, args=(parent, files), name="holdfast-reload", daemon=True).start()


def _report(parent: socket.socket, known: frozenset[str]) -> None:
    """More modules may be loaded while jobs run."""
    while True:
        files = loaded_files()
        if files != known:
            _send(parent, files)
            known = files
        if select.select([parent], [], [], LOOK_SECONDS)[0] and not parent.recv(1):
            os.kill(os.getpid(), signal.SIGTERM)
            return


def loaded_files() -> frozenset[str]:
    """The source files of all loaded modules but those that are installed."""
    names = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    return frozenset(file for file in map(_watched, names) if file)


def _watched(file: str | None) -> str | None:
    if not file or not file.endswith(".py"):
        return None
    path = os.path.realpath(file)
    return None if path.startswith(_INSTALLED) or "dist-packages" in path else path


def _files_of(error: BaseException) -> set[str]:
    names = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    names += [error.filename] if isinstance(error, SyntaxError) and error.filename else []
    return {file for file in map(_watched, names) if file}


def _file_of(target: str) -> set[str]:
    try:
        spec = find_spec(target.partition(":")[0])
    except (ImportError, ValueError):
        return set()
    return {spec.origin} if spec is not None and spec.origin else set()


def _send(parent: socket.socket, files: Iterable[str]) -> None:
    try:
        parent.sendall(json.dumps({file: _time_of(file) for file in sorted(files)}).encode() + b"\n")
    except OSError:
        return  # the parent is gone, and the end of the socket will tell


# In the parent


def supervise(arguments: Sequence[str]) -> int:
    """Until the worker ends by itself, or because the parent was told to stop; the worker's exit code."""
    supervisor = Supervisor(arguments)
    before = {number: signal.signal(number, supervisor.pass_on) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        return supervisor.run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Supervisor:
    def __init__(self, arguments: Sequence[str]) -> None:
        self._command = [sys.executable, "-m", "holdfast", *arguments]
        self._times: dict[str, int | None] = {}
        self._child: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()

    def run(self) -> int:
        while True:
            self._times = {file: _time_of(file) for file in self._times}
            code = self._run_once()
            if code is not None:
                return code

    def pass_on(self, number: int, frame: FrameType | None) -> None:
        self._stopping.set()
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)

    def _run_once(self) -> int | None:
        """One life of the worker; None if it is to have another."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                environment = {**os.environ, VARIABLE: str(theirs.fileno())}
                # A session of its own: Ctrl-C reaches it once, through us.
                self._child = subprocess.Popen(self._command, env=environment, pass_fds=[theirs.fileno()], start_new_session=True)
            changed = self._watch(ours, self._child)
        if changed is not None:
            log.info("%s changed; the worker starts again", os.path.relpath(changed))
            self._child.terminate()
            code = self._child.wait()
            return self._exit_code(code) if self._stopping.is_set() else None
        return self._after_end(self._child.wait())

    def _after_end(self, code: int) -> int | None:
        """A worker that failed may be cured by an edit; one that ended well, or was told to, is done."""
        if code == 0 or self._stopping.is_set() or not self._times:
            return self._exit_code(code)
        log.warning("the worker ended with code %d; waiting for a change", code)
        while (changed := self._changed()) is None:
            if self._stopping.wait(LOOK_SECONDS):
                return code
        log.info("%s changed; the worker starts again", os.path.relpath(changed))
        return None

    def _exit_code(self, code: int) -> int:
        """A worker that was told to stop before it had begun to listen for signals has stopped as asked."""
        if self._stopping.is_set() and code == -signal.SIGTERM:
            return 0
        return code if code >= 0 else 128 - code

    def _watch(self, child: socket.socket, process: subprocess.Popen[bytes]) -> str | None:
        """The file that changed, or None when the child has ended: its end of the socket is closed then."""
        heard = b""
        while True:
            if select.select([child], [], [], LOOK_SECONDS)[0]:
                data = child.recv(65_536)
                if not data:
                    process.wait()
                    return None
                *lines, heard = (heard + data).split(b"\n")
                for line in lines:
                    self._learn(json.loads(line))
            if not self._stopping.is_set() and (changed := self._changed()) is not None:
                return changed

    def _learn(self, files: dict[str, int | None]) -> None:
        """A file keeps the time it had before the worker that loaded it was started, where it was known then."""
        self._times = {file: self._times.get(file, time) for file, time in files.items()}

    def _changed(self) -> str | None:
        return next((file for file, before in self._times.items() if _time_of(file) != before), None)


def _time_of(file: str) -> int | None:
    try:
        return os.stat(file).st_mtime_ns
    except OSError:
        return None
