"""Send texts through a tokenizer, a running batch and a detokenizer, and compare with the model as one node.

Run: python examples/08_language_model_in_parts/run.py [TEXT ...]
"""

from __future__ import annotations

import sys
from pathlib import Path

import hami

HERE = Path(__file__).resolve().parent
WHOLE = HERE.parent / "07_language_model" / "pipeline.toml"
TEXTS = ["The capital of France is", "1, 2, 3, 4,", "Once upon a time"]


def answers(config: Path, texts: list[str]) -> list[str]:
    """Return the answers of a pipeline, all texts sent at once."""
    with hami.pipe(config) as pipe:
        return [answer["result"] for answer in pipe([{"data": text} for text in texts])]


def main() -> None:
    texts = sys.argv[1:] or TEXTS
    apart, whole = answers(HERE / "pipeline.toml", texts), answers(WHOLE, texts)
    for text, answer in zip(texts, apart, strict=True):
        print(f"{text} ...\n  {answer.strip()}\n")
    print("the same as in one node:", "yes" if apart == whole else "NO")


if __name__ == "__main__":
    main()
