"""`RayDeployment`: the backend of a node that runs in a deployment of its own.

It hands each request to the deployment and takes over what comes back: keys, partial results, errors. All its
calls wait on one event loop, that of the node.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ray.exceptions import RayActorError, RayTaskError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError, RequestCancelledError

from ..backend import Backend, param, register
from ..errors import Cancelled, Closed, Error, QueueFull, WorkerError
from ..event_loop import NodeLoop
from .transport import to_wire

if TYPE_CHECKING:
    from .._core import Reply

BACKEND = "RayDeployment"

# What this pipeline's core has read already; the time that is left is sent on by itself.
_OF_THE_CALLER = ("node_name", "event")


class RayDeployment(Backend):
    """Hands requests on to a deployment of Ray Serve."""

    handle = param(type="any", doc="the handle of the deployment")

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        self._node = str(options.get("node_name", "node"))
        self._loop = NodeLoop(self._node)
        self._loop.join()

    def close(self) -> None:
        self._loop.leave()

    def start(self, item: dict[str, Any], reply: Reply) -> None:
        # Its own pickle, made here: whoever writes into the dict later does not meddle with the request.
        request = to_wire({key: value for key, value in item.items() if key not in _OF_THE_CALLER})

        async def run(_: list[dict[str, Any]]) -> None:
            try:
                if reply.is_streamed:
                    await self._stream(request, item, reply)
                else:
                    item.update(await self.handle.infer.remote(request))
                reply.finish()
            except asyncio.CancelledError:
                reply.fail(Closed("the pipeline was closed while the request ran elsewhere"))
                raise
            except Exception as error:
                reply.fail(self._as_own(error))

        self._loop.start(run, [], _ignore)

    async def _stream(self, request: Any, item: dict[str, Any], reply: Reply) -> None:
        """Pass partial results on as they come, and the keys at the end; cancel what nobody wants."""
        responses = self.handle.options(stream=True).stream_all.remote(request)
        async for part, changes in responses:
            if changes is not None:
                item.update(changes)
            # It waits while there is no room, so not on the loop that all requests share.
            elif not await asyncio.to_thread(reply.emit, part):
                responses.cancel()
                return

    def _as_own(self, error: Exception) -> BaseException:
        """Return what a caller shall see of an error of the deployment."""
        if isinstance(error, RayTaskError) and isinstance(error.cause, BaseException):
            return error.cause
        if isinstance(error, BackPressureError):
            message = f"the deployment of node `{self._node}` has no room"
            help = "try again later, or give it more replicas"
            return QueueFull(message, code="ray-queue-full", help=help)
        if isinstance(error, RequestCancelledError):
            return Cancelled(f"the call of node `{self._node}` was cancelled", help="call again")
        if isinstance(error, (RayActorError, DeploymentUnavailableError)):
            message = f"the replica that ran node `{self._node}` is gone: {type(error).__name__}"
            help = "send the request again: Ray starts the replica anew"
            return WorkerError(message, code="ray-replica-lost", help=help)
        return error if isinstance(error, Error) else _told(self._node, error)


def _told(node: str, error: Exception) -> Error:
    message = f"Ray could not call node `{node}`: {type(error).__name__}: {error}"
    return WorkerError(message, code="ray-call", help="see the logs of Ray Serve")


def _ignore() -> None:
    """Nothing is left to do: the reply has been given."""


def register_backend() -> None:
    """Make the backend known to expressions."""
    register(BACKEND, RayDeployment)
