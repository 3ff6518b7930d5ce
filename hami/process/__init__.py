"""`ProcessPool[X]`: an expression in worker processes, past the GIL.

Importing this package registers the backend. A worker builds X with the compiled core itself; batches and
results travel through shared memory, and a worker that dies fails only what it had in its hands.
"""

from .pool import ProcessPool

__all__ = ["ProcessPool"]
