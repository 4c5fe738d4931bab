"""The README cannot drift: its program runs and prints what it says, and its diagram is drawn from the move table."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from holdfast.domain.limits import OPTIONS
from holdfast.domain.states import diagram
from tests.servers import new_database

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)
    return [block for named, block in fences if named == language]


def test_the_program_in_the_readme_prints_what_the_readme_says(tmp_path: Path) -> None:
    (program,) = blocks("python")
    (tmp_path / "tasks.py").write_text(program, encoding="utf-8")
    ran = subprocess.run([sys.executable, "tasks.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    (shown,) = [block for block in blocks("") if block.startswith("$ python tasks.py")]
    expected = re.escape(shown.partition("\n")[2]).replace(re.escape("myhost-4711"), r"[\w.-]+-\d+")
    assert re.fullmatch(expected, ran.stdout), ran.stdout


def test_f6_the_program_in_the_readme_runs_again_a_week_later(tmp_path: Path) -> None:
    """Its key is for ever, its job's record is kept for seven days."""
    (program,) = blocks("python")
    later = program.replace('"sqlite:///jobs.db"', '"sqlite:///jobs.db", clock=ManualClock(datetime.now(UTC) + timedelta(8))')
    assert later != program
    (tmp_path / "tasks.py").write_text(program, encoding="utf-8")
    (tmp_path / "later.py").write_text(f"{LATER}{later}", encoding="utf-8")
    arguments = [["tasks.py"], ["-c", "import later; assert later.app.prune(7 * 86_400) == 1"], ["later.py"]]
    said = [
        subprocess.run([sys.executable, *each], cwd=tmp_path, capture_output=True, text=True, timeout=60) for each in arguments
    ]
    assert [each.stderr for each in said] == [""] * 3
    assert said[0].stdout.startswith("4\n1 enqueued")
    assert said[-1].stdout == "None\n"


LATER = "from datetime import UTC, datetime, timedelta\nfrom holdfast.testing import ManualClock\n"


def test_the_program_stands_before_line_40() -> None:
    first_lines = "\n".join(README.splitlines()[:40])
    assert blocks("python")[0].strip().splitlines()[-1] in first_lines


def test_the_diagram_is_the_move_table() -> None:
    assert blocks("mermaid")[0].strip() == diagram()


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) < 200


def test_both_commands_of_a_fresh_machine_are_in_the_readme_and_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in ("demo", "test"):
        assert f"make {command}" in README
        assert re.search(rf"^{command}:", makefile, flags=re.MULTILINE)


def test_no_placeholder_is_left_in_the_documents() -> None:
    for document in ROOT.glob("*.md"):
        assert not re.search(r"FIGURES|TBD|lorem", document.read_text(encoding="utf-8")), document.name


def shell_lines(document: str) -> list[str]:
    """The commands of the first block that is marked as shell, without their comments."""
    (block, *_) = re.findall(r"^```shell\n(.*?)^```$", document, flags=re.DOTALL | re.MULTILINE)
    return [line.partition("  #")[0].strip() for line in block.splitlines()]


def run_as_printed(lines: list[str], program: str, where: Path) -> str:
    """In one shell; the worker goes to the background, as in another terminal, and is stopped at the end."""
    (where / "tasks.py").write_text(program, encoding="utf-8")
    script = ["set -e"]
    for line in lines:
        is_worker = line.startswith("holdfast worker")
        script += ["touch worker.log"] if is_worker else []  # the background may be late
        script += [f"{line} 2> worker.log & trap 'kill %1; wait' EXIT" if is_worker else line]
        script += ["until grep -q 'works on' worker.log; do :; done"] if is_worker else []
    folder = Path(sys.executable).parent
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    ran = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=where,
        env={**kept, "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, (ran.stdout, ran.stderr)
    assert ran.stderr == ""
    return ran.stdout


def test_f1_the_commands_of_the_readme_run_as_printed(tmp_path: Path) -> None:
    (program,) = blocks("python")
    lines = shell_lines(README)
    assert [line.split()[:2] for line in lines if line.startswith("holdfast")] == [
        ["holdfast", "worker"],
        ["holdfast", "enqueue"],
        ["holdfast", "jobs"],
    ]
    shown = run_as_printed(lines, program, tmp_path)
    assert "succeeded: 2" in shown
    assert shown.splitlines()[-1] == "No jobs."
    assert {path.name for path in tmp_path.glob("*.db")} == {"jobs.db"}


def test_f1_the_commands_for_postgresql_run_as_printed(tmp_path: Path) -> None:
    (program,) = blocks("python")
    document = (ROOT / "docs" / "postgresql.md").read_text(encoding="utf-8")
    with new_database() as url:
        printed = "postgresql://user:password@host/shop"
        lines = [line.replace(printed, f"'{url}'") for line in shell_lines(document)]
        assert lines != shell_lines(document)
        shown = run_as_printed(lines, program.replace('Holdfast("sqlite:///jobs.db")', "Holdfast()"), tmp_path)
    assert "1 at work" in shown
    assert "app tasks:app, database " in (tmp_path / "worker.log").read_text(encoding="utf-8")
    assert not list(tmp_path.glob("*.db"))


def test_every_file_that_architecture_names_is_there() -> None:
    package = ROOT / "src" / "holdfast"
    rooms = "|".join(room.name for room in package.iterdir() if room.is_dir())
    named = set(re.findall(rf"`((?:{rooms})/[\w/]*)", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")))
    assert len(named) > 50
    missing = {name for name in named if not (package / name).exists() and not (package / f"{name}.py").exists()}
    assert {name for name in missing if not name.endswith("/NAME")} == set()


FLOW = (ROOT / "docs" / "flow.md").read_text(encoding="utf-8")


def test_the_program_in_the_document_about_limits_prints_what_it_says(tmp_path: Path) -> None:
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", FLOW, flags=re.DOTALL | re.MULTILINE)
    program = next(block for language, block in fences if language == "python")
    shown = next(block for _, block in fences if block.startswith("$ python tasks.py"))
    (tmp_path / "tasks.py").write_text(program, encoding="utf-8")
    ran = subprocess.run([sys.executable, "tasks.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == shown.partition("\n")[2]
    said = run_as_printed(shell_lines(FLOW), program, tmp_path)
    assert "llm has max_depth=50 concurrency=2 rate=60/min:10,1000/h breaker=2,15,300\n" in said
    assert said.splitlines()[-1] == "llm has max_depth=50 concurrency=1 rate=60/min gap=10s breaker=2,15,300"
    titles = next(line for line in FLOW.splitlines() if line.startswith("QUEUE "))
    assert re.sub(r" +", " ", titles) in re.sub(r" +", " ", said)


def test_the_document_about_limits_names_every_limit() -> None:
    named = re.findall(r"^\| `(\w+)` \|", FLOW, flags=re.MULTILINE)
    assert sorted(named) == sorted(OPTIONS)
