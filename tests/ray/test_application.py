"""What an application is made of, before any cluster has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ray.serve import Application

import hami
import hami.ray
from hami.plan import plan
from hami.ray.application import ongoing_requests, pipeline_name
from hami.serve import Settings

GRAPH = {
    "square": {"backend": "Pow", "next": "copy", "max": 16, "ray": {"num_replicas": 3}},
    "copy": {"backend": "Identity"},
}


def deployment(application: Application) -> Any:
    """Return the deployment of the ingress."""
    return application._bound_deployment


def elsewhere(application: Application) -> dict[str, Any]:
    """Return the deployments of nodes, by name."""
    handles = deployment(application).init_args[3]
    return {name: one._bound_deployment for name, one in handles.items()}


def test_a_pipeline_is_one_deployment_by_default() -> None:
    application = hami.ray.app("Pow")

    assert isinstance(application, Application)
    assert deployment(application).name == "pipeline"
    assert elsewhere(application) == {}


def test_it_has_the_name_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "numbers.toml"
    file.write_text('backend = "Pow"\n', encoding="utf-8")

    assert deployment(hami.ray.app(file)).name == "numbers"
    assert deployment(hami.ray.app(str(file))).name == "numbers"


def test_a_node_with_a_table_is_a_deployment_of_its_own() -> None:
    (one,) = elsewhere(hami.ray.app(GRAPH)).values()

    assert one.name == "square"
    assert one.num_replicas == 3


def test_options_of_the_call_win_over_those_of_the_file() -> None:
    source = {"backend": "Pow", "ray": {"num_replicas": 2, "health_check_period_s": 3.0}}

    found = deployment(hami.ray.app(source, num_replicas=4))

    assert found.num_replicas == 4
    assert found._deployment_config.health_check_period_s == 3.0


def test_a_number_of_replicas_in_the_call_ends_the_autoscaling_of_the_file() -> None:
    source = {"backend": "Pow", "ray": {"autoscaling_config": {"max_replicas": 5}}}

    found = deployment(hami.ray.app(source, num_replicas=4))

    assert (found.num_replicas, found._deployment_config.autoscaling_config) == (4, None)


def test_autoscaling_in_the_call_ends_the_number_of_replicas_of_the_file() -> None:
    source = {"backend": "Pow", "ray": {"num_replicas": 4}}

    found = deployment(hami.ray.app(source, autoscaling_config={"min_replicas": 1, "max_replicas": 6}))

    assert found._deployment_config.autoscaling_config.max_replicas == 6


def test_resources_reach_the_actors() -> None:
    options = {"num_cpus": 0.5, "num_gpus": 0.25, "resources": {"fast": 1}}

    found = deployment(hami.ray.app("Pow", ray_actor_options=options))

    assert {key: found.ray_actor_options[key] for key in options} == options


def test_unknown_options_of_the_call_are_refused_with_the_nearest() -> None:
    with pytest.raises(hami.ConfigError) as caught:
        hami.ray.app("Pow", num_replica=2)

    assert (caught.value.code, caught.value.help) == ("config-unknown-key", "did you mean `num_replicas`?")


def test_what_ray_refuses_names_the_deployment() -> None:
    source = {
        "one": {"backend": "Pow", "ray": {"autoscaling_config": {"min_replicas": 4, "max_replicas": 2}}}
    }

    with pytest.raises(hami.ConfigError) as caught:
        hami.ray.app(source)

    assert (caught.value.code, caught.value.where) == ("ray-options", "one")
    assert "max_replicas" in caught.value.message


def test_what_is_wrong_with_the_pipeline_is_said_at_once() -> None:
    with pytest.raises(hami.ConfigError) as caught:
        hami.ray.app({"one": {"backend": "Pwo", "ray": {}}})

    assert caught.value.code == "plan-unknown-backend"


# --- how many requests ---------------------------------------------------------------------------------


def test_a_replica_takes_what_fills_two_batches_of_every_instance() -> None:
    source = {"one": {"backend": "Identities", "max": 32, "instance_num": 3}}

    assert ongoing_requests(plan(source)) == 2 * 32 * 3
    assert deployment(hami.ray.app(source)).max_ongoing_requests == 192


def test_a_pipeline_feeds_all_replicas_of_what_is_elsewhere() -> None:
    application = hami.ray.app(GRAPH)

    assert deployment(application).max_ongoing_requests == 2 * (16 * 3 + 1)
    assert elsewhere(application)["square"].max_ongoing_requests == 32


def test_a_language_model_is_given_as_many_sequences_as_it_runs() -> None:
    pytest.importorskip("torch", reason="torch is not installed")

    assert ongoing_requests(plan({"one": {"backend": "LLM", "model": "m", "max_running": 64}})) == 128


def test_small_pipelines_have_room_for_questions_that_are_no_work() -> None:
    assert ongoing_requests(plan("Pow")) == 16


def test_the_pipeline_bounds_what_is_inside_it() -> None:
    assert ongoing_requests(plan({"max_in_flight": 3, "one": {"backend": "Pow"}})) == 3


def test_the_number_of_requests_can_be_said() -> None:
    assert deployment(hami.ray.app("Pow", max_ongoing_requests=7)).max_ongoing_requests == 7


def test_autoscaling_aims_at_full_batches_unless_it_is_told_otherwise() -> None:
    source = {"one": {"backend": "Identities", "max": 32}}

    own = deployment(hami.ray.app(source, autoscaling_config={"max_replicas": 2}))
    told = deployment(hami.ray.app(source, autoscaling_config={"target_ongoing_requests": 5.0}))

    assert own._deployment_config.autoscaling_config.target_ongoing_requests == 32
    assert told._deployment_config.autoscaling_config.target_ongoing_requests == 5


def test_auto_aims_at_full_batches_as_well() -> None:
    source = {"one": {"backend": "Identities", "max": 32}}

    found = deployment(hami.ray.app(source, num_replicas="auto"))

    assert found._deployment_config.autoscaling_config.target_ongoing_requests == 32


# --- the builder ---------------------------------------------------------------------------------------


def test_the_builder_takes_what_a_command_line_can_say() -> None:
    found = deployment(hami.ray.build({"source": "Pow", "num_replicas": "2", "max_ongoing_requests": "9"}))

    assert (found.num_replicas, found.max_ongoing_requests) == (2, 9)


def test_the_builder_wants_a_source() -> None:
    with pytest.raises(hami.ConfigError) as caught:
        hami.ray.build({"file": "Pow"})

    assert caught.value.code == "ray-no-source"


def test_settings_of_http_travel_along() -> None:
    settings = Settings(token="secret", max_body_bytes=10)

    assert deployment(hami.ray.app("Pow", settings=settings)).init_args[2] is settings


def test_an_expression_has_no_file_to_be_named_after() -> None:
    from hami.config import load

    assert pipeline_name(load("Pow")) == "pipeline"
