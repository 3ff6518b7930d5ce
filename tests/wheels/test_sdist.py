"""The sdist holds everything that the repository has, and so all that a build needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEFT_BEHIND = ("build/cp311/core.o", "dist/hami_core-0.0.0.tar.gz", ".venv/lib/thing.py", "hami/_core.so")


@pytest.fixture(scope="module")
def tracked() -> set[str]:
    """Return the files that git knows and that are there."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a clone of the repository")
    return {name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def tree(tracked: set[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the repository, and put beside it what builds leave behind."""
    folder = tmp_path_factory.mktemp("tree")
    for name in tracked:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    for name in LEFT_BEHIND:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("left behind", encoding="utf-8")
    return folder


def make_sdist(tree: Path, folder: Path) -> Path:
    """Make the sdist as `python -m build` lets it be made."""
    code = f"from scikit_build_core.build import build_sdist; build_sdist({str(folder)!r})"
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1704067200"}
    subprocess.run(
        [sys.executable, "-c", code], cwd=tree, env=environment, check=True, capture_output=True, timeout=50
    )
    (file,) = folder.glob("hami_core-*.tar.gz")
    return file


def test_every_file_of_the_repository_is_there_and_nothing_that_was_left_behind(
    tree: Path, tracked: set[str], tmp_path: Path
) -> None:
    with tarfile.open(make_sdist(tree, tmp_path)) as sdist:
        names = {member.name.partition("/")[2] for member in sdist.getmembers() if member.isfile()}

    assert "csrc/bind/build_facts.cc" in tracked
    assert tracked - names == set()
    assert names - tracked == {"PKG-INFO"}


def test_the_same_tree_gives_the_same_bytes(tree: Path, tmp_path: Path) -> None:
    first, second = (make_sdist(tree, tmp_path / place) for place in ("first", "second"))

    assert first.read_bytes() == second.read_bytes()
