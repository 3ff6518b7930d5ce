"""One source of backends, built by several compilers and loaded into this process, side by side.

Every law holds for each of them: GCC, GCC with the old string, clang, and zig with libc++.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import plugin_builds
import pytest
from command_line import run as run_command
from probes import wait_until

import hami

Open = Callable[[Any], hami.Pipeline]

pytestmark = pytest.mark.timeout(2 * plugin_builds.BUILD_S)


@pytest.fixture(scope="module", params=list(plugin_builds.COMPILERS))
def prefix(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Load the samples as one compiler makes them, and return what their names begin with."""
    name = str(request.param)
    target = tmp_path_factory.mktemp(name) / "libsamples.so"
    flags = (f'-DPREFIX="{name}"', f'-DHAMI_PLUGIN_NAME="{name.lower()}"')
    hami.load(plugin_builds.build(name, plugin_builds.SOURCES / "samples.cc", target, *flags))
    return name


def outcome(pipe: hami.Pipeline, data: Any, **keys: Any) -> Any:
    return pipe({"data": data, **keys})["result"]


# --- numbers, parameters ---------------------------------------------------------------------------


def test_a_backend_of_a_plugin_computes(prefix: str, open_pipe: Open) -> None:
    assert outcome(open_pipe(f"{prefix}Scale"), 21) == 42.0
    assert outcome(open_pipe({"backend": f"{prefix}Scale", "factor": -0.5}), 4) == -2.0


def test_a_misspelt_parameter_gets_a_suggestion(prefix: str) -> None:
    with pytest.raises(hami.ConfigError, match="did you mean `factor`") as caught:
        hami.pipe({"backend": f"{prefix}Scale", "facter": 3})

    assert caught.value.code == "config-unknown-key"


@pytest.mark.parametrize(
    ("value", "words"), [(101, "at most 100"), ("much", "a number"), (None, "a number")], ids=repr
)
def test_a_value_outside_of_the_declaration_is_refused(prefix: str, value: Any, words: str) -> None:
    with pytest.raises(hami.ConfigError, match=words):
        hami.pipe({"backend": f"{prefix}Scale", "factor": value})


def test_a_value_that_is_no_choice_is_refused(prefix: str) -> None:
    with pytest.raises(hami.ConfigError, match="`slow`"):
        hami.pipe(f"{prefix}Scale(mode=sluw)")


def test_a_required_parameter_must_be_there(prefix: str) -> None:
    with pytest.raises(hami.ConfigError, match=f"`{prefix}Count` needs `max`"):
        hami.pipe(f"{prefix}Count")


def test_what_init_throws_is_the_error_of_building(prefix: str) -> None:
    with pytest.raises(hami.BuildError, match="the mode `broken` does not work") as caught:
        hami.pipe(f"{prefix}Scale(mode=broken)")

    assert caught.value.code == "plugin-init"
    assert caught.value.help == "use another mode"


def test_a_misspelt_name_gets_a_suggestion(prefix: str) -> None:
    with pytest.raises(hami.ConfigError, match=f"did you mean `{prefix}Scale`"):
        hami.pipe(f"{prefix}Scall")


# --- the command line ------------------------------------------------------------------------------


def test_the_command_lists_and_shows_it_like_a_built_in(prefix: str) -> None:
    assert f"\n{prefix.lower()}:\n" in f"\n{run_command('backends').stdout}"
    assert (
        run_command("backends", f"{prefix}Scale").stdout
        == f"""\
{prefix}Scale(factor=2, max=none, mode=fast)

Multiplies.

parameters, in the order of positional arguments:
  factor: float in times, at least -100, at most 100, default 2
      what to multiply with
  max: int, at least 1
      most rows of one run
  mode: str, one of fast, slow, broken, default fast
      how
"""
    )


def test_the_command_shows_a_pipeline_with_it(prefix: str) -> None:
    result = run_command("show", f"S[Identity, {prefix}Scale(factor=3)]")

    assert result.exit_code == 0
    assert f"{prefix}Scale(factor=3" in result.stdout


# --- errors ----------------------------------------------------------------------------------------

FAILURES = {
    "throw": (hami.Error, "backend-failed", "thrown by the plugin"),
    "deep": (hami.Error, "backend-failed", "thrown ten frames deep"),
    "number": (hami.Error, "backend-failed", "something that is no std::exception"),
    "request": (hami.RequestError, "plugin-request", "the request is bad"),
    "item": (hami.RequestError, "plugin-request", "this item is bad"),
    "backend": (hami.Error, "backend-failed", "this item broke the backend"),
    "type": (hami.RequestError, "plugin-request", "`data`: takes an int, got `str`"),
    "missing": (hami.RequestError, "plugin-request", "`nothing` is missing"),
    "unset": (hami.RequestError, "request-missing-result", "result"),
    "many": (hami.RequestError, "backend-result-count", "got 1 items and gave 2 results"),
    "few": (hami.RequestError, "backend-result-count", "got 1 items and gave 0 results"),
    "memory": (hami.Error, "out-of-memory", "ran out of memory"),
}


@pytest.mark.parametrize("how", FAILURES)
def test_a_failure_is_an_error_of_its_request_that_names_the_node(
    prefix: str, how: str, open_pipe: Open
) -> None:
    kind, code, words = FAILURES[how]
    pipe = open_pipe({"broken": {"backend": f"{prefix}Fail"}})

    with pytest.raises(kind, match=words) as caught:
        outcome(pipe, how)

    assert caught.value.code == code
    if how != "unset":
        assert "node `broken`" in "".join([str(caught.value), *caught.value.__notes__])
    assert outcome(pipe, "a") == "ok a"  # and the instance goes on


@pytest.mark.parametrize("how", ["throw", "number", "request", "item", "deep"])
def test_the_items_beside_a_bad_one_get_their_results(prefix: str, how: str, open_pipe: Open) -> None:
    pipe = open_pipe({"backend": f"{prefix}Fail", "max": 8, "batching_timeout": 1000})
    batch: list[dict[str, Any]] = [{"data": f"{i}" if i != 3 else how} for i in range(8)]

    with pytest.raises(hami.Error):
        pipe(batch)

    assert [item.get("result") for item in batch] == [f"ok {i}" if i != 3 else None for i in range(8)]


def test_a_batch_that_must_not_run_twice_fails_as_a_whole(prefix: str, open_pipe: Open) -> None:
    pipe = open_pipe({"backend": f"{prefix}Once", "max": 4, "batching_timeout": 1000})
    batch: list[dict[str, Any]] = [{"data": i if i != 2 else -1} for i in range(4)]

    with pytest.raises(hami.Error, match="once and no more"):
        pipe(batch)

    assert not any("result" in item for item in batch)
    assert outcome(pipe, 1, request_size=4) == 2  # its second run


def test_errors_are_counted_in_the_statistics(prefix: str, open_pipe: Open) -> None:
    pipe = open_pipe(f"{prefix}Fail")
    outcome(pipe, "fine")
    with pytest.raises(hami.Error):
        outcome(pipe, "throw")

    (stats,) = pipe.stats()
    assert stats["errors"] == 1
    assert stats["items"] == 2


# --- values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [None, True, False, 0, -(2**63), 2**63 - 1, 1.5, "", "grüße\0!", b"", b"a\0b", [1, [2, "x"]], {"a": {}}],
    ids=repr,
)
def test_a_value_comes_back_as_it_was(prefix: str, value: Any, open_pipe: Open) -> None:
    result = outcome(open_pipe(f"{prefix}Echo"), value)

    assert result == value
    assert type(result) is type(value)


def test_any_object_passes_through_as_itself(prefix: str, open_pipe: Open) -> None:
    for thing in (object(), 2**70, {1, 2}, np.arange(3)):
        assert outcome(open_pipe(f"{prefix}Echo"), thing) is thing


def test_lists_and_dicts_are_opened(prefix: str, open_pipe: Open) -> None:
    pipe = open_pipe(f"{prefix}Echo")

    assert outcome(pipe, [1, 2.5, 3], wanted="sum") == 6.5
    assert outcome(pipe, {"b": 1, "a": [2]}, wanted="keys") == ["b", "a"]
    assert outcome(pipe, 0, wanted="table") == {"none": None, "bytes": b"a\0b", "text": "grüße", "true": True}


def test_a_list_of_something_else_is_a_request_error(prefix: str, open_pipe: Open) -> None:
    pipe = open_pipe(f"{prefix}Echo")

    with pytest.raises(hami.RequestError, match="takes a number, got `str`"):
        outcome(pipe, [1, "two"], wanted="sum")
    with pytest.raises(hami.RequestError, match="takes a list, got `int`"):
        outcome(pipe, 1, wanted="sum")
    with pytest.raises(hami.RequestError, match="takes a dict, got `str`"):
        outcome(pipe, "x", wanted="keys")


@pytest.mark.parametrize(
    ("value", "kind", "name"),
    [
        (None, 0, "None"),
        (True, 1, "bool"),
        (3, 2, "int"),
        (3.5, 3, "float"),
        ("t", 4, "str"),
        (b"t", 5, "bytes"),
        (np.zeros((2, 3), np.int16), 6, "int16[2x3]"),
        ([1], 7, "list"),
        ({}, 8, "dict"),
        ({1}, 9, "set"),
    ],
    ids=repr,
)
def test_a_plugin_sees_the_kind_of_a_value(
    prefix: str, value: Any, kind: int, name: str, open_pipe: Open
) -> None:
    pipe = open_pipe(f"{prefix}Echo")

    assert outcome(pipe, value, wanted="kind") == kind
    assert outcome(pipe, value, wanted="type") == name


# --- arrays ----------------------------------------------------------------------------------------


def test_arrays_are_computed(prefix: str, open_pipe: Open) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)

    result = outcome(open_pipe(f"{prefix}Scale(3)"), array)

    assert result.dtype == np.float32
    assert np.array_equal(result, array * 3)


def test_an_array_of_another_type_is_a_request_error(prefix: str, open_pipe: Open) -> None:
    with pytest.raises(hami.RequestError, match=r"float64\[2\]"):
        outcome(open_pipe(f"{prefix}Scale"), np.zeros(2))


def test_a_plugin_sees_the_callers_memory(prefix: str, open_pipe: Open) -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    pipe = open_pipe(f"{prefix}Arrays")

    assert outcome(pipe, array, how="address") == array.ctypes.data
    assert outcome(pipe, array.T[1:], how="address") == array.T[1:].ctypes.data
    assert outcome(pipe, array.T, how="strides") == [1, 4]


def test_a_read_only_array_says_so(prefix: str, open_pipe: Open) -> None:
    pipe = open_pipe(f"{prefix}Arrays")
    array = np.zeros(3, np.float32)
    assert outcome(pipe, array, how="read_only") is False
    array.flags.writeable = False

    assert outcome(pipe, array, how="read_only") is True
    assert not outcome(pipe, array, how="through").flags.writeable
    with pytest.raises(hami.RequestError, match="read-only"):
        outcome(pipe, array, how="write")
    assert array[0] == 0


def test_an_array_passes_through_dlpack_both_ways_without_a_copy(prefix: str, open_pipe: Open) -> None:
    array = np.arange(12, dtype=np.int64).reshape(3, 4)[:, 1:]

    result = outcome(open_pipe(f"{prefix}Arrays"), array, how="through")

    assert result is not array
    assert result.ctypes.data == array.ctypes.data
    assert result.strides == array.strides
    assert np.array_equal(result, array)


def test_memory_of_the_plugin_is_freed_with_its_last_user_and_no_sooner(prefix: str) -> None:
    with hami.pipe(f"{prefix}Arrays") as pipe:
        before = outcome(pipe, None, how="released")
        result = outcome(pipe, None, how="own")
        view = result[1]
        del result
        gc.collect()
        assert outcome(pipe, None, how="released") == before

    # the pipeline is gone, and what it gave is still there
    assert view.tolist() == [4, 5, 6]
    with hami.pipe(f"{prefix}Arrays") as pipe:
        assert outcome(pipe, None, how="released") == before
        del view
        gc.collect()
        assert wait_until(lambda: outcome(pipe, None, how="released") == before + 1)


def test_an_array_that_a_plugin_keeps_stays_alive(prefix: str, open_pipe: Open) -> None:
    pipe = open_pipe(f"{prefix}Arrays")
    array = np.full(100_000, 7, np.float32)
    assert outcome(pipe, array, how="keep")
    del array
    gc.collect()

    assert outcome(pipe, None, how="kept") == 7.0


# --- threads, batches ------------------------------------------------------------------------------


def test_runs_of_two_instances_meet_without_the_lock_of_python(prefix: str, open_pipe: Open) -> None:
    pipe = open_pipe({"meeting": {"backend": f"{prefix}Meet", "instance_num": 2}})
    with ThreadPoolExecutor(2) as threads:
        results = list(threads.map(lambda i: outcome(pipe, i), range(2)))

    assert [result["met"] for result in results] == [True, True]
    assert [result["has_gil"] for result in results] == [0, 0]
    assert [result["node"] for result in results] == ["meeting", "meeting"]
    assert sorted(result["instance"] for result in results) == [0, 1]


def test_requests_run_in_batches_and_bring_their_rows(prefix: str, open_pipe: Open) -> None:
    pipe = open_pipe({"backend": f"{prefix}Count", "max": 4, "batching_timeout": 1000})
    batch: list[dict[str, Any]] = [{"data": i, "marker": i} for i in range(4)]

    pipe(batch)

    assert [(item["num_items"], item["result"]) for item in batch] == [(4, 4)] * 4
    assert outcome(pipe, 0, request_size=3) == 3
    with pytest.raises(hami.RequestError, match="rows is above `max`"):
        outcome(pipe, 0, request_size=5)


def test_a_key_that_a_plugin_takes_out_is_gone_for_the_backends_behind_it(
    prefix: str, open_pipe: Open
) -> None:
    @hami.register
    def Seen(batch: list[dict[str, Any]]) -> list[Any]:  # noqa: N802
        return [sorted(key for key in item if key in ("marker", "other")) for item in batch]

    pipe = open_pipe({"a": {"backend": f"{prefix}Count", "max": 2, "next": "b"}, "b": {"backend": "Seen"}})

    assert outcome(pipe, 1, marker=1, other=2) == ["other"]


def test_a_plugin_works_beside_other_backends_in_one_expression(prefix: str, open_pipe: Open) -> None:
    pipe = open_pipe(f"S[Pow, {prefix}Scale(3), Identity]")

    assert outcome(pipe, 2) == 12.0


def test_many_callers_get_their_own_answers(prefix: str, open_pipe: Open) -> None:
    pipe = open_pipe({"backend": f"{prefix}Scale(3)", "max": 8, "instance_num": 2})

    def call(caller: int) -> list[float]:
        return [outcome(pipe, caller * 1000 + i) for i in range(50)]

    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(call, range(8)))

    assert results == [[3.0 * (caller * 1000 + i) for i in range(50)] for caller in range(8)]


def test_a_plugin_runs_in_worker_processes(prefix: str, open_pipe: Open) -> None:
    assert outcome(open_pipe(f"ProcessPool[{prefix}Scale(3)]"), 2) == 6.0


def test_the_file_that_is_loaded_again_changes_nothing(prefix: str, tmp_path: Path, open_pipe: Open) -> None:
    file = next(path for path in hami.plugins.loaded_files() if f"/{prefix}" in path)
    link = tmp_path / "other_name.so"
    link.symlink_to(file)

    assert hami.load(file) == hami.load(str(link)) == hami.load(Path(file))
    assert outcome(open_pipe(f"{prefix}Scale"), 1) == 2.0
