"""The CPU kernels of the language model: matrices beside torch's, and whole steps of a decoder.

    python benchmarks/llm_kernels.py [--threads 2] [--seconds 0.5] [--dtypes bfloat16 q8]

Prints first what the machine can do at best: reading memory, and the product of large float32 matrices. Every
figure is the best of many short runs, which a busy machine disturbs least; the cores that others use stand
beside it. The model has the shape of SmolLM2-135M and random weights. One process, the decoder's threads.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from other_load import OtherLoad

import hami._core as core

HIDDEN, INNER, VOCAB, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 576, 1536, 49152, 30, 9, 3, 64
SHAPES = {"qkv": (960, HIDDEN), "o": (HIDDEN, HIDDEN), "gate+up": (2 * INNER, HIDDEN),
          "down": (HIDDEN, INNER), "head": (VOCAB, HIDDEN)}  # fmt: skip
PAGE_SIZE = 16


def best_s(run: Callable[[int], Any], seconds: float) -> float:
    """Return the shortest time of `run(i)`, repeated for `seconds` and at least five times."""
    best, end, i = float("inf"), time.perf_counter() + seconds, 0
    while i < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        run(i)
        best = min(best, time.perf_counter() - start)
        i += 1
    return best


def print_ceilings(seconds: float) -> None:
    memory = torch.ones(64 << 20, dtype=torch.float32)
    read = best_s(lambda _: memory.sum(), seconds)
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    product = best_s(lambda _: torch.mm(a, b), seconds)
    print(f"read {memory.nbytes / read / 1e9:.1f} GB/s, product {2 * 1024**3 / product / 1e9:.0f} GFLOP/s")


def prepacked(weight: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, 1)
    return lambda x: torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")


def measure_matrices(dtypes: list[str], threads: int, seconds: float) -> None:
    """Print each shape at several numbers of rows, with enough copies that no cache holds them."""
    print(f"{'matrix':8} {'rows':>4}  {'kernel':22} {'us':>9} {'GB/s':>6} {'GFLOP/s':>8} {'others':>6}")
    for name, (n, k) in SHAPES.items():
        copies = max(1, min(24, (96 << 20) // (n * k * 2)))
        weights = [torch.randn(n, k) / 24 for _ in range(copies)]
        kernels: dict[str, list[Callable[[Any], Any]]] = {}
        for dtype in dtypes:
            kernels[f"hami {dtype}"] = [core.CpuLinear(w, dtype=dtype, threads=threads) for w in weights]
        for dtype in (torch.bfloat16, torch.float32):
            cast = [w.to(dtype) for w in weights]
            kernels[f"torch {dtype}"[:22].replace("torch.", "")] = [
                lambda x, w=w: F.linear(x, w) for w in cast
            ]
            if dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported():
                kernels["torch bfloat16 packed"] = [prepacked(w) for w in cast]
        for rows in (1, 8, 64, 512):
            if name == "head" and rows > 8:
                continue
            for label, calls in kernels.items():
                x = torch.randn(rows, k)
                x = x.to(torch.bfloat16) if "torch bfloat16" in label else x
                load = OtherLoad()
                taken = best_s(lambda i, calls=calls, x=x: calls[i % len(calls)](x), seconds)
                size = {"q8": 34 / 32, "q4": 20 / 32, "float32": 4}.get(label.split()[1], 2)
                print(f"{name:8} {rows:4}  {label:22} {taken * 1e6:9.1f} {n * k * size / taken / 1e9:6.1f} "
                      f"{2 * rows * n * k / taken / 1e9:8.1f} {load.cores():6.2f}")  # fmt: skip


def make_decoder(dtype: str, threads: int) -> Any:
    decoder = core.CpuDecoder(
        num_layers=LAYERS, hidden=HIDDEN, num_heads=HEADS, num_kv_heads=KV_HEADS, head_dim=HEAD_DIM,
        intermediate=INNER, vocab=VOCAB, rms_eps=1e-5, max_tokens_per_step=512, max_rows=32, dtype=dtype,
        threads=threads, inv_freq=[1e5 ** (-i / 32) for i in range(32)], tie_embeddings=True,
    )  # fmt: skip
    sizes = {"q_proj": (HIDDEN, HIDDEN), "o_proj": (HIDDEN, HIDDEN), "k_proj": (192, HIDDEN),
             "v_proj": (192, HIDDEN), "gate_proj": (INNER, HIDDEN), "up_proj": (INNER, HIDDEN),
             "down_proj": (HIDDEN, INNER), "embed_tokens": (VOCAB, HIDDEN)}  # fmt: skip
    for name in decoder.missing_weights():
        shape = sizes.get(name.split(".")[-2], (HIDDEN,))
        decoder.set_weight(name, torch.randn(shape) * 0.02 if len(shape) == 2 else torch.ones(shape))
    decoder.make_pool(32 * 80 + 1, PAGE_SIZE)
    return decoder


def plan_of(num_rows: int, num_tokens: int, context: int) -> SimpleNamespace:
    """Return a step in which each row computes the last `num_tokens` of `context`."""
    table = (1 + np.arange(32 * 80, dtype=np.int32)).reshape(32, 80)
    positions = np.arange(context - num_tokens, context, dtype=np.int32)
    slots = [table[r, positions // PAGE_SIZE] * PAGE_SIZE + positions % PAGE_SIZE for r in range(num_rows)]
    empty = np.zeros((0, 2), np.int32)
    starts = np.arange(num_rows + 1, dtype=np.int32) * num_tokens
    return SimpleNamespace(
        token_ids=np.arange(num_rows * num_tokens, dtype=np.int32) * 37 % VOCAB,
        positions=np.tile(positions, num_rows), slots=np.concatenate(slots), query_starts=starts,
        context_lens=np.full(num_rows, context, np.int32), table_rows=np.arange(num_rows, dtype=np.int32),
        page_table=table, logit_tokens=starts[1:] - 1, swap_out=empty, swap_in=empty, copies=empty,
    )  # fmt: skip


def measure_model(dtypes: list[str], threads: int, seconds: float) -> None:
    for dtype in dtypes:
        decoder = make_decoder(dtype, threads)
        said = decoder.describe()
        print(f"SmolLM2-135M shape, {dtype}, {said['weight_bytes'] / 1e6:.0f} MB, {said['isa']}, "
              f"{said['threads']} threads")  # fmt: skip
        for rows, tokens, context in (
            (1, 1, 128),
            (8, 1, 128),
            (32, 1, 128),
            (1, 1, 1024),
            (1, 64, 64),
            (1, 512, 512),
        ):
            plan, load = plan_of(rows, tokens, context), OtherLoad()
            taken = best_s(lambda _, plan=plan, decoder=decoder: decoder.run(plan), seconds)
            rate = f"{rows * tokens / taken:6.0f} tokens/s"
            print(f"  {rows:2} rows of {tokens:3}, context {context:4}: {taken * 1e3:8.2f} ms  {rate}, "
                  f"{said['weight_bytes'] / taken / 1e9:5.1f} GB/s, others {load.cores():.2f}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seconds", type=float, default=0.5, help="for each figure")
    parser.add_argument("--dtypes", nargs="+", default=["bfloat16", "float32", "q8", "q4"])
    parser.add_argument("--only", choices=("matrices", "model"))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"torch {torch.__version__}, {core.cpu_isas()[-1]}, {options.threads} threads")
    print_ceilings(options.seconds)
    if options.only != "model":
        measure_matrices(options.dtypes, options.threads, options.seconds)
    if options.only != "matrices":
        measure_model(options.dtypes, options.threads, options.seconds)


if __name__ == "__main__":
    main()
