"""LanceDB: a table in a folder, with the ids, columns and vectors. Without an index of its own it is scanned: exact."""

from __future__ import annotations

from pathlib import Path

from aleator.export.items import Items
from aleator.export.manifest import Index

LIBRARY = PACKAGE = "lancedb"


def write(folder: Path, items: Items) -> Index:
    """The table items in the folder lancedb."""
    import lancedb
    import pyarrow as pa

    vectors = pa.FixedSizeListArray.from_arrays(pa.array(items.vectors.ravel()), items.dim)
    table = pa.table({name: pa.array(column) for name, column in items.columns.items()} | {"vector": vectors})
    lancedb.connect(folder / "lancedb").create_table("items", table)
    client = (
        "open the table by lancedb.connect('lancedb').open_table('items')",
        "say distance_type('dot') in each search: LanceDB takes another distance by default",
    )
    return Index("none: the table is scanned, exact", client, lancedb.__version__)
