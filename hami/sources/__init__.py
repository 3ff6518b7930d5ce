"""Backends that bring data into a pipeline: each request gets the next element as its result.

Loaded when a text names one of them, or with `hami.source`; it needs nothing but Python.
"""

from .files import FileSource
from .registered import Source, source
from .sampling import RandomSampleQueue, UniformSample

__all__ = ["FileSource", "RandomSampleQueue", "Source", "UniformSample", "source"]
