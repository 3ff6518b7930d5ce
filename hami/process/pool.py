"""The backend `ProcessPool`: splits each batch over its worker processes and gathers the answers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.connection import wait
from typing import Any

from ..backend import Backend, param, register
from ..errors import BuildError, Closed, WorkerError
from . import main_module
from .packing import Packed, join, pack_dict, split, unpack, unpack_error
from .reference import find_main, refer_all
from .worker_process import NeverBegan, WorkerProcess, start_messages

MAX_STARTS = 3
"""How often a call tries to replace a worker that dies while it starts."""

_logger = logging.getLogger("hami.process_pool")

Item = dict[str, Any]


class Place:
    """The place of one worker: the process that holds it now, and why there may be none."""

    def __init__(self, messages: Sequence[Packed]) -> None:
        self._messages = messages
        self._num_starts = 0
        self.worker: WorkerProcess | None = None
        self.reason: BaseException | None = None

    def launch(self) -> None:
        """Start a process in this place, without waiting for it."""
        self._num_starts += 1
        try:
            self.worker = WorkerProcess(self._messages)
        except (OSError, MemoryError) as error:
            self.reason = error

    def allow_starts(self) -> None:
        """Let a new call try again what did not succeed for the last one."""
        if self.worker is None:
            self._num_starts = 0
            self.launch()

    def renew(self, reason: BaseException) -> None:
        """End the process, which has died or failed, and start another one unless that is pointless."""
        worker, self.worker, self.reason = self.worker, None, reason
        if worker is not None:
            if worker.is_ready:
                self._num_starts = 0
            worker.end()
        if self._num_starts < MAX_STARTS:
            self.launch()

    def look(self) -> bool:
        """Say whether a worker here can take work now; renews one that has died meanwhile."""
        while self.worker is not None:
            if self.worker.is_ready:
                if self.worker.is_idle_and_alive():
                    return True
            elif not wait(self.worker.wake_ups(), 0):
                return False
            try:
                self.worker.become_ready()
            except BaseException as error:
                _logger.warning("%s", _first_line(error))
                self.renew(error)
        return False


@register
class ProcessPool(Backend):
    """Run an expression in worker processes, past the GIL; a worker that dies fails only its own items."""

    takes_plans = True
    closes_while_running = True
    group_by = "none"  # each worker groups what it gets, as its backends ask for

    num_workers = param(1, min=1, max=256, doc="processes of one instance")

    plans: tuple[Mapping[str, Any], ...]
    imports: tuple[str, ...]

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        """Start the workers and wait for them. Raises what building the expression raises there."""
        main_module.refuse_while_importing()
        self._lock = threading.Lock()
        self._is_closed = False
        self._is_inside = False
        messages = self._messages()
        self._places = [Place(messages) for _ in range(self.num_workers)]
        try:
            self._start()
        except BaseException:
            self._end_all()
            raise
        low, high = next(place.worker.run_range for place in self._places if place.worker is not None)
        self._fewest_rows = low
        self.batch_range = (low, high * self.num_workers)  # type: ignore[misc]

    def _messages(self) -> list[Packed]:
        plan = refer_all(self.plans[0])
        node = plan["nodes"][0]
        try:
            return start_messages(find_main(), plan, self.imports)
        except Exception as error:
            raise BuildError(
                f"a parameter of node `{node['name']}` does not pickle, so no worker process can have it: "
                f"{type(error).__name__}: {error}",
                code="worker-parameter",
                where=node["expr"]["where"],
                help="give it in another form: a name, a path, plain data",
            ) from error

    def _start(self) -> None:
        for place in self._places:
            place.launch()
        for place in self._places:
            if place.worker is None:
                assert place.reason is not None
                raise place.reason
            wait(place.worker.wake_ups())
            try:
                place.worker.become_ready()
            except WorkerError as error:
                raise BuildError(
                    f"{error.message} before it was ready",
                    code="worker-died",
                    help="look for its last words on the standard error output",
                ) from error

    # --- running ------------------------------------------------------------------------------------

    def forward(self, batch: list[Item]) -> None:
        """Run one batch; every item gets its changes or its error."""
        with self._lock:
            self._refuse_if_closed()
            self._is_inside = True
        try:
            self._run(batch)
        finally:
            with self._lock:
                self._is_inside = False
                is_last = self._is_closed
            if is_last:
                self._end_all()

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise Closed("the pipeline is closed", help="create a new pipeline with `hami.pipe(...)`")

    def _run(self, batch: list[Item], num_attempts: int = MAX_STARTS) -> None:
        """Run the items; those that a worker never began, because it died before, run elsewhere."""
        places = self._find_ready() if num_attempts > 0 else []
        if not places:
            for item in batch:
                item["error"] = self._no_worker()
            return
        unread: list[Item] = []
        sent: dict[Place, list[Item]] = {}
        for place, items in zip(places, self._divide(batch, len(places)), strict=False):
            try:
                if travelling := self._send(place, items):
                    sent[place] = travelling
            except NeverBegan:
                unread += self._bury_unread(place, items)
        while sent:
            ready = set(wait([one for place in sent for one in self._wake_ups(place)]))
            for place in [place for place in sent if ready.intersection(self._wake_ups(place))]:
                items = sent.pop(place)
                try:
                    self._receive(place, items)
                except NeverBegan:
                    unread += self._bury_unread(place, items)
        if unread and not self._is_closed:
            self._run(unread, num_attempts - 1)

    def _bury_unread(self, place: Place, items: list[Item]) -> list[Item]:
        """Replace a worker that died before it began, and return the items that have no error yet."""
        assert place.worker is not None
        self._bury(place, place.worker.death())
        return [item for item in items if item.get("error") is None]

    @staticmethod
    def _wake_ups(place: Place) -> list[int]:
        assert place.worker is not None
        return place.worker.wake_ups()

    def _find_ready(self) -> list[Place]:
        """Return the places that can take work; waits for one only where there is none."""
        for place in self._places:
            place.allow_starts()
        while True:
            ready = [place for place in self._places if place.look()]
            starting = [place for place in self._places if place.worker is not None]
            if ready or not starting or self._is_closed:
                return ready
            wait([one for place in starting for one in self._wake_ups(place)])

    def _no_worker(self) -> BaseException:
        reason = next((place.reason for place in self._places if place.reason is not None), None)
        return WorkerError(
            f"no worker process can be started, after {MAX_STARTS} attempts: {_first_line(reason)}",
            code="worker-died",
            help="look for the last words of the workers on the standard error output",
        )

    def _divide(self, batch: list[Item], num_parts: int) -> list[list[Item]]:
        """Cut the batch into parts of about the same number of rows, none below the fewest that may run."""
        rows = [_rows_of(item) for item in batch]
        total = sum(rows)
        num_parts = max(1, min(num_parts, len(batch), total // self._fewest_rows))
        parts: list[list[Item]] = [[] for _ in range(num_parts)]
        before = 0
        for item, count in zip(batch, rows, strict=True):
            parts[min(num_parts - 1, before * num_parts // total)].append(item)
            before += count
        return [part for part in parts if part]

    def _send(self, place: Place, items: list[Item]) -> list[Item]:
        """Send what can be sent to a worker, and return it; the rest gets its error."""
        packed: list[Packed] = []
        travelling: list[Item] = []
        for item in items:
            try:
                packed.append(pack_dict(item, "request"))
                travelling.append(item)
            except BaseException as error:
                item["error"] = error
        if not travelling:
            return []
        try:
            assert place.worker is not None
            place.worker.send(join(packed))
        except MemoryError as error:
            for item in travelling:
                item["error"] = error
            return []
        return travelling

    def _receive(self, place: Place, items: list[Item]) -> None:
        assert place.worker is not None
        try:
            answers = split(place.worker.receive())
        except NeverBegan:
            raise
        except BaseException as error:
            self._bury(place, error)
            for item in items:
                item["error"] = error
            return
        for item, answer in zip(items, answers, strict=True):
            _take_answer(item, answer)

    def _bury(self, place: Place, error: BaseException) -> None:
        if self._is_closed:
            return
        node = self.plans[0]["nodes"][0]["name"]
        place.renew(error)
        _logger.warning("node `%s`: %s, and is replaced", node, _first_line(error))

    # --- the end ------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the workers; a run that waits for them comes back with errors."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            is_inside = self._is_inside
        self._hang_up_all()
        if not is_inside:
            self._end_all()

    def _hang_up_all(self) -> None:
        for worker in [place.worker for place in self._places]:
            if worker is not None:
                worker.hang_up()

    def _end_all(self) -> None:
        self._hang_up_all()  # of all first, so that they end together
        for place in self._places:
            worker, place.worker = place.worker, None
            if worker is not None:
                worker.end()


def _rows_of(item: Item) -> int:
    rows = item.get("request_size", 1)
    return rows if isinstance(rows, int) and rows > 0 else 1


def _take_answer(item: Item, answer: Packed) -> None:
    try:
        value = unpack(answer)
        error = None if isinstance(value, dict) else unpack_error(value)
    except Exception as own:
        error = own
    if error is None:
        item.update(value)
    else:
        item["error"] = error


def _first_line(error: BaseException | None) -> str:
    message = getattr(error, "message", None) or str(error)
    return str(message).split("\n", 1)[0]
