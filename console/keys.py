"""Every key of the screens: one meaning a key, each with an id (to rebind it), a word and a tooltip (for the help)."""

from __future__ import annotations

from textual.binding import Binding, BindingType

_SCREENS = Binding.Group("Screens", compact=True)


def _hidden(key: str, action: str, word: str, id: str, tooltip: str, priority: bool = False) -> Binding:
    return Binding(key, action, word, show=False, id=id, tooltip=tooltip, priority=priority)


EVERYWHERE: list[BindingType] = [
    Binding("1", "go('overview')", "Overview", id="go.overview", tooltip="Where every page went", group=_SCREENS),
    Binding("2", "go('stress')", "Stress", id="go.stress", tooltip="Stress tests", group=_SCREENS),
    Binding("3", "go('history')", "History", id="go.history", tooltip="Runs on record", group=_SCREENS),
    Binding("4", "go('engine')", "Engine", id="go.engine", tooltip="Start phases, settings, log", group=_SCREENS),
    Binding(
        "question_mark",
        "help",
        "Help",
        id="help",
        tooltip="All keys of this screen, focused panel first",
        key_display="?",
    ),
    _hidden("f1", "help", "Help", "help.f1", "All keys of this screen, focused panel first"),
    _hidden("colon", "command_palette", "Palette", "palette.colon", "Every command by name"),
    _hidden("ctrl+p", "command_palette", "Palette", "palette", "Every command by name", priority=True),
    _hidden("tab", "app.focus_next", "Next panel", "panel.next", "Go to the next panel"),
    _hidden("shift+tab", "app.focus_previous", "Previous panel", "panel.previous", "Go to the previous panel"),
    _hidden("plus", "frame_rate(1)", "Faster", "frames.more", "More frames a second: 1, 2, 4, 10, 30"),
    _hidden("minus", "frame_rate(-1)", "Slower", "frames.less", "Fewer frames a second"),
    _hidden("s", "start_engine", "Start", "engine.start", "Start the engine, when it is stopped"),
    _hidden("S", "stop_engine", "Stop", "engine.stop", "Stop the engine (asks)"),
    _hidden("R", "restart_engine", "Restart", "engine.restart", "Restart the engine with the same settings (asks)"),
    Binding("q", "request_quit", "Quit", id="quit", tooltip="Quit; asks when an engine of ours or a stress runs"),
    _hidden("ctrl+q", "request_quit", "Quit", "quit.ctrl", "Quit, also from a text field", priority=True),
]

ADAPTERS: list[BindingType] = [
    Binding("t", "try_adapter", "Try", id="adapter.try", tooltip="Send a prompt to the selected adapter"),
    Binding("l", "load", "Load", id="adapter.load", tooltip="Bring the adapter into the pool now"),
    Binding("p", "pin", "Pin", id="adapter.pin", tooltip="Pin or unpin: a pinned adapter is never evicted"),
    Binding("x", "evict", "Evict", id="adapter.evict", tooltip="Pool to host memory (asks if busy or pinned)"),
    Binding("a", "add", "Add", id="adapter.add", tooltip="Register an adapter folder"),
]

STRESS: list[BindingType] = [
    Binding("enter", "run", "Run", id="stress.run", tooltip="Run the selected preset"),
    Binding(
        "x", "stop_run", "Stop the run", id="stress.stop", tooltip="Stop; what was measured is kept, marked partial"
    ),
    Binding("i", "edit", "Edit", id="stress.edit", tooltip="Change the selected test's numbers for the next run"),
    Binding("o", "open_run", "Open its run", id="stress.open", tooltip="Show the last run in the history"),
]

HISTORY: list[BindingType] = [
    Binding("enter", "open", "Open", id="history.open", tooltip="Show the selected run"),
    Binding("d", "delete", "Delete", id="history.delete", tooltip="Delete the selected run (asks)"),
    Binding("e", "export", "Export", id="history.export", tooltip="Write the selected run to CSV, JSON or JSON Lines"),
]

ENGINE: list[BindingType] = [
    Binding("s", "app.start_engine", "Start", id="engine.start.shown", tooltip="Start the engine, when it is stopped"),
    Binding("S", "app.stop_engine", "Stop", id="engine.stop.shown", tooltip="Stop the engine (asks)"),
    Binding("R", "app.restart_engine", "Restart", id="engine.restart.shown", tooltip="Restart the engine (asks)"),
]
