"""The condition that tells pictures from other files, and the backend that joins both answers."""

from __future__ import annotations

from typing import Any

import hami

PICTURES = frozenset({"png", "jpeg", "bmp", "webp", "tiff"})


@hami.condition("is_picture")
def is_picture(item: dict[str, Any]) -> bool:
    """Say whether a file type is one that `DecodeImage` reads."""
    return item["data"]["label"] in PICTURES


@hami.register
class KindAndAngle(hami.Backend):
    """Join what is known of a file: its type in `data`, and for pictures in `found` which way up they are."""

    batch_range = (1, 64)
    group_by = "none"

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Set `result` of every item to the type, with `angle` in degrees where there is one."""
        for item in batch:
            angle = {"angle": item["found"]["angle"]} if "found" in item else {}
            item["result"] = {**item["data"], **angle}
