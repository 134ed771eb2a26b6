"""The command line. ``--help`` imports click alone: every command's module is loaded when it is called."""

from __future__ import annotations

import importlib
import os
import signal
import sys

import click

from console.output import Exit, say

# name -> (module, one line for --help)
COMMANDS: dict[str, tuple[str, str]] = {
    "launch": ("launch", "Start an engine and open the console over it."),
    "attach": ("attach", "Open the console over an engine that runs already."),
    "serve": ("serve", "Run an engine without a screen."),
    "status": ("status", "Show what an engine does now."),
    "adapters": ("adapters", "List, add, load, evict, pin, unpin, unload, check or make adapters."),
    "stress": ("stress", "List stress tests or run one."),
    "runs": ("runs", "List, show, export or delete recorded runs."),
    "paths": ("paths", "Show where the cache, the history and the logs are."),
}


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"console.commands.{COMMANDS[cmd_name][0]}")
        command = getattr(module, cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        from engine import __version__

        click.echo(f"loraconsole {__version__}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def cli() -> None:
    """Serve one base model with many LoRA adapters, and see where every page of memory went.

    Start with: loraconsole launch
    """


def main() -> None:
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """The exit code of a command line. Errors that a user can cause end here, as one line."""
    try:
        result = cli.main(arguments, prog_name="loraconsole", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output left; Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except Exception as error:
        code = _exit_code(error)
        if code is None:
            raise
        say(f"loraconsole: {error}")
        return code
    return int(result) if isinstance(result, int) else Exit.OK


def _exit_code(error: Exception) -> Exit | None:
    """None for what is a bug: it gets its traceback. Imports here, because most commands never fail."""
    from engine.client import EngineUnreachableError
    from engine.errors import ConfigError, EngineError
    from store.errors import HistoryError

    if isinstance(error, ConfigError | OSError) and not isinstance(error, EngineUnreachableError):
        return Exit.USAGE  # what the configuration or the file system does not allow
    if isinstance(error, HistoryError):
        return Exit.CHECK_FAILED
    if isinstance(error, EngineUnreachableError):
        return Exit.UNREACHABLE
    return Exit.CHECK_FAILED if isinstance(error, EngineError) else None
