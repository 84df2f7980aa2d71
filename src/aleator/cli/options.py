"""Options that several commands have, and how commands print tables and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from aleator.engines.engine import EngineName
from aleator.progress import quiet
from aleator.words import RecipeName


def set_quiet(on: bool) -> bool:
    """Show no progress. Returns what it was given, as a callback of an option does."""
    quiet(on)
    return on


DATASET = Annotated[
    str, typer.Argument(help="A catalogue name, a file of interactions, or a folder made by `aleator data split`.")
]
DATA_ROOT = Annotated[
    Path | None, typer.Option(help="Folder with dataset archives or raw files.", envvar="ALEATOR_DATA")
]
JSON = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
QUIET = Annotated[bool, typer.Option("--quiet", help="Show no progress.", callback=set_quiet)]
SET = Annotated[
    list[str] | None,
    typer.Option("--set", help="Set an option, such as alpha=2, model.dim=256 or estimator.lr=0.001. Repeatable."),
]
CONFIG = Annotated[Path | None, typer.Option(help="TOML file of options, with tables named model and estimator.")]
RECIPE = Annotated[
    RecipeName,
    typer.Option(
        help="ours; test: our options, chosen on the test part; or paper: the options of the paper's program, which "
        "chooses on the test part."
    ),
]
ENGINE = Annotated[
    EngineName | None,
    typer.Option(help="What does the work: this process (default), or the workers of ray, on the CPU."),
]
WORKERS = Annotated[
    int | None, typer.Option(help="Workers of engine ray, which share its cores out. By default one for each core.")
]
TAIL = Annotated[str | None, typer.Option(help="Which items are tail items: mass:0.5, count:56 or items:0.85.")]


def engine_options(engine: EngineName | None, workers: int | None) -> dict[str, Any]:
    """What was said of the engine, as arguments of the Python call."""
    return {name: value for name, value in (("engine", engine), ("workers", workers)) if value is not None}


def device_of(device: str, engine: EngineName | None) -> str:
    """Where a model is loaded: auto is the CPU where the workers of Ray take it."""
    return "cpu" if engine == "ray" and device == "auto" else device


def show_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table with a header. Each column is as wide as its longest cell."""

    def text(value: Any) -> str:
        if isinstance(value, list):
            return ", ".join(map(text, value))
        if value != value:
            return "-"  # NaN: there is no such number
        return f"{value:.4f}" if isinstance(value, float) else str(value)

    lines = [list(columns), *([text(value) for value in row] for row in rows)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())


def show_json(value: Any) -> None:
    """Print one JSON document on standard output."""
    print(json.dumps(value, indent=1, default=str))
