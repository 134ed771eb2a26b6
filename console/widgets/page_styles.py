"""From a page's look to a terminal style, with the theme's colours."""

from __future__ import annotations

from rich.style import Style
from textual.color import Color
from textual.widget import Widget

from console.draw.page_strips import EMPTY
from console.draw.pages import LEVELS, hue_in, level_in, owner_of
from console.hues import HUES
from engine.messages import PageOwner

COMPONENTS = {f"page--{name}" for name in ("free", "kv", "copying", "reserved", "cursor")} | {
    f"page--hue-{i}" for i in range(HUES)
}
CSS = "\n".join(
    [f".page--{name} {{ color: ${name}; }}" for name in ("free", "kv", "copying", "reserved")]
    + [f".page--hue-{i} {{ color: $hue-{i}; }}" for i in range(HUES)]
    + [".page--cursor { color: $text; background: $foreground; text-style: bold; }"]
)
"""The rules a widget puts inside its own block of DEFAULT_CSS."""

_SHADE = tuple(0.45 + 0.55 * (level + 1) / LEVELS for level in range(LEVELS))
_DARK_TEXT, _LIGHT_TEXT = Color(10, 14, 21), Color(226, 234, 244)


class PageStyles:
    """Styles of (upper, lower) looks, computed once each. ``forget()`` after the theme changed."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._colours: dict[int, Color] = {}
        self._halves: dict[tuple[int, int], Style] = {}
        self._tiles: dict[int, Style] = {}

    def forget(self) -> None:
        self._colours.clear()
        self._halves.clear()
        self._tiles.clear()

    def half_cell(self, upper: int, lower: int) -> Style:
        found = self._halves.get((upper, lower))
        if found is None:
            found = Style(color=self._colour(upper).rich_color, bgcolor=self._colour(lower).rich_color)
            self._halves[upper, lower] = found
        return found

    def tile(self, code: int) -> Style:
        found = self._tiles.get(code)
        if found is None:
            found = self._tiles[code] = self._tile(code)
        return found

    def _tile(self, code: int) -> Style:
        colour = self._colour(code)
        if code == EMPTY:
            return Style(bgcolor=colour.rich_color)
        owner = owner_of(code)
        if owner == PageOwner.FREE:
            return Style(color=self._component("reserved").rich_color, bgcolor=colour.rich_color, dim=True)
        text = _DARK_TEXT if colour.brightness > 0.5 else _LIGHT_TEXT
        bold = owner in (PageOwner.PINNED, PageOwner.COPYING)
        text = text if bold else text.blend(colour, 0.35)
        return Style(color=text.rich_color, bgcolor=colour.rich_color, bold=bold)

    def _colour(self, code: int) -> Color:
        found = self._colours.get(code)
        if found is None:
            found = self._colours[code] = self._look_colour(code)
        return found

    def _look_colour(self, code: int) -> Color:
        ground = self._widget.background_colors[1]
        if code == EMPTY:
            return ground
        owner = owner_of(code)
        if owner in (PageOwner.FREE, PageOwner.COPYING, PageOwner.RESERVED):
            return self._component({0: "free", 3: "copying", 5: "reserved"}[owner])
        full = self._component("kv" if owner == PageOwner.KV else f"hue-{hue_in(code)}")
        return ground.blend(full, _SHADE[level_in(code)])

    def _component(self, name: str) -> Color:
        return self._widget.get_component_styles(f"page--{name}").color
