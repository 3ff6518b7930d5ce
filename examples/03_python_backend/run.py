"""Find the near duplicates among some pictures. Run: python examples/03_python_backend/run.py"""

from __future__ import annotations

import io
from itertools import combinations
from pathlib import Path
from typing import Any

from PIL import Image, ImageEnhance

import hami

HERE = Path(__file__).resolve().parent


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    """Return the picture as a file."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def pictures() -> dict[str, bytes]:
    """Return three photographs of scikit-image, each also smaller, worse and brighter."""
    import skimage

    folder = Path(skimage.__file__).parent / "data"
    result = {}
    for name in ("astronaut", "chelsea", "coffee"):
        image = Image.open(folder / f"{name}.png").convert("RGB")
        result[name] = encoded(image, "PNG")
        result[f"{name}, smaller"] = encoded(image.resize((image.width // 3, image.height // 3)), "PNG")
        result[f"{name}, worse"] = encoded(image, "JPEG", quality=10)
        result[f"{name}, brighter"] = encoded(ImageEnhance.Brightness(image).enhance(1.15), "WEBP")
    return result


def num_different_bits(one: str, other: str) -> int:
    """Return in how many bits two hashes differ; below 10 of 64 usually means the same scene."""
    return (int(one, 16) ^ int(other, 16)).bit_count()


def main() -> None:
    """Hash all pictures in one call and print the pairs that look alike."""
    named = pictures()
    with hami.pipe(HERE / "pipeline.toml") as pipe:
        answers = pipe([{"data": data} for data in named.values()])
    hashes = {name: answer["result"] for name, answer in zip(named, answers, strict=True)}
    for name, answer in zip(named, answers, strict=True):
        print(f"{answer['result']}  {name:22} hashed in a batch of {answer['batch_size']}")
    print("\nnear duplicates:")
    for one, other in combinations(named, 2):
        if (distance := num_different_bits(hashes[one], hashes[other])) < 10:
            print(f"  {one} ~ {other} ({distance} bits)")


if __name__ == "__main__":
    main()
