"""The sdist holds everything that the repository has, and so all that a build needs."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def tracked() -> set[str]:
    """Return the files that git knows and that are there."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a clone of the repository")
    return {name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Make the sdist, as `python -m build` lets it be made, and return its files."""
    folder = tmp_path_factory.mktemp("sdist")
    code = f"from scikit_build_core.build import build_sdist; build_sdist({str(folder)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, timeout=60)
    (file,) = folder.glob("hami_core-*.tar.gz")
    with tarfile.open(file) as sdist:
        return {member.name.partition("/")[2] for member in sdist.getmembers() if member.isfile()}


def test_no_file_of_the_repository_is_missing(names: set[str]) -> None:
    assert tracked() - names == set()


def test_nothing_that_was_built_or_installed_gets_in(names: set[str]) -> None:
    top = {name.split("/")[0] for name in names}

    assert not top & {"build", "dist", ".venv", ".git", ".peers"}
    assert [name for name in names if name.endswith((".so", ".pyc", ".o"))] == []
    assert "PKG-INFO" in names


def test_the_sdist_is_the_same_each_time(tmp_path: Path) -> None:
    files = []
    for place in ("first", "second"):
        code = f"from scikit_build_core.build import build_sdist; build_sdist({str(tmp_path / place)!r})"
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "1704067200"}
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            check=True,
            capture_output=True,
            timeout=60,
            env=environment,
        )
        (file,) = (tmp_path / place).glob("*.tar.gz")
        files.append(file.read_bytes())

    assert files[0] == files[1]
