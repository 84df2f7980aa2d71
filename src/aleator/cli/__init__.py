"""The command line: the same verbs as in Python, and nothing more."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from aleator.cli import bench, data, demo, doctor, reproduce, tune, verbs
from aleator.errors import AleatorError
from aleator.version import __version__


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


app = typer.Typer(
    name="aleator",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(data.app, name="data")
app.command()(demo.demo)
app.command()(verbs.fit)
app.command()(verbs.evaluate)
app.command()(verbs.recommend)
app.command()(tune.tune)
app.command()(reproduce.reproduce)
app.command()(reproduce.report)
app.command(context_settings=bench.SETTINGS)(bench.bench)
app.command()(doctor.doctor)


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Recommendation with aleatoric uncertainty."""


def main() -> None:
    """Run a command: 0 when it went well, 2 for a mistake in the input, 130 for Ctrl-C."""
    try:
        code = app(standalone_mode=False)
    except AleatorError as error:
        print(f"error: {error}", file=sys.stderr)
        code = 2
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except BrokenPipeError:  # the reader, such as head, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        if not hasattr(error, "show") or not hasattr(error, "exit_code"):
            raise
        error.show()  # a wrong option or argument, told by the parser
        code = error.exit_code
    if code == 130:  # the parser turns Ctrl-C into this code by itself
        print("interrupted; what was not finished was not written", file=sys.stderr)
    sys.exit(code or 0)
