"""The engines that `llm.py` compares, each behind one function: hami, and peers in environments of their own.

Each is imported by the function that makes it. All of them run the same weights in bfloat16 (llama.cpp from a
GGUF file, the others from a folder that `llm_weights.py` wrote), with as many threads as there are cores.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llm_workloads import Answer, Serve, Workload

MAX_LEN = 1024
MAX_ROWS = 32


def hami(folder: Path, prefix_cache: bool, dtype: str = "bfloat16") -> Serve:
    import hami

    llm = hami.LLM(
        folder,
        dtype=dtype,
        max_model_len=MAX_LEN,
        num_pages=MAX_ROWS * MAX_LEN // 16 + 1,
        max_running=MAX_ROWS,
        max_batched_tokens=1024,
        prefix_cache="radix" if prefix_cache else "none",
    )

    def serve(work: Workload) -> list[Answer]:
        params = [
            hami.SamplingParams(temperature=0, max_tokens=count, ignore_eos=True) for count in work.max_tokens
        ]
        done = llm.generate(work.prompts, params)
        return [Answer(each.token_ids, each.timing.first_token_ms / 1000) for each in done]

    return serve


def hami_8_bit(folder: Path, prefix_cache: bool) -> Serve:
    return hami(folder, prefix_cache, "q8")


def hami_4_bit(folder: Path, prefix_cache: bool) -> Serve:
    return hami(folder, prefix_cache, "q4")


def vllm(folder: Path, prefix_cache: bool) -> Serve:
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # one process, as hami
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    cores = sorted(os.sched_getaffinity(0))
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", f"{cores[0]}-{cores[-1]}")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    from vllm import LLM, SamplingParams

    llm = LLM(
        str(folder),
        dtype="bfloat16",
        max_model_len=MAX_LEN,
        max_num_seqs=MAX_ROWS,
        enable_prefix_caching=prefix_cache,
        disable_log_stats=False,
    )

    def serve(work: Workload) -> list[Answer]:
        params = [
            SamplingParams(temperature=0, max_tokens=count, ignore_eos=True, detokenize=False)
            for count in work.max_tokens
        ]
        prompts = [{"prompt_token_ids": prompt} for prompt in work.prompts]
        done = llm.generate(prompts, params, use_tqdm=False)
        return [
            Answer(
                list(each.outputs[0].token_ids), getattr(each.metrics, "first_token_latency", float("nan"))
            )
            for each in done
        ]

    return serve


def transformers(folder: Path, prefix_cache: bool) -> Serve:
    import torch
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()

    def serve(work: Workload) -> list[Answer]:
        """Run one batch, padded on the left, for as long as its longest answer."""
        width = max(map(len, work.prompts))
        padded = [[0] * (width - len(prompt)) + prompt for prompt in work.prompts]
        mask = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in work.prompts]
        with torch.inference_mode():
            tokens = model.generate(
                torch.tensor(padded),
                attention_mask=torch.tensor(mask),
                do_sample=False,
                min_new_tokens=max(work.max_tokens),
                max_new_tokens=max(work.max_tokens),
                pad_token_id=0,
            )
        rows = tokens[:, width:].tolist()
        return [Answer(row[:count], float("nan")) for row, count in zip(rows, work.max_tokens, strict=True)]

    return serve


def llama_cpp(folder: Path, prefix_cache: bool) -> Serve:
    from llama_cpp import Llama

    llm = Llama(
        str(folder / "model-bf16.gguf"),
        n_ctx=MAX_LEN,
        n_threads=len(os.sched_getaffinity(0)),
        n_threads_batch=len(os.sched_getaffinity(0)),
        verbose=False,
    )

    def one(prompt: list[int], count: int) -> Answer:
        started = time.perf_counter()
        llm.reset()
        tokens: list[int] = []
        first_s = 0.0
        for token in llm.generate(prompt, temp=0.0, reset=True):
            tokens.append(token)
            first_s = first_s or time.perf_counter() - started
            if len(tokens) == count:
                break
        return Answer(tokens, first_s)

    def serve(work: Workload) -> list[Answer]:
        """Serve one request after another: the package has no batches."""
        return [one(prompt, count) for prompt, count in zip(work.prompts, work.max_tokens, strict=True)]

    return serve


PEERS: dict[str, Callable[[Path, bool], Serve]] = {
    "hami": hami,
    "hami-q8": hami_8_bit,
    "hami-q4": hami_4_bit,
    "vllm": vllm,
    "transformers": transformers,
    "llama.cpp": llama_cpp,
}
