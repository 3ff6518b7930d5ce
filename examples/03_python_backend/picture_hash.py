"""A Python backend that works on whole batches: difference hashes, by which one finds near duplicates."""

from __future__ import annotations

from typing import Any

import numpy as np

import hami


@hami.register
class PictureHash(hami.Backend):
    """Hash small gray pictures: a bit for each pixel darker than its right neighbour, as hexadecimal text.

    Two pictures of the same scene (resized, recompressed, a little brighter) differ in few of the 64 bits.
    """

    batch_range = (1, 32)

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Hash all pictures of the batch in one numpy expression; `batch_size` tells how many there were."""
        pictures = np.stack([item["data"] for item in batch])  # of one shape: that is what `group_by` is for
        is_darker = pictures[:, :, :-1] < pictures[:, :, 1:]
        for item, bits in zip(batch, np.packbits(is_darker.reshape(len(batch), -1), axis=1), strict=True):
            item["result"] = bits.tobytes().hex()
            item["batch_size"] = len(batch)
