"""Requests of one program to one model, whose JSON says the same again and again: only the numbers are new.

What was worked out for one of them, from its JSON to the dict for the pipeline, and from the form of the
result to the JSON of the answer, is kept for the next. That is for the plain case: one input and one output
of an engine, which go as bytes. Everything else is read and written anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import _core
from ..answer import Answer
from ..arrays import BF16, NUMBERS, to_array
from ..direct import Begun, headers_of
from ..express import MAX_TEXT_BYTES, Known
from .models import Model
from .reading import InferRequest, read_infer_request
from .writing import infer_answer


class Repeated:
    """Reads the bodies of requests with one head, and makes their answers. For the event loop.

    `header_bytes` is the value of `Inference-Header-Content-Length`, None without one.
    """

    def __init__(self, model: Model, header_bytes: str | None) -> None:
        self._model = model
        self._header_bytes = header_bytes
        self._last: _Same | None = None

    def begin(self, body: bytes) -> Begun | None:
        """Return what the pipeline gets and what makes the answer of it; None: it is more than one dict.

        All bodies are of one size, since their heads are the same. Raises ServeError.
        """
        last = self._last
        if last is not None and body.startswith(last.text):
            return Begun(last.request(body[len(last.text) :]), last.answer, last.learn)
        asked = read_infer_request(body, self._header_bytes)
        requests = self._model.requests(asked)
        if len(requests) > 1:
            return None
        size = 0 if self._header_bytes is None else int(self._header_bytes)
        if 0 < size <= MAX_TEXT_BYTES and _is_plain(self._model, asked):
            self._last = last = _Same(self._model, asked, requests[0], body[:size])
            return Begun(requests[0], last.answer, last.learn)
        return Begun(requests[0], lambda finished: answer_of(self._model, asked, [finished]))


class _Same:
    """What requests with the same JSON have in common."""

    def __init__(self, model: Model, asked: InferRequest, request: dict[str, Any], text: bytes) -> None:
        self.text = text
        self._model = model
        self._asked = asked
        self._keys = request
        (tensor,) = asked.inputs.values()
        self._shape, self._dtype = tensor.value.shape, tensor.value.dtype
        self._result: tuple[Any, Any] = (None, None)  # the form of the last one
        self._head = b""  # the JSON of its answer
        self._answer = Answer(b"", "")
        self._known: Known | None = None  # once an answer was given

    def request(self, data: bytes) -> dict[str, Any]:
        """Return the dict for the pipeline for the bytes behind the text."""
        numbers = np.ndarray(self._shape, self._dtype, data)
        return {**self._keys, "data": numbers}

    def answer(self, finished: dict[str, Any]) -> Answer:
        found = to_array(finished["result"])
        if found is None:
            return answer_of(self._model, self._asked, [finished])
        array = found[1]
        if self._result != (array.shape, found[0]):
            self._answer = answer_of(self._model, self._asked, [finished])
            self._result = (array.shape, found[0])
            self._head = self._answer.body[: len(self._answer.body) - array.nbytes]
            self._known = self._known_of(*found)
        return self._answer._replace(body=self._head + array.tobytes())

    def learn(self, finished: dict[str, Any]) -> Known | None:
        """Return what the last answer has taught."""
        return self._known

    def _known_of(self, datatype: str, array: np.ndarray[Any, Any]) -> Known:
        _, content_type, more = self._answer
        headers = headers_of(content_type, more)
        return Known(
            keys=self._keys,
            keys_of=self.request,
            reply=_core.ReplyForm(headers, self._head, NUMBERS[datatype], array.shape),
            end=self.answer,
            learn=self.learn,
            text=self.text,
            dtype=self._dtype.name,
            shape=self._shape,
        )


def _is_plain(model: Model, asked: InferRequest) -> bool:
    """Tell whether one array of numbers goes in and one comes out, both as bytes behind the JSON."""
    has_one_each = all(specs is not None and len(specs) == 1 for specs in (model.inputs, model.outputs))
    are_bytes = all(one.is_binary_data and one.datatype != BF16 for one in asked.inputs.values())
    return (
        has_one_each and are_bytes and not asked.outputs and bool(asked.parameters.get("binary_data_output"))
    )


def answer_of(model: Model, asked: InferRequest, finished: list[dict[str, Any]]) -> Answer:
    """Return the answer from the finished requests of a call. Raises ServeError."""
    outputs = model.results(finished, [output.name for output in asked.outputs])
    return infer_answer(model, asked, outputs)
