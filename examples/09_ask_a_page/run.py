"""Read a page with three vision models and answer a question about it with a language model, in one pipeline.

Run: python examples/09_ask_a_page/run.py [PICTURE [QUESTION]]
"""

from __future__ import annotations

import sys
from pathlib import Path

import hami

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from pages import drawn_page  # examples/pages.py

HERE = Path(__file__).resolve().parent
LINES = ["The train to Berlin leaves at 9 o'clock", "from platform 4."]
QUESTION = "Where does the train go?"


def main() -> None:
    picture = Path(sys.argv[1]).read_bytes() if len(sys.argv) > 1 else drawn_page(LINES, upside_down=None)
    question = sys.argv[2] if len(sys.argv) > 2 else QUESTION
    with hami.pipe(HERE / "pipeline.toml") as pipe:
        answer = pipe({"data": picture, "question": question})
    print(answer["page"])
    print(f"\n{question}\n  {answer['result'].strip()}")


if __name__ == "__main__":
    main()
