"""Laws of `ReadFile`: what it reads, what it refuses, and that nothing outside its root is reached."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import hami

FOR_EVER_MS = 600_000


def code_of(pipeline: hami.Pipeline, path: Any) -> str:
    """Return the code of the error for a path."""
    with pytest.raises(hami.RequestError) as caught:
        pipeline({"data": path})
    assert caught.value.help
    return caught.value.code


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with `a`, `sub/b` and, beside it, `secret`."""
    folder = tmp_path / "root"
    (folder / "sub").mkdir(parents=True)
    (folder / "a").write_bytes(b"content")
    (folder / "sub" / "b").write_bytes(b"\0\xff")
    (tmp_path / "secret").write_bytes(b"secret")
    return folder


@pytest.fixture
def reader(open_pipe: Any, root: Path) -> hami.Pipeline:
    """A pipeline that reads below the root."""
    return open_pipe({"backend": "ReadFile", "root": str(root)})


@pytest.mark.parametrize("content", [b"", b"text", bytes(range(256)) * 1000])
def test_the_result_is_the_bytes_of_the_file(open_pipe: Any, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "файл ü.bin"
    path.write_bytes(content)
    assert open_pipe("ReadFile")({"data": str(path)})["result"] == content


def test_a_relative_path_starts_at_the_root(reader: hami.Pipeline, root: Path) -> None:
    for path in ("a", "./a", "sub/../a", "sub/.././a", str(root / "a")):
        assert reader({"data": path})["result"] == b"content"
    assert reader({"data": "sub/b"})["result"] == b"\0\xff"


def test_a_relative_path_without_root_starts_at_the_current_folder(
    open_pipe: Any, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    assert open_pipe("ReadFile")({"data": "a"})["result"] == b"content"


@pytest.mark.parametrize(
    "path",
    ["../secret", "sub/../../secret", "/etc/hostname", "/", "..", ".", "../root2/a", "../nothing", "//etc"],
)
def test_nothing_outside_the_root_is_read_nor_told_about(reader: hami.Pipeline, path: str) -> None:
    assert code_of(reader, path) == "file-outside-root"


def test_a_sibling_with_the_roots_name_in_front_is_outside(reader: hami.Pipeline, root: Path) -> None:
    sibling = root.parent / "root2"
    sibling.mkdir()
    (sibling / "a").write_bytes(b"no")
    assert code_of(reader, str(sibling / "a")) == "file-outside-root"


def test_links_out_of_the_root_are_followed_and_refused(reader: hami.Pipeline, root: Path) -> None:
    (root / "file_link").symlink_to(root.parent / "secret")
    (root / "folder_link").symlink_to(root.parent)
    (root / "deep").symlink_to("sub/../../secret")
    for path in ("file_link", "folder_link/secret", "deep", "folder_link/root/../secret"):
        assert code_of(reader, path) == "file-outside-root"
    assert reader({"data": "folder_link/root/a"})["result"] == b"content"


def test_links_inside_the_root_are_fine(reader: hami.Pipeline, root: Path) -> None:
    (root / "link").symlink_to("sub/b")
    assert reader({"data": "link"})["result"] == b"\0\xff"


def test_the_root_may_be_a_link_itself(open_pipe: Any, root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    pipeline = open_pipe({"backend": "ReadFile", "root": str(link)})
    for path in ("a", str(link / "a"), str(root / "a")):
        assert pipeline({"data": path})["result"] == b"content"


def test_the_root_of_everything_lets_everything_in(open_pipe: Any, root: Path) -> None:
    pipeline = open_pipe({"backend": "ReadFile", "root": "/"})
    assert pipeline({"data": str(root / "a")})["result"] == b"content"


@pytest.mark.parametrize("path", ["nothing", "a/b", "sub", "a\0b", "", "x" * 5000, "loop"])
def test_what_cannot_be_read_is_an_error_of_its_item(open_pipe: Any, root: Path, path: str) -> None:
    (root / "loop").symlink_to("loop")
    full = str(root / path) if path else ""
    assert code_of(open_pipe("ReadFile"), full) == "file-read"


def test_pipes_and_devices_are_refused_without_waiting(open_pipe: Any, root: Path) -> None:
    os.mkfifo(root / "fifo")
    pipeline = open_pipe("ReadFile")
    for path in (str(root / "fifo"), "/dev/zero", "/dev/null", "/dev/stdin", "/dev/tty"):
        assert code_of(pipeline, path) == "file-read"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_an_unreadable_file_is_an_error(open_pipe: Any, root: Path) -> None:
    (root / "a").chmod(0)
    assert code_of(open_pipe("ReadFile"), str(root / "a")) == "file-read"


def test_files_of_the_kernel_are_read_although_their_size_is_0(open_pipe: Any) -> None:
    assert open_pipe("ReadFile")({"data": "/proc/self/stat"})["result"].split()[0].isdigit()


def test_the_size_is_capped(open_pipe: Any, root: Path) -> None:
    with (root / "huge").open("wb") as file:
        file.truncate(1 << 40)
    pipeline = open_pipe({"backend": "ReadFile", "max_bytes": 7})
    assert pipeline({"data": str(root / "a")})["result"] == b"content"
    (root / "a").write_bytes(b"content.")
    assert code_of(pipeline, str(root / "a")) == "file-too-large"
    assert code_of(pipeline, str(root / "huge")) == "file-too-large"
    assert code_of(pipeline, "/proc/self/status") == "file-too-large"
    assert code_of(open_pipe("ReadFile"), str(root / "huge")) == "file-too-large"


@pytest.mark.parametrize("data", [3, None, b"a", ["a"], Path("a"), "\udcff"])
def test_only_text_is_a_path(open_pipe: Any, data: Any) -> None:
    assert code_of(open_pipe("ReadFile"), data) == "request-type"


def test_bad_paths_of_a_batch_fail_alone(reader: hami.Pipeline, open_pipe: Any, root: Path) -> None:
    pipeline = open_pipe(
        {"backend": "ReadFile", "root": str(root), "max": 4, "batching_timeout": FOR_EVER_MS}
    )
    requests = [{"data": path} for path in ("a", "nothing", "../secret", "sub/b")]
    with pytest.raises(hami.RequestError):
        pipeline(requests)
    assert [request.get("result") for request in requests] == [b"content", None, None, b"\0\xff"]


@pytest.mark.parametrize("root_name", ["nothing", "root/a"])
def test_a_root_that_is_no_folder_is_a_build_error(root: Path, root_name: str) -> None:
    with pytest.raises(hami.BuildError) as caught:
        hami.pipe({"backend": "ReadFile", "root": str(root.parent / root_name)})
    assert (caught.value.code, bool(caught.value.help)) == ("file-root", True)


def test_a_root_in_a_file_is_relative_to_the_file(open_pipe: Any, root: Path) -> None:
    file = root.parent / "pipeline.toml"
    file.write_text('[a]\nbackend = "ReadFile(root=root)"\n')
    assert open_pipe(file)({"data": "a"})["result"] == b"content"


def test_no_descriptor_is_left_open(reader: hami.Pipeline, root: Path) -> None:
    reader({"data": "a"})
    before = len(os.listdir("/proc/self/fd"))
    for path in ("a", "nothing", "../secret", "sub", "sub/b") * 20:
        reader.submit({"data": path}).exception(10)
    assert len(os.listdir("/proc/self/fd")) == before


def test_it_does_not_run_on_the_callers_thread(reader: hami.Pipeline) -> None:
    reader({"data": "a"})
    assert "in_place" not in reader.stats()[0]["releases"]
