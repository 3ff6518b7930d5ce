"""Laws of the log: quiet by default, failures by node, and nothing of the request's data."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import hami

ROOT = Path(__file__).resolve().parent.parent.parent
WAIT_S = 10.0
SECRET = "the secret of the caller"


@pytest.fixture
def fails() -> None:
    """Register a backend that fails for negative data."""

    def fail(batch: list[dict[str, Any]]) -> list[Any]:
        for item in batch:
            if item["data"] < 0:
                raise ValueError("negative")
        return [item["data"] for item in batch]

    hami.register("Fails", fail)


def records(caplog: Any, name: str) -> list[logging.LogRecord]:
    """Return what was logged under a name."""
    return [record for record in caplog.records if record.name == name]


def test_a_program_that_configures_nothing_sees_nothing() -> None:
    code = """
import hami

def fail(batch):
    raise ValueError("bad")

hami.register("fail", fail)
with hami.pipe("fail") as pipe:
    try:
        pipe({"data": 1})
    except ValueError:
        print("raised")
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment
    )
    assert (done.stdout, done.stderr) == ("raised\n", "")


@pytest.mark.parametrize("how", ["call", "list", "submit", "event"])
def test_a_failed_request_is_logged_once_with_its_traceback(
    open_pipe: Any, fails: None, caplog: Any, how: str
) -> None:
    pipeline = open_pipe({"mine": {"backend": "Fails"}})
    request: dict[str, Any] = {"data": -1, "note": SECRET}
    with caplog.at_level(logging.WARNING, "hami"):
        if how == "submit":
            assert isinstance(pipeline.submit(request).exception(WAIT_S), ValueError)
        else:
            if how == "event":
                request["event"] = hami.Event()
            with pytest.raises(ValueError, match="negative"):
                pipeline([request] if how == "list" else request)
                request["event"].wait(WAIT_S)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("hami.node.mine", logging.WARNING)
    assert record.getMessage() == "a request failed in node `mine`"
    assert record.exc_info is not None and isinstance(record.exc_info[1], ValueError)
    assert "in fail" in caplog.text and SECRET not in caplog.text


def test_every_failure_of_a_list_is_logged(open_pipe: Any, fails: None, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, "hami"), pytest.raises(ValueError, match="negative"):
        open_pipe("Fails")([{"data": value} for value in (1, -1, 2, -2, -3)])
    assert len(records(caplog, "hami.node.node")) == 3


def test_what_succeeds_and_what_is_refused_is_not_logged(open_pipe: Any, fails: None, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, "hami"):
        pipeline = open_pipe("Fails")
        pipeline([{"data": i} for i in range(5)])
        with pytest.raises(hami.RequestError):
            pipeline({"data": 1, "priority": SECRET})
    assert caplog.records == []


def test_a_missed_deadline_is_logged_for_the_pipeline(open_pipe: Any, probe: Any, caplog: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    seen.shut()
    with caplog.at_level(logging.WARNING, "hami"), pytest.raises(hami.DeadlineExceeded):
        pipeline({"data": 1, "deadline_ms": 20})
    assert [record.getMessage() for record in records(caplog, "hami.pipeline")] == [
        "a request failed in the pipeline"
    ]


def test_cancelled_and_closed_requests_are_no_news(open_pipe: Any, probe: Any, caplog: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    with caplog.at_level(logging.INFO, "hami"):
        plug = seen.plug(pipeline)
        pipeline.submit({"data": 1}).cancel()
        closing = threading.Thread(target=lambda: pipeline.close(timeout=0))
        closing.start()
        closing.join(WAIT_S)
        assert isinstance(plug.exception(WAIT_S), hami.Closed)
    assert [record.levelname for record in records(caplog, "hami.pipeline")] == ["INFO"]
    assert [record.levelname for record in records(caplog, "hami.node.node")] == ["WARNING"]  # left behind


def test_a_level_above_keeps_failures_out(open_pipe: Any, fails: None, caplog: Any) -> None:
    with caplog.at_level(logging.ERROR, "hami"), pytest.raises(ValueError, match="negative"):
        open_pipe("Fails")({"data": -1})
    assert caplog.records == []


def test_building_and_closing_are_logged(tmp_path: Path, caplog: Any) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[a]\nbackend = "Pow"\nnext = "b"\n\n[b]\nbackend = "Identity"\n')
    with caplog.at_level(logging.INFO, "hami"):
        pipeline = hami.pipe(path)
        pipeline.close()
        pipeline.close()
    assert [record.getMessage() for record in records(caplog, "hami.pipeline")] == [
        f"pipeline `{path}` is built: a, b",
        f"pipeline `{path}` is closed: everything has ended",
    ]
    assert all(record.levelno == logging.INFO for record in caplog.records)


def test_a_handler_that_raises_harms_no_caller(open_pipe: Any, fails: None) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("handler")

    logger, handler = logging.getLogger("hami"), Broken()
    logger.addHandler(handler)
    try:
        pipeline = open_pipe("Fails")
        for _ in range(3):
            with pytest.raises(ValueError, match="negative"):
                pipeline({"data": -1})
            assert isinstance(pipeline.submit({"data": -1}).exception(WAIT_S), ValueError)
        assert pipeline({"data": 1})["result"] == 1
    finally:
        logger.removeHandler(handler)
