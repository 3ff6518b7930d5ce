"""Laws of the process: its end, its forks and its signals. Each test runs an interpreter of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap

import pytest

LIMIT_S = 40
"""After this the process counts as hanging; the alarm inside ends it first and shows where it hangs."""

HEAD = """
import faulthandler, gc, os, signal, sys, threading
faulthandler.enable()
faulthandler.dump_traceback_later(30, exit=True)
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in what they run behind
import hami

inside, gate = threading.Event(), threading.Event()

def hold(batch):
    inside.set()
    gate.wait()
    return [item["data"] for item in batch]

hami.register("Hold", hold)
hami.register("Echo", lambda batch: [item["data"] for item in batch])
"""


def run(body: str) -> subprocess.CompletedProcess[str]:
    """Run a script after HEAD and return how it ended."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", HEAD + textwrap.dedent(body)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def output_of(body: str) -> str:
    """Run a script that must end well and silently; return what it printed."""
    ended = run(body)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.strip()


# --- exit -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "pipe = hami.pipe('Identities'); [pipe.submit({'data': i}) for i in range(1000)]",
        "pipe = hami.pipe({'backend': 'Echo', 'instance_num': 8});"
        " [pipe.submit({'data': i}) for i in range(1000)]",
        "pipe = hami.pipe('Hold'); pipe.submit({'data': 1, 'deadline_ms': 1e6}); inside.wait()",
        "import builtins; builtins.kept = hami.pipe('Echo'); builtins.kept({'data': 1})",
        "pipe = hami.pipe('Echo'); pipe.itself = pipe; pipe({'data': 1}); del pipe",
        "pipe = hami.pipe({'e': {'backend': 'ForEach(target=w)'}, 'w': {'backend': 'Hold'}});"
        " pipe.submit({'data': [1, 2, 3]}); inside.wait()",
    ],
)
def test_a_process_ends_by_itself_with_a_pipeline_open(body: str) -> None:
    assert output_of(f"{body}\nprint('end')") == "end"


def test_a_daemon_thread_in_a_call_does_not_keep_the_process() -> None:
    body = """
    pipe = hami.pipe("Hold")
    for i in range(3):
        threading.Thread(target=pipe, args=({"data": i},), daemon=True).start()
    inside.wait()
    print("end")
    """
    ended = run(body)
    assert ended.returncode == 0 and ended.stdout.strip() == "end"


def test_a_call_of_a_thread_ends_before_the_process_does() -> None:
    body = """
    pipe = hami.pipe("Hold")
    def call():
        print(pipe({"data": "answered"})["result"])
    threading.Thread(target=call).start()
    inside.wait()
    threading.Timer(0.05, gate.set).start()
    """
    assert output_of(body) == "answered"


def test_exit_while_many_threads_call() -> None:
    body = """
    pipes = [hami.pipe(x) for x in ("Identity", "Identities", "Echo")]
    def hammer(pipe):
        while True:
            try:
                pipe({"data": 1})
            except hami.Closed:
                return
    for pipe in pipes * 2:
        threading.Thread(target=hammer, args=(pipe,), daemon=True).start()
    pipes[2]({"data": 1})
    print("end")
    """
    for _ in range(2):
        ended = run(body)
        assert ended.returncode == 0 and ended.stdout.strip() == "end"


def test_an_exception_that_ends_the_script_is_shown_as_itself() -> None:
    ended = run("hami.register('Raise', lambda batch: {}['k']); hami.pipe('Raise')({'data': 1})")
    assert ended.returncode == 1
    assert "KeyError: 'k'" in ended.stderr
    assert "in node `node`, backend `Raise`, instance 0" in ended.stderr or sys.version_info < (3, 11)


def test_sys_exit_in_a_backend_reaches_the_caller() -> None:
    ended = run("hami.register('Exit', lambda batch: sys.exit(7)); hami.pipe('Exit')({'data': 1})")
    assert ended.returncode == 7


# --- fork -----------------------------------------------------------------------------------------

FORK = """
def in_child(work):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(15)
        try:
            text = repr(work())
        except BaseException as error:
            text = f"{type(error).__name__} {getattr(error, 'code', '')}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    text = os.read(read, 10_000).decode()
    status = os.waitpid(child, 0)[1]
    return text if status == 0 else f"status {status}"
"""


@pytest.mark.parametrize("state", ["idle", "used", "busy"])
def test_in_a_forked_child_every_call_is_a_clear_error(state: str) -> None:
    prepare = {
        "idle": "pipe = hami.pipe('Identities')",
        "used": "pipe = hami.pipe('Echo'); pipe({'data': 1, 'deadline_ms': 1e6})",
        "busy": "pipe = hami.pipe('Hold'); pipe.submit({'data': 0}); inside.wait()",
    }[state]
    calls = (
        "pipe({'data': 1})",
        "pipe([{'data': 1}])",
        "pipe([])",
        "pipe.submit({'data': 1})",
        "pipe.stats()",
    )
    children = "\n".join(f"print(in_child(lambda: {call}))" for call in calls)
    body = f"{FORK}\n{prepare}\n{children}\ngate.set()\nprint(pipe({{'data': 5}})['result'])"
    assert output_of(body).splitlines() == ["Closed forked"] * len(calls) + ["5"]


def test_ending_and_looking_do_not_hang_in_a_child() -> None:
    what = (
        "pipe.close()",
        "pipe.__exit__(None, None, None)",
        "repr(pipe)",
        "globals().pop('pipe')",
        "gc.collect()",
    )
    children = "\n".join(f"print(in_child(lambda: ({one}, 'done')[1]))" for one in what)
    body = (
        f"{FORK}\npipe = hami.pipe('Hold')\npipe.submit({{'data': 0}}); inside.wait()\n{children}\ngate.set()"
    )
    assert output_of(body).splitlines() == ["'done'"] * len(what)


def test_a_child_may_make_pipelines_of_its_own() -> None:
    body = f"""{FORK}
pipe = hami.pipe('Echo')
pipe({{'data': 0}})
def work():
    global pipe
    pipe = None
    gc.collect()
    with hami.pipe({{'backend': 'Echo', 'instance_num': 2}}) as mine:
        return [mine({{'data': i}})['result'] for i in range(3)], in_child(lambda: mine({{'data': 1}}))
print(in_child(work))
"""
    assert output_of(body) == "([0, 1, 2], 'Closed forked')"


def test_multiprocessing_works_with_a_pipeline_in_every_process() -> None:
    body = """
    import multiprocessing, warnings
    warnings.simplefilter("ignore")
    pipe = hami.pipe("Echo")
    pipe({"data": 1})
    def work(n):
        signal.alarm(15)
        return hami.pipe("Pow")({"data": n})["result"]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(work, range(4)))
    """
    assert output_of(body) == "[0, 1, 4, 9]"


def test_forks_while_other_threads_call_leave_a_working_child() -> None:
    body = f"""{FORK}
pipes = [hami.pipe(x) for x in ("Identity", "Identities", "Echo")]
is_over = threading.Event()
def hammer(pipe):
    while not is_over.is_set():
        pipe({{"data": object(), "deadline_ms": 1e6}})
callers = [threading.Thread(target=hammer, args=(pipe,)) for pipe in pipes * 2]
for caller in callers:
    caller.start()
def work():
    with hami.pipe({{"a": {{"backend": "Echo", "next": "b"}}, "b": {{"backend": "Identities"}}}}) as mine:
        return mine({{"data": 3, "x": object(), "deadline_ms": 1e6}})["result"]
print({{in_child(work) for _ in range(15)}})
is_over.set()
for caller in callers:
    caller.join()
"""
    assert output_of(body) == "{'3'}"


# --- signals --------------------------------------------------------------------------------------

INTERRUPT = """
caught = threading.Event()
def interrupt():
    inside.wait()
    # Once is enough, unless it came in the moment before the main thread sleeps.
    while not caught.is_set():
        os.kill(os.getpid(), signal.SIGINT)
        caught.wait(5)
threading.Thread(target=interrupt, daemon=True).start()
"""


@pytest.mark.parametrize(
    "call", ["pipe({'data': 1})", "pipe([{'data': 1}, {'data': 2}])", "pipe.submit({'data': 1}).result()"]
)
def test_ctrl_c_interrupts_a_blocked_call(call: str) -> None:
    body = f"""
pipe = hami.pipe("Hold")
{INTERRUPT}
try:
    {call}
except KeyboardInterrupt:
    caught.set()
    print("interrupted")
gate.set()
print(pipe({{"data": 3}})["result"])
"""
    assert output_of(body).splitlines() == ["interrupted", "3"]


def test_an_interrupted_call_leaves_its_dict_free_and_unchanged() -> None:
    body = f"""
pipe = hami.pipe("Hold")
{INTERRUPT}
request = {{"data": 1}}
try:
    pipe(request)
except KeyboardInterrupt:
    caught.set()
    print(request)
gate.set()
print(pipe(request))
"""
    assert output_of(body).splitlines() == ["{'data': 1}", "{'data': 1, 'result': 1}"]


def test_a_signal_whose_handler_returns_does_not_disturb_the_call() -> None:
    body = """
    seen = []
    has_seen = threading.Semaphore(0)
    def on_signal(number, frame):
        seen.append(number)
        has_seen.release()
    signal.signal(signal.SIGUSR1, on_signal)
    pipe = hami.pipe("Hold")
    def send():
        inside.wait()
        for _ in range(5):
            os.kill(os.getpid(), signal.SIGUSR1)
            while not has_seen.acquire(timeout=5):
                os.kill(os.getpid(), signal.SIGUSR1)
        gate.set()
    threading.Thread(target=send).start()
    print(pipe({"data": "answer"})["result"], len(seen) >= 5)
    """
    assert output_of(body) == "answer True"


def test_a_signal_handler_may_call_and_close_pipelines() -> None:
    body = """
    other, pipe = hami.pipe("Pow"), hami.pipe("Hold")
    def on_signal(number, frame):
        print(other({"data": 3})["result"])
        pipe.close(timeout=0)
    signal.signal(signal.SIGTERM, on_signal)
    has_ended = threading.Event()
    def send():
        inside.wait()
        while not has_ended.is_set():
            os.kill(os.getpid(), signal.SIGTERM)
            has_ended.wait(5)
    threading.Thread(target=send).start()
    try:
        pipe({"data": 1})
    except hami.Closed:
        has_ended.set()
        print("closed")
    gate.set()
    """
    assert output_of(body).splitlines() == ["9", "closed"]


def test_an_uncaught_ctrl_c_ends_the_process_as_usual() -> None:
    ended = run(f"pipe = hami.pipe('Hold')\n{INTERRUPT}\npipe({{'data': 1}})")
    assert ended.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in ended.stderr


def test_too_many_threads_are_a_build_error() -> None:
    body = """
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    try:
        hami.pipe({"backend": "Identities", "instance_num": 4096})
    except hami.BuildError as error:
        print("instance_num" in error.help)
    print(hami.pipe("Pow")({"data": 3})["result"], len(os.listdir("/proc/self/task")) < 50)
    """
    assert output_of(body).splitlines() == ["True", "9 True"]
