"""The options of `aleator.read` in the shell, the same for every command that reads a file of interactions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from aleator.words import Missing

OPTIONS: dict[str, Any] = {
    "user": Annotated[str | None, typer.Option(help="Name of the column of users.")],
    "item": Annotated[str | None, typer.Option(help="Name of the column of items.")],
    "time": Annotated[str | None, typer.Option(help="Name of the column of times.")],
    "rating": Annotated[str | None, typer.Option(help="Name of the column of ratings, for --min-rating.")],
    "weight": Annotated[str | None, typer.Option(help="Name of the column of weights.")],
    "titles": Annotated[Path | None, typer.Option(help="File with a column of items and a column of titles.")],
    "attributes": Annotated[
        Path | None, typer.Option(help="File with a column of items and columns of attributes, for --where.")
    ],
    "min_rating": Annotated[float | None, typer.Option(help="Keep only pairs with at least this rating (files only).")],
    "k_core": Annotated[int | None, typer.Option(help="Keep users and items with at least this many interactions.")],
    "sep": Annotated[str | None, typer.Option(help="Separator of the columns, such as ';' or tab. Found by default.")],
    "encoding": Annotated[str | None, typer.Option(help="Encoding of the text files, such as latin-1.")],
    "decimal": Annotated[str | None, typer.Option(help="Decimal mark of numbers: '.' or ','.")],
    "dates": Annotated[
        list[str] | None,
        typer.Option(help="Format of the times, such as '%d.%m.%Y' or '%m/%d/%Y %H:%M'. Repeatable."),
    ],
    "max_bytes": Annotated[int | None, typer.Option(help="Most bytes of memory that a compressed file may expand to.")],
    "on_disk": Annotated[
        Path | None,
        typer.Option(
            help="Folder to keep the pairs in, where parquet files are larger than memory. Found again later."
        ),
    ],
    "missing": Annotated[Missing | None, typer.Option(help="Rows with missing values: error, or drop them.")],
}


def reads(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `aleator.read`. It gets those that were given as the dict `reading`."""

    @functools.wraps(command)
    def run(**options: Any) -> None:
        given = {name: options.pop(name) for name in OPTIONS}
        command(**options, reading={name: value for name, value in given.items() if value is not None and value != []})

    own = list(inspect.signature(command, eval_str=True).parameters.values())
    kind = inspect.Parameter.KEYWORD_ONLY
    added = [inspect.Parameter(name, kind, default=None, annotation=type_) for name, type_ in OPTIONS.items()]
    kept = [parameter.replace(kind=kind) for parameter in own if parameter.name != "reading"]
    signature = inspect.Signature([*kept, *added])
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in signature.parameters.values()}
    del run.__wrapped__
    return run
