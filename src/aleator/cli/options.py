"""What commands share: options with their help, and JSON on standard output."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from aleator.progress import quiet as set_quiet
from aleator.recipe import RecipeName

DATASET = Annotated[
    str, typer.Argument(help="A catalogue name, a file of interactions, or a folder made by `aleator data split`.")
]
DATA_ROOT = Annotated[
    Path | None, typer.Option(help="Folder with dataset archives or raw files.", envvar="ALEATOR_DATA")
]
JSON = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
QUIET = Annotated[bool, typer.Option("--quiet", help="Show no progress.", callback=lambda on: set_quiet(on) or on)]
SET = Annotated[
    list[str] | None,
    typer.Option("--set", help="An option, such as alpha=2, model.dim=256 or estimator.lr=0.001. Repeatable."),
]
CONFIG = Annotated[Path | None, typer.Option(help="A TOML file of options, with tables named model and estimator.")]
MIN_RATING = Annotated[float | None, typer.Option(help="Keep ratings of at least this (files only).")]
RECIPE = Annotated[
    RecipeName, typer.Option(help="ours, or paper: the released program's protocol, chosen on the test part.")
]
TAIL = Annotated[str | None, typer.Option(help="What is tail: mass:0.5, count:56 or items:0.85.")]


def show_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Columns as wide as what stands in them."""
    shown = [[f"{v:.4f}" if isinstance(v, float) else str(v) for v in row] for row in rows]
    widths = [max(len(c), *(len(r[i]) for r in shown)) if shown else len(c) for i, c in enumerate(columns)]
    for row in [columns, *shown]:
        print("  ".join(f"{value:<{width}}" for value, width in zip(row, widths, strict=True)).rstrip())


def show_json(value: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(value, indent=1, default=str))
