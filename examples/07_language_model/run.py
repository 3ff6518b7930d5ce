"""Ask a language model: one answer word by word, then many at once.

Run: python examples/07_language_model/run.py [PROMPT ...]
"""

from __future__ import annotations

import sys
from pathlib import Path

import hami

HERE = Path(__file__).resolve().parent
QUESTIONS = ["What is the capital of France?", "Name a colour of the sky.", "How many legs has a spider?"]


def chat(question: str) -> list[dict[str, str]]:
    """Return a chat of one message."""
    return [{"role": "user", "content": question}]


def main() -> None:
    questions = sys.argv[1:] or QUESTIONS
    with hami.pipe(HERE / "pipeline.toml") as pipe:
        print(f"{questions[0]}\n  ", end="")
        for piece in pipe.stream({"data": chat(questions[0])}):
            print(piece.replace("\n", "\n  "), end="", flush=True)
        print()
        # Each request joins the running batch at the next step and leaves it when it has ended.
        futures = [pipe.submit({"data": chat(question)}) for question in questions]
        for question, future in zip(questions, futures, strict=True):
            answer = future.result()
            usage, timing = answer["usage"], answer["timing"]
            print(f"\n{question}\n  {answer['result'].strip()}")
            print(
                f"  [{answer['finish_reason']}: "
                f"{usage['prompt_tokens']} + {usage['completion_tokens']} tokens, "
                f"first after {timing['first_token_ms']:.0f} ms, all after {timing['total_ms']:.0f} ms]"
            )


if __name__ == "__main__":
    main()
