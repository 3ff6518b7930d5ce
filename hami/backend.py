"""What a backend declares, and how Python code becomes one.

Users derive from `Backend`, declare parameters with `param` (hami.params) and name their classes with
`register`; hami.plan looks names up here, and hami.instances makes instances of them. Classes are
process-wide, instances belong to one pipeline. Every function may be called from any thread.
"""

from __future__ import annotations

import importlib
import inspect
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

from . import scheduler
from .errors import BuildError, ConfigError, RequestError
from .params import PARAM_TYPES as PARAM_TYPES
from .params import Param as Param
from .params import ParamSlot
from .params import param as param
from .parser import ALIASES, macro_names

if TYPE_CHECKING:
    from ._core import KVStorage

# Families of Python backends: imported when a text names one of their classes.
FAMILY_MODULES = {
    "image": "hami.backends.image",
    "llm": "hami.backends.llm.nodes",
    "process": "hami.process",
    "sources": "hami.sources",
    "tensorrt": "hami.backends.tensorrt",
    "torch": "hami.backends.torch",
}
FAMILY_CLASSES = {
    "image": (
        "DecodeImage",
        "ResizeImage",
        "LetterBox",
        "TopLeftResize",
        "CvtColor",
        "Normalize",
        "ToTensor",
        "EncodeImage",
    ),
    "llm": ("ContinuousBatching", "Detokenize", "LLM", "Tokenize"),
    "process": ("ProcessPool",),
    "sources": ("FileSource", "RandomSampleQueue", "Source", "UniformSample"),
    "tensorrt": ("LoadTensorrtEngine", "Onnx2Tensorrt", "TensorrtInferTensor"),
    "torch": (
        "ArgMaxTensor",
        "CpuTensor",
        "CropTensor",
        "DecodeTensor",
        "GpuTensor",
        "IndexSelectTensor",
        "ResizeTensor",
        "SoftmaxTensor",
        "StreamPool",
        "SyncTensor",
        "TorchInfer",
    ),
}
FAMILIES = {name: family for family, names in FAMILY_CLASSES.items() for name in names}

# Of backends that answer later: the core reads it, not the instance.
QUEUE_CAPACITY = Param("queue_capacity", "int", 65536, doc="most requests that wait at this node", min=1)

_NAME = re.compile(r"[^\W\d]\w*(?:(?:::|\.)[\w-]+)*")
_T = TypeVar("_T")


@dataclass(frozen=True)
class Declaration:
    """What one backend class says about itself; `python` is the class or function of a Python backend."""

    name: str
    doc: str = ""
    family: str = ""
    extra: str = ""
    params: tuple[Param, ...] = ()
    min_children: int = 0
    max_children: int = 0
    is_operator: bool = False
    is_hidden: bool = False
    is_condition: bool = False
    takes_any_key: bool = False
    takes_plans: bool = False
    python: Any = field(default=None, repr=False)

    def find(self, name: str) -> Param | None:
        """Return the parameter of that name."""
        return next((declared for declared in self.params if declared.name == name), None)


class Backend:
    """Base class of Python backends: `forward` sets `item["result"]` of each item, or returns a list.

    `batch_range` is the fewest and most rows of one run (None: any number, bounded by the node's `max`).
    `is_inline`: bounded to microseconds, so it may run on the caller's thread; `is_reentrant`: one instance
    may run several batches at once; `is_idempotent`: a batch that raised may run again in halves; `group_by`:
    which items share a batch, those of equal `shape` and dtype or (`none`) any. `forward` may be `async def`,
    or a generator, which takes one item and yields its partial results.

    `storage`, there before `init`, is shared by all backends of the pipeline: `storage.set(request_id, key,
    value)`, `get`, `pop`, `drop`.

    `close(self)`, if defined, is called once when the pipeline has closed; while a run is inside, it comes
    after that run, or with `closes_while_running` at once, in order to end it. `problem(self)` may return in
    words what keeps the instance from working for now, for `Pipeline.problems`, and `stats(self)` a dict of
    numbers, for `Pipeline.stats`; both are called on any thread at any time. A class that `takes_plans` gets
    what stands in its brackets (`min_children` to `max_children` expressions) not as backends but as
    `self.plans`.

    A class with `start(self, item, reply)` instead of `forward` answers later: `start` takes one request over
    and returns within microseconds (it may be called on a caller's thread); later, on any thread, results are
    written into `item` and `reply.finish()` or `reply.fail(error)` ends the request. See hami._core.Reply.
    """

    batch_range: ClassVar[tuple[int, int | None]] = (1, None)
    is_inline: ClassVar[bool] = False
    is_reentrant: ClassVar[bool] = False
    is_idempotent: ClassVar[bool] = True
    group_by: ClassVar[str] = "shape"
    closes_while_running: ClassVar[bool] = False
    takes_plans: ClassVar[bool] = False
    min_children: ClassVar[int] = 1
    max_children: ClassVar[int] = 1
    storage: KVStorage

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        """Prepare the instance from the checked parameters; the expression shares `options`."""

    def forward(self, batch: list[dict[str, Any]]) -> Any:
        """Run one batch."""
        raise NotImplementedError(f"`{type(self).__name__}` has no `forward`")


def data_of(item: dict[str, Any]) -> Any:
    """Return `data` of an item. Raises RequestError where there is none, which is its caller's mistake."""
    if "data" not in item:
        help = "put the input under `data`"
        raise RequestError("the request has no key `data`", code="request-missing-key", help=help)
    return item["data"]


def answers_later(target: type) -> bool:
    """Say whether a class has a `start(item, reply)`, and no `forward` of its own."""
    has_forward = getattr(target, "forward", Backend.forward) is not Backend.forward
    return callable(getattr(target, "start", None)) and not has_forward


@dataclass(frozen=True)
class WithPlans:
    """A class that takes plans, with those of its children: what the core hands to `instantiate`."""

    python: Any
    plans: tuple[dict[str, Any], ...]
    imports: tuple[str, ...] = ()


# --- registration ----------------------------------------------------------------------------------

_lock = threading.Lock()
_classes: dict[str, Declaration] = {}
_instances: dict[str, Any] = {}


@overload
def register(name: str, target: _T) -> _T: ...
@overload
def register(name: str) -> Callable[[_T], _T]: ...
@overload
def register(name: _T) -> _T: ...
def register(name: Any, target: Any = None) -> Any:
    """Name a backend: `@register`, `@register("Name")`, or `register("name", target)`.

    A class or function becomes a class of that name, any other object an instance that `Forward[name]` calls.
    A different class under a taken name is a ConfigError; the same one defined anew (a reloaded module)
    replaces it.
    """
    if not isinstance(name, str):
        return _register(getattr(name, "__name__", type(name).__name__), name)
    if target is None:
        return lambda decorated: _register(name, decorated)
    return _register(name, target)


def _register(name: str, target: Any) -> Any:
    check_name(name, target, "backend", "register")
    if isinstance(target, type) and issubclass(target, scheduler.Scheduler):
        scheduler.add(name, target)
        return target
    is_class = isinstance(target, type) or inspect.isroutine(target)
    if is_class and answers_later(target):
        store(name, target, declaration_of(name, target))
        return target
    if not inspect.isroutine(target) and not callable(getattr(target, "forward", None)):
        raise refuse(name, f"`{name}` has no method `forward`", "define `def forward(self, batch)`")
    _check_traits(name, target)
    _check_methods(name, target)
    store(name, target, declaration_of(name, target) if is_class else None)
    return target


def check_name(name: object, target: Any, what: str, decorator: str) -> None:
    """Refuse a name that no backend may have: one of the language, or no name at all."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        help = f'use letters, digits and `_`: `{decorator}("Name")`'
        raise refuse(name, f"`{name}` is no name for a {what}", help)
    if name in ALIASES or name in macro_names() or _is_taken_by_core(name, target):
        raise refuse(name, f"`{name}` is already a name of the language", "choose another name")


def store(name: str, target: Any, declaration: Declaration | None) -> None:
    """Keep a class by its declaration, an instance without one; a name means one thing only."""
    with _lock:
        known = _classes.get(name)
        old = _instances.get(name) or (known.python if known is not None else None)
        is_other = old is not None and old is not target and _identity(old) != _identity(target)
        if known is not None and declaration is not None:
            is_other = is_other or known.is_condition != declaration.is_condition
        if is_other:
            taken = f"{_identity(old)[0]}.{_identity(old)[1]}"
            raise refuse(name, f"`{name}` is already registered for `{taken}`", "choose another name")
        if declaration is not None:
            _classes[name] = declaration
        else:
            _instances[name] = target


def refuse(name: object, message: str, help: str) -> ConfigError:
    """Return the error about a registration."""
    return ConfigError(message, code="register-refused", where=f"register {name}", help=help)


def _identity(target: Any) -> tuple[str, str]:
    named = target if hasattr(target, "__qualname__") else type(target)
    return str(getattr(named, "__module__", "")), str(named.__qualname__)


def _is_taken_by_core(name: str, target: Any) -> bool:
    """Say whether a family or, if it is loaded, the core has a class of this name."""
    if name in FAMILIES:
        home = FAMILY_MODULES[FAMILIES[name]]
        return not _identity(target)[0].startswith(home)
    return bool(core_table.cache_info().currsize) and name in core_table()


def declaration_of(name: str, target: Any) -> Declaration:
    """Return what a Python class or function declares."""
    doc = (inspect.getdoc(target) or "").strip().split("\n\n")[0].replace("\n", " ")
    module = _identity(target)[0]
    family = next((key for key, home in FAMILY_MODULES.items() if module.startswith(home)), "python")
    extra = family if FAMILY_MODULES.get(family, "").startswith("hami.backends.") else ""
    if not isinstance(target, type):
        return Declaration(name, doc, family, extra, python=target)
    params = declared_params(target)
    has_init = callable(getattr(target, "init", None)) and getattr(target, "init", None) is not Backend.init
    takes_any_key = has_init and not params
    takes_plans = getattr(target, "takes_plans", False)
    is_operator = answers_later(target)
    return Declaration(
        name,
        doc,
        family,
        extra,
        (*params, QUEUE_CAPACITY) if is_operator else params,
        min_children=getattr(target, "min_children", 1) if takes_plans else 0,
        max_children=getattr(target, "max_children", 1) if takes_plans else 0,
        is_operator=is_operator,
        takes_plans=takes_plans,
        takes_any_key=takes_any_key,
        python=target,
    )


def _check_traits(name: str, target: Any) -> None:
    batch_range = getattr(target, "batch_range", Backend.batch_range)
    forward = target if inspect.isroutine(target) else target.forward
    if inspect.isgeneratorfunction(forward) and batch_range not in ((1, None), (1, 1)):
        help = "remove `batch_range`: a generator takes one item and yields its partial results"
        raise refuse(name, f"`forward` of `{name}` is a generator for batches of `{batch_range}`", help)
    if not isinstance(batch_range, property) and not _is_batch_range(batch_range):
        help = "write (fewest, most) with 1 <= fewest <= most, or None for any number"
        raise refuse(name, f"`batch_range` of `{name}` is `{batch_range}`", help)
    group_by = getattr(target, "group_by", "shape")
    if not isinstance(group_by, property) and group_by not in ("shape", "none"):
        raise refuse(name, f"`group_by` of `{name}` is `{group_by}`", 'use "shape" or "none"')


def _check_methods(name: str, target: Any) -> None:
    forward = target if inspect.isroutine(target) else target.forward
    if inspect.isasyncgenfunction(forward):
        message = f"`forward` of `{name}` is an async generator"
        raise refuse(name, message, "return the whole result instead of yielding parts of it")
    if inspect.iscoroutinefunction(getattr(target, "init", None)):
        message = f"`init` of `{name}` is a coroutine function, and nothing waits for it"
        raise refuse(name, message, "write `def init`, or prepare in the first `async def forward`")


def _is_batch_range(value: Any) -> bool:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        return False
    low, high = value
    is_bounded = isinstance(high, int) and low <= high < 2**63 if isinstance(low, int) else False
    return isinstance(low, int) and low >= 1 and (high is None or is_bounded)


def declared_params(target: type) -> tuple[Param, ...]:
    """Return the parameters declared in a class and its bases, those of the bases first.

    One that is declared again takes the later place.
    """
    params: dict[str, Param] = {}
    for base in reversed(target.__mro__):
        for name, value in vars(base).items():
            params.pop(name, None)
            if isinstance(value, ParamSlot):
                params[name] = value.param
    return tuple(params.values())


# --- lookup ----------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def core_table() -> Mapping[str, Declaration]:
    """Return the classes of the compiled core, by name."""
    try:
        core = importlib.import_module("hami._core")
    except ImportError as error:
        raise BuildError(
            f"the compiled core cannot be loaded: {error}", code="core-missing", help="reinstall `hami-core`"
        ) from error
    return {row["name"]: from_core(row) for row in core.declarations()}


def from_core(row: Mapping[str, Any]) -> Declaration:
    """Return a Declaration from the core's plain data."""
    params = tuple(
        Param(**{**item, "choices": tuple(item.get("choices", ()))}) for item in row.get("params", ())
    )
    return Declaration(**{**row, "params": params})


def find(name: str) -> Declaration | None:
    """Return the class of that name, importing its family; ConfigError if the family is not installed."""
    found, core_class = _classes.get(name), core_table().get(name)
    if found is not None and core_class is not None:  # registered while the core was not loaded yet
        raise refuse(name, f"`{name}` is already a name of the language", "choose another name")
    found = found or core_class
    if found is not None or name not in FAMILIES:
        return found
    load_family(FAMILIES[name])
    return _classes.get(name)


def load_family(family: str) -> None:
    """Import a family of Python backends. Raises ConfigError naming what to install."""
    try:
        importlib.import_module(FAMILY_MODULES[family])
    except ImportError as error:
        raise ConfigError(
            f"the `{family}` backends cannot be loaded: {error}",
            code="family-missing",
            help=f"pip install hami-core[{family}]",
        ) from error


def declarations() -> dict[str, Declaration]:
    """Return all classes known now, those of the core and those registered in Python."""
    return {**core_table(), **_classes}


def backend_names() -> list[str]:
    """Return every name that an expression may use now, families that are not loaded included."""
    return sorted({*core_table(), *_classes, *FAMILIES, *ALIASES, *macro_names()})


def registered_names() -> set[str]:
    """Return the names of the classes and objects that are registered in Python."""
    with _lock:
        return {*_classes, *_instances}


def python_instances() -> dict[str, Any]:
    """Return the objects registered under a name, for `Forward[name]`."""
    return dict(_instances)
