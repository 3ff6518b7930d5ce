"""Whatever is wrong with an inference request, the answer is a 4xx with a code, and the server goes on."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import numpy as np
import pytest
import serve_engines
from serving import Served

GOOD = {"name": "data", "datatype": "BYTES", "shape": [1], "data": ["x"]}


@pytest.fixture
def served(serve: Any) -> Served:
    """A server with a node for anything, and one for floats."""
    serve_engines.register_echo("Echo", "float32")
    return serve(
        {"any": {"backend": "Identity", "next": "echo"}, "echo": {"backend": "Echo", "max": 4}},
        max_body_bytes=100_000,
    )


def with_input(**changes: Any) -> dict[str, Any]:
    tensor = {**GOOD, **changes}
    return {"inputs": [{key: value for key, value in tensor.items() if value is not ...}]}


def with_floats(**changes: Any) -> dict[str, Any]:
    return with_input(**{"name": "x", "datatype": "FP32", "shape": [3], "data": [1, 2, 3], **changes})


def sized(size: Any, **changes: Any) -> dict[str, Any]:
    return with_input(data=..., parameters={"binary_data_size": size}, **changes)


NOT_JSON = {
    "an empty body": b"",
    "half a text": b'{"inputs": [',
    "bad UTF-8": b'{"inputs": "\xff\xfe"}',
    "a lone surrogate": b'{"inputs": "\\ud800"}',
    "a deep list": b"[" * 50_000,
    "a deep object": b'{"a":' * 15_000,
    "deep inputs": b'{"inputs":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "two values": b"{} {}",
    "NaN": b'{"inputs": NaN}',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "zeros": bytes(1000),
}


@pytest.mark.parametrize("body", NOT_JSON.values(), ids=NOT_JSON)
def test_what_is_no_json_is_refused(served: Served, body: bytes) -> None:
    answer = served.post("/v2/models/any/infer", body)
    assert (answer.status, answer.code) == (400, "serve-json")


MALFORMED = {
    "a list": [],
    "a number": 3,
    "no inputs": {},
    "empty inputs": {"inputs": []},
    "inputs that are text": {"inputs": "x"},
    "inputs of numbers": {"inputs": [1]},
    "no name": with_input(name=...),
    "an empty name": with_input(name=""),
    "a number for a name": with_input(name=3),
    "no datatype": with_input(datatype=...),
    "an id that is a number": {**with_input(), "id": 3},
    "parameters that are a list": {**with_input(), "parameters": []},
    "a parameter that is a list": {**with_input(), "parameters": {"a": []}},
    "a parameter that is null": {**with_input(), "parameters": {"a": None}},
    "parameters of a tensor": with_input(parameters=3),
    "outputs that are text": {**with_input(), "outputs": "result"},
    "an output without a name": {**with_input(), "outputs": [{}]},
    "a timeout that is text": {**with_input(), "parameters": {"timeout": "soon"}},
    "a timeout before now": {**with_input(), "parameters": {"timeout": -1}},
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_request_is_refused(served: Served, body: Any) -> None:
    answer = served.post("/v2/models/any/infer", body)
    assert (answer.status, answer.code) == (400, "serve-infer-request")


BAD_TENSORS = {
    "an unknown datatype": with_input(datatype="FP8"),
    "no shape": with_input(shape=...),
    "a shape that is a number": with_input(shape=3),
    "a negative extent": with_input(shape=[-1]),
    "an extent that is no whole number": with_input(shape=[1.0]),
    "an extent that is a truth value": with_input(shape=[True]),
    "an endless extent": with_input(shape=[2**63]),
    "a shape of many axes": with_input(shape=[1] * 33),
    "a huge shape": with_input(shape=[2**40, 2**40]),
    "no data": with_input(data=...),
    "data that is text": with_input(data="x"),
    "too few values": with_input(shape=[2]),
    "too many values": with_input(data=["x", "y"]),
    "no values": with_input(data=[], shape=[0]),
    "numbers for text": with_input(data=[1]),
    "text for numbers": with_floats(data=["1", "2", "3"]),
    "null for a number": with_floats(data=[None, 1, 2]),
    "objects for numbers": with_floats(data=[{}, {}, {}]),
    "ragged rows": with_floats(data=[[1, 2], [3]], shape=[3]),
    "truth values for floats": with_floats(data=[True, False, True]),
    "a fraction for an integer": with_floats(datatype="INT8", data=[1.5, 1, 1]),
    "an integer out of range": with_floats(datatype="INT8", data=[128, 1, 1]),
    "a negative unsigned": with_floats(datatype="UINT8", data=[-1, 1, 1]),
    "a number for a truth value": with_floats(datatype="BOOL", data=[2, 1, 0]),
    "an integer beyond 64 bits": with_floats(datatype="INT64", data=[2**70, 1, 1]),
    "data twice": {"inputs": [{**GOOD, "parameters": {"binary_data_size": 0}}]},
    "one input twice": {"inputs": [GOOD, GOOD]},
    "different numbers of elements": {
        "inputs": [
            {**GOOD, "shape": [2], "data": ["x"] * 2},
            {**GOOD, "name": "b", "shape": [3], "data": ["x"] * 3},
        ]
    },
    "very many elements": with_input(data=[""] * 4097, shape=[4097]),
    "an unknown content type": with_input(parameters={"content_type": "image/jpeg"}),
    "a size that is text": sized("4"),
    "a negative size": sized(-1),
    "a size that is a truth value": sized(True),
    "more bytes than there are": sized(4),
}


@pytest.mark.parametrize("body", BAD_TENSORS.values(), ids=BAD_TENSORS)
def test_a_bad_tensor_is_refused_and_named(served: Served, body: Any) -> None:
    answer = served.post("/v2/models/any/infer", body)
    assert (answer.status, answer.code) == (400, "serve-tensor"), answer


@pytest.mark.parametrize("text", ["-1", "1e3", "", "x", "999999", "9" * 30, "+3", "٣", " "])
def test_a_wrong_length_of_the_header_is_refused(served: Served, text: str) -> None:
    body = json.dumps(with_input()).encode()
    with served.connect() as connection:
        head = f"POST /v2/models/any/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
        head += f"Connection: close\r\nInference-Header-Content-Length: {text}\r\n\r\n"
        connection.sendall(head.encode() + body)
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    assert received.startswith(b"HTTP/1.1 400 ")


def test_bytes_that_no_tensor_takes_are_refused(served: Served) -> None:
    text = json.dumps(with_input()).encode()
    answer = served.post(
        "/v2/models/any/infer", text + b"rest", Inference_Header_Content_Length=str(len(text))
    )
    assert (answer.status, answer.code) == (400, "serve-infer-request")


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"\x01\x00", 1),
        (b"\x05\x00\x00\x00ab", 1),
        (b"\xff\xff\xff\xff", 1),
        (b"\x00\x00\x00\x00", 2),
        (b"", 1),
    ],
)
def test_broken_bytes_are_refused(served: Served, data: bytes, count: int) -> None:
    text = json.dumps(sized(len(data), shape=[count])).encode()
    answer = served.post("/v2/models/any/infer", text + data, Inference_Header_Content_Length=str(len(text)))
    assert (answer.status, answer.code) == (400, "serve-tensor")


@pytest.mark.parametrize("num_bytes", [0, 8, 11, 13])
def test_a_number_of_bytes_against_the_shape_is_refused(served: Served, num_bytes: int) -> None:
    text = json.dumps(sized(num_bytes, name="x", datatype="FP32", shape=[3])).encode()
    answer = served.post(
        "/v2/models/echo/infer", text + bytes(num_bytes), Inference_Header_Content_Length=str(len(text))
    )
    assert (answer.status, answer.code) == (400, "serve-tensor")
    assert "12" in answer.json["error"]


@pytest.mark.parametrize("holder", ["inputs", "outputs"])
def test_shared_memory_is_refused(served: Served, holder: str) -> None:
    region = {"shared_memory_region": "r", "shared_memory_byte_size": 4}
    body = with_input(data=..., parameters=region) if holder == "inputs" else with_input()
    if holder == "outputs":
        body["outputs"] = [{"name": "result", "parameters": region}]
    assert served.post("/v2/models/any/infer", body).code == "serve-shared-memory"


def test_a_ranking_of_classes_is_refused(served: Served) -> None:
    body = {**with_input(), "outputs": [{"name": "result", "parameters": {"classification": 3}}]}
    assert served.post("/v2/models/any/infer", body).code == "serve-classification"


def test_an_unknown_input_is_refused_with_the_nearest(served: Served) -> None:
    answer = served.post("/v2/models/echo/infer", with_floats(name="xx"))
    assert (answer.status, answer.code) == (400, "serve-unknown-input")
    assert "`x`" in answer.json["help"]


def test_a_missing_input_is_refused(serve: Any) -> None:
    serve_engines.register_arithmetic()
    answer = serve("Arithmetic").post(
        "/v2/models/pipeline/infer", with_floats(name="a", shape=[2], data=[1, 2])
    )
    assert answer.code == "serve-tensor"
    assert "`b`" in answer.json["error"]


def test_an_unknown_output_is_refused_with_the_nearest(served: Served) -> None:
    answer = served.post("/v2/models/any/infer", {**with_input(), "outputs": [{"name": "results"}]})
    assert (answer.status, answer.code) == (400, "serve-unknown-output")
    assert "`result`" in answer.json["help"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"datatype": "FP64"}, "input-dtype"),
        ({"datatype": "BYTES", "data": ["a", "b", "c"]}, "input-type"),
        ({"shape": [1, 1, 3]}, "input-rank"),
        ({"shape": [1, 2], "data": [1, 2]}, "input-shape"),
        ({"shape": [0, 3], "data": []}, "input-rows"),
    ],
)
def test_what_the_engine_refuses_is_422_with_its_code(
    served: Served, changes: dict[str, Any], code: str
) -> None:
    answer = served.post("/v2/models/echo/infer", with_floats(**changes))
    assert (answer.status, answer.code) == (422, code)


def test_an_element_that_is_not_what_its_content_type_says_is_refused(served: Served) -> None:
    body = {**with_input(data=["{"]), "parameters": {"content_type": "application/json"}}
    assert served.post("/v2/models/any/infer", body).code == "serve-json"
    text = json.dumps({**sized(5), "parameters": {"content_type": "text/plain"}}).encode()
    answer = served.post(
        "/v2/models/any/infer", text + b"\x01\x00\x00\x00\xff", Inference_Header_Content_Length=str(len(text))
    )
    assert answer.code == "serve-tensor"


def test_bytes_that_are_no_text_are_no_json(serve: Any, probe: Any) -> None:
    probe("Raw", lambda item: b"\xff")
    answer = serve("Raw").post("/v2/models/pipeline/infer", with_input())
    assert (answer.status, answer.code) == (400, "serve-output-form")


def test_a_result_without_a_form_is_said_to_be_one(serve: Any, probe: Any) -> None:
    probe("Odd", lambda item: object())
    answer = serve("Odd").post("/v2/models/pipeline/infer", with_input())
    assert (answer.status, answer.code) == (500, "serve-result-form")


PACKED = {
    "no gzip": (b"plain", "gzip", 400),
    "half a gzip": (gzip.compress(bytes(1000))[:-10], "gzip", 400),
    "a gzip with a tail": (gzip.compress(b"{}") + b"tail", "gzip", 400),
    "gzip for deflate": (gzip.compress(b"{}"), "deflate", 400),
    "a form nobody knows": (b"x", "br", 415),
    "many forms": (b"x", "gzip, gzip", 415),
    "a bomb": (gzip.compress(bytes(100_001)), "gzip", 413),
    "a large bomb": (zlib.compress(bytes(50_000_000)), "deflate", 413),
}


@pytest.mark.parametrize("case", PACKED.values(), ids=PACKED)
def test_a_body_that_cannot_be_unpacked_is_refused(served: Served, case: tuple[bytes, str, int]) -> None:
    body, encoding, status = case
    answer = served.post("/v2/models/any/infer", body, Content_Encoding=encoding)
    assert answer.status == status
    assert answer.code.startswith("serve-")


def test_random_bodies_never_end_in_a_5xx(served: Served) -> None:
    random = np.random.default_rng(7)
    good = json.dumps(with_floats()).encode()
    for _ in range(200):
        body = bytearray(good)
        for position in random.integers(0, len(body), random.integers(1, 6)):
            body[position] = random.integers(0, 256)
        headers = (
            {} if random.random() < 0.5 else {"Inference_Header_Content_Length": str(random.integers(0, 120))}
        )
        answer = served.post("/v2/models/echo/infer", bytes(body), **headers)
        assert answer.status < 500, (bytes(body), answer)
        if answer.status != 200:
            assert answer.code
    assert served.get("/v2/health/ready").status == 200
