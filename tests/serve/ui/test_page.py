"""Laws of the page in a real browser: it shows what the pipeline does, and nothing becomes markup."""

from __future__ import annotations

import json
import re
import threading
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs fastapi: pip install hami-core[serve]")
pytest.importorskip("uvicorn", reason="needs uvicorn: pip install hami-core[serve]")

from monitored import eventually, send, text_of, wait_for

import hami

pytestmark = pytest.mark.usefixtures("backends")

GRAPH = {
    "decode": {"backend": "Double", "next": "left,right", "instance_num": 2},
    "left": {"backend": "Identity", "next": "join"},
    "right": {"backend": "Identity", "next": "join"},
    "join": {"backend": "Identity", "map": "left[result:data],right[result:other]"},
}
HOSTILE = '<img src=x onerror="window.hacked = 1"><script>window.hacked = 2</script>'


def card(page: Any, name: str) -> Any:
    return page.locator(f"[data-node={name!r}]")


# --- the graph ---


def test_the_graph_is_drawn(serve: Any, visit: Any) -> None:
    page = visit(serve(GRAPH, name="a page of text")).page
    assert page.locator("[data-node]").count() == 4
    assert page.locator("path.edge.next").count() == 4
    assert "Double" in text_of(card(page, "decode")) and "2 instances" in text_of(card(page, "decode"))
    assert "answer" in text_of(card(page, "join"))
    assert page.title() == "a page of text · hami"
    assert text_of(page.locator("h1")) == "a page of text"
    assert text_of(page.locator("#health")) == "healthy"


def test_cards_stand_from_left_to_right_and_apart(serve: Any, visit: Any) -> None:
    page = visit(serve(GRAPH)).page
    places = {name: card(page, name).bounding_box() for name in GRAPH}
    assert places["decode"]["x"] < places["left"]["x"] == places["right"]["x"] < places["join"]["x"]
    upper, lower = sorted((places["left"], places["right"]), key=lambda place: place["y"])
    assert upper["y"] + upper["height"] < lower["y"]


def test_a_narrow_window_gets_the_graph_from_top_to_bottom(serve: Any, visit: Any) -> None:
    page = visit(
        serve({"a": {"backend": "Identity", "next": "b"}, "b": {"backend": "Identity"}}), width=400
    ).page
    first, second = card(page, "a").bounding_box(), card(page, "b").bounding_box()
    assert first["x"] == second["x"]
    assert first["y"] + first["height"] < second["y"]
    page.set_viewport_size({"width": 1600, "height": 900})
    wait_for(page, "document.querySelectorAll('[data-node]')[1].getBoundingClientRect().x > 400")


@pytest.mark.parametrize("width", [400, 720, 1100, 1600])
def test_the_page_fits_into_the_window(serve: Any, visit: Any, width: int) -> None:
    page = visit(serve(GRAPH), width=width).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    spilled = page.evaluate(
        """[...document.querySelectorAll("[data-node]")].filter((card) =>
            card.scrollWidth > card.clientWidth || card.scrollHeight > card.clientHeight).length"""
    )
    assert spilled == 0


def test_conditions_stand_on_edges(serve: Any, visit: Any) -> None:
    graph = {
        "known": {"backend": "HasKey(language)", "next": "translate,guess"},
        "translate": {"backend": "Identity", "next": "end"},
        "guess": {"backend": "Identity", "or": True, "next": "end"},
        "end": {"backend": "Identity", "map": "translate[result:data],guess[result:other]"},
    }
    page = visit(serve(graph)).page
    labels = page.locator(".edge-label").all_inner_texts()
    assert sorted(labels) == ["if HasKey(language)", "otherwise"]


def test_what_each_element_passes_has_a_frame(serve: Any, visit: Any) -> None:
    graph = {
        "lines": {"backend": "ForEach(target=read)", "next": "end"},
        "read": {"backend": "Double"},
        "end": {"backend": "Identity"},
    }
    site = serve(graph)
    page = visit(site).page
    assert page.locator(".edge.is-busy").count() == 0
    site.pipe({"data": [1, 2, 3]})
    wait_for(page, "document.querySelectorAll('.edge.is-busy').length === 2")
    assert page.locator(".frame").count() == 1
    assert page.locator(".edge.each").count() == 1
    assert page.locator(".edge-label").all_inner_texts() == ["each element"]


# --- figures ---


def test_figures_move_after_requests(serve: Any, visit: Any) -> None:
    site = serve({"work": {"backend": "Identities", "max": 4}})
    page = visit(site).page
    wait_for(page, "document.querySelector('.node-rate').textContent === '0'")
    site.pipe([{"data": i} for i in range(50)])
    wait_for(page, "Number(document.querySelector('.node-rate').textContent) > 0")
    wait_for(page, "document.querySelector('#details .counts dd').textContent === '50'")
    assert re.fullmatch(r"[\d.]+ (µs|ms|s)", text_of(card(page, "work").locator("dd").nth(1)))
    assert card(page, "work").locator("rect").count() >= 1
    assert page.locator("#details tbody tr").count() == 2


def test_a_chosen_node_is_shown_in_full(serve: Any, visit: Any) -> None:
    page = visit(serve(GRAPH)).page
    assert text_of(page.locator("#details-title")) == "join"  # the one that answers
    card(page, "left").click()
    assert text_of(page.locator("#details-title")) == "left"
    assert card(page, "left").get_attribute("aria-pressed") == "true"
    assert card(page, "join").get_attribute("aria-pressed") == "false"


def test_the_keyboard_reaches_every_card(serve: Any, visit: Any) -> None:
    page = visit(serve(GRAPH)).page
    card(page, "decode").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert (
        text_of(page.locator("#details-title"))
        == page.evaluate("document.activeElement.dataset.node")
        != "decode"
    )


def test_busy_instances_and_a_queue_are_seen(serve: Any, visit: Any) -> None:
    gate, inside = threading.Event(), threading.Event()

    def hold(batch: list[dict[str, Any]]) -> list[Any]:
        inside.set()
        assert gate.wait(20)
        return [0 for _ in batch]

    hami.register("Hold", hold)
    site = serve({"slow": {"backend": "Hold", "instance_num": 2, "max": 1}})
    page = visit(site).page
    futures = [site.pipe.submit({"data": i}) for i in range(5)]
    assert inside.wait(20)
    wait_for(page, "document.querySelectorAll('.pips .is-busy').length === 2")
    wait_for(page, "document.querySelector('.node-figures dd').textContent === '3'")
    gate.set()
    for future in futures:
        future.result(20)
    wait_for(page, "document.querySelectorAll('.pips .is-busy').length === 0")


def test_figures_of_a_backend_are_shown(serve: Any, visit: Any) -> None:
    class Told(hami.Backend):
        def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
            return [item["data"] for item in batch]

        def stats(self) -> dict[str, float]:
            return {"num_open_files": 12, "share": 0.125, "lost": float("inf")}

    hami.register("Told", Told)
    page = visit(serve("Told")).page
    shown = text_of(page.locator(".figures-of-backend"))
    assert "open files\n12" in shown and "share\n0.125" in shown and "lost\n–" in shown


def test_health_turns_bad(serve: Any, visit: Any) -> None:
    site = serve("Identity")
    page = visit(site).page
    assert page.locator("#problems").is_hidden()
    site.pipe.close()
    wait_for(page, "document.querySelector('#health').dataset.state === 'bad'")
    assert text_of(page.locator("#health")) == "1 problem"
    assert "the pipeline is closed" in text_of(page.locator("#problems"))


def test_a_server_that_asks_for_a_token_gets_it(serve: Any, visit: Any) -> None:
    def admit(route: Any) -> None:
        if route.request.headers.get("authorization") == "Bearer sesame":
            route.continue_()
        else:
            route.fulfill(status=401, body="{}")

    opened = visit(serve("Identity"))
    opened.allowed.append("401")
    page = opened.page
    page.route("**/ui/state", admit)
    page.wait_for_selector("#admission", state="visible")
    assert text_of(page.locator("#health")) == "locked"
    page.fill("#token", "sesame")
    page.press("#token", "Enter")
    page.wait_for_selector("#admission", state="hidden")
    assert text_of(page.locator("#health")) == "healthy"


def test_a_server_that_went_away_and_came_back_is_noticed(serve: Any, visit: Any) -> None:
    opened = visit(serve("Identity"))
    opened.allowed.append("ERR_FAILED")
    page = opened.page
    page.route("**/ui/state", lambda route: route.abort())
    wait_for(page, "document.querySelector('#health').textContent === 'no connection'")
    page.unroute("**/ui/state")
    wait_for(page, "document.querySelector('#health').textContent === 'healthy'")


def test_another_pipeline_takes_the_place_of_the_first(serve: Any, visit: Any, open_pipe: Any) -> None:
    site = serve(GRAPH)
    page = visit(site).page
    site.service.pipe = open_pipe({"other": {"backend": "Identity"}})
    page.wait_for_selector("[data-node=other]")
    assert page.locator("[data-node]").count() == 1
    wait_for(page, "document.querySelector('#details-title').textContent === 'other'")


def test_a_page_that_nobody_sees_asks_for_nothing(serve: Any, visit: Any) -> None:
    site = serve("Identity")
    page = visit(site, prepare=lambda page: page.clock.install()).page
    set_hidden = """(isHidden) => {
        Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.evaluate(set_hidden, True)
    page.evaluate("fetch('health').then((answer) => answer.text())")  # what was on its way is there
    num_asked = site.asked.count("/ui/state")
    page.clock.run_for(30_000)
    assert site.asked.count("/ui/state") == num_asked
    page.evaluate(set_hidden, False)
    eventually(lambda: site.asked.count("/ui/state") > num_asked)


# --- errors ---


def test_errors_appear_with_code_and_time(serve: Any, visit: Any) -> None:
    site = serve({"reader": {"backend": "Fails"}})
    page = visit(site).page
    assert text_of(page.locator("#errors")) == "Nothing has failed."
    with pytest.raises(ValueError, match="cannot read"):
        site.pipe({"data": "page 7"})
    page.wait_for_selector("#errors time")
    shown = text_of(page.locator("#errors li").first)
    assert re.match(r"\d\d:\d\d:\d\d", shown)
    assert "ValueError" in shown and "reader" in shown and "cannot read page 7" in shown
    assert "Traceback" not in shown
    wait_for(page, "document.querySelector('.dot').dataset.state === 'warn'")


# --- hostile texts ---


def test_hostile_results_and_errors_are_text(serve: Any, visit: Any) -> None:
    site = serve({"echo": {"backend": "Echo", "next": "fails"}, "fails": {"backend": "Fails"}})
    opened = visit(site)
    opened.allowed.append("422")
    page = opened.page
    send(page, HOSTILE)
    page.wait_for_selector("#errors time")
    assert HOSTILE in text_of(page.locator("#errors"))
    assert HOSTILE in "".join(page.locator("#answer pre").all_text_contents()).replace('\\"', '"')
    assert page.locator("main img[src=x], main script").count() == 0
    assert page.evaluate("window.hacked") is None


def test_hostile_names_are_text(serve: Any, visit: Any) -> None:
    """A configuration has no such names; the page does not count on it."""

    def rename(route: Any) -> None:
        route.fulfill(body=json.dumps(hostile(route.fetch().json())), content_type="application/json")

    def hostile(value: Any) -> Any:
        if isinstance(value, dict):
            return {hostile(key): hostile(one) for key, one in value.items()}
        if isinstance(value, list):
            return [hostile(one) for one in value]
        return HOSTILE if value == "victim" else value

    graph = {"victim": {"backend": "Identity", "next": "b"}, "b": {"backend": "Identity"}}
    site = serve(graph, name=HOSTILE)
    page = visit(site, prepare=lambda page: page.route("**/ui/state", rename)).page
    assert text_of(page.locator("h1")) == HOSTILE
    assert page.locator(".node-name").all_inner_texts() == [HOSTILE, "b"]
    page.locator("[data-node]").first.click()
    assert text_of(page.locator("#details-title")) == HOSTILE
    assert f"Node {HOSTILE}" in page.locator("#target option").all_inner_texts()
    assert page.locator("main img[src=x], main script").count() == 0
    assert page.evaluate("window.hacked") is None


def test_the_browser_refuses_scripts_of_others(serve: Any, visit: Any) -> None:
    opened = visit(serve("Identity"))
    opened.allowed.append("Content Security Policy")
    opened.page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.hacked = 3";
            document.body.append(script);
        }"""
    )
    assert opened.page.evaluate("window.hacked") is None


# --- colours ---


def test_the_page_follows_light_and_dark(serve: Any, visit: Any) -> None:
    site = serve("Identity")
    colours = [
        visit(site, color_scheme=scheme).page.evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    ]
    light, dark = (sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in colours)
    assert light > 600 and dark < 120


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(serve: Any, visit: Any, scheme: str) -> None:
    page = visit(serve(GRAPH), color_scheme=scheme).page
    ratios = page.evaluate(
        """() => {
            const channel = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
            const parse = (text) => text.match(/[\\d.]+/g).map(Number);
            const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
            const behind = (node) => {
                for (; node; node = node.parentElement) {
                    const colour = parse(getComputedStyle(node).backgroundColor);
                    if (colour.length < 4 || colour[3] === 1) return colour;
                }
                return [255, 255, 255];
            };
            return ["h1", ".note", ".node-name", ".node-backend", ".node-figures dt", ".primary", ".health",
                    "#details dt", ".badge"].map((name) => {
                const node = document.querySelector(name);
                const [one, two] = [light(parse(getComputedStyle(node).color)), light(behind(node))];
                return [name, (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05)];
            });
        }"""
    )
    assert {name: ratio for name, ratio in ratios if ratio < 4.5} == {}
