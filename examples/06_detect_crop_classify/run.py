"""Find the photographs on a page and say what they show; draw what was found.

Run: python examples/06_detect_crop_classify/run.py [--output FILE] [PAGE ...]
"""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

import hami

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from photos import PLACES, is_expected, photo_box, photo_page  # examples/photos.py

HERE = Path(__file__).resolve().parent
COLOURS = {"figure": (200, 30, 60), "title": (20, 140, 70)}
OTHER_COLOUR = (20, 110, 200)
Regions = list[dict[str, Any]]


def caption(region: dict[str, Any]) -> str:
    """Return the kind of a region, or what a figure shows."""
    if "labels" not in region:
        return str(region["kind"])
    best = region["labels"][0]
    return f"{best['label']} ({best['probability']:.2f})"


def draw(page: bytes, regions: Regions) -> Image.Image:
    """Return the page with a box around each region."""
    image = Image.open(io.BytesIO(page)).convert("RGB")
    pen = ImageDraw.Draw(image)
    for region in regions:
        x1, y1, x2, y2 = region["box"]
        corners = (x1 * image.width, y1 * image.height, x2 * image.width, y2 * image.height)
        colour = COLOURS.get(region["kind"], OTHER_COLOUR)
        pen.rectangle(corners, outline=colour, width=3)
        pen.text((corners[0] + 6, corners[1] - 22), caption(region), colour, ImageFont.load_default(17))
    return image


def overlap(one: list[float], other: list[float]) -> float:
    """Return the area that two boxes share, over the area of both together."""
    width = max(0.0, min(one[2], other[2]) - max(one[0], other[0]))
    height = max(0.0, min(one[3], other[3]) - max(one[1], other[1]))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return width * height / (sum(areas) - width * height)


def is_found(name: str, regions: Regions) -> bool:
    """Say whether a figure stands where the photograph was put, and has a label that fits."""
    return any(
        overlap(region["box"], photo_box(name)) > 0.7 and is_expected(name, region["labels"][0]["label"])
        for region in regions
        if region["kind"] == "figure"
    )


def main() -> None:
    """Print the regions of every page, and write the pages with their boxes one above the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pages", nargs="*", type=Path, help="pages instead of the one that is made here")
    parser.add_argument("--output", type=Path, default=HERE / "out" / "page.png")
    options = parser.parse_args()
    for path in options.pages:
        if not path.is_file():
            parser.error(f"`{path}` is no file")
    if options.output.suffix.lower() not in Image.registered_extensions():
        parser.error(f"`{options.output}` does not end as a picture does: write .png")
    pages = {path.name: path.read_bytes() for path in options.pages} or {"the page": photo_page()}
    with hami.pipe(HERE / "pipeline.toml") as pipe:
        answers = pipe([{"data": page} for page in pages.values()])
    drawn = []
    for (name, page), answer in zip(pages.items(), answers, strict=True):
        print(f"{name}:")
        for region in answer["result"]:
            box = ", ".join(f"{edge:.2f}" for edge in region["box"])
            print(f"  {region['kind']:14} [{box}]  {region['score']:.2f}  {caption(region)}")
        drawn.append(draw(page, answer["result"]))
    if not options.pages:
        num_found = sum(is_found(name, answers[0]["result"]) for name in PLACES)
        print(f"{num_found} of {len(PLACES)} photographs found in their place, with the right label")
    sheet = Image.new("RGB", (max(one.width for one in drawn), sum(one.height for one in drawn)), "white")
    top = 0
    for one in drawn:
        sheet.paste(one, (0, top))
        top += one.height
    options.output.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(options.output)
    print(f"boxes drawn: {options.output}")


if __name__ == "__main__":
    main()
