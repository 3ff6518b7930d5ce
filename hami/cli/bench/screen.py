"""What `hami bench` shows: a bar on stderr while it measures, tables and sentences on stdout.

Where these are no terminals there is no bar, and nothing but plain text.
"""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from ...bench.results import Case

_WIDE = 200


def _console(is_error: bool) -> Console:
    """Return a console for one of the streams. A file is as wide as the widest table."""
    is_terminal = (sys.stderr if is_error else sys.stdout).isatty()
    return Console(
        stderr=is_error, markup=False, highlight=False, emoji=False, width=None if is_terminal else _WIDE
    )


class Screen:
    """The two streams of the command. One thread."""

    def __init__(self) -> None:
        self.out = _console(is_error=False)
        errors = _console(is_error=True)
        self._bar = Progress(
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
            console=errors,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
            auto_refresh=False,  # a thread of its own would take a core from what is measured
            disable=not errors.is_terminal,
        )
        self._task = self._bar.add_task("", total=None)

    def __enter__(self) -> Screen:
        self._bar.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def on_progress(self, case: Case, num_done: float, num_planned: int) -> None:
        """Show what is measured now, and how many of the planned rounds are done."""
        what = f"{case.setting}, {case.arrivals}" if case.changes else case.arrivals
        self._bar.update(self._task, completed=num_done, total=num_planned, description=what, refresh=True)

    def show(self, what: RenderableType) -> None:
        """Print a table or a text to stdout."""
        self._bar.stop()
        self.out.print(what, soft_wrap=isinstance(what, str))
