"""`hami new-backend`: the project that it writes builds and passes its test as written; and where plugins
find the headers, by hand and through CMake."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import only_core
import plugin_builds
import pytest
from command_line import assert_refused, run

import hami
from hami import _core
from hami.cli.new_backend import write_project

VERSION = ".".join(map(str, _core.ABI_VERSION))

pytestmark = pytest.mark.timeout(plugin_builds.BUILD_S)


def configure(source: Path, folder: Path, *options: str) -> str:
    cmake = [plugin_builds.find_cmake(), "-S", str(source), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Debug"]
    return plugin_builds.run([*cmake, f"-Dhami_DIR={hami.get_cmake_dir()}", *options], source)


def test_the_project_builds_and_its_test_passes_as_written(tmp_path: Path) -> None:
    result = run("new-backend", "GaussianBlur", "--into", str(tmp_path))
    project = tmp_path / "gaussian_blur"
    assert result.exit_code == 0
    assert f"{project}: written" in result.stdout
    assert sorted(path.name for path in project.iterdir()) == [
        "CMakeLists.txt",
        "README.md",
        "gaussian_blur.cc",
        "test_gaussian_blur.py",
    ]

    configure(project, project / "build")
    plugin_builds.run([plugin_builds.find_cmake(), "--build", "build"], project)
    # Not in the folder of the sources, where `python -m` would find a hami without its core.
    tested = plugin_builds.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir=."],
        project,
    )
    assert "3 passed" in tested


def test_the_project_speaks_of_its_own_names_alone(tmp_path: Path) -> None:
    project = write_project("edge_finder", tmp_path)

    texts = [path.read_text(encoding="utf-8") for path in project.iterdir()]
    assert not any("@" in text.replace("@pytest", "") for text in texts)
    assert "class EdgeFinder final : public hami::Backend" in (project / "edge_finder.cc").read_text()
    assert f"find_package(hami {VERSION}" in (project / "CMakeLists.txt").read_text()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "mine.cc").write_text("precious")

    assert_refused(
        run("new-backend", "Mine", "--into", str(tmp_path)), "cli-project-folder", "exists already"
    )
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["mine.cc"]


@pytest.mark.parametrize("name", ["", "a b", "1st", "a-b", "../up", "grün", "_x", "x__y"])
def test_a_name_that_is_none_in_cpp_is_refused(name: str, tmp_path: Path) -> None:
    assert_refused(run("new-backend", name, "--into", str(tmp_path)), "cli-backend-name", f"`{name}`")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["Identity", "identity", "DecodeImage"])
def test_a_name_that_is_taken_is_refused(name: str, tmp_path: Path) -> None:
    assert_refused(run("new-backend", name, "--into", str(tmp_path)), "cli-backend-name", "already")


def test_a_name_of_a_family_is_taken_also_where_the_family_is_not_installed(tmp_path: Path) -> None:
    code = "from hami.cli import app; app(['new-backend', 'DecodeImage'])"
    done = only_core.run(code, tmp_path)

    assert done.returncode == 2
    assert "there is a backend `DecodeImage` already" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert_refused(run("new-backend", "Mine", "--into", str(tmp_path / "file")), "cli-project-folder")


# --- where the headers are -------------------------------------------------------------------------


def test_the_headers_lie_where_hami_says() -> None:
    folder = Path(hami.get_include())

    assert folder.is_absolute()
    assert {"abi.h", "hami.h"} <= {path.name for path in (folder / "hami").iterdir()}


def test_the_command_tells_the_folders() -> None:
    def tell(option: str) -> str:
        command = [sys.executable, "-m", "hami", option]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd="/", timeout=60).stdout

    assert tell("--include-dir") == hami.get_include() + "\n"
    assert tell("--cmake-dir") == hami.get_cmake_dir() + "\n"
    assert run("--cmake-dir").stdout == hami.get_cmake_dir() + "\n"


def test_the_header_has_the_version_of_the_core() -> None:
    text = (Path(hami.get_include()) / "hami" / "abi.h").read_text(encoding="utf-8")

    major, minor = _core.ABI_VERSION
    assert f"#define HAMI_ABI_MAJOR {major}\n#define HAMI_ABI_MINOR {minor}\n" in text


@pytest.mark.parametrize(
    ("asked", "is_found"),
    [("", True), ("1", True), ("1.0", True), ("1.99", False), ("2", False), ("0.9", False)],
)
def test_find_package_heeds_the_version_of_the_border(asked: str, is_found: bool, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(x LANGUAGES NONE)\n"
        f"find_package(hami {asked} CONFIG)\n"
        'message(STATUS "found: ${hami_FOUND}, at ${hami_INCLUDE_DIR}")\n'
    )

    printed = configure(tmp_path, tmp_path / "build")

    assert (f"found: 1, at {hami.get_include()}" in printed) == is_found
    assert ("found: 0" in printed) != is_found


def test_the_sources_of_a_plugin_share_one_table(tmp_path: Path) -> None:
    for name in ("Left", "Right"):
        (tmp_path / f"{name}.cc").write_text(
            "#include <hami/hami.h>\n"
            f"class Several{name} final : public hami::Backend {{\n"
            "  void forward(hami::Batch& batch) override {\n"
            f'    for (hami::Item item : batch) item.set_result("{name}");\n'
            "  }\n"
            "};\n"
            f"HAMI_REGISTER_BACKEND(Several{name});\n"
        )
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(several LANGUAGES CXX)\n"
        "find_package(hami CONFIG REQUIRED)\nhami_add_plugin(several Left.cc Right.cc)\n"
    )
    configure(tmp_path, tmp_path / "build")
    plugin_builds.run([plugin_builds.find_cmake(), "--build", "build"], tmp_path)

    assert sorted(hami.load(tmp_path / "build" / "libseveral.so")) == ["SeveralLeft", "SeveralRight"]
    with hami.pipe("SeveralRight") as pipe:
        assert pipe({"data": 1})["result"] == "Right"
