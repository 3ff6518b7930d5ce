"""Laws of heads that ask for the same: only lines that say who asks, and never what, may differ."""

from __future__ import annotations

import string
from typing import Any

import pytest
from direct_requests import ask, post
from hypothesis import given
from hypothesis import strategies as st
from serving import answers_of, read_all

from hami import _core

REQUEST_LINE = b"POST /v1/pipeline HTTP/1.1\r\n"
LINES = [b"Host: x\r\n", b"Content-Type: image/png\r\n", b"Authorization: Bearer secret\r\n"]
PLAIN = REQUEST_LINE + b"".join(LINES) + b"\r\n"
PASSING = ["X-Request-Id", "traceparent", "tracestate", "b3", "X-B3-TraceId", "X-Forwarded-For", "x-real-ip"]
VALUES = st.text(string.ascii_letters + string.digits + " ,;=-/\t", max_size=40)


def cased(name: str, upper: list[bool]) -> str:
    """The name with each letter in either case."""
    return "".join(c.upper() if is_upper else c.lower() for c, is_upper in zip(name, upper, strict=False))


@st.composite
def passing_lines(draw: Any) -> bytes:
    name = draw(st.sampled_from(PASSING))
    shown = cased(name, draw(st.lists(st.booleans(), min_size=len(name), max_size=len(name))))
    return f"{shown}: {draw(VALUES)}\r\n".encode()


@given(st.lists(st.tuples(st.integers(0, len(LINES)), passing_lines()), max_size=6), st.binary(max_size=20))
def test_lines_that_pass_are_left_out_wherever_they_stand(
    passing: list[tuple[int, bytes]], body: bytes
) -> None:
    lines = list(LINES)
    for place, line in sorted(passing, key=lambda pair: -pair[0]):
        lines.insert(place, line)
    head = REQUEST_LINE + b"".join(lines) + b"\r\n"
    found = _core.read_head(head + body)
    assert found is not None
    assert found[:2] == (PLAIN, len(head))


@pytest.mark.parametrize(
    ("lines", "id"),
    [
        (b"X-Request-Id: mine\r\n", b"mine"),
        (b"x-request-ID:\t mine \t\r\n", b"mine"),
        (b"X-Request-Id: mine\r\nX-Request-Id: hers\r\n", b"mine"),
        (b"X-Request-Id: two words\r\nX-Request-Id: hers\r\n", b""),
        (b"X-Request-Id: \r\n", b""),
        (b"X-Request-Id: %b\r\n" % (b"a" * 129), b""),
        (b"X-Request-Id: %b\r\n" % (b"a" * 128), b"a" * 128),
        (b"X-Request: mine\r\n", b""),
    ],
)
def test_the_id_is_the_first_one_if_it_is_a_plain_word(lines: bytes, id: bytes) -> None:
    found = _core.read_head(REQUEST_LINE + lines + b"\r\n")
    assert found is not None
    assert found[2] == id


KEPT = {
    "a token": b"Authorization: Bearer other\r\n",
    "the beginning of a name that passes": b"X-Request: 1\r\n",
    "more than a name that passes": b"X-Request-Id-2: 1\r\n",
    "a space before the colon": b"X-Request-Id : 1\r\n",
    "no colon": b"X-Request-Id\r\n",
    "a bare end of a line": b"X-Request-Id: 1\nTransfer-Encoding: chunked\r\n",
    "a bare return": b"X-Request-Id: 1\rTransfer-Encoding: chunked\r\n",
    "a byte of zero": b"X-Request-Id: 1\x00\r\n",
    "no ASCII": b"X-Request-Id: \xc3\xa4\r\n",
}


@pytest.mark.parametrize("line", KEPT.values(), ids=KEPT)
def test_every_other_line_stays(line: bytes) -> None:
    found = _core.read_head(REQUEST_LINE + line + b"\r\n")
    assert found is not None
    assert found[0] == REQUEST_LINE + line + b"\r\n"


NONE = {
    "nothing": b"",
    "no end": PLAIN[:-2],
    "half an end": PLAIN[:-1],
    "a line that goes on": REQUEST_LINE + b"X-Request-Id: 1\r\n Transfer-Encoding: chunked\r\n\r\n",
    "one that goes on after a tab": REQUEST_LINE + b"Host: x\r\n\tmore\r\n\r\n",
    "too long a line": REQUEST_LINE + b"X-Request-Id: " + b"a" * _core.MOST_HEAD_BYTES + b"\r\n\r\n",
    "too many lines": REQUEST_LINE + b"traceparent: 1\r\n" * (_core.MOST_HEAD_BYTES // 16) + b"\r\n",
}


@pytest.mark.parametrize("data", NONE.values(), ids=NONE)
def test_what_is_no_whole_head_is_none(data: bytes) -> None:
    assert _core.read_head(data) is None


# --- on a server ---

NAMED = [post("/v1/pipeline", b"%03d" % number, Traceparent=str(number)) for number in range(6)]
BETWEEN = [
    post("/v1/pipeline", b"%03d" % number).replace(b"Host: x\r\n", b"b3: %d\r\nHost: x\r\n" % number)
    for number in range(6)
]


@pytest.mark.parametrize("requests", [NAMED, BETWEEN], ids=["at the end", "in front"])
def test_such_requests_go_the_express_way(
    serve: Any, taken: list[str], eventually: Any, requests: list[bytes]
) -> None:
    with serve("Identity").connect() as connection:
        for number, data in enumerate(requests):
            assert ask(connection, data).body == b"%03d" % number
    eventually(lambda: taken == ["direct"] + ["express"] * 4)


def test_what_one_has_taught_without_such_lines_serves_others_with_them(
    serve: Any, taken: list[str], eventually: Any
) -> None:
    with serve("Identity").connect() as connection:
        for _ in range(2):
            ask(connection, post("/v1/pipeline", b"abc"))
        for data in NAMED:
            assert ask(connection, data).status == 200
        assert ask(connection, post("/v1/pipeline", b"abc")).body == b"abc"
    eventually(lambda: taken == ["direct"] + ["express"] * 7)


SMUGGLED = {
    "chunks behind a bare end of a line": b"X-Request-Id: 1\nTransfer-Encoding: chunked\r\n",
    "a length that goes on": b"X-Request-Id: 1\r\n Content-Length: 0\r\n",
    "chunks": b"Transfer-Encoding: chunked\r\n",
    "another length": b"Content-Length: 1\r\n",
}


@pytest.mark.parametrize("lines", SMUGGLED.values(), ids=SMUGGLED)
def test_a_head_that_hides_something_is_read_by_the_parser(
    serve: Any, taken: list[str], lines: bytes
) -> None:
    served = serve("Identity")
    known = post("/v1/pipeline", b"abc")
    with served.connect() as connection:
        for _ in range(3):
            assert ask(connection, known).status == 200
    taken.clear()
    with served.connect() as connection:
        connection.sendall(known.replace(b"Host: x\r\n", b"Host: x\r\n" + lines))
        assert answers_of(read_all(connection)) == [400]
    assert taken == []


def test_another_token_opens_nothing_whatever_passes_beside_it(serve: Any, taken: list[str]) -> None:
    served = serve("Identity", token="secret")
    good = post("/v1/pipeline", b"x", Authorization="Bearer secret", Traceparent="1")
    with served.connect() as connection:
        for _ in range(3):
            assert ask(connection, good).status == 200
        for bad in (good.replace(b"secret", b"secres"), good.replace(b"Authorization", b"X-Request-Id")):
            assert ask(connection, bad).status == 401
