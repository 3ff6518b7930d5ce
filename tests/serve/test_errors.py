"""Every error is JSON with the status of its kind, and tells a client nothing that is not its business."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from serving import Served

import hami
from hami import errors

SECRET = "password=hunter2 in /etc/secret"


@pytest.fixture
def raising(probe: Any) -> Any:
    """Return a function that registers `Raises`, which raises what it is given."""

    def register(error: BaseException) -> str:
        def fail(item: dict[str, Any]) -> Any:
            raise error

        probe("Raises", fail)
        return "Raises"

    return register


KINDS = {
    errors.ConfigError: 400,
    errors.RequestError: 422,
    errors.QueueFull: 429,
    errors.DeadlineExceeded: 504,
    errors.Closed: 503,
}


@pytest.mark.parametrize(("kind", "status"), KINDS.items())
def test_an_error_of_hami_has_the_status_of_its_kind_and_its_parts(
    serve: Any, raising: Any, kind: type[errors.Error], status: int
) -> None:
    error = kind("what is wrong", code="the-code", where="the place", help="what to do")
    answer = serve(raising(error)).post("/v1/pipeline", b"x")
    assert answer.status == status
    assert answer.json == {
        "error": "what is wrong",
        "code": "the-code",
        "where": "the place",
        "help": "what to do",
    }


def test_a_full_queue_says_when_to_come_back(serve: Any, probe: Any) -> None:
    seen = probe("Seen")
    served: Served = serve({"seen": {"backend": "Seen", "queue_capacity": 1}})
    running = seen.plug(served.service.pipe)
    waiting = served.service.pipe.submit({"data": 1})
    answer = served.post("/v1/pipeline", b"x")
    seen.open()
    assert (answer.status, answer.code, answer.headers["Retry-After"]) == (429, "queue-full", "1")
    assert running.result(10) and waiting.result(10)


def test_a_closed_pipeline_is_503_and_not_ready(serve: Any) -> None:
    served = serve("Identity")
    served.service.pipe.close()
    assert (served.post("/v1/pipeline", b"x").status, served.get("/v2/health/ready").status) == (503, 503)
    assert served.get("/v2/health/live").status == 200
    assert served.get("/v2/models/pipeline/ready").status == 503


@pytest.mark.parametrize(
    "error",
    [
        ValueError(SECRET),
        RuntimeError(),
        errors.BuildError(SECRET),
        errors.WorkerError(SECRET),
        KeyError(SECRET),
    ],
)
@pytest.mark.parametrize("path", ["/v1/pipeline", "/v2/models/pipeline/infer"])
def test_what_a_backend_raises_is_a_500_that_tells_nothing(
    serve: Any, raising: Any, caplog: Any, error: Exception, path: str
) -> None:
    served = serve(raising(error))
    body = {"inputs": [{"name": "data", "datatype": "BYTES", "shape": [1], "data": ["x"]}]}
    with caplog.at_level(logging.ERROR, "hami.serve"):
        answer = served.post(path, body)
    assert (answer.status, answer.code) == (500, "serve-internal")
    everything = answer.body.decode() + str(answer.headers)
    for private in ("hunter2", "/etc", "Traceback", "File", type(error).__name__, ".py"):
        assert private not in everything


def test_the_log_has_the_traceback_under_the_id_that_the_client_got(
    serve: Any, raising: Any, caplog: Any
) -> None:
    served = serve(raising(ValueError(SECRET)))
    with caplog.at_level(logging.ERROR, "hami.serve"):
        id = served.post("/v1/pipeline", b"x").json["id"]
    (record,) = [record for record in caplog.records if record.name == "hami.serve"]
    assert id in record.getMessage()
    assert record.exc_info is not None and SECRET in str(record.exc_info[1])


def test_two_failures_have_two_ids(serve: Any, raising: Any) -> None:
    served = serve(raising(ValueError()))
    assert served.post("/v1/pipeline", b"x").json["id"] != served.post("/v1/pipeline", b"x").json["id"]


def test_show_errors_shows_type_and_message_and_no_more(serve: Any, raising: Any) -> None:
    served = serve(raising(ValueError("bad luck")), show_errors=True)
    answer = served.post("/v1/pipeline", b"x")
    assert (answer.status, answer.json["error"]) == (500, "ValueError: bad luck")
    assert ".py" not in answer.body.decode()


def test_show_errors_shows_what_hami_says(serve: Any, raising: Any) -> None:
    answer = serve(raising(errors.WorkerError("a worker died")), show_errors=True).post("/v1/pipeline", b"x")
    assert (answer.status, answer.json["error"]) == (500, "a worker died")


@pytest.mark.parametrize("error", [StopIteration(), SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_no_exception_of_a_backend_ends_the_server(serve: Any, raising: Any, error: BaseException) -> None:
    served = serve(raising(error))
    assert served.post("/v1/pipeline", b"x").status == 500
    assert served.get("/v2/health/live").status == 200


@pytest.mark.parametrize(
    "path", ["/", "/v3", "/v1/", "/v1/nodes", "/v2/models", "/v2/models/", "/favicon.ico"]
)
def test_an_unknown_path_is_404(serve: Any, path: str) -> None:
    answer = serve("Identity").get(path)
    assert (answer.status, answer.code) == (404, "serve-path")


@pytest.mark.parametrize(
    "path", ["/v1/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/v2/models/%00", "//", "/v1/%ff"]
)
def test_an_odd_path_is_404(serve: Any, path: str) -> None:
    assert serve("Identity").get(path).status == 404


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/pipeline", "POST"),
        ("DELETE", "/v2/health/live", "GET"),
        ("PUT", "/v2/models/pipeline/infer", "POST"),
        ("GET", "/v2/models/pipeline/infer", "POST"),
    ],
)
def test_a_wrong_method_is_405_and_names_the_right_one(
    serve: Any, method: str, path: str, allowed: str
) -> None:
    answer = serve("Identity").request(method, path)
    assert (answer.status, answer.code) == (405, "serve-method")
    assert allowed in answer.headers["Allow"]


def test_many_clients_get_their_own_errors(serve: Any) -> None:
    @hami.register
    def Picky(batch: list[Any]) -> list[Any]:  # noqa: N802
        for item in batch:
            if item["data"] % 2:
                raise hami.RequestError(f"odd: {item['data']}", code="request-error")
        return [item["data"] for item in batch]

    served = serve({"backend": "Picky", "max": 8})
    found: dict[int, Any] = {}

    def ask(number: int) -> None:
        found[number] = served.post("/v1/pipeline", {"data": number}).json

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(20):
        assert found[number] == number if number % 2 == 0 else found[number]["error"] == f"odd: {number}"
