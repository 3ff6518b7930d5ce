"""Example 12: speech is found in streams that share runs, and every stream is heard as if it were alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from example_files import EXAMPLES, module_at, run_script
from example_readmes import check_output

import hami

PIPELINE = EXAMPLES / "12_voice_activity" / "pipeline.toml"
NUM_SAMPLES = 512


@pytest.fixture
def sounds() -> Iterator[ModuleType]:
    """Return the module that makes sounds."""
    before = set(sys.modules)
    yield module_at("12_voice_activity/sounds.py")
    for name in set(sys.modules) - before:
        del sys.modules[name]


def chunks_of(sound: np.ndarray) -> list[np.ndarray]:
    """Return a sound in chunks of 512 samples."""
    whole = sound[: len(sound) // NUM_SAMPLES * NUM_SAMPLES].astype(np.float32)
    return list(whole.reshape(-1, NUM_SAMPLES))


def heard(pipe: hami.Pipeline, name: str, chunks: list[np.ndarray], *, is_whole: bool = True) -> list[float]:
    """Send the chunks of a stream one after another; `is_whole`: the stream ends with the last one."""
    last = len(chunks) - 1
    return [
        pipe({"data": chunk, "request_id": name, "request_end": is_whole and number == last})["result"]
        for number, chunk in enumerate(chunks)
    ]


def test_the_demo_prints_what_its_page_says(tmp_path: Path) -> None:
    check_output("12_voice_activity", run_script("12_voice_activity/run.py", folder=tmp_path))


def test_a_voice_is_heard_and_noise_and_tones_are_not(sounds: ModuleType) -> None:
    voice, noise, tone = sounds.voice("aeiu", 120), sounds.silence(0.5), sounds.tone(0.5)

    with hami.pipe(PIPELINE) as pipe:
        found = [
            heard(pipe, name, chunks_of(sound)) for name, sound in (("v", voice), ("n", noise), ("t", tone))
        ]

    assert np.median(found[0]) > 0.9
    assert max(found[1]) < 0.2 and max(found[2]) < 0.2


def test_what_was_heard_of_a_stream_is_kept_until_it_ends(sounds: ModuleType) -> None:
    chunks = chunks_of(sounds.voice("ae", 120))

    with hami.pipe(PIPELINE) as pipe:
        fresh = heard(pipe, "a", chunks)
        again = heard(pipe, "a", chunks, is_whole=False)
        goes_on = heard(pipe, "a", chunks)

    assert again == fresh
    assert goes_on[0] != fresh[0]


def test_streams_in_one_call_do_not_hear_each_other(sounds: ModuleType) -> None:
    voice, noise = chunks_of(sounds.voice("ae", 120)), chunks_of(sounds.silence(2.0))
    with hami.pipe(PIPELINE) as pipe:
        alone = heard(pipe, "v", voice)
        together = []
        for number, (one, other) in enumerate(zip(voice, noise, strict=False)):
            ends = number == len(voice) - 1
            requests = [
                {"data": one, "request_id": "v", "request_end": ends},
                {"data": other, "request_id": "n", "request_end": ends},
            ]
            together.append(pipe(requests)[0]["result"])
        (figures,) = pipe.stats()

    assert np.allclose(together, alone, atol=1e-4)
    assert max(figures["batch_rows"]) == 2


@pytest.mark.parametrize(
    "chunk", [np.zeros(100, np.float32), np.zeros(512), np.zeros((1, 512), np.float32)], ids=str
)
def test_a_chunk_of_another_shape_fails_alone(chunk: np.ndarray) -> None:
    good = {"data": np.zeros(512, np.float32), "request_id": "a"}
    bad = {"data": chunk, "request_id": "b"}

    with hami.pipe(PIPELINE) as pipe, pytest.raises(hami.RequestError, match="`512` samples of float32"):
        pipe([good, bad])

    assert good["result"] < 0.5 and "result" not in bad
