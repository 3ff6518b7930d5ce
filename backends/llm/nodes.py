"""Language models as nodes: `LLM` whole, or taken apart as Tokenize, ContinuousBatching and Detokenize.

A request is a dict with the prompt in `data`, and, if wanted, `sampling` (a dict or SamplingParams), `salt`,
`user`, `priority`, `echo` (the answer has the prompt too), and `stream`: what the partial results are, `text`
(default), `token_ids` or `full`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from hami.backend import Backend, data_of, param, register
from hami.errors import RequestError
from hami.params import ParamSlot

from .engine import Engine
from .jobs import Job
from .loading import load_engine
from .outputs import Generation, Update, as_dict
from .plain import Plain
from .sampling import SamplingParams
from .settings import SETTINGS, EngineSettings
from .tokenizer import Tokenizer, load_tokenizer
from .weights import find_model, open_weights

if TYPE_CHECKING:
    from hami._core import Reply

STREAMS = ("text", "token_ids", "full")
_MAX_STARTING = 4  # requests of event loops that become tokens at a time, each on a thread

_C = TypeVar("_C", bound=type)


def _with_settings(backend: _C) -> _C:
    """Declare the settings of an engine as parameters of a backend."""
    for name, setting in SETTINGS.items():
        slot = ParamSlot(setting)
        slot.__set_name__(backend, name)
        setattr(backend, name, slot)
    return backend


def _is_on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _Answer:
    """Carries a generation into the item of a request."""

    def __init__(
        self, item: dict[str, Any], reply: Reply, stream: str, plain: Plain, gives_text: bool
    ) -> None:
        self._item = item
        self._reply = reply
        self._stream = stream
        self._plain = plain
        self._gives_text = gives_text
        self._echoes = bool(item.get("echo", False))
        self._has_echoed = False
        self.job: Job | None = None

    def is_wanted(self) -> bool:
        return self._reply.is_wanted

    def has_room(self) -> bool:
        return self._reply.has_room

    def on_update(self, update: Update, is_last: bool) -> None:
        if self._stream == "full":
            self._reply.emit(self._full(update), is_last)
        elif self._stream == "token_ids" or not self._gives_text:
            if update.token_ids:
                self._reply.emit(update.token_ids, is_last)
        elif update.text:
            self._reply.emit(update.text, is_last)

    def _full(self, update: Update) -> dict[str, Any]:
        """Return an update as plain data, the first one of a request with its prompt."""
        full = self._plain.update(update)
        if self._echoes and not self._has_echoed:
            self._has_echoed = True
            full["prompt"] = self._prompt()
        return full

    def _prompt(self) -> dict[str, Any]:
        assert self.job is not None
        return self._plain.prompt(self.job, self._item.get("data"))

    def on_end(self, generation: Generation) -> None:
        outputs = generation.outputs
        columns = {
            "result": [each.text if self._gives_text else each.token_ids for each in outputs],
            "token_ids": [each.token_ids for each in outputs],
            "finish_reason": [each.finish_reason for each in outputs],
            "logprobs": [self._plain.places(each.logprobs) for each in outputs],
        }
        for key, values in columns.items():
            self._item[key] = values[0] if len(values) == 1 else values
        self._item["usage"] = as_dict(generation.usage)
        self._item["timing"] = as_dict(generation.timing)
        if generation.prompt_logprobs is not None:
            self._item["prompt_logprobs"] = self._plain.places(generation.prompt_logprobs)
        if self._echoes:
            self._item["prompt"] = self._prompt()
        self._reply.finish()

    def on_error(self, error: BaseException) -> None:
        self._reply.fail(error)


@_with_settings
class _Generates(Backend):
    """What the nodes with an engine have in common."""

    model = param(type="path", doc="a Hugging Face folder, or a GGUF file")
    sampling = param(None, type="any", doc="SamplingParams of requests that bring none, as a table")

    gives_text = True

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        node = options.get("node_name", "llm")
        settings = {name: getattr(self, name) for name in SETTINGS}
        self._defaults = SamplingParams.of(self.sampling)
        self._engine: Engine = load_engine(
            self.model, EngineSettings.from_keywords(f"node `{node}`", settings), node
        )
        self._starters = ThreadPoolExecutor(_MAX_STARTING, "hami-llm-start")

    def start(self, item: dict[str, Any], reply: Reply) -> None:
        if _is_on_event_loop():
            # Long prompts and grammars take their time, in which the loop has others to serve.
            self._starters.submit(self._start_or_fail, item, reply)
        else:
            self._start(item, reply)

    def _start_or_fail(self, item: dict[str, Any], reply: Reply) -> None:
        try:
            self._start(item, reply)
        except BaseException as error:
            reply.fail(error)

    def _start(self, item: dict[str, Any], reply: Reply) -> None:
        stream = item.get("stream", "text")
        if stream not in STREAMS:
            raise RequestError(
                f"`stream` is `{stream!r}`", code="llm-stream", help=f"use one of {', '.join(STREAMS)}"
            )
        params = self._params_of(item.get("sampling"))
        plain = Plain(self._engine.vocabulary, params.skip_special_tokens)
        answer = _Answer(item, reply, stream, plain, self.gives_text)
        answer.job = job = Job(
            self._engine.vocabulary.prompt_ids(item.get("data")),
            params,
            answer,
            is_streamed=reply.is_streamed,
            priority=item.get("priority", 0),
            salt=str(item.get("salt", "")),
            user=str(item.get("user", "")),
        )
        self._engine.submit(job)

    def _params_of(self, given: Any) -> SamplingParams:
        """Return the parameters of a request: what it leaves out is as the node says."""
        if isinstance(given, Mapping):
            given = {**SamplingParams.by_name(self.sampling), **given}
        return self._defaults if given is None else SamplingParams.of(given)

    def problem(self) -> str:
        return self._engine.problem()

    def stats(self) -> dict[str, Any]:
        return self._engine.figures()

    def close(self) -> None:
        self._starters.shutdown()
        self._engine.close()


@register("LLM")
class LanguageModel(_Generates):
    """Answers prompts (texts, chats, or token ids) with the text that a language model generates."""


@register("ContinuousBatching")
class ContinuousBatching(_Generates):
    """Continues token ids with a language model; requests join and leave a running batch at every step."""

    gives_text = False


class _KnowsTokens(Backend):
    model = param(type="path", doc="a Hugging Face folder, or a GGUF file")
    is_reentrant = True
    group_by = "none"

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        place = find_model(self.model)
        config, weights, file = open_weights(place)
        try:
            self._tokenizer: Tokenizer = load_tokenizer(config, file or place)
        finally:
            weights.close()


@register("Tokenize")
class Tokenize(_KnowsTokens):
    """Turns a text, or a chat (a list of messages), into the token ids of a model."""

    def forward(self, batch: list[dict[str, Any]]) -> None:
        for item in batch:
            try:
                data = data_of(item)
                encode = self._tokenizer.encode if isinstance(data, str) else self._tokenizer.encode_chat
                item["result"] = encode(data)
            except Exception as error:
                item["error"] = error


@register("Detokenize")
class Detokenize(_KnowsTokens):
    """Turns the token ids of a model into text."""

    skip_special_tokens = param(True, doc="leave out tokens that stand for no text")

    def forward(self, batch: list[dict[str, Any]]) -> None:
        for item in batch:
            try:
                item["result"] = self._tokenizer.decode(
                    data_of(item), skip_special_tokens=self.skip_special_tokens, continues=True
                )
            except Exception as error:
                item["error"] = error
