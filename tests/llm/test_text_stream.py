"""Text while tokens come: the pieces are the whole, nothing is shown too early, and no stop text leaks."""

from __future__ import annotations

import random
from typing import Any

import pytest

from hami._core import TextStream, TokenTable
from hami.errors import RequestError

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def reference(data: bytes, stop: list[str], include_stop: bool = False) -> tuple[str, str | None]:
    """Decode all at once and cut at the stop text that ends first, the longest of those that end there."""
    text = data.decode("utf-8", errors="replace")
    for end in range(1, len(text) + 1):
        found = [each for each in stop if text[:end].endswith(each)]
        if found:
            longest = max(found, key=len)
            return text[: end if include_stop else end - len(longest)], longest
    return text, None


def pieces_of(rng: random.Random, data: bytes) -> list[bytes]:
    cuts = sorted(rng.choices(range(len(data) + 1), k=rng.randint(0, len(data))))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def stream_of(pieces: list[bytes], **settings: Any) -> tuple[list[str], TextStream]:
    stream = TextStream(TokenTable(pieces), **settings)
    shown = [stream.push(i) for i in range(len(pieces))]
    return [*shown, stream.flush()], stream


SAMPLES = [
    "plain text",
    "naïve café, Σίσυφος, Москва, 東京, 한국어",
    "👩‍👩‍👧‍👦 and 🇯🇵 and 𝔘𝔫𝔦𝔠𝔬𝔡𝔢",
    "\x00\n\t \u2028 é",
    REPLACEMENT * 3,
]


@pytest.mark.parametrize("text", SAMPLES)
def test_characters_over_several_tokens_are_held_back_until_they_are_whole(text: str) -> None:
    data = text.encode()
    shown, _ = stream_of([bytes([byte]) for byte in data])
    assert "".join(shown) == text
    assert sum(1 for piece in shown if piece) == len(text)
    if REPLACEMENT not in text:
        assert REPLACEMENT not in "".join(shown)


INVALID = [
    b"\xff",
    b"\x80",
    b"\xc3(",
    b"\xc0\x80",
    b"\xe0\x80\x80",
    b"\xe2\x82",
    b"\xe2\x82(",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x98",
    b"\xf0\x9f\x98(\x80",
    b"\xf0\x80\x80\x80",
    b"\xf4\x90\x80\x80",
    b"\xf5\x80",
    b"a\xf0\xf0\x9f\x98\x80b",
]


@pytest.mark.parametrize("data", INVALID)
def test_what_is_no_utf8_becomes_the_replacement_of_python(data: bytes) -> None:
    expected = data.decode("utf-8", errors="replace")
    assert "".join(stream_of([bytes([byte]) for byte in data])[0]) == expected
    assert "".join(stream_of([data])[0]) == expected
    assert TokenTable([data]).decode([0]) == expected


def test_random_bytes_in_random_pieces_are_the_text_of_the_whole() -> None:
    rng = random.Random(6)
    alphabet = [*"aé€😀".encode(), 0x80, 0xC3, 0xE2, 0xED, 0xF0, 0xF4, 0xFF, 0x41]
    for _ in range(3000):
        data = bytes(rng.choices(alphabet, k=rng.randint(0, 12)))
        assert "".join(stream_of(pieces_of(rng, data))[0]) == data.decode("utf-8", errors="replace")


def test_random_stops_in_random_pieces_cut_where_the_reference_cuts() -> None:
    rng = random.Random(7)
    num_stopped = 0
    for _ in range(6000):
        data = "".join(rng.choices("ab€", k=rng.randint(0, 14))).encode()
        stop = ["".join(rng.choices("ab€", k=rng.randint(1, 5))) for _ in range(rng.randint(0, 3))]
        include = rng.random() < 0.5
        text, stopped = reference(data, stop, include)
        shown, stream = stream_of(pieces_of(rng, data), stop=stop, include_stop=include)
        assert ("".join(shown), stream.stopped) == (text, stopped)
        num_stopped += stopped is not None
    assert 1000 < num_stopped < 5000


def test_nothing_is_shown_that_could_be_the_beginning_of_a_stop() -> None:
    rng = random.Random(8)
    for _ in range(2000):
        data = "".join(rng.choices("ab", k=rng.randint(1, 12))).encode()
        stop = ["".join(rng.choices("ab", k=rng.randint(1, 5))) for _ in range(rng.randint(1, 3))]
        text, _ = reference(data, stop)
        pieces = pieces_of(rng, data)
        stream = TextStream(TokenTable(pieces), stop=stop)
        shown = ""
        for i in range(len(pieces)):
            shown += stream.push(i)
            assert text.startswith(shown)
            seen = b"".join(pieces[: i + 1]).decode()
            if stream.stopped is None:  # no more is held back than must be
                held = seen[len(shown) :]
                assert held == "" or any(each.startswith(held) for each in stop)


def test_a_stop_over_several_tokens_does_not_leak_and_is_shown_when_it_does_not_match() -> None:
    shown, stream = stream_of([b"one ST", b"O", b"P two"], stop=["STOP"])
    assert (shown, stream.stopped) == (["one ", "", "", ""], "STOP")
    shown, stream = stream_of([b"one ST", b"O", b"NE"], stop=["STOP"])
    assert (shown, stream.stopped) == (["one ", "", "STONE", ""], None)
    shown, stream = stream_of([b"one ST", b"O"], stop=["STOP"])
    assert (shown, stream.stopped) == (["one ", "", "STO"], None)


def test_after_a_stop_nothing_is_shown() -> None:
    table = TokenTable([b"a", b"STOP b"])
    stream = TextStream(table, stop=["STOP"])
    assert [stream.push(i) for i in (0, 1, 0, 1)] == ["a", "", "", ""]
    assert (stream.flush(), stream.stopped) == ("", "STOP")


def test_the_stop_is_included_on_demand_and_nothing_behind_it() -> None:
    shown, _ = stream_of([b"a ST", b"OP b"], stop=["STOP"], include_stop=True)
    assert "".join(shown) == "a STOP"


def test_of_several_stops_the_one_that_ends_first_counts() -> None:
    for stop in (["abcd", "bc"], ["bc", "abcd"]):
        shown, stream = stream_of([b"xabcd"], stop=stop)
        assert ("".join(shown), stream.stopped) == ("xa", "bc")
    shown, stream = stream_of([b"xabc"], stop=["bc", "abc"])
    assert ("".join(shown), stream.stopped) == ("x", "abc")


def test_no_stops_hold_nothing_back() -> None:
    assert stream_of([b"a", b"b"], stop=[])[0] == ["a", "b", ""]


def test_a_stop_that_the_prompt_has_begun_does_not_count() -> None:
    shown, stream = stream_of([b"OP now"], stop=["STOP"])  # the prompt ended with `ST`
    assert ("".join(shown), stream.stopped) == ("OP now", None)


def test_special_tokens_are_shown_on_demand_only() -> None:
    table = TokenTable([b"a", b"<end>"], special_ids=[1])
    for skip, text in ((True, "aa"), (False, "a<end>a")):
        stream = TextStream(table, skip_special=skip)
        assert "".join([*(stream.push(i) for i in (0, 1, 0)), stream.flush()]) == text
        assert table.decode([0, 1, 0], skip_special=skip) == text


def test_the_first_space_of_a_text_is_stripped_on_demand_and_no_other() -> None:
    table = TokenTable([b" a", b"  ", b"", b"b"], strip_leading_space=True)
    assert table.decode([2, 0, 0]) == "a a"
    assert table.decode([1]) == " "
    assert table.decode([3, 0]) == "b a"
    assert TokenTable([b" a"]).decode([0]) == " a"


@pytest.mark.parametrize("id", [2, -1, 2**40])
def test_an_id_outside_of_the_table_is_named(id: int) -> None:
    table = TokenTable([b"a", b"b"])
    stream = TextStream(table)
    for use in (stream.push, table.bytes_of, lambda id: table.decode([0, id])):
        with pytest.raises(RequestError, match=f"`{id}`") as caught:
            use(id)
        assert caught.value.code == "llm-token-id"
    assert stream.push(1) == "b"
    with pytest.raises(RequestError, match="`2`"):
        TokenTable([b"a", b"b"], special_ids=[2])


def test_what_cannot_be_is_refused() -> None:
    table = TokenTable([b"a"])
    with pytest.raises(RequestError) as caught:
        TextStream(table, stop=["x", ""])
    assert caught.value.code == "llm-stop"
    with pytest.raises(TypeError, match="token 1 is no bytes but `str`"):
        TokenTable([b"a", "b"])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        TextStream(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="never made"):
        TextStream.__new__(TextStream).push(0)
    with pytest.raises(TypeError, match="never made"):
        TextStream(TokenTable.__new__(TokenTable))
    with pytest.raises(TypeError):
        TextStream(table).push("a")  # type: ignore[arg-type]
    with pytest.raises((UnicodeError, TypeError)):
        TextStream(table, stop=["\ud800"])


def test_a_stream_keeps_its_table() -> None:
    stream = TextStream(TokenTable([b"a"]))
    assert (stream.push(0), len(TokenTable([b"a", b"b"]))) == ("a", 2)
