"""The table `ray` is checked without ray, and means nothing to a pipeline in one process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from hami.errors import ConfigError
from hami.plan import plan

Write = Callable[..., str]

FILE = """\
[ray]
num_replicas = 3

[square]
backend = "Pow"
next = "copy"

[square.ray]
num_replicas = "auto"
ray_actor_options = {num_gpus = 0.5, resources = {fast = 1}}
autoscaling_config = {max_replicas = 4, target_ongoing_requests = 8}

[copy]
backend = "Identity"
"""


def error_of(options: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        plan({"square": {"backend": "Pow", "ray": options}})
    return caught.value


def test_the_options_are_with_the_plan_and_its_nodes(write: Write) -> None:
    checked = plan(write(FILE))

    assert checked.deployment == {"num_replicas": 3}
    square, copy = checked.nodes
    assert square.deployment == {
        "num_replicas": "auto",
        "ray_actor_options": {"num_gpus": 0.5, "resources": {"fast": 1}},
        "autoscaling_config": {"max_replicas": 4, "target_ongoing_requests": 8},
    }
    assert copy.deployment is None


def test_the_table_of_one_node_is_that_of_the_pipeline() -> None:
    checked = plan({"backend": "Pow", "ray": {"num_replicas": 2}})

    assert checked.deployment == {"num_replicas": 2}
    assert checked.nodes[0].deployment is None


def test_the_table_of_the_pipeline_is_no_default_of_its_nodes(write: Write) -> None:
    assert [node.deployment for node in plan(write('[ray]\n[a]\nbackend = "Pow"')).nodes] == [None]


@pytest.mark.parametrize(
    ("options", "words", "help"),
    [
        ({"num_replica": 2}, "`ray` has no option `num_replica`", "did you mean `num_replicas`?"),
        ({"ray_actor_options": {"gpus": 1}}, "`ray.ray_actor_options` has no option `gpus`", "num_gpus"),
        ({"autoscaling_config": {"max": 1}}, "`ray.autoscaling_config` has no option `max`", "max_replicas"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest(
    options: dict[str, Any], words: str, help: str
) -> None:
    error = error_of(options)

    assert error.code == "config-unknown-key"
    assert words in error.message
    assert help in error.help


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_replicas": 0}, "at least 1, got `0`"),
        ({"num_replicas": "many"}, "a whole number, got `many`"),
        ({"ray_actor_options": {"num_gpus": -0.5}}, "at least 0, got `-0.5`"),
        ({"autoscaling_config": {"min_replicas": 1.5}}, "a whole number, got `1.5`"),
        ({"health_check_period_s": "soon"}, "a number in s, got `soon`"),
    ],
)
def test_a_bad_value_is_refused(options: dict[str, Any], words: str) -> None:
    error = error_of(options)

    assert error.code == "plan-bad-value"
    assert words in error.message


@pytest.mark.parametrize(
    "options",
    [3, "auto", [1], {"ray_actor_options": 1}, {"autoscaling_config": "auto"}, {"logging_config": 1}],
)
def test_what_should_be_a_table_is_refused_otherwise(options: Any) -> None:
    error = error_of(options)

    assert error.code == "plan-ray-options"
    assert "must be a table" in error.message


def test_a_number_of_replicas_and_autoscaling_exclude_each_other() -> None:
    error = error_of({"num_replicas": 2, "autoscaling_config": {"max_replicas": 3}})

    assert (error.code, error.help) == ("plan-ray-options", "keep one of them")


def test_an_error_shows_the_line_of_the_table(write: Write) -> None:
    with pytest.raises(ConfigError) as caught:
        plan(write('[a]\nbackend = "Pow"\n\n[a.ray]\nnum_replica = 2\n'))

    assert caught.value.where == "pipeline.toml:4"
    assert "[a.ray]" in caught.value.excerpt


def test_a_node_cannot_be_called_ray() -> None:
    with pytest.raises(ConfigError) as caught:
        plan({"ray": {"backend": "Pow"}, "other": {"backend": "Pow"}})

    assert caught.value.help == "the table `ray` holds options of Ray Serve: give the node another name"


def test_neither_the_plan_nor_the_package_imports_ray() -> None:
    code = (
        "import sys, hami; from hami.plan import plan;"
        "plan({'a': {'backend': 'Pow', 'ray': {'num_replicas': 2}}});"
        "assert 'ray' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("package", ["ray", "orjson"])
def test_without_a_package_the_error_names_the_extra(package: str) -> None:
    if package != "ray":
        pytest.importorskip("ray.serve", reason="the extra `ray` is not installed")
    code = (
        f"import sys; sys.modules[{package!r}] = None; import hami\n"
        "try: hami.ray.app('Pow')\n"
        "except hami.ConfigError as error: print(error.code, error.help)"
    )

    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert ended.stdout.strip() == "ray-missing-package pip install hami-core[ray]"
