"""A pipeline whose file speaks of Ray runs in one process as if it did not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hami

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


def test_the_same_file_runs_in_one_process(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text(FILE, encoding="utf-8")

    with hami.pipe(file) as pipe:
        assert pipe({"data": 3})["result"] == 9


def test_the_core_and_backends_of_any_key_never_see_the_options() -> None:
    seen: list[dict[str, Any]] = []

    @hami.register
    class TakesAnything:
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            seen.append(params)

        def forward(self, batch: list[dict[str, Any]]) -> None:
            for item in batch:
                item["result"] = item["data"]

    source = {"one": {"backend": "TakesAnything", "own": 1, "ray": {"num_replicas": 2}}}
    with hami.pipe(source) as pipe:
        assert pipe({"data": 1})["result"] == 1

    assert seen[0]["own"] == 1
    assert "ray" not in seen[0]
    assert "ray" not in pipe.plan.to_core()["nodes"][0]["params"]
