"""What a generation gives: its texts and tokens, how it ended, what it used and how long it took.

The engine fills these objects on its thread; whoever asked for the generation gets them when they are
complete, or an `Update` at a time while it runs.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .logprobs import TokenLogprobs


@dataclass(frozen=True)
class Usage:
    """Tokens of one request; `cached_tokens` of the prompt were not computed again."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Return the tokens of the prompt and of all completions."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True)
class Timing:
    """Milliseconds since the request came: until its first step, its first token, and its end."""

    queue_ms: float
    first_token_ms: float
    total_ms: float


@dataclass
class Completion:
    """One of the `n` answers to a prompt.

    `finish_reason` is `stop` (an end token or a stop text), `length`, or `abort`; `stop_reason` is the text
    or the id that stopped it, None for the model's own end token. `logprobs` has one entry a token, if they
    were asked for.
    """

    index: int
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    finish_reason: str = ""
    stop_reason: str | int | None = None
    logprobs: list[TokenLogprobs] | None = None
    cumulative_logprob: float = 0.0


@dataclass
class Generation:
    """The answer to one prompt; `text`, `token_ids`, ... are those of the first completion."""

    prompt_token_ids: list[int]
    outputs: list[Completion]
    usage: Usage
    timing: Timing
    prompt_logprobs: list[TokenLogprobs | None] | None = None

    @property
    def text(self) -> str:
        """Return the text of the first completion."""
        return self.outputs[0].text

    @property
    def token_ids(self) -> list[int]:
        """Return the tokens of the first completion, the prompt's not included."""
        return self.outputs[0].token_ids

    @property
    def finish_reason(self) -> str:
        """Return why the first completion ended: `stop`, `length` or `abort`."""
        return self.outputs[0].finish_reason

    @property
    def logprobs(self) -> list[TokenLogprobs] | None:
        """Return the log-probabilities of the first completion, if they were asked for."""
        return self.outputs[0].logprobs


@dataclass
class Update:
    """What is new of one completion since the last update."""

    index: int
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprobs] | None = None
    finish_reason: str = ""
    stop_reason: str | int | None = None

    def absorb(self, later: Update) -> None:
        """Take in the next update of the same completion."""
        self.text += later.text
        self.token_ids += later.token_ids
        if later.logprobs is not None:
            self.logprobs = (self.logprobs or []) + later.logprobs
        self.finish_reason = later.finish_reason
        self.stop_reason = later.stop_reason


def as_dict(value: Usage | Timing) -> dict[str, Any]:
    """Return the fields as plain data."""
    return asdict(value)
