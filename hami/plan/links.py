"""The small texts that connect nodes: `next = "a,b"` and `map = "src[src_key:dst_key,...],src2[...]"`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from ..config import NodeConfig, Setting
from ..errors import Span, did_you_mean, quoted
from .keys import NODE_PARAMS, convert_setting

INPUT = "input"
INPUT_INDEX = -1

_SOURCE = re.compile(r"\s*([^\[\],:]*?)\s*\[([^\[\]]*)\]\s*")
_FORM = 'write `map = "src[src_key:dst_key,...],src2[...]"`'


@dataclass(frozen=True)
class MapEntry:
    """The node's key `key` is `source_key` of node `source`, or of the caller where it is INPUT_INDEX."""

    source: int
    source_key: str
    key: str


def parse_next(node: NodeConfig, setting: Setting) -> list[tuple[str, Span | None]]:
    """Return the names in `next`, each with its place: text with commas between, or a list of texts."""
    value = setting.value
    if isinstance(value, str):
        found: list[tuple[str, Span | None]] = []
        at = 0
        for part in value.split(","):
            start = at + len(part) - len(part.lstrip())
            found.append((part.strip(), _place(setting, start, start + len(part.strip()))))
            at += len(part) + 1
        if found and not found[-1][0]:
            found.pop()  # a trailing comma, or an empty text: no successor
    elif isinstance(value, list) and all(isinstance(name, str) for name in value):
        found = [(name.strip(), setting.value_span) for name in value]
    else:
        message = f"`next` of node `{node.name}` must be names, got `{value!r}`"
        raise setting.error("plan-bad-next", message, 'write `next = "a,b"` or `next = ["a", "b"]`')
    if any(not name for name, _ in found):
        message = f"`next` of node `{node.name}` has an empty name"
        raise setting.error("plan-bad-next", message, "remove the extra comma")
    return found


def _place(setting: Setting, start: int, end: int) -> Span | None:
    return Span(setting.source, start, end) if setting.source is not None else setting.value_span


def parse_map(
    node: NodeConfig, setting: Setting, before: Mapping[str, int], nodes: Iterable[str]
) -> list[MapEntry]:
    """Return the entries of `map`. `before` holds the nodes that run before this one."""
    text = convert_setting(NODE_PARAMS["map"], setting)

    def fail(code: str, message: str, help: str, start: int, end: int) -> NoReturn:
        place = _place(setting, start, max(end, start + 1))
        raise place.error(code, message, help) if place else setting.error(code, message, help)

    entries: list[MapEntry] = []
    sources: set[str] = set()
    at = 0
    while True:
        match = _SOURCE.match(text, at)
        if match is None or not match[1]:
            fail("plan-bad-map", f"`map` of node `{node.name}` is no list of sources", _FORM, at, len(text))
        name, start = match[1], match.start(1)
        if name != INPUT and name not in before:
            known = [*before, INPUT]
            what = "does not run before it" if name in nodes else "is no node"
            message = f"`map` of node `{node.name}` names `{name}`, which {what}"
            help = did_you_mean(name, known, otherwise=f"use one of {quoted(known)}")
            fail("plan-unknown-map-source", message, help, start, match.end(1))
        if name in sources:
            fail(
                "plan-bad-map",
                f"`{name}` is twice in `map`",
                "put its keys into one pair of brackets",
                start,
                match.end(1),
            )
        sources.add(name)
        offset = match.start(2)
        for pair in match[2].split(","):
            keys = [key.strip() for key in pair.split(":")]
            if len(keys) != 2 or not all(keys):
                message = f"`{pair.strip()}` in `map` of node `{node.name}` is no pair of keys"
                fail("plan-bad-map", message, f"write `{name}[src_key:dst_key]`", offset, offset + len(pair))
            if any(entry.key == keys[1] for entry in entries):
                message = f"`map` of node `{node.name}` fills `{keys[1]}` twice"
                fail("plan-bad-map", message, "give one of them another name", offset, offset + len(pair))
            entries.append(MapEntry(before.get(name, INPUT_INDEX), keys[0], keys[1]))
            offset += len(pair) + 1
        at = match.end()
        if at == len(text):
            return entries
        if text[at] != ",":
            fail("plan-bad-map", f"unexpected `{text[at]}` in `map` of node `{node.name}`", _FORM, at, at + 1)
        at += 1
