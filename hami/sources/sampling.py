"""Elements of another source in random order: shuffled in a window, or drawn with replacement."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from ..backend import param, register
from ..errors import BuildError
from .files import elements_of_path
from .registered import find_source
from .stream import SourceBackend, optional_param, repeat_param

_MAX_LINE_BYTES = 16_777_216


class _Sampling(SourceBackend):
    source = param(None, type="str", doc="a name that `hami.source` gave; this or `path`")
    path = param(None, type="path", doc="a file or pattern, as for `FileSource`; this or `source`")
    seed = param(None, type="int", doc="the same seed gives the same order; unset, every run differs")

    def inner(self) -> Callable[[], Iterator[Any]]:
        """Return the function that begins an epoch of what is sampled from."""
        if (self.source is None) == (self.path is None):
            both = "neither `source` nor `path`" if self.path is None else "both `source` and `path`"
            raise BuildError(
                f"`{type(self).__name__}` has {both}",
                code="source-arguments",
                help="set one of them",
            )
        if self.source is not None:
            return find_source(self.source)
        return elements_of_path(self.path, _MAX_LINE_BYTES)


@register
class RandomSampleQueue(_Sampling):
    """The elements of a source in random order, each once an epoch: a shuffle buffer."""

    window = param(1024, min=1, doc="how many elements are held, from which the next is drawn")
    repeat = repeat_param()
    optional = optional_param()

    def open(self) -> Callable[[], Iterator[Any]]:
        """Shuffle each epoch by itself."""
        inner, generator = self.inner(), random.Random(self.seed)
        return lambda: _shuffled(inner(), self.window, generator)


@register
class UniformSample(_Sampling):
    """Elements of a source drawn at random, with replacement: any may come again at any time."""

    capacity = param(100_000, min=1, doc="most elements, since all of them are held")
    repeat = repeat_param(0, "how many times as many draws as there are elements; 0 is for ever")
    optional = optional_param()

    def open(self) -> Callable[[], Iterator[Any]]:
        """Read all elements."""
        elements = list(islice(self.inner()(), self.capacity + 1))
        if len(elements) > self.capacity:
            raise BuildError(
                f"the source has more than `{self.capacity}` elements, and drawing needs all of them",
                code="source-too-large",
                help="raise `capacity`, or use `RandomSampleQueue`, which holds a window only",
            )
        generator = random.Random(self.seed)
        return lambda: (generator.choice(elements) for _ in range(len(elements)))


def _shuffled(inner: Iterator[Any], window: int, generator: random.Random) -> Iterator[Any]:
    held = list(islice(inner, window))
    while held:
        index = generator.randrange(len(held))
        drawn = held[index]
        last = held.pop()
        if index < len(held):
            held[index] = last
        held.extend(islice(inner, 1))
        yield drawn
