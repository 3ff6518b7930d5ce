"""The table `ray`: how a pipeline, or one node of it, is deployed with Ray Serve.

Its keys are those of Ray Serve. They are checked here, without ray, so that a file is refused or accepted
alike on every machine; hami.ray hands them to Ray.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..backend import Param
from ..config import Setting
from ..errors import did_you_mean, quoted
from .values import BadValueError, convert

KEY = "ray"


def _params(*params: Param) -> dict[str, Param]:
    return {param.name: param for param in params}


OPTIONS = _params(
    Param("num_replicas", "int", min=1, doc='copies of the deployment, or "auto"'),
    Param("max_ongoing_requests", "int", min=1, doc="most requests inside one replica"),
    Param("max_queued_requests", "int", min=-1, doc="most requests that wait for a replica; -1: any number"),
    Param("autoscaling_config", doc="replicas as they are needed"),
    Param("ray_actor_options", doc="what a replica needs: CPUs, GPUs, memory"),
    Param("health_check_period_s", "float", unit="s", min=0.001, doc="how often Ray asks a replica"),
    Param("health_check_timeout_s", "float", unit="s", min=0.001, doc="how long a replica may take"),
    Param("graceful_shutdown_wait_loop_s", "float", unit="s", min=0, doc="how often the end is looked for"),
    Param("graceful_shutdown_timeout_s", "float", unit="s", min=0, doc="how long a replica may drain"),
    Param("placement_group_bundles", "list", doc="resources that each replica gets together"),
    Param("placement_group_strategy", "str", doc="where those resources may lie"),
    Param("max_replicas_per_node", "int", min=1, doc="most replicas on one machine"),
    Param("max_constructor_retry_count", "int", min=1, doc="how often a replica is tried to be built"),
    Param("request_router_config", doc="which replica gets a request"),
    Param("logging_config", doc="the logs of Ray Serve"),
)

# The tables inside. Values that are not numbers are left to Ray.
TABLES = {
    "ray_actor_options": _params(
        Param("num_cpus", "float", min=0, doc="CPUs of a replica"),
        Param("num_gpus", "float", min=0, doc="GPUs of a replica; a fraction shares one"),
        Param("memory", "float", unit="bytes", min=0, doc="memory of a replica"),
        Param("resources", doc="other resources, by name"),
        Param("accelerator_type", "str", doc="the kind of GPU"),
        Param("runtime_env", doc="the environment of a replica"),
        Param("label_selector", doc="labels of the machine"),
        Param("fallback_strategy", doc="other labels that will do"),
    ),
    "autoscaling_config": _params(
        Param("min_replicas", "int", min=0, doc="fewest replicas"),
        Param("initial_replicas", "int", min=0, doc="replicas at the begin"),
        Param("max_replicas", "int", min=1, doc="most replicas"),
        Param("target_ongoing_requests", "float", min=0.001, doc="requests that a replica should have"),
        Param("metrics_interval_s", "float", unit="s", min=0.001, doc="how often replicas report"),
        Param("look_back_period_s", "float", unit="s", min=0.001, doc="over how long is averaged"),
        Param("upscaling_factor", "float", min=0.001, doc="how eagerly replicas are added"),
        Param("downscaling_factor", "float", min=0.001, doc="how eagerly replicas are removed"),
        Param("upscale_delay_s", "float", unit="s", min=0, doc="wait before replicas are added"),
        Param("downscale_delay_s", "float", unit="s", min=0, doc="wait before replicas are removed"),
        Param("downscale_to_zero_delay_s", "float", unit="s", min=0, doc="wait before the last one goes"),
        Param("aggregation_function", "str", doc="`mean`, `max` or `min` of what replicas report"),
        Param("policy", doc="a policy of one's own"),
    ),
}
_ANY_KEY = ("request_router_config", "logging_config")


def deployment_options(setting: Setting | None) -> dict[str, Any] | None:
    """Return the checked options of a `ray` table, None where there is no table. Raises ConfigError."""
    if setting is None:
        return None
    options = _checked(setting, KEY, setting.value, OPTIONS)
    for name in _ANY_KEY:
        if not isinstance(options.get(name, {}), Mapping):
            raise _no_table(setting, f"{KEY}.{name}", options[name])
    for name, known in TABLES.items():
        if name in options:
            options[name] = _checked(setting, f"{KEY}.{name}", options[name], known)
    if "autoscaling_config" in options and options.get("num_replicas", "auto") != "auto":
        message = f"`{KEY}` has both `num_replicas` and `autoscaling_config`"
        raise setting.error("plan-ray-options", message, "keep one of them", at_value=False)
    return options


def _checked(setting: Setting, path: str, table: object, known: Mapping[str, Param]) -> dict[str, Any]:
    if not isinstance(table, Mapping):
        raise _no_table(setting, path, table)
    options: dict[str, Any] = {}
    for key, value in table.items():
        param = known.get(key)
        if param is None:
            raise _unknown(setting, path, str(key), known)
        try:
            options[key] = "auto" if key == "num_replicas" and value == "auto" else convert(param, value)
        except BadValueError as bad:
            raise setting.error("plan-bad-value", f"{bad} in `{path}`", bad.help) from None
    return options


def _no_table(setting: Setting, path: str, value: object) -> Exception:
    message = f"`{path}` must be a table, got `{value!r}`"
    return setting.error("plan-ray-options", message, f"write for example `{KEY} = {{num_replicas = 2}}`")


def _unknown(setting: Setting, path: str, key: str, known: Mapping[str, Param]) -> Exception:
    help = did_you_mean(key, known, cutoff=0.4, otherwise=f"it may have {quoted(sorted(known), limit=20)}")
    if path == KEY and key in ("backend", "node_entrypoint"):
        help = f"the table `{KEY}` holds options of Ray Serve: give the node another name"
    return setting.error("config-unknown-key", f"`{path}` has no option `{key}`", help, at_value=False)
