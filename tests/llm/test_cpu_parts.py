"""The parts of the CPU decoder by themselves: a packed matrix, attention over pages, weights in blocks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
core = pytest.importorskip("hami._core")

from cpu_decoders import ISAS, expected, logits_of, make_decoder, random_ids  # noqa: E402
from dense_models import LLAMA, QWEN2, Sizes  # noqa: E402
from step_plans import Pages  # noqa: E402

from hami.errors import RequestError  # noqa: E402

# the error of a product, relative to the size of its result, that rounding the weights may bring
TOLERANCES = {"float32": 1e-6, "bfloat16": 4e-3, "float16": 5e-4, "q8": 8e-3, "q4": 0.12}


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("num_rows", [1, 3, 30])
def test_a_linear_is_that_of_torch(num_rows: int, dtype: str, isa: str) -> None:
    weight, x = torch.randn(77, 130), torch.randn(num_rows, 130)

    found = torch.from_numpy(np.array(core.CpuLinear(weight, dtype=dtype, threads=2, isa=isa)(x)))

    wanted = x @ weight.T
    assert (found - wanted).norm() / wanted.norm() < TOLERANCES[dtype]


def test_activations_of_another_shape_or_type_are_refused() -> None:
    linear = core.CpuLinear(torch.randn(8, 16))

    for bad in (torch.randn(2, 15), torch.randn(16), torch.randn(2, 16).double()):
        with pytest.raises(RequestError, match="`x` is"):
            linear(bad)


def blocks_of(rows: torch.Tensor) -> torch.Tensor:
    return rows.reshape(rows.shape[0], -1, 32)


@pytest.mark.parametrize("sizes", [LLAMA, QWEN2], ids=["llama", "qwen2"])
def test_q8_stays_near_and_q4_less_so(sizes: Sizes) -> None:
    ids = random_ids(sizes, 40)
    wanted = expected(sizes, ids)
    errors = {}
    for dtype in ("q8", "q4"):
        decoder = make_decoder(sizes, dtype=dtype)
        decoder.make_pool(100, 8)
        pages = Pages(100, 8, 8)
        found = logits_of(decoder, pages.plan([(pages.line(), ids)], "all"))
        errors[dtype] = ((found - wanted).norm() / wanted.norm()).item()

    assert errors["q8"] < 0.05 < errors["q4"] < 0.5, errors


def test_weights_of_a_file_in_blocks_of_four_bits_lose_nothing() -> None:
    # d * q + m with q from 0 to 15 in every block, as in a GGUF of type Q4_1
    generator = torch.Generator().manual_seed(1)
    levels = torch.randint(0, 16, (40, 64), generator=generator).float()
    blocks = blocks_of(levels)
    blocks[..., 0], blocks[..., 1] = 0, 15
    steps = (torch.rand(40, 2, 1, generator=generator) * 0.1 + 0.01).half().float()
    minima = -torch.rand(40, 2, 1, generator=generator).half().float()
    weight = (blocks * steps + minima).reshape(40, 64)
    x = torch.randn(5, 64, generator=generator)

    found = torch.from_numpy(np.array(core.CpuLinear(weight, dtype="q4")(x)))

    torch.testing.assert_close(found, x @ weight.T, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_attention_over_pages_is_that_of_torch(dtype: torch.dtype, isa: str) -> None:
    attention = core.CpuAttention(num_heads=6, num_kv_heads=2, head_dim=32, threads=2, isa=isa)
    keys, values = (torch.randn(20, 2, 4, 32).to(dtype) for _ in range(2))
    q = torch.randn(8, 6, 32)
    table = np.zeros((3, 6), np.int32)
    table[2, :5], table[0, :3] = [7, 3, 11, 2, 19], [5, 6, 1]
    out = np.zeros((8, 6, 32), np.float32)

    attention(
        q=q,
        keys=keys,
        values=values,
        out=out,
        page_table=table,
        query_starts=np.array([0, 1, 8], np.int32),
        context_lens=np.array([18, 11], np.int32),
        table_rows=np.array([2, 0], np.int32),
    )

    for tokens, row, context in ((slice(0, 1), 2, 18), (slice(1, 8), 0, 11)):
        pages = torch.from_numpy(table[row]).long()
        k, v = (pool.float()[pages].transpose(0, 1).flatten(1, 2)[:, :context] for pool in (keys, values))
        k, v = k.repeat_interleave(3, 0), v.repeat_interleave(3, 0)
        rows = q[tokens].transpose(0, 1)
        scores = rows @ k.transpose(1, 2) / math.sqrt(32)
        seen = torch.arange(context)[None] <= torch.arange(context - rows.shape[1], context)[:, None]
        wanted = scores.masked_fill(~seen, -math.inf).softmax(-1) @ v
        # Where the processor multiplies bfloat16 itself, queries and weights of a chunk are rounded to it.
        is_rounded = rows.shape[1] > 1 and (isa, dtype) == ("avx512_bf16", torch.bfloat16)
        torch.testing.assert_close(
            torch.from_numpy(out[tokens]).transpose(0, 1),
            wanted,
            rtol=1e-5,
            atol=2e-2 if is_rounded else 1e-5,
        )


def attention_arrays(**changes: Any) -> dict[str, Any]:
    arrays: dict[str, Any] = {
        "q": np.zeros((1, 2, 16), np.float32),
        "keys": np.zeros((4, 1, 4, 16), np.float32),
        "values": np.zeros((4, 1, 4, 16), np.float32),
        "query_starts": np.array([0, 1], np.int32),
        "context_lens": np.array([3], np.int32),
        "table_rows": np.array([0], np.int32),
        "page_table": np.array([[1]], np.int32),
        "out": np.zeros((1, 2, 16), np.float32),
    }
    return arrays | changes


BAD_ARRAYS = {
    "a page outside": {"page_table": np.array([[4]], np.int32)},
    "a context beyond the pages": {"context_lens": np.array([5], np.int32)},
    "values of another shape": {"values": np.zeros((4, 1, 4, 32), np.float32)},
    "values of another type": {"values": np.zeros((4, 1, 4, 16), np.float16)},
    "keys of integers": {name: np.zeros((4, 1, 4, 16), np.int32) for name in ("keys", "values")},
    "a result of another shape": {"out": np.zeros((1, 2, 17), np.float32)},
    "a result that cannot be written": {"out": memoryview(bytes(128)).cast("f", (1, 2, 16))},
    "more rows than queries": {"query_starts": np.array([0, 2], np.int32)},
}


@pytest.mark.parametrize("changes", BAD_ARRAYS.values(), ids=BAD_ARRAYS)
def test_attention_refuses_what_does_not_fit(changes: dict[str, Any]) -> None:
    attention = core.CpuAttention(num_heads=2, num_kv_heads=1, head_dim=16, threads=1)
    attention(**attention_arrays())

    with pytest.raises(RequestError):
        attention(**attention_arrays(**changes))


def test_the_decoder_says_how_it_runs() -> None:
    decoder = make_decoder(LLAMA, dtype="q4", threads=3)
    decoder.make_pool(10, 4)

    said = decoder.describe()

    assert (said["dtype"], said["kv_dtype"], said["threads"]) == ("q4", "bfloat16", 3)
    assert said["isa"] == ISAS[-1]
    assert said["pool_bytes"] == LLAMA.num_layers * 2 * 10 * LLAMA.num_kv_heads * 4 * LLAMA.head_dim * 2
    assert said["weight_bytes"] > 0
