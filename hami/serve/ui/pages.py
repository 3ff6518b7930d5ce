"""The files of the page, read once, and the headers that keep the browser from doing more with them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

PAGE = "index.html"

HEADERS: Mapping[str, str] = {
    # blob: and data: are pictures that the user dropped, or that came in an answer
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}

_MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True)
class Page:
    """One file as it goes out."""

    content: bytes
    media_type: str
    etag: str


def load_pages() -> dict[str, Page]:
    """Return the files of `static/` by name."""
    pages = {}
    for file in (files(__package__) / "static").iterdir():
        media_type = _MEDIA_TYPES.get(file.name.rpartition(".")[2])
        if media_type is not None:
            content = file.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
            pages[file.name] = Page(content, media_type, etag)
    return pages
