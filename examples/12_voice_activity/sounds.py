"""Sounds for the example: something like a voice, noise, and a tone, made of numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RATE_HZ = 16_000

# frequency in Hz, width in Hz and strength of the resonances of a mouth, by vowel
VOWELS = {
    "a": ((730, 90, 1.0), (1090, 110, 0.6), (2440, 160, 0.3)),
    "i": ((270, 60, 1.0), (2290, 150, 0.5), (3010, 200, 0.3)),
    "u": ((300, 60, 1.0), (870, 100, 0.4), (2240, 150, 0.1)),
    "e": ((530, 80, 1.0), (1840, 120, 0.6), (2480, 160, 0.3)),
}


def vowel(name: str, pitch_hz: float, seconds: float) -> np.ndarray:
    """Return a sung vowel: the overtones of a pitch that wavers, each as loud as the mouth lets it pass."""
    times = np.arange(int(seconds * RATE_HZ)) / RATE_HZ
    phase = 2 * np.pi * np.cumsum(pitch_hz * (1 + 0.06 * np.sin(6 * np.pi * times))) / RATE_HZ
    sound = np.zeros(len(times))
    for overtone in range(1, int(4000 / pitch_hz)):
        gain = sum(
            strength / (1 + ((overtone * pitch_hz - centre) / width) ** 2)
            for centre, width, strength in VOWELS[name]
        )
        sound += gain / overtone**0.3 * np.sin(overtone * phase)
    fade = np.minimum(1, np.minimum(times / 0.03, (seconds - times) / 0.05))
    return sound * fade


def voice(text: Sequence[str], pitch_hz: float, seed: int = 0) -> np.ndarray:
    """Return vowels with a hiss before each, at most 0.4 loud."""
    hiss = np.random.default_rng(seed)
    parts = []
    for number, name in enumerate(text):
        noise = np.diff(hiss.standard_normal(int(0.06 * RATE_HZ)), prepend=0) * 0.15
        parts += [noise, vowel(name, pitch_hz + 10 * (number % 4), 0.16 + 0.05 * (number % 3)), np.zeros(320)]
    sound = np.concatenate(parts)
    return sound / np.abs(sound).max() * 0.4


def silence(seconds: float, seed: int = 1) -> np.ndarray:
    """Return the noise of an empty room."""
    return np.random.default_rng(seed).standard_normal(int(seconds * RATE_HZ)) * 0.002


def tone(seconds: float, frequency_hz: float = 440) -> np.ndarray:
    """Return a tone, which is no voice."""
    return 0.3 * np.sin(2 * np.pi * frequency_hz * np.arange(int(seconds * RATE_HZ)) / RATE_HZ)
