"""One reader of `ocr.py`, in a process of its own: the OCR example, or the package that its models come from.

    python ocr_cases.py READER CALLERS PICTURES      prints one line of JSON

Pictures, readers and the loop are those of `examples/01_ocr/run.py`. The package reads one picture after
another; with several callers each has a reader of its own, as one would write it by hand.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from other_load import OtherLoad, sample
from rounds import report

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "01_ocr"

Read = Callable[[bytes], list[str]]
Stats = Callable[[], list[dict[str, Any]]]


def demo() -> ModuleType:
    """Return the module of the example's `run.py`."""
    spec = importlib.util.spec_from_file_location("ocr_demo", EXAMPLE / "run.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def hami_reader(example: ModuleType, num_callers: int) -> tuple[Read, Stats]:
    import hami

    pipe = hami.pipe(EXAMPLE / "pipeline.toml")
    return lambda picture: [line["text"] for line in example.read(pipe, picture)], pipe.stats


def only_reader(example: ModuleType, **options: Any) -> Read:
    reader, reason = example.peer_reader(**options)
    if reader is None:
        raise SystemExit(reason)
    read: Read = reader
    return read


def package_reader(example: ModuleType, num_callers: int) -> tuple[Read, Stats]:
    """Return a function that reads with a reader for each thread, all made before the clock runs."""
    if num_callers == 1:
        return only_reader(example), list
    unused = [only_reader(example) for _ in range(num_callers + 1)]  # the main thread reads the samples
    own = threading.local()

    def read(picture: bytes) -> list[str]:
        if not hasattr(own, "reader"):
            own.reader = unused.pop()
        texts: list[str] = own.reader(picture)
        return texts

    return read, list


def one_by_one_reader(example: ModuleType, num_callers: int) -> tuple[Read, Stats]:
    """Return the package with one line in a batch: the text that hami must give is that of this one."""
    return only_reader(example, rec_batch_num=1), list


READERS: dict[str, Callable[[ModuleType, int], tuple[Read, Stats]]] = {
    "hami": hami_reader,
    "package": package_reader,
    "one_by_one": one_by_one_reader,
}


def node_figures(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for each node its runs in between, and the time of a usual run and of a usual wait."""
    return [
        {
            "node": late["node"],
            "instances": late["instances"],
            "items": late["items"] - early["items"],
            "runs": late["run_ms"]["count"] - early["run_ms"]["count"],
            "run_ms": late["run_ms"]["p50"],
            "wait_ms": late["wait_ms"]["p50"],
        }
        for early, late in zip(before, after, strict=True)
    ]


def main(reader: str, num_callers: int, num_pictures: int) -> None:
    example = demo()
    samples = [example.photographed_page(), example.drawn_page()]
    read, stats = READERS[reader](example, num_callers)
    texts = [read(picture) for picture in samples]
    others_before_cores = sample(0.2)
    before, load, start_s = stats(), OtherLoad(), time.perf_counter()
    pictures = list(itertools.islice(itertools.cycle(samples), num_pictures))
    pictures_per_s = example.pictures_a_second(read, pictures, num_callers)
    report(
        reader,
        others_before_cores,
        load.cores(),
        callers=num_callers,
        pictures_per_s=pictures_per_s,
        seconds=time.perf_counter() - start_s,
        busy_share=load.own_cores() / (os.cpu_count() or 1),
        texts=texts,
        nodes=node_figures(before, stats()),
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
