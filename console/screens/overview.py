"""Overview: where every page went, which adapters are where, what swaps cost, how fast tokens come."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from textual import on, work
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widget import Widget

from console.adapter_actions import act, evict_asks, evict_consequence
from console.dialogs.add_adapter import AddAdapterDialog
from console.dialogs.confirm import ConfirmDialog
from console.dialogs.try_box import TryBox
from console.draw.pool_lines import legend_row, page_words, pool_rows
from console.draw.spark_lines import spark_rows
from console.draw.summaries import adapters_title, map_title, span_words, swap_words, swaps_title, token_words
from console.format import short_count
from console.keys import ADAPTERS
from console.screens.base import ConsoleScreen
from console.widgets.adapter_table import AdapterTable
from console.widgets.chart import Chart
from console.widgets.event_log import EventLog
from console.widgets.lines import Lines
from console.widgets.page_map import PageMap
from engine.messages import AdapterAction, AdapterRow, PageState


class OverviewScreen(ConsoleScreen):
    WORD = "Overview"
    CSS_PATH = "overview.tcss"
    BINDINGS: ClassVar[list[BindingType]] = ADAPTERS
    AUTO_FOCUS = "#adapters"

    def body(self) -> Iterable[Widget]:
        ascii_only = self.session.options.ascii
        with Horizontal(id="memory"):
            with Vertical(id="map-panel", classes="panel"):
                yield PageMap(letters=self.session.letters, id="map")
                yield Lines(id="legend")
            with Vertical(id="pool-panel", classes="panel"):
                yield Lines(id="pool")
        with Vertical(id="adapters-panel", classes="panel"):
            yield AdapterTable(ascii_only, id="adapters")
        with Horizontal(id="charts"):
            with Vertical(id="swaps-panel", classes="panel"):
                yield Chart(_axis_ms, ascii_only, id="swaps")
            with Vertical(id="tokens-panel", classes="panel"):
                yield Chart(short_count, ascii_only, id="tokens")
        yield Lines(id="sparks")
        with Vertical(id="events-panel", classes="panel"):
            yield EventLog(id="events")

    def draw_map(self) -> None:
        self.query_one(PageMap).show(self.session.state.pages)

    def draw_charts(self) -> None:
        state = self.session.state
        if not self.tall:
            sparks = self.query_one("#sparks", Lines)
            sparks.show(spark_rows(state, sparks.size.width, self.session.options.ascii))
        else:
            swaps, tokens = self.query_one("#swaps", Chart), self.query_one("#tokens", Chart)
            swaps.show(state.rates.swap_columns(swaps.columns))
            tokens.show(state.rates.token_columns(tokens.columns))
            self._title("#swaps-panel", swaps_title(state), swap_words(state.rates))
            span = span_words(state.rates, tokens.columns)
            self._title("#tokens-panel", f"Throughput, decode and prefill, {span}", token_words(state.rates))
        self.query_one(EventLog).show(state)

    def draw_tables(self) -> None:
        state = self.session.state
        page_map = self.query_one(PageMap)
        self.query_one(AdapterTable).show(state.adapters.values(), state.info, state.t_ns)
        pool = self.query_one("#pool", Lines)
        pool.show(pool_rows(state, max(pool.size.width, 20), self.session.options.ascii))
        self.query_one("#legend", Lines).show([legend_row(state)])
        self._title("#map-panel", map_title(state, page_map.grid), self._page_words(page_map.page_at_cursor))
        self._title("#adapters-panel", adapters_title(state))
        self._title("#events-panel", "Events, newest first")
        self.refresh_bindings()

    def _page_words(self, page: PageState | None) -> str:
        return page_words(self.session.state, page.page) if page is not None else ""

    def _title(self, panel: str, title: str, subtitle: str = "") -> None:
        widget = self.query_one(panel)
        widget.border_title, widget.border_subtitle = title, subtitle

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("try_adapter", "load", "pin", "evict", "add"):
            usable = self.session.live and (action == "add" or self._target() is not None)
            return True if usable else None
        return True

    @on(PageMap.Moved)
    def _page_under_cursor(self, moved: PageMap.Moved) -> None:
        self.query_one("#map-panel").border_subtitle = self._page_words(moved.page)

    @on(PageMap.Selected)
    def _adapter_of_page(self, selected: PageMap.Selected) -> None:
        table = self.query_one(AdapterTable)
        table.select(selected.serial)
        table.focus()

    def _target(self) -> AdapterRow | None:
        """The adapter the keys act on: under the map's cursor where the map has the focus, else the table's."""
        adapters, page_map = self.session.state.adapters, self.query_one(PageMap)
        if page_map.has_focus and page_map.page_at_cursor is not None:
            return adapters.get(page_map.page_at_cursor.adapter)
        selected = self.query_one(AdapterTable).selected
        # The table is drawn twice a second; what a key does must follow from what is true now.
        return None if selected is None else adapters.get(selected.serial)

    def action_try_adapter(self) -> None:
        row = self._target()
        if row is not None:
            self.app.push_screen(TryBox(self.session, row.name))

    def action_load(self) -> None:
        self._run("load")

    def action_pin(self) -> None:
        row = self._target()
        if row is not None:
            self._run("unpin" if row.pinned else "pin")

    @work(group="adapter")
    async def action_evict(self) -> None:
        row = self._target()
        if row is None:
            return
        state = self.session.state
        if evict_asks(row):
            question = partial(lambda serial: evict_consequence(state.adapters.get(serial), state.info), row.serial)
            if not await self.app.push_screen_wait(ConfirmDialog(f"Evict {row.name}?", question, "Evict")):
                return
        await self._tell("evict", row.name)

    @work(group="adapter")
    async def action_add(self) -> None:
        request = await self.app.push_screen_wait(AddAdapterDialog(self.session.client))
        if request:
            self.notify(f"{request} is registered", title="add")

    @work(group="adapter")
    async def _run(self, action: AdapterAction) -> None:
        row = self._target()
        if row is not None:
            await self._tell(action, row.name)

    async def _tell(self, action: AdapterAction, name: str) -> None:
        outcome = await act(self.session.client, action, name)
        self.notify(outcome.text, severity="information" if outcome.ok else "error")


def _axis_ms(value: float) -> str:
    return f"{short_count(value)} ms"
