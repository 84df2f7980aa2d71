"""Columns to the kind of frame a person uses."""

from __future__ import annotations

import importlib.util
from typing import Any

from aleator.errors import need


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
