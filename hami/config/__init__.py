"""A TOML file, a text or a dict -> Config: nodes with their parameters, each with its place in the file.

hami.plan reads it. Nothing here knows which parameters exist, or runs anything, except that `import_modules`
imports what the configuration's `imports` name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import ConfigError, Source, Span
from .environment import substitute
from .files import import_by_name, import_modules, imports_of, read_toml
from .toml_positions import Position

__all__ = [
    "GLOBAL_KEYS",
    "Config",
    "NodeConfig",
    "Setting",
    "import_by_name",
    "import_modules",
    "imports_of",
    "load",
]

# Keys of the whole pipeline; every other key beside the tables is a default for all nodes.
GLOBAL_KEYS = ("imports", "output", "fanout", "entrypoint", "priority", "deadline_ms", "max_in_flight", "ray")

# Those of them that are tables, and so no nodes.
_GLOBAL_TABLES = ("ray",)

SINGLE_NODE = "node"

_NODE_NAME = re.compile(r"[\w-]+")
_MAX_LEVELS = 50


@dataclass(frozen=True)
class Setting:
    """One value; `key` and `value_span` are its places in a file, `source` is the text of a text value."""

    value: Any
    where: str
    key: Span | None = None
    value_span: Span | None = None
    source: Source | None = None

    def error(self, code: str, message: str, help: str = "", *, at_value: bool = True) -> ConfigError:
        """Return a ConfigError about the value, or about the key."""
        span = self.value_span if at_value else self.key
        if span is not None:
            return span.error(code, message, help)
        return ConfigError(message, code=code, where=self.where, help=help)


@dataclass(frozen=True)
class NodeConfig:
    """One node: `settings` are its own, `inherited` those of the top level that it does not set itself."""

    name: str
    where: str
    settings: Mapping[str, Setting]
    inherited: Mapping[str, Setting] = field(default_factory=dict)
    span: Span | None = None

    def find(self, key: str) -> Setting | None:
        """Return the node's own or inherited setting."""
        return self.settings.get(key) or self.inherited.get(key)

    def error(self, code: str, message: str, help: str = "") -> ConfigError:
        """Return a ConfigError about the node as a whole."""
        if self.span is not None:
            return self.span.error(code, message, help)
        return ConfigError(message, code=code, where=self.where, help=help)


@dataclass(frozen=True)
class Config:
    """What was read: nodes in written order, the settings of the pipeline, and those that all nodes inherit.

    Relative paths start from `directory`, or from the current one where it is None.
    """

    nodes: tuple[NodeConfig, ...]
    settings: Mapping[str, Setting]
    shared: Mapping[str, Setting] = field(default_factory=dict)
    name: str = ""
    directory: str | None = None


def load(source: object) -> Config:
    """Read what `hami.pipe` takes.

    A text that ends in `.toml` and an os.PathLike are files, any other text is the expression of one node; a
    dict with a text `backend`, or with `entrypoint` and no tables, is one node, any other dict holds nodes.
    A Config was read before, and is returned.
    """
    if isinstance(source, Config):
        return source
    if isinstance(source, os.PathLike) or (isinstance(source, str) and source.endswith(".toml")):
        data, text, positions = read_toml(source)
        name = os.fsdecode(source)
        directory = os.path.dirname(os.path.abspath(name))
        return _Reader(name, directory, Source(text, name), positions).read(data)
    if isinstance(source, str):
        return _Reader("", None, None, {}).read({"backend": source})
    if isinstance(source, Mapping):
        return _Reader("", None, None, {}).read(source)
    raise ConfigError(
        f"expected a text, a path or a dict, got `{type(source).__name__}`",
        code="config-type",
        where="configuration",
        help="pass a file, an expression, or a dict of nodes",
    )


def runs_graph(entrypoint: object) -> bool:
    """Say whether an `entrypoint` is about the graph, and not about how its one node is built."""
    return isinstance(entrypoint, str) and re.search(r"\bDagDispatcher\b", entrypoint) is not None


class _Reader:
    def __init__(
        self,
        name: str,
        directory: str | None,
        file: Source | None,
        positions: Mapping[tuple[str, ...], Position],
    ) -> None:
        self.name = name
        self.directory = directory
        self.file = file
        self.positions = positions

    def read(self, data: Mapping[Any, Any]) -> Config:
        self._check_keys(data, ())
        tables = [
            key for key, value in data.items() if isinstance(value, Mapping) and key not in _GLOBAL_TABLES
        ]
        is_single = isinstance(data.get("backend"), str) or ("entrypoint" in data and not tables)
        shared = {
            key: self._setting((key,), value) for key, value in data.items() if is_single or key not in tables
        }
        settings = {key: shared.pop(key) for key in GLOBAL_KEYS if key in shared}
        if is_single:
            nodes: tuple[NodeConfig, ...] = (self._single_node(shared, settings),)
            shared = {}
        else:
            nodes = tuple(self._node(key, data[key], shared) for key in tables)
        if not nodes:
            raise ConfigError(
                "there is no node",
                code="config-empty",
                where=self.name or "configuration",
                help='add one: `[classify]` and below it `backend = "Identity"`',
            )
        return Config(nodes, settings, shared, self.name, self.directory)

    def _single_node(self, own: dict[str, Setting], settings: dict[str, Setting]) -> NodeConfig:
        entrypoint = settings.get("entrypoint")
        if entrypoint is not None and not runs_graph(entrypoint.value):
            del settings["entrypoint"]
            if "node_entrypoint" in own:
                message = "one node has both `entrypoint` and `node_entrypoint`, which mean the same here"
                raise entrypoint.error("config-two-entrypoints", message, "keep one of them", at_value=False)
            own["node_entrypoint"] = entrypoint
        return NodeConfig(SINGLE_NODE, self.name or SINGLE_NODE, own)

    def _node(self, name: str, table: Mapping[Any, Any], shared: Mapping[str, Setting]) -> NodeConfig:
        position = self.positions.get((name,))
        span = self._span(position.key_start, position.key_end) if position else None
        node = NodeConfig(name, name or "configuration", {}, span=span)
        if not _NODE_NAME.fullmatch(name) or name == "input":
            what = "means the caller's own keys in `map`" if name == "input" else "is no name for a node"
            raise node.error("config-node-name", f"`{name}` {what}", "use letters, digits, `_` and `-`")
        self._check_keys(table, (name,))
        settings = {key: self._setting((name, key), value) for key, value in table.items()}
        inherited = {key: setting for key, setting in shared.items() if key not in settings}
        return NodeConfig(name, span.where if span else name, settings, inherited, span)

    def _check_keys(self, table: Mapping[Any, Any], path: tuple[str, ...]) -> None:
        for key in table:
            if not isinstance(key, str):
                where = ".".join(path) or "configuration"
                raise ConfigError(
                    f"a key must be text, got `{key!r}`",
                    code="config-key",
                    where=where,
                    help="write it as text",
                )

    def _span(self, start: int, end: int) -> Span | None:
        return Span(self.file, start, end) if self.file is not None else None

    def _setting(self, path: tuple[str, ...], value: Any) -> Setting:
        position = self.positions.get(path)
        where = ".".join(path) or "configuration"
        if position is None or self.file is None:
            name = "" if path == ("backend",) else where
            source = Source(value, name) if isinstance(value, str) else None
            setting = Setting(value, where, source=source)
        else:
            key = self._span(position.key_start, position.key_end)
            value_span = self._span(position.value_start, position.value_end)
            source = None
            if isinstance(value, str) and value == position.text:
                source = Source(value, self.name, outer=self.file, offsets=position.offsets)
            setting = Setting(value, key.where if key else where, key, value_span, source)
        is_list_of_tables = isinstance(value, list) and value and isinstance(value[0], Mapping)
        if is_list_of_tables and len(path) == 1 and self.file is not None:
            help = f"write `[{path[0]}]`, with one pair of brackets"
            raise setting.error(
                "config-array-of-tables", f"`{path[0]}` is a list of tables", help, at_value=False
            )
        return self._with_environment(setting)

    def _with_environment(self, setting: Setting) -> Setting:
        """Replace `${NAME}` in all texts of the value."""
        value, source = setting.value, setting.source
        if source is not None:
            text, offsets = substitute(value, setting.error)
            if text == value:
                return setting
            return Setting(
                text, setting.where, setting.key, setting.value_span, source.replaced(text, offsets)
            )
        return Setting(
            self._replace(value, setting, 0), setting.where, setting.key, setting.value_span, setting.source
        )

    def _replace(self, value: Any, setting: Setting, level: int) -> Any:
        if level > _MAX_LEVELS:
            raise setting.error(
                "config-nesting", f"more than {_MAX_LEVELS} levels inside each other", "flatten it"
            )
        if isinstance(value, str):
            return substitute(value, setting.error)[0]
        if type(value) is list:
            return [self._replace(item, setting, level + 1) for item in value]
        if type(value) is dict:
            return {key: self._replace(item, setting, level + 1) for key, item in value.items()}
        return value
