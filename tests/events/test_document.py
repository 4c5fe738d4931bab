"""docs/callbacks.md cannot drift: its receiver runs, and takes what we send."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

from holdfast.domain.callback import CALLBACK_DELAYS, DELAYS_VARIABLE
from holdfast.events.webhook.address import ALLOW_VARIABLE, allowed_of
from holdfast.events.webhook.signature import SECRET_VARIABLE
from tests.conformance.world import World
from tests.web.ground import free_port

DOCUMENT = (Path(__file__).parents[2] / "docs" / "callbacks.md").read_text(encoding="utf-8")


def test_the_receiver_of_the_document_takes_what_we_send(world: World) -> None:
    (program,) = [
        block for block in re.findall(r"^```python\n(.*?)^```$", DOCUMENT, re.DOTALL | re.MULTILINE) if "do_POST" in block
    ]
    port = free_port()
    command, environment = [sys.executable, "-c", program], {**os.environ, "PORT": str(port)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as receiver:
        assert receiver.stdout is not None
        try:
            wait_for(port, receiver)
            job = world.add.using(callback=f"http://127.0.0.1:{port}/").enqueue(1)
            world.app.worker().run_until_empty()
            assert receiver.stdout.readline() == "job.succeeded add 2\n"
            world.app.redeliver(job)
            world.app.worker().run_until_empty()
            assert [each.status for each in world.app.deliveries(job)] == ["delivered", "delivered"]
        finally:
            receiver.kill()
        assert receiver.stdout.read() == "", "the same message was handled twice"


def wait_for(port: int, process: subprocess.Popen[str]) -> None:
    while process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        threading.Event().wait(0.02)
    raise AssertionError("the receiver does not run")


def test_the_settings_of_the_document_are_the_settings() -> None:
    for name in (SECRET_VARIABLE, ALLOW_VARIABLE, DELAYS_VARIABLE):
        assert f"| `{name}` |" in DOCUMENT
    assert ",".join(f"{delay:g}" for delay in CALLBACK_DELAYS) in DOCUMENT
    (example,) = re.findall(r"`(10\.0\.0\.0/8, [^`]*)`", DOCUMENT)
    assert len(allowed_of(example)) == 4
