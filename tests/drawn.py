"""What a picture of a plan holds, read back from its SVG: boxes, labels, frames, lines, what touches what."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

from planning import node

from hami.plan import Plan, plan

SVG = "{http://www.w3.org/2000/svg}"
STEPS = 16
"""Into how many pieces a curve is cut."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Rect:
    """An upright rectangle."""

    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: Rect, by: float = 0.5) -> bool:
        """Say whether both share more than a border."""
        is_beside = self.x + self.width <= other.x + by or other.x + other.width <= self.x + by
        return not is_beside and not (
            self.y + self.height <= other.y + by or other.y + other.height <= self.y + by
        )

    def holds(self, point: Point, by: float = 0.5) -> bool:
        """Say whether a point lies inside, not on the border."""
        x, y = point
        return self.x + by < x < self.x + self.width - by and self.y + by < y < self.y + self.height - by

    def contains(self, other: Rect, by: float = 0.5) -> bool:
        """Say whether another one lies inside."""
        return (
            self.x <= other.x + by
            and self.y <= other.y + by
            and other.x + other.width <= self.x + self.width + by
            and other.y + other.height <= self.y + self.height + by
        )

    def touches(self, point: Point, by: float = 1.0) -> bool:
        """Say whether a point lies on the border."""
        wide = Rect(self.x - by, self.y - by, self.width + 2 * by, self.height + 2 * by)
        return wide.holds(point, 0.0) and not self.holds(point, by)


@dataclass
class Line:
    """An edge: its class, and points along it."""

    kind: str
    points: list[Point]


@dataclass
class Picture:
    """Everything in a drawing that has a place; `boxes` are nodes with what stands behind, by their name."""

    size: Rect
    boxes: dict[str, Rect] = field(default_factory=dict)
    labels: list[Rect] = field(default_factory=list)
    ends: list[Rect] = field(default_factory=list)
    frames: list[Rect] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    texts: list[tuple[str, Rect]] = field(default_factory=list)
    texts_of: dict[str, list[str]] = field(default_factory=dict)
    kinds: dict[str, set[str]] = field(default_factory=dict)
    root: Any = None

    @property
    def solid(self) -> list[Rect]:
        """What nothing may cover: boxes, labels and ends."""
        return [*self.boxes.values(), *self.labels, *self.ends]

    def says(self, text: str) -> bool:
        """Say whether a line of text is in the picture."""
        return any(text == line for line, _ in self.texts)


def read(text: str) -> Picture:
    """Read an SVG document that hami drew."""
    root = ElementTree.fromstring(text)
    picture = Picture(Rect(0, 0, float(root.get("width", 0)), float(root.get("height", 0))), root=root)
    for element in root.iter(f"{SVG}text"):
        picture.texts.append((element.text or "", _text_rect(element)))
    for element in root.iter(f"{SVG}path"):
        if not str(element.get("class")).endswith("-head"):
            picture.lines.append(Line(str(element.get("class")), list(_points_of(str(element.get("d"))))))
    for group in root.iter(f"{SVG}g"):
        _read_group(group, picture)
    for element in root.iter(f"{SVG}rect"):
        kinds = str(element.get("class")).split()
        if "end" in kinds:
            picture.ends.append(_rect(element))
        elif "frame" in kinds:
            picture.frames.append(_rect(element))
    return picture


def _read_group(group: Any, picture: Picture) -> None:
    outlines = [one for one in group if {"box", "label"} & set(str(one.get("class")).split())]
    title = group.find(f"{SVG}title")
    if title is None:
        picture.labels.append(_rect(outlines[0]))
        return
    name = str(title.text).partition(": ")[0]
    picture.boxes[name] = _around([_rect(one) for one in outlines])
    picture.kinds[name] = set(str(outlines[-1].get("class")).split()) - {"box"}
    picture.texts_of[name] = [str(one.text) for one in group.iter(f"{SVG}text")]


def _rect(element: Any) -> Rect:
    if element.tag == f"{SVG}polygon":
        corners = [tuple(map(float, pair.split(","))) for pair in str(element.get("points")).split()]
        xs, ys = zip(*corners, strict=True)
        return Rect(min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys))
    return Rect(*(float(element.get(name)) for name in ("x", "y", "width", "height")))


def _text_rect(element: Any) -> Rect:
    return Rect(float(element.get("x")), float(element.get("y")) - 10, float(element.get("textLength")), 12)


def _around(rects: list[Rect]) -> Rect:
    x, y = min(one.x for one in rects), min(one.y for one in rects)
    end_x = max(one.x + one.width for one in rects)
    return Rect(x, y, end_x - x, max(one.y + one.height for one in rects) - y)


def _points_of(path: str) -> Iterator[Point]:
    """Yield points along a path of cubic curves, close to each other."""
    numbers = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", path)]
    corners = list(zip(numbers[::2], numbers[1::2], strict=True))
    yield corners[0]
    for first in range(0, len(corners) - 1, 3):
        one, two, three, four = corners[first : first + 4]
        for step in range(1, STEPS + 1):
            t = step / STEPS
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            x, y = (
                sum(w * point[i] for w, point in zip(weights, (one, two, three, four), strict=True))
                for i in (0, 1)
            )
            yield x, y


# --- what is wrong with a picture ---


def faults(picture: Picture) -> list[str]:
    """Return every law of a good picture that this one breaks, in words."""
    return [*_overlaps(picture), *_cut_boxes(picture), *_loose_texts(picture), *_outside(picture)]


def _overlaps(picture: Picture) -> Iterator[str]:
    solid = picture.solid
    for i, one in enumerate(solid):
        for other in solid[i + 1 :]:
            if one.overlaps(other):
                yield f"{one} overlaps {other}"


def _cut_boxes(picture: Picture) -> Iterator[str]:
    """A line passes a box only where it begins or ends, and a label only where it is its own: level."""
    for line in picture.lines:
        start, end = line.points[0], line.points[-1]
        for rect in [*picture.boxes.values(), *picture.ends]:
            is_own = rect.touches(start) or rect.touches(end)
            inside = [point for point in line.points if rect.holds(point)]
            if inside and not (is_own and all(_is_near_end(point, start, end) for point in inside)):
                yield f"{line.kind} from {start} to {end} passes through {rect}"
        for label in picture.labels:
            ys = {round(y, 1) for x, y in line.points if label.holds((x, y))}
            if ys and not (len(ys) == 1 and abs(ys.pop() - label.y - label.height / 2) < 1):
                yield f"{line.kind} from {start} to {end} passes through the label {label}"


def _is_near_end(point: Point, start: Point, end: Point) -> bool:
    return any(abs(point[0] - x) + abs(point[1] - y) < 2 for x, y in (start, end))


def _loose_texts(picture: Picture) -> Iterator[str]:
    """A text lies inside one box, label or end, or covers none."""
    for text, rect in picture.texts:
        holders = [one for one in picture.solid if one.overlaps(rect, 1)]
        if any(not one.contains(rect, 1) for one in holders):
            yield f"`{text}` leaves its box"
    for i, (text, rect) in enumerate(picture.texts):
        for other, beside in picture.texts[i + 1 :]:
            if rect.overlaps(beside, 1.5):
                yield f"`{text}` overlaps `{other}`"


def _outside(picture: Picture) -> Iterator[str]:
    for rect in [*picture.solid, *picture.frames, *(rect for _, rect in picture.texts)]:
        if not picture.size.contains(rect):
            yield f"{rect} is outside of the picture"
    for line in picture.lines:
        if not all(picture.size.holds(point, -1) for point in line.points):
            yield f"{line.kind} leaves the picture"


def num_crossings(picture: Picture) -> int:
    """Return how often lines cross that do not begin or end in one place."""
    found = 0
    for i, one in enumerate(picture.lines):
        for other in picture.lines[i + 1 :]:
            if not {one.points[0], one.points[-1]} & {other.points[0], other.points[-1]}:
                found += sum(
                    _do_cross(a, b, c, d)
                    for a, b in pairwise(one.points[:: STEPS // 4])
                    for c, d in pairwise(other.points[:: STEPS // 4])
                )
    return found


def _do_cross(a: Point, b: Point, c: Point, d: Point) -> bool:
    def side(p: Point, q: Point, r: Point) -> float:
        return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])

    return side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0


def contrast(one: str, other: str) -> float:
    """Return how well two colours such as `#1c2733` are told apart; WCAG 2 asks for 4.5 where text is."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    channels = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels)
    return sum(weight * one for weight, one in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


# --- random graphs ---

BACKENDS = ("Pow", "S[Identity, Pow, Identity]", "HasKey(key)", "HasKey(key)[Identity, Pow]")


def random_plan(seed: int) -> Plan:
    """Return a connected graph with joins, long edges, conditions, edges back, and nested subgraphs."""
    random_ = random.Random(seed)
    source: dict[str, Any] = {}
    names = _random_region(source, random_, "n", random_.randint(2, 12))
    for number in range(random_.randint(0, 3)):
        owner = random_.choice(names)
        if {"ForEach", "Restart"} & set(source[owner]["backend"].partition("(")[::2]):
            continue
        source[owner]["backend"] = f"ForEach(target=s{number}_0)"
        inner = _random_region(source, random_, f"s{number}_", random_.randint(1, 5), has_one_root=True)
        names += inner
    leaves = [name for name in source if name.startswith("n") and not _leads_on(source[name])]
    fanout = {"fanout": "roots"} if random_.random() < 0.5 else {}
    return plan({**source, "output": leaves[0], **fanout})


def _leads_on(table: dict[str, Any]) -> bool:
    """Say whether a node has successors; the last one of a Restart is where it leads back."""
    return len(table["next"]) > (table["backend"] == "Restart")


def _random_region(
    source: dict[str, Any], random_: random.Random, prefix: str, count: int, *, has_one_root: bool = False
) -> list[str]:
    """Add nodes to the source and return their names; a subgraph has one leaf and one root."""
    before: dict[int, set[int]] = {i: set() for i in range(count)}
    for index in range(1, count):
        for previous in random_.sample(range(index), min(index, random_.randint(1, 3))):
            before[index].add(previous)
    if has_one_root:
        used = {previous for all_before in before.values() for previous in all_before}
        before[count - 1] |= set(range(count - 1)) - used
    names = [f"{prefix}{i}" for i in range(count)]
    for index, name in enumerate(names):
        following = [names[later] for later in range(count) if index in before[later]]
        far = {far for previous in before[index] for far in before[previous]} - before[index]
        taken = before[index] | far if random_.random() < 0.3 else before[index]
        sources = [f"{names[previous]}[result:k{previous}]" for previous in taken]
        sources += ["input[data:sent]"] if random_.random() < 0.2 else []
        more: dict[str, Any] = {"map": ",".join(sources)} if len(sources) > 1 else {}
        more |= {"max": 8} if random_.random() < 0.3 else {}
        more |= {"instance_num": 3} if random_.random() < 0.3 else {}
        backend = random_.choice(BACKENDS if following else BACKENDS[:2])
        source[name] = node(following, backend, **more)
    at = random_.randrange(count)
    if len(before[at]) == 1 and random_.random() < 0.6:
        (previous,) = before[at]
        again = names[random_.choice([previous, at])]
        source[names[at]] |= {"backend": "Restart", "next": [*source[names[at]]["next"], again]}
    return names
