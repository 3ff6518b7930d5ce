from collections.abc import Callable, Iterable, Mapping
from typing import Any, overload

class Tensor:
    """A tensor of the core: offers the buffer protocol and DLPack."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    def __dlpack__(self, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class Request:
    """A request on its way."""

    def cancel(self) -> bool: ...
    def try_take(self) -> tuple[Any, ...] | None: ...
    def take(self) -> tuple[Any, ...] | None: ...
    def notify(self, listener: Callable[[], Any]) -> None: ...

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
    ) -> Request: ...
    def _submit_many(
        self, requests: list[dict[str, Any]], on_done: list[Callable[[BaseException | None], None]]
    ) -> list[Request]: ...
    def _close(self, timeout_s: float) -> bool: ...
    def _stats(self) -> list[dict[str, Any]]: ...
    def _problems(self) -> list[str]: ...
    @property
    def _is_closed(self) -> bool: ...
    @property
    def _run_range(self) -> tuple[int, int]: ...
    @property
    def _num_requests(self) -> int: ...

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

def declarations() -> list[dict[str, Any]]: ...

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
