"""The body of a request, as a whole and as its client meant it."""

from __future__ import annotations

import zlib

from fastapi import Request
from fastapi.concurrency import run_in_threadpool

from .refusal import ServeError
from .settings import Settings

_SMALL_BYTES = 4096  # what unpacks, to a thousand times that at most, faster than a thread takes it over
_WINDOWS = {"gzip": 31, "deflate": 15}  # what zlib calls the form of the stream


async def read_body(request: Request, settings: Settings) -> bytes:
    """Return the body, unpacked where its client packed it. Raises ServeError: too large, or broken."""
    body = await request.body()
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding == "identity":
        return body
    if len(body) <= _SMALL_BYTES:
        return _unpacked(body, encoding, settings.max_body_bytes)
    return await run_in_threadpool(_unpacked, body, encoding, settings.max_body_bytes)


def _unpacked(body: bytes, encoding: str, max_bytes: int) -> bytes:
    if encoding not in _WINDOWS:
        message = f"the body has the encoding `{encoding[:40]}`, which the server does not read"
        help = "send it as it is, or with `Content-Encoding: gzip`"
        raise ServeError(message, status=415, code="serve-content-encoding", help=help)
    unpacker = zlib.decompressobj(_WINDOWS[encoding])
    try:
        unpacked = unpacker.decompress(body, max_bytes + 1)
    except zlib.error:
        unpacked = b""
    if len(unpacked) > max_bytes:
        message = f"the unpacked body is larger than {max_bytes} bytes"
        help = "send less at a time, or start the server with a larger `--max-body-bytes`"
        raise ServeError(message, status=413, code="serve-body-size", help=help)
    if not unpacker.eof or unpacker.unused_data:
        help = "send what the encoding says, once and complete"
        raise ServeError(f"the body is no {encoding}", code="serve-content-encoding", help=help)
    return unpacked
