"""The settings of an engine, the same for `hami.LLM(model, ...)`, for `hami.AsyncLLM` and as keys of a node.

Each is declared once, as a field of `EngineSettings`; nodes, constructors, checks and the reference page take
them from there.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from hami.errors import ConfigError
from hami.params import Param


def _setting(
    default: Any,
    doc: str,
    *,
    type: str = "",
    unit: str = "",
    min: float | None = None,
    max: float | None = None,
    choices: Sequence[str] = (),
) -> Any:
    declared = Param(
        type=type or default.__class__.__name__,
        default=default,
        unit=unit,
        min=min,
        max=max,
        choices=tuple(choices),
        doc=doc,
        name="",
    )
    return field(default=default, metadata={"param": declared})


@dataclass(frozen=True)
class EngineSettings:
    """Checked settings."""

    # ruff: noqa: RUF009 - each call makes a dataclass field
    dtype: str = _setting(
        "auto",
        "number format of the weights; `auto`: bfloat16; q8 and q4 are faster, and change the output",
        choices=("auto", "float32", "bfloat16", "float16", "q8", "q4"),
    )
    page_size: int = _setting(16, "tokens of a page", min=1, max=1024, unit="tokens")
    num_pages: int | None = _setting(
        None,
        "pages of the pool, the dummy page 0 included; unset: by `memory_utilization`",
        type="int",
        min=2,
    )
    memory_utilization: float = _setting(
        0.5, "share of the free memory that the pool takes where `num_pages` is not given", min=0.0, max=1.0
    )
    max_running: int = _setting(128, "most sequences in one step", min=1, max=65536)
    max_model_len: int | None = _setting(
        None, "longest sequence; unset: what the model was made for", type="int", min=2, unit="tokens"
    )
    max_batched_tokens: int = _setting(1024, "most tokens computed in one step", min=1, unit="tokens")
    prefix_cache: str = _setting("radix", "how prefixes are found", choices=("radix", "hash", "none"))
    policy: Any = _setting(
        "fcfs",
        "who is next: `fcfs`, `priority`, `fair`, `shortest`, `prefill_first`, or a class of hami.Scheduler",
        type="any",
    )
    preempt: str = _setting("recompute", "what becomes of a victim's pages", choices=("recompute", "swap"))
    num_swap_pages: int = _setting(0, "pages of the second pool, for `swap`; 0: as many as the first", min=0)
    attention: str = _setting(
        "auto", "the attention kernels; `auto`: cpu_paged on the CPU", choices=("auto", "cpu_paged", "sdpa")
    )
    device: str = _setting("cpu", "where the model runs: `cpu`, or `cuda:0` with `sdpa`")
    threads: int = _setting(0, "threads of one step on the CPU; 0: one for each core", min=0, max=1024)
    seed: int = _setting(0, "for requests without a seed of their own", min=0)

    @classmethod
    def from_keywords(cls, where: str, keywords: dict[str, Any]) -> EngineSettings:
        """Check keyword arguments. Raises ConfigError naming the argument, its value and what it may be."""
        for name, value in keywords.items():
            if name not in SETTINGS:
                near = difflib.get_close_matches(name, SETTINGS, n=1)
                help = f"did you mean `{near[0]}`?" if near else f"use one of {', '.join(SETTINGS)}"
                raise _refusal(where, f"there is no setting `{name}`", help)
            _check(where, name, SETTINGS[name], value)
        return cls(**keywords)

    @property
    def num_threads(self) -> int:
        """Return how many threads a step uses."""
        return self.threads or len(os.sched_getaffinity(0))


SETTINGS: dict[str, Param] = {each.name: each.metadata["param"] for each in fields(EngineSettings)}

_TYPES: dict[str, Any] = {"int": int, "float": (int, float), "str": str}


def _check(where: str, name: str, setting: Param, value: Any) -> None:
    if setting.type == "any" or (value is None and setting.default is None):
        return
    if isinstance(value, bool) or not isinstance(value, _TYPES[setting.type]):
        raise _refusal(where, f"`{name}` is `{value!r}`", f"use a value of type {setting.type}")
    if setting.choices and value not in setting.choices:
        raise _refusal(where, f"`{name}` is `{value}`", f"use one of {', '.join(setting.choices)}")
    if setting.min is not None and not value >= setting.min:
        raise _refusal(where, f"`{name}` is `{value}`", f"use at least {setting.min}")
    if setting.max is not None and not value <= setting.max:
        raise _refusal(where, f"`{name}` is `{value}`", f"use at most {setting.max}")


def _refusal(where: str, message: str, help: str) -> ConfigError:
    return ConfigError(message, code="llm-setting", where=where, help=help)
