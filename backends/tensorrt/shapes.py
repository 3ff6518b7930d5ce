"""The texts behind `min`, `opt` and `max`, and the optimization profiles that they make.

`;` stands between profiles, `,` between inputs, `x` between extents: `1x3x224x224,1x10;8x3x224x224,8x10`. A
bare number means rows: that many on every dynamic axis 0. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hami.errors import BuildError

Shape = tuple[int, ...]
# One profile as written: rows for all inputs, or one shape for each.
Wish = int | tuple[Shape, ...]

_EXTENTS = re.compile(r"[0-9]{1,9}(?:x[0-9]{1,9})*")


@dataclass(frozen=True)
class Port:
    """An input of the model: -1 where any extent is taken."""

    name: str
    shape: Shape


@dataclass(frozen=True)
class Profile:
    """One optimization profile: for each input by name the shapes (fewest, best, most)."""

    shapes: dict[str, tuple[Shape, Shape, Shape]]
    min_rows: int
    max_rows: int

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"shapes": self.shapes, "min_rows": self.min_rows, "max_rows": self.max_rows}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Profile:
        """Return the profile of plain data."""
        shapes = {name: tuple(tuple(shape) for shape in three) for name, three in data["shapes"].items()}
        return cls(shapes, int(data["min_rows"]), int(data["max_rows"]))  # type: ignore[arg-type]


def refuse(message: str, help: str) -> BuildError:
    """Return the error about `min`, `opt` and `max`."""
    return BuildError(message, code="tensorrt-profile", help=help)


def show(shape: Sequence[int]) -> str:
    """Return a shape as it is written: `1x3x224x224`, `?` for any extent."""
    return "x".join("?" if extent < 0 else str(extent) for extent in shape) or "a single number"


def parse_wishes(value: Any, name: str) -> tuple[Wish, ...]:
    """Return the profiles that `value` (a number, a text, or a list of them) asks for; none for None."""
    if value is None:
        return ()
    parts = value if isinstance(value, (list, tuple)) else [value]
    profiles = [one for part in parts for one in (part.split(";") if isinstance(part, str) else [part])]
    if not profiles:
        raise refuse(f"`{name}` is empty", f"write `{name} = 8`, or a shape such as `8x3x224x224`")
    return tuple(_parse_wish(one, name) for one in profiles)


def _parse_wish(value: Any, name: str) -> Wish:
    help = "write rows (`8`) or shapes (`8x3x224x224`), `,` between inputs and `;` between profiles"
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise refuse(f"`{name}` cannot be `{value!r}`", help)
    items = [item.strip() for item in value.split(",")]
    if not all(_EXTENTS.fullmatch(item) for item in items):
        raise refuse(f"`{name}` holds `{value.strip()}`, which is neither rows nor a shape", help)
    shapes = tuple(tuple(int(extent) for extent in item.split("x")) for item in items)
    if any(0 in shape for shape in shapes):
        raise refuse(f"`{name}` holds `{value.strip()}`: an extent of zero", help)
    return shapes[0][0] if len(shapes) == 1 and len(shapes[0]) == 1 else shapes


def fixed_rows(inputs: Sequence[Port]) -> int | None:
    """Return the batch of a model whose inputs all have one fixed axis 0, or None."""
    extents = {port.shape[0] if port.shape else None for port in inputs}
    (only,) = extents if len(extents) == 1 else (None,)
    return only if only is not None and only >= 0 else None


def has_rows(port: Port, fixed: int | None) -> bool:
    """Say whether axis 0 of an input counts rows: it is dynamic, or all inputs have the same fixed one."""
    return bool(port.shape) and (port.shape[0] < 0 or fixed is not None)


def make_profiles(
    inputs: Sequence[Port], low: tuple[Wish, ...], best: tuple[Wish, ...], high: tuple[Wish, ...]
) -> list[Profile]:
    """Return the profiles for the inputs of a model; what is not asked for follows from `high`.

    Without `high` a dynamic batch has one row at most. Raises BuildError where the texts do not fit the model
    or each other.
    """
    count = max(len(low), len(best), len(high), 1)
    wishes = []
    for name, given in (("min", low), ("opt", best), ("max", high)):
        if len(given) not in (0, 1, count):
            raise refuse(
                f"`{name}` has `{len(given)}` profiles, where another of `min`, `opt`, `max` has `{count}`",
                "write one for all profiles, or one for each",
            )
        wishes.append(given * count if len(given) == 1 else given or (None,) * count)
    return [_make_profile(inputs, *one) for one in zip(*wishes, strict=True)]


def _make_profile(inputs: Sequence[Port], low: Wish | None, best: Wish | None, high: Wish | None) -> Profile:
    fixed = fixed_rows(inputs)
    _refuse_rows_above(fixed, high)
    shapes = {}
    for index, port in enumerate(inputs):
        most = _shape_for(port, index, len(inputs), 1 if high is None else high, "max", port.shape)
        least = _shape_for(port, index, len(inputs), 1 if low is None else low, "min", most)
        middle = _shape_for(port, index, len(inputs), best, "opt", most)
        for name, small, large in (("min", least, middle), ("opt", middle, most)):
            if any(a > b for a, b in zip(small, large, strict=True)):
                raise refuse(
                    f"`{name}` of input `{port.name}` is `{show(small)}`, above `{show(large)}`",
                    f"write a smaller `{name}`, or a larger `max`",
                )
        shapes[port.name] = (least, middle, most)
    counted = [shapes[port.name] for port in inputs if has_rows(port, fixed)]
    for which, name in ((0, "min"), (2, "max")):
        if len({three[which][0] for three in counted}) > 1:
            raise refuse(f"`{name}` gives inputs different rows", "write the same first extent for each")
    if fixed is None and counted:
        return Profile(shapes, counted[0][0][0], counted[0][2][0])
    most_rows = high if isinstance(high, int) else fixed or 1
    return Profile(shapes, min(low, most_rows) if isinstance(low, int) else 1, most_rows)


def _refuse_rows_above(fixed: int | None, high: Wish | None) -> None:
    rows = high if isinstance(high, int) else None
    if fixed is not None and rows is not None and rows > fixed:
        raise refuse(
            f"`max` is `{rows}`, above the model's fixed batch of `{fixed}`",
            f"write `max = {fixed}`, or export the model with a dynamic batch",
        )


def _shape_for(port: Port, index: int, count: int, wish: Wish | None, name: str, base: Shape) -> Shape:
    """Return the shape of one input; extents that the wish leaves open come from `base`."""
    if wish is None:
        return base
    if isinstance(wish, int):
        is_dynamic = bool(port.shape) and port.shape[0] < 0
        shape = (wish, *base[1:]) if is_dynamic else base
        if -1 in shape:
            axes = ", ".join(str(axis) for axis, extent in enumerate(shape) if extent < 0)
            written = "x".join("N" if extent < 0 else str(extent) for extent in port.shape)
            raise refuse(
                f"input `{port.name}` is `{show(port.shape)}`, and nothing says how large axis {axes} gets",
                f"write `min` and `max` as shapes: `{name} = {written}` with a number for each N",
            )
        return shape
    if len(wish) != count:
        raise refuse(
            f"`{name}` has `{len(wish)}` shapes, the model `{count}` inputs", "write one for each, with `,`"
        )
    shape = wish[index]
    if len(shape) == 1 and len(port.shape) != 1:  # rows among shapes
        return _shape_for(port, index, count, shape[0], name, base)
    is_fit = len(shape) == len(port.shape) and all(
        declared in (-1, extent) for declared, extent in zip(port.shape, shape, strict=True)
    )
    if not is_fit:
        raise refuse(
            f"`{name}` of input `{port.name}` is `{show(shape)}`, the model takes `{show(port.shape)}`",
            f"write `{name}` with the model's extents, and numbers of yours only where it has `?`",
        )
    return shape
