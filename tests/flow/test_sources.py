"""Laws of sources: each element to one request, read on demand, and released with the pipeline."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hami
from hami.sources import registered


@pytest.fixture(autouse=True)
def clean_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test register sources of its own."""
    monkeypatch.setattr(registered, "_sources", {})


@pytest.fixture
def lines(tmp_path: Path) -> Callable[..., str]:
    """Return a function that writes a file and returns its path."""

    def write(content: str | bytes, name: str = "input.txt") -> str:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


def take(pipeline: hami.Pipeline, count: int, **keys: Any) -> list[Any]:
    return [pipeline(dict(keys))["result"] for _ in range(count)]


def take_all(pipeline: hami.Pipeline) -> list[Any]:
    """Return all elements until the source says that there are no more."""
    elements: list[Any] = []
    while True:
        try:
            elements.append(pipeline({})["result"])
        except hami.RequestError as error:
            assert error.code == "source-exhausted"
            assert error.help
            return elements


def code_of_next(pipeline: hami.Pipeline) -> str:
    with pytest.raises(hami.RequestError) as caught:
        pipeline({})
    assert caught.value.help
    return caught.value.code


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a\nb\nc\n", ["a", "b", "c"]),
        ("a\nb", ["a", "b"]),
        ("a\r\nb\r\n", ["a", "b"]),
        ("\n\na\n", ["", "", "a"]),
        ("", []),
        ("\ufeffa\nb", ["a", "b"]),
        ("é 漢字\n", ["é 漢字"]),
        ("a\x0cb\u2028c\n", ["a\x0cb\u2028c"]),
    ],
)
def test_a_text_file_gives_its_lines(open_pipe: Any, lines: Any, content: str, expected: list[str]) -> None:
    path = lines(content)
    assert take_all(open_pipe({"backend": "FileSource", "path": path})) == expected


def test_a_jsonl_file_gives_one_object_per_line(open_pipe: Any, lines: Any) -> None:
    objects = [{"a": 1}, [1, 2], "text", 5, None, True, {"deep": {"er": [1.5]}}]
    path = lines("\n".join(map(json.dumps, objects)) + "\n\n", "input.jsonl")
    assert take_all(open_pipe({"backend": "FileSource", "path": path})) == objects


@pytest.mark.parametrize("bad", ["{", "{'a': 1}", "nope", "[" * 100_000, '{"a": 1} {"b": 2}'])
def test_a_bad_line_is_an_error_with_its_place_and_the_next_request_goes_on(
    open_pipe: Any, lines: Any, bad: str
) -> None:
    path = lines(f'{{"n": 1}}\n\n{bad}\n{{"n": 2}}\n', "input.jsonl")
    pipeline = open_pipe({"backend": "FileSource", "path": path})
    assert take(pipeline, 1) == [{"n": 1}]
    with pytest.raises(hami.RequestError) as caught:
        pipeline({})
    assert caught.value.code == "source-bad-line"
    assert caught.value.where == f"{path}:3"
    assert len(str(caught.value)) < 1000
    assert take_all(pipeline) == [{"n": 2}]


def test_a_line_that_is_not_utf_8_is_an_error_with_its_place(open_pipe: Any, lines: Any) -> None:
    path = lines(b"a\n\xff\xfe\nb\n")
    pipeline = open_pipe({"backend": "FileSource", "path": path})
    assert take(pipeline, 1) == ["a"]
    with pytest.raises(hami.RequestError, match="0xff") as caught:
        pipeline({})
    assert caught.value.where == f"{path}:2"
    assert take_all(pipeline) == ["b"]


@pytest.mark.parametrize("length", [9, 10, 11, 12, 13, 25, 1000])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_above_the_bound_is_an_error_and_is_skipped(
    open_pipe: Any, lines: Any, length: int, end: str
) -> None:
    path = lines("a" + end + "x" * length + end + "b" + end)
    pipeline = open_pipe({"backend": "FileSource", "path": path, "max_line_bytes": 10})
    assert take(pipeline, 1) == ["a"]
    if length <= 10:
        assert take(pipeline, 1) == ["x" * length]
    else:
        assert code_of_next(pipeline) == "source-bad-line"
    assert take_all(pipeline) == ["b"]


def test_a_pattern_gives_the_matching_paths_sorted(open_pipe: Any, lines: Any, tmp_path: Path) -> None:
    paths = [lines("", f"{name}.jpg") for name in ("b", "a", "c")]
    lines("", "other.png")
    pipeline = open_pipe({"backend": "FileSource", "path": str(tmp_path / "*.jpg")})
    assert take_all(pipeline) == sorted(paths)


def test_a_file_whose_name_looks_like_a_pattern_is_a_file(open_pipe: Any, lines: Any) -> None:
    assert take_all(open_pipe({"backend": "FileSource", "path": lines("x", "a[1].txt")})) == ["x"]


def test_paths_are_relative_to_the_pipeline_file(open_pipe: Any, lines: Any, tmp_path: Path) -> None:
    lines("one\ntwo\n", "input.txt")
    (tmp_path / "pipeline.toml").write_text('[lines]\nbackend = "FileSource(input.txt)"\n')
    assert take_all(open_pipe(tmp_path / "pipeline.toml")) == ["one", "two"]


@pytest.mark.parametrize("name", ["missing.txt", "*.missing", "."])
def test_a_path_that_cannot_be_read_is_a_build_error(open_pipe: Any, tmp_path: Path, name: str) -> None:
    with pytest.raises(hami.BuildError) as caught:
        open_pipe({"backend": "FileSource", "path": str(tmp_path / name)})
    assert (caught.value.code, bool(caught.value.help)) == ("source-file", True)
    assert str(tmp_path) in caught.value.message


def test_a_file_that_goes_away_later_is_an_error_of_the_request(open_pipe: Any, lines: Any) -> None:
    path = lines("a\n")
    pipeline = open_pipe({"backend": "FileSource", "path": path})
    Path(path).unlink()
    with pytest.raises(FileNotFoundError):
        pipeline({})


# --- registered sources ---------------------------------------------------------------------------


def test_a_generator_function_is_read_on_demand(open_pipe: Any) -> None:
    produced: list[int] = []

    @hami.source("frames")
    def frames() -> Iterator[int]:
        for i in range(1000):
            produced.append(i)
            yield i

    pipeline = open_pipe("Source(frames)")
    assert produced == []
    assert take(pipeline, 3) == [0, 1, 2]
    assert produced == [0, 1, 2]


def test_a_list_or_any_other_iterable_may_be_a_source(open_pipe: Any) -> None:
    hami.source("list")([1, None, {"a": 2}])
    hami.source("range")(range(3))
    assert take_all(open_pipe("Source(list)")) == [1, None, {"a": 2}]
    assert take_all(open_pipe("Source(range)")) == [0, 1, 2]


def test_every_pipeline_and_every_node_reads_for_itself(open_pipe: Any) -> None:
    hami.source("numbers")(range(3))
    one, two = open_pipe("Source(numbers)"), open_pipe("Source(numbers)")
    assert [take(one, 2), take(two, 2), take(one, 1)] == [[0, 1], [0, 1], [2]]
    both = open_pipe({"a": {"backend": "Source(numbers)", "next": "b"}, "b": {"backend": "Source(numbers)"}})
    assert take_all(both) == [0, 1, 2]


def test_a_source_that_raises_gives_that_exception_to_one_request(open_pipe: Any) -> None:
    @hami.source("broken")
    def broken() -> Iterator[int]:
        yield 1
        raise ZeroDivisionError("inside")

    pipeline = open_pipe("Source(broken)")
    assert take(pipeline, 1) == [1]
    with pytest.raises(ZeroDivisionError, match="inside"):
        pipeline({})
    assert code_of_next(pipeline) == "source-exhausted"


def test_an_unknown_source_is_a_build_error_with_the_nearest_name(open_pipe: Any) -> None:
    hami.source("frames")([1])
    with pytest.raises(hami.BuildError) as caught:
        open_pipe("Source(frame)")
    assert (caught.value.code, caught.value.help) == ("source-unknown", "did you mean `frames`?")


@pytest.mark.parametrize("target", [5, None, iter([1]), (i for i in range(3)), object()])
def test_what_cannot_be_iterated_again_is_refused(target: Any) -> None:
    with pytest.raises(hami.ConfigError) as caught:
        hami.source("x")(target)
    assert (caught.value.code, bool(caught.value.help)) == ("register-refused", True)


@pytest.mark.parametrize("name", ["", 5, None])
def test_a_name_is_text(name: Any) -> None:
    with pytest.raises(hami.ConfigError) as caught:
        hami.source(name)
    assert caught.value.code == "register-refused"


def test_a_name_means_one_source_unless_it_is_defined_anew(open_pipe: Any) -> None:
    def define(last: int) -> None:
        @hami.source("numbers")
        def numbers() -> list[int]:
            return [last]

    define(1)
    define(2)
    assert take(open_pipe("Source(numbers)"), 1) == [2]
    with pytest.raises(hami.ConfigError, match="already"):
        hami.source("numbers")([3])


# --- what all sources have in common --------------------------------------------------------------


def test_each_element_comes_exactly_once_over_all_instances_and_callers(
    open_pipe: Any, in_threads: Any
) -> None:
    hami.source("numbers")(range(2000))
    pipeline = open_pipe({"backend": "Source(numbers)", "instance_num": 4, "max": 3, "batching_timeout": 0})
    got = in_threads(8, lambda index: take(pipeline, 250))
    assert sorted(element for some in got for element in some) == list(range(2000))
    assert code_of_next(pipeline) == "source-exhausted"


def test_one_item_too_many_fails_alone_in_its_batch(open_pipe: Any) -> None:
    hami.source("numbers")(range(3))
    pipeline = open_pipe({"backend": "Source(numbers)", "max": 8})
    futures = [pipeline.submit({}) for _ in range(5)]
    answers = [future.exception(10) or future.result()["result"] for future in futures]
    assert sorted(one for one in answers if isinstance(one, int)) == [0, 1, 2]
    assert sum(isinstance(one, hami.RequestError) for one in answers) == 2


def test_repeat_gives_so_many_epochs_and_0_never_ends(open_pipe: Any) -> None:
    hami.source("numbers")([1, 2])
    assert take_all(open_pipe("Source(numbers, repeat=3)")) == [1, 2] * 3
    assert take(open_pipe("Source(numbers, repeat=0)"), 7) == [1, 2, 1, 2, 1, 2, 1]


def test_an_endless_source_without_elements_is_exhausted(open_pipe: Any) -> None:
    hami.source("nothing")([])
    pipeline = open_pipe("Source(nothing, repeat=0)")
    assert [code_of_next(pipeline), code_of_next(pipeline)] == ["source-exhausted"] * 2


def test_optional_passes_on_what_the_request_brings(open_pipe: Any) -> None:
    hami.source("numbers")(range(10))
    pipeline = open_pipe("Source(numbers, optional=true)")
    assert pipeline({"data": "own"})["result"] == "own"
    assert pipeline({"data": None})["result"] is None
    assert pipeline({})["result"] == 0
    assert open_pipe("Source(numbers)")({"data": "own"})["result"] == 0


def test_the_element_is_the_data_of_the_next_node(open_pipe: Any) -> None:
    hami.source("numbers")(range(10))
    pipeline = open_pipe({"a": {"backend": "Source(numbers)", "next": "b"}, "b": {"backend": "Pow"}})
    assert take(pipeline, 4) == [0, 1, 4, 9]
    assert take(open_pipe("S[Source(numbers), Pow]"), 4) == [0, 1, 4, 9]


def test_closing_the_pipeline_closes_the_generator(open_pipe: Any) -> None:
    events: list[str] = []

    @hami.source("frames")
    def frames() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            events.append("closed")

    pipeline = open_pipe({"backend": "Source(frames)", "instance_num": 2})
    take(pipeline, 5)
    assert events == []
    pipeline.close()
    assert events == ["closed"]


def test_closing_the_pipeline_closes_the_file(open_pipe: Any, lines: Any) -> None:
    path = lines("a\nb\n")

    def is_open() -> bool:
        return any(link.resolve() == Path(path) for link in Path("/proc/self/fd").iterdir() if link.exists())

    pipeline = open_pipe({"backend": "FileSource", "path": path})
    assert not is_open()
    take(pipeline, 1)
    assert is_open()
    pipeline.close()
    assert not is_open()


@pytest.mark.parametrize(
    "backend", ["Source", "Source(x, repeat=-1)", "FileSource", "RandomSampleQueue(x, window=0)"]
)
def test_wrong_arguments_are_found_while_planning(open_pipe: Any, backend: str) -> None:
    with pytest.raises(hami.ConfigError) as caught:
        open_pipe(backend)
    assert caught.value.help


# --- sampling -------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [1, 2, 10, 99, 100, 1000])
def test_random_sample_queue_gives_each_element_once_an_epoch(open_pipe: Any, window: int) -> None:
    hami.source("numbers")(range(100))
    drawn = take_all(open_pipe(f"RandomSampleQueue(numbers, window={window}, seed=1, repeat=2)"))
    assert [sorted(drawn[:100]), sorted(drawn[100:])] == [list(range(100))] * 2
    assert (drawn[:100] == list(range(100))) is (window == 1)
    if window > 1:
        assert drawn[:100] != drawn[100:]


def test_random_sample_queue_reads_no_further_than_its_window(open_pipe: Any) -> None:
    produced: list[int] = []

    @hami.source("frames")
    def frames() -> Iterator[int]:
        for i in range(1000):
            produced.append(i)
            yield i

    pipeline = open_pipe("RandomSampleQueue(frames, window=10)")
    for count in range(1, 20):
        [element] = take(pipeline, 1)
        assert element < len(produced) == 10 + count


@pytest.mark.parametrize("name", ["RandomSampleQueue", "UniformSample"])
def test_a_seed_fixes_the_order(open_pipe: Any, name: str) -> None:
    hami.source("numbers")(range(100))
    orders = [take(open_pipe(f"{name}(numbers, seed={seed})"), 50) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


def test_uniform_sample_draws_every_element_again_and_again(open_pipe: Any) -> None:
    hami.source("numbers")(range(4))
    drawn = take(open_pipe("UniformSample(numbers, seed=3)"), 400)
    assert set(drawn) == set(range(4))
    assert all(60 < drawn.count(element) < 140 for element in range(4))
    assert len(take_all(open_pipe("UniformSample(numbers, repeat=2)"))) == 8


def test_samples_come_from_files_too(open_pipe: Any, lines: Any) -> None:
    path = lines('{"n": 1}\n{"n": 2}\n', "input.jsonl")
    drawn = take_all(open_pipe({"backend": "RandomSampleQueue", "path": path}))
    assert sorted(one["n"] for one in drawn) == [1, 2]
    assert take(open_pipe({"backend": "UniformSample", "path": path}), 1)[0]["n"] in (1, 2)


def test_uniform_sample_refuses_more_elements_than_it_may_hold(open_pipe: Any) -> None:
    hami.source("endless")(lambda: iter(int, 1))
    with pytest.raises(hami.BuildError) as caught:
        open_pipe("UniformSample(endless, capacity=100)")
    assert (caught.value.code, bool(caught.value.help)) == ("source-too-large", True)


@pytest.mark.parametrize("name", ["RandomSampleQueue", "UniformSample"])
@pytest.mark.parametrize("both", [False, True])
def test_sampling_needs_one_place_to_sample_from(open_pipe: Any, lines: Any, name: str, both: bool) -> None:
    hami.source("numbers")(range(4))
    settings = {"source": "numbers", "path": lines("a")} if both else {}
    with pytest.raises(hami.BuildError) as caught:
        open_pipe({"backend": name, **settings})
    assert caught.value.code == "source-arguments"
