"""What is published: the sdist can be read, tested and built from; the wheel has the package, and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("built")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(directory)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=100)
    return directory


def test_l12_the_sdist_has_what_the_readme_links_to_and_what_its_own_tests_read(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    linked = {link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text())}
    wanted = {link for link in linked if link and "://" not in link}
    wanted |= {str(path.relative_to(ROOT)) for path in ROOT.glob("*.md")}
    wanted |= {str(path.relative_to(ROOT)) for path in ROOT.glob("examples/*.py")}
    wanted |= {"LICENSE", "Makefile", "pyproject.toml", "chaos/restores.py", "tests/conftest.py"}
    assert "examples/" in wanted
    missing = {link for link in wanted if not any(name == link or name.startswith(link.rstrip("/") + "/") for name in names)}
    assert not missing


def test_l12_the_wheel_has_the_whole_package_and_nothing_else(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = {name for name in wheel.namelist() if not name.endswith("/")}
    listed = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    files = [ROOT / name for name in listed] or [path for path in (ROOT / "src").rglob("*") if path.is_file()]
    wanted = {str(path.relative_to(ROOT / "src")) for path in files if path.exists() and "__pycache__" not in path.parts}
    assert "holdfast/py.typed" in wanted
    assert not wanted - names
    assert all(name.startswith(("holdfast/", "holdfast-")) for name in names)
