"""`app`: a pipeline as an application of Ray Serve, which `serve.run`, `serve run` and Serve's YAML take."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ray import serve
from ray.serve import Application, Deployment

from ..config import Config, Setting, load
from ..errors import ConfigError
from ..plan import Plan, plan
from ..plan.deployment import deployment_options
from ..serve import Settings
from .deployments import NodeDeployment, PipelineDeployment
from .recipe import Recipe
from .split import parts_of, rest_of

_FEWEST_ONGOING = 16  # one instance without batches; HTTP has requests that are no work, too
_MOST_ONGOING = 4096


def app(source: Any, *, settings: Settings | None = None, **options: Any) -> Application:
    """Return the pipeline of `source` as an application; `source` is what `hami.pipe` takes.

    A node with a table `ray` becomes a deployment of its own, everything else is one deployment, which is
    the ingress, under the name of the pipeline. `options` are options of that deployment (`num_replicas`,
    `ray_actor_options`, ...), before those of the table `ray` above all nodes. `settings`: those of the HTTP
    side. Raises ConfigError.
    """
    return make(source, settings or Settings(), options, os.getcwd())


def build(arguments: Mapping[str, Any]) -> Application:
    """Return `app(**arguments)`: the builder for `import_path: hami.ray:build` and `serve run`.

    Raises ConfigError.
    """
    if "source" not in arguments:
        help = 'write `args: {source: "pipeline.toml"}`, or `serve run hami.ray:build source=pipeline.toml`'
        raise ConfigError("there is no `source`", code="ray-no-source", where="hami.ray:build", help=help)
    options = dict(arguments)
    return app(options.pop("source"), **options)


def make(source: Any, settings: Settings, options: Mapping[str, Any], base: str) -> Application:
    """Do what `app` does; `base`: the folder that travels with the application, if one does."""
    given = deployment_options(Setting(dict(options), "hami.ray.app")) or {}
    config = load(source)
    checked = plan(config)
    parts = parts_of(config, checked)
    name = pipeline_name(config)
    handles = {}
    for part in parts:
        node = _deployment(NodeDeployment, part.name, part.options, part.plan)
        handles[part.name] = node.bind(Recipe.of(part.config, part.plan, base), part.name)
    if parts:
        plan(rest_of(config, parts))  # what is wrong with it must not wait for a replica
    own = {**(checked.deployment or {}), **given}
    if "num_replicas" in given and given["num_replicas"] != "auto":
        own.pop("autoscaling_config", None)
    elif "autoscaling_config" in given:
        own.pop("num_replicas", None)
    pipeline = _deployment(PipelineDeployment, name, own, checked)
    return pipeline.bind(Recipe.of(config, checked, base), name, settings, handles)


def pipeline_name(config: Config) -> str:
    """Return the name of the file without its ending, `pipeline` where there is none."""
    return os.path.splitext(os.path.basename(config.name))[0] or "pipeline"


def _deployment(kind: type, name: str, options: Mapping[str, Any], checked: Plan) -> Deployment:
    """Return the deployment with what follows from the plan. Raises ConfigError for what Ray refuses."""
    ongoing = options.get("max_ongoing_requests", ongoing_requests(checked))
    scaling = options.get("autoscaling_config")
    all_options = {**options, "max_ongoing_requests": ongoing}
    if scaling is not None or options.get("num_replicas") == "auto":
        # Ray's own goal is two requests in each replica, with which no batch would ever fill.
        all_options["autoscaling_config"] = {
            "target_ongoing_requests": max(1, ongoing // 2),
            **(scaling or {}),
        }
    try:
        return serve.deployment(name=name, **all_options)(kind)
    except (TypeError, ValueError) as error:
        help = "the options are those of `ray.serve.deployment`"
        message = f"Ray Serve refuses the options: {error}"
        raise ConfigError(message, code="ray-options", where=name, help=help) from error


def ongoing_requests(checked: Plan) -> int:
    """Return how many requests a replica should have at a time, so that each batch of each node can fill.

    Twice the rows of all instances: a batch that runs and one that waits. `max_in_flight` bounds it.
    """
    most = checked.settings["max_in_flight"]
    rows = sum(_rows(node.params) * _replicas(node.deployment) for node in checked.nodes)
    ongoing = max(_FEWEST_ONGOING, min(2 * rows, _MOST_ONGOING))
    return ongoing if most is None else min(ongoing, int(most))


def _rows(params: Mapping[str, Any]) -> int:
    instances, rows, sequences = (params.get(key) for key in ("instance_num", "max", "max_running"))
    if isinstance(sequences, int):  # of a language model, which has no instances
        return sequences
    return (instances if isinstance(instances, int) else 1) * (rows if isinstance(rows, int) else 1)


def _replicas(deployment: Mapping[str, Any] | None) -> int:
    """Return how many replicas a node may have; what is elsewhere is fed from here as well."""
    options = deployment or {}
    most = options.get("autoscaling_config", {}).get("max_replicas", options.get("num_replicas"))
    return most if isinstance(most, int) else 1
