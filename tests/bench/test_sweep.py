"""Settings to try: how they are read, which nodes they change, and what is said of those that cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from hami.bench.sweep import Change, changed, changes_text, grid, read_axes, read_axis
from hami.config import Config, load
from hami.errors import ConfigError
from hami.plan import plan

TWO_NODES: dict[str, Any] = {
    "pixels": {"backend": "Identity", "instance_num": 2, "next": "classify"},
    "classify": {"backend": "Identity", "max": 8},
}


@pytest.fixture
def config() -> Config:
    return load(TWO_NODES)


def error_of(call: Any, *arguments: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        call(*arguments)
    assert caught.value.where and caught.value.help
    return caught.value


def settings_of(config: Config, *texts: str) -> list[str]:
    return [changes_text(changes) for changes in grid(config, read_axes(texts))]


def value(config: Config, node: str, key: str) -> Any:
    """Return what the planner makes of a setting."""
    return next(one for one in plan(config).nodes if one.name == node).params.get(key)


# --- reading ------------------------------------------------------------------------------------------------


def test_numbers_become_numbers_and_other_values_stay_texts() -> None:
    axis = read_axis("engine=OnnxInfer,4,2.5,-1,true")

    assert axis.values == ("OnnxInfer", 4, 2.5, -1, "true")


def test_a_key_may_name_its_node() -> None:
    axis = read_axis("my-node_1.max=4, 8")

    assert (axis.node, axis.key, axis.values) == ("my-node_1", "max", (4, 8))


def test_a_value_that_comes_twice_is_tried_once() -> None:
    assert read_axis("max=4,8,4").values == (4, 8)


@pytest.mark.parametrize("text", ["max", "max=", "=4", "max=4,,8", "max=4,", "", "a.b.c=1", "a b=1"])
def test_what_is_no_key_with_values_is_refused(text: str) -> None:
    error = error_of(read_axis, text)

    assert (error.code, error.where) == ("bench-bad-sweep", "--sweep")
    assert f"`{text}`" in error.message


def test_several_may_stand_in_one_text() -> None:
    axes = read_axes(["max=4,8 batching_timeout=0,2", "instance_num=1"])

    assert [axis.key for axis in axes] == ["max", "batching_timeout", "instance_num"]


def test_an_empty_text_is_refused() -> None:
    assert error_of(read_axes, [""]).code == "bench-bad-sweep"


def test_a_key_that_comes_twice_is_refused_with_all_its_values() -> None:
    error = error_of(read_axes, ["max=4", "max=8,16"])

    assert "`max=4`" in error.message and "`max=8,16`" in error.message
    assert "`max=4,8,16`" in error.help


def test_the_same_key_of_two_nodes_is_two_keys() -> None:
    assert len(read_axes(["a.max=4", "b.max=4", "max=4"])) == 3


# --- the grid -----------------------------------------------------------------------------------------------


def test_without_a_sweep_there_is_one_setting_that_changes_nothing(config: Config) -> None:
    assert grid(config, []) == [()]
    assert changes_text(()) == "as written"


def test_every_combination_comes_once_the_last_key_fastest(config: Config) -> None:
    assert settings_of(config, "classify.max=4,8", "classify.batching_timeout=0,2") == [
        "classify.max=4 classify.batching_timeout=0",
        "classify.max=4 classify.batching_timeout=2",
        "classify.max=8 classify.batching_timeout=0",
        "classify.max=8 classify.batching_timeout=2",
    ]


def test_a_number_is_shown_as_it_would_be_written() -> None:
    assert (
        changes_text([Change("a", "batching_timeout", 0.0), Change("a", "x", 2.5)])
        == "a.batching_timeout=0 a.x=2.5"
    )


def test_a_key_without_a_node_is_changed_where_it_is_set(config: Config) -> None:
    assert settings_of(config, "max=4") == ["classify.max=4"]
    assert settings_of(config, "instance_num=3") == ["pixels.instance_num=3"]


def test_a_key_that_several_nodes_set_is_changed_in_all_of_them() -> None:
    config = load({**TWO_NODES, "pixels": {**TWO_NODES["pixels"], "max": 2}})

    assert settings_of(config, "max=4") == ["pixels.max=4 classify.max=4"]


def test_a_key_that_no_node_sets_is_changed_for_all(config: Config) -> None:
    (changes,) = grid(config, read_axes(["batching_timeout=3"]))

    assert changes == (Change(None, "batching_timeout", 3),)
    new = changed(config, changes)
    assert value(new, "pixels", "batching_timeout") == value(new, "classify", "batching_timeout") == 3.0


def test_the_only_node_needs_no_name() -> None:
    assert settings_of(load("Identity"), "max=4") == ["node.max=4"]


def test_a_key_of_the_pipeline_is_changed_there(config: Config) -> None:
    (changes,) = grid(config, read_axes(["max_in_flight=5"]))

    assert plan(changed(config, changes)).settings["max_in_flight"] == 5


def test_a_node_that_is_none_is_refused_with_a_suggestion(config: Config) -> None:
    error = error_of(settings_of, config, "clasify.max=4")

    assert (error.code, error.where) == ("bench-unknown-node", "--sweep clasify.max=4")
    assert "did you mean `classify`?" in error.help


# --- in the configuration -----------------------------------------------------------------------------------


def test_a_change_replaces_what_the_file_says_and_nothing_else(config: Config) -> None:
    new = changed(config, (Change("classify", "max", 2),))

    assert (value(new, "classify", "max"), value(new, "pixels", "instance_num")) == (2, 2)
    assert value(config, "classify", "max") == 8


def test_a_change_of_all_nodes_leaves_those_that_set_the_key(config: Config) -> None:
    new = changed(config, (Change(None, "max", 2),))

    assert (value(new, "classify", "max"), value(new, "pixels", "max")) == (8, 2)


def test_a_whole_expression_can_be_swept() -> None:
    config = load({"backend": "Identity"})
    (changes,) = grid(config, read_axes(["backend=Pow"]))

    assert "Pow" in str(plan(changed(config, changes)).nodes[0].expr)


def test_an_unknown_key_is_refused_by_the_planner_at_the_option(config: Config) -> None:
    error = error_of(plan, changed(config, grid(config, read_axes(["classify.batching_timeot=1"]))[0]))

    assert (error.code, error.where) == ("config-unknown-key", "--sweep classify.batching_timeot=1")
    assert "did you mean `batching_timeout`?" in error.help


def test_an_unknown_key_without_a_node_is_refused_too(config: Config) -> None:
    error = error_of(plan, changed(config, grid(config, read_axes(["batching_timeot=1"]))[0]))

    assert error.where == "--sweep batching_timeot=1"
    assert "did you mean `batching_timeout`?" in error.help


def test_a_value_that_cannot_be_is_refused_by_the_planner_at_the_option(config: Config) -> None:
    error = error_of(plan, changed(config, grid(config, read_axes(["max=0"]))[0]))

    assert (error.code, error.where) == ("plan-bad-value", "--sweep max=0")


def test_a_fault_inside_a_swept_expression_shows_the_place() -> None:
    config = load({"backend": "Identity"})

    error = error_of(plan, changed(config, grid(config, read_axes(["backend=S[Pow"]))[0]))

    assert error.code == "parse-unclosed-bracket"
    assert "--sweep backend=S[Pow" in str(error)
