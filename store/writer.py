"""One thread that owns the connection that writes: whoever records never waits for the disk.

What was handed over is committed within 100 ms. When the disk can't take it, the writer says so once and counts
what it lost; it never raises into the caller.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from engine.messages import EngineEvent, Gauges
from store import runs
from store.database import open_writer
from store.errors import HistoryError, RunNotFoundError, clear_errors
from store.queries import Run
from store.runs import NewRun
from store.schema import event_row, insert_sql, request_row, sample_row
from stress.metrics import RequestRecord, StressSummary

_BATCH_S = 0.1
_BATCH_ROWS = 2000
# Rows that may wait for the disk. From the half on no samples are taken: they are what a run misses least.
_QUEUE_ROWS = 200_000


@dataclass(slots=True)
class _Rows:
    table: str
    number: int
    rows: list[tuple[Any, ...]]


@dataclass(slots=True)
class _Call:
    """Something to do between batches, after everything that was handed over before it."""

    work: Callable[[Database], Any]
    result: Future[Any] = field(default_factory=Future)


class HistoryWriter:
    """Start it, hand over rows from any thread, close it. ``on_error`` is called at most once."""

    def __init__(self, path: Path, on_error: Callable[[HistoryError], None] = lambda _error: None) -> None:
        self._path = path
        self._on_error = on_error
        self._queue: queue.Queue[_Rows | _Call | None] = queue.Queue()
        self._lock = threading.Lock()
        self._waiting_rows = 0
        self._dropped: Counter[int] = Counter()
        self._lost: Counter[int] = Counter()
        self._thread = threading.Thread(target=self._run, name="history-writer", daemon=True)
        self._closed = False
        self.error: HistoryError | None = None

    def start(self) -> Future[None]:
        """Done when the file is open; its HistoryError otherwise, and then nothing will be kept."""
        opened: Future[None] = Future()
        self._opened = opened
        self._thread.start()
        return opened

    def begin_run(self, run: NewRun) -> Future[Run]:
        """Done when the run is on disk, marked as running."""
        return self._call(lambda db: runs.begin(db, run))

    def add_requests(self, number: int, records: Sequence[RequestRecord]) -> None:
        self._put("requests", number, [request_row(number, record) for record in records])

    def add_swaps(self, number: int, events: Sequence[EngineEvent]) -> None:
        self._put("swap_events", number, [event_row(number, event) for event in events])

    def add_sample(self, number: int, t_ns: int, gauges: Gauges) -> None:
        with self._lock:
            if self._waiting_rows >= _QUEUE_ROWS // 2:
                self._dropped[number] += 1
                return
        self._put("samples", number, [sample_row(number, t_ns, gauges)])

    def end_run(self, number: int, summary: StressSummary) -> Future[None]:
        """Done when everything of the run is on disk. Tried even after an error: by now the disk may have room."""

        def work(db: Database) -> None:
            runs.end(db, number, summary, self._dropped.pop(number, 0), self._lost.pop(number, 0))

        return self._call(work)

    def delete_run(self, number: int) -> Future[None]:
        return self._call(lambda db: runs.delete(db, number))

    def flush(self) -> Future[None]:
        """Done when everything handed over so far is committed, or counted as lost."""
        return self._call(lambda _db: None)

    def close(self, timeout_s: float = 10.0) -> None:
        """Writes what waits, then closes the file."""
        self._queue.put(None)
        self._thread.join(timeout_s)

    def _put(self, table: str, number: int, rows: list[tuple[Any, ...]]) -> None:
        if not rows:
            return
        with self._lock:
            full = self._waiting_rows + len(rows) > _QUEUE_ROWS
            if full or self.error is not None:
                self._lost[number] += len(rows)
            else:
                self._waiting_rows += len(rows)
        if full:
            self._fail(HistoryError(f"history {self._path}: the disk is too slow for this run"))
        elif self.error is None:
            self._queue.put(_Rows(table, number, rows))

    def _call(self, work: Callable[[Database], Any]) -> Future[Any]:
        call = _Call(work)
        with self._lock:
            if not self._closed:
                self._queue.put(call)
                return call.result
        call.result.set_exception(self.error or HistoryError(f"history {self._path}: it is closed"))
        return call.result

    def _fail(self, error: HistoryError) -> None:
        with self._lock:
            first = self.error is None
            self.error = self.error or error
        if first:
            self._on_error(error)

    def _run(self) -> None:
        try:
            db = open_writer(self._path)
        except HistoryError as error:
            self._fail(error)
            self._opened.set_exception(error)
            self._refuse_calls(error)
            return
        self._opened.set_result(None)
        try:
            while self._turn(db):
                pass
        finally:
            db.close()
        self._refuse_calls(HistoryError(f"history {self._path}: it is closed"))

    def _refuse_calls(self, error: HistoryError) -> None:
        """Nobody may wait for an answer that will not come."""
        with self._lock:
            self._closed = True
        while True:
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return
            if isinstance(item, _Call):
                item.result.set_exception(error)

    def _turn(self, db: Database) -> bool:
        """One batch and the call that ended it, if any; False at the end."""
        batch: list[_Rows] = []
        count = 0
        item = self._queue.get()
        deadline_s = time.monotonic() + _BATCH_S
        while isinstance(item, _Rows):
            batch.append(item)
            count += len(item.rows)
            rest_s = deadline_s - time.monotonic()
            if count >= _BATCH_ROWS or rest_s <= 0:
                break
            try:
                item = self._queue.get(timeout=rest_s)
            except queue.Empty:
                break
        self._write(db, batch)
        if isinstance(item, _Call):
            self._answer(db, item)
        return item is not None

    def _write(self, db: Database, batch: list[_Rows]) -> None:
        if not batch:
            return
        try:
            with clear_errors(self._path), runs.transaction(db):
                for table in sorted({rows.table for rows in batch}):
                    together = [row for rows in batch if rows.table == table for row in rows.rows]
                    db.conn.executemany(insert_sql(table), together)
        except HistoryError as error:
            with self._lock:
                for rows in batch:
                    self._lost[rows.number] += len(rows.rows)
            self._fail(error)
        with self._lock:
            self._waiting_rows -= sum(len(rows.rows) for rows in batch)

    def _answer(self, db: Database, call: _Call) -> None:
        try:
            with clear_errors(self._path):
                call.result.set_result(call.work(db))
        except RunNotFoundError as error:
            call.result.set_exception(error)
        except HistoryError as error:
            self._fail(error)
            call.result.set_exception(error)
        except Exception as error:  # a bug: the caller gets it, the thread goes on
            call.result.set_exception(error)
