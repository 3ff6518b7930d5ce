"""The clients of Triton work as they are: every datatype, binary and JSON, blocking and asynchronous."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
import serve_engines

import hami

http = pytest.importorskip("tritonclient.http", reason="tritonclient is not installed")
aio = pytest.importorskip("tritonclient.http.aio", reason="tritonclient is not installed")
InferenceServerException = pytest.importorskip("tritonclient.utils").InferenceServerException

DATATYPES = list(serve_engines.DTYPES)


@pytest.fixture
def client(serve: Any) -> Any:
    """Return a function that serves a pipeline and connects a client to it."""
    clients: list[Any] = []

    def connect(source: Any, **settings: Any) -> Any:
        clients.append(http.InferenceServerClient(serve(source, **settings).netloc))
        return clients[-1]

    yield connect
    for one in clients:
        one.close()


def tensor(name: str, array: np.ndarray[Any, Any], datatype: str, *, is_binary: bool = True) -> Any:
    made = http.InferInput(name, list(array.shape), datatype)
    return made.set_data_from_numpy(array, binary_data=is_binary)


def wanted(name: str, *, is_binary: bool) -> Any:
    return http.InferRequestedOutput(name, binary_data=is_binary)


def echo_source(datatype: str) -> Any:
    serve_engines.register_echo("Echo", serve_engines.DTYPES[datatype])
    return {"echo": {"backend": "Echo", "max": 4}}


@pytest.mark.parametrize("datatype", DATATYPES)
def test_every_datatype_goes_there_and_back_as_bytes(client: Any, datatype: str) -> None:
    values = serve_engines.values_of(datatype)
    result = client(echo_source(datatype)).infer("pipeline", [tensor("x", values, datatype)])
    got = result.as_numpy("y")
    assert got.dtype == values.dtype
    assert got.tobytes() == values.tobytes()
    assert result.get_output("y")["datatype"] == datatype
    assert result.get_output("y")["shape"] == [2, 3]


@pytest.mark.parametrize("datatype", [one for one in DATATYPES if one != "BF16"])
def test_every_datatype_goes_there_and_back_as_json(client: Any, datatype: str) -> None:
    values = serve_engines.values_of(datatype)
    result = client(echo_source(datatype)).infer(
        "pipeline", [tensor("x", values, datatype, is_binary=False)], outputs=[wanted("y", is_binary=False)]
    )
    assert result.as_numpy("y").tolist() == values.tolist()
    assert "data" in result.get_output("y")


def test_bfloat16_can_be_read_as_json(client: Any) -> None:
    values = serve_engines.values_of("BF16")
    result = client(echo_source("BF16")).infer(
        "pipeline", [tensor("x", values, "BF16")], outputs=[wanted("y", is_binary=False)]
    )
    assert result.get_output("y")["data"] == [1.5, -2.0, 3.25] * 2


@pytest.mark.parametrize("is_binary", [True, False])
def test_bytes_go_there_and_back(client: Any, is_binary: bool) -> None:
    texts = np.array([b"first", "zweite Zeile: ü".encode(), b""], np.object_)
    result = client("Identity").infer(
        "pipeline",
        [tensor("data", texts, "BYTES", is_binary=is_binary)],
        outputs=[wanted("result", is_binary=is_binary)],
    )
    got = [value if isinstance(value, bytes) else value.encode() for value in result.as_numpy("result")]
    assert got == list(texts)


def test_bytes_that_are_no_text_go_there_and_back(client: Any) -> None:
    raw = bytes(range(256))
    result = client("Identity").infer("pipeline", [tensor("data", np.array([raw], np.object_), "BYTES")])
    assert result.as_numpy("result").tolist() == [raw]


def test_several_tensors_go_by_name_in_any_order(client: Any) -> None:
    serve_engines.register_arithmetic()
    connected = client({"arithmetic": {"backend": "Arithmetic", "max": 4}})
    a, b = np.float32([[1, 2]]), np.float32([[3, 5]])
    result = connected.infer("arithmetic", [tensor("b", b, "FP32"), tensor("a", a, "FP32")])
    assert result.as_numpy("sum").tolist() == [[4, 7]]
    assert result.as_numpy("product").tolist() == [[3, 10]]


@pytest.mark.parametrize("is_binary", [True, False])
def test_only_the_outputs_that_are_asked_for_come(client: Any, is_binary: bool) -> None:
    serve_engines.register_arithmetic()
    connected = client({"arithmetic": {"backend": "Arithmetic", "max": 4}})
    inputs = [tensor(name, np.float32([[1, 2]]), "FP32") for name in "ab"]
    result = connected.infer("arithmetic", inputs, outputs=[wanted("product", is_binary=is_binary)])
    assert result.as_numpy("product").tolist() == [[1, 4]]
    assert result.as_numpy("sum") is None


def test_each_output_has_the_form_that_was_asked_for(client: Any) -> None:
    serve_engines.register_arithmetic()
    connected = client({"arithmetic": {"backend": "Arithmetic", "max": 4}})
    inputs = [tensor(name, np.float32([[1, 2]]), "FP32") for name in "ab"]
    outputs = [wanted("product", is_binary=False), wanted("sum", is_binary=True)]
    result = connected.infer("arithmetic", inputs, outputs=outputs)
    assert [one["name"] for one in result.get_response()["outputs"]] == ["product", "sum"]
    assert result.as_numpy("product").tolist() == [[1, 4]]
    assert result.as_numpy("sum").tolist() == [[2, 4]]


def test_the_rows_of_a_client_are_one_run(client: Any) -> None:
    shapes = serve_engines.register_arithmetic()
    connected = client({"arithmetic": {"backend": "Arithmetic", "max": 8}})
    rows = np.arange(10, dtype=np.float32).reshape(5, 2)
    result = connected.infer("pipeline", [tensor(name, rows, "FP32") for name in "ab"])
    assert result.as_numpy("sum").tolist() == (rows * 2).tolist()
    assert shapes == [(5, 2)]


def test_more_rows_than_fit_are_refused(client: Any) -> None:
    serve_engines.register_arithmetic()
    connected = client({"arithmetic": {"backend": "Arithmetic", "max": 2}})
    rows = np.zeros((3, 2), np.float32)
    with pytest.raises(InferenceServerException) as caught:
        connected.infer("pipeline", [tensor(name, rows, "FP32") for name in "ab"])
    assert caught.value.status() == "422"


def test_the_id_comes_back(client: Any) -> None:
    result = client("Identity").infer(
        "pipeline", [tensor("data", np.array([b"x"], np.object_), "BYTES")], request_id="my id"
    )
    assert result.get_response()["id"] == "my id"


def test_a_timeout_is_a_deadline_in_microseconds(client: Any, probe: Any) -> None:
    seen = probe("Seen")
    connected = client("Seen")
    seen.shut()
    with pytest.raises(InferenceServerException) as caught:
        connected.infer("pipeline", [tensor("data", np.array([b"x"], np.object_), "BYTES")], timeout=20_000)
    seen.open()
    assert caught.value.status() == "504"


def test_priority_and_parameters_reach_the_request(client: Any, probe: Any) -> None:
    probe("Keys", lambda item: {name: item.get(name) for name in ("scale", "word", "flag")})
    result = client("Keys").infer(
        "pipeline",
        [tensor("data", np.array([b"x"], np.object_), "BYTES")],
        priority=3,
        parameters={"scale": 2, "word": "a", "flag": True},
    )
    assert result.as_numpy("result").tolist() == [b'{"scale":2,"word":"a","flag":true}']


def test_a_sequence_is_a_request_id(client: Any, probe: Any) -> None:
    probe("Keys", lambda item: [item.get("request_id"), item.get("request_end")])
    result = client("Keys").infer(
        "pipeline",
        [tensor("data", np.array([b"x"], np.object_), "BYTES")],
        sequence_id=7,
        sequence_start=True,
        sequence_end=True,
    )
    assert result.as_numpy("result").tolist() == [b"[7,true]"]


@pytest.mark.parametrize("compression", ["gzip", "deflate"])
def test_packed_bodies_are_read(client: Any, compression: str) -> None:
    values = serve_engines.values_of("FP32")
    result = client(echo_source("FP32")).infer(
        "pipeline", [tensor("x", values, "FP32")], request_compression_algorithm=compression
    )
    assert result.as_numpy("y").tobytes() == values.tobytes()


def test_health_and_metadata_are_told(client: Any) -> None:
    connected = client(echo_source("FP16"))
    assert connected.is_server_live()
    assert connected.is_server_ready()
    assert connected.is_model_ready("pipeline")
    assert connected.is_model_ready("echo", model_version="1")
    assert connected.get_server_metadata()["name"] == "hami"
    assert connected.get_model_metadata("echo") == {
        "name": "echo",
        "versions": ["1"],
        "platform": "hami",
        "inputs": [{"name": "x", "datatype": "FP16", "shape": [-1, 3]}],
        "outputs": [{"name": "y", "datatype": "FP16", "shape": [-1, 3]}],
    }


def test_an_unknown_model_is_an_error_with_a_text(client: Any) -> None:
    connected = client("Identity")
    assert not connected.is_model_ready("lost")
    with pytest.raises(InferenceServerException, match="there is no model `lost`") as caught:
        connected.get_model_metadata("lost")
    assert caught.value.status() == "404"


def test_a_token_goes_in_a_header(client: Any) -> None:
    connected = client("Identity", token="secret")
    with pytest.raises(InferenceServerException, match="token"):
        connected.get_server_metadata()
    headers = {"Authorization": "Bearer secret"}
    assert connected.get_server_metadata(headers=headers)["name"] == "hami"


def test_asynchronous_requests_of_one_client_share_batches(client: Any) -> None:
    shapes = serve_engines.register_arithmetic()
    connected = client({"arithmetic": {"backend": "Arithmetic", "max": 8}})
    inputs = [tensor(name, np.float32([[1, 2]]), "FP32") for name in "ab"]
    results = [
        pending.get_result() for pending in [connected.async_infer("pipeline", inputs) for _ in range(20)]
    ]
    assert all(result.as_numpy("sum").tolist() == [[2, 4]] for result in results)
    assert sum(rows for rows, _ in shapes) == 20


@pytest.mark.parametrize("datatype", [*DATATYPES, "BYTES"])
def test_the_asyncio_client_works_with_every_datatype(serve: Any, datatype: str) -> None:
    if datatype == "BYTES":
        served, values = serve("Identity"), np.array([b"a", b"bc"], np.object_)
        name, output = "data", "result"
    else:
        served, values = serve(echo_source(datatype)), serve_engines.values_of(datatype)
        name, output = "x", "y"

    async def ask() -> Any:
        async with aio.InferenceServerClient(served.netloc) as connected:
            assert await connected.is_server_ready()
            assert (await connected.get_model_metadata("pipeline"))["name"] == "pipeline"
            results = await asyncio.gather(
                *(connected.infer("pipeline", [tensor(name, values, datatype)]) for _ in range(4))
            )
            return [result.as_numpy(output) for result in results]

    for got in asyncio.run(ask()):
        assert got.tolist() == values.tolist()


def test_the_asyncio_client_raises_what_is_wrong(serve: Any) -> None:
    served = serve("Identity")

    async def ask() -> None:
        async with aio.InferenceServerClient(served.netloc) as connected:
            await connected.infer("lost", [tensor("data", np.array([b"x"], np.object_), "BYTES")])

    with pytest.raises(InferenceServerException, match="there is no model `lost`"):
        asyncio.run(ask())


def test_a_node_is_a_model_of_its_own(client: Any) -> None:
    @hami.register
    def Twice(batch: list[Any]) -> list[Any]:  # noqa: N802
        return [item["data"] * 2 for item in batch]

    connected = client({"a": {"backend": "Twice", "next": "b"}, "b": {"backend": "Twice"}})
    data = [tensor("data", np.array([b"x"], np.object_), "BYTES")]
    assert connected.infer("pipeline", data).as_numpy("result").tolist() == [b"xxxx"]
    assert connected.infer("b", data).as_numpy("result").tolist() == [b"xx"]
