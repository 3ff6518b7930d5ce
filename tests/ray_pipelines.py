"""The pipelines that the tests of hami.ray deploy on a cluster."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from example_files import EXAMPLES

HERE = Path(__file__).resolve().parent / "ray"
IMPORTS = [str(HERE / "backends.py")]
ORIENTATION = EXAMPLES / "10_ray" / "pipeline.toml"
HAS_TORCH = importlib.util.find_spec("torch") is not None
SMALL = {"num_cpus": 0.1}
PARTS = {
    "imports": IMPORTS,
    "ray": {"ray_actor_options": SMALL, "health_check_period_s": 0.5},
    "picky": {
        "backend": "RayPicky",
        "next": "copy",
        "ray": {
            "ray_actor_options": {**SMALL, "num_gpus": 0.25},
            "health_check_period_s": 0.5,
        },
    },
    "copy": {"backend": "Identity", "next": "count"},
    "count": {"backend": "RayCount"},
}
SPREAD = {
    "imports": IMPORTS,
    "ray": {"ray_actor_options": SMALL, "autoscaling_config": {"min_replicas": 2, "max_replicas": 2}},
    "where": {"backend": "RayWhere", "max": 8, "batching_timeout": 100},
}
FRAGILE = {
    "imports": IMPORTS,
    "ray": {"ray_actor_options": SMALL, "health_check_period_s": 0.2, "graceful_shutdown_timeout_s": 60},
    "sick": {"backend": "RaySick", "next": "where"},
    "where": {"backend": "RayWhere"},
}
CHAT = {
    "imports": [str(HERE / "fake_models.py")],
    "ray": {"ray_actor_options": SMALL},
    "answer": {"backend": "LLM", "model": "fake", "ray": {"ray_actor_options": SMALL}},
}
