"""Where the text is: a picture to the input of the DB text detector, and its answer to one crop per line.

Method: Liao et al., "Real-time Scene Text Detection with Differentiable Binarization" (AAAI 2020). Every step
keeps the numbers of the `rapidocr-onnxruntime` package 1.4.4, so that boxes and text come out the same.
`pipeline.toml` imports this module; its two backends stand before and after the model in node `detect`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import hami

try:
    import cv2
    import numpy as np
    import numpy.typing as npt
    import pyclipper

    from hami.backends.image.picture import as_picture
    from hami.backends.image.tensor import planes, tables
except ImportError as error:
    raise hami.ConfigError(
        f"the text detector cannot be loaded: {error}",
        code="family-missing",
        help="pip install hami-core[ocr]",
    ) from error

Array = npt.NDArray[Any]

SHORTEST_SIDE_PX, LONGEST_SIDE_PX = 30, 2000
LARGEST_PROPORTION = 8  # a picture wider than this many heights gets black bands above and below
STEP_PX = 32  # the network halves its input five times
SMALLEST_SIDE_PX = 3
SAME_LINE_PX = 10


@dataclass(frozen=True)
class Page:
    """The picture that the detector sees, and how its coordinates lead back to the caller's picture."""

    picture: Array
    scale_x: float
    scale_y: float
    top: int
    source_width: int
    source_height: int

    def to_source(self, box: Array) -> list[list[float]]:
        """Return the corners of a box as [x, y] in the caller's picture."""
        points = box.astype(np.float32) - np.float32([0, self.top])
        points *= np.float32([self.scale_x, self.scale_y])
        corners: list[list[float]] = points.clip(0, [self.source_width, self.source_height]).tolist()
        return corners


def round_to_step(length: float) -> int:
    """Return the multiple of 32 next to `length`, at least 32."""
    return max(STEP_PX, round(int(length) / STEP_PX) * STEP_PX)


def resize_sides(picture: Array, ratio: float) -> Array:
    """Scale a picture, both sides rounded to steps and kept below the bound."""
    height, width = (min(round_to_step(side * ratio), LONGEST_SIDE_PX) for side in picture.shape[:2])
    return cv2.resize(picture, (width, height))


def make_page(picture: Array) -> Page:
    """Bound both sides of a picture, and give a very flat one black bands."""
    source_height, source_width = picture.shape[:2]
    if max(picture.shape[:2]) > LONGEST_SIDE_PX:
        picture = resize_sides(picture, LONGEST_SIDE_PX / max(picture.shape[:2]))
    if min(picture.shape[:2]) < SHORTEST_SIDE_PX:
        picture = resize_sides(picture, SHORTEST_SIDE_PX / min(picture.shape[:2]))
    height, width = picture.shape[:2]
    scale_x, scale_y = source_width / width, source_height / height
    top = 0
    if height <= SHORTEST_SIDE_PX or width / height > LARGEST_PROPORTION:
        wanted_height = max(int(width / LARGEST_PROPORTION), SHORTEST_SIDE_PX) * 2
        top = abs(wanted_height - height) // 2
        picture = cv2.copyMakeBorder(picture, top, top, 0, 0, cv2.BORDER_CONSTANT, value=(0, 0, 0))
    return Page(picture, scale_x, scale_y, top, source_width, source_height)


def detector_size(height: int, width: int, shortest_side: int) -> tuple[int, int]:
    """Return height and width of the network's input: in steps, the shorter at least `shortest_side`.

    A picture higher than eight widths stays narrower, so that none costs more than a large page.
    """
    longest_side = LARGEST_PROPORTION * shortest_side
    ratio = max(1.0, min(shortest_side / min(height, width), longest_side / max(height, width)))
    return round_to_step(height * ratio), round_to_step(width * ratio)


def smallest_box(points: Array) -> tuple[Array, float]:
    """Return the corners of the smallest rotated rectangle, clockwise, and its shorter side."""
    rectangle = cv2.minAreaRect(points)
    corners = sorted(cv2.boxPoints(rectangle), key=lambda corner: float(corner[0]))
    top_left, bottom_left = sorted(corners[:2], key=lambda corner: float(corner[1]))
    top_right, bottom_right = sorted(corners[2:], key=lambda corner: float(corner[1]))
    return np.array([top_left, top_right, bottom_right, bottom_left]), min(rectangle[1])


def box_score(probability: Array, box: Array) -> float:
    """Return the mean probability inside a box."""
    height, width = probability.shape
    last = np.array([width - 1, height - 1])
    left, top = np.floor(box.min(0)).clip(0, last).astype(int)
    right, bottom = np.ceil(box.max(0)).clip(0, last).astype(int)
    mask = np.zeros((bottom - top + 1, right - left + 1), np.uint8)
    cv2.fillPoly(mask, [(box - np.float32([left, top])).astype(np.int32)], 1)
    return float(cv2.mean(probability[top : bottom + 1, left : right + 1], mask)[0])


def unclip(box: Array, ratio: float) -> Array | None:
    """Grow a box by area * ratio / perimeter: the network is trained on shrunk text regions."""
    following = np.roll(box.astype(np.float64), -1, 0)
    x, y = box.astype(np.float64).T
    area = abs(float(np.dot(x, following[:, 1]) - np.dot(y, following[:, 0]))) / 2
    perimeter = float(np.hypot(*(following - box).T).sum())
    offset = pyclipper.PyclipperOffset()
    offset.AddPath(box, pyclipper.JT_ROUND, pyclipper.ET_CLOSEDPOLYGON)
    paths = offset.Execute(area * ratio / perimeter)
    return np.array(paths[0], np.int32) if paths else None


def corners_clockwise(box: Array) -> Array:
    """Return four corners as top left, top right, bottom right, bottom left."""
    by_x = box[np.argsort(box[:, 0], kind="stable")]
    left = by_x[:2][np.argsort(by_x[:2, 1], kind="stable")]
    right = by_x[2:][np.argsort(by_x[2:, 1], kind="stable")]
    return np.array([left[0], right[0], right[1], left[1]], np.float32)


def find_boxes(
    probability: Array,
    height: int,
    width: int,
    threshold: float,
    box_threshold: float,
    ratio: float,
    limit: int,
) -> list[Array]:
    """Turn the detector's map into text boxes of a height x width picture, in reading order."""
    mask = cv2.dilate((probability > threshold).astype(np.uint8), np.ones((2, 2), np.uint8))
    contours, _ = cv2.findContours(mask * 255, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    to_picture = np.array([width / probability.shape[1], height / probability.shape[0]])
    boxes = []
    for contour in contours[:limit]:
        box, side = smallest_box(contour)
        if side < SMALLEST_SIDE_PX or box_score(probability, box) < box_threshold:
            continue
        grown = unclip(box, ratio)
        if grown is None:
            continue
        box, side = smallest_box(grown)
        if side < SMALLEST_SIDE_PX + 2:
            continue
        box = corners_clockwise(np.rint(box * to_picture).clip(0, [width, height]).astype(np.int32))
        box = box.clip(0, [width - 1, height - 1]).astype(np.float32)
        sides = np.linalg.norm(box[0] - box[1]), np.linalg.norm(box[0] - box[3])
        if min(int(side) for side in sides) > SMALLEST_SIDE_PX:
            boxes.append(box)
    return in_reading_order(boxes)


def in_reading_order(boxes: list[Array]) -> list[Array]:
    """Sort boxes from top to bottom; those whose tops differ by less than 10 pixels from left to right."""
    ordered = sorted(boxes, key=lambda box: (box[0][1], box[0][0]))
    for end in range(1, len(ordered)):
        for i in range(end, 0, -1):
            upper, lower = ordered[i - 1], ordered[i]
            if abs(lower[0][1] - upper[0][1]) >= SAME_LINE_PX or lower[0][0] >= upper[0][0]:
                break
            ordered[i - 1], ordered[i] = lower, upper
    return ordered


def crop(picture: Array, box: Array) -> Array:
    """Cut a box out of a picture and lay it flat; a column of text is turned to a row."""
    width = int(max(np.linalg.norm(box[0] - box[1]), np.linalg.norm(box[2] - box[3])))
    height = int(max(np.linalg.norm(box[0] - box[3]), np.linalg.norm(box[1] - box[2])))
    flat = np.float32([[0, 0], [width, 0], [width, height], [0, height]])
    line = cv2.warpPerspective(
        picture,
        cv2.getPerspectiveTransform(box, flat),
        (width, height),
        borderMode=cv2.BORDER_REPLICATE,
        flags=cv2.INTER_CUBIC,
    )
    return cv2.rotate(line, cv2.ROTATE_90_COUNTERCLOCKWISE) if height >= 1.5 * width else line


@hami.register
class DetectorInput(hami.Backend):
    """Turn a BGR picture into the detector's 3xHxW input, and keep the picture as `page` for `TextBoxes`."""

    group_by = "none"
    shortest_side = hami.param(736, min=32, unit="px", doc="smaller pictures are enlarged to it")

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        """Make the table pixel -> network value."""
        self.table = tables(1 / 255, [0.5], [0.5])

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Set `result` and `page` of every item."""
        for item in batch:
            page = make_page(as_picture(item["data"]))
            height, width = detector_size(*page.picture.shape[:2], self.shortest_side)
            item["result"] = planes(cv2.resize(page.picture, (width, height)), self.table)
            item["page"] = page


@hami.register
class TextBoxes(hami.Backend):
    """Turn the detector's map into a list of {`image`, `box`}: one flat crop per line of text."""

    group_by = "none"
    threshold = hami.param(0.3, min=0, max=1, doc="probability from which a pixel counts as text")
    box_threshold = hami.param(0.5, min=0, max=1, doc="mean probability from which a box is kept")
    unclip_ratio = hami.param(1.6, min=0, doc="how far a box grows: times its area over its perimeter")
    max_boxes = hami.param(1000, min=1, doc="further boxes are left out")

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Set `result` of every item, and take its `page` away."""
        for item in batch:
            page: Page = item.pop("page")
            probability = np.ascontiguousarray(np.asarray(item["data"]).reshape(np.shape(item["data"])[-2:]))
            boxes = find_boxes(
                probability,
                *page.picture.shape[:2],
                self.threshold,
                self.box_threshold,
                self.unclip_ratio,
                self.max_boxes,
            )
            item["result"] = [{"image": crop(page.picture, box), "box": page.to_source(box)} for box in boxes]
