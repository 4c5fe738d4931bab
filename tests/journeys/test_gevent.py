"""L7: a program that gevent has patched, in which `select.epoll` is gone."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from holdfast import Holdfast
from tests.until import PATIENCE

PROGRAM = """
from gevent import monkey
monkey.patch_all()
import select, sys
from holdfast import Holdfast
assert not hasattr(select, "epoll")
app = Holdfast(sys.argv[1])

@app.task(name="double")
def double(n: int) -> int:
    return 2 * n

@app.task(name="adouble")
async def adouble(n: int) -> int:
    return 2 * n

if __name__ == "__main__":
    double.enqueue(1)
    app.worker(name="patched").run()
"""


def test_l7_a_worker_on_sqlite_works_under_gevents_monkey_patch(tmp_path: Path) -> None:
    """Also when it sleeps and another process enqueues."""
    (tmp_path / "program.py").write_text(PROGRAM)
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = Holdfast(url)

    @app.task(name="double")
    def double(n: int) -> int:
        raise AssertionError(n)

    @app.task(name="adouble")
    async def adouble(n: int) -> int:
        raise AssertionError(n)

    app.migrate()
    command = [sys.executable, str(tmp_path / "program.py"), url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            for task in (double, adouble, double, adouble):
                assert app.wait(task.enqueue(21).id, timeout=PATIENCE).result == 42
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    app.close()
    assert process.returncode == 0, output
    assert "Traceback" not in output
