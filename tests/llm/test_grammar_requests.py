"""A grammar is the business of its own request only: in company, under pressure, and when it is a bad one."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from llm_engines import EOS, WAIT_S, ByteTokenizer, fake_engine, fake_llm, greedy_params
from llm_grammars import PROMPT, SCHEMAS, drawn

pytest.importorskip("llguidance", reason="needs llguidance, which is not installed")
jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema, which is not installed")

import hami  # noqa: E402
from hami.backends.llm import grammar as grammars  # noqa: E402
from hami.backends.llm.async_llm import AsyncLLM  # noqa: E402
from hami.backends.llm.grammar import GrammarCache  # noqa: E402
from hami.backends.llm.jobs import Job  # noqa: E402
from hami.backends.llm.llm import LLM, _Answer  # noqa: E402
from hami.backends.llm.sampling import SamplingParams  # noqa: E402


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    with fake_llm(tokenizer=ByteTokenizer()) as model:
        yield model


# --- others, and pressure -------------------------------------------------------------------------


def test_the_free_get_the_same_tokens_in_the_company_of_the_constrained(llm: LLM) -> None:
    free = [greedy_params(30), drawn(30), drawn(30, top_p=0.9, seed=7), drawn(30, n=3)]
    alone = [llm.generate([PROMPT], params)[0] for params in free]
    bound = [drawn(json_schema=schema) for schema in SCHEMAS.values()]
    mixed = [each for pair in zip(free, bound, strict=False) for each in pair]
    together = llm.generate([PROMPT] * len(mixed), mixed)
    for answer, other in zip(alone, together[::2], strict=True):
        assert [each.token_ids for each in answer.outputs] == [each.token_ids for each in other.outputs]
    for answer, params in zip(together[1::2], bound, strict=False):
        jsonschema.validate(json.loads(answer.text), params.json_schema)


def test_forks_go_ways_of_their_own(llm: LLM) -> None:
    (answer,) = llm.generate([PROMPT], drawn(regex="(one|two){2}[0-9]{4}(x|yz)", n=8))
    texts = {output.text for output in answer.outputs}
    assert len(texts) > 4
    assert all(re.fullmatch("(one|two){2}[0-9]{4}(x|yz)", text) for text in texts)


def test_a_search_finds_what_the_grammar_has_and_no_more(llm: LLM) -> None:
    params = SamplingParams(beam_width=8, n=8, max_tokens=20, temperature=0, regex="red|green|blue|black")
    (answer,) = llm.generate([PROMPT], params)
    assert sorted(output.text for output in answer.outputs) == ["black", "blue", "green", "red"]
    assert {output.finish_reason for output in answer.outputs} == {"stop"}
    (answer,) = llm.generate(
        [PROMPT], SamplingParams(beam_width=2, n=2, max_tokens=20, temperature=0, regex="ab*")
    )
    assert all(re.fullmatch("ab*", output.text) for output in answer.outputs)


@pytest.mark.parametrize("preempt", ["recompute", "swap"])
def test_preemption_changes_nothing(llm: LLM, preempt: str) -> None:
    params = [drawn(regex="([a-z]{3} ){12}end", seed=seed) for seed in range(6)]
    params += [drawn(60, regex="[a-z]{20}(on|off){20}", n=3), drawn(60, json_schema=SCHEMAS["nested"])]
    prompts = [f"p{number:02}x" * 3 for number in range(len(params))]
    wanted = llm.generate(prompts, params)
    with fake_llm(tokenizer=ByteTokenizer(), page_size=4, num_pages=70, preempt=preempt) as pressed:
        found = pressed.generate(prompts, params)
        stats = pressed.stats()
    assert stats["num_preempted_" + preempt] > 0 and stats["pages_referenced"] == 0
    for answer, other in zip(wanted, found, strict=True):
        assert [each.token_ids for each in answer.outputs] == [each.token_ids for each in other.outputs]


# --- refusals -------------------------------------------------------------------------------------

DEEP = 50_000
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "an open group": ({"regex": "(ab"}, "unclosed group"),
    "a look-ahead": ({"regex": "a(?=b)"}, "look-ahead"),
    "a back-reference": ({"regex": r"(a)\1"}, "backreferences"),
    "deep groups": ({"regex": "(" * DEEP + ")" * DEEP}, ""),
    "half a character": ({"regex": "\ud800"}, "surrogates"),
    "an unknown type": ({"json_schema": {"type": "strin"}}, "Invalid type: strin"),
    "nothing fits": ({"json_schema": {"type": "integer", "minimum": 5, "maximum": 3}}, r"minimum \(5\)"),
    "an unknown keyword": ({"json_schema": {"type": "array", "uniqueItems": True}}, "uniqueItems"),
    "no schema": ({"json_schema": "3"}, "object or boolean"),
    "no JSON inside": ({"json_schema": {"enum": [{1, 2}]}}, "set"),
    "not a number": ({"json_schema": {"const": float("nan")}}, "JSON"),
    "a reference to nothing": ({"json_schema": {"$ref": "#/$defs/gone"}}, "gone"),
    "a reference outside": ({"json_schema": {"$ref": "https://example.com/x"}}, "example.com"),
    "a strange setting": ({"json_schema": {"x-guidance": 3}}, ""),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_grammar_fails_its_request_only(llm: LLM, name: str) -> None:
    values, needle = BAD[name]
    good, bad = _Answer(), _Answer()
    llm._engine.submit(Job([*b"abcd"], drawn(regex="[a-z]{9}"), good))
    llm._engine.submit(Job([*b"abcd"], drawn(**values), bad))
    error = bad.future.exception(0)  # it is there when `submit` returns
    assert isinstance(error, hami.RequestError) and error.code == "llm-grammar" and error.help
    assert re.search(needle, str(error)) and len(str(error)) < 600
    assert f"`{next(iter(values))}` is `" in str(error)
    assert len(good.future.result(WAIT_S).text) == 9


def test_deeply_nested_schemas_are_refused() -> None:
    text = '{"items":' * DEEP + "true" + "}" * DEEP
    with pytest.raises(hami.RequestError, match="json_schema"):
        SamplingParams(json_schema=text)


@pytest.mark.parametrize("search", [{}, {"beam_width": 3, "temperature": 0}])
def test_where_nothing_may_come_next_the_request_fails_and_others_go_on(
    llm: LLM, search: dict[str, Any]
) -> None:
    params = drawn(20, regex="[ab]{2}[cd]", allowed_token_ids=[*b"ab"], **search)
    with pytest.raises(hami.RequestError, match="no token is left") as caught:
        llm.generate([PROMPT] * 2, [params, greedy_params(30)])
    assert caught.value.code == "llm-no-token"
    assert llm.stats()["pages_referenced"] == 0
    assert len(llm.generate([PROMPT], greedy_params(3))[0].token_ids) == 3


def test_a_grammar_that_becomes_too_large_fails_its_request(
    llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grammars.GrammarState, "problem", "the grammar is too complex")
    params = drawn(20, regex="a[cd]", allowed_token_ids=[*b"a"])
    with pytest.raises(hami.RequestError, match="too complex"):
        llm.generate([PROMPT], params)


def test_without_a_tokenizer_there_is_no_grammar() -> None:
    with fake_llm() as model, pytest.raises(hami.RequestError, match="needs a tokenizer"):
        model.generate([[1, 2, 3]], drawn(regex="a"))


def test_without_the_package_its_name_is_in_the_error(llm: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(hami.RequestError, match="llguidance") as caught:
        llm.generate([PROMPT], drawn(regex="not compiled yet"))
    assert caught.value.code == "llm-grammar-missing"
    assert caught.value.help == "pip install hami-core[grammar]"


# --- compiling ------------------------------------------------------------------------------------


def test_a_grammar_is_compiled_once_by_the_caller(llm: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    compiled = GrammarCache._compile

    def noted(self: GrammarCache, *values: Any) -> Any:
        threads.append(threading.current_thread())
        return compiled(self, *values)

    monkeypatch.setattr(GrammarCache, "_compile", noted)
    for _ in range(3):
        llm.generate([PROMPT] * 2, drawn(regex="compiled once"))
    assert threads == [threading.current_thread()]


def test_the_grammars_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammars, "MAX_KEPT", 2)
    cache = GrammarCache(ByteTokenizer().token_bytes(), [EOS], [EOS])
    one, two = (cache.of(SamplingParams(regex=regex)) for regex in "ab")
    assert cache.of(SamplingParams(regex="a")) is one
    cache.of(SamplingParams(regex="c"))
    assert cache.of(SamplingParams(regex="a")) is one
    assert cache.of(SamplingParams(regex="b")) is not two


def test_asyncio_compiles_beside_the_loop_and_hears_of_a_bad_grammar(monkeypatch: pytest.MonkeyPatch) -> None:
    async def talk() -> None:
        async with AsyncLLM.of_engine(fake_engine(tokenizer=ByteTokenizer())) as model:
            assert (await model.agenerate(PROMPT, drawn(regex="yes"))).text == "yes"
            pieces = [update.text async for update in model.stream(PROMPT, drawn(regex="streamed"))]
            assert "".join(pieces) == "streamed"
            with pytest.raises(hami.RequestError, match="unclosed"):
                await model.agenerate(PROMPT, drawn(regex="("))

    asyncio.run(talk())


def test_masks_are_of_bytes_and_special_tokens_are_no_text() -> None:
    words = [b"<end>", b"ab", b"a", b"ab", b"", b"<|x|>", b"b", b"\xc3", b"\xc3\xa9"]
    cache = GrammarCache(words, [5], [0])

    def start(regex: str) -> Any:
        found = cache.of(SamplingParams(regex=regex))
        assert found is not None
        return found.start([0])

    def allowed(state: Any) -> list[int]:
        return list(state.mask().nonzero()[:, 0].tolist())

    assert allowed(start("ab+")) == [1, 2, 3]
    assert allowed(start("é")) == [7, 8]
    assert allowed(start(r"<\|x\|>")) == []
    state = start("(ab?)+")
    state.advance(2)
    other = state.fork()
    other.advance(6)
    assert (allowed(state), allowed(other)) == ([0, 1, 2, 3, 6], [0, 1, 2, 3])
    state.advance(0)
    assert state.is_complete and not other.is_complete
