"""A plan as an SVG picture that follows the reader's light or dark mode and needs no fonts or scripts."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import PurePath

from ..drawing import (
    ANSWER,
    INPUT,
    REGION_PADDING_PX,
    Box,
    Edge,
    Label,
    RegionLayout,
    Style,
    condition_of,
    edge_points,
    enter_points,
    keys_taken,
    lay_out,
    path_text,
    return_points,
)
from ..plan import Plan, PlannedNode
from .svg_card import Card, card_of, cut, draw_card, text_line, text_px

LABEL_LINE_PX = 15.0
LABEL_PADDING_PX = 7.0
MAX_LABEL = 28
MAX_LABEL_LINES = 6
END_SIZE_PX = (74.0, 26.0)
FRAME_WIDTH_PX = 232.0
FRAME_SHEET_PX = 5.0
ROW_WIDTH_PX = 1500.0

LIGHT = {
    "paper": "#ffffff",
    "ink": "#1c2733",
    "soft": "#56677a",
    "line": "#8fa1b3",
    "box": "#f6f8fa",
    "edge": "#3f6fb5",
    "each": "#a85a14",
    "frame": "#fdf6ee",
    "answer": "#2f7d4f",
    "condition": "#7b4fb0",
    "decision": "#f5effc",
    "chip": "#dfeaf8",
    "chip-ink": "#24508f",
    "back": "#b0305c",
}
DARK = {
    "paper": "#14191f",
    "ink": "#e6edf3",
    "soft": "#9fb0c0",
    "line": "#4d5f70",
    "box": "#1e262f",
    "edge": "#7aa7e8",
    "each": "#e0a15e",
    "frame": "#211d18",
    "answer": "#6cc391",
    "condition": "#c3a3ee",
    "decision": "#2a2436",
    "chip": "#24374f",
    "chip-ink": "#a9ccf7",
    "back": "#f08bab",
}
_SHAPES = """
  path { fill: none; stroke-width: 1.6; }
  .taken { stroke-dasharray: 2 4; } .each { stroke-dasharray: 6 5; } .back { stroke-dasharray: 8 4; }
  .frame { stroke-width: 1.3; stroke-dasharray: 6 5; }
  .box { stroke-width: 1.2; } .answers { stroke-width: 2.2; }
  text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
  .name { font-size: 13.5px; font-weight: 600; } .badge-text, .end-text { font-weight: 600; }
"""
_HEADS = ("edge", "each", "back", "answer")


def _colours(colour: dict[str, str]) -> str:
    # plain rules instead of CSS variables, which many viewers outside browsers do not know
    rules = [
        ".paper {{ fill: {paper}; }} text {{ fill: {ink}; }} .soft {{ fill: {soft}; }}",
        ".box {{ fill: {box}; stroke: {line}; }} .operator {{ stroke: {each}; }}",
        ".decision {{ fill: {decision}; stroke: {condition}; }} .answers {{ stroke: {answer}; }}",
        ".frame {{ fill: {frame}; stroke: {each}; }} .each-text {{ fill: {each}; }}",
        ".label {{ fill: {paper}; stroke: {line}; }}",
        ".if {{ stroke: {condition}; }} .if-text {{ fill: {condition}; }}",
        ".chip, .badge {{ fill: {chip}; }} .chip-text, .badge-text {{ fill: {chip-ink}; }}",
        ".end {{ fill: {paper}; stroke: {edge}; }} .end-answer {{ stroke: {answer}; }}",
        ".edge, .taken {{ stroke: {edge}; }} .each {{ stroke: {each}; }} .back {{ stroke: {back}; }}",
        ".answer {{ stroke: {answer}; }}",
        *(f".{name}-head {{{{ fill: {{{name}}}; stroke: none; }}}}" for name in _HEADS),
    ]
    return "\n".join(f"  {rule.format_map(colour)}" for rule in rules) + "\n"


_STYLE = f"{_SHAPES}{_colours(LIGHT)}@media (prefers-color-scheme: dark) {{\n{_colours(DARK)}}}\n"


def draw(plan: Plan) -> str:
    """Return the graph as an SVG document."""
    return _Picture(plan).text()


class _Picture:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.cards = {id(node): card_of(node) for node in plan.nodes}
        style = Style(
            size_of=lambda node: self._card(node).size,
            labels_of=self._labels,
            end_size=END_SIZE_PX,
            has_ends=True,
            has_taken=True,
            frame_width=FRAME_WIDTH_PX,
            max_width=ROW_WIDTH_PX,
        )
        self.regions = lay_out(plan, style)
        self.boxes = {index: box for region in self.regions for index, box in region.boxes.items()}
        self.owners = {region.owner for region in self.regions}

    def _card(self, node: PlannedNode) -> Card:
        return self.cards[id(node)]

    def text(self) -> str:
        """Return the document: frames below edges, edges below labels and boxes."""
        main = self.regions[0]
        caption = self._caption()
        width = max(main.x + main.width + REGION_PADDING_PX, text_px(caption) + 2 * REGION_PADDING_PX)
        height = main.y + main.height + REGION_PADDING_PX + (24 if caption else 0)
        size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title desc">',
            f'<title id="title">{escape(PurePath(self.plan.name or "pipeline").name)}</title>',
            f'<desc id="desc">{escape(self._description())}</desc>',
            f"<style>{_STYLE}</style>",
            *(_marker(name) for name in _HEADS),
            f'<rect class="paper" width="{width:.0f}" height="{height:.0f}"/>',
        ]
        for region in self._from_the_outside():
            if region.owner is not None:
                parts += _frame(region, has_many=_is_for_each(self.plan.nodes[region.owner]))
        for region in self.regions:
            parts += self._lines(region)
        for region in self.regions:
            parts += self._labels_and_ends(region)
        parts += [
            draw_card(box, self._card(box.node), self._kind(i)) for i, box in self.boxes.items() if box.node
        ]
        if caption:
            parts.append(text_line(caption, REGION_PADDING_PX, height - 16, "soft"))
        return "\n".join([*parts, "</svg>", ""])

    def _caption(self) -> str:
        settings = self.plan.settings
        parts = []
        if settings.get("deadline_ms") is not None:
            parts.append(f"every request: at most {settings['deadline_ms']:,g} ms")
        if settings.get("max_in_flight") is not None:
            parts.append(f"at most {settings['max_in_flight']} requests inside")
        return " · ".join(parts)

    def _description(self) -> str:
        nodes = self.plan.nodes
        sentences = [f"{len(nodes)} nodes."]
        for node in nodes:
            followed = ", ".join(nodes[index].name for index in node.next)
            each = f", each element to {nodes[node.target].name}" if node.target is not None else ""
            sentences.append(f"{node.name}{f' to {followed}' if followed else ''}{each}.")
        return " ".join([*sentences, f"{nodes[self.plan.regions[0].output].name} answers."])

    def _kind(self, index: int) -> str:
        node = self.plan.nodes[index]
        kinds = ["operator"] if node.is_operator else ["decision"] if self._card(node).is_condition else []
        return " ".join([*kinds, "answers"] if index == self.plan.regions[0].output else kinds)

    def _labels(self, source: int, target: int) -> tuple[Label | None, Label | None]:
        following = self.plan.nodes[target]
        if source != INPUT:
            condition = condition_of(self.plan.nodes[source], following)
            is_edge = target in self.plan.nodes[source].next
            at_start = _label([condition] if condition and is_edge else [])
        else:
            is_named = len(self.plan.regions[0].roots) > 1 and self.plan.fanout is None
            at_start = _label([f"node_name = {following.name}"] if is_named and following.region == 0 else [])
        return at_start, _label(keys_taken(following, source))

    def _lines(self, region: RegionLayout) -> Iterator[str]:
        for edge in region.edges:
            kind = {"taken": "taken", "answer": "answer"}.get(edge.kind, "edge")
            yield _path(kind, path_text(edge_points(edge.boxes, region.rows)))
        for back in region.backs:
            yield _path("back", path_text(return_points(region, back)))
        if region.owner is not None:
            owner = self.plan.nodes[region.owner]
            assert owner.target is not None
            points = enter_points(self.boxes[region.owner], self.boxes[owner.target])
            yield _path("each", path_text(points))
            (x, y), word = points[0], "each element" if _is_for_each(owner) else "each item"
            yield text_line(word, x + 10, y + 22, "each-text")

    def _labels_and_ends(self, region: RegionLayout) -> Iterator[str]:
        for edge in region.edges:
            for box in edge.boxes:
                if box.kind == "label":
                    yield self._label_text(box, edge)
        for box, text, kind in self._ends(region):
            x = box.x + (box.width - text_px(text)) / 2
            yield (
                f'<rect class="end{kind}" x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width}" '
                f'height="{box.height}" rx="13"/>{text_line(text, x, box.middle + 4, "end-text")}'
            )

    def _ends(self, region: RegionLayout) -> Iterator[tuple[Box, str, str]]:
        """Yield the boxes of who asks and of the answer."""
        for edge in region.edges:
            if edge.target == ANSWER:
                yield edge.boxes[-1], "answer", " end-answer"
        request = next((edge.boxes[0] for edge in region.edges if edge.source == INPUT), None)
        if request is not None:
            yield request, "request", ""

    def _label_text(self, box: Box, edge: Edge) -> str:
        condition = (
            condition_of(self.plan.nodes[edge.source], self.plan.nodes[edge.target])
            if edge.source >= 0
            else ""
        )
        is_condition = bool(condition) and box.lines[0] == cut(condition, MAX_LABEL)
        rect = (
            f'<rect class="label{" if" if is_condition else ""}" x="{box.x:.1f}" y="{box.y:.1f}" '
            f'width="{box.width:.1f}" height="{box.height:.1f}" rx="7"/>'
        )
        lines = [
            text_line(
                line,
                box.x + LABEL_PADDING_PX,
                box.y + 5 + LABEL_LINE_PX * (i + 0.75),
                "if-text" if is_condition and i == 0 else "soft",
            )
            for i, line in enumerate(box.lines)
        ]
        return f"<g>{rect}{''.join(lines)}</g>"

    def _from_the_outside(self) -> list[RegionLayout]:
        """Return the regions, larger ones first: what lies inside of another is drawn over it."""
        return sorted(self.regions, key=lambda region: -region.width * region.height)


def _is_for_each(owner: PlannedNode) -> bool:
    return owner.backend.name == "ForEach"


def _label(lines: list[str]) -> Label | None:
    if not lines:
        return None
    if len(lines) > MAX_LABEL_LINES:
        lines = [*lines[: MAX_LABEL_LINES - 1], f"… {len(lines) - MAX_LABEL_LINES + 1} more"]
    shown = tuple(cut(line, MAX_LABEL) for line in lines)
    width = max(map(text_px, shown)) + 2 * LABEL_PADDING_PX
    return Label(shown, width, LABEL_LINE_PX * len(shown) + 9)


def _marker(name: str) -> str:
    shape = f'<path class="{name}-head" d="M0,0 L8,4 L0,8 Z"/>'
    return (
        f'<marker id="{name}" markerWidth="9" markerHeight="8" refX="7.5" refY="4" orient="auto" '
        f'markerUnits="userSpaceOnUse">{shape}</marker>'
    )


def _path(kind: str, points: str) -> str:
    head = "edge" if kind == "taken" else kind
    return f'<path class="{kind}" d="{points}" marker-end="url(#{head})"/>'


def _frame(region: RegionLayout, *, has_many: bool) -> Iterator[str]:
    """Yield the frame of a subgraph; behind that of a ForEach are others, as it runs once an element."""
    for sheet in (2, 1, 0) if has_many else (0,):
        shift = sheet * FRAME_SHEET_PX
        yield (
            f'<rect class="frame" x="{region.x + shift:.1f}" y="{region.y + shift:.1f}" '
            f'width="{region.width - 2 * FRAME_SHEET_PX:.1f}" '
            f'height="{region.height - 2 * FRAME_SHEET_PX:.1f}" rx="12"/>'
        )
