"""What a drawing of a plan shows and where, whoever draws it: the command line as SVG, the server as a page.

Pure functions over a Plan; nothing here runs a pipeline.
"""

from __future__ import annotations

from .columns import Box
from .facts import (
    batch_of,
    condition_of,
    facts,
    instances_of,
    keys_taken,
    own_backend,
    own_expression,
    parts_of,
    shorten,
    wait_ms_of,
)
from .layout import REGION_PADDING_PX, lay_out
from .paths import Point, edge_points, enter_points, path_text, return_points
from .pieces import ANSWER, INPUT, Back, Edge, Label, RegionLayout, Row, Style

__all__ = [
    "ANSWER",
    "INPUT",
    "REGION_PADDING_PX",
    "Back",
    "Box",
    "Edge",
    "Label",
    "Point",
    "RegionLayout",
    "Row",
    "Style",
    "batch_of",
    "condition_of",
    "edge_points",
    "enter_points",
    "facts",
    "instances_of",
    "keys_taken",
    "lay_out",
    "own_backend",
    "own_expression",
    "parts_of",
    "path_text",
    "return_points",
    "shorten",
    "wait_ms_of",
]
