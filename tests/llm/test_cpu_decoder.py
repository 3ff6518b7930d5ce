"""The CPU decoder computes what the same model in plain torch does, whatever pages and chunks a plan has."""

from __future__ import annotations

import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from cpu_decoders import ISAS, MAX_ROWS, expected, logits_of, make_decoder, random_ids  # noqa: E402
from dense_models import LLAMA, QWEN2, QWEN3, Sizes, random_weights  # noqa: E402
from step_plans import Pages  # noqa: E402

MODELS = {"llama": LLAMA, "qwen2": QWEN2, "qwen3": QWEN3}


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("sizes", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("page_size", [1, 5, 16])
def test_a_prompt_and_its_tokens_one_by_one_are_those_of_torch(
    sizes: Sizes, isa: str, page_size: int
) -> None:
    decoder = make_decoder(sizes, isa=isa)
    decoder.make_pool(200, page_size)
    pages = Pages(200, page_size, MAX_ROWS)
    line = pages.line()
    ids = random_ids(sizes, 90)

    found = [logits_of(decoder, pages.plan([(line, ids[:70])], "all"))]
    found += [logits_of(decoder, pages.plan([(line, [token])])) for token in ids[70:]]

    torch.testing.assert_close(torch.cat(found), expected(sizes, ids), atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("sizes", MODELS.values(), ids=MODELS)
def test_chunks_and_mixed_rows_do_not_change_a_sequence(sizes: Sizes, threads: int) -> None:
    decoder = make_decoder(sizes, threads=threads)
    decoder.make_pool(300, 4)
    pages = Pages(300, 4, MAX_ROWS)
    generator = random.Random(7)
    texts = [random_ids(sizes, generator.randrange(20, 150), seed) for seed in range(MAX_ROWS)]
    lines = [pages.line() for _ in texts]
    found: list[list[torch.Tensor]] = [[] for _ in texts]
    while True:
        open_rows = [i for i, text in enumerate(texts) if lines[i].num_computed < len(text)]
        if not open_rows:
            break
        chosen = generator.sample(open_rows, generator.randint(1, len(open_rows)))
        chunks = []
        for i in chosen:
            start = lines[i].num_computed
            chunks.append((lines[i], texts[i][start : start + generator.choice([1, 1, 2, 3, 31])]))
        rows = logits_of(decoder, pages.plan(chunks, "all"))
        for i, part in zip(chosen, rows.split([len(ids) for _, ids in chunks]), strict=True):
            found[i].append(part)

    for text, parts in zip(texts, found, strict=True):
        torch.testing.assert_close(torch.cat(parts), expected(sizes, text), atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("isa", ISAS)
def test_a_long_context_is_shared_among_threads(isa: str) -> None:
    decoder = make_decoder(LLAMA, threads=4, isa=isa, max_tokens_per_step=1500)
    decoder.make_pool(200, 16)
    pages = Pages(200, 16, MAX_ROWS)
    line = pages.line()
    ids = random_ids(LLAMA, 1400)

    decoder.run(pages.plan([(line, ids[:-2])]))
    found = [logits_of(decoder, pages.plan([(line, [token])])) for token in ids[-2:]]

    torch.testing.assert_close(torch.cat(found), expected(LLAMA, ids)[-2:], atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("dtype", "kv_dtype"),
    [("bfloat16", "bfloat16"), ("float16", "float16"), ("bfloat16", "float32"), ("float32", "bfloat16")],
)
@pytest.mark.parametrize("sizes", MODELS.values(), ids=MODELS)
def test_half_precision_stays_near(sizes: Sizes, dtype: str, kv_dtype: str, isa: str) -> None:
    decoder = make_decoder(sizes, dtype=dtype, kv_dtype=kv_dtype, isa=isa)
    decoder.make_pool(100, 8)
    pages = Pages(100, 8, MAX_ROWS)
    line = pages.line()
    ids = random_ids(sizes, 40)

    found = [logits_of(decoder, pages.plan([(line, ids[:33])], "all"))]
    found += [logits_of(decoder, pages.plan([(line, [token])])) for token in ids[33:]]

    # the weights of these models are numbers of bfloat16: only activations and pages are rounded
    exact = dtype != "float16" and kv_dtype == "float32" and isa != "avx512_bf16"
    tolerance = 2e-5 if exact else 0.06
    torch.testing.assert_close(torch.cat(found), expected(sizes, ids), atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_weights_come_in_any_float_type(dtype: torch.dtype) -> None:
    weights = {name: weight.to(dtype) for name, weight in random_weights(LLAMA).items()}
    decoder = make_decoder(LLAMA, weights)
    decoder.make_pool(20, 8)
    pages = Pages(20, 8, MAX_ROWS)
    ids = random_ids(LLAMA, 20)

    found = logits_of(decoder, pages.plan([(pages.line(), ids)], "all"))

    tolerance = 1e-2 if dtype == torch.float16 else 2e-5
    torch.testing.assert_close(found, expected(LLAMA, ids), atol=tolerance, rtol=1e-5)


def test_pages_are_swapped_out_and_in_and_copied_before_the_forward() -> None:
    decoder = make_decoder(LLAMA)
    decoder.make_pool(40, 4, 10)
    pages = Pages(40, 4, MAX_ROWS)
    line, other = pages.line(), pages.line()
    ids = random_ids(LLAMA, 30)
    decoder.run(pages.plan([(line, ids[:18])]))
    old = list(line.pages)
    # out to the second pool; others write the old pages; back to new ones, the last of which is copied again
    out = pages.plan([(other, ids[:3])], swap_out=[(page, i) for i, page in enumerate(old)])
    decoder.run(out)
    pages.free += old
    decoder.run(pages.plan([(pages.line(), random_ids(LLAMA, 20, 3))]))
    new = [pages.free.pop(0) for _ in old]
    last = pages.free.pop(0)
    line.pages = [*new[:-1], last]
    back = {"swap_in": [(i, page) for i, page in enumerate(new)], "copies": [(new[-1], last)]}

    found = logits_of(decoder, pages.plan([(line, ids[18:])], "all", **back))

    torch.testing.assert_close(found, expected(LLAMA, ids)[18:], atol=2e-5, rtol=1e-5)


def test_a_row_may_read_pages_that_another_row_of_the_step_writes() -> None:
    decoder = make_decoder(LLAMA)
    decoder.make_pool(40, 4)
    pages = Pages(40, 4, MAX_ROWS)
    first, second = pages.line(), pages.line()
    ids = random_ids(LLAMA, 17)
    plan = pages.plan([(first, ids[:16])])
    second.pages, second.num_computed = list(first.pages), 16
    first.num_computed = 0
    pages.free += []
    plan = pages.plan([(second, ids[16:]), (first, ids[:16])])

    found = logits_of(decoder, plan)

    torch.testing.assert_close(found, expected(LLAMA, ids)[[16, 15]], atol=2e-5, rtol=1e-5)


def test_wanted_logits_come_in_the_order_they_are_named() -> None:
    decoder = make_decoder(LLAMA)
    decoder.make_pool(40, 4)
    pages = Pages(40, 4, MAX_ROWS)
    ids = random_ids(LLAMA, 12)
    plan = pages.plan([(pages.line(), ids)])
    plan.logit_tokens = np.array([5, 0, 11, 5], np.int32)

    found = logits_of(decoder, plan)

    torch.testing.assert_close(found, expected(LLAMA, ids)[[5, 0, 11, 5]], atol=2e-5, rtol=1e-5)


def test_a_step_without_wanted_logits_still_fills_pages() -> None:
    decoder = make_decoder(QWEN2)
    decoder.make_pool(40, 4)
    pages = Pages(40, 4, MAX_ROWS)
    line = pages.line()
    ids = random_ids(QWEN2, 30)

    nothing = decoder.run(pages.plan([(line, ids[:20])], "none"))
    found = logits_of(decoder, pages.plan([(line, ids[20:])], "all"))

    assert nothing.shape == (0, QWEN2.vocab)
    torch.testing.assert_close(found, expected(QWEN2, ids)[20:], atol=2e-5, rtol=1e-5)


def test_a_result_stays_as_long_as_it_is_kept() -> None:
    decoder = make_decoder(LLAMA)
    decoder.make_pool(40, 4)
    pages = Pages(40, 4, MAX_ROWS)
    line = pages.line()
    kept = decoder.run(pages.plan([(line, [1, 2, 3])]))
    before = bytes(kept)

    for token in range(6):
        decoder.run(pages.plan([(line, [token])]))

    assert bytes(kept) == before


def test_what_is_not_a_number_reaches_its_own_logits_only() -> None:
    weights = random_weights(LLAMA)
    weights["embed_tokens.weight"][7] = float("nan")
    decoder = make_decoder(LLAMA, weights)
    decoder.make_pool(40, 4)
    pages = Pages(40, 4, MAX_ROWS)
    bad, good = pages.line(), pages.line()

    found = logits_of(decoder, pages.plan([(bad, [1, 7, 2]), (good, [1, 3, 2])]))

    assert found[0].isnan().all()
    assert found[1].isnan().nonzero().tolist() == [[7]]  # the row of the tied output
