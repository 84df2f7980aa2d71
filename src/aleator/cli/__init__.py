"""The command line. Each command does what the Python call of that name does."""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated, Any, Protocol, runtime_checkable

import typer
from typer.core import TyperCommand

from aleator.cli import bench, data, demo, doctor, export, graft, reproduce, serve, tune, verbs
from aleator.errors import AleatorError
from aleator.signals import leaves
from aleator.version import __version__
from aleator_command import stopping


@runtime_checkable
class ParserError(Protocol):
    """A wrong option or argument, as the parser raises it.

    Older versions of typer raise click's exceptions, newer ones their own. Both have these attributes.
    """

    exit_code: int
    message: str

    def show(self) -> None:
        """Print the message on stderr."""


class Computes(TyperCommand):
    """A command that needs PyTorch, which is imported once the command is known to be right. So help comes quickly."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with stopping():
            import aleator.recommender  # noqa: F401
        return super().invoke(ctx)


def _print_version(wanted: bool) -> None:
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
for command in (
    demo.demo,
    verbs.fit,
    verbs.update,
    verbs.evaluate,
    verbs.recommend,
    verbs.similar,
    graft.graft,
    export.export,
    tune.tune,
    reproduce.reproduce,
    reproduce.report,
    serve.serve,
):
    app.command(cls=Computes)(command)
app.command(context_settings=bench.SETTINGS)(bench.bench)
app.command(cls=Computes)(doctor.doctor)


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Recommendation with aleatoric uncertainty."""


def main() -> None:
    """Run a command.

    The exit code is 0 if it went well, 2 after a mistake in the input, 130 after Ctrl-C and 143 after SIGTERM.
    """
    before = signal.signal(signal.SIGTERM, leaves)
    try:
        code = app(standalone_mode=False)
    except SystemExit as ended:  # by SIGTERM
        code = int(ended.code or 0)
    except AleatorError as error:
        print(f"error: {error}", file=sys.stderr)
        code = 2
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except BrokenPipeError:  # a reader such as head has closed the pipe; at exit Python would write to it once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        if not isinstance(error, ParserError):
            raise
        error.message = error.message.replace("Value error, ", "")  # pydantic's, which says nothing
        error.show()
        code = error.exit_code
    finally:
        signal.signal(signal.SIGTERM, before)
    if code in (130, 143):  # also where the parser itself turned Ctrl-C into this code
        print("interrupted; unfinished results were not written", file=sys.stderr)
    sys.exit(code or 0)
