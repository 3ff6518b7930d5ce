"""One node in a picture: which lines its box holds, how large that makes it, and how it is drawn."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import PurePath

from ..drawing import Box, batch_of, instances_of, own_backend, own_expression, parts_of, wait_ms_of
from ..parser import Expr
from ..parser.render import head_text, prefix_text, to_text
from ..plan import PlannedBackend, PlannedNode

CHARACTER_PX = 7.2
NAME_CHARACTER_PX = 8.2
LINE_PX = 17.0
PADDING_PX = 12.0
MAX_CHARACTERS = 40
MAX_NAME = 34
MAX_LINES = 10
CHIP_PX = 18.0
SHEET_PX = 5.0
"""How far each of the boxes behind a box stands out; there are as many as instances, but three at most."""

MAX_SHEETS = 3
TIP_PX = 14.0
"""How far a condition tapers off to both sides."""

_CONTINUOUS = {"LLM", "ContinuousBatching"}


@dataclass(frozen=True)
class Card:
    """What stands in the box of a node, from above: name, copies, expression, notes, and how it batches."""

    name: str
    lines: tuple[str, ...]
    notes: tuple[str, ...]
    chip: str
    num_instances: int
    is_condition: bool

    @property
    def sheets_px(self) -> float:
        """The room of the boxes that stand behind."""
        return SHEET_PX * (min(self.num_instances, MAX_SHEETS) - 1)

    @property
    def badge(self) -> str:
        """What says how many instances there are."""
        return f"×{self.num_instances}" if self.num_instances > 1 else ""

    @property
    def size(self) -> tuple[float, float]:
        """The width and the height of the box with those behind it."""
        badge_px = text_px(self.badge) + 26 if self.badge else 0
        widths = [text_px(self.name, NAME_CHARACTER_PX) + badge_px, *map(text_px, (*self.lines, *self.notes))]
        widths.append(text_px(self.chip) + 12 if self.chip else 0)
        height = 2 * PADDING_PX + LINE_PX * (1 + len(self.lines) + len(self.notes))
        height += CHIP_PX + 6 if self.chip else 0
        width = max(widths) + 2 * PADDING_PX + (2 * TIP_PX if self.is_condition else 0)
        return width + self.sheets_px, height + self.sheets_px


def num_cells(text: str) -> int:
    """Return how many columns a text takes where all letters are equally wide: wide ones two, marks none."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def text_px(text: str, character_px: float = CHARACTER_PX) -> float:
    """Return the width of a line."""
    return num_cells(text) * character_px


def cut(text: str, cells: int) -> str:
    """Cut a text that takes more columns."""
    if num_cells(text) <= cells:
        return text
    while num_cells(text) > cells - 1:
        text = text[:-1]
    return f"{text}…"


def card_of(node: PlannedNode) -> Card:
    """Return what stands in the box of a node."""
    backend = own_backend(node)
    return Card(
        name=cut(node.name, MAX_NAME),
        lines=tuple(expression_lines(own_expression(node), backend)),
        notes=tuple(_notes(node)),
        chip=_chip(node, backend),
        num_instances=instances_of(node),
        is_condition=backend.is_condition and not backend.children,
    )


def _notes(node: PlannedNode) -> Iterator[str]:
    """Yield what else a reader looks for, a line each."""
    model = node.params.get("model")
    if isinstance(model, str) and model:
        yield cut(PurePath(model).name, MAX_CHARACTERS)
    if node.target is not None and node.backend.name == "ForEach":
        yield "a list in, a list out"
    if node.again is not None:
        yield "leads back when asked to"
    elif own_backend(node).name == "Restart":
        yield "leads back to what `restart` names"
    if "node_entrypoint" in node.params and not node.is_operator:
        has_state = any(part.name == "StatefulBatching" for part in parts_of(node.backend))
        yield "state per request_id" if has_state else "built by its own node_entrypoint"
    if node.deployment is not None:
        replicas = node.deployment.get("num_replicas")
        yield f"a deployment of its own{f', {replicas} replicas' if replicas else ''}"


def _chip(node: PlannedNode, backend: PlannedBackend) -> str:
    """Return how a node batches; an empty text where it does not."""
    parts = []
    if any(part.name in _CONTINUOUS for part in parts_of(backend)):
        parts.append("continuous batching")
    elif (rows := batch_of(node)) is not None:
        parts.append(f"batch {rows[0]}–{rows[1]}")
        parts.append(f"waits ≤ {wait_ms_of(node):g} ms")
    if not node.is_operator and node.params.get("scheduler", "fifo") != "fifo":
        parts.append(str(node.params["scheduler"]))
    return cut(" · ".join(parts), MAX_CHARACTERS)


def expression_lines(expr: Expr, backend: PlannedBackend) -> list[str]:
    """Return an expression as lines of a box: stages one below the other, branches told apart."""
    stages = list(_stages(expr, backend))
    lines = [
        line
        for i, (stage, planned) in enumerate(stages)
        for line in _stage_lines(stage, planned, is_first=i == 0)
    ]
    if len(lines) > MAX_LINES:
        lines = [*lines[: MAX_LINES - 1], f"… and {len(lines) - MAX_LINES + 1} more lines"]
    return [cut(line, MAX_CHARACTERS) for line in lines]


def _stages(expr: Expr, backend: PlannedBackend) -> Iterator[tuple[Expr, PlannedBackend | None]]:
    """Yield the stages that run one after another, each with what was planned for it."""
    if expr.name != "S" or expr.prefix or len(expr.phases) != 1:
        yield expr, backend
        return
    children = (
        backend.children if len(backend.children) == len(expr.children) else [None] * len(expr.children)
    )
    yield from zip(expr.children, children, strict=True)


def _stage_lines(expr: Expr, backend: PlannedBackend | None, *, is_first: bool) -> Iterator[str]:
    arrow = "" if is_first else "→ "
    if backend is not None and backend.is_condition and backend.name == expr.name and expr.children:
        yield f"{arrow}if {head_text(expr)}"
        for word, branch in zip(("then", "else"), expr.children, strict=False):
            yield from _indented(f"  {word} ", branch)
        return
    if expr.prefix and backend is not None and backend.condition is not None:
        arrow += f"if {prefix_text(expr)}: "
        expr = Expr(expr.name, args=expr.args, phases=expr.phases, span=expr.span)
    yield from _indented(arrow, expr)


def _indented(before: str, expr: Expr) -> Iterator[str]:
    """Yield an expression on one line, or, where that would be too long, with what it holds below it."""
    text = f"{before}{to_text(expr)}"
    margin = " " * (len(before) + 2)
    if num_cells(text) <= MAX_CHARACTERS or not expr.children:
        yield from _wrapped(text, margin)
        return
    yield from _wrapped(f"{before}{head_text(expr)}[", margin)
    for number, phase in enumerate(expr.phases):
        for position, child in enumerate(phase):
            is_end = position == len(phase) - 1
            mark = "]" if is_end and number == len(expr.phases) - 1 else ";" if is_end else ","
            *above, last = _indented(margin, child)
            yield from above
            yield f"{last}{mark}"


def _wrapped(text: str, margin: str) -> Iterator[str]:
    """Yield a text in lines, broken between arguments; one argument that is too long stays so."""
    while num_cells(text) > MAX_CHARACTERS:
        at = text.rfind(", ", len(margin), MAX_CHARACTERS) + 1
        if at == 0:
            break
        yield text[:at]
        text = f"{margin}{text[at:].lstrip()}"
    yield text


def draw_card(box: Box, card: Card, kind: str) -> str:
    """Return the box of a node; `kind`: further classes, for its colours."""
    assert box.node is not None
    width, height = box.width - card.sheets_px, box.height - card.sheets_px
    parts = [f"<title>{escape(f'{box.node.name}: {to_text(own_expression(box.node))}')}</title>"]
    for sheet in range(min(card.num_instances, MAX_SHEETS) - 1, -1, -1):
        x, y = box.x + sheet * SHEET_PX, box.y + sheet * SHEET_PX
        parts.append(_outline(card, kind if sheet == 0 else "sheet", x, y, width, height))
    x, y = box.x + PADDING_PX + (TIP_PX if card.is_condition else 0), box.y + PADDING_PX + LINE_PX * 0.75
    parts.append(text_line(card.name, x, y, "name", NAME_CHARACTER_PX))
    if card.badge:
        right = box.x + width - PADDING_PX - (TIP_PX if card.is_condition else 0)
        badge_px = text_px(card.badge) + 12
        parts.append(_pill("badge", right - badge_px, y - 13, badge_px))
        parts.append(text_line(card.badge, right - badge_px + 6, y, "badge-text"))
    for kind_of_line, lines in (("", card.lines), ("soft", card.notes)):
        for line in lines:
            y += LINE_PX
            parts.append(text_line(line, x, y, kind_of_line))
    if card.chip:
        y += 10
        parts.append(_pill("chip", x, y, text_px(card.chip) + 12))
        parts.append(text_line(card.chip, x + 6, y + 13, "chip-text"))
    return f"<g>{''.join(parts)}</g>"


def text_line(text: str, x: float, y: float, kind: str = "", character_px: float = CHARACTER_PX) -> str:
    """Return one line of text, held to its computed width so that another font cannot overflow the box."""
    if not text:
        return ""
    shown = text.lstrip()
    x += (len(text) - len(shown)) * character_px  # SVG drops spaces at the start
    name = f' class="{kind}"' if kind else ""
    length = f'textLength="{text_px(shown, character_px):.0f}" lengthAdjust="spacingAndGlyphs"'
    return f'<text{name} x="{x:.1f}" y="{y:.1f}" {length}>{escape(shown)}</text>'


def _pill(kind: str, x: float, y: float, width: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{CHIP_PX}" rx="9"/>'


def _outline(card: Card, kind: str, x: float, y: float, width: float, height: float) -> str:
    classes = f"box {kind}".strip()
    if not card.is_condition:
        size = f'width="{width:.1f}" height="{height:.1f}"'
        return f'<rect class="{classes}" x="{x:.1f}" y="{y:.1f}" {size} rx="8"/>'
    end, middle, bottom = x + width, y + height / 2, y + height
    corners = [
        (x + TIP_PX, y),
        (end - TIP_PX, y),
        (end, middle),
        (end - TIP_PX, bottom),
        (x + TIP_PX, bottom),
        (x, middle),
    ]
    points = " ".join(f"{one:.1f},{two:.1f}" for one, two in corners)
    return f'<polygon class="{classes}" points="{points}"/>'
