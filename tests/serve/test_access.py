"""Laws of the token, of request ids, and of the line that every request leaves in the log."""

from __future__ import annotations

import json
import logging
import os
from typing import Any

import pytest
from serving import Served, read_answer

from hami.errors import ConfigError
from hami.serve import Settings
from hami.serve.tokens import read_token

TOKEN = "s3cret-t0ken"


# --- the token ----------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(serve: Any) -> Served:
    """A server that wants a token."""
    return serve("Identity", token=TOKEN)


@pytest.mark.parametrize(
    "path",
    ["/v2", "/v2/models/pipeline", "/docs", "/openapi.json", "/lost", "/metrics", "/ui/state", "/v1/models"],
)
def test_without_the_token_nothing_is_told(guarded: Served, path: str) -> None:
    answer = guarded.get(path)
    assert (answer.status, answer.code) == (401, "serve-token")
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert TOKEN not in answer.body.decode()


@pytest.mark.parametrize("path", ["/v2/health/live", "/v2/health/ready", "/health"])
def test_health_needs_no_token(guarded: Served, path: str) -> None:
    assert guarded.get(path).status == 200


@pytest.mark.parametrize("path", ["/ui", "/ui/static/app.js"])
def test_a_browser_gets_the_page_before_it_can_send_a_token(guarded: Served, path: str) -> None:
    assert guarded.get(path).status == 200


@pytest.mark.parametrize("header", [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"BEARER   {TOKEN} "])
def test_with_the_token_everything_is_answered(guarded: Served, header: str) -> None:
    assert guarded.post("/v1/pipeline", b"x", Authorization=header).body == b"x"


@pytest.mark.parametrize(
    "header", ["", TOKEN, "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", "Bearer é"]
)
def test_a_wrong_token_is_401(guarded: Served, header: str) -> None:
    assert guarded.post("/v1/pipeline", b"x", Authorization=header).status == 401


def test_bytes_that_are_no_text_are_a_wrong_token(guarded: Served) -> None:
    with guarded.connect() as connection:
        connection.sendall(b"GET /v2 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\xfe\r\n\r\n")
        assert read_answer(connection).status in (400, 401)


def test_a_refused_body_is_not_read_by_a_backend(serve: Any, probe: Any) -> None:
    seen = probe("Seen")
    served = serve("Seen", token=TOKEN)
    assert served.post("/v1/pipeline", bytes(200_000)).status == 401
    assert seen.items == []


def test_the_token_is_never_shown() -> None:
    assert TOKEN not in repr(Settings(token=TOKEN))


def test_the_token_comes_from_a_file_before_the_environment(tmp_path: Any, monkeypatch: Any) -> None:
    file = tmp_path / "token"
    file.write_text(f"  {TOKEN}\n", encoding="utf-8")
    monkeypatch.setenv("HAMI_TOKEN", "other")
    assert read_token(file) == TOKEN
    assert read_token(None) == "other"
    monkeypatch.delenv("HAMI_TOKEN")
    assert read_token(None) is None


@pytest.mark.parametrize("text", ["", "\n", "two words", "ümlaut", "line\nline", "\x00"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(tmp_path: Any, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_token(file)
    assert caught.value.code == "serve-bad-token"
    assert not text.strip() or text not in str(caught.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Any) -> None:
    with pytest.raises(ConfigError, match="serve-bad-token"):
        read_token(tmp_path / "missing")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="it is no text"):
        read_token(tmp_path / "bytes")


# --- request ids --------------------------------------------------------------------------------------------


def test_the_id_of_the_client_comes_back(serve: Any) -> None:
    served = serve("Identity")
    assert served.post("/v1/pipeline", b"x", X_Request_Id="abc-1.2_3").headers["X-Request-Id"] == "abc-1.2_3"


def test_without_one_each_request_gets_an_id(serve: Any) -> None:
    served = serve("Identity")
    ids = {served.get("/v2/health/live").headers["X-Request-Id"] for _ in range(5)}
    assert len(ids) == 5
    assert all(ids)


@pytest.mark.parametrize("id", ["", "two words", "a" * 129, '"quoted"', "<script>", "é"])
def test_an_id_that_could_spoil_the_log_is_replaced(serve: Any, id: str) -> None:
    given = serve("Identity").get("/v2", X_Request_Id=id).headers["X-Request-Id"]
    assert given != id
    assert given.isalnum()


@pytest.mark.parametrize("path", ["/lost", "/v2/models/lost"])
def test_errors_have_an_id_too(serve: Any, path: str) -> None:
    served = serve("Identity", token=TOKEN)
    assert served.get(path, X_Request_Id="mine").headers["X-Request-Id"] == "mine"
    answer = served.get(path, X_Request_Id="mine", Authorization=f"Bearer {TOKEN}")
    assert (answer.status, answer.headers["X-Request-Id"]) == (404, "mine")


# --- the log ------------------------------------------------------------------------------------------------


@pytest.fixture
def lines(caplog: Any) -> Any:
    """Return a function that gives the access log so far."""
    caplog.set_level(logging.INFO, "hami.access")
    return lambda: [
        json.loads(record.getMessage()) for record in caplog.records if record.name == "hami.access"
    ]


def test_every_request_is_a_line_of_json(serve: Any, lines: Any, eventually: Any) -> None:
    served = serve("Identity")
    served.post("/v1/pipeline?output=result", b"12345", X_Request_Id="mine")
    (line,) = eventually(lines)
    assert line.pop("ms") >= 0
    assert line.pop("pid") == os.getpid()
    assert line == {"method": "POST", "path": "/v1/pipeline", "status": 200, "bytes": 5, "request_id": "mine"}


def test_refusals_are_lines_too(serve: Any, lines: Any, eventually: Any) -> None:
    served = serve("Identity", token=TOKEN, max_body_bytes=10)
    served.get("/v2")
    served.post("/v1/pipeline", bytes(11), Authorization=f"Bearer {TOKEN}")
    eventually(lambda: len(lines()) == 2)
    assert [line["status"] for line in lines()] == [401, 413]


def test_the_log_has_neither_query_nor_token(serve: Any, lines: Any, eventually: Any, caplog: Any) -> None:
    served = serve("Identity", token=TOKEN)
    served.get("/v2?key=private", Authorization=f"Bearer {TOKEN}")
    eventually(lines)
    assert "private" not in caplog.text
    assert TOKEN not in caplog.text


def test_a_path_cannot_forge_a_line(serve: Any, lines: Any, eventually: Any, caplog: Any) -> None:
    serve("Identity").get("/a%0a%22status%22:200")
    (line,) = eventually(lines)
    assert line["path"] == '/a\n"status":200'
    assert "\n" not in caplog.records[-1].getMessage()


def test_nothing_is_written_where_nobody_listens(serve: Any, caplog: Any) -> None:
    caplog.set_level(logging.WARNING, "hami.access")
    serve("Identity").get("/v2")
    assert not [record for record in caplog.records if record.name == "hami.access"]
