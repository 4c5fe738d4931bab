"""`worker --reload`: a parent that starts the worker, and starts it again when a Python file below this directory changes."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from types import FrameType
from typing import Final

log = logging.getLogger("holdfast.cli")
VARIABLE: Final = "HOLDFAST_RELOAD_PIPE"
LOOK_MILLISECONDS: Final = 200
USAGE: Final = 2
"""The exit code of a worker that no edit can cure."""


def is_child() -> bool:
    return VARIABLE in os.environ


def follow_parent() -> None:
    """In the child: stop when the parent has died, which closes its end of the pipe."""

    def wait() -> None:
        os.read(pipe, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    if is_child():
        pipe = int(os.environ.pop(VARIABLE))
        threading.Thread(target=wait, name="holdfast-reload", daemon=True).start()


def supervise(arguments: Sequence[str]) -> int:
    """Until the worker ends by itself, or because the parent was told to stop; the worker's exit code."""
    supervisor = Supervisor(arguments)
    before = {number: signal.signal(number, supervisor.stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        return supervisor.run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Supervisor:
    def __init__(self, arguments: Sequence[str]) -> None:
        self._command = [sys.executable, "-m", "holdfast", *arguments]
        self._pipe, self._kept = os.pipe()
        self._stopping = threading.Event()

    def run(self) -> int:
        from watchfiles import PythonFilter, watch

        self._child, failed = self._started(), False
        for changes in watch(
            ".",
            watch_filter=PythonFilter(),
            stop_event=self._stopping,
            rust_timeout=LOOK_MILLISECONDS,
            yield_on_timeout=True,
            raise_interrupt=False,
        ):
            if changes:
                path = os.path.relpath(min(path for _, path in changes))
                log.info("%s changed; the worker starts again", path)
                self._child.terminate()
                self._child.wait()
                self._child, failed = self._started(), False
            elif not failed and (code := self._child.poll()) is not None:
                if code in (0, USAGE):
                    return code
                log.warning("the worker ended with code %d; waiting for a change", code)
                failed = True
        code = self._child.wait()
        # One that was told to stop before it had begun to listen for signals has stopped as asked.
        return 0 if failed or code == -signal.SIGTERM else code if code >= 0 else 128 - code

    def stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping.set()
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)

    def _started(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, VARIABLE: str(self._pipe)}
        # A session of its own: Ctrl-C reaches it once, through us.
        return subprocess.Popen(self._command, env=environment, pass_fds=[self._pipe], start_new_session=True)
