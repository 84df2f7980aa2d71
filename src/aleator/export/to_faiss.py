"""faiss: a flat index by the inner product. It compares every item, so its lists are exact."""

from __future__ import annotations

from pathlib import Path

from aleator.export.items import Items
from aleator.export.manifest import Index
from aleator.export.to_parquet import write_beside

LIBRARY, PACKAGE = "faiss", "faiss-cpu"


def write(folder: Path, items: Items) -> Index:
    """items.faiss, and items.parquet with the ids of its rows."""
    import faiss

    index = faiss.IndexFlatIP(items.dim)
    index.add(items.vectors)
    faiss.write_index(index, str(folder / "items.faiss"))
    client = "read items.faiss by faiss.read_index", write_beside(folder, items)
    return Index("IndexFlatIP, exact", client, faiss.__version__)
