"""Parquet: a file of the items, and a folder of the users. Spark, pandas, polars and most databases read them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from aleator.data.arrays import Array
from aleator.export.items import Items, Part
from aleator.export.manifest import Index

LIBRARY = PACKAGE = "polars"


def write(folder: Path, items: Items) -> Index:
    """items.parquet: a row for each item, with its vector."""
    write_table(folder / "items.parquet", items.columns, items.vectors)
    return Index("none: vectors alone", ("items.parquet has the items, with their vectors in the column vector",))


def write_beside(folder: Path, items: Items) -> str:
    """items.parquet without vectors, for an index that takes integers alone. Returns what a client does with it."""
    write_table(folder / "items.parquet", items.columns)
    return "the index returns row numbers of items.parquet, from 0: its column item_id has your ids"


def write_users(folder: Path, parts: Iterable[Part], n: int) -> str:
    """A file in users/ for each part. Returns what a client does with them."""
    (folder / "users").mkdir()
    for number, part in enumerate(parts):
        write_table(folder / "users" / f"part-{number:05}.parquet", {"user_id": part.ids}, part.vectors)
    return "the files in users/ have the columns user_id and vector"


def write_table(file: Path, columns: dict[str, Array], vectors: Any = None) -> None:
    """Write columns [n], and a column vector [n, dim]."""
    import polars as pl

    frame = pl.DataFrame(columns)
    if vectors is not None:
        frame = frame.with_columns(pl.Series("vector", vectors, pl.Array(pl.Float32, vectors.shape[1])))
    frame.write_parquet(file)
