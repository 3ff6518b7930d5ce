"""Keys and values of all layers on pages, and the copies between pages that a plan asks for.

A pool is a flat table of rows, one row a (slot, head of keys and values); `layout` says in which order they
lie: `token` for [page, offset, head], `head` for [page, head, offset]. Page 0 is the dummy that padding may
write. The executor's thread alone uses it.
"""

from __future__ import annotations

import torch

LAYOUTS = ("token", "head")


class KvPool:
    """The pages of one model on one device, and as many more on the host as may be swapped out."""

    def __init__(
        self,
        layers: int,
        num_pages: int,
        page_size: int,
        kv_heads: int,
        head_dim: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
        layout: str,
        num_swap_pages: int = 0,
    ) -> None:
        assert layout in LAYOUTS, layout
        self.page_size = page_size
        self.layout = layout
        self._kv_heads = kv_heads
        shape = (layers, num_pages, page_size * kv_heads, head_dim)
        # Zeros, since attention multiplies what is masked by 0, and not every bit pattern times 0 is 0.
        self._pages = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(2)]
        swap_shape = (layers, num_swap_pages, *shape[2:])
        pinned = device.type == "cuda"
        self._host = [torch.zeros(swap_shape, dtype=dtype, pin_memory=pinned) for _ in range(2)]
        self._heads = torch.arange(kv_heads, device=device)

    def rows(self, slots: torch.Tensor) -> torch.Tensor:
        """Return the rows of slots: [..., kv_heads]."""
        if self.layout == "token":
            return slots[..., None] * self._kv_heads + self._heads
        page, offset = slots // self.page_size, slots % self.page_size
        return (page[..., None] * self._kv_heads + self._heads) * self.page_size + offset[..., None]

    def keys(self, layer: int) -> torch.Tensor:
        """Return the rows of a layer's keys, [rows, head_dim], as a view."""
        return self._pages[0][layer].flatten(0, 1)

    def values(self, layer: int) -> torch.Tensor:
        """Return the rows of a layer's values, [rows, head_dim], as a view."""
        return self._pages[1][layer].flatten(0, 1)

    def paged(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a layer's keys and values in the shape of their layout, as views."""
        shape = (
            (self.page_size, self._kv_heads) if self.layout == "token" else (self._kv_heads, self.page_size)
        )
        keys, values = (part[layer].unflatten(1, shape) for part in self._pages)
        return keys, values

    def copy_pages(self, swap_out: torch.Tensor, swap_in: torch.Tensor, copies: torch.Tensor) -> None:
        """Copy pages, each [n, 2] of (from, to) on the host: to the host, from the host, on the device."""
        for device, host in zip(self._pages, self._host, strict=True):
            _copy(device, host, swap_out)
            _copy(host, device, swap_in)
            _copy(device, device, copies)


def _copy(source: torch.Tensor, target: torch.Tensor, pairs: torch.Tensor) -> None:
    if pairs.numel() == 0:
        return
    taken = source.index_select(1, pairs[:, 0].to(source.device))
    target.index_copy_(1, pairs[:, 1].to(target.device), taken.to(target.device))
