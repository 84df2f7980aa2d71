"""Frames in and out: columns become the kind of frame that the user has, and any kind of frame can be read."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

from aleator.errors import need, require


def to_frame(columns: dict[str, Any], kind: str | None) -> Any:
    """A frame of the given columns.

    Args:
        columns: Values [n] by name: lists or arrays. Texts are arrays of Python strings.
        kind: "pandas", "polars" or "pyarrow". None means polars, or pandas where polars is not installed.
    """
    # every library finds the type of a list, and faster than that of an array of objects
    columns = {name: values.tolist() if _holds_objects(values) else values for name, values in columns.items()}
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


def _holds_objects(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.dtype.kind == "O"


def opened(table: Any, *columns: str) -> Any:
    """A pandas, polars or arrow frame as a narwhals frame. It must have the named columns."""
    need("narwhals", "a table")
    import narwhals as nw

    frame = nw.from_native(table, eager_only=True, pass_through=True)
    kind = type(table).__name__
    require(isinstance(frame, nw.DataFrame), f"a {kind} is no table", "give a frame of pandas, polars or pyarrow")
    for name in columns:
        require(name in frame.columns, f"the table has no column '{name}'", f"it has {', '.join(frame.columns)}")
    return frame


def with_columns(frame: Any, rows: Any, columns: dict[str, Any]) -> Any:
    """Some rows of a frame with more columns, in the kind of frame that was given.

    The id columns (user_id and item_id) come first, then the new columns, then the rest. A column of the frame that has
    the name of a new one is kept as given_NAME.

    Args:
        frame: What `opened` returned.
        rows: Row numbers, [n].
        columns: New columns by name, arrays [n].
    """
    import narwhals as nw

    given_names = {name: f"given_{name}" for name in frame.columns if name in columns}
    older = list(given_names.values())  # columns of that name from an earlier call make way
    kept = nw.maybe_reset_index(frame.drop(older, strict=False)[rows].rename(given_names))
    added = [nw.new_series(name, values.tolist(), backend=frame.implementation) for name, values in columns.items()]
    ids = [name for name in kept.columns if name in ("user_id", "item_id")]
    rest = [name for name in kept.columns if name not in ids]
    return kept.with_columns(*added).select(*ids, *columns, *rest).to_native()
