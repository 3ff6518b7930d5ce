"""Where ONNX Runtime is installed: the Python half of the onnxruntime family.

`OnnxInfer` itself is C++ and part of the compiled core, which calls `locate` when the first model is loaded.
The package `onnxruntime` is looked up, never imported: its shared library is all that is needed.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from hami.errors import BuildError

_LIBRARY = re.compile(r"libonnxruntime\.so((?:\.\d+)*)")


def locate() -> str:
    """Return the path of ONNX Runtime's shared library; raise `BuildError` where there is none.

    The wheels `onnxruntime`, `onnxruntime-gpu` and their relatives all install a package named `onnxruntime`
    with the library in its folder `capi`.
    """
    folder = _package_folder()
    if folder is None:
        raise BuildError(
            "`OnnxInfer` needs ONNX Runtime, which is not installed",
            code="onnxruntime-missing",
            help="pip install hami-core[onnx]",
        )
    libraries = [
        path for path in (folder / "capi").glob("libonnxruntime.so*") if _LIBRARY.fullmatch(path.name)
    ]
    if not libraries:
        raise BuildError(
            f"`{folder}` holds no shared library of ONNX Runtime",
            code="onnxruntime-missing",
            help="install the wheel from PyPI: pip install --force-reinstall onnxruntime",
        )
    return str(max(libraries, key=_version))


def _package_folder() -> Path | None:
    try:
        spec = importlib.util.find_spec("onnxruntime")
    except (ImportError, ValueError):  # a stand-in without a spec was put into sys.modules
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def _version(library: Path) -> tuple[int, ...]:
    """Give the version in the name of a library; the longest name wins among equals."""
    match = _LIBRARY.fullmatch(library.name)
    return tuple(int(part) for part in match[1].split(".")[1:]) if match else ()
