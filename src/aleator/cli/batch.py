"""The options of `aleator recommend` that go with a table of users, and what it prints of a batch."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from aleator import words
from aleator.cli.options import show_json

USER = Annotated[str | None, typer.Option(help="Name of the column of users in a table.")]
UNKNOWN = Annotated[
    words.Unknown | None,
    typer.Option(help="Users of a table whom the model does not know: error, drop them, or what is popular."),
]
PER_PART = Annotated[
    int | None, typer.Option(help=f"Users of a table in each file of the output, {words.PER_PART:,} by default.")
]
FORMAT = Annotated[
    words.Format | None, typer.Option(help="Format of the output for a table: parquet (default) or csv.")
]


def show_batch(told: dict[str, Any], json: bool) -> None:
    """Print the summary of a batch."""
    if json:
        show_json(told)
        return
    notes = list(told["notes"])
    if told["unknown"]:
        popular = told["unknown"] - told["by_history"] - told["left_out"]
        fates = {"by their history": told["by_history"], "with popular items": popular, "left out": told["left_out"]}
        shown = ", ".join(f"{count:,} {fate}" for fate, count in fates.items() if count)
        notes.append(f"the model does not know {told['unknown']:,} users: {shown}")
    if told["short"]:
        notes.append(f"{told['short']:,} users have less than {told['k']} items")
    for note in notes:
        print(f"note: {note}")
    earlier = f" ({told['resumed']:,} of them from an earlier run)" if told["resumed"] else ""
    users, rows, parts = (f"{told[name]:,}" for name in ("users", "rows", "parts"))
    print(f"{told['out']}: {rows} rows for {users} users in {parts} parts{earlier}, {told['seconds']:.1f} s")
