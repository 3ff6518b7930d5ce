from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, overload

from ._core_express import MOST_HEAD_BYTES as MOST_HEAD_BYTES
from ._core_express import BoundedTally as BoundedTally
from ._core_express import ExpressConnection as ExpressConnection
from ._core_express import ExpressDesk as ExpressDesk
from ._core_express import ExpressForm as ExpressForm
from ._core_express import ReplyForm as ReplyForm
from ._core_express import read_head as read_head

class Tensor:
    """A tensor of the core: offers the buffer protocol and DLPack."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    def __dlpack__(self, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

def reinterpret(array: Any, dtype: str) -> Any:
    """Return the memory of an array under another type of the same width, such as `bfloat16` for `uint16`.

    What numpy has not becomes a tensor of torch where that is loaded, else a `Tensor`.
    """

class Request:
    """A request on its way."""

    def cancel(self) -> bool: ...
    def try_take(self) -> tuple[Any, ...] | None: ...
    def take(self) -> tuple[Any, ...] | None: ...
    def notify(self, listener: Callable[[], Any]) -> None: ...

class Reply:
    """What a backend owes for a request that its `start` took over."""

    @property
    def is_wanted(self) -> bool: ...
    @property
    def has_room(self) -> bool: ...
    @property
    def is_streamed(self) -> bool: ...
    def emit(self, partial: Any, is_last: bool = False) -> bool: ...
    def finish(self) -> bool: ...
    def fail(self, error: BaseException) -> bool: ...

class AnswerQueue:
    """The answers for one event loop."""

    def __init__(self) -> None: ...
    def fileno(self) -> int: ...
    def deliver(self) -> None: ...

class Pipeline:
    """A running plan."""

    def __init__(self, plan: Mapping[str, Any]) -> None: ...
    @overload
    def __call__(self, request: dict[str, Any]) -> dict[str, Any]: ...
    @overload
    def __call__(self, request: list[dict[str, Any]]) -> list[dict[str, Any]]: ...
    def _call_many(self, requests: list[dict[str, Any]]) -> list[dict[str, Any]]: ...
    def _submit(
        self,
        request: dict[str, Any],
        on_done: Callable[[BaseException | None], None],
        is_streamed: bool = False,
        node: str | None = None,
        queue: AnswerQueue | None = None,
    ) -> Request: ...
    def _submit_many(
        self, requests: list[dict[str, Any]], on_done: list[Callable[[BaseException | None], None]]
    ) -> list[Request]: ...
    def _close(self, timeout_s: float) -> bool: ...
    def _stats(self, with_buckets: bool = False) -> list[dict[str, Any]]: ...
    def _problems(self) -> list[str]: ...
    def _ports(self) -> list[dict[str, Any]]: ...
    def _start_trace(self, max_records: int) -> bool: ...
    def _stop_trace(self) -> dict[str, Any] | None: ...
    @property
    def _is_closed(self) -> bool: ...
    @property
    def _run_range(self) -> tuple[int, int]: ...
    @property
    def _num_requests(self) -> int: ...

class LoadSamples:
    """Dicts that the requests of a load are made of; each is read once, and left as it is."""

    def __init__(self, pipeline: Pipeline) -> None: ...
    def add(self, request: dict[str, Any]) -> None: ...
    def __len__(self) -> int: ...

class LoadRun:
    """One round of load on a pipeline; it begins when it is made.

    `num_callers` 0 is an open loop. Ended, or stopped, with the last reference.
    """

    def __init__(
        self,
        samples: LoadSamples,
        *,
        num_callers: int,
        rate_per_s: float,
        is_poisson: bool,
        duration_s: float | None,
        num_requests: int | None,
        seed: int,
        is_random: bool,
        max_in_flight: int,
        timeout_s: float,
    ) -> None: ...
    def wait(self, seconds: float) -> bool:
        """Return whether the round is over, after that many seconds at most; without the GIL."""
    def stop(self) -> None:
        """Send no more, and cancel what callers wait for."""
    def progress(self) -> tuple[int, int]:
        """Return how many requests have ended, and how many of them with an error."""
    def figures(self) -> dict[str, Any]:
        """Return the first fields of `hami.bench.Round`."""
    @property
    def was_cut_short(self) -> bool: ...

class KVStorage:
    """What the backends of a pipeline keep, by request id and key.

    Values are any objects, request ids ints, strs or bytes. Any thread may call anything; closing the
    pipeline empties it.
    """

    def __init__(self) -> None: ...
    def get(self, request_id: int | str | bytes, key: str, default: Any = None) -> Any: ...
    def set(self, request_id: int | str | bytes, key: str, value: Any) -> None: ...
    def pop(self, request_id: int | str | bytes, key: str, default: Any = None) -> Any: ...
    def drop(self, request_id: int | str | bytes) -> int: ...
    def __len__(self) -> int: ...

class StepPlan:
    """One step of an `LlmScheduler` as plain arrays, without copies.

    T tokens, R rows, S samples, L wanted logits. All arrays are writable memoryviews of int32 unless said.
    They show the last step: reading them from a plan after the next `step` raises RuntimeError.
    """

    @property
    def num_rows(self) -> int: ...
    @property
    def num_decode_rows(self) -> int:
        """Rows of one token; they come first."""
    @property
    def num_tokens(self) -> int: ...
    @property
    def sequences(self) -> memoryview:
        """[R] int64: whose rows these are."""
    @property
    def token_ids(self) -> memoryview:
        """[T]"""
    @property
    def positions(self) -> memoryview:
        """[T]"""
    @property
    def slots(self) -> memoryview:
        """[T]: where keys and values go, `page * page_size + offset`."""
    @property
    def query_starts(self) -> memoryview:
        """[R + 1]: tokens of row r are `query_starts[r]` to `query_starts[r + 1]`."""
    @property
    def context_lens(self) -> memoryview:
        """[R]: tokens of the sequence once the step has run."""
    @property
    def table_rows(self) -> memoryview:
        """[R]: rows in `page_table`."""
    @property
    def page_table(self) -> memoryview:
        """[max_running, max_pages]"""
    @property
    def dirty_rows(self) -> memoryview:
        """[D]: rows of `page_table` that changed since the last step."""
    @property
    def logit_tokens(self) -> memoryview:
        """[L]: tokens whose logits are wanted."""
    @property
    def sample_sequences(self) -> memoryview:
        """[S] int64: who samples."""
    @property
    def sample_logits(self) -> memoryview:
        """[S]: from which of the L."""
    @property
    def swap_out(self) -> memoryview:
        """[., 2]: pages to copy before the forward, (from, to); device to host, first of the three."""
    @property
    def swap_in(self) -> memoryview:
        """[., 2]: host to device."""
    @property
    def copies(self) -> memoryview:
        """[., 2]: device to device, in this order."""
    @property
    def ended(self) -> list[tuple[int, str]]:
        """Sequences that ended without a row, and why."""

class LlmScheduler:
    """Chooses in every step which sequences compute which tokens on which pages.

    See docs/design/0008-the-language-model-in-rooms.md. One thread at a time. `policy` is `fcfs`,
    `priority` (higher ones first), `fair`, `shortest`, `prefill_first`, or a callable: called once for each
    `add` with a dict of `num_prompt_tokens`, `max_tokens`, `width`, `priority`, `user` and
    `expected_tokens`, it returns a float; the lower runs first.
    """

    def __init__(
        self,
        num_pages: int,
        page_size: int = 16,
        max_running: int = 256,
        max_model_len: int = 4096,
        max_batched_tokens: int = 512,
        prefix_cache: str = "radix",
        policy: str | Callable[[dict[str, Any]], float] = "fcfs",
        preempt: str = "recompute",
        num_swap_pages: int = 0,
        max_preemptions: int = 3,
        ageing_steps: int = 100,
    ) -> None: ...
    def add(
        self,
        prompt_ids: Sequence[int] | memoryview,
        max_tokens: int = 16,
        min_tokens: int = 0,
        stop_ids: Sequence[int] | memoryview = (),
        width: int = 1,
        priority: int = 0,
        salt: str | None = "",
        user: str | None = "",
        expected_tokens: int | None = None,
        prompt_logits: bool = False,
        together: bool = False,
    ) -> int:
        """Return the id of the request's sequence.

        `together`: its sequences sample in the same steps, as those of a beam search must.
        """
    def step(self) -> StepPlan: ...
    def commit(
        self, plan: StepPlan, parents: Sequence[int] | memoryview, tokens: Sequence[int] | memoryview
    ) -> list[tuple[int, str]]:
        """Settle a step: one entry for each parent, (id, reason).

        `reason` is "", "stop" or "length"; "gone" if the parent ended between `step` and `commit`.
        """
    def discard(self, plan: StepPlan) -> None:
        """Take a step back whose executor failed: its rows are planned again."""
    def finish(self, id: int) -> None: ...
    def fail(self, id: int) -> None: ...
    def abort(self, id: int) -> None: ...
    def reset_prefix_cache(self) -> None: ...
    def recompute_all(self) -> None:
        """Let every sequence start over with the tokens it has: for other weights, between two steps."""
    def stats(self) -> dict[str, int]: ...
    def has_work(self) -> bool: ...

class FakeModel:
    """An executor without a model: its logits are a hash of the tokens, read through the pages."""

    def __init__(self, vocab_size: int, num_pages: int, page_size: int, num_swap_pages: int = 0) -> None: ...
    def run(self, plan: StepPlan) -> memoryview:
        """Return the logits, [L, vocabulary] in float32; RuntimeError for a plan nobody could run."""
    @staticmethod
    def reference_logits(token_ids: Sequence[int] | memoryview, vocab_size: int) -> memoryview:
        """Return the logits after these tokens, [1, vocabulary]."""

class TokenTable:
    """The bytes of every token of a vocabulary; shared by all streams of a model."""

    def __init__(
        self,
        tokens: Sequence[bytes],
        special_ids: Sequence[int] | memoryview = (),
        strip_leading_space: bool = False,
    ) -> None: ...
    def decode(self, ids: Sequence[int] | memoryview, skip_special: bool = True) -> str: ...
    def bytes_of(self, id: int) -> bytes: ...
    def __len__(self) -> int: ...

class TextStream:
    """The text of one sequence while its tokens come, safe to be shown piece by piece."""

    def __init__(
        self,
        table: TokenTable,
        stop: Sequence[str] = (),
        include_stop: bool = False,
        skip_special: bool = True,
    ) -> None: ...
    def push(self, token_id: int) -> str:
        """Return what can be shown now; nothing once stopped."""
    def flush(self) -> str:
        """Return all that was held back: no token follows."""
    @property
    def stopped(self) -> str | None:
        """The stop text that was found."""

def declarations() -> list[dict[str, Any]]: ...

ABI_VERSION: tuple[int, int]

def load_plugin(path: bytes, taken: set[str]) -> dict[str, Any]:
    """Load a shared library and return its `name`, its `classes` and whether it `is_new`.

    Raises ConfigError where it is no plugin, or one of its classes has the name of another or one of `taken`.
    """

class CpuDecoder:
    """A dense Llama, Qwen2 or Qwen3 on the CPU, over pages of keys and values.

    Weights are arrays of float32, bfloat16 or float16 (buffer protocol or DLPack) under the names of the
    model's file without `model.`. `run` takes the plan of a step and returns float32 [L, vocab]; any thread
    may call, one runs at a time. `threads` 0 is one for each processor. `q8` and `q4` trade accuracy for
    speed: greedy outputs change.
    """

    def __init__(
        self,
        *,
        num_layers: int,
        hidden: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        intermediate: int,
        vocab: int,
        rms_eps: float,
        max_tokens_per_step: int,
        max_rows: int,
        inv_freq: Iterable[float],
        dtype: str = "bfloat16",
        kv_dtype: str = "",
        threads: int = 0,
        qkv_bias: bool = False,
        qk_norm: bool = False,
        tie_embeddings: bool = False,
        isa: str = "",
    ) -> None: ...
    def set_weight(self, name: str, array: Any) -> None: ...
    def missing_weights(self) -> list[str]: ...
    def make_pool(self, num_pages: int, page_size: int, num_swap_pages: int = 0) -> None: ...
    def run(self, plan: Any) -> memoryview: ...
    def describe(self) -> dict[str, Any]: ...

class CpuLinear:
    """A matrix [N, K] in the packed form of the CPU kernels."""

    def __init__(self, weight: Any, *, dtype: str = "bfloat16", threads: int = 0, isa: str = "") -> None: ...
    def __call__(self, x: Any) -> memoryview: ...

class CpuAttention:
    """Attention over pages [num_pages, num_kv_heads, page_size, head_dim], written to `out`."""

    def __init__(
        self,
        *,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        scale: float = 0.0,
        threads: int = 0,
        isa: str = "",
    ) -> None: ...
    def __call__(
        self,
        *,
        q: Any,
        keys: Any,
        values: Any,
        query_starts: Any,
        context_lens: Any,
        table_rows: Any,
        page_table: Any,
        out: Any,
    ) -> None: ...

def cpu_isas() -> list[str]: ...
def build_facts() -> dict[str, str]: ...
