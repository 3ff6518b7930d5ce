"""Laws of workers that die, and of what is left when anybody ends: only the items in their hands fail."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import pool_backends  # noqa: F401  registers its backends
import pytest

import hami
import hami.process  # before a test's registry, which forgets what is registered meanwhile

WAIT_S = 20.0
FOR_EVER_MS = 600_000
TESTS = Path(__file__).resolve().parent.parent


def is_alive(pid: int) -> bool:
    """Say whether there is such a process, and it has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def pids_of(pipeline: hami.Pipeline, num_workers: int) -> list[int]:
    """Return the processes of a pool that runs `PoolEcho` with as many items at once as it has workers."""
    return [answer["result"] for answer in pipeline([{"data": ("pid",)} for _ in range(num_workers)])]


@pytest.fixture
def pool(open_pipe: Any) -> Callable[..., hami.Pipeline]:
    """Return a function that opens a pool of `PoolEcho`; its `max` is the number of workers."""

    def open_pool(num_workers: int = 2, **settings: Any) -> hami.Pipeline:
        expression = f"ProcessPool(num_workers={num_workers})[PoolEcho]"
        return open_pipe(
            {"backend": expression, "max": num_workers, "batching_timeout": FOR_EVER_MS, **settings}
        )

    return open_pool


# --- death ----------------------------------------------------------------------------------------


def test_a_worker_that_dies_fails_only_the_items_in_its_hands(
    pool: Any, caplog: Any, eventually: Any
) -> None:
    pipeline = pool()
    first, second = pids_of(pipeline, 2)
    for order, text in (
        (("kill", "SIGKILL"), "was killed by SIGKILL"),
        (("kill", "SIGSEGV"), "was killed by SIGSEGV"),
        (("exit", 3), "ended with exit status 3"),
        (("exit", 0), "ended with exit status 0"),
    ):
        requests = [{"data": order}, {"data": "lives"}]
        with caplog.at_level(logging.WARNING, "hami"), pytest.raises(hami.WorkerError, match=text) as caught:
            pipeline(requests)
        assert caught.value.code == "worker-died" and caught.value.help
        assert requests[1]["result"] == "lives"
        assert eventually(lambda: len(set(pids_of(pipeline, 2))) == 2)  # the new one is there
    assert not is_alive(first) and is_alive(second)
    told = [record for record in caplog.records if record.name == "hami.process_pool"]
    assert len(told) == 4 and all(record.levelno == logging.WARNING for record in told)


def test_a_batch_is_not_run_again_after_a_death(pool: Any, tmp_path: Path) -> None:
    pipeline = pool(num_workers=1, max=3)
    marks = [{"data": ("write", "seen", i)} for i in range(2)]
    with pytest.raises(hami.WorkerError):
        pipeline([{"data": ("kill", "SIGKILL")}, *marks])
    assert all("seen" not in mark for mark in marks)
    row = pipeline.stats()[0]
    assert row["batch_rows"] == {3: 1} and row["errors"] == 3


def test_a_worker_that_died_while_idle_fails_nothing(pool: Any) -> None:
    pipeline = pool()
    before = pids_of(pipeline, 2)
    watched = [os.pidfd_open(pid) for pid in before]
    for pid, descriptor in zip(before, watched, strict=True):
        os.kill(pid, signal.SIGKILL)
        assert wait([descriptor], WAIT_S)  # all its threads have ended
        os.close(descriptor)
    assert [answer["result"] for answer in pipeline([{"data": i} for i in range(2)])] == [0, 1]


def test_the_others_work_on_while_one_is_replaced(pool: Any) -> None:
    pipeline = pool(max=1)
    for i in range(3):
        with pytest.raises(hami.WorkerError):
            pipeline({"data": ("exit", 1)})
        assert pipeline({"data": i})["result"] == i


def test_a_pool_whose_workers_cannot_start_fails_fast_and_recovers(open_pipe: Any, tmp_path: Path) -> None:
    how = tmp_path / "how"
    how.write_text("well")
    pipeline = open_pipe({"backend": "ProcessPool[PoolStart]", "how": str(how)})
    for fault, text in (("die", "ended with exit status 7"), ("raise", "cannot start")):
        how.write_text(fault)
        with pytest.raises(hami.WorkerError, match="exit status 9"):
            pipeline({"data": "exit"})
        for _ in range(2):
            with pytest.raises(hami.WorkerError, match=f"after 3 attempts: .*{text}") as caught:
                pipeline({"data": 1})
            assert caught.value.code == "worker-died"
        how.write_text("well")
        assert pipeline({"data": 1})["result"] != os.getpid()


def test_a_worker_that_cannot_be_built_is_an_error_of_pipe(tmp_path: Path) -> None:
    how = tmp_path / "how"
    how.write_text("raise")
    with pytest.raises(LookupError, match="cannot start") as caught:
        hami.pipe({"backend": "ProcessPool(num_workers=2)[PoolStart]", "how": str(how)})
    assert "PoolStart" in str(caught.value.__cause__) or "init" in str(caught.value.__cause__)
    how.write_text("die")
    with pytest.raises(hami.BuildError, match="ended with exit status 7 before it was ready") as died:
        hami.pipe({"backend": "ProcessPool[PoolStart]", "how": str(how)})
    assert died.value.code == "worker-died"


# --- the end --------------------------------------------------------------------------------------


def test_close_ends_the_workers_and_closes_their_backends(open_pipe: Any, pool: Any, tmp_path: Path) -> None:
    path = tmp_path / "closed"
    closing = open_pipe({"backend": "ProcessPool[PoolClosing]", "path": str(path)})
    pipeline = pool()
    pids = pids_of(pipeline, 2)
    assert closing.close() is True and path.exists()
    assert pipeline.close() is True
    assert not any(map(is_alive, pids))


def test_close_ends_a_worker_in_the_middle_of_a_run(pool: Any, tmp_path: Path, eventually: Any) -> None:
    pipeline = pool(num_workers=1)
    pid = pids_of(pipeline, 1)[0]
    future = pipeline.submit({"data": ("wait", str(tmp_path))})
    assert eventually(lambda: list(tmp_path.glob("began.*")))
    began = time.monotonic()
    assert pipeline.close(timeout=0) is False
    assert isinstance(future.exception(WAIT_S), hami.Closed)
    assert eventually(lambda: not is_alive(pid))
    assert time.monotonic() - began < WAIT_S


def test_nothing_is_left_open_after_many_pools(pool: Any) -> None:
    pool(num_workers=1)({"data": b"x" * 100_000})
    before = len(os.listdir("/proc/self/fd"))
    pipeline = pool(num_workers=1)
    pipeline({"data": b"x" * 100_000})
    pipeline.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_no_shared_memory_has_a_name(pool: Any) -> None:
    before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    pipeline = pool(num_workers=1)
    pipeline({"data": b"x" * 1_000_000})
    after = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    assert after <= before


def run_script(folder: Path, text: str, *command: str, name: str = "script.py", **options: Any) -> Any:
    """Run a program of its own, which finds the tests' modules, and return how it ended."""
    (folder / name).write_text(textwrap.dedent(text))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
    return subprocess.run(
        [sys.executable, *(command or (name,))],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        **options,
    )


@pytest.mark.parametrize("is_busy", [False, True])
def test_workers_end_when_their_parent_is_killed(tmp_path: Path, eventually: Any, is_busy: bool) -> None:
    script = f"""
        import os, signal, hami, pool_backends
        pipe = hami.pipe("ProcessPool[PoolEcho]")
        print(pipe({{"data": ("pid",)}})["result"], flush=True)
        if {is_busy}:
            pipe.submit({{"data": ("wait", {str(tmp_path)!r})}})
            while not any(name.startswith("began") for name in os.listdir({str(tmp_path)!r})):
                os.sched_yield()
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = run_script(tmp_path, script)
    assert done.returncode == -signal.SIGKILL
    assert eventually(lambda: not is_alive(int(done.stdout)))


def test_a_program_that_just_ends_leaves_no_worker(tmp_path: Path, eventually: Any) -> None:
    script = """
        import hami, pool_backends
        pipe = hami.pipe("ProcessPool(num_workers=2)[PoolEcho]")
        print(pipe({"data": ("pid",)})["result"])
    """
    done = run_script(tmp_path, script)
    assert done.returncode == 0 and done.stderr == ""
    assert eventually(lambda: not is_alive(int(done.stdout)))


def test_ctrl_c_of_the_terminal_leaves_the_workers_to_their_parent(tmp_path: Path) -> None:
    script = """
        import os, signal, hami, pool_backends
        signal.signal(signal.SIGINT, signal.default_int_handler)
        pipe = hami.pipe("ProcessPool[PoolEcho]")
        pid = pipe({"data": ("pid",)})["result"]
        try:
            os.killpg(0, signal.SIGINT)
            signal.pause()
        except KeyboardInterrupt:
            print(pipe({"data": ("pid",)})["result"] == pid)
    """
    done = run_script(tmp_path, script, start_new_session=True)
    assert done.stdout == "True\n" and done.stderr == ""


# --- programs -------------------------------------------------------------------------------------

OWN_CLASS = """
    import hami

    @hami.register
    class Own(hami.Backend):
        def forward(self, batch):
            return [item["data"] + 1 for item in batch]
"""
USE = 'print(hami.pipe("ProcessPool[{}]")({{"data": 3}})["result"])'
GUARDED = "\n    if __name__ == '__main__':\n        " + USE.format("Own")


def test_a_script_without_guard_works_while_no_worker_needs_it(tmp_path: Path) -> None:
    done = run_script(tmp_path, "import hami, pool_backends\n" + USE.format("Pow"))
    assert done.stdout == "9\n", done.stderr


def test_a_class_of_a_guarded_script_reaches_the_worker(tmp_path: Path) -> None:
    for command in ((), ("-m", "script")):
        done = run_script(tmp_path, OWN_CLASS + GUARDED, *command)
        assert done.stdout == "4\n", done.stderr


def test_an_object_of_a_class_of_the_script_goes_there_and_back(tmp_path: Path) -> None:
    script = """
        import hami, pool_backends

        class Point:
            x = 5

        if __name__ == "__main__":
            answer = hami.pipe("ProcessPool[PoolEcho]")({"data": Point()})["result"]
            print(type(answer) is Point, answer.x)
    """
    done = run_script(tmp_path, script)
    assert done.stdout == "True 5\n", done.stderr


def test_a_script_that_needs_a_guard_and_has_none_is_told_so(tmp_path: Path) -> None:
    done = run_script(tmp_path, textwrap.dedent(OWN_CLASS) + USE.format("Own"))
    assert done.returncode == 1 and done.stdout == ""
    assert "worker-main" in done.stderr and 'under `if __name__ == "__main__":`' in done.stderr


def test_a_class_of_an_interactive_session_is_refused_by_name(tmp_path: Path) -> None:
    program = textwrap.dedent(OWN_CLASS) + USE.format("Own")
    for command, text in ((("-c", program), ""), (("-",), program)):
        done = run_script(tmp_path, "", *command, input=text)
        assert "worker-reference" in done.stderr and "`Own` cannot be used" in done.stderr
        assert done.stdout == ""


def test_the_rest_works_in_an_interactive_session(tmp_path: Path) -> None:
    program = "import hami, pool_backends\n" + USE.format("pool_function")
    for command, text in ((("-c", program), ""), (("-",), program)):
        assert run_script(tmp_path, "", *command, input=text).stdout == "6\n"
