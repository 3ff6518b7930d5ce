"""`PatientFlow`: who sends requests ahead of its answers is not read from until they have had their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Sized

from uvicorn.protocols.http.flow_control import FlowControl


class PatientFlow(FlowControl):
    """uvicorn's flow of one connection, whose `waiting` are requests that came before an answer was sent.

    uvicorn would go on to read whenever an answer is sent, or somebody listens for the end of the connection,
    and keep all that comes.
    """

    def __init__(self, transport: asyncio.Transport, waiting: Sized) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        """Read on, unless there are requests enough."""
        if not self._waiting:
            super().resume_reading()
