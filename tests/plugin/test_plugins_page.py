"""The example of docs/plugins.md is built as the page says, by CMake and by hand, and its Python runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import docs_snippets
import plugin_builds
import pytest

import hami

PAGE = Path(__file__).resolve().parents[2] / "docs" / "plugins.md"

pytestmark = pytest.mark.timeout(plugin_builds.BUILD_S)


def blocks(language: str) -> list[docs_snippets.Block]:
    found = docs_snippets.blocks_of(PAGE.read_text(encoding="utf-8"))
    return [block for block in found if block.language == language]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the files of the page into a folder, and build them with its first command."""
    folder = tmp_path_factory.mktemp("page")
    for block in [*blocks("cpp"), *blocks("cmake")]:
        (folder / block.title).write_text(block.text, encoding="utf-8")
    cmake = plugin_builds.find_cmake()
    plugin_builds.run([cmake, "-S", ".", "-B", "build", f"-Dhami_DIR={hami.get_cmake_dir()}"], folder)
    plugin_builds.run([cmake, "--build", "build"], folder)
    return folder


def test_the_python_of_the_page_runs(project: Path) -> None:
    (program,) = blocks("python")
    done = subprocess.run(
        [sys.executable, "-c", program.text],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "[1.  1.5 2.  3.  4.  5.  5.5 6. ]\n"


def test_the_command_by_hand_makes_the_same(project: Path) -> None:
    (text,) = [block.text for block in blocks("sh")]
    (line,) = [line for line in text.splitlines() if line.startswith("g++")]
    plugin_builds.command_of("Gcc")
    include = f'"{hami.get_include()}"'
    plugin_builds.run(["sh", "-c", re.sub(r'"\$\(.*?\)"', lambda _: include, line)], project)

    assert hami.load(project / "libsoften.so") == ("Soften",)
    with pytest.raises(hami.BuildError, match="a `radius` above 1000 is slow"):
        hami.pipe("Soften(radius=1001)")
    with hami.pipe("Soften") as pipe, pytest.raises(hami.RequestError, match="takes an array, got `int`"):
        pipe({"data": 1})


def test_the_page_names_what_the_headers_have() -> None:
    folder = Path(hami.get_include()) / "hami"
    headers = "\n".join(path.read_text(encoding="utf-8") for path in folder.iterdir())
    text = PAGE.read_text(encoding="utf-8")

    names = set(re.findall(r"`(?:item|batch|tensor)\.(\w+)", text)) | set(re.findall(r"`Tensor::(\w+)", text))
    assert len(names) > 8
    assert {name for name in names if not re.search(rf"\b{name}\(", headers)} == set()
