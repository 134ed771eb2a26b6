"""Our own dark theme, and the colours of pages and adapters that every theme gets."""

from __future__ import annotations

from textual.theme import Theme

from console.hues import HUES

_HUES = ("#ff9e64", "#73daca", "#f06fb5", "#e6c85c", "#a78bfa", "#6fc3f7", "#f26d78", "#a5d65c")
assert len(_HUES) == HUES

LORACONSOLE = Theme(
    name="loraconsole",
    primary="#52d6bd",
    secondary="#7aa2f7",
    accent="#f5b85c",
    warning="#f2b84b",
    error="#f7596b",
    success="#7fd88f",
    foreground="#c8d3e0",
    background="#0a0e15",
    surface="#0e141e",
    panel="#172130",
    dark=True,
    variables={
        "border": "#52d6bd",
        "border-blurred": "#263449",
        "block-cursor-background": "#1f3346",
        "block-cursor-foreground": "#f2f7ff",
        "block-cursor-text-style": "bold",
        "footer-background": "#121a26",
        "footer-key-foreground": "#52d6bd",
        "footer-description-foreground": "#8fa1b8",
        "input-selection-background": "#52d6bd 35%",
        "scrollbar": "#263449",
        "scrollbar-background": "#0e141e",
        "scrollbar-corner-color": "#0e141e",
    },
)


def page_colours(dark: bool) -> dict[str, str]:
    """Theme variables of the map: ``$kv``, ``$free``, ``$copying``, ``$reserved``, ``$hue-0`` to ``$hue-7``."""
    colours = {
        "kv": "#3d7dca",
        "free": "#1b2534" if dark else "#c3cad4",
        "copying": "#fff6cc" if dark else "#20242b",
        "reserved": "#59657a",
        "dim": "#6b7c93" if dark else "#5b6676",
        "frame": "#263449" if dark else "#9aa5b5",
    }
    return colours | {f"hue-{i}": hue for i, hue in enumerate(_HUES)}
