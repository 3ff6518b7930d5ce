"""Laws of what the page is made from: the state as JSON, the ring of errors, the files and their headers."""

from __future__ import annotations

import gc
import json
import logging
import threading
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs fastapi: pip install hami-core[serve]")
pytest.importorskip("uvicorn", reason="needs uvicorn: pip install hami-core[serve]")

from monitored import Served, ask

import hami
from hami.plan import plan
from hami.serve.ui import RecentErrors
from hami.serve.ui.errors import MAX_CHARACTERS, MAX_ERRORS
from hami.serve.ui.graph import CARD_PX, PLAIN_CARD_PX, draw
from hami.serve.ui.state import State

HIDDEN = SimpleNamespace(show_errors=False)


def state_of(served: Served, errors: RecentErrors | None = None) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(State(served, errors or RecentErrors()).to_json())
    return told


# --- the state ---


def test_the_state_holds_what_stats_holds(open_pipe: Any) -> None:
    pipe = open_pipe({"work": {"backend": "Identities", "max": 4}})
    pipe([{"data": i} for i in range(20)])
    state = state_of(Served(pipe, "mine"))
    (row,) = pipe.stats(buckets=True)
    figures = state["nodes"]["work"]
    assert state["name"] == "mine" and state["problems"] == []
    assert figures["items"] == 20
    assert dict(map(tuple, figures["batch_rows"])) == row["batch_rows"]
    assert sum(count for _, count in figures["run_ms"]["buckets"]) == row["run_ms"]["count"]
    assert [bound for bound, _ in figures["run_ms"]["buckets"]] == pytest.approx(
        list(row["run_ms"]["buckets"])
    )


def test_the_clock_grows_and_the_time_is_that_of_the_day(open_pipe: Any) -> None:
    served = Served(open_pipe("Identity"))
    first, second = state_of(served), state_of(served)
    assert first["clock_s"] < second["clock_s"]
    assert first["time_s"] > 1_700_000_000


def test_numbers_that_json_cannot_say_are_null(open_pipe: Any) -> None:
    class Odd(hami.Backend):
        def forward(self, batch: list[dict[str, Any]]) -> list[int]:
            return [0 for _ in batch]

        def stats(self) -> dict[str, float]:
            return {"inf": float("inf"), "nan": float("nan"), "one": 1.0}

    hami.register("Odd", Odd)
    state = state_of(Served(open_pipe("Odd")))
    assert state["nodes"]["node"]["backend"] == {"inf": None, "nan": None, "one": 1}


def test_any_text_survives(open_pipe: Any) -> None:
    name = "half \ud800 pair </script>"
    assert state_of(Served(open_pipe("Identity"), name))["name"] == name


# --- errors ---


@pytest.fixture
def failing(open_pipe: Any) -> hami.Pipeline:
    """A pipeline that always fails."""

    def fail(batch: list[dict[str, Any]]) -> list[Any]:
        raise ValueError(f"secret {batch[0]['data']}")

    hami.register("Fails", fail)
    pipe: hami.Pipeline = open_pipe({"mine": {"backend": "Fails"}})
    return pipe


def fail_with(pipe: hami.Pipeline, data: Any) -> None:
    with pytest.raises(ValueError, match="secret"):
        pipe({"data": data})


def test_errors_are_kept_the_newest_first(failing: hami.Pipeline) -> None:
    errors = RecentErrors()
    for number in range(3):
        fail_with(failing, number)
    told = state_of(Served(failing), errors)["errors"]
    assert [error["message"] for error in told] == ["secret 2", "secret 1", "secret 0"]
    assert {error["node"] for error in told} == {"mine"}
    assert {error["code"] for error in told} == {"ValueError"}
    assert [error["number"] for error in told] == [3, 2, 1]
    assert told[0]["time_s"] >= told[-1]["time_s"] > 1_700_000_000


def test_what_a_backend_raised_is_hidden_unless_it_may_be_seen(failing: hami.Pipeline) -> None:
    errors = RecentErrors()
    fail_with(failing, 1)
    (told,) = state_of(Served(failing, settings=HIDDEN), errors)["errors"]
    assert told["code"] == "backend-error"
    assert "secret" not in json.dumps(told) and "ValueError" not in json.dumps(told)


def test_what_is_wrong_with_a_request_is_never_hidden(open_pipe: Any) -> None:
    gate, inside = threading.Event(), threading.Event()

    def hold(batch: list[dict[str, Any]]) -> list[int]:
        inside.set()
        assert gate.wait(20)
        return [0 for _ in batch]

    hami.register("Hold", hold)
    pipe, errors = open_pipe("Hold"), RecentErrors()
    with pytest.raises(hami.DeadlineExceeded):
        pipe({"data": 1, "deadline_ms": 20})
    gate.set()
    told = state_of(Served(pipe, settings=HIDDEN), errors)["errors"]
    assert told[0]["code"] == "deadline-exceeded" and told[0]["node"] == ""


def test_the_ring_is_bounded_and_texts_are_short(failing: hami.Pipeline) -> None:
    errors = RecentErrors()
    for _ in range(MAX_ERRORS + 20):
        fail_with(failing, "x" * 10_000)
    kept = errors.latest(frozenset({"mine"}))
    assert len(kept) == MAX_ERRORS
    assert all(len(error.message) == MAX_CHARACTERS + 1 for error in kept)


def test_failures_of_other_pipelines_are_not_told(failing: hami.Pipeline, open_pipe: Any) -> None:
    errors = RecentErrors()
    fail_with(failing, 1)
    assert state_of(Served(open_pipe("Identity")), errors)["errors"] == []


def test_no_traceback_leaves_the_server(failing: hami.Pipeline) -> None:
    errors = RecentErrors()
    fail_with(failing, 1)
    assert "Traceback" not in json.dumps(state_of(Served(failing), errors))
    assert "test_state" not in json.dumps(state_of(Served(failing), errors)["errors"])


def test_an_error_whose_text_raises_harms_nobody(open_pipe: Any, capsys: Any) -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    def fail(batch: list[dict[str, Any]]) -> list[Any]:
        raise MuteError

    hami.register("Fails", fail)
    pipe, errors = open_pipe("Fails"), RecentErrors()
    with pytest.raises(MuteError):
        pipe({"data": 1})
    assert state_of(Served(pipe), errors)["errors"] == []
    capsys.readouterr()  # where logging says what went wrong in a handler


def test_who_listens_no_more_leaves_the_logger() -> None:
    logger = logging.getLogger("hami")
    before = list(logger.handlers)
    errors = RecentErrors()
    assert len(logger.handlers) == len(before) + 1
    del errors
    gc.collect()
    assert logger.handlers == before


# --- the graph ---


GRAPH = {
    "a": {"backend": "Identity", "next": "b,c"},
    "b": {"backend": "HasKey(x)", "next": "d"},
    "c": {"backend": "ForEach(target=e)", "next": "d"},
    "d": {"backend": "Identity", "map": "b[result:data],c[result:other]"},
    "e": {"backend": "Identity"},
}


@pytest.mark.parametrize("kind", ["wide", "tall"])
def test_boxes_have_the_size_of_their_cards_and_do_not_overlap(kind: str) -> None:
    drawn = draw(plan(GRAPH), {"a", "b", "d", "e"})
    names = [node["name"] for node in drawn["nodes"]]
    boxes = dict(zip(names, drawn[kind]["boxes"], strict=True))
    assert {name: tuple(box[2:]) for name, box in boxes.items()} == {
        name: PLAIN_CARD_PX if name == "c" else CARD_PX for name in names
    }
    width, height = drawn[kind]["size"]
    for one in boxes.values():
        assert one[0] >= 0 and one[0] + one[2] <= width and one[1] >= 0 and one[1] + one[3] <= height
        for two in boxes.values():
            is_apart = one[0] + one[2] <= two[0] or one[1] + one[3] <= two[1]
            assert one is two or is_apart or two[0] + two[2] <= one[0] or two[1] + two[3] <= one[1]


@pytest.mark.parametrize(("kind", "axis"), [("wide", 0), ("tall", 1)])
def test_edges_lead_onward(kind: str, axis: int) -> None:
    drawn = draw(plan(GRAPH), {"a", "b", "d", "e"})
    boxes = drawn[kind]["boxes"]
    edges = [edge for edge in drawn[kind]["edges"] if edge["kind"] == "next"]
    assert len(edges) == 4
    for edge in edges:
        assert boxes[edge["from"]][axis] < boxes[edge["to"]][axis]
        assert edge["path"].startswith("M") and set(edge["path"]) <= set("MC0123456789., ")


def test_edges_say_when_they_are_taken() -> None:
    drawn = draw(plan(GRAPH), set())
    names = [node["name"] for node in drawn["nodes"]]
    labels = {(names[e["from"]], names[e["to"]]): e["label"] for e in drawn["wide"]["edges"] if e["label"]}
    assert labels == {("b", "d"): "if HasKey(x)", ("c", "e"): "each element"}


def test_the_answer_and_the_language_models_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hami.serve.ui.graph.LANGUAGE_MODEL", "Pow")
    drawn = draw(
        plan({"a": {"backend": "S[Identity, Pow]", "next": "b"}, "b": {"backend": "Identity"}}), set()
    )
    assert [node["is_answer"] for node in drawn["nodes"]] == [False, True]
    assert [node["model"] for node in drawn["nodes"]] == ["a", None]


# --- files ---


def test_the_page_and_its_files_are_served_under_a_strict_policy(serve: Any) -> None:
    address = serve("Identity").address
    names = [file.name for file in (files("hami.serve.ui") / "static").iterdir()]
    assert {"index.html", "app.js", "base.css", "icon.svg"} <= set(names)
    for path in ["/ui", "/ui/state", *(f"/ui/static/{name}" for name in names)]:
        answer = ask(address, path)
        assert answer.status == 200, path
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert ask(address, "/ui").headers["content-type"] == "text/html; charset=utf-8"
    assert ask(address, "/ui/static/app.js").headers["content-type"] == "text/javascript; charset=utf-8"
    assert ask(address, "/ui/state").headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["nothing.js", "..%2fpages.py", "%2e%2e/pages.py", "pages.py", ""])
def test_nothing_but_the_files_of_the_page_is_served(serve: Any, path: str) -> None:
    assert ask(serve("Identity").address, f"/ui/static/{path}").status == 404


def test_a_file_that_did_not_change_is_not_sent_again(serve: Any) -> None:
    address = serve("Identity").address
    tag = ask(address, "/ui/static/app.js").headers["etag"]
    answer = ask(address, "/ui/static/app.js", if_none_match=tag)
    assert (answer.status, answer.body) == (304, b"")
    assert ask(address, "/ui/static/app.js", if_none_match='"other"').status == 200


def test_the_page_names_nobody_else() -> None:
    for file in (files("hami.serve.ui") / "static").iterdir():
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in text and "https:" not in text, file.name
        assert "innerHTML" not in text and "insertAdjacentHTML" not in text and "eval(" not in text, file.name
