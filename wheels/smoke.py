"""What every wheel must do in an empty environment: calls from threads, batches, errors, a file."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import hami


@hami.register
class Twice(hami.Backend):
    max = 8

    def forward(self, batch: list[dict[str, Any]]) -> None:
        for item in batch:
            if item["data"] < 0:
                raise ValueError("below zero")
            item["result"] = 2 * item["data"]


FILE = """
[first]
backend = "Twice"
max = 8
batching_timeout = 1
instance_num = 2
next = "second"

[second]
backend = "S[Identity, Identity]"
"""


def main() -> None:
    for module in ("numpy", "torch"):
        assert module not in sys.modules
    path = Path(tempfile.mkdtemp()) / "pipeline.toml"
    path.write_text(FILE)
    with hami.pipe(str(path)) as pipe, ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda i: pipe({"data": i})["result"], range(1000)))
        assert results == [2 * i for i in range(1000)], results[:10]
        try:
            pipe({"data": -1})
        except ValueError as error:
            assert "below zero" in str(error)
        else:
            raise AssertionError("the error did not come out")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        assert not sys._is_gil_enabled(), "the core has turned the GIL on"
    try:
        hami.pipe("Identty")
    except hami.ConfigError as error:
        assert "Identity" in str(error), error
    else:
        raise AssertionError("a wrong name was accepted")
    explained = subprocess.run(
        [sys.executable, "-m", "hami", "explain", "queue-full"], capture_output=True, text=True
    )
    assert "queue_capacity" in explained.stdout, explained


if __name__ == "__main__":
    main()
