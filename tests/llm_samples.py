"""What the tests of the language models share: the fetched model, small random ones, and a planner by hand.

The planner stands in for the scheduler: it gives each sequence pages in a shuffled order and makes the plan
of any mix of rows that a test asks for, in the fields of docs/design/0008-the-language-model-in-rooms.md.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence as Items
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
SMOLLM2 = Path(
    os.environ.get("SMOLLM2_GGUF", ROOT / "examples" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf")
)
needs_smollm2 = pytest.mark.skipif(
    not SMOLLM2.is_file(), reason=f"needs {SMOLLM2}: run examples/fetch_models.py"
)


@dataclass
class Line:
    """One sequence: the tokens that are known, how many of them are computed, its pages and its row."""

    tokens: list[int]
    row: int
    computed: int = 0
    pages: list[int] = field(default_factory=list)


class Planner:
    """Hands out pages and makes plans."""

    def __init__(self, num_pages: int, page_size: int, *, max_running: int = 8, seed: int = 0) -> None:
        self.page_size = page_size
        self.free = list(range(1, num_pages))
        random.Random(seed).shuffle(self.free)
        self.table = np.zeros((max_running, num_pages), np.int32)
        self.lines: list[Line] = []

    def add(self, tokens: Items[int]) -> Line:
        """Begin a sequence."""
        line = Line(list(tokens), len(self.lines))
        self.lines.append(line)
        return line

    def plan(
        self, work: Items[tuple[Line, int]], *, all_logits: bool = False, **copies: Any
    ) -> SimpleNamespace:
        """Return the plan that computes so many tokens of each line; logits of the last token, or of all."""
        work = sorted(work, key=lambda pair: pair[1] > 1)
        ids: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        logits: list[int] = []
        starts = [0]
        for line, count in work:
            end = line.computed + count
            assert end <= len(line.tokens)
            while len(line.pages) * self.page_size < end:
                line.pages.append(self.free.pop())
            self.table[line.row, : len(line.pages)] = line.pages
            for position in range(line.computed, end):
                page, offset = divmod(position, self.page_size)
                ids.append(line.tokens[position])
                positions.append(position)
                slots.append(line.pages[page] * self.page_size + offset)
            line.computed = end
            logits += range(starts[-1] if all_logits else len(ids) - 1, len(ids))
            starts.append(len(ids))
        pairs = {name: copies.get(name, []) for name in ("swap_out", "swap_in", "copies")}
        return SimpleNamespace(
            num_rows=len(work),
            num_decode_rows=sum(count == 1 for _, count in work),
            num_tokens=len(ids),
            token_ids=view(ids),
            positions=view(positions),
            slots=view(slots),
            query_starts=view(starts),
            context_lens=view([line.computed for line, _ in work]),
            table_rows=view([line.row for line, _ in work]),
            page_table=memoryview(self.table),
            dirty_rows=view([line.row for line, _ in work]),
            logit_tokens=view(logits),
            **{name: memoryview(np.array(value, np.int32).reshape(-1, 2)) for name, value in pairs.items()},
        )


def view(values: Items[int]) -> memoryview:
    """Return what the scheduler gives: a read-only view of int32."""
    return memoryview(np.array(values, np.int32)).toreadonly()


def greedy(
    executor: Any, prompt: Items[int], count: int, *, chunk: int = 1 << 30, stop: Items[int] = ()
) -> list[int]:
    """Return the tokens that an executor gives greedily after `prompt`, computed in chunks."""
    planner = Planner(executor.num_pages, executor.page_size)
    line = planner.add(prompt)
    generated: list[int] = []
    while len(generated) < count and (not generated or generated[-1] not in stop):
        logits = executor.run(planner.plan([(line, min(chunk, len(line.tokens) - line.computed))]))
        if line.computed == len(line.tokens):
            generated.append(int(logits[-1].argmax()))
            line.tokens.append(generated[-1])
    return generated
