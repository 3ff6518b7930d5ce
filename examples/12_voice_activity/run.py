"""Send four streams of sound at once, a chunk at a time, and print when somebody speaks in each.

Run: python examples/12_voice_activity/run.py
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

import hami

sys.path.insert(0, str(Path(__file__).resolve().parent))
from sounds import RATE_HZ, silence, tone, voice  # examples/12_voice_activity/sounds.py

HERE = Path(__file__).resolve().parent
NUM_SAMPLES = 512


def streams() -> dict[str, np.ndarray]:
    """Return what each of four callers sends."""
    parts = {
        "a voice": [silence(0.8), voice("aiueaiue", 115), silence(0.8)],
        "a high voice, late": [silence(1.6), voice("ueaiue", 190), silence(0.4)],
        "a tone": [silence(0.5), tone(1.5), silence(0.5)],
        "a voice, a pause, a voice": [voice("aeiu", 120), silence(1.0), voice("uiea", 130), silence(0.3)],
    }
    return {name: np.concatenate(part).astype(np.float32) for name, part in parts.items()}


def likelihoods(pipe: Any, name: str, sound: np.ndarray) -> list[float]:
    """Send a stream chunk by chunk, each after the answer to the one before, and return all answers."""
    chunks = sound[: len(sound) // NUM_SAMPLES * NUM_SAMPLES].reshape(-1, NUM_SAMPLES)
    return [
        pipe({"data": chunk, "request_id": name, "request_end": number == len(chunks) - 1})["result"]
        for number, chunk in enumerate(chunks)
    ]


def spoken(likely: list[float]) -> list[str]:
    """Return from when to when somebody speaks."""
    found, at = [], 0
    for is_speech, group in groupby(value > 0.5 for value in likely):
        start, at = at, at + len(list(group))
        if is_speech:
            found.append(f"{start * NUM_SAMPLES / RATE_HZ:.1f} to {at * NUM_SAMPLES / RATE_HZ:.1f} s")
    return found


def main() -> None:
    """Print one line for each stream, and whether company makes a difference."""
    sounds = streams()
    with hami.pipe(HERE / "pipeline.toml") as pipe:
        with ThreadPoolExecutor(len(sounds)) as callers:
            together = list(callers.map(lambda name: likelihoods(pipe, name, sounds[name]), sounds))
        (figures,) = pipe.stats()
        alone = [likelihoods(pipe, name, sound) for name, sound in sounds.items()]
    for name, likely in zip(sounds, together, strict=True):
        print(f"{name:26} {', '.join(spoken(likely)) or 'nobody speaks'}")
    runs = sum(figures["batch_rows"].values())
    print(f"{figures['items']} chunks in runs: {runs}")
    is_same = all(np.allclose(one, other, atol=1e-4) for one, other in zip(together, alone, strict=True))
    print("each stream alone gives", "the same" if is_same else "SOMETHING ELSE")


if __name__ == "__main__":
    main()
