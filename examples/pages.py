"""The pictures that the examples and their tests read: one that scikit-image ships, and some drawn here."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

LINES = [
    "The quick brown fox jumps over 13 dogs",
    "A line that stands upside down here",
    "Pack my box with five dozen jugs",
    "Amount due within 30 days: 1,284.50",
]
UPSIDE_DOWN = 1


def png_bytes(image: Image.Image) -> bytes:
    """Return the picture as PNG, without a colour profile: OpenCV warns on stderr about some of them."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG", icc_profile=None)
    return buffer.getvalue()


def photographed_page() -> bytes:
    """Return scikit-image's `page`, a photograph of a printed page, as a file."""
    import skimage

    return png_bytes(Image.open(Path(skimage.__file__).parent / "data" / "page.png"))


def drawn_page(lines: list[str] = LINES, upside_down: int | None = UPSIDE_DOWN) -> bytes:
    """Return a page of lines in Pillow's own font, one of them turned by 180 degrees."""
    page = Image.new("RGB", (860, 40 + 90 * len(lines)), "white")
    font = ImageFont.load_default(32)
    for index, text in enumerate(lines):
        strip = Image.new("RGB", (820, 56), "white")
        ImageDraw.Draw(strip).text((12, 6), text, fill=(20, 20, 60), font=font)
        page.paste(strip.rotate(180) if index == upside_down else strip, (20, 24 + 90 * index))
    return png_bytes(page)


def blank_page() -> bytes:
    """Return a page without text."""
    return png_bytes(Image.new("RGB", (640, 400), (240, 240, 235)))


def turned(picture: bytes, clockwise_degrees: int) -> bytes:
    """Return the picture turned by a multiple of 90 degrees."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    return png_bytes(image.rotate(-clockwise_degrees, expand=True))
