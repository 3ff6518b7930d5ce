"""Plans of steps over shuffled pages, as the scheduler would make them: what tests feed the CPU decoder."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np


@dataclass
class Line:
    """A sequence: its pages and how many of its tokens are computed."""

    row: int
    pages: list[int] = field(default_factory=list)
    num_computed: int = 0


class Pages:
    """Hands out pages in random order, and makes the arrays of a plan."""

    def __init__(self, num_pages: int, page_size: int, max_rows: int, seed: int = 0) -> None:
        self.page_size, self.max_rows = page_size, max_rows
        self.free = list(range(1, num_pages))
        random.Random(seed).shuffle(self.free)
        self.max_pages = num_pages
        self.lines: list[Line] = []

    def line(self) -> Line:
        # rows of the table in an order of their own
        self.lines.append(Line(row=self.max_rows - 1 - len(self.lines)))
        return self.lines[-1]

    def plan(
        self, chunks: list[tuple[Line, list[int]]], logits: str = "last", **copies: object
    ) -> SimpleNamespace:
        """Return the plan that computes the next tokens of each line; `logits` of `last`, `all` or `none`."""
        token_ids: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        starts, contexts, wanted = [0], [], []
        table = np.zeros((self.max_rows, self.max_pages), np.int32)
        for line, ids in chunks:
            for token in ids:
                position = line.num_computed
                if position // self.page_size == len(line.pages):
                    line.pages.append(self.free.pop())
                token_ids.append(token)
                positions.append(position)
                slots.append(
                    line.pages[position // self.page_size] * self.page_size + position % self.page_size
                )
                line.num_computed += 1
            starts.append(len(token_ids))
            contexts.append(line.num_computed)
        for line in self.lines:
            table[line.row, : len(line.pages)] = line.pages
        if logits == "last":
            wanted = [start - 1 for start in starts[1:]]
        elif logits == "all":
            wanted = list(range(len(token_ids)))
        pairs = {name: np.array(copies.get(name, []), np.int32).reshape(-1, 2) for name in COPIES}
        return SimpleNamespace(
            token_ids=np.array(token_ids, np.int32),
            positions=np.array(positions, np.int32),
            slots=np.array(slots, np.int32),
            query_starts=np.array(starts, np.int32),
            context_lens=np.array(contexts, np.int32),
            table_rows=np.array([line.row for line, _ in chunks], np.int32),
            page_table=table,
            logit_tokens=np.array(wanted, np.int32),
            **pairs,
        )


COPIES = ("swap_out", "swap_in", "copies")
