"""What a drawing of a plan shows and where, whoever draws it: the command line as SVG, the server as a page.

Pure functions over a Plan; nothing here runs a pipeline.
"""

from __future__ import annotations

from .facts import condition_of, facts, own_backend, own_expression, parts_of, shorten
from .layout import Box, RegionLayout, lay_out
from .paths import Point, edge_points, enter_points, path_text, return_points

__all__ = [
    "Box",
    "Point",
    "RegionLayout",
    "condition_of",
    "edge_points",
    "enter_points",
    "facts",
    "lay_out",
    "own_backend",
    "own_expression",
    "parts_of",
    "path_text",
    "return_points",
    "shorten",
]
