"""What a fresh interpreter weighs after one thing was loaded, and how long that took; used by `memory.py`.

    python memory_loading.py CASE      prints one line of JSON

Imports nothing that a bare interpreter has not loaded already, apart from the clock: whatever else stood here
would be missing from the figures.
"""

import sys
import time


def memory_kb(name: str) -> int:
    """Return `Rss` or `Pss` of this process as the kernel counts it."""
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name + ":"))


def nothing() -> object:
    """A bare interpreter."""
    return None


def package() -> object:
    """`import hami`, which leaves the compiled core for later."""
    import hami

    return hami


def core() -> object:
    """`import hami._core`, the package included."""
    import hami._core

    return hami._core


def one_node() -> object:
    """The import, a pipeline of one node, and a call."""
    import hami

    pipe = hami.pipe({"copy": {"backend": "Identity"}})
    pipe({"data": 1})
    return pipe


def one_python_node() -> object:
    """The same with a backend in Python, and so with a thread."""
    import hami

    @hami.register("MemoryEcho")
    class Echo(hami.Backend):
        def forward(self, batch):  # type: ignore[no-untyped-def]
            return [item["data"] for item in batch]

    pipe = hami.pipe({"echo": {"backend": "MemoryEcho"}})
    pipe({"data": 1})
    return pipe


CASES = {function.__name__: function for function in (nothing, package, core, one_node, one_python_node)}


def main(case: str) -> None:
    start_s = time.perf_counter()
    keep = CASES[case]()
    ms = (time.perf_counter() - start_s) * 1e3
    rss_kb, pss_kb = memory_kb("Rss"), memory_kb("Pss")
    print(
        f'{{"case": "{case}", "ms": {ms}, "rss_mb": {rss_kb / 1024}, "pss_mb": {pss_kb / 1024}}}', flush=True
    )
    del keep


if __name__ == "__main__":
    main(sys.argv[1])
