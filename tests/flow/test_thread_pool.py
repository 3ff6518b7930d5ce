"""Laws of `ThreadPoolExecutor`: copies inside one instance that share a batch."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import pytest

import hami

FOR_EVER_MS = 600_000


def node(backend: str, **more: Any) -> dict[str, Any]:
    return {"backend": backend, "batching_timeout": FOR_EVER_MS, **more}


def requests_of(values: Any) -> list[dict[str, Any]]:
    return [{"data": value} for value in values]


def results_of(requests: list[dict[str, Any]]) -> list[Any]:
    return [request.get("result") for request in requests]


def thread_names() -> list[str]:
    """Return the names of this process's threads, as the kernel knows them."""
    names = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/comm", encoding="utf-8") as file:
                names.append(file.read().strip())
        except OSError:
            pass
    return names


def test_a_batch_is_divided_among_copies_and_put_together_again(open_pipe: Any) -> None:
    together = threading.Barrier(3)
    batches: list[list[int]] = []

    class Meeting(hami.Backend):
        def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
            batches.append([item["data"] for item in batch])
            together.wait(10)  # ends only when three copies are inside
            return [(item["data"], id(self)) for item in batch]

    hami.register("Meeting", Meeting)
    pipeline = open_pipe(node("ThreadPoolExecutor(num_threads=3)[Meeting]", max=9))
    answers = results_of(pipeline(requests_of(range(9))))
    assert [data for data, _ in answers] == list(range(9))
    assert len({copy for _, copy in answers}) == 3
    assert sorted(batches) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_the_parts_are_about_equal(open_pipe: Any, probe: Any) -> None:
    seen = probe(batch_range=(1, 4))
    pipeline = open_pipe(node("ThreadPoolExecutor(num_threads=4)[Probe]"))
    pipeline(requests_of(range(10)))
    assert sorted(len(batch) for batch in seen.batches) == [2, 2, 3, 3]


def test_it_takes_as_many_rows_as_its_copies_together(open_pipe: Any, probe: Any) -> None:
    probe(batch_range=(1, 4))
    pipeline = open_pipe(node("ThreadPoolExecutor(num_threads=2)[Probe]"))
    pipeline(requests_of(range(20)))
    assert pipeline.stats()[0]["batch_rows"] == {8: 2, 4: 1}
    with pytest.raises(hami.RequestError) as caught:
        pipeline({"data": 1, "request_size": 9})
    assert caught.value.code == "request-too-large"


def test_rows_of_a_part_never_exceed_max(open_pipe: Any, probe: Any) -> None:
    seen = probe(work=lambda item: item["request_size"], batch_range=(1, 4))
    pipeline = open_pipe(node("ThreadPoolExecutor(num_threads=3)[Probe]"))
    sizes = [3, 3, 2, 3, 1]
    pipeline([{"data": size, "request_size": size} for size in sizes])
    assert sorted(data for batch in seen.batches for data in batch) == sorted(sizes)
    assert max(sum(batch) for batch in seen.batches) <= 4


def test_one_bad_item_fails_alone(open_pipe: Any, probe: Any) -> None:
    probe(work=lambda item: 1 // item["data"])
    pipeline = open_pipe(node("ThreadPoolExecutor(num_threads=2)[Probe]", max=16))
    requests = requests_of([1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1])
    with pytest.raises(ZeroDivisionError) as caught:
        pipeline(requests)
    assert results_of(requests) == [1, 1, 1, 1, None, 1, 1, 1, 1, 1, 1, 1, 1, 1, None, 1]
    assert "node `node`" in caught.value.__notes__[0]


def test_without_isolation_the_part_fails_and_no_other(open_pipe: Any, probe: Any) -> None:
    seen = probe(work=lambda item: 1 // item["data"])
    pipeline = open_pipe(node("ThreadPoolExecutor(num_threads=2)[Probe]", max=4, isolate_errors=False))
    requests = requests_of([1, 1, 0, 1])
    with pytest.raises(ZeroDivisionError):
        pipeline(requests)
    assert results_of(requests) == [1, 1, None, None]
    assert len(seen.batches) == 2


def test_what_must_not_run_twice_runs_once(open_pipe: Any, probe: Any) -> None:
    seen = probe(work=lambda item: 1 // item["data"], is_idempotent=False)
    pipeline = open_pipe(node("ThreadPoolExecutor(num_threads=2)[Probe]", max=4))
    with pytest.raises(ZeroDivisionError):
        pipeline(requests_of([1, 1, 0, 1]))
    assert len(seen.batches) == 2


def test_a_wrong_number_of_results_fails_its_part(open_pipe: Any) -> None:
    def short(batch: list[dict[str, Any]]) -> list[int]:
        return [1] * (len(batch) - any(item["data"] for item in batch))

    hami.register("Short", short)
    pipeline = open_pipe(node("ThreadPoolExecutor(num_threads=2)[Short]", max=4))
    requests = requests_of([0, 0, 0, 1])
    with pytest.raises(hami.RequestError) as caught:
        pipeline(requests)
    assert caught.value.code == "backend-result-count"
    assert results_of(requests) == [1, 1, None, None]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, StopIteration, MemoryError])
def test_exceptions_of_every_kind_come_back_as_themselves(open_pipe: Any, probe: Any, kind: Any) -> None:
    def work(item: dict[str, Any]) -> int:
        if item["data"] == 3:
            raise kind("on purpose")
        return 1

    probe(work=work)
    pipeline = open_pipe(node("ThreadPoolExecutor(num_threads=4)[Probe]", max=4))
    requests = requests_of(range(4))
    with pytest.raises(kind):
        pipeline(requests)
    assert results_of(requests) == [1, 1, 1, None]
    assert pipeline({"data": 0})["result"] == 1


def test_each_copy_knows_its_place(open_pipe: Any) -> None:
    made = []

    class Counted(hami.Backend):
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            options["seen"] = options.get("seen", 0) + 1
            made.append((id(self), options["seen"]))

        def forward(self, batch: list[dict[str, Any]]) -> list[int]:
            return [0] * len(batch)

    hami.register("Counted", Counted)
    open_pipe({"backend": "ThreadPoolExecutor(num_threads=3)[Counted]", "instance_num": 2})
    assert [seen for _, seen in made] == [1] * 6
    assert len({copy for copy, _ in made}) == 6


def test_threads_have_names_and_end_with_the_pipeline(eventually: Any) -> None:
    def workers() -> list[str]:
        return sorted(name for name in thread_names() if name.startswith("zebra.pool."))

    pipeline = hami.pipe({"zebra": {"backend": "ThreadPoolExecutor(num_threads=3)[Pow]"}})
    assert eventually(lambda: workers() == ["zebra.pool.0", "zebra.pool.1", "zebra.pool.2"])
    assert pipeline({"data": 3})["result"] == 9
    pipeline.close()
    del pipeline
    assert eventually(lambda: workers() == [])


def test_a_build_that_fails_midway_leaves_no_thread(new_threads: Any, eventually: Any) -> None:
    num_made = []

    class Third(hami.Backend):
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            num_made.append(1)
            if len(num_made) == 3:
                raise LookupError("the third one")

        def forward(self, batch: list[dict[str, Any]]) -> None:
            pass

    hami.register("Third", Third)
    with pytest.raises(LookupError):
        hami.pipe("S[ThreadPoolExecutor(num_threads=2)[Pow], ThreadPoolExecutor(num_threads=3)[Third]]")
    assert eventually(lambda: not new_threads())


def test_a_thread_that_cannot_be_started_is_a_build_error() -> None:
    script = (
        "import resource, hami\n"
        "hami.pipe('Pow').close()\n"
        "limit = 300 << 20\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + limit, used + limit))\n"
        "try:\n"
        "    hami.pipe('ThreadPoolExecutor(num_threads=1000)[Pow]')\n"
        "except hami.BuildError as error:\n"
        "    print(error.code, bool(error.help))\n"
        "print(hami.pipe('Pow')({'data': 3})['result'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split() == ["build-thread", "True", "9"], done.stderr


def test_pools_may_stand_inside_each_other_and_in_containers(open_pipe: Any) -> None:
    text = "S[AddInt, ThreadPoolExecutor(num_threads=2)[ThreadPoolExecutor(num_threads=2)[S[Pow, AddInt]]]]"
    pipeline = open_pipe(node(text, max=32))
    assert results_of(pipeline(requests_of(range(100)))) == [(v + 1) ** 2 + 1 for v in range(100)]


def test_items_without_a_result_pass_through_a_pool(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {
            "a": node("ThreadPoolExecutor(num_threads=2)[HasKey(k)]", max=4, next="b"),
            "b": {"backend": "Pow", "or": True},
        }
    )
    answers = pipeline([{"data": 3}, {"data": 4, "k": 1}, {"data": 5}])
    assert results_of(answers) == [9, 4, 25]


def test_many_callers_get_their_own_answers(open_pipe: Any, in_threads: Any) -> None:
    pipeline = open_pipe({"backend": "ThreadPoolExecutor(num_threads=4)[Pow]", "max": 8, "instance_num": 2})
    answers = in_threads(8, lambda i: [pipeline({"data": i * 100 + j})["result"] for j in range(100)])
    assert answers == [[(i * 100 + j) ** 2 for j in range(100)] for i in range(8)]


def test_close_while_a_pool_works_leaves_it_to_end_alone(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe(node("ThreadPoolExecutor(num_threads=2)[Probe]", max=2))
    seen.shut()
    futures = [pipeline.submit({"data": value}) for value in range(2)]
    seen.wait_for_runs(1)
    assert pipeline.close(timeout=0) is False
    assert all(isinstance(future.exception(10), hami.Closed) for future in futures)
    seen.open()


def test_exit_with_a_pool_at_work_does_not_hang() -> None:
    script = (
        "import hami, threading\n"
        "inside = threading.Semaphore(0)\n"
        "def stay(batch):\n"
        "    inside.release()\n"
        "    threading.Event().wait()\n"
        "hami.register('Stay', stay)\n"
        "pipeline = hami.pipe({'backend': 'ThreadPoolExecutor(num_threads=2)[Stay]', 'max': 2})\n"
        "futures = [pipeline.submit({'data': i}) for i in range(2)]\n"
        "inside.acquire()\n"
        "print('out')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "")


@pytest.mark.parametrize("text", ["Batching", "S[Batching]", "ThreadPoolExecutor[Batching]", "big[Batching]"])
def test_a_batcher_without_a_dispatcher_is_a_build_error(text: str) -> None:
    hami.condition("big")(lambda item: True)
    with pytest.raises(hami.BuildError) as caught:
        hami.pipe(text)
    assert caught.value.code == "build-inject"


SHARED = [
    "IoC[Identities(4); {0}[Identities]]",
    "IoC[Identities(4); {0}[S[Pow, Identities]]]",
    "IoC[Identities(4); {0}[Forward[Identities]]]",
    "List[Register(one)[Identities(4)], {0}[Forward[one]]]",
]


@pytest.mark.parametrize("text", SHARED)
@pytest.mark.parametrize("outer", ["ThreadPoolExecutor(num_threads=2)", "Benchmark(num_clients=2)"])
def test_copies_do_not_share_what_takes_one_call_at_a_time(text: str, outer: str) -> None:
    with pytest.raises(hami.BuildError) as caught:
        hami.pipe(text.format(outer))
    assert (caught.value.code, bool(caught.value.help)) == ("build-shared-copies", True)


@pytest.mark.parametrize(
    "text",
    [
        "IoC[Pow; {0}[Pow]]",
        "{0}[IoC[Identities(4); Forward[Identities]]]",
        "IoC[Identities(4); {1}[Identities]]",
    ],
)
@pytest.mark.parametrize("outer", ["ThreadPoolExecutor", "Benchmark"])
def test_copies_may_share_what_is_reentrant_or_their_own(open_pipe: Any, text: str, outer: str) -> None:
    one = f"{outer}({'num_threads' if outer != 'Benchmark' else 'num_clients'}=1)"
    assert "result" in open_pipe(text.format(outer, one))({"data": 3})


@pytest.mark.parametrize("argument", ["0", "-1", "1025", "x"])
@pytest.mark.parametrize("outer", ["ThreadPoolExecutor", "Benchmark"])
def test_impossible_numbers_are_refused(outer: str, argument: str) -> None:
    with pytest.raises(hami.ConfigError) as caught:
        hami.pipe(f"{outer}({argument})[Pow]")
    assert caught.value.code == "plan-bad-value"
