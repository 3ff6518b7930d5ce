"""Schemas that the tests of constrained answers share, and parameters to draw answers with."""

from __future__ import annotations

from typing import Any

from hami.backends.llm.sampling import SamplingParams

PROMPT = "abcd"
WORD = {"type": "string", "maxLength": 6}
SCHEMAS: dict[str, Any] = {
    "numbers": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 4},
    "bounds": {"type": "integer", "minimum": -7, "maximum": 1234},
    "enum": {"enum": ["red", 5, None, True, {"a": [1.5]}]},
    "texts": {"type": "array", "items": {**WORD, "pattern": "^[a-z]{1,4}-[0-9]$"}, "maxItems": 3},
    "choice": {"anyOf": [{"type": "boolean"}, {"type": "null"}, {"type": "array", "maxItems": 0}]},
    "tuple": {"type": "array", "prefixItems": [{"const": "x"}, {"type": "integer"}], "items": False},
    "nested": {
        "type": "object",
        "properties": {
            "name": WORD,
            "at": {
                "type": "object",
                "properties": {"x": {"type": "integer"}, "y": {"type": "number"}},
                "required": ["x", "y"],
                "additionalProperties": False,
            },
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3},
        },
        "required": ["name", "at"],
        "additionalProperties": False,
    },
    "references": {
        "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 1}},
        "$ref": "#/$defs/tree",
    },
}


def drawn(max_tokens: int = 400, **keywords: Any) -> SamplingParams:
    return SamplingParams(max_tokens=max_tokens, seed=keywords.pop("seed", 1), **keywords)
