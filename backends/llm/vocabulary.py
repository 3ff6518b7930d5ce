"""What the engine must know of a model's language: prompts to ids, ids to text, and which ids end a text.

With a tokenizer, prompts are texts, chats or ids, and answers have texts; without one everything is ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hami.errors import RequestError

if TYPE_CHECKING:
    from hami._core import TextStream, TokenTable

    from .grammar import Grammar, GrammarCache
    from .sampling import SamplingParams
    from .tokenizer import Tokenizer


class Vocabulary:
    """The tokens of one model. Any thread may use it."""

    def __init__(
        self, vocab_size: int, tokenizer: Tokenizer | None = None, eos_ids: Sequence[int] = ()
    ) -> None:
        self.vocab_size = vocab_size
        self.tokenizer = tokenizer
        self.eos_ids = frozenset(eos_ids if tokenizer is None else tokenizer.eos_ids)

    @cached_property
    def _table(self) -> TokenTable | None:
        if self.tokenizer is None:
            return None
        from hami._core import TokenTable

        return TokenTable(self.tokenizer.token_bytes(), sorted(self.tokenizer.special_ids))

    def prompt_ids(self, prompt: Any) -> list[int]:
        """Return the ids of a prompt: a text, a list of ids, or a chat (dicts with role and content).

        Raises RequestError for anything else, for ids outside of the vocabulary, and for an empty prompt.
        """
        if isinstance(prompt, str):
            ids = self._needs_tokenizer("a text").encode(prompt)
        elif isinstance(prompt, (list, tuple)) and prompt and isinstance(prompt[0], dict):
            ids = self._needs_tokenizer("a chat").encode_chat(list(prompt))
        else:
            ids = self._checked(prompt)
        if not ids:
            raise _refusal("the prompt is empty", "give at least one token")
        return ids

    def stop_ids(self, params: SamplingParams) -> set[int]:
        """Return the ids that end a sequence."""
        own = set(params.stop_token_ids or ())
        return own if params.ignore_eos else own | self.eos_ids

    def text_stream(self, params: SamplingParams) -> TextStream | None:
        """Return what makes a text of the tokens of one completion."""
        if self._table is None:
            if params.stop:
                raise _refusal("stop texts need a tokenizer", "use `stop_token_ids`")
            return None
        from hami._core import TextStream

        return TextStream(
            self._table,
            stop=list(params.stop),
            include_stop=params.include_stop_str_in_output,
            skip_special=params.skip_special_tokens,
        )

    @cached_property
    def _grammars(self) -> GrammarCache:
        from .grammar import GrammarCache

        tokenizer = self.tokenizer
        if tokenizer is None:
            message = "a grammar needs a tokenizer, and this model has none"
            raise RequestError(message, code="llm-grammar", help="leave out `json_schema` and `regex`")
        words = tokenizer.token_bytes()[: self.vocab_size]
        words += [b""] * (self.vocab_size - len(words))  # a model may have more rows than tokens
        special = [token for token in tokenizer.special_ids if token < self.vocab_size]
        return GrammarCache(words, special, [token for token in self.eos_ids if token < self.vocab_size])

    def grammar(self, params: SamplingParams) -> Grammar | None:
        """Return the grammar that a request asks for; the first time it is compiled, which takes a while."""
        return self._grammars.of(params) if params.has_grammar else None

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """The tokens that stand for no text of their own."""
        return frozenset() if self.tokenizer is None else frozenset(self.tokenizer.special_ids)

    def bytes_of(self, token: int) -> bytes:
        """Return the bytes of one token; none without a tokenizer."""
        return b"" if self._table is None else self._table.bytes_of(token)

    def text_of(self, token: int) -> str:
        """Return one token as text, for log-probabilities; half a character reads `\ufffd`."""
        return self.bytes_of(token).decode("utf-8", errors="replace")

    def _needs_tokenizer(self, what: str) -> Tokenizer:
        if self.tokenizer is None:
            raise _refusal(f"{what} needs a tokenizer, and this model has none", "give token ids")
        return self.tokenizer

    def _checked(self, prompt: Any) -> list[int]:
        if hasattr(prompt, "tolist"):
            prompt = prompt.tolist()
        if not isinstance(prompt, (list, tuple)):
            message = f"a prompt is a text, token ids or messages, not a `{type(prompt).__name__}`"
            raise _refusal(message, "see docs/language_models.md")
        for place, token in enumerate(prompt):
            if isinstance(token, bool) or not isinstance(token, int):
                raise _refusal(f"token {place} of the prompt is `{token!r}`", "token ids are integers")
            if not 0 <= token < self.vocab_size:
                message = (
                    f"token {place} of the prompt is `{token}`, and the vocabulary has {self.vocab_size}"
                )
                raise _refusal(message, "use ids of this model's tokenizer")
        return list(prompt)


def _refusal(message: str, help: str) -> RequestError:
    return RequestError(message, code="llm-prompt", help=help)
