"""Law of sub-interpreters: the core says that it does not work there, and the process goes on."""

from __future__ import annotations

import subprocess
import sys
import sysconfig

# The module has had several names, and ways to make an interpreter.
SCRIPT = """
import sys
try:
    import _interpreters
    make = lambda is_isolated: _interpreters.create("isolated" if is_isolated else "legacy")
except ImportError:
    import _xxsubinterpreters as _interpreters
    make = lambda is_isolated: _interpreters.create(isolated=is_isolated)

ASK = '''
try:
    from hami import _core
except ImportError as error:
    print(error, flush=True)
'''
if sys.argv[1] == "beside":
    import hami
    assert hami.pipe("Identity")({"data": 1})["result"] == 1
other = make(sys.argv[1] == "isolated")
(_interpreters.exec if hasattr(_interpreters, "exec") else _interpreters.run_string)(other, ASK)
import hami
assert hami.pipe("Identity")({"data": 2})["result"] == 2
"""


def ask(when: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, when], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


OURS = "in the main interpreter alone"
PYTHONS = "does not support loading in subinterpreters"
# Without the GIL the interpreter refuses modules such as ours by itself, whatever the sub-interpreter is.
EXPECTED = PYTHONS if sysconfig.get_config_var("Py_GIL_DISABLED") else OURS


def test_before_the_main_interpreter_has_it() -> None:
    assert EXPECTED in ask("first-elsewhere")


def test_beside_the_main_interpreter() -> None:
    assert EXPECTED in ask("beside")


def test_one_with_a_lock_of_its_own() -> None:
    """From Python 3.12 on the interpreter itself says so, before it runs the core."""
    printed = ask("isolated")

    assert OURS in printed or PYTHONS in printed
