"""What an operator can do to an adapter: add, load, evict, pin, unpin, unload."""

from __future__ import annotations

from collections.abc import Callable

from engine.adapters import Adapter, AdapterTable, Place
from engine.errors import AdapterBusyError, AdapterError, AdapterNotFoundError, AdapterTooLargeError
from engine.event_log import EventLog
from engine.messages import AdapterCommand, CommandResult
from engine.pool import PagePool
from engine.registry import Registry
from engine.residency import Residency
from engine.scheduler import Scheduler


class Commands:
    """Answers every command exactly once: at once, or, for an add that waits for the host, after the read."""

    def __init__(
        self,
        table: AdapterTable,
        pool: PagePool,
        residency: Residency,
        scheduler: Scheduler,
        registry: Registry,
        limit_pages: int,
        events: EventLog,
        now_ns: Callable[[], int],
        answer: Callable[[CommandResult], None],
    ) -> None:
        self._table = table
        self._pool = pool
        self._residency = residency
        self._scheduler = scheduler
        self._registry = registry
        self._limit_pages = limit_pages
        self._events = events
        self._now_ns = now_ns
        self._answer = answer
        self._reading: dict[int, int] = {}  # serial -> command that waits for its read

    def run(self, command: AdapterCommand) -> None:
        try:
            if command.action == "add":
                adapter = self._registry.add(command.name, command.path, command.by)
                if command.wait_host:
                    self._reading[adapter.serial] = command.command_id
                    self._residency.want_image(adapter)
                    return
            else:
                adapter = self._table.get(command.name)
                getattr(self, f"_{command.action}")(adapter, command.by)
        except AdapterError as error:
            self._events.add("refuse", command.name, command.by, f"{command.action}: {error}")
            self._answer(CommandResult(command.command_id, error.code, str(error)))
            return
        self._answer(CommandResult(command.command_id, "", ""))

    def read_ended(self, adapter: Adapter) -> None:
        """Answer who waited for this read; an adapter that could not be read was never added."""
        if (command_id := self._reading.pop(adapter.serial, None)) is None:
            return
        self._answer(CommandResult(command_id, adapter.error_code, adapter.error))
        if adapter.error_code and not adapter.queue:
            self._table.remove(adapter)

    def pages_left(self, without: Adapter | None = None) -> int:
        """Pages that adapters may hold beside the pinned ones (and ``without``, as if it were pinned too)."""
        pinned = [adapter for adapter in self._table if adapter.pinned or adapter is without]
        there = [adapter.serial for adapter in pinned if adapter.pool is not Place.ABSENT]
        coming = sum(adapter.layout.most_pages for adapter in pinned if adapter.pool is Place.ABSENT)
        return self._limit_pages - self._pool.pages_of(there) - coming

    def _load(self, adapter: Adapter, by: str) -> None:
        if adapter.pool is Place.ABSENT:
            adapter.want_order = self._scheduler.next_order()
            self._residency.want(adapter, by, self._now_ns())

    def _evict(self, adapter: Adapter, by: str) -> None:
        self._refuse_busy(adapter, "evicted")
        if adapter.pool is Place.HERE:
            if adapter.pinned:  # pins hold against the policy, not against the operator
                self._unpin(adapter, by)
            self._residency.evict(adapter, by, "asked for")

    def _pin(self, adapter: Adapter, by: str) -> None:
        if adapter.pinned:
            return
        left = self.pages_left(without=adapter)
        others = [other for other in self._table if not other.pinned and other is not adapter]
        largest = max(others, key=lambda other: other.layout.most_pages, default=None)
        needed = largest.layout.most_pages if largest else 0
        if left < needed or left < 0:
            raise AdapterTooLargeError(
                f"pinning {adapter.name!r} ({adapter.layout.most_pages} pages) would leave {left} of the "
                f"{self._limit_pages} pages for adapters, and "
                + (f"{largest.name!r} needs {needed}" if largest and left >= 0 else "none may be borrowed from KV")
                + ": unpin another first"
            )
        adapter.pinned = True
        self._events.add("pin", adapter.name, by)
        self._residency.mark(adapter)
        self._table.mark_dirty(adapter)
        self._load(adapter, by)

    def _unpin(self, adapter: Adapter, by: str) -> None:
        if adapter.pinned:
            adapter.pinned = False
            self._events.add("unpin", adapter.name, by)
            self._residency.mark(adapter)
            self._table.mark_dirty(adapter)

    def _unload(self, adapter: Adapter, by: str) -> None:
        self._refuse_busy(adapter, "unloaded")
        if adapter.queue:
            raise AdapterBusyError(f"{adapter.name!r}: {len(adapter.queue)} requests wait for it")
        self._residency.forget(adapter)
        if (command_id := self._reading.pop(adapter.serial, None)) is not None:
            self._answer(CommandResult(command_id, AdapterNotFoundError.code, "unloaded before it was read"))
        if adapter.pool is Place.HERE:
            self._residency.evict(adapter, by, "unloaded")
        if adapter.host is Place.HERE:
            self._residency.drop_image(adapter)
        self._events.add("unload", adapter.name, by)
        self._table.remove(adapter)

    def _refuse_busy(self, adapter: Adapter, what: str) -> None:
        if adapter.running:
            raise AdapterBusyError(f"{adapter.name!r} can't be {what} while {adapter.running} requests run on it")
        if adapter.busy:
            doing = "copied" if adapter.pool is Place.COMING else "read"
            raise AdapterBusyError(f"{adapter.name!r} can't be {what} while it is being {doing}")
