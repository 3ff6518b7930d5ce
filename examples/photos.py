"""The pictures of examples 05 and 06: photographs that scikit-image ships, and a page with two of them."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

# photograph -> the labels that are right for it
EXPECTED = {"coffee": ("espresso",), "chelsea": ("tabby, tabby cat", "tiger cat", "Egyptian cat")}

PAGE_SIZE_PX = (850, 1100)
# photograph -> left, top and width on the page
PLACES = {"coffee": (230, 290, 390), "chelsea": (230, 705, 390)}
PARAGRAPH_TOPS_PX = (150, 570, 985)
TITLE = "Notes on a quiet morning"
TEXT = (
    "The day begins with a cup of coffee and a cat that watches it cool down. Nothing is hurried here, and "
    "nobody asks for more. Light falls through the window onto the table, the paper and the cup. After a "
    "while the cat loses interest, turns around twice, and falls asleep where the sun has warmed the wood. "
)


def photo(name: str) -> Image.Image:
    """Return one of scikit-image's photographs, for example `coffee` or `chelsea`."""
    import skimage

    return Image.open(Path(skimage.__file__).parent / "data" / f"{name}.png").convert("RGB")


def jpeg_bytes(image: Image.Image) -> bytes:
    """Return the picture as a JPEG file."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=92)
    return buffer.getvalue()


def photo_bytes(name: str) -> bytes:
    """Return the photograph as a JPEG file."""
    return jpeg_bytes(photo(name))


def is_expected(name: str, label: str) -> bool:
    """Say whether a label is right for the photograph: coffee is an espresso, chelsea some kind of cat."""
    return label in EXPECTED[name]


def photo_box(name: str) -> list[float]:
    """Return where a photograph stands on the page: x1, y1, x2, y2 as fractions of it."""
    left, top, width = PLACES[name]
    picture = photo(name)
    height = width * picture.height / picture.width
    return [
        left / PAGE_SIZE_PX[0],
        top / PAGE_SIZE_PX[1],
        (left + width) / PAGE_SIZE_PX[0],
        (top + height) / PAGE_SIZE_PX[1],
    ]


def photo_page() -> bytes:
    """Return a printed page: a title, three paragraphs, and the two photographs between them."""
    page = Image.new("RGB", PAGE_SIZE_PX, "white")
    pen = ImageDraw.Draw(page)
    pen.text((90, 75), TITLE, fill="black", font=ImageFont.load_default(40))
    for top in PARAGRAPH_TOPS_PX:
        draw_paragraph(pen, top, TEXT)
    for name, (left, top, width) in PLACES.items():
        picture = photo(name)
        page.paste(picture.resize((width, round(width * picture.height / picture.width))), (left, top))
    return jpeg_bytes(page)


def draw_paragraph(pen: ImageDraw.ImageDraw, top: int, text: str) -> None:
    """Draw text in lines as wide as the page allows."""
    font, line = ImageFont.load_default(18), ""
    for word in text.split():
        if pen.textlength(f"{line} {word}", font=font) > PAGE_SIZE_PX[0] - 180:
            pen.text((90, top), line, fill="black", font=font)
            top, line = top + 25, ""
        line = f"{line} {word}".strip()
    pen.text((90, top), line, fill="black", font=font)
