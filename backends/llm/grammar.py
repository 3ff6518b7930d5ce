"""Grammars of answers: which tokens may come next, so that the whole is JSON of a schema, or matches a regex.

The library llguidance does the parsing; no other module knows it. Grammars are compiled on the threads of
those who submit requests, and kept for the next request that asks for the same; the state of one answer
belongs to the engine's thread.
"""

from __future__ import annotations

import copy
import json
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hami.errors import RequestError

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

    from .sampling import SamplingParams
    from .sampling_state import SamplingState

MAX_KEPT = 128
"""So many compiled grammars a vocabulary keeps, those used last."""

JSON_STYLE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""JSON is written as `json.dumps` does: a model that may put spaces anywhere may put spaces for ever."""

_OPTIONS = '%llguidance {"no_forcing": true}\nstart: '  # no tokenizer is asked how a text is usually cut


class Grammar:
    """A compiled grammar; `start` gives the state of an answer that has no tokens yet."""

    def __init__(self, matcher: LLMatcher, vocab_size: int, eos_ids: Collection[int]) -> None:
        self._matcher = matcher
        self._vocab_size = vocab_size
        self._eos_ids = frozenset(eos_ids)

    def start(self, stop_ids: Iterable[int]) -> GrammarState:
        """Return the state of a new answer, which `stop_ids` may end where the grammar is satisfied."""
        return GrammarState(self._matcher.deep_copy(), self._vocab_size, frozenset(stop_ids), self._eos_ids)


class GrammarState:
    """How far an answer has come. `is_complete`: it satisfies its grammar, and nothing may follow."""

    def __init__(
        self, matcher: LLMatcher, vocab_size: int, stop_ids: frozenset[int], eos_ids: frozenset[int]
    ) -> None:
        self._matcher = matcher
        self._is_shared = False  # copied before it is changed
        self._vocab_size = vocab_size
        self._stop_ids = stop_ids
        self._eos_ids = eos_ids
        self._mask: torch.Tensor | None = None
        self.is_complete = False

    def fork(self) -> GrammarState:
        """Return the state of another answer that goes on from here."""
        self._is_shared = True
        return copy.copy(self)

    def mask(self) -> torch.Tensor:
        """Return which tokens may come next, as bools [vocab]; none after a problem."""
        if self._mask is None:
            self._mask = self._next_mask()
        return self._mask

    def advance(self, token: int) -> None:
        """Take note of a token of the answer."""
        if token in self._eos_ids or (token in self._stop_ids and not self._may_follow(token)):
            self.is_complete = True
            return
        if self._is_shared:
            self._matcher, self._is_shared = self._matcher.deep_copy(), False
        self._mask = None
        self._matcher.consume_token(token)
        self.is_complete = self._matcher.is_stopped() and not self._matcher.is_error()

    @property
    def problem(self) -> str:
        """Return why the grammar cannot go on, if it has become too large; else an empty text."""
        return _first_line(self._matcher.get_error()) if self._matcher.is_error() else ""

    def _may_follow(self, token: int) -> bool:
        return bool(self._matcher.validate_tokens([token]) == 1)

    def _next_mask(self) -> torch.Tensor:
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        allowed = np.unpackbits(bits, count=self._vocab_size, bitorder="little").view(np.bool_)
        if self._matcher.is_error():
            allowed[:] = False
        elif self._matcher.is_accepting():
            ends = self._stop_ids
            if not allowed.any():  # only the end is left, even for those who would ignore it
                ends |= self._eos_ids
            allowed[list(ends)] = True
        return torch.from_numpy(allowed)


class GrammarCache:
    """Compiles grammars for one vocabulary, and keeps them. Any thread may use it."""

    def __init__(
        self, token_bytes: Sequence[bytes], special_ids: Iterable[int], eos_ids: Collection[int]
    ) -> None:
        self._words = list(token_bytes)
        self._eos_ids = frozenset(eos_ids)
        self._special_ids = self._eos_ids.union(special_ids)
        self._lock = threading.Lock()
        self._tokenizer: LLTokenizer | None = None
        self._kept: OrderedDict[str, Grammar] = OrderedDict()

    def of(self, params: SamplingParams) -> Grammar | None:
        """Return the grammar that a request asks for. RequestError if it cannot be served."""
        if not params.has_grammar:
            return None
        source = _source(params)
        with self._lock:
            if source in self._kept:
                self._kept.move_to_end(source)
                return self._kept[source]
        grammar = self._compile(params, source)  # without the lock: one slow grammar holds up nobody
        with self._lock:
            self._kept[source] = grammar
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return grammar

    def _compile(self, params: SamplingParams, source: str) -> Grammar:
        library = _library()
        matcher = library.LLMatcher(self._vocabulary(library), source, log_level=0)
        if matcher.is_error():
            raise _refusal(params, _first_line(matcher.get_error()))
        return Grammar(matcher, len(self._words), self._eos_ids)

    def _vocabulary(self, library: Any) -> LLTokenizer:
        """Return the tokens as the library wants them; made once, since it takes a fraction of a second."""
        with self._lock:
            if self._tokenizer is None:
                words = _Words(self._words, self._special_ids)
                self._tokenizer = library.LLTokenizer(library.TokenizerWrapper(words))
            return self._tokenizer


class _Words:
    """A vocabulary as the library asks for it, with an end token of its own behind the others."""

    bos_token_id = None

    def __init__(self, token_bytes: list[bytes], special_ids: Iterable[int]) -> None:
        self.eos_token_id = len(token_bytes)
        self.tokens = [*token_bytes, b"<end>"]
        self.special_token_ids = [*sorted(special_ids), self.eos_token_id]

    def __call__(self, text: bytes) -> list[int]:
        """Cut a text into tokens; only asked for where a grammar forces tokens, which ours do not."""
        return []


def grammar_masks(states: Sequence[SamplingState]) -> dict[int, torch.Tensor]:
    """Return for the place of each state that has a grammar the tokens that may come next."""
    return {place: state.grammar.mask() for place, state in enumerate(states) if state.grammar is not None}


def _source(params: SamplingParams) -> str:
    """Return a request's grammar in the library's language."""
    library, schema = _library(), params.json_schema
    try:
        if params.regex is not None:
            return f"{_OPTIONS}/{library.regex_to_lark(params.regex, '')}/"
        if isinstance(schema, str):
            schema = json.loads(schema)
        if isinstance(schema, Mapping):
            schema = {**schema, "x-guidance": {**JSON_STYLE, **schema.get("x-guidance", {})}}
        return f"{_OPTIONS}%json {json.dumps(schema, allow_nan=False)}"
    except (ValueError, TypeError, RecursionError) as error:
        raise _refusal(params, str(error)) from error


def _library() -> Any:
    try:
        import llguidance
    except ImportError as error:
        raise RequestError(
            "`json_schema` and `regex` need the package `llguidance`, which is not installed",
            code="llm-grammar-missing",
            help="pip install hami-core[grammar]",
        ) from error
    return llguidance


def _first_line(error: str) -> str:
    """Return what is wrong; the lines behind it show the library's state, and the grammar once more."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    reasons = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    first = reasons[0] if reasons else lines[0] if lines else "it cannot be compiled"
    return first.rpartition("failed to compile JSON schema: ")[2][:300]


def _refusal(params: SamplingParams, reason: str) -> RequestError:
    name, value = ("regex", params.regex) if params.regex is not None else ("json_schema", params.json_schema)
    shown = value if isinstance(value, str) else repr(value)
    return RequestError(
        f"`{name}` is `{shown:.80}`: {reason}",
        code="llm-grammar",
        help="see docs/language_models.md for what a grammar may use",
    )
