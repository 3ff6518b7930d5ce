"""The program of the parent process, imported in a worker once something of it is needed.

A class that a script defines can only be had by running the script, under another name than `__main__`. A
script that starts a pool at its top level would start workers of workers; that is refused instead.
"""

from __future__ import annotations

import runpy
import sys
import types

from ..errors import BuildError
from .reference import MainModule

_NAME = "__mp_main__"  # the name that multiprocessing gives it, too
_GUARD = 'put what starts the pipeline under `if __name__ == "__main__":`'

_program: MainModule | None = None
_is_importing = False
_is_loaded = False


def set_program(program: MainModule | None) -> None:
    """Say which program the parent runs; called once, when a worker starts."""
    global _program
    _program = program


def load() -> None:
    """Import the program as `__main__`, once. Raises BuildError for one that does not survive that."""
    global _is_loaded, _is_importing
    if _is_loaded or _program is None:
        return
    _is_loaded = _is_importing = True
    try:
        if _program.module is not None:
            names = runpy.run_module(_program.module, run_name=_NAME, alter_sys=True)
        else:
            assert _program.file is not None
            names = runpy.run_path(_program.file, run_name=_NAME)
    except BuildError:
        raise
    except BaseException as error:
        shown = _program.module or _program.file
        raise BuildError(
            f"a worker process cannot import the program `{shown}`: {type(error).__name__}: {error}",
            code="worker-main",
            help=_GUARD,
        ) from error
    finally:
        _is_importing = False
    module = types.ModuleType(_NAME)
    module.__dict__.update(names)
    sys.modules["__main__"] = sys.modules[_NAME] = module


def refuse_while_importing() -> None:
    """Raise BuildError if the program starts a pool while a worker imports it."""
    if _is_importing:
        raise BuildError(
            "the program starts a pool again while a worker process imports it for its classes",
            code="worker-main",
            help=_GUARD,
        )
