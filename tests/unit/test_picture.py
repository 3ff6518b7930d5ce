"""Laws of the picture of a plan: nothing overlaps, no line runs over a box, and nothing is left out."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import drawn
import pytest
from drawn import Line, Picture, random_plan
from planning import for_each, node

from hami.backend import Backend, register
from hami.cli.svg import DARK, LIGHT, ROW_WIDTH_PX, draw
from hami.cli.svg_card import MAX_CHARACTERS, MAX_LINES, MAX_NAME, cut, num_cells
from hami.plan import Plan, plan

pytestmark = pytest.mark.usefixtures("real_core")  # of which conditions and edges back are

HAND_MADE = "List[InstancesRegister[BackgroundThread[BackendProxy]], Register[DI[{}, InstanceDispatcher]]]"

PLANS: dict[str, Any] = {
    "one node": "S[Identity, Pow]",
    "condition": {
        "known": node("yes,no", "HasKey(language)"),
        "yes": node("end"),
        "no": node("end", **{"or": True}),
        "end": node(map="yes[result:data],no[result:other],input[question:question]"),
    },
    "or": {"first": node("second"), "second": node("third", "Pow", **{"or": True}), "third": node()},
    "join": {
        "decode": node("detect,thumb", instance_num=2),
        "detect": node("lines", "Pow", max=8, batching_timeout=2),
        "thumb": node("join"),
        "lines": for_each("turn", "join"),
        "turn": node("read"),
        "read": node(),
        "join": node(map="lines[result:lines],decode[result:page],thumb[result:thumb]"),
    },
    "nested": {
        "documents": for_each("page", "sum"),
        "page": node("words"),
        "words": for_each("word", "count"),
        "word": node("fix", "Pow", max=16, instance_num=4),
        "fix": node(),
        "count": node(),
        "sum": node(),
    },
    "two subgraphs": {
        "a": node("left,right"),
        "left": for_each("x", "join"),
        "right": for_each("y", "join"),
        "x": node(),
        "y": node("y2,y3"),
        "y2": node("y4"),
        "y3": node("y4"),
        "y4": node(map="y2[result:a],y3[result:b]"),
        "join": node(map="left[result:left],right[result:right]"),
    },
    "one subgraph twice": {"a": for_each("x", "b"), "b": for_each("x"), "x": node()},
    "edge back": {
        "draft": node("check,side"),
        "check": node("again"),
        "side": node("end"),
        "again": node("check,end", "Restart"),
        "end": node(map="again[result:data],side[result:other]"),
    },
    "loop": {"work": node(backend="Loop[S[Pow, Identity], HasKey(again)]")},
    "roots": {
        "image": node("join", max=8, instance_num=3),
        "text": node("join"),
        "join": node(map="image[result:image],text[result:text]"),
    },
    "long names": {
        "a_name_" + "that_is_long_" * 8: node("b"),
        "b": node(backend="S" + str(["Pow"] * 30).replace("'", "")),
    },
    "other scripts": {"größe": node("画像の名前"), "画像の名前": node("сумма", max=4), "сумма": node()},
    "chain": {f"n{i}": node(f"n{i + 1}" if i < 63 else "") for i in range(64)},
    "wide": {
        "split": node([f"b{i}" for i in range(30)]),
        **{f"b{i}": node("join", "Pow", instance_num=1 + i % 3) for i in range(30)},
        "join": node(map=",".join(f"b{i}[result:r{i}]" for i in range(30))),
    },
    "long edges": {
        "a": node("b,c,d,g"),
        "b": node("e"),
        "c": node("e,f"),
        "d": node("f"),
        "e": node("g", map="b[result:x],c[result:y]"),
        "f": node("g", map="c[result:x],d[result:y]"),
        "g": node(map="e[result:e],f[result:f],a[result:a]"),
    },
}
NUM_RANDOM = 25
PLANAR = set(PLANS) - {"long edges", "edge back"}


def picture_of(source: Any) -> Picture:
    return drawn.read(draw(plan(source)))


def lines_of(picture: Picture, kind: str) -> list[Line]:
    return [line for line in picture.lines if line.kind == kind]


# --- geometry ---


@functools.cache
def random_pictures() -> dict[int, tuple[Plan, Picture]]:
    """Return random plans and their pictures by their seed."""
    plans = {seed: random_plan(seed) for seed in range(NUM_RANDOM)}
    return {seed: (checked, drawn.read(draw(checked))) for seed, checked in plans.items()}


@pytest.mark.parametrize("name", PLANS)
def test_nothing_overlaps_and_no_line_runs_over_a_box(name: str) -> None:
    picture = picture_of(PLANS[name])

    assert drawn.faults(picture) == []
    assert name not in PLANAR or drawn.num_crossings(picture) == 0


def test_nothing_overlaps_in_random_graphs() -> None:
    for seed, (checked, picture) in random_pictures().items():
        assert drawn.faults(picture) == [], seed
        assert set(picture.boxes) == {planned.name for planned in checked.nodes}, seed


def test_random_graphs_have_everything_that_can_be_drawn() -> None:
    kinds = {line.kind for _, picture in random_pictures().values() for line in picture.lines}

    assert kinds == {"edge", "taken", "each", "back", "answer"}
    assert any(len(picture.frames) > 3 for _, picture in random_pictures().values())


def test_every_edge_joins_the_boxes_that_it_is_about() -> None:
    for seed, (checked, picture) in random_pictures().items():
        for planned in checked.nodes:
            for following in planned.next:
                one, other = picture.boxes[planned.name], picture.boxes[checked.nodes[following].name]
                ends = [(line.points[0], line.points[-1]) for line in lines_of(picture, "edge")]
                assert any(one.touches(start) and other.touches(end) for start, end in ends), seed
                assert one.x + one.width < other.x or other.y > one.y + one.height, seed  # or a row below


def test_a_subgraph_stands_inside_its_frame_and_nothing_else_does() -> None:
    for seed, (checked, picture) in random_pictures().items():
        regions = []
        for frame in picture.frames[2::3]:  # the first two of three stand behind
            held = {
                planned.region for planned in checked.nodes if frame.contains(picture.boxes[planned.name])
            }
            touched = {
                planned.region for planned in checked.nodes if frame.overlaps(picture.boxes[planned.name])
            }
            assert held == touched, seed
            regions.append(min(held))
        assert set(regions) == {planned.region for planned in checked.nodes} - {0}, seed


def test_a_long_chain_is_folded_into_rows_that_fit() -> None:
    picture = picture_of(PLANS["chain"])

    tops = {round(box.y) for box in picture.boxes.values()}
    assert 3 < len(tops) < 12
    assert picture.size.width < ROW_WIDTH_PX + 60
    in_order = [picture.boxes[f"n{i}"] for i in range(64)]
    assert sorted(in_order, key=lambda box: (box.y, box.x)) == in_order


def test_a_chain_stands_on_one_line() -> None:
    picture = picture_of({"a": node("b", max=8), "b": node("c", "S[Identity, Pow, Pow]"), "c": node()})

    assert len({round(box.y + box.height / 2) for box in [*picture.boxes.values(), *picture.ends]}) == 1


# --- what a reader looks for ---


def test_a_node_says_how_it_batches_and_how_many_instances_it_has() -> None:
    picture = picture_of(PLANS["join"])

    assert "batch 1–8 · waits ≤ 2 ms" in picture.texts_of["detect"]
    assert "×2" in picture.texts_of["decode"]
    assert not any(text.startswith(("batch", "×")) for text in picture.texts_of["thumb"])


def test_a_node_that_batches_waits_as_long_as_the_core_does() -> None:
    assert "batch 2–8 · waits ≤ 4 ms" in picture_of({"a": node(min=2, max=8)}).texts_of["a"]


def test_a_batch_is_no_larger_than_the_backend_takes() -> None:
    @register
    class AtMostSix(Backend):
        """Takes six."""

        batch_range = (2, 6)

        def forward(self, batch: list[dict[str, Any]]) -> None:
            """Do nothing."""

    assert "batch 2–6 · waits ≤ 4 ms" in picture_of({"a": node(backend="AtMostSix", max=16)}).texts_of["a"]
    assert "batch 2–6 · waits ≤ 4 ms" in picture_of("AtMostSix").texts_of["node"]


def test_as_many_boxes_stand_behind_each_other_as_there_are_instances_but_three_at_most() -> None:
    for count, sheets in ((1, 0), (2, 1), (3, 2), (64, 2)):
        text = draw(plan({"a": node(instance_num=count)}))
        assert text.count('class="box sheet"') == sheets


def test_a_condition_has_another_shape_and_its_edges_say_when_they_are_taken() -> None:
    picture = picture_of(PLANS["condition"])

    assert "decision" in picture.kinds["known"] and "decision" not in picture.kinds["yes"]
    assert picture.says("if HasKey(language)") and picture.says("otherwise")


def test_a_condition_inside_of_an_expression_is_told_in_words() -> None:
    picture = picture_of({"a": node(backend="S[HasKey(x)[Identity, Pow], (HasKey(y))Pow, (or)Pow]")})

    assert picture.texts_of["a"][1:] == [
        "if HasKey(x)",
        "then Identity",
        "else Pow",
        "→ if HasKey(y): Pow",
        "→ (or)Pow",
    ]


def test_an_edge_says_which_keys_it_brings() -> None:
    picture = picture_of(PLANS["condition"])

    assert all(picture.says(text) for text in ("result → data", "result → other", "question"))


def test_keys_of_a_node_that_is_no_predecessor_come_on_a_line_of_their_own() -> None:
    picture = picture_of(PLANS["join"])
    (line,) = lines_of(picture, "taken")

    assert picture.boxes["decode"].touches(line.points[0]) and picture.boxes["join"].touches(line.points[-1])
    assert picture.says("result → page")


def test_what_many_keys_there_are_is_cut_with_their_number() -> None:
    source = {"a": node("b"), "b": node(map="a[" + ",".join(f"k{i}:v{i}" for i in range(12)) + "]")}
    picture = picture_of(source)

    assert picture.says("k0 → v0") and picture.says("… 7 more")


def test_each_element_is_led_down_into_the_frame() -> None:
    picture = picture_of(PLANS["nested"])
    ends = [(line.points[0], line.points[-1]) for line in lines_of(picture, "each")]

    for owner, entry in (("documents", "page"), ("words", "word")):
        assert any(
            picture.boxes[owner].touches(start) and picture.boxes[entry].touches(end) for start, end in ends
        )
    assert [text for text, _ in picture.texts].count("each element") == 2


def test_what_comes_out_of_a_queue_is_led_into_a_frame_of_its_own() -> None:
    picture = picture_of(
        {"take": node(backend="Recv(jobs, target=work)"), "work": node("more"), "more": node()}
    )

    assert drawn.faults(picture) == []
    assert len(picture.frames) == 1 and picture.says("each item")


def test_a_subgraph_that_is_entered_twice_is_drawn_once_and_named() -> None:
    picture = picture_of(PLANS["one subgraph twice"])

    assert len(lines_of(picture, "each")) == 1
    assert "ForEach(target=x)" in picture.texts_of["b"]


def test_an_edge_that_leads_back_passes_above() -> None:
    picture = picture_of(PLANS["edge back"])
    (line,) = lines_of(picture, "back")

    assert picture.boxes["again"].touches(line.points[0])
    assert picture.boxes["check"].touches(line.points[-1])
    assert min(y for _, y in line.points) < min(box.y for box in picture.boxes.values())


def test_requests_come_in_and_one_node_answers() -> None:
    picture = picture_of({"a": node("b,c"), "b": node(), "c": node(), "output": "b"})
    (line,) = lines_of(picture, "answer")

    assert picture.says("request") and picture.says("answer")
    assert picture.boxes["b"].touches(line.points[0])
    assert {name for name, kinds in picture.kinds.items() if "answers" in kinds} == {"b"}


def test_several_entries_are_told_by_the_name_to_send_unless_all_run() -> None:
    assert picture_of(PLANS["roots"]).says("node_name = text")
    assert not picture_of({**PLANS["roots"], "fanout": "roots"}).says("node_name = text")


def test_bounds_of_the_whole_pipeline_stand_below() -> None:
    picture = picture_of({"a": node(), "deadline_ms": 200, "max_in_flight": 64})

    assert picture.says("every request: at most 200 ms · at most 64 requests inside")


def test_a_node_with_state_or_a_hand_made_entrypoint_says_so() -> None:
    texts = {
        name: picture_of({"a": node(node_entrypoint=HAND_MADE.format(name))}).texts_of["a"]
        for name in ("StatefulBatching", "Batching")
    }

    assert "state per request_id" in texts["StatefulBatching"]
    assert "built by its own node_entrypoint" in texts["Batching"]


def test_the_file_of_a_model_stands_without_its_folder(tmp_path: Path) -> None:
    picture = picture_of({"a": node(backend="OnnxInfer", model=str(tmp_path / "net.onnx"))})

    assert "net.onnx" in picture.texts_of["a"]
    assert str(tmp_path) not in draw(plan({"a": node(backend="OnnxInfer", model=str(tmp_path / "net.onnx"))}))


# --- text ---


@pytest.mark.parametrize("text", ["abc", "größe", "画像の名前" * 20, "é" * 3 + "e\u0301" * 60, "🙂" * 40])
def test_text_is_cut_to_the_columns_that_it_takes(text: str) -> None:
    shown = cut(text, 12)

    assert num_cells(shown) <= 12
    assert shown == text or (shown.endswith("…") and text.startswith(shown[:-1]))


def test_wide_letters_take_two_columns_and_marks_none() -> None:
    assert [num_cells(text) for text in ("ab", "画像", "e\u0301", "")] == [2, 4, 1, 0]


@pytest.mark.parametrize("name", ["long names", "other scripts"])
def test_a_box_has_few_short_lines(name: str) -> None:
    for texts in picture_of(PLANS[name]).texts_of.values():
        assert len(texts) <= MAX_LINES + 5
        assert num_cells(texts[0]) <= MAX_NAME
        assert all(num_cells(text) <= MAX_CHARACTERS for text in texts)


def test_a_long_expression_is_broken_where_its_parts_are() -> None:
    expression = "CatSplit[S[FixTensor, CatTensor], S[ContiguousTensor, Identity, Identity], SplitTensor]"
    picture = picture_of({"a": node(backend=expression, max=4)})

    assert picture.texts_of["a"][1:-1] == [
        "CatSplit[",
        "S[FixTensor, CatTensor],",
        "S[",
        "ContiguousTensor,",
        "Identity,",
        "Identity],",
        "SplitTensor]",
    ]


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_text_can_be_read(palette: dict[str, str]) -> None:
    pairs = [("ink", "paper"), ("ink", "box"), ("ink", "decision"), ("soft", "box"), ("soft", "paper")]
    pairs += [("chip-ink", "chip"), ("each", "paper"), ("each", "frame"), ("condition", "paper")]

    contrasts = {pair: drawn.contrast(*(palette[name] for name in pair)) for pair in pairs}
    assert {pair: ratio for pair, ratio in contrasts.items() if ratio < 4.5} == {}


def test_a_picture_is_described_for_those_who_do_not_see_it() -> None:
    root = picture_of(PLANS["nested"]).root
    described = root.find(f"{drawn.SVG}desc").text

    assert root.get("role") == "img" and root.get("aria-labelledby") == "title desc"
    assert root.find(f"{drawn.SVG}title").text
    assert "documents to sum, each element to page." in described and "sum answers." in described


def test_a_picture_does_not_tell_where_the_file_lies(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text('[a]\nbackend = "Identity"\n')

    text = draw(plan(file))

    assert '<title id="title">pipeline.toml</title>' in text and str(tmp_path) not in text


def test_a_drawing_is_the_same_every_time() -> None:
    assert draw(plan(PLANS["join"])) == draw(plan(PLANS["join"]))
