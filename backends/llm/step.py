"""One step's plan as tensors: what the models and the attention read of a `StepPlan`.

A plan's arrays are memory of the scheduler and valid until its next step; here they are copied, to the
device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Step:
    """T tokens in R rows; the first `num_decode_rows` rows have one token each.

    `pages` has the pages of every row, [R, pages of the longest], and `query_starts` and `context_lens` are
    lists on the host, since they decide shapes.
    """

    num_decode_rows: int
    token_ids: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    query_starts: list[int]
    context_lens: list[int]
    pages: torch.Tensor
    logit_tokens: torch.Tensor

    @property
    def num_rows(self) -> int:
        """Return the number of rows."""
        return len(self.context_lens)


def array(values: Any) -> np.ndarray[Any, Any]:
    """Return a plan's array, of whatever kind, as int64 of numpy; it is a copy."""
    return np.array(values, dtype=np.int64)


def step_of_plan(plan: Any, page_size: int, device: torch.device) -> Step:
    """Copy a plan to the device."""
    context_lens = array(plan.context_lens)
    longest = int(context_lens.max(initial=1))
    rows = array(plan.table_rows)
    pages = np.asarray(plan.page_table)[rows, : -(-longest // page_size)]

    def on_device(values: Any) -> torch.Tensor:
        return torch.from_numpy(array(values)).to(device, non_blocking=True)

    return Step(
        num_decode_rows=int(plan.num_decode_rows),
        token_ids=on_device(plan.token_ids),
        positions=on_device(plan.positions),
        slots=on_device(plan.slots),
        query_starts=array(plan.query_starts).tolist(),
        context_lens=context_lens.tolist(),
        pages=on_device(pages),
        logit_tokens=on_device(plan.logit_tokens),
    )
