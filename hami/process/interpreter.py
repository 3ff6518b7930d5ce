"""Fresh interpreters that behave like this one: the command to start one, and words for how one ended."""

from __future__ import annotations

import json
import signal
import sys

# Options of this interpreter that change what code does, and so must hold in a new one as well.
_FLAGS = (("no_user_site", "-s"), ("ignore_environment", "-E"), ("dont_write_bytecode", "-B"))

# Ctrl-C goes to every process of a terminal: a worker leaves it to its parent. A fresh interpreter, not a
# fork: threads do not survive one.
_PROGRAM = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); import json, sys; "
    "sys.path[:] = json.loads(sys.argv[1]); from {module} import main; main(*map(int, sys.argv[2:]))"
)


def interpreter_command(module: str, *descriptors: int) -> list[str]:
    """Return the command of an interpreter that calls `main` of a module with these descriptors.

    It has the options and the module path of this one, and leaves Ctrl-C to its parent.
    """
    flags = [option for name, option in _FLAGS if getattr(sys.flags, name)]
    optimize = ["-" + "O" * sys.flags.optimize] if sys.flags.optimize else []
    program = _PROGRAM.format(module=module)
    path = json.dumps(list(sys.path))
    return [sys.executable, *flags, *optimize, "-c", program, path, *map(str, descriptors)]


def how_it_ended(status: int) -> str:
    """Return in words what the exit status of a process says; a negative one is a signal."""
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"
