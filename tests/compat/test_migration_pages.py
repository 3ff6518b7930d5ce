"""What docs/from_torchpipe.md and docs/from_triton.md say in tables and lists, which nothing runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import hami
from hami import backend
from hami.parser import ALIASES, macro_names
from hami.plan import plan

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = {name: (DOCS / name).read_text(encoding="utf-8") for name in ("from_torchpipe.md", "from_triton.md")}


def rows(page: str) -> list[tuple[str, str]]:
    """Return the rows of the tables of a page: what the other system has, and what hami has."""
    found = re.findall(r"^\| (.+?) \| (.+) \|$", page, re.MULTILINE)
    return [(left, right) for left, right in found if right != "hami"]


def code_names(text: str, pattern: str) -> set[str]:
    """Return the words in backticks that look so."""
    return {name for code in re.findall(r"`([^`]+)`", text) for name in re.findall(pattern, code)}


def known_backends() -> set[str]:
    for family in backend.FAMILY_MODULES:
        backend.load_family(family)
    return {
        *backend.backend_names(),
        *ALIASES,
        *macro_names(),
        "Reflect",
        "BackendProxy",
        "InstanceFromParam",
    }


@pytest.mark.parametrize("name", PAGES)
def test_every_backend_that_a_table_offers_exists(name: str) -> None:
    offered = {word for _, right in rows(PAGES[name]) for word in code_names(right, r"\b[A-Z][a-z]\w+")}

    assert len(offered) >= 5
    assert offered - known_backends() == set()


def test_every_old_spelling_is_on_the_page() -> None:
    assert [name for name in ALIASES if f"`{name}`" not in PAGES["from_torchpipe.md"]] == []


@pytest.mark.parametrize(("old", "new"), ALIASES.items(), ids=ALIASES)
def test_an_old_spelling_is_called_by_the_name_beside_it(old: str, new: str) -> None:
    beside = [right for left, right in rows(PAGES["from_torchpipe.md"]) if f"`{old}`" in left]

    assert beside and all(f"`{new}`" in right for right in beside)


@pytest.mark.parametrize(
    "key", ["max", "batching_timeout", "scheduler", "queue_capacity", "instance_num", "device", "next", "map"]
)
def test_the_keys_of_a_node_in_the_table_of_triton_are_keys(key: str) -> None:
    assert any(re.search(rf"`{key}\b", right) for _, right in rows(PAGES["from_triton.md"]))
    values: dict[str, Any] = {
        "scheduler": "priority",
        "device": "cuda:1",
        "next": "b",
        "map": "input[x:data]",
    }
    graph = {"a": {"backend": "OnnxInfer", "model": "a.onnx", "next": "b"}, "b": {"backend": "Pow"}}
    graph["a"][key] = values.get(key, 1)

    assert len(plan(graph).nodes) == 2


@pytest.mark.parametrize("key", ["priority", "deadline_ms", "max_in_flight"])
def test_the_keys_of_a_pipeline_in_the_table_of_triton_are_keys(key: str) -> None:
    assert any(f"`{key}" in right for _, right in rows(PAGES["from_triton.md"]))
    assert plan({"a": {"backend": "Pow"}, key: 1}).nodes


@pytest.mark.parametrize(
    ("missing", "graph", "code"),
    [
        ("`rec.2`", {"rec": {"backend": "Pow"}, "rec.2": {"backend": "Pow"}}, "config-node-name"),
        (
            '`map = "[result:data]"`',
            {"a": {"backend": "Pow", "next": "b"}, "b": {"backend": "Pow", "map": "[result:data]"}},
            "plan-bad-map",
        ),
        ("`filter`", {"a": {"backend": "Pow", "filter": "or"}}, "config-unknown-key"),
        ("`Jump`", {"a": {"backend": "Jump"}}, "plan-unknown-backend"),
        ("`SaveTensor`", {"a": {"backend": "SaveTensor"}}, "plan-unknown-backend"),
        ("`PillowResizeMat`", {"a": {"backend": "PillowResizeMat"}}, "plan-unknown-backend"),
    ],
    ids=["logical node", "map without a node", "filter", "Jump", "SaveTensor", "PillowResizeMat"],
)
def test_what_torchpipe_has_and_hami_lacks_is_refused(missing: str, graph: dict[str, Any], code: str) -> None:
    assert missing in PAGES["from_torchpipe.md"].split("## What is missing")[1]
    with pytest.raises(hami.ConfigError) as caught:
        plan(graph)
    assert caught.value.code == code


@pytest.mark.parametrize("key", ["preferred_batch_size", "model_warmup", "response_cache", "rate_limiter"])
def test_what_triton_has_and_hami_lacks_is_refused(key: str) -> None:
    with pytest.raises(hami.ConfigError) as caught:
        plan({"a": {"backend": "OnnxInfer", "model": "a.onnx", key: 1}})
    assert caught.value.code == "config-unknown-key"


@pytest.mark.parametrize(
    "path", ["config", "stats", "generate", "trace/setting"], ids=["config", "stats", "generate", "trace"]
)
def test_paths_of_triton_that_are_not_there_are_404(path: str) -> None:
    testclient = pytest.importorskip("fastapi.testclient", reason="needs hami-core[serve]")
    from hami.serve import Service, Settings, create_app

    service = Service.open({"a": {"backend": "Pow"}}, Settings())
    with testclient.TestClient(create_app(service)) as client:
        assert client.get(f"/v2/models/a/{path}").status_code == 404
        assert client.get("/v2/models/a").status_code == 200
    service.pipe.close()
