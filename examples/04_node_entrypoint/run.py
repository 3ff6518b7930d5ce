"""Ask a hand-built pipeline and the default one the same eight questions.

Run: python examples/04_node_entrypoint/run.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import hami

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from pages import drawn_page, photographed_page, turned  # examples/pages.py

HERE = Path(__file__).resolve().parent


def answers(pipeline: Path, pictures: list[bytes]) -> list[dict[str, Any]]:
    """Return the results for all pictures, sent in one call."""
    with hami.pipe(pipeline) as pipe:
        return [answer["result"] for answer in pipe([{"data": picture} for picture in pictures])]


def main() -> None:
    """Print both answers for every picture."""
    pictures = [
        turned(page, angle) for page in (photographed_page(), drawn_page()) for angle in (0, 90, 180, 270)
    ]
    by_hand = answers(HERE / "pipeline.toml", pictures)
    default = answers(HERE.parent / "02_page_orientation" / "pipeline.toml", pictures)
    for one, other in zip(by_hand, default, strict=True):
        print(f"by hand {one['angle']:3}  default {other['angle']:3}")
    is_same = [one["angle"] for one in by_hand] == [other["angle"] for other in default]
    print("the two nodes give the same answers" if is_same else "the two nodes DIFFER")


if __name__ == "__main__":
    main()
