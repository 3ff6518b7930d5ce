"""What `hami bench` was asked to do, checked: loads, settings, requests, files. Nothing is measured here."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ... import config as configuration
from ...bench import Load, samples_from
from ...bench.plots import check_plot_path
from ...bench.sweep import Changes, changed, grid, read_axes
from ...config import Config
from ...errors import ConfigError, Error, did_you_mean, quoted
from ...plan import plan
from ..source import source_of

PERCENTILES = ("50", "90", "99", "99.9")
MOST_SAMPLES = 1000

DEFAULT_CALLERS = "1,8,40"
TUNED_CALLERS = "40"

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Arguments:
    """The options of the command, as they were written."""

    file: str
    sweeps: tuple[str, ...] = ()
    callers: str | None = None
    rates: str | None = None
    arrivals: str = "poisson"
    seconds: float = 2.0
    repeats: int = 5
    warmup_s: float = 0.5
    input: str | None = None
    key: str = "data"
    seed: int = 0
    json: Path | None = None
    csv: Path | None = None
    plot: Path | None = None
    compare: Path | None = None
    fail_above: str | None = None
    latency_ms: float | None = None
    percentile: str = "99"
    nodes: tuple[str, ...] = ()
    writes: bool = False

    def check(self, *, is_tuned: bool) -> None:
        """Refuse options that mean nothing together, and files that could not be written."""
        tuning = {
            "--latency-target": self.latency_ms is not None,
            "--node": bool(self.nodes),
            "--write": self.writes,
        }
        measuring = {
            "--sweep": bool(self.sweeps),
            "--compare": self.compare is not None,
            "--json": self.json is not None,
            "--csv": self.csv is not None,
            "--plot": self.plot is not None,
        }
        for option, is_given in (measuring if is_tuned else tuning).items():
            if is_given:
                what = "cannot be used with `--tune`" if is_tuned else "means something with `--tune` only"
                raise _refused(f"`{option}` {what}", "leave one of them out")
        if self.fail_above is not None and self.compare is None:
            raise _refused("`--fail-above` means something with `--compare` only", "add `--compare old.json`")
        if is_tuned and self.latency_ms is None:
            raise _refused(
                "`--tune` needs a latency to stay within", "add `--latency-target 50`: milliseconds"
            )
        for path in (self.json, self.csv, self.plot):
            if path is not None:
                _check_writable(path)
        if self.plot is not None:
            check_plot_path(self.plot)

    # --- what is measured ------------------------------------------------------------------------

    def loads(self, default_callers: str = DEFAULT_CALLERS) -> list[Load]:
        """Return the closed loops, then the open ones. Raises ConfigError."""
        callers = self.callers if self.callers is not None or self.rates is not None else default_callers
        numbers = numbers_of("--callers", callers, int) if callers is not None else []
        rates = numbers_of("--rate", self.rates, float) if self.rates is not None else []
        common: dict[str, Any] = {
            "duration_s": self.seconds,
            "warmup_s": self.warmup_s,
            "repeats": self.repeats,
            "seed": self.seed,
        }
        return [
            *(Load(num_callers=number, **common) for number in numbers),
            *(Load(rate_per_s=rate, arrivals=self.arrivals, **common) for rate in rates),
        ]

    def config(self) -> Config:
        """Return the pipeline as it was written."""
        return configuration.load(source_of(self.file))

    def settings(self, config: Config) -> list[Changes]:
        """Return the combinations of what is swept, each of which makes a right plan. Raises ConfigError."""
        settings = grid(config, read_axes(self.sweeps))
        for changes in settings:
            plan(changed(config, changes))
        return settings

    def samples(self, run: Callable[[dict[str, Any]], object]) -> list[Mapping[str, Any]]:
        """Return the requests. Without `--input` that is an empty one, which `run` must be able to answer."""
        if self.input is not None:
            return list(
                samples_from(self.input, self.key, limit=MOST_SAMPLES, order="random", seed=self.seed)
            )
        try:
            run({})
        except Exception as error:
            reason = error.message if isinstance(error, Error) else f"{type(error).__name__}: {error}"
            raise ConfigError(
                f"the pipeline needs data, and there is no `--input`: an empty request failed: {reason}",
                code="bench-no-input",
                where="hami bench",
                help="add `--input`: a `.jsonl` file, one request a line, or files whose bytes are `data`",
            ) from error
        return [{}]

    # --- what becomes of it ----------------------------------------------------------------------

    def largest_loss(self) -> float | None:
        """Return `--fail-above` as a part of 1. Raises ConfigError."""
        if self.fail_above is None:
            return None
        try:
            percent = float(self.fail_above.removesuffix("%"))
        except ValueError:
            percent = math.nan
        if not 0 <= percent < 1000:
            raise ConfigError(
                f"`{self.fail_above}` is no percentage",
                code="bench-bad-number",
                where="--fail-above",
                help="write for example `10%`",
            )
        return percent / 100

    def percentile_name(self) -> str:
        """Return the name of the percentile in reports. Raises ConfigError."""
        if self.percentile.removeprefix("p") not in PERCENTILES:
            raise ConfigError(
                f"there is no percentile `{self.percentile}`",
                code="bench-bad-number",
                where="--percentile",
                help=did_you_mean(
                    self.percentile, PERCENTILES, otherwise=f"use one of {quoted(PERCENTILES)}"
                ),
            )
        return f"p{self.percentile.removeprefix('p')}"

    def latency_target(self) -> float:
        """Return `--latency-target`. Raises ConfigError."""
        assert self.latency_ms is not None
        if not 0 < self.latency_ms < math.inf:
            raise ConfigError(
                f"`{self.latency_ms:g}` is no latency",
                code="bench-bad-number",
                where="--latency-target",
                help="write milliseconds above 0",
            )
        return self.latency_ms


def numbers_of(option: str, text: str, kind: Callable[[str], Number]) -> list[Number]:
    """Read numbers with commas between; one that comes twice is measured once. Raises ConfigError."""
    try:
        return list(dict.fromkeys(kind(part) for part in text.split(",")))
    except ValueError:
        raise ConfigError(
            f"`{text}` is no list of {'whole ' * (kind is int)}numbers",
            code="bench-bad-number",
            where=option,
            help="write numbers with commas between: `1,8,40`",
        ) from None


def _refused(message: str, help: str) -> ConfigError:
    return ConfigError(message, code="bench-options", where="hami bench", help=help)


def _check_writable(path: Path) -> None:
    folder = path.absolute().parent
    if path.is_dir() or not os.access(folder, os.W_OK):
        why = "it is a folder" if path.is_dir() else f"there is no folder `{folder}` to write to"
        message = f"the file cannot be written: {why}"
        raise ConfigError(message, code="cli-unwritable-file", where=str(path), help="check the path")
