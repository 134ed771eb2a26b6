"""What README says must be what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from tests.readme_tables import README, with_tables

ROOT = README.parent


def test_every_command_and_key_is_documented() -> None:
    """After a change: python -m tests.readme_tables"""
    assert README.read_text() == with_tables(README.read_text())


def test_every_make_target_named_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z]+)", README.read_text(), re.MULTILINE)) <= targets


def test_every_relative_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", README.read_text()):
        assert (ROOT / target).exists(), target


def test_every_option_named_exists() -> None:
    import click

    from console.cli import cli

    known: set[str] = set()

    def visit(command: click.Command) -> None:
        for param in command.params:
            known.update(param.opts + param.secondary_opts)
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                child = command.get_command(context, name)
                assert child is not None
                visit(child)

    visit(cli)
    text = README.read_text()
    for block in re.findall(r"^\$? ?loraconsole .*$", text, re.MULTILINE):
        for option in re.findall(r"(?<!\S)--[a-z-]+", block):
            assert option in known | {"--help"}, f"{block}: {option}"


def test_python_files_are_small() -> None:
    """One idea a file."""
    for folder in ("engine", "stress", "store", "console"):
        for path in (ROOT / folder).rglob("*.py"):
            lines = len(Path(path).read_text().splitlines())
            assert lines <= 340, f"{path.relative_to(ROOT)}: {lines} lines"
