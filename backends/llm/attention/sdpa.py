"""The reference attention: torch's scaled dot product over gathered pages, on any device.

A row's keys and values are gathered through its pages, so nothing is concatenated and a layer's result
depends on that row alone. Rows of one token are taken together, padded to the longest; longer ones one by
one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812  its usual name

from ..kv_pool import KvPool
from ..step import Step

# Rows of one token are taken together up to so many gathered tokens: less than a long chunk takes, which is
# what the memory beside the pages is measured with.
MAX_GATHERED_TOKENS = 1 << 14


@dataclass(frozen=True)
class _Group:
    """Rows that are attended together: their tokens, the rows of the pool they see, and what is masked."""

    first: int
    end: int
    rows: torch.Tensor  # [rows of the plan, kv_heads, longest context]
    mask: torch.Tensor | None  # [rows of the plan, 1, tokens, longest context], True where a token is seen
    is_causal: bool = False


class SdpaAttention:
    """Attention through `scaled_dot_product_attention`."""

    def __init__(self, pool: KvPool, heads: int) -> None:
        self._pool = pool
        self._heads = heads
        self._groups: list[_Group] = []
        self._written = torch.empty(0, dtype=torch.int64)

    def prepare(self, step: Step) -> None:
        self._written = self._pool.rows(step.slots).flatten()
        self._groups = []
        begin = 0
        while begin < step.num_decode_rows:
            end, longest = begin, 0
            while end < step.num_decode_rows:
                longer = max(longest, step.context_lens[end])
                if end > begin and longer * (end + 1 - begin) > MAX_GATHERED_TOKENS:
                    break
                end, longest = end + 1, longer
            self._groups.append(self._decodes(step, begin, end, longest))
            begin = end
        self._groups += [self._chunk(step, row) for row in range(step.num_decode_rows, step.num_rows)]

    def _decodes(self, step: Step, begin: int, end: int, longest: int) -> _Group:
        device = step.pages.device
        places = torch.arange(longest, device=device)
        lens = torch.tensor(step.context_lens[begin:end], device=device)
        mask = places < lens[:, None]
        # Padding repeats the row's first token: what lies on pages beyond may be the NaN of another sequence.
        seen = torch.where(mask, places, 0)
        slots = self._slots(step.pages[begin:end], seen)
        is_padded = min(step.context_lens[begin:end]) < longest
        return _Group(
            step.query_starts[begin],
            step.query_starts[end],
            self._pool.rows(slots).transpose(1, 2).contiguous(),
            mask[:, None, None, :] if is_padded else None,
        )

    def _chunk(self, step: Step, row: int) -> _Group:
        first, end, context = step.query_starts[row], step.query_starts[row + 1], step.context_lens[row]
        places = torch.arange(context, device=step.pages.device)
        slots = self._slots(step.pages[row : row + 1], places[None])
        rows = self._pool.rows(slots).transpose(1, 2).contiguous()
        count = end - first
        if count == context:  # no prefix: the causal mask that is built in
            return _Group(first, end, rows, None, is_causal=True)
        own = torch.arange(context - count, context, device=places.device)
        return _Group(first, end, rows, (places <= own[:, None])[None, None])

    def _slots(self, pages: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        size = self._pool.page_size
        return pages.gather(1, places // size) * size + places % size

    def write(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        self._pool.keys(layer).index_copy_(0, self._written, keys.flatten(0, 1))
        self._pool.values(layer).index_copy_(0, self._written, values.flatten(0, 1))

    def attend(self, layer: int, queries: torch.Tensor) -> torch.Tensor:
        keys, values = self._pool.keys(layer), self._pool.values(layer)
        result = torch.empty_like(queries)
        for group in self._groups:
            shape = (*group.rows.shape, keys.shape[-1])
            index = group.rows.flatten()
            # [tokens, heads, head_dim] as [rows of the plan, heads, tokens of each, head_dim]
            query = queries[group.first : group.end].unflatten(0, (shape[0], -1)).transpose(1, 2)
            attended = F.scaled_dot_product_attention(
                query,
                keys.index_select(0, index).view(shape),
                values.index_select(0, index).view(shape),
                attn_mask=group.mask,
                is_causal=group.is_causal,
                enable_gqa=self._heads != shape[1],
            )
            result[group.first : group.end] = attended.transpose(1, 2).flatten(0, 1)
        return result
