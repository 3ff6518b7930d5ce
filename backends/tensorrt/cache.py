"""The engine cache: an engine is built once for a model, its settings, a TensorRT and a card, and then read.

Entries are files named by the SHA-256 of all of these. Processes that want one entry at once wait for the
first one, by a lock that the kernel takes back if its holder dies. A damaged entry is built anew; where the
folder cannot be written engines are built without it. Any thread may call.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from .package import log
from .plan import DamagedPlanError, EnginePlan, read_plan, write_plan

FORMAT = 1
_CHUNK_BYTES = 1 << 22

_lock = threading.Lock()
_in_use: WeakValueDictionary[str, EnginePlan] = WeakValueDictionary()


def default_folder() -> Path:
    """Return `hami/tensorrt` in the user's folder for caches."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~/.cache"))
    return root / "hami" / "tensorrt"


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file; it is read again only when its size or time has changed."""
    state = path.stat()
    return _digest(str(path), state.st_ino, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=256)
def _digest(path: str, inode: int, size_bytes: int, mtime_ns: int) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def entry_key(files: list[Path], **settings: Any) -> str:
    """Return the name of an entry: it changes with the content of any file and with any setting."""
    text = json.dumps(
        {"format": FORMAT, "files": [digest_file(path) for path in files], **settings}, sort_keys=True
    )
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def fetch(folder: Path, model: Path, key: str, build: Callable[[], EnginePlan]) -> EnginePlan:
    """Return the engine of a model's entry: one in use in this process, that of the file, or a new one."""
    path = folder / f"{model.stem}-{key}.trt"
    with _lock:
        plan = _in_use.get(str(path))
        if plan is None:
            with _locked(path):
                plan = replace(_read(path) or _build_and_keep(path, build), source=model)
            _in_use[str(path)] = plan
        return plan


def _read(path: Path) -> EnginePlan | None:
    try:
        plan = read_plan(path)
    except FileNotFoundError:
        return None
    except (DamagedPlanError, OSError) as error:
        log.warning("the cached engine `%s` is built anew: %s", path, error)
        return None
    log.info("the engine comes from `%s`", path)
    return plan


def _build_and_keep(path: Path, build: Callable[[], EnginePlan]) -> EnginePlan:
    plan = build()
    try:
        write_plan(path, plan)
    except OSError as error:
        log.warning("the engine cannot be kept for the next start: %s", error)
    return plan


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the entry against other processes; without a folder to write to there is nothing to hold."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        log.warning("the engine cache `%s` cannot be used: %s", path.parent, error)
        yield
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.info("another process builds `%s`, waiting for it", path.name)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
