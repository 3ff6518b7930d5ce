"""Laws of `/v2/models/{model}/infer` that no client library shows: forms, batches, names and numbers."""

from __future__ import annotations

import gzip
import json
import struct
from typing import Any

import numpy as np
import pytest
import serve_engines
from serving import Answer, Served

import hami
from hami import TensorSpec


def infer(served: Served, body: Any, model: str = "pipeline", **headers: str) -> Answer:
    return served.post(f"/v2/models/{model}/infer", body, **headers)


def json_tensor(
    name: str = "data", datatype: str = "BYTES", data: Any = ("x",), shape: Any = None
) -> dict[str, Any]:
    values = list(data)
    return {"name": name, "datatype": datatype, "shape": shape or [len(values)], "data": values}


def binary_body(header: dict[str, Any], *buffers: bytes) -> tuple[bytes, dict[str, str]]:
    """Return a body with bytes behind its header, and the header of HTTP that says so."""
    text = json.dumps(header).encode()
    return text + b"".join(buffers), {"Inference_Header_Content_Length": str(len(text))}


def split_answer(answer: Answer) -> tuple[dict[str, Any], bytes]:
    size = int(answer.headers["Inference-Header-Content-Length"])
    return json.loads(answer.body[:size]), answer.body[size:]


# --- models -------------------------------------------------------------------------------------------------


def test_a_pipeline_of_a_file_has_the_name_of_the_file(serve: Any, tmp_path: Any) -> None:
    path = tmp_path / "classify.toml"
    path.write_text('[only]\nbackend = "Identity"\n', encoding="utf-8")
    served = serve(str(path))
    assert served.get("/v2/models/classify").json["name"] == "classify"
    assert served.get("/v2/models/only").json["name"] == "only"


def test_the_ends_of_the_pipeline_are_those_of_its_first_and_last_node(serve: Any) -> None:
    serve_engines.register_echo("Echo", "float32")
    served = serve({"a": {"backend": "Echo", "next": "b"}, "b": {"backend": "Identity"}})
    metadata = served.get("/v2/models/pipeline").json
    assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}]
    assert metadata["outputs"] == [{"name": "result", "datatype": "BYTES", "shape": [-1]}]


def test_a_fixed_batch_takes_any_rows_and_an_input_without_rows_has_its_shape(serve: Any) -> None:
    @hami.register
    class Fixed(hami.Engine):
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            self.inputs = [TensorSpec("x", "float32", (4, 2)), TensorSpec("t", "int64", (5,), has_rows=False)]
            self.outputs = [TensorSpec("y", "float32", (4, 2))]
            self.fixed_rows = 4

    inputs = serve("Fixed").get("/v2/models/pipeline").json["inputs"]
    assert [one["shape"] for one in inputs] == [[-1, 2], [5]]


def test_a_type_that_the_protocol_lacks_is_served_as_anything(serve: Any) -> None:
    serve_engines.register_echo("Echo", "complex64")
    assert serve("Echo").get("/v2/models/pipeline").json["inputs"][0]["datatype"] == "BYTES"


def test_only_version_1_is_there(serve: Any) -> None:
    served = serve("Identity")
    assert served.get("/v2/models/pipeline/versions/1").status == 200
    assert served.get("/v2/models/pipeline/versions/1/ready").status == 200
    answer = served.get("/v2/models/pipeline/versions/2")
    assert (answer.status, answer.code) == (404, "serve-unknown-model")


def test_a_node_whose_name_is_no_word_can_be_reached(serve: Any) -> None:
    served = serve(
        {"each": {"backend": "S[Identity, ForEach(target=one), Identity]"}, "one": {"backend": "Pow"}}
    )
    body = {"inputs": [json_tensor(data=["[1, 2]"])], "parameters": {"content_type": "application/json"}}
    assert infer(served, body, "each%232").json["outputs"][0]["data"] == ["[1,4]"]


# --- one request --------------------------------------------------------------------------------------------


def test_json_in_gives_json_out(serve: Any) -> None:
    answer = infer(serve("Identity"), {"id": "7", "inputs": [json_tensor(data=["héllo"])]})
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json == {
        "model_name": "pipeline",
        "model_version": "1",
        "id": "7",
        "outputs": [{"name": "result", "datatype": "BYTES", "shape": [1], "data": ["héllo"]}],
    }


def test_nested_data_is_read_like_flat_data(serve: Any) -> None:
    serve_engines.register_echo("Echo", "int32")
    served = serve({"echo": {"backend": "Echo", "max": 2}})
    nested = json_tensor("x", "INT32", [[1, 2, 3], [4, 5, 6]], [2, 3])
    flat = json_tensor("x", "INT32", [1, 2, 3, 4, 5, 6], [2, 3])
    for tensor in (nested, flat):
        (output,) = infer(served, {"inputs": [tensor]}).json["outputs"]
        assert (output["shape"], output["data"]) == ([2, 3], [1, 2, 3, 4, 5, 6])


def test_one_row_without_an_axis_of_rows_comes_back_without_it(serve: Any) -> None:
    serve_engines.register_echo("Echo", "float32")
    (output,) = infer(serve("Echo"), {"inputs": [json_tensor("x", "FP32", [1, 2, 3])]}).json["outputs"]
    assert output["shape"] == [3]


def test_bytes_behind_the_header_may_lie_anywhere(serve: Any) -> None:
    serve_engines.register_echo("Echo", "float64")
    served = serve("Echo")
    values = np.arange(3, dtype=np.float64)
    for padding in range(8):
        header = {
            "id": "x" * padding,
            "inputs": [
                {"name": "x", "datatype": "FP64", "shape": [3], "parameters": {"binary_data_size": 24}}
            ],
        }
        body, headers = binary_body(header, values.tobytes())
        assert infer(served, body, **headers).json["outputs"][0]["data"] == [0, 1, 2]


def test_binary_outputs_follow_the_header_in_its_order(serve: Any) -> None:
    serve_engines.register_arithmetic()
    served = serve("Arithmetic")
    tensors = [json_tensor(name, "FP32", [1, 2]) for name in "ab"]
    body = {"inputs": tensors, "parameters": {"binary_data_output": True}}
    header, rest = split_answer(infer(served, body))
    assert [one["parameters"] for one in header["outputs"]] == [{"binary_data_size": 8}] * 2
    assert np.frombuffer(rest, np.float32).tolist() == [2, 4, 1, 4]


def test_the_wish_of_an_output_wins_over_that_of_the_request(serve: Any) -> None:
    serve_engines.register_arithmetic()
    body = {
        "inputs": [json_tensor(name, "FP32", [1, 2]) for name in "ab"],
        "outputs": [{"name": "sum", "parameters": {"binary_data": False}}, {"name": "product"}],
        "parameters": {"binary_data_output": True},
    }
    header, rest = split_answer(infer(serve("Arithmetic"), body))
    assert header["outputs"][0]["data"] == [2, 4]
    assert np.frombuffer(rest, np.float32).tolist() == [1, 4]


def test_a_packed_body_is_read_as_what_it_holds(serve: Any) -> None:
    body = gzip.compress(json.dumps({"inputs": [json_tensor()]}).encode())
    answer = infer(serve("Identity"), body, Content_Encoding="gzip")
    assert answer.json["outputs"][0]["data"] == ["x"]


def test_numbers_that_json_has_not_come_as_null_or_as_bytes(serve: Any) -> None:
    serve_engines.register_echo("Echo", "float32")
    served = serve("Echo")
    values = np.float32([np.nan, np.inf, -np.inf])
    header = {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [3], "parameters": {"binary_data_size": 12}}]
    }
    body, headers = binary_body(header, values.tobytes())
    assert infer(served, body, **headers).json["outputs"][0]["data"] == [None, None, None]
    body, headers = binary_body({**header, "parameters": {"binary_data_output": True}}, values.tobytes())
    _, rest = split_answer(infer(served, body, **headers))
    assert rest == values.tobytes()


# --- nodes without an engine --------------------------------------------------------------------------------


def test_each_element_of_bytes_is_a_request_of_its_own(serve: Any, probe: Any) -> None:
    seen = probe("Seen", lambda item: item["data"].upper(), batch_range=(1, 8))
    answer = infer(serve({"seen": {"backend": "Seen"}}), {"inputs": [json_tensor(data=["a", "b", "c"])]})
    assert answer.json["outputs"][0]["data"] == ["A", "B", "C"]
    assert sorted(seen.items) == [b"a", b"b", b"c"]


def test_one_element_beside_many_goes_to_all(serve: Any, probe: Any) -> None:
    probe("Join", lambda item: item["data"] + item["tail"])
    body = {"inputs": [json_tensor(data=["a", "b"]), json_tensor("tail", data=["!"])]}
    assert infer(serve("Join"), body).json["outputs"][0]["data"] == ["a!", "b!"]


def test_an_array_goes_in_and_comes_out_as_a_tensor(serve: Any, probe: Any) -> None:
    probe("Half", lambda item: item["data"] / 2)
    answer = infer(serve("Half"), {"inputs": [json_tensor("data", "FP32", [1, 2, 3, 4], [2, 2])]})
    assert answer.json["outputs"] == [
        {"name": "result", "datatype": "FP32", "shape": [2, 2], "data": [0.5, 1, 1.5, 2]}
    ]


def test_a_result_for_json_is_its_text(serve: Any, probe: Any) -> None:
    probe("Found", lambda item: {"boxes": np.float32([[1, 2]]), "label": "cat", 3: None, "raw": b"\xff"})
    answer = infer(serve("Found"), {"inputs": [json_tensor()]})
    (text,) = answer.json["outputs"][0]["data"]
    assert json.loads(text) == {
        "boxes": [[1.0, 2.0]],
        "label": "cat",
        "3": None,
        "raw": "\N{REPLACEMENT CHARACTER}",
    }


def test_arrays_of_many_requests_are_one_tensor_if_they_go_together(serve: Any, probe: Any) -> None:
    probe("Length", lambda item: np.zeros(2 if item["data"] == b"even" else 3, np.int8))
    served = serve("Length")
    together = infer(served, {"inputs": [json_tensor(data=["even", "even"])]}).json["outputs"][0]
    assert (together["datatype"], together["shape"]) == ("INT8", [2, 2])
    apart = infer(served, {"inputs": [json_tensor(data=["even", "odd"])]}).json["outputs"][0]
    assert (apart["datatype"], apart["data"]) == ("BYTES", ["[0,0]", "[0,0,0]"])


def test_an_output_may_be_any_key_that_nodes_wrote(serve: Any) -> None:
    @hami.register
    def Two(batch: list[Any]) -> None:  # noqa: N802
        for item in batch:
            item["result"], item["score"] = b"r", 0.5

    body = {"inputs": [json_tensor()], "outputs": [{"name": "score"}, {"name": "result"}]}
    outputs = infer(serve("Two"), body).json["outputs"]
    assert [(one["name"], one["data"]) for one in outputs] == [("score", ["0.5"]), ("result", ["r"])]


@pytest.mark.parametrize(
    ("kind", "text", "seen"),
    [
        ("application/json", '{"a": [1, 2]}', {"a": [1, 2]}),
        ("text/plain", "wörd", "wörd"),
        ("application/octet-stream", "raw", b"raw"),
    ],
)
@pytest.mark.parametrize("place", ["tensor", "request"])
def test_content_type_says_what_elements_are(
    serve: Any, probe: Any, kind: str, text: str, seen: Any, place: str
) -> None:
    probed = probe("Seen", lambda item: b"")
    tensor = json_tensor(data=[text])
    body: dict[str, Any] = {"inputs": [tensor]}
    (tensor if place == "tensor" else body)["parameters"] = {"content_type": kind}
    assert infer(serve("Seen"), body).status == 200
    assert probed.items == [seen]


def test_one_element_that_fails_fails_the_call(serve: Any) -> None:
    @hami.register
    def Picky(batch: list[Any]) -> list[Any]:  # noqa: N802
        for item in batch:
            if item["data"] == b"bad":
                raise hami.RequestError("this one is bad", code="request-error")
        return [item["data"] for item in batch]

    answer = infer(serve("Picky"), {"inputs": [json_tensor(data=["good", "bad"])]})
    assert (answer.status, answer.json["error"]) == (422, "this one is bad")


# --- arrays on the way --------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1.0, 1.00390625, 1.01171875, 3.4e38, -2.0, 0.0, float("inf")])
def test_bfloat16_in_json_is_rounded_to_nearest_even(serve: Any, value: float) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    serve_engines.register_echo("Echo", "bfloat16", (-1, 1))
    served = serve("Echo")
    if np.isinf(value):
        bits = np.array([0x7F80], np.uint16).tobytes()
        header = {
            "inputs": [
                {"name": "x", "datatype": "BF16", "shape": [1], "parameters": {"binary_data_size": 2}}
            ],
            "parameters": {"binary_data_output": True},
        }
        body, headers = binary_body(header, bits)
        assert split_answer(infer(served, body, **headers))[1] == bits
        return
    (output,) = infer(served, {"inputs": [json_tensor("x", "BF16", [value])]}).json["outputs"]
    expected = np.array([value], np.float32).astype(ml_dtypes.bfloat16).astype(np.float32)
    assert output["data"] == [None] if np.isinf(expected[0]) else expected.tolist()


def test_results_of_other_libraries_are_arrays(serve: Any, probe: Any) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    results = [
        np.arange(6, dtype=np.int16).reshape(2, 3).T,
        np.float64(2.5),
        np.array([1, 2], ml_dtypes.bfloat16),
        np.array([1, 2], ">i4"),
    ]
    probe("Made", lambda item: results[int(item["data"])])
    served = serve("Made")
    found = [infer(served, {"inputs": [json_tensor(data=[str(i)])]}).json["outputs"][0] for i in range(4)]
    assert [(one["datatype"], one["shape"], one["data"]) for one in found] == [
        ("INT16", [3, 2], [0, 3, 1, 4, 2, 5]),
        ("FP64", [], [2.5]),
        ("BF16", [2], [1, 2]),
        ("INT32", [2], [1, 2]),
    ]


def test_tensors_of_torch_are_arrays(serve: Any, probe: Any) -> None:
    torch = pytest.importorskip("torch")
    made = {b"half": torch.tensor([1.5], dtype=torch.bfloat16), b"grad": torch.ones(2, requires_grad=True)}
    probe("Made", lambda item: made[item["data"]])
    served = serve("Made")
    for name, datatype, data in (("half", "BF16", [1.5]), ("grad", "FP32", [1, 1])):
        (output,) = infer(served, {"inputs": [json_tensor(data=[name])]}).json["outputs"]
        assert (output["datatype"], output["data"]) == (datatype, data)


def test_an_empty_array_comes_out_empty(serve: Any, probe: Any) -> None:
    probe("Nothing", lambda item: np.zeros((0, 4), np.float32))
    served = serve("Nothing")
    body: dict[str, Any] = {"inputs": [json_tensor()]}
    assert infer(served, body).json["outputs"][0]["shape"] == [0, 4]
    body["parameters"] = {"binary_data_output": True}
    header, rest = split_answer(infer(served, body))
    assert (header["outputs"][0]["parameters"], rest) == ({"binary_data_size": 0}, b"")


def test_bytes_are_length_and_content(serve: Any) -> None:
    element = struct.pack("<I", 2) + b"\x00\xff"
    header = {
        "inputs": [
            {
                "name": "data",
                "datatype": "BYTES",
                "shape": [1],
                "parameters": {"binary_data_size": len(element)},
            }
        ],
        "parameters": {"binary_data_output": True},
    }
    body, headers = binary_body(header, element)
    assert split_answer(infer(serve("Identity"), body, **headers))[1] == element
