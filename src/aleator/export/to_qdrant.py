"""Qdrant: a collection of its local mode, in a folder. It compares every item, so its lists are exact."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from aleator.export.items import Items
from aleator.export.manifest import Index

LIBRARY, PACKAGE = "qdrant_client", "qdrant-client"


def write(folder: Path, items: Items) -> Index:
    """The collection items in the folder qdrant. An item is a point, and its columns are the payload."""
    from qdrant_client import QdrantClient, models

    client = QdrantClient(path=str(folder / "qdrant"))
    params = models.VectorParams(size=items.dim, distance=models.Distance.DOT)
    client.create_collection("items", vectors_config=params)
    _without_waiting(client)
    client.upload_collection("items", items.vectors, payload=_payload(items), ids=range(len(items)))
    client.close()
    told = (
        "open the collection 'items' by QdrantClient(path='qdrant'); client.migrate(server) copies it to a server",
        "your id of a point is item_id in its payload",
    )
    return Index("none: the local mode compares every item, exact", told, metadata.version(PACKAGE))


def _payload(items: Items) -> Iterator[dict[str, Any]]:
    """The columns of each item, in types of Python."""
    names = list(items.columns)
    for values in zip(*(column.tolist() for column in items.columns.values()), strict=True):
        yield dict(zip(names, values, strict=True))


def _without_waiting(client: Any) -> None:
    """Do not wait for the disk after each point.

    The local mode commits each point by itself, which takes some milliseconds. The folder counts only when it is
    complete, so that is not needed. The client has no public option for it.
    """
    with suppress(AttributeError, KeyError):
        client._client.collections["items"].storage.storage.execute("PRAGMA synchronous=OFF")
