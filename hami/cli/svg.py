"""A plan as an SVG picture that follows the reader's light or dark mode and needs no fonts or scripts."""

from __future__ import annotations

from html import escape

from ..drawing import (
    Box,
    RegionLayout,
    edge_points,
    enter_points,
    facts,
    lay_out,
    own_expression,
    path_text,
    shorten,
)
from ..drawing.layout import REGION_PADDING_PX
from ..parser.render import to_text
from ..plan import Plan, PlannedNode

CHARACTER_PX = 7.0
LINE_PX = 17.0
PADDING_PX = 12.0
MAX_CHARACTERS = 38
MAX_LINES = 4

# paper, ink, soft ink, lines, boxes, edges, for-each, answer
_LIGHT = ("#ffffff", "#1c2733", "#5b6b7c", "#8fa1b3", "#f4f7fa", "#3f6fb5", "#b5651d", "#2f7d4f")
_DARK = ("#14191f", "#e6edf3", "#9fb0c0", "#4d5f70", "#1e262f", "#7aa7e8", "#e0a15e", "#6cc391")

_SHAPES = """
  .edge { fill: none; stroke-width: 1.6; }
  .each, .region { fill: none; stroke-width: 1.4; stroke-dasharray: 6 5; }
  .box { stroke-width: 1.2; }
  .answer { stroke-width: 2; }
  text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
  .name { font-size: 13.5px; font-weight: 600; }
"""


def _colours(paper: str, ink: str, soft: str, line: str, box: str, edge: str, each: str, answer: str) -> str:
    # plain rules instead of CSS variables, which many viewers outside browsers do not know
    return f"""
  .paper {{ fill: {paper}; }} text {{ fill: {ink}; }} .soft {{ fill: {soft}; }}
  .box {{ fill: {box}; stroke: {line}; }} .answer {{ stroke: {answer}; }}
  .edge {{ stroke: {edge}; }} .head {{ fill: {edge}; }}
  .each, .region {{ stroke: {each}; }} .each-head, .each-label {{ fill: {each}; }}
"""


_STYLE = f"{_SHAPES}{_colours(*_LIGHT)}@media (prefers-color-scheme: dark) {{{_colours(*_DARK)}}}\n"


def wrap(text: str) -> list[str]:
    """Break an expression after commas and brackets into at most MAX_LINES lines."""
    lines: list[str] = []
    while len(text) > MAX_CHARACTERS and len(lines) < MAX_LINES - 1:
        cut = max(text.rfind(mark, 0, MAX_CHARACTERS) for mark in (", ", "[", "; ")) + 1
        cut = cut if cut > MAX_CHARACTERS // 3 else MAX_CHARACTERS
        lines.append(text[:cut].rstrip())
        text = text[cut:].lstrip()
    return [*lines, shorten(text, MAX_CHARACTERS)]


def _texts(node: PlannedNode) -> tuple[list[str], str]:
    """Return the lines of a node's expression, and of its sizes the one at the foot."""
    return wrap(to_text(own_expression(node))), " · ".join(facts(node))


def size_of(node: PlannedNode) -> tuple[float, float]:
    """Return the width and the height of a box that fits the node's name, expression and sizes."""
    lines, footer = _texts(node)
    longest = max(len(node.name) * 1.15, len(footer), *(len(line) for line in lines))
    height = 2 * PADDING_PX + LINE_PX * (1 + len(lines) + bool(footer)) + 2
    return longest * CHARACTER_PX + 2 * PADDING_PX, height


def draw(plan: Plan) -> str:
    """Return the graph as an SVG document."""
    regions = lay_out(plan, size_of)
    width = max(region.x + region.width for region in regions) + REGION_PADDING_PX
    height = max(region.y + region.height for region in regions) + REGION_PADDING_PX
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{escape(plan.name or 'pipeline')}</title>",
        f"<style>{_STYLE}</style>",
        _marker("head"),
        _marker("each-head"),
        f'<rect class="paper" width="{width:.0f}" height="{height:.0f}"/>',
    ]
    for number, region in enumerate(regions):
        parts += _region(region, is_main=number == 0)
    boxes = {index: box for region in regions for index, box in region.boxes.items()}
    parts += [
        _enter(boxes[index], boxes[node.target])
        for index, node in enumerate(plan.nodes)
        if node.target is not None
    ]
    parts += [_box(box, is_answer=index == plan.regions[0].output) for index, box in boxes.items()]
    return "\n".join([*parts, "</svg>", ""])


def _marker(name: str) -> str:
    shape = f'<path class="{name}" d="M0,0 L8,4 L0,8 Z"/>'
    return (
        f'<marker id="{name}" markerWidth="9" markerHeight="8" refX="7.5" refY="4" orient="auto" '
        f'markerUnits="userSpaceOnUse">{shape}</marker>'
    )


def _region(region: RegionLayout, *, is_main: bool) -> list[str]:
    parts = []
    if not is_main:
        parts.append(
            f'<rect class="region" x="{region.x:.1f}" y="{region.y:.1f}" width="{region.width:.1f}" '
            f'height="{region.height:.1f}" rx="12"/>'
        )
    return parts + [_edge(edge) for edge in region.edges]


def _edge(boxes: list[Box]) -> str:
    return f'<path class="edge" d="{path_text(edge_points(boxes))}" marker-end="url(#head)"/>'


def _enter(owner: Box, target: Box) -> str:
    """Return the dashed line from a ForEach to the node that each element enters."""
    points = enter_points(owner, target)
    end_x, end_y = points[-1]
    place = f'x="{end_x + 8:.1f}" y="{end_y - REGION_PADDING_PX - 8:.1f}"'
    label = f'<text class="each-label" {place}>each element</text>'
    return f'<path class="each" d="{path_text(points)}" marker-end="url(#each-head)"/>{label}'


def _box(box: Box, *, is_answer: bool) -> str:
    assert box.node is not None
    kind = "box answer" if is_answer else "box"
    rect = (
        f'<rect class="{kind}" x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="8"/>'
    )
    x, y = box.x + PADDING_PX, box.y + PADDING_PX + LINE_PX * 0.75
    texts = [f'<text class="name" x="{x:.1f}" y="{y:.1f}">{escape(box.node.name)}</text>']
    lines, footer = _texts(box.node)
    y += 2
    for line in lines:
        y += LINE_PX
        texts.append(_line(line, x, y, ""))
    if footer:
        texts.append(_line(footer, x, y + LINE_PX, ' class="soft"'))
    return f"<g><title>{escape(box.node.where)}</title>{rect}{''.join(texts)}</g>"


def _line(text: str, x: float, y: float, kind: str) -> str:
    """Return one line of text, held to its computed width so that another font cannot overflow the box."""
    length = f' textLength="{len(text) * CHARACTER_PX:.0f}" lengthAdjust="spacingAndGlyphs"' if text else ""
    return f'<text{kind} x="{x:.1f}" y="{y:.1f}"{length}>{escape(text)}</text>'
