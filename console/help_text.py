"""The help, made from the bindings that hold right now: it can't say anything the keys do not do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from textual.app import App
from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widget import Widget

from console.draw.parts import Part


@dataclass(frozen=True, slots=True)
class HelpLine:
    """Keys that do one thing, as the operator presses them, and what they do."""

    keys: str
    words: str


@dataclass(frozen=True, slots=True)
class HelpSection:
    title: str
    lines: tuple[HelpLine, ...]


def help_sections(app: App[Any], screen: Screen[Any]) -> list[HelpSection]:
    """The focused panel first, then the screen, the other panels, and what works everywhere."""
    focused = screen.focused
    panels = [widget for widget in screen.query("*") if isinstance(widget, Widget) and widget.can_focus]
    nodes: list[tuple[str, DOMNode]] = []
    if focused is not None:
        nodes.append((_panel_title(focused), focused))
    nodes.append((_screen_title(screen), screen))
    seen = {type(focused)}
    for panel in panels:
        if type(panel) not in seen and panel.display:
            seen.add(type(panel))
            nodes.append((_panel_title(panel), panel))
    sections = [HelpSection(title, _lines(app, own_bindings(type(node)))) for title, node in nodes]
    sections.append(HelpSection("Everywhere", _lines(app, own_bindings(type(app)))))
    return [section for section in sections if section.lines]


def own_bindings(kind: type) -> list[Binding]:
    """The bindings of a class that have an id: ours. Textual's own, without an id, are left out."""
    found: dict[str, Binding] = {}
    for base in reversed(kind.__mro__):
        for binding in base.__dict__.get("BINDINGS", ()):
            if isinstance(binding, Binding) and binding.id is not None:
                found[binding.id] = binding
    return list(found.values())


def _lines(app: App[Any], bindings: Iterable[Binding]) -> tuple[HelpLine, ...]:
    keys: dict[str, list[str]] = {}
    words: dict[str, str] = {}
    for binding in bindings:
        shown = [app.get_key_display(one) for one in Binding.make_bindings([binding])]
        keys.setdefault(binding.tooltip, []).extend(shown)
        words[binding.tooltip] = binding.description
    return tuple(HelpLine(" ".join(dict.fromkeys(pressed)), tooltip) for tooltip, pressed in keys.items())


def _panel_title(widget: Widget) -> str:
    return {"PageMap": "Page map", "AdapterTable": "Adapters table", "EventLog": "Events"}.get(
        type(widget).__name__, "This list"
    )


def _screen_title(screen: Screen[Any]) -> str:
    return f"{getattr(screen, 'WORD', '') or type(screen).__name__} screen"


LEGEND: tuple[tuple[Part, ...], ...] = (
    (
        ("k", "bold $kv"),
        (" KV cache   ", "$foreground"),
        ("a-z", "bold $hue-0"),
        (" an adapter, evictable   ", "$foreground"),
        ("A-Z", "bold $hue-0"),
        (" pinned", "$foreground"),
    ),
    (
        (">", "bold $copying"),
        (" being copied in   ", "$foreground"),
        (".", "$dim"),
        (" free   ", "$foreground"),
        ("#", "$reserved"),
        (" reserved", "$foreground"),
    ),
    (("The darker a page, the emptier. NO_COLOR and --ascii show letters instead of colours.", "$dim"),),
)


def help_rows(sections: Sequence[HelpSection], key_width: int = 16) -> list[list[Part]]:
    rows: list[list[Part]] = []
    for section in sections:
        rows.append([(section.title, "bold $primary")])
        rows += [
            [(f"  {line.keys:<{key_width}} ", "bold $accent"), (line.words, "$foreground")] for line in section.lines
        ]
        rows.append([])
    rows.append([("Legend of the page map", "bold $primary")])
    rows += [[("  ", "$foreground"), *parts] for parts in LEGEND]
    return rows
