"""No request that the description allows, nor any other, makes a server fail or answer in another form."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("schemathesis", reason="needs schemathesis, which is not installed")

from api_fuzzing import NUM_REQUESTS, can_be_wrong, fuzz, operations_of
from schemathesis import GenerationMode
from serving import Served

import hami

TIMEOUT_S = max(60, 10 * NUM_REQUESTS)


def plain(tmp_path: Path) -> Any:
    """A backend in Python that takes anything, with one of the core behind it."""

    @hami.register
    def Anything(batch: list[dict[str, Any]]) -> None:  # noqa: N802
        for item in batch:
            item["result"] = {"seen": item.get("data"), "keys": sorted(item)}

    return {"any": {"backend": "Anything", "next": "copy"}, "copy": {"backend": "Identity"}}


def pictures(tmp_path: Path) -> Any:
    """Pictures are decoded, and a network runs on what comes out."""
    pytest.importorskip("cv2", reason="needs opencv, which is not installed")
    onnx_models = pytest.importorskip("backends.onnx_models", reason="needs onnx, which is not installed")
    model = onnx_models.write("image", tmp_path)
    return {
        "pixels": {"backend": "S[DecodeImage(color=rgb), ResizeImage(8, 8), ToTensor]", "next": "net"},
        "net": {"backend": "OnnxInfer", "model": str(model), "max": 4},
    }


def language_model(tmp_path: Path) -> Any:
    """A language model whose answers are those of a fake."""
    service = pytest.importorskip("openai_service", reason="needs torch and openai, which are not installed")
    return service.fake_node()


@pytest.fixture
def served(request: Any, serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """One of the services."""
    source = request.param(tmp_path)
    if request.param is language_model:
        from llm_engines import ByteTokenizer, fake_engine

        from hami.backends.llm import nodes

        monkeypatch.setattr(nodes, "load_engine", lambda *arguments: fake_engine(tokenizer=ByteTokenizer()))
    yield serve(source, max_body_bytes=1 << 20)


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("served", [plain, pictures, language_model], indirect=True)
def test_every_answer_is_documented_and_none_is_a_fault(served: Served) -> None:
    node = served.service.pipe.plan.nodes[0].name
    names = {"node": node, "model": node, "id": node, "version": "1"}
    for operation in operations_of(served.url):
        if can_be_wrong(operation):
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                fuzz(operation, mode, names, NUM_REQUESTS)
        else:
            fuzz(operation, GenerationMode.POSITIVE, names, num_requests=1)
        if operation.path_parameters:
            fuzz(operation, GenerationMode.POSITIVE, {}, num_requests=NUM_REQUESTS // 4)
    assert served.get("/v2/health/ready").status == 200
    assert served.service.num_running == 0
