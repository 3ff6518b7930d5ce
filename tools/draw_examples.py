"""Draw the pictures of the examples, examples/*/pipeline.svg, as `hami show --svg` does.

Run: python tools/draw_examples.py   (after examples/fetch_models.py: a pipeline file asks for its models)
"""

from __future__ import annotations

from pathlib import Path

from hami.cli.svg import draw
from hami.plan import plan

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def picture_of(folder: Path) -> str:
    """Return the picture of an example."""
    return draw(plan(folder / "pipeline.toml"))


def main() -> None:
    """Write all pictures."""
    for file in sorted(EXAMPLES.glob("*/pipeline.toml")):
        (file.parent / "pipeline.svg").write_text(picture_of(file.parent), encoding="utf-8")
        print(f"draw-examples: {file.parent.name}/pipeline.svg")


if __name__ == "__main__":
    main()
