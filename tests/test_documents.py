"""The README cannot drift: its program runs and prints what it says, and its diagram is drawn from the move table."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from holdfast.domain.states import diagram

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
