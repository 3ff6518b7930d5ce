"""The Python of docs/openai.md runs, with the address of a server in the place of the page's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import docs_snippets
import pytest
from openai_service import ByteTokenizer, Served, fake_engine

import hami
from hami.backends.llm import nodes

PAGE = docs_snippets.ROOT / "docs" / "openai.md"
ADDRESS = "http://localhost:8000/v1"


def python_blocks() -> list[docs_snippets.Block]:
    return [block for block in docs_snippets.page_blocks(PAGE) if block.language == "python"]


def run(block: docs_snippets.Block, names: dict[str, Any], address: str = ADDRESS) -> None:
    exec(compile(block.text.replace(ADDRESS, address), f"{PAGE.name}:{block.line}", "exec"), names)


def test_a_client_does_what_the_page_shows(smollm2: Served, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("llguidance", reason="needs hami-core[grammar]")
    first, _, last = python_blocks()
    assert ADDRESS in first.text
    names: dict[str, Any] = {}

    run(first, names, smollm2.url)
    printed = capsys.readouterr().out
    run(last, names)
    names["client"].close()

    assert len(printed.split()) > 10
    assert capsys.readouterr().out.strip() in ("red", "green", "blue")


def test_the_router_of_the_page_has_the_models_of_a_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    testclient = pytest.importorskip("fastapi.testclient", reason="needs hami-core[serve]")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(nodes, "load_engine", lambda *_: fake_engine(tokenizer=ByteTokenizer()))
    Path("pipeline.toml").write_text('[answer]\nbackend = "LLM"\nmodel = "fake"\n', encoding="utf-8")
    made: list[hami.Pipeline] = []
    build = hami.pipe
    monkeypatch.setattr(hami, "pipe", lambda source: made.append(build(source)) or made[-1])
    names: dict[str, Any] = {}

    run(python_blocks()[1], names)
    with testclient.TestClient(names["app"]) as client:
        models = [model["id"] for model in client.get("/v1/models").json()["data"]]
    made[0].close()

    assert sorted(models) == ["answer", "demo"]
