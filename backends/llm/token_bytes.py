"""Which bytes a token of a vocabulary stands for.

Vocabularies write bytes as characters, in one of two ways: byte-level BPE maps each byte to a printable
character, and SentencePiece writes a space as U+2581 and single bytes as `<0x0A>`. The tokenizer's decoder
says which.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_SPACE = "▁"
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def byte_characters() -> dict[str, int]:
    """Return the byte that each character of byte-level BPE stands for."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if byte not in set(printable)]
    return table | {chr(0x100 + number): byte for number, byte in enumerate(others)}


def _steps(decoder: Any) -> Iterator[dict[str, Any]]:
    """Yield the steps of a decoder as tokenizer.json writes it, those of a sequence one by one."""
    if isinstance(decoder, dict):
        if decoder.get("type") == "Sequence":
            for step in decoder.get("decoders") or ():
                yield from _steps(step)
        else:
            yield decoder


class TokenAlphabet:
    """Turns tokens into bytes; `strips_space` says whether the space before a text is taken off."""

    def __init__(self, decoder: Any) -> None:
        steps = {str(step.get("type")): step for step in _steps(decoder)}
        self.is_byte_level = "ByteLevel" in steps
        replaced = steps.get("Replace", {}).get("pattern") == {"String": _SPACE}
        self._spaces = replaced or "Metaspace" in steps
        self._fallback = "ByteFallback" in steps
        metaspace = steps.get("Metaspace", {})
        prepends = metaspace.get(
            "prepend_scheme", "always" if metaspace.get("add_prefix_space", True) else "never"
        )
        strip = steps.get("Strip", {})
        self.strips_space = bool(
            (metaspace and prepends != "never") or (strip.get("content") == " " and strip.get("start"))
        )
        self._table = byte_characters()

    def bytes_of(self, token: str) -> bytes:
        """Return the bytes of a token of the vocabulary (not of an added one)."""
        if self.is_byte_level:
            values = [self._table.get(character, -1) for character in token]
            return bytes(values) if -1 not in values else token.encode()
        if self._fallback and (match := _BYTE.fullmatch(token)):
            return bytes([int(match[1], 16)])
        return (token.replace(_SPACE, " ") if self._spaces else token).encode()
