"""`hami serve --workers N`: a parent that supervises, and N processes that serve one port together.

The parent listens and never accepts. Its socket is handed to every worker, so that there is one queue of new
connections, which belongs to no worker: when one is killed, those who wait in the queue are taken by another.
With a socket for each worker (SO_REUSEPORT) there would be a queue for each, and the kernel would reset what
waits in that of a killed one. A worker takes a connection at a time, and only while it has room and its
event loop has time, so that the idle ones take most.

Each worker is a fresh interpreter with a pipeline of its own: the core has threads, which survive no fork. A
line, a socket pair, joins it to the parent. Through it come what to serve, the order to end, and questions of
the other workers (`Peers`), so that figures and health are those of all. At the end of the line the other
side is gone.
"""

from .supervisor import StartError, supervise

__all__ = ["StartError", "supervise"]
