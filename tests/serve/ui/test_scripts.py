"""Laws of the page's modules, each imported alone into a browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs fastapi: pip install hami-core[serve]")
pytest.importorskip("uvicorn", reason="needs uvicorn: pip install hami-core[serve]")


@pytest.fixture
def run(serve: Any, visit: Any) -> Callable[..., Any]:
    """Return a function that evaluates JavaScript with a module's names: `run("format", "duration(3)")`."""
    page = visit(serve("Identity")).page

    def evaluate(module: str, code: str, argument: Any = None) -> Any:
        body = f"async (given) => {{ const my = await import('/ui/static/{module}.js'); return {code}; }}"
        return page.evaluate(body, argument)

    return evaluate


# --- numbers ---


def test_durations_have_the_unit_of_their_size(run: Any) -> None:
    texts = {
        0: "0 µs", 0.0123: "12 µs", 0.9994: "999 µs", 0.9999: "1.00 ms", 5.678: "5.68 ms", 56.78: "56.8 ms",
        567.8: "568 ms", 999.7: "1.00 s", 1234: "1.23 s", 12345: "12.3 s", None: "–",
    }  # fmt: skip
    assert run("format", "given.map(my.duration)", list(texts)) == list(texts.values())


def test_rates_and_counts_are_short(run: Any) -> None:
    assert run("format", "given.map(my.rate)", [None, 0, 0.5, 12.34, 123.4, 123456]) == [
        "–", "0", "0.50", "12.3", "123", "123.5K",
    ]  # fmt: skip
    assert run("format", "given.map(my.count)", [None, 0, 12345, 123456]) == ["–", "0", "12,345", "123.5K"]
    assert run("format", "given.map(my.bytes)", [0, 999, 1500, 2_500_000]) == [
        "0 B",
        "999 B",
        "1.5 KB",
        "2.5 MB",
    ]
    assert run("format", "given.map(my.share)", [None, 0, 0.034, 0.5]) == ["–", "0 %", "3.4 %", "50 %"]


# --- history ---


def sample(items: int, buckets: dict[float, int], rows: dict[int, int] | None = None) -> dict[str, Any]:
    total = sum(buckets.values())
    times = {"count": total, "p50": 99, "p90": 99, "p99": 99, "max": 99, "buckets": list(buckets.items())}
    return {
        "items": items,
        "errors": 0,
        "run_ms": times,
        "wait_ms": times,
        "batch_rows": list((rows or {}).items()),
    }


def history(run: Any, samples: list[tuple[float, dict[str, Any]]], code: str) -> Any:
    begun = "given.reduce((one, [clock, figures]) => (one.add(clock, figures), one), new my.NodeHistory())"
    return run("history", begun + code, [list(pair) for pair in samples])


def test_a_rate_is_that_of_the_last_seconds(run: Any) -> None:
    samples = [(float(at), sample(100 * at if at < 20 else 2000 + 10 * (at - 20), {})) for at in range(40)]
    assert history(run, samples, ".rate") == pytest.approx(10)
    assert history(run, samples[:1], ".rate") is None


def test_percentiles_are_those_of_the_window(run: Any) -> None:
    slow = {100.0: 1000}
    samples = [
        (0.0, sample(1000, slow)),
        (61.0, sample(1000, slow)),
        (62.0, sample(1100, {10.0: 100, **slow})),
    ]
    times = history(run, samples, ".times('run_ms')")
    assert times["p50"] == times["p99"] == pytest.approx(9.7)
    assert times["count"] == 100


def test_without_news_the_figures_are_those_of_all_time(run: Any) -> None:
    same = sample(7, {10.0: 7})
    assert history(run, [(0.0, same), (1.0, same)], ".times('run_ms')")["p50"] == 99
    assert history(run, [(0.0, sample(0, {}))], ".times('run_ms')")["p50"] is None


def test_a_new_pipeline_begins_anew(run: Any) -> None:
    samples = [(0.0, sample(500, {})), (1.0, sample(600, {})), (2.0, sample(3, {})), (3.0, sample(5, {}))]
    assert history(run, samples, ".rate") == pytest.approx(2)


def test_what_is_kept_is_bounded(run: Any) -> None:
    samples = [(float(at), sample(at, {})) for at in range(400)]
    assert history(run, samples, ".rates.length") == 180
    assert history(run, samples, ".samples.length") <= 62


def test_batches_are_those_of_the_window(run: Any) -> None:
    samples = [(0.0, sample(0, {}, {1: 5, 4: 2})), (1.0, sample(0, {}, {1: 5, 4: 3, 8: 1}))]
    assert history(run, samples, ".batches") == [[4, 1], [8, 1]]


# --- charts ---


def test_few_sizes_are_bars_of_their_own_and_many_share(run: Any) -> None:
    assert run("charts", "my.grouped(given, 8)", [[1, 5], [4, 2]]) == [["1", 5], ["4", 2]]
    grouped = run("charts", "my.grouped(given, 4)", [[rows, 1] for rows in range(1, 17)])
    assert grouped == [["1–4", 4], ["5–8", 4], ["9–12", 4], ["13–16", 4]]
    assert run("charts", "my.grouped([], 4)") == []


# --- JSON ---


WRITTEN = "[...my.json(given)].map((part) => part.textContent ?? part).join('')"


def test_values_are_written_with_indents(run: Any) -> None:
    texts = [
        (None, "null"),
        (True, "true"),
        ({}, "{}"),
        ([], "[]"),
        ([1, 2], "[1, 2]"),
        ('q"uote', '"q\\"uote"'),
        (["x", 1], '[\n  "x",\n  1\n]'),
        ({"a": {"b": []}}, '{\n  "a": {\n    "b": []\n  }\n}'),
    ]
    assert [(value, run("json", WRITTEN, value)) for value, _ in texts] == texts


def test_long_texts_and_lists_are_cut(run: Any) -> None:
    assert len(run("json", WRITTEN, "x" * 100_000)) < 700
    assert run("json", WRITTEN, list(range(1000))).endswith("… 800 more]")


def test_pictures_are_found_at_any_depth_but_only_pictures(run: Any) -> None:
    picture = "data:image/png;base64,AAAA"
    value = {"a": [{"b": picture}], "c": "data:text/html;base64,AAAA", "d": "data:image/svg+xml;base64,AAAA"}
    assert run("json", "my.pictures(given)", value) == [picture]
    assert len(run("json", "my.pictures(given)", [picture] * 50)) == 8


# --- streams ---


def test_events_come_whole_however_the_stream_is_cut(run: Any) -> None:
    text = (
        'data: {"a": "é"}\n\n: a comment\n\ndata: one\ndata: two\n\ndata:[DONE]\r\n\r\nevent: x\ndata: last'
    )
    code = """(async () => {
        const bytes = new TextEncoder().encode(given[0]);
        const pieces = [];
        for (let i = 0; i < bytes.length; i += given[1]) pieces.push(bytes.slice(i, i + given[1]));
        const found = [];
        const body = new Response(new ReadableStream({
            start(stream) { for (const piece of pieces) stream.enqueue(piece); stream.close(); },
        }));
        for await (const event of my.events(body)) found.push(event);
        return found;
    })()"""
    for size in (1, 3, 1000):
        assert run("server", f"await {code}", [text, size]) == ['{"a": "é"}', "one\ntwo", "[DONE]", "last"]
