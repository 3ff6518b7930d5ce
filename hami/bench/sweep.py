"""Settings of a pipeline that are tried one after another: texts such as `max=4,8,16` -> a grid of settings.

Nothing here knows which keys exist: a setting is put into the configuration as if it stood in the file, and
hami.plan checks it there, suggestions included.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ..config import GLOBAL_KEYS, Config, Setting
from ..errors import ConfigError, Source, did_you_mean, quoted

Value = int | float | str

_AXIS = re.compile(r"(?:(?P<node>[\w-]+)\.)?(?P<key>\w+)=(?P<values>.*)", re.DOTALL)
_AS_WRITTEN = "as written"


@dataclass(frozen=True)
class Change:
    """One key with its value: of a node, or (`node` is None) of all nodes that do not set it themselves.

    `where` is the place that an error about it names.
    """

    node: str | None
    key: str
    value: Value
    where: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        """`node.key`, or the key alone."""
        return self.key if self.node is None else f"{self.node}.{self.key}"

    def __str__(self) -> str:
        value = f"{self.value:g}" if isinstance(self.value, float) else self.value
        return f"{self.name}={value}"


Changes = tuple[Change, ...]


def changes_text(changes: Iterable[Change]) -> str:
    """Return changes as `classify.max=8 batching_timeout=2`; of none, that nothing is changed."""
    return " ".join(map(str, changes)) or _AS_WRITTEN


@dataclass(frozen=True)
class Axis:
    """One key and the values that it takes in turn."""

    node: str | None
    key: str
    values: tuple[Value, ...]
    text: str

    @property
    def where(self) -> str:
        """The place that an error about it names."""
        return f"--sweep {self.text}"


def read_axis(text: str) -> Axis:
    """Read `key=value,value` or `node.key=value,value`; a value that comes twice is tried once.

    Raises ConfigError.
    """
    match = _AXIS.fullmatch(text.strip())
    values = [] if match is None else [value.strip() for value in match["values"].split(",")]
    if match is None or not all(values):
        raise ConfigError(
            f"`{text}` is no `key=values`",
            code="bench-bad-sweep",
            where="--sweep",
            help="write for example `max=4,8,16`, or `classify.max=4,8,16` for one node",
        )
    return Axis(match["node"], match["key"], tuple(dict.fromkeys(map(_number, values))), text.strip())


def read_axes(texts: Iterable[str]) -> list[Axis]:
    """Read several, which may stand in one text with spaces between. Raises ConfigError, also for a key
    that comes twice."""
    axes: dict[tuple[str | None, str], Axis] = {}
    for text in (part for whole in texts for part in whole.split() or [whole]):
        axis = read_axis(text)
        earlier = axes.setdefault((axis.node, axis.key), axis)
        if earlier is not axis:
            message = f"`{axis.key}` is swept twice: `{earlier.text}` and `{axis.text}`"
            help = f"write all values at once: `{earlier.text},{axis.text.partition('=')[2]}`"
            raise ConfigError(message, code="bench-bad-sweep", where="--sweep", help=help)
    return list(axes.values())


def _number(text: str) -> Value:
    """Return what TOML would make of a bare value: a number where it is one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def grid(config: Config, axes: Sequence[Axis]) -> list[Changes]:
    """Return every combination of the axes' values, the last axis fastest. Without axes: no change, once.

    A key without a node is changed in the nodes that set it themselves; if there is none, in all nodes, as
    if it stood at the top of the file. Raises ConfigError for a node that does not exist.
    """
    choices: list[list[Changes]] = []
    for axis in axes:
        owners = _owners(config, axis)
        choices.append(
            [tuple(Change(owner, axis.key, value, axis.where) for owner in owners) for value in axis.values]
        )
    return [tuple(itertools.chain(*chosen)) for chosen in itertools.product(*choices)]


def _owners(config: Config, axis: Axis) -> list[str | None]:
    names: list[str | None] = [node.name for node in config.nodes]
    if axis.node is not None:
        return [known_node(config, axis.node, axis.where)]
    if axis.key in GLOBAL_KEYS:
        return [None]
    setting = [node.name for node in config.nodes if axis.key in node.settings]
    return [*setting] or (names if len(names) == 1 else [None])


def known_node(config: Config, name: str, where: str) -> str:
    """Return the name of a node that exists, or raise a ConfigError that suggests one."""
    names = [node.name for node in config.nodes]
    if name not in names:
        help = did_you_mean(name, names, otherwise=f"the nodes are {quoted(names)}")
        raise ConfigError(f"there is no node `{name}`", code="bench-unknown-node", where=where, help=help)
    return name


def changed(config: Config, changes: Changes) -> Config:
    """Return the configuration with the changes in it, unchecked: hami.plan does that."""
    for change in changes:
        config = _changed_by_one(config, change)
    return config


def _changed_by_one(config: Config, change: Change) -> Config:
    source = Source(change.value, change.where) if isinstance(change.value, str) else None
    new = {change.key: Setting(change.value, change.where or change.name, source=source)}
    if change.node is not None:
        nodes = [
            replace(node, settings={**node.settings, **new}) if node.name == change.node else node
            for node in config.nodes
        ]
        return replace(config, nodes=tuple(nodes))
    if change.key in GLOBAL_KEYS:
        return replace(config, settings={**config.settings, **new})
    nodes = [
        node if change.key in node.settings else replace(node, inherited={**node.inherited, **new})
        for node in config.nodes
    ]
    return replace(config, nodes=tuple(nodes), shared={**config.shared, **new})
