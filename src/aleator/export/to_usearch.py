"""usearch: a graph of neighbours (HNSW) by the inner product. Lists are approximate, unless exact=True is asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from aleator.export.items import Items
from aleator.export.manifest import Index
from aleator.export.to_parquet import write_beside

LIBRARY = PACKAGE = "usearch"
# Links of an item in the graph, and candidates that are looked at to find them; `aleator bench index` measures the recall
_LINKS, _EFFORT = 48, 256


def write(folder: Path, items: Items) -> Index:
    """items.usearch, and items.parquet with the ids of its keys."""
    import usearch
    from usearch.index import Index as Graph

    graph = Graph(
        ndim=items.dim,
        metric="ip",
        dtype="f32",
        connectivity=_LINKS,
        expansion_add=_EFFORT,
        expansion_search=_EFFORT,
    )
    graph.add(np.arange(len(items)), items.vectors)
    graph.save(str(folder / "items.usearch"))
    client = "read items.usearch by usearch.index.Index.restore", write_beside(folder, items)
    return Index("HNSW, approximate; exact with search(exact=True)", client, usearch.__version__)
