"""Columns to the kind of frame a person uses."""

from __future__ import annotations

import importlib.util
from typing import Any

from aleator.errors import need, require


def to_frame(columns: dict[str, Any], kind: str | None) -> Any:
    """A frame of the given kind; polars where none was named, or pandas where polars is not installed."""
    if kind is None:
        kind = "polars" if importlib.util.find_spec("polars") else "pandas"
    if kind == "pandas":
        need("pandas", "a pandas frame")
        import pandas as pd

        return pd.DataFrame(columns)
    if kind == "pyarrow":
        need("pyarrow", "an arrow table")
        import pyarrow as pa

        return pa.table(columns)
    import polars as pl

    return pl.DataFrame(columns)


def opened(table: Any, *columns: str) -> Any:
    """A frame of any kind as narwhals shows it; it must have these columns."""
    need("narwhals", "a table")
    import narwhals as nw

    frame = nw.from_native(table, eager_only=True, pass_through=True)
    kind = type(table).__name__
    require(isinstance(frame, nw.DataFrame), f"a {kind} is no table", "give a frame of pandas, polars or pyarrow")
    for name in columns:
        require(name in frame.columns, f"the table has no column '{name}'", f"it has {', '.join(frame.columns)}")
    return frame


def with_columns(frame: Any, rows: Any, columns: dict[str, Any]) -> Any:
    """These rows of what `opened` gave, with more columns behind the ids; one of a name it has is kept as given_NAME."""
    import narwhals as nw

    given = {name: f"given_{name}" for name in frame.columns if name in columns}
    kept = nw.maybe_reset_index(frame.drop(list(given.values()), strict=False)[rows].rename(given))
    made = [nw.new_series(name, v.tolist(), backend=frame.implementation) for name, v in columns.items()]
    ids = [name for name in kept.columns if name in ("user_id", "item_id")]
    rest = [name for name in kept.columns if name not in ids]
    return kept.with_columns(*made).select(*ids, *columns, *rest).to_native()
