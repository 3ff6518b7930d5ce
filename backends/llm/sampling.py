"""`SamplingParams`: what a request may say of how its tokens are chosen and where they end.

The names and meanings are those of OpenAI and vLLM. Checked once, when it is made; the sampler and the engine
believe it. Plain Python, so that it can be imported without torch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from hami.errors import RequestError, did_you_mean

GREEDY_BELOW = 1e-5  # temperatures below this are 0: dividing by them says nothing but the largest logit
MAX_STOPS = 64
MAX_BIAS = 100.0


class SamplingError(RequestError):
    """A sampling parameter is wrong; `param` is its name."""

    param = ""


@dataclass(frozen=True)
class SamplingParams:
    """How tokens are chosen. Frozen: one object may serve many requests.

    `temperature` 0 (like `top_k` 1) takes the likeliest token; `top_k` 0 or -1, `top_p` 1 and `min_p` 0 are
    off. `n` answers are drawn for a prompt, each from its own stream of random numbers, which depends on
    `seed`, the answer and the position only. `logprobs` gives the log-probability of each token, and of so
    many of the likeliest; `prompt_logprobs` does so for the prompt. With `beam_width` the answers are
    searched for instead. With `json_schema` the answer is JSON of that schema, with `regex` it matches.
    """

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    max_tokens: int = 16
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    seed: int | None = None
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    allowed_token_ids: tuple[int, ...] | None = None
    beam_width: int = 0
    length_penalty: float = 1.0
    early_stopping: bool = False
    json_schema: str | Mapping[str, Any] | None = None
    regex: str | None = None

    def __post_init__(self) -> None:
        for name, (low, high, help) in _WHOLE_NUMBERS.items():
            self._set(name, _whole(name, getattr(self, name), low, high, help))
        for name in ("logprobs", "prompt_logprobs"):
            if getattr(self, name) is not None:
                help = "give the number of likeliest tokens to name beside the chosen one, or leave it out"
                self._set(name, _whole(name, getattr(self, name), 0, 1 << 20, help))
        if self.seed is not None:
            _whole(
                "seed",
                self.seed,
                -(1 << 63),
                (1 << 64) - 1,
                "give a whole number of 64 bits, or leave it out",
            )
        for name, (number_low, number_high, help) in _NUMBERS.items():
            self._set(name, _number(name, getattr(self, name), number_low, number_high, help))
        for name in _FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise _wrong(name, getattr(self, name), "give `True` or `False`")
        self._set("stop", _stops(self.stop))
        self._set("stop_token_ids", _token_ids("stop_token_ids", self.stop_token_ids))
        self._set("logit_bias", _biases(self.logit_bias))
        if self.allowed_token_ids is not None:
            self._set("allowed_token_ids", _token_ids("allowed_token_ids", self.allowed_token_ids))
            if not self.allowed_token_ids:
                raise _wrong("allowed_token_ids", "[]", "name at least one token, or leave it out")
        if self.top_k == -1:
            self._set("top_k", 0)
        self._check_together()

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _check_together(self) -> None:
        if self.min_tokens > self.max_tokens:
            raise _wrong(
                "min_tokens", self.min_tokens, f"give at most `max_tokens`, which is `{self.max_tokens}`"
            )
        if self.beam_width:
            if self.n > self.beam_width:
                raise _wrong(
                    "n", self.n, f"a search of width `{self.beam_width}` has no more answers than that"
                )
            if self.temperature not in {0, 1} or self.top_k or self.top_p != 1 or self.min_p:
                raise _wrong(
                    "beam_width",
                    self.beam_width,
                    "a search draws nothing: leave out `temperature`, `top_k`, `top_p` and `min_p`",
                )
        elif self.n > 1 and self.is_greedy:
            raise _wrong("n", self.n, "the likeliest answer is one: raise `temperature`, or ask for `n=1`")
        self._check_grammar()

    def _check_grammar(self) -> None:
        if self.json_schema is not None and self.regex is not None:
            raise _wrong("regex", self.regex, "give either `regex` or `json_schema`")
        if self.regex is not None and not (isinstance(self.regex, str) and self.regex):
            raise _wrong("regex", self.regex, "give a regular expression as text")
        if isinstance(self.json_schema, str):
            try:
                json.loads(self.json_schema)
            except (ValueError, RecursionError) as error:
                raise _wrong("json_schema", self.json_schema, f"it is no JSON: {error}") from error
        elif self.json_schema is not None and not isinstance(self.json_schema, Mapping):
            raise _wrong("json_schema", self.json_schema, "give a JSON schema as a dict or as text")

    @property
    def is_greedy(self) -> bool:
        """Say whether the likeliest token is always taken."""
        return self.temperature < GREEDY_BELOW or self.top_k == 1

    @property
    def has_grammar(self) -> bool:
        """Say whether the answer must follow a grammar."""
        return self.json_schema is not None or self.regex is not None

    @property
    def width(self) -> int:
        """Return how many sequences the request runs at once."""
        return max(self.n, self.beam_width)

    @property
    def has_penalties(self) -> bool:
        """Say whether the tokens so far change the logits."""
        return bool(self.presence_penalty or self.frequency_penalty) or self.repetition_penalty != 1

    def check_tokens(self, vocab_size: int) -> None:
        """Raise RequestError unless every token id that is named is one of the model."""
        for name in ("stop_token_ids", "allowed_token_ids", "logit_bias"):
            for token in getattr(self, name) or ():
                if token >= vocab_size:
                    raise _wrong(name, token, f"the model has the tokens 0 to {vocab_size - 1}")

    @classmethod
    def of(cls, values: Any) -> SamplingParams:
        """Return the parameters that a dict, None or an object of this class stands for."""
        if isinstance(values, cls):
            return values
        if values is None:
            return cls()
        if not isinstance(values, Mapping):
            raise RequestError(
                f"the sampling parameters are `{values!r:.80}`",
                code="llm-sampling",
                help="give a dict or `SamplingParams`",
            )
        known = [item.name for item in fields(cls)]
        for name in values:
            if name not in known:
                help = did_you_mean(str(name), known, otherwise="leave it out")
                raise _about(str(name), f"there is no sampling parameter `{name}`", help)
        return cls(**values)

    @classmethod
    def by_name(cls, values: Any) -> dict[str, Any]:
        """Return what a dict, None or an object of this class says; an object says everything."""
        return dict(vars(values) if isinstance(values, cls) else values or {})


_WHOLE_NUMBERS = {
    "n": (1, 1024, "give how many answers you want, from 1 to 1024"),
    "top_k": (-1, 1 << 31, "give how many tokens to choose from, or 0 for all"),
    "max_tokens": (1, 1 << 31, "give how many tokens there may be, at least 1"),
    "min_tokens": (0, 1 << 31, "give how many tokens there must be, or 0"),
    "beam_width": (0, 256, "give how many lines to follow, up to 256, or 0 for no search"),
}
_NUMBERS = {
    "temperature": (0.0, math.inf, "give 0 for the likeliest token, 1 for the model's own distribution"),
    "top_p": (
        math.nextafter(0, 1),
        1.0,
        "give a share above 0 and up to 1; for the likeliest token alone set `temperature=0`",
    ),
    "min_p": (0.0, 1.0, "give a share of the likeliest token's probability from 0 to 1"),
    "presence_penalty": (-2.0, 2.0, "give a number from -2 to 2"),
    "frequency_penalty": (-2.0, 2.0, "give a number from -2 to 2"),
    "repetition_penalty": (math.nextafter(0, 1), math.inf, "give a number above 0; 1 is off"),
    "length_penalty": (-math.inf, math.inf, "give a number; above 1 favours long answers"),
}
_FLAGS = ("ignore_eos", "include_stop_str_in_output", "skip_special_tokens", "early_stopping")


def _wrong(name: str, value: Any, help: str) -> SamplingError:
    shown = value if isinstance(value, str) else repr(value)
    return _about(name, f"`{name}` is `{shown:.80}`", help)


def _about(name: str, message: str, help: str) -> SamplingError:
    error = SamplingError(message, code="llm-sampling", help=help)
    error.param = name
    return error


def _whole(name: str, value: Any, low: int, high: int, help: str) -> int:
    if isinstance(value, float) and value.is_integer():  # what JSON makes of a whole number in some clients
        value = int(value)
    if (
        isinstance(value, bool)
        or not hasattr(value, "__index__")
        or not low <= (number := int(value)) <= high
    ):
        raise _wrong(name, value, help)
    return number


def _number(name: str, value: Any, low: float, high: float, help: str) -> float:
    is_number = not isinstance(value, (bool, str, bytes)) and hasattr(value, "__float__")
    if not is_number or not math.isfinite(number := float(value)) or not low <= number <= high:
        raise _wrong(name, value, help)
    return number


def _stops(value: Any) -> tuple[str, ...]:
    help = f"give one text or a list of texts, none of them empty, up to {MAX_STOPS}"
    if value is None:
        return ()
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)) or len(texts) > MAX_STOPS:
        raise _wrong("stop", value, help)
    if not all(isinstance(text, str) and text for text in texts):
        raise _wrong("stop", value, help)
    return tuple(dict.fromkeys(texts))


def _token_ids(name: str, value: Any) -> tuple[int, ...]:
    help = "give a list of token ids"
    if value is None:
        return ()
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise _wrong(name, value, help)
    return tuple(dict.fromkeys(_whole(name, item, 0, 1 << 31, help) for item in value))


def _biases(value: Any) -> dict[int, float]:
    help = f"give a dict of token ids and numbers from {-MAX_BIAS:.0f} to {MAX_BIAS:.0f}"
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong("logit_bias", value, help)
    result = {}
    for token, bias in value.items():
        if isinstance(token, str) and token.isascii() and token.isdecimal():  # keys of JSON objects are texts
            token = int(token)
        number = _number("logit_bias", bias, -MAX_BIAS, MAX_BIAS, help)
        result[_whole("logit_bias", token, 0, 1 << 31, help)] = number
    return result
