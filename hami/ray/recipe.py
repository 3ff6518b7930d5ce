"""`Recipe`: all that a replica needs to make its pipeline, as it was when the application was made.

The configuration travels, not the path of its file: what is deployed is what was checked, also when Ray
starts a replica anew a week later. Files that it names are looked for on the machine of the replica.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ray import cloudpickle

from .. import scheduler
from ..backend import WithPlans, declarations, find, python_instances, register
from ..conditions import condition
from ..config import Config, import_modules, imports_of
from ..errors import BuildError, ConfigError
from ..plan import Plan, PlannedBackend
from ..plugins import load as load_plugin
from ..scheduler import Scheduler

_IN_MODULE = "define it at the top level of a module, and name the module in `imports`"


@dataclass(frozen=True)
class Recipe:
    """A configuration on its way to a replica.

    `folder` is that of the file relative to the folder that travels with the application, for replicas where
    `config.directory` does not exist. `registered`: what the program registered itself, pickled, of
    which `conditions` are conditions.
    """

    config: Config
    folder: str | None = None
    registered: bytes = b""
    conditions: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: Config, checked: Plan, base: str) -> Recipe:
        """Make the recipe of a checked configuration. Raises ConfigError for what cannot travel."""
        folder = None
        if config.directory is not None:
            folder = os.path.relpath(config.directory, base)
        files = {os.path.realpath(name) for name in imports_of(config) if name.endswith(".py")}
        own = {name: target for name, target in _used(checked) if not _is_found(target, files)}
        conditions = tuple(name for name in own if getattr(find(name), "is_condition", False))
        recipe = cls(config, folder, _pickled(own), conditions)
        _check_pickles(recipe)
        return recipe

    def load(self) -> Config:
        """Return the configuration as it is on this machine, with what it uses registered in this process.

        Raises ConfigError, BuildError.
        """
        config = replace(self.config, directory=self._directory())
        import_modules(config, load_plugin)
        if self.registered:
            self._register()
        return config

    def _directory(self) -> str | None:
        """Return where relative paths start from on this machine."""
        directory = self.config.directory
        if directory is None or self.folder is None or os.path.isdir(directory):
            return directory
        return os.path.normpath(os.path.join(os.getcwd(), self.folder))

    def _register(self) -> None:
        try:
            targets: Mapping[str, Any] = cloudpickle.loads(self.registered)
        except Exception as error:
            raise BuildError(
                f"a class of the program cannot be loaded in a replica: {type(error).__name__}: {error}",
                code="ray-reference",
                help=_IN_MODULE,
            ) from error
        known = {**declarations(), **python_instances()}
        for name, target in targets.items():
            if name in known or scheduler.find(name) is not None:
                continue
            if name in self.conditions:
                condition(name)(target)
            else:
                register(name, target)


def _used(checked: Plan) -> Iterator[tuple[str, Any]]:
    """Yield what a plan uses of Python: classes, functions, objects and schedulers, by their names there."""
    for node in checked.nodes:
        yield from _used_by(node.backend)
        yield from _schedulers(node.params)


def _used_by(backend: PlannedBackend) -> Iterator[tuple[str, Any]]:
    target = backend.python
    if isinstance(target, WithPlans):
        for inner in target.plans:
            yield from _used_by_core(node["expr"] for node in inner["nodes"])
        target = target.python
    if target is not None:
        yield backend.name, target
    yield from _schedulers(backend.params)
    if backend.condition is not None:
        yield from _used_by(backend.condition)
    for child in backend.children:
        yield from _used_by(child)


def _schedulers(params: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    used = [value for value in params.values() if isinstance(value, type) and issubclass(value, Scheduler)]
    for name in scheduler.names():
        found = scheduler.find(name)
        if found is not None and found in used:
            yield name, found


def _used_by_core(exprs: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The same for plans that are plain data already."""
    for expr in exprs:
        if expr["python"] is not None:
            yield expr["class"], expr["python"]
        yield from _used_by_core(expr["children"])


def _is_found(target: Any, files: set[str]) -> bool:
    """Say whether a replica finds a target by itself: in hami, or in a file that `imports` names."""
    named = target if isinstance(target, type) or hasattr(target, "__qualname__") else type(target)
    module = str(getattr(named, "__module__", ""))
    file = getattr(sys.modules.get(module), "__file__", None)
    return module.startswith("hami.") or (file is not None and os.path.realpath(file) in files)


def _dumps(value: Any) -> bytes:
    pickled: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return pickled


def _pickled(targets: Mapping[str, Any]) -> bytes:
    for name, target in targets.items():
        try:
            _dumps(target)
        except Exception as error:
            message = f"`{name}` cannot be sent to replicas: {type(error).__name__}: {error}"
            raise ConfigError(message, code="ray-reference", where=name, help=_IN_MODULE) from error
    return _dumps(dict(targets)) if targets else b""


def _check_pickles(recipe: Recipe) -> None:
    try:
        _dumps(recipe)
    except Exception as error:
        message = f"the configuration cannot be sent to replicas: {type(error).__name__}: {error}"
        help = "use texts, numbers, lists and dicts as parameters"
        raise ConfigError(message, code="ray-reference", where=recipe.config.name, help=help) from error
