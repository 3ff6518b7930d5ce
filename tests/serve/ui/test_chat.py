"""Laws of the chat box: it is there for language models, and shows an answer while it is being made."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs fastapi: pip install hami-core[serve]")
pytest.importorskip("uvicorn", reason="needs uvicorn: pip install hami-core[serve]")

from monitored import eventually, wait_for

import hami


class Model(hami.Backend):
    """Stands for a language model; nobody asks it through the pipeline here."""

    def start(self, item: dict[str, Any], reply: Any) -> None:
        item["result"] = item["data"]
        reply.finish()

    def stats(self) -> dict[str, Any]:
        return {"pages_total": 200, "pages_referenced": 50, "pages_cached": 20, "num_sampled": 10,
                "prefix_hit_tokens": 3, "prefix_query_tokens": 4}  # fmt: skip


@pytest.fixture(autouse=True)
def model(open_pipe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `Model` be what the page takes for a language model."""
    hami.register("Model", Model)
    monkeypatch.setattr("hami.serve.ui.graph.LANGUAGE_MODEL", "Model")


CHAT = {"prompt": {"backend": "Identity", "next": "answer"}, "answer": {"backend": "Model"}}


def say(page: Any, text: str) -> None:
    page.fill("#prompt", text)
    page.press("#prompt", "Enter")


def bubbles(page: Any) -> list[str]:
    return [str(text) for text in page.locator(".message p").all_inner_texts()]


def wait_for_end(page: Any) -> None:
    wait_for(page, "document.querySelector('#chat-send').textContent === 'Send'")


def test_without_a_language_model_there_is_no_chat(serve: Any, visit: Any) -> None:
    assert visit(serve("Identity")).page.locator("#chat").is_hidden()


def test_an_answer_streams_in(serve: Any, visit: Any) -> None:
    site = serve(CHAT)
    site.chat.is_open.clear()
    page = visit(site).page
    say(page, "Greet me.")
    wait_for(page, "document.querySelector('.assistant p')?.textContent === 'Hel'")
    assert page.locator("#chat-send").inner_text() == "Stop"
    site.chat.is_open.set()
    wait_for_end(page)
    assert bubbles(page) == ["Greet me.", "Hello"]
    assert "first text after" in page.locator("#chat-note").inner_text()


def test_a_conversation_goes_on(serve: Any, visit: Any) -> None:
    site = serve(CHAT)
    page = visit(site).page
    say(page, "One.")
    wait_for_end(page)
    say(page, "Two.")
    eventually(lambda: len(site.chat.asked) == 2)
    asked = site.chat.asked[1]
    assert asked["model"] == "answer" and asked["stream"] is True
    assert asked["messages"] == [
        {"role": "user", "content": "One."},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Two."},
    ]
    wait_for_end(page)
    page.click("#chat-clear")
    assert bubbles(page) == []
    say(page, "Three.")
    eventually(lambda: len(site.chat.asked) == 3)
    assert site.chat.asked[2]["messages"] == [{"role": "user", "content": "Three."}]
    wait_for_end(page)


def test_stop_ends_the_stream_and_keeps_what_came(serve: Any, visit: Any) -> None:
    site = serve(CHAT)
    site.chat.is_open.clear()
    page = visit(site).page
    say(page, "Go on for ever.")
    wait_for(page, "document.querySelector('.assistant p')?.textContent === 'Hel'")
    page.click("#chat-send")
    wait_for_end(page)
    eventually(lambda: site.chat.num_left == 1)
    assert bubbles(page) == ["Go on for ever.", "Hel"]
    site.chat.is_open.set()


def test_a_refusal_is_shown_and_the_question_not_kept(serve: Any, visit: Any) -> None:
    site = serve(CHAT)
    site.chat.refusal = {"message": "the prompt has too many tokens", "type": "invalid_request_error"}
    opened = visit(site)
    opened.allowed.append("400")
    page = opened.page
    say(page, "A long one.")
    wait_for_end(page)
    assert "the prompt has too many tokens" in page.locator(".message.assistant").inner_text()
    site.chat.refusal = None
    say(page, "A short one.")
    wait_for_end(page)
    assert site.chat.asked[1]["messages"] == [{"role": "user", "content": "A short one."}]


def test_hostile_answers_are_text(serve: Any, visit: Any) -> None:
    site = serve(CHAT)
    site.chat.pieces = ["<img src=x onerror=", '"window.hacked = 1">', "<b>bold</b>\n\nnext line"]
    page = visit(site).page
    say(page, "<i>hello</i>")
    wait_for_end(page)
    assert page.locator(".message img, .message b, .message i").count() == 0
    assert "<b>bold</b>" in bubbles(page)[1] and bubbles(page)[0] == "<i>hello</i>"
    assert page.evaluate("window.hacked") is None


def test_a_line_break_is_typed_with_shift(serve: Any, visit: Any) -> None:
    site = serve(CHAT)
    page = visit(site).page
    page.fill("#prompt", "one")
    page.press("#prompt", "Shift+Enter")
    page.type("#prompt", "two")
    page.press("#prompt", "Enter")
    wait_for_end(page)
    assert site.chat.asked[0]["messages"][0]["content"] == "one\ntwo"


def test_pages_and_prefix_hits_are_bars(serve: Any, visit: Any) -> None:
    page = visit(serve(CHAT)).page
    assert page.locator(".block", has_text="Rows of batches").is_hidden()  # it runs none
    shares = page.locator(".figures-of-backend .shares li").all_inner_texts()
    assert [text.split("\n")[0] for text in shares] == ["pages in use", "pages cached", "prefix hits"]
    assert [text.split("\n")[-1] for text in shares] == ["25 %", "10 %", "75 %"]
