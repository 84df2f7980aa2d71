"""aleator serve."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from aleator.cli.options import DATA_ROOT
from aleator.cli.reading import reads
from aleator.cli.verbs import MODEL_FOLDER
from aleator.errors import AleatorError

VARIABLE = "ALEATOR_TOKENS"
_OF_DATA = "A catalogue name, or a folder made by `aleator data split`, to mark what users took later, and to evaluate."
_OF_TOKENS = f"A file with a token on each line. Without one, the variable {VARIABLE} is read."


@reads
def serve(
    folder: MODEL_FOLDER,
    host: Annotated[
        str, typer.Option(help="Address to listen at. Others than this machine's are open to the network.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen at; 0 takes a free one.")] = 8000,
    workers: Annotated[int, typer.Option(help="Processes that answer: as many as there are cores.")] = 1,
    data: Annotated[str | None, typer.Option(help=_OF_DATA)] = None,
    data_root: DATA_ROOT = None,
    token_file: Annotated[Path | None, typer.Option(help=_OF_TOKENS)] = None,
    max_k: Annotated[int, typer.Option(help="Most items of a list.")] = 500,
    max_batch: Annotated[int, typer.Option(help="Most users of a request.")] = 256,
    max_history: Annotated[int, typer.Option(help="Most items of the history of a newcomer.")] = 5000,
    max_body: Annotated[int, typer.Option(help="Most bytes of a request.")] = 1 << 20,
    waiting: Annotated[int, typer.Option(help="Most requests that wait in each worker; more get 429.")] = 512,
    timeout: Annotated[float, typer.Option(help="Seconds until an answer is there, or 429.")] = 15.0,
    patience: Annotated[float, typer.Option(help="Seconds that a client has to send a request.")] = 10.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log no single request.")] = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Serve a saved model over HTTP, with a page to explore it. A new model in the folder is taken up by itself."""
    from aleator.data.opening import open_split
    from aleator.serving.serve import LOOPBACK
    from aleator.serving.serve import serve as run_serve
    from aleator.serving.settings import Settings

    settings = Settings(
        tokens=_tokens(token_file),
        k=max_k,
        batch=max_batch,
        history=max_history,
        body_bytes=max_body,
        waiting=waiting,
        seconds=timeout,
        patience=patience,
        log_requests=not quiet,
    )
    if host not in LOOPBACK and not settings.tokens:
        print(f"warning: {host} can be reached by others, and no token is asked for; set {VARIABLE}", file=sys.stderr)
    split = None if data is None else open_split(data, data_root, **reading)
    run_serve(
        folder,
        settings,
        host=host,
        port=port,
        workers=workers,
        split=split,
        told=lambda address: print(address, flush=True),
    )


def _tokens(file: Path | None) -> tuple[str, ...]:
    """The tokens of a file, or those of the environment, separated by white space."""
    if file is None:
        return tuple(os.environ.get(VARIABLE, "").split())
    try:
        found = tuple(file.read_text(encoding="utf-8").split())
    except (OSError, ValueError) as error:
        raise AleatorError(f"the tokens cannot be read from '{file}' ({error})", "check the path") from None
    if not found:
        raise AleatorError(f"'{file}' has no token", "write one on each line")
    return found
