"""The README's lists of commands and keys, made from the code. ``python -m tests.readme_tables`` writes them there."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import click
from textual.binding import Binding, BindingType
from textual.keys import format_key

README = Path(__file__).parent.parent / "README.md"


def commands_table() -> str:
    from console.cli import cli

    lines = ["| command | does |", "|---|---|"]
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        lines += [f"| `{usage}` | {words} |" for usage, words in _leaves(name, command)]
    return "\n".join(lines)


def _leaves(path: str, command: click.Command) -> Iterator[tuple[str, str]]:
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from _leaves(f"{path} {name}", child)
        return
    arguments = [
        param.make_metavar(click.Context(command)) for param in command.params if param.param_type_name == "argument"
    ]
    first = inspect.cleandoc(command.help or "").split("\n\n")[0].replace("\n", " ")
    yield " ".join([path, *arguments]), first.replace("|", "\\|")


def keys_table() -> str:
    from console import keys
    from console.dialogs.try_box import TryBox
    from console.widgets.adapter_table import AdapterTable
    from console.widgets.event_log import EventLog
    from console.widgets.page_map import PageMap

    sections: list[tuple[str, list[BindingType]]] = [
        ("everywhere", keys.EVERYWHERE),
        ("overview", keys.ADAPTERS),
        ("page map", PageMap.BINDINGS),
        ("adapters table", AdapterTable.BINDINGS),
        ("events", EventLog.BINDINGS),
        ("try box", TryBox.BINDINGS),
        ("stress", keys.STRESS),
        ("history", keys.HISTORY),
        ("engine", keys.ENGINE),
    ]
    lines = ["| where | key | does |", "|---|---|---|"]
    for where, bindings in sections:
        rows: dict[str, list[str]] = {}
        for binding in bindings:
            assert isinstance(binding, Binding)
            assert binding.tooltip, f"{binding.id}: a key without words"
            rows.setdefault(binding.tooltip, []).extend(_keys(binding))
        lines += [f"| {where} | {' '.join(f'`{key}`' for key in found)} | {words} |" for words, found in rows.items()]
    return "\n".join(lines)


def _keys(binding: Binding) -> list[str]:
    if binding.key_display:
        return [binding.key_display]
    return [_key(key.strip()) for key in binding.key.split(",")]


def _key(key: str) -> str:
    return key if "+" in key or key == "enter" else format_key(key)


TABLES = {"commands": commands_table, "keys": keys_table}


def with_tables(text: str) -> str:
    for name, make in TABLES.items():
        before, start, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- end of {name} -->")
        assert start and end, f"README has no place for {name}"  # noqa: PT018
        text = "".join((before, start, make(), "\n", end, after))
    return text


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text()))
