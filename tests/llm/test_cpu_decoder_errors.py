"""What the CPU decoder refuses, by name, before it computes: weights, sizes and plans that do not fit."""

from __future__ import annotations

import array
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
core = pytest.importorskip("hami._core")

from dense_models import LLAMA, random_weights  # noqa: E402
from step_plans import Pages  # noqa: E402

from hami.errors import BuildError, ConfigError, RequestError  # noqa: E402

SIZES: dict[str, Any] = {
    "num_layers": LLAMA.num_layers,
    "hidden": LLAMA.hidden,
    "num_heads": LLAMA.num_heads,
    "num_kv_heads": LLAMA.num_kv_heads,
    "head_dim": LLAMA.head_dim,
    "intermediate": LLAMA.intermediate,
    "vocab": LLAMA.vocab,
    "rms_eps": LLAMA.rms_eps,
    "inv_freq": LLAMA.inv_freq,
    "tie_embeddings": True,
    "max_tokens_per_step": 64,
    "max_rows": 4,
    "dtype": "float32",
    "threads": 2,
}


@pytest.fixture(scope="module")
def decoder() -> Any:
    made = core.CpuDecoder(**SIZES)
    for name, weight in random_weights(LLAMA).items():
        made.set_weight(name, weight)
    made.make_pool(20, 4, 2)
    return made


def good_plan() -> SimpleNamespace:
    pages = Pages(20, 4, 4)
    return pages.plan([(pages.line(), [1, 2, 3, 4, 5, 6]), (pages.line(), [7])])


BAD_SIZES = {
    "no layers": ({"num_layers": 0}, "num_layers"),
    "a head of 20": ({"head_dim": 20, "inv_freq": [1.0] * 10}, "multiple of 16"),
    "heads that do not divide": ({"num_kv_heads": 4}, "no multiple of"),
    "too few angles": ({"inv_freq": [1.0]}, "`inv_freq` has `1` numbers"),
    "an angle that is not finite": ({"inv_freq": [float("nan")] * 8}, "not finite"),
    "an unknown type": ({"dtype": "int8"}, "`dtype` is `int8`"),
    "blocks on pages": ({"kv_dtype": "q8"}, "`kv_dtype` is `q8`"),
    "an unknown instruction set": ({"isa": "mmx"}, "`isa` is `mmx`"),
    "negative threads": ({"threads": -1}, "threads"),
    "a huge vocabulary": ({"vocab": 1 << 40}, "vocab"),
}


@pytest.mark.parametrize(("change", "message"), BAD_SIZES.values(), ids=BAD_SIZES)
def test_sizes_that_cannot_be_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        core.CpuDecoder(**(SIZES | change))

    assert raised.value.code == "decoder-config"


BAD_WEIGHTS = {
    "unknown": ("layers.0.self_attn.x_proj.weight", (96, 96), "no weight"),
    "a layer too many": ("layers.3.mlp.up_proj.weight", (200, 96), "no weight"),
    "a bias that this model lacks": ("layers.0.self_attn.q_proj.bias", (96,), "no weight"),
    "transposed": ("layers.0.mlp.up_proj.weight", (96, 200), "`96x200`"),
    "a matrix for a vector": ("norm.weight", (1, 96), "`1x96`"),
    "the head of a tied model": ("lm_head.weight", (301, 96), "tie_embeddings"),
    "with its prefix": ("model.norm.weight", (96,), "without the prefix"),
}


@pytest.mark.parametrize(("name", "shape", "message"), BAD_WEIGHTS.values(), ids=BAD_WEIGHTS)
def test_a_weight_that_does_not_fit_is_named(name: str, shape: tuple[int, ...], message: str) -> None:
    made = core.CpuDecoder(**SIZES)

    with pytest.raises(ConfigError, match=message) as raised:
        made.set_weight(name, np.zeros(shape, np.float32))

    assert name in str(raised.value)
    assert raised.value.code == "decoder-weight"


@pytest.mark.parametrize("weight", [None, "text", [1.0], np.zeros(96, np.int32), np.zeros(96, np.float64)])
def test_a_weight_that_is_no_array_of_floats_is_named(weight: Any) -> None:
    with pytest.raises(RequestError, match=r"norm\.weight"):
        core.CpuDecoder(**SIZES).set_weight("norm.weight", weight)


def test_a_decoder_without_weights_or_pages_says_what_is_missing() -> None:
    made = core.CpuDecoder(**SIZES)
    with pytest.raises(BuildError, match=r"29 weights are missing, first `embed_tokens\.weight`"):
        made.run(good_plan())
    assert len(made.missing_weights()) == 29

    for name, weight in random_weights(LLAMA).items():
        made.set_weight(name, weight)

    assert made.missing_weights() == []
    with pytest.raises(BuildError, match="no pages yet"):
        made.run(good_plan())


@pytest.mark.parametrize(
    ("num_pages", "page_size", "num_swap_pages"), [(0, 4, 0), (4, 0, 0), (4, 4, -1), (1 << 20, 1 << 20, 0)]
)
def test_a_pool_that_cannot_be_is_refused(num_pages: int, page_size: int, num_swap_pages: int) -> None:
    with pytest.raises(ConfigError):
        core.CpuDecoder(**SIZES).make_pool(num_pages, page_size, num_swap_pages)


def put(field: str, index: Any, value: int) -> Callable[[SimpleNamespace], None]:
    def change(plan: SimpleNamespace) -> None:
        getattr(plan, field)[index] = value

    return change


def replace(field: str, value: Any) -> Callable[[SimpleNamespace], None]:
    return lambda plan: setattr(plan, field, value)


BAD_PLANS = {
    "a token outside the vocabulary": (put("token_ids", 2, 301), r"`token_ids\[2\]` is `301`"),
    "a negative token": (put("token_ids", 0, -1), r"`token_ids\[0\]` is `-1`"),
    "a negative position": (put("positions", 1, -5), r"`positions\[1\]`"),
    "a slot outside the pool": (put("slots", 3, 80), r"`slots\[3\]` is `80`, not below 80"),
    "a wanted token that is not there": (put("logit_tokens", 0, 7), r"`logit_tokens\[0\]`"),
    "rows that overlap": (put("query_starts", 1, 8), "query_starts"),
    "rows that do not end": (put("query_starts", 2, 6), "query_starts"),
    "an empty row": (put("query_starts", 1, 0), "row `0` has no tokens"),
    "a context shorter than its chunk": (put("context_lens", 0, 5), r"`context_lens\[0\]` is `5`"),
    "a context longer than its pages": (put("context_lens", 0, 10**6), r"`context_lens\[0\]`"),
    "a row of the table that is not there": (put("table_rows", 1, 4), r"`table_rows\[1\]` is `4`"),
    "a page that is not there": (put("page_table", (3, 1), 20), r"`page_table\[3, 1\]` is `20`"),
    "a copy from nowhere": (replace("copies", np.array([[20, 1]], np.int32)), r"`copies\[0\]`"),
    "a swap to nowhere": (replace("swap_out", np.array([[1, 2]], np.int32)), "swap_out"),
    "a pair that is none": (replace("swap_in", np.array([1], np.int32)), "swap_in"),
    "numbers of 64 bits": (replace("slots", np.zeros(7, np.int64)), "`slots` is `int64"),
    "too few slots": (replace("slots", np.zeros(3, np.int32)), "`slots` has `3` numbers"),
    "a flat table": (replace("page_table", np.zeros(80, np.int32)), "page_table"),
    "no array": (replace("positions", None), "`positions` is of type `NoneType`"),
    "too many tokens": (replace("token_ids", np.zeros(65, np.int32)), "`65` tokens"),
}


@pytest.mark.parametrize(("change", "message"), BAD_PLANS.values(), ids=BAD_PLANS)
def test_a_plan_that_does_not_fit_is_refused(change: Any, message: str, decoder: Any) -> None:
    plan = good_plan()
    change(plan)

    with pytest.raises(RequestError, match=message) as raised:
        decoder.run(plan)

    assert raised.value.code in ("decoder-plan", "decoder-array")
    assert decoder.run(good_plan()).shape == (2, LLAMA.vocab)


def test_a_plan_without_a_field_raises_its_name(decoder: Any) -> None:
    plan = good_plan()
    del plan.slots

    with pytest.raises(AttributeError, match="slots"):
        decoder.run(plan)


def test_a_plan_may_be_of_any_arrays(decoder: Any) -> None:
    plan = good_plan()
    expected = bytes(decoder.run(plan))
    flat = {name: array.array("i", value.ravel().tolist()) for name, value in vars(plan).items()}
    flat["page_table"] = memoryview(flat["page_table"]).cast("B").cast("i", plan.page_table.shape)

    assert bytes(decoder.run(SimpleNamespace(**flat))) == expected
    tensors = {name: torch.from_numpy(value) for name, value in vars(plan).items()}
    assert bytes(decoder.run(SimpleNamespace(**tensors))) == expected


def test_an_empty_plan_only_copies_pages(decoder: Any) -> None:
    empty = {name: np.zeros(0, np.int32) for name in vars(good_plan())}
    empty |= {"query_starts": np.zeros(1, np.int32), "page_table": np.zeros((4, 20), np.int32)}

    assert decoder.run(
        SimpleNamespace(
            **empty,
        )
    ).shape == (0, LLAMA.vocab)


def test_one_decoder_may_be_called_from_many_threads(decoder: Any) -> None:
    plan = good_plan()
    expected = bytes(decoder.run(plan))
    found: list[bytes] = []

    def work() -> None:
        found.extend(bytes(decoder.run(plan)) for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [expected] * 40


def test_an_interpreter_ends_while_a_decoder_is_alive() -> None:
    code = "import hami._core as c, numpy as n\nm = c.CpuLinear(n.ones((64, 64), n.float32), threads=4)\n"
    code += "m(n.ones((3, 64), n.float32))\nprint('end')"

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True
    )

    assert done.stdout == "end\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_decoder_works_in_a_forked_child(decoder: Any) -> None:
    plan = good_plan()
    expected = bytes(decoder.run(plan))
    child = os.fork()
    if child == 0:
        os._exit(0 if bytes(decoder.run(plan)) == expected else 1)

    assert os.waitpid(child, 0)[1] == 0
    assert bytes(decoder.run(plan)) == expected
    gc.collect()
