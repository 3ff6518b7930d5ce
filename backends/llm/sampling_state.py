"""What the sampler remembers of a sequence: its random stream and how often each token appeared.

The engine makes one for a request, forks it for further answers, and appends each token that was committed.
It survives preemption, since nothing of it depends on what is computed.
"""

from __future__ import annotations

import copy
import secrets
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .sampling import SamplingParams

if TYPE_CHECKING:
    from .grammar import GrammarState


class SamplingState:
    """State of one sequence; `stop_ids` are banned until `min_tokens`, `grammar` says what may come."""

    def __init__(
        self,
        params: SamplingParams,
        prompt_ids: Sequence[int],
        *,
        stop_ids: Iterable[int] = (),
        seed: int | None = None,
        grammar: GrammarState | None = None,
    ) -> None:
        self.params = params
        self.grammar = grammar
        wanted = params.seed if seed is None else seed
        self.seed = secrets.randbits(64) if wanted is None else wanted
        self.answer = 0
        self.num_output = 0
        self.stop_ids = np.array(sorted(set(stop_ids)), dtype=np.int64)
        self.bias_ids = np.array(list(params.logit_bias), dtype=np.int64)
        self.biases = np.array(list(params.logit_bias.values()), dtype=np.float32)
        self._ids, self._counts = np.empty(0, np.int64), np.empty(0, np.float32)
        self._places: dict[int, int] = {}
        if params.has_penalties:
            self._ids = np.unique(np.array(prompt_ids, dtype=np.int64))
            self._counts = np.zeros(len(self._ids), np.float32)
            self._places = {token: place for place, token in enumerate(self._ids.tolist())}

    def append(self, token: int) -> None:
        """Take note of a token of the answer."""
        self.num_output += 1
        if self.grammar is not None:
            self.grammar.advance(token)
        if not self.params.has_penalties:
            return
        place = self._places.setdefault(token, len(self._places))
        if place == len(self._ids):  # room for as many again: appending stays cheap
            room = max(64, place)
            self._ids = np.concatenate([self._ids, np.zeros(room, np.int64)])
            self._counts = np.concatenate([self._counts, np.zeros(room, np.float32)])
        self._ids[place] = token
        self._counts[place] += 1

    def fork(self, answer: int) -> SamplingState:
        """Return the state of another answer of the request that goes on from here."""
        forked = copy.copy(self)
        forked.answer = answer
        forked.grammar = None if self.grammar is None else self.grammar.fork()
        forked._ids, forked._counts = self._ids.copy(), self._counts.copy()
        forked._places = dict(self._places)
        return forked

    @property
    def seen(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return the tokens of prompt and answer, and how often each stands in the answer."""
        used = len(self._places)
        return self._ids[:used], self._counts[:used]

    @property
    def is_complete(self) -> bool:
        """Say whether the answer's grammar lets nothing follow."""
        return self.grammar is not None and self.grammar.is_complete

    @property
    def bans_stops(self) -> bool:
        """Say whether the next token may not end the answer."""
        return self.num_output < self.params.min_tokens and len(self.stop_ids) > 0

    @property
    def edits_logits(self) -> bool:
        """Say whether the next token's logits are changed before one is chosen."""
        params = self.params
        return (
            params.has_penalties
            or self.bans_stops
            or len(self.bias_ids) > 0
            or params.allowed_token_ids is not None
        )
