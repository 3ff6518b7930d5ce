"""Laws of `POST /v1/pipeline` and `POST /v1/nodes/{node}`: bodies of every kind in, values out."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import hami

BOUNDARY = "0123456789"


def form_of(*parts: tuple[str, str | None, bytes]) -> tuple[bytes, str]:
    """Return body and content type of a form; a part is name, name of its file or None, and content."""
    lines = []
    for name, filename, content in parts:
        disposition = f'form-data; name="{name}"' + (f'; filename="{filename}"' if filename else "")
        lines.append(
            f"--{BOUNDARY}\r\nContent-Disposition: {disposition}\r\n\r\n".encode() + content + b"\r\n"
        )
    return b"".join(lines) + f"--{BOUNDARY}--\r\n".encode(), f"multipart/form-data; boundary={BOUNDARY}"


@pytest.fixture
def keys(probe: Any) -> Any:
    """A backend that answers with the keys it sees."""
    return probe("Keys", lambda item: sorted(key for key in item if key not in ("priority", "request_size")))


def test_the_bytes_of_a_file_are_data_and_the_result_is_json(serve: Any, probe: Any) -> None:
    seen = probe("Length", lambda item: {"length": len(item["data"])})
    answer = serve("Length").post("/v1/pipeline", b"\xff\xd8picture", Content_Type="image/jpeg")
    assert (answer.status, answer.json) == (200, {"length": 9})
    assert seen.items == [b"\xff\xd8picture"]


def test_a_json_object_is_the_request(serve: Any, probe: Any) -> None:
    probe("Sum", lambda item: item["data"] + item["more"])
    assert serve("Sum").post("/v1/pipeline", {"data": 1, "more": 2}).json == 3


@pytest.mark.parametrize(
    "kind", ["application/json", "application/json; charset=utf-8", "application/ld+json"]
)
def test_json_is_known_by_its_content_type(serve: Any, kind: str) -> None:
    assert serve("Pow").post("/v1/pipeline", b'{"data": 3}', Content_Type=kind).json == 9


def test_arrays_are_lists(serve: Any, probe: Any) -> None:
    probe("Array", lambda item: {"boxes": np.float16([[1, 2]]), "ids": [np.int64(3)]})
    assert serve("Array").post("/v1/pipeline", {}).json == {"boxes": [[1, 2]], "ids": [3]}


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_come_as_they_are(serve: Any, probe: Any, kind: Any) -> None:
    probe("Raw", lambda item: kind(b"<script>\xff"))
    answer = serve("Raw").post("/v1/pipeline", {})
    assert answer.body == b"<script>\xff"
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_output_names_the_key_that_is_the_answer(serve: Any) -> None:
    @hami.register
    def Two(batch: list[Any]) -> None:  # noqa: N802
        for item in batch:
            item["result"], item["score"] = "r", 0.5

    served = serve("Two")
    assert served.post("/v1/pipeline", {}).json == "r"
    assert served.post("/v1/pipeline?output=score", {}).json == 0.5
    answer = served.post("/v1/pipeline?output=scores", {})
    assert (answer.status, answer.code) == (400, "serve-unknown-output")
    assert "`score`" in answer.json["help"]


def test_files_and_fields_of_a_form_are_keys(serve: Any, probe: Any) -> None:
    probe("Show", lambda item: [item["data"].decode(), item["word"], [one.decode() for one in item["many"]]])
    body, kind = form_of(
        ("data", "a.jpg", b"file"), ("word", None, "wörd".encode()), ("many", "1", b"x"), ("many", "2", b"y")
    )
    assert serve("Show").post("/v1/pipeline", body, Content_Type=kind).json == ["file", "wörd", ["x", "y"]]


def test_a_large_file_of_a_form_comes_whole(serve: Any, probe: Any) -> None:
    probe("Length", lambda item: len(item["data"]))
    body, kind = form_of(("data", "large.bin", bytes(3 << 20)))
    assert serve("Length").post("/v1/pipeline", body, Content_Type=kind).json == 3 << 20


def test_fields_of_a_plain_form_are_keys(serve: Any, probe: Any) -> None:
    probe("Show", lambda item: item["data"] + item["more"])
    answer = serve("Show").post(
        "/v1/pipeline", b"data=a+b&more=%C3%BC", Content_Type="application/x-www-form-urlencoded"
    )
    assert answer.json == "a bü"


def test_one_node_runs_alone(serve: Any) -> None:
    served = serve({"a": {"backend": "Pow", "next": "b"}, "b": {"backend": "Pow"}})
    assert served.post("/v1/pipeline", {"data": 2}).json == 16
    assert served.post("/v1/nodes/a", {"data": 2}).json == 4
    assert served.post("/v1/nodes/b", {"data": 3}).json == 9


def test_an_unknown_node_is_404_with_the_nearest(serve: Any) -> None:
    answer = serve({"decode": {"backend": "Pow"}}).post("/v1/nodes/decoed", {"data": 2})
    assert (answer.status, answer.code) == (404, "serve-unknown-node")
    assert "`decode`" in answer.json["help"]


def test_the_query_gives_priority_and_deadline(serve: Any, probe: Any) -> None:
    seen = probe("Seen", lambda item: item["priority"])
    served = serve("Seen")
    assert served.post("/v1/pipeline?priority=5", b"x").json == 5
    seen.shut()
    answer = served.post("/v1/pipeline?deadline_ms=20", b"x")
    seen.open()
    assert (answer.status, answer.code) == (504, "deadline-exceeded")


@pytest.mark.parametrize("query", ["priority=high", "priority=1.5", "deadline_ms=soon", "priority="])
def test_a_query_that_is_no_number_is_refused(serve: Any, query: str) -> None:
    answer = serve("Identity").post(f"/v1/pipeline?{query}", b"x")
    assert (answer.status, answer.code) == (400, "serve-query")


@pytest.mark.parametrize("query", ["deadline_ms=nan", "deadline_ms=-1", "priority=99999999999999999999"])
def test_a_number_that_the_core_refuses_is_422(serve: Any, query: str) -> None:
    answer = serve("Identity").post(f"/v1/pipeline?{query}", b"x")
    assert (answer.status, answer.code) == (422, "request-reserved-key")


@pytest.mark.parametrize("body", [b"[1]", b"3", b"null", b'"text"', b"", b"{", b"[" * 9999])
def test_json_that_is_no_object_is_refused(serve: Any, body: bytes) -> None:
    answer = serve("Identity").post("/v1/pipeline", body, Content_Type="application/json")
    assert (answer.status, answer.code) == (400, "serve-json")


BAD_FORMS = {
    "no boundary": (b"x", "multipart/form-data"),
    "another boundary": (form_of(("data", None, b"x"))[0], "multipart/form-data; boundary=other"),
    "a part without a name": (
        f"--{BOUNDARY}\r\nContent-Disposition: form-data\r\n\r\nx\r\n--{BOUNDARY}--\r\n".encode(),
        f"multipart/form-data; boundary={BOUNDARY}",
    ),
    "a part without headers": (
        f"--{BOUNDARY}\r\n\r\nx".encode(),
        f"multipart/form-data; boundary={BOUNDARY}",
    ),
    "many fields": form_of(*(("data", None, b"x") for _ in range(1500))),
    "a huge field": form_of(("data", None, bytes(2 << 20))),
}


@pytest.mark.parametrize("case", BAD_FORMS.values(), ids=BAD_FORMS)
def test_a_broken_form_is_refused(serve: Any, keys: Any, case: tuple[bytes, str]) -> None:
    body, kind = case
    answer = serve("Keys").post("/v1/pipeline", body, Content_Type=kind)
    assert 400 <= answer.status < 500, answer
    assert answer.code


def test_a_key_that_belongs_to_callers_in_python_is_refused(serve: Any) -> None:
    answer = serve("Identity").post("/v1/pipeline", {"data": 1, "event": "x"})
    assert (answer.status, answer.code) == (422, "request-event")


def test_a_stale_result_of_the_client_is_not_the_answer(serve: Any) -> None:
    assert serve("Identity").post("/v1/pipeline", {"data": 1, "result": 2}).json == 1


def test_the_page_of_the_api_describes_every_path(serve: Any) -> None:
    served = serve("Identity")
    description = served.get("/openapi.json").json
    assert set(description["paths"]) >= {
        "/v1/pipeline",
        "/v1/nodes/{node}",
        "/v2",
        "/v2/health/live",
        "/v2/health/ready",
        "/v2/models/{model}",
        "/v2/models/{model}/ready",
        "/v2/models/{model}/infer",
        "/v2/models/{model}/versions/{version}/infer",
    }
    infer = description["paths"]["/v2/models/{model}/infer"]["post"]
    assert [one["name"] for one in infer["parameters"]] == ["model"]
    assert "inputs" in infer["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert set(infer["responses"]) == {"200", "default"}
    assert {one["name"] for one in description["paths"]["/v1/pipeline"]["post"]["parameters"]} == {
        "output",
        "priority",
        "deadline_ms",
    }
    assert all(
        operation.get("summary") for path in description["paths"].values() for operation in path.values()
    )
    assert b"swagger" in served.get("/docs").body.lower()
    json.dumps(description)
