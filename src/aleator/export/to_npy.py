"""npy: a file of numpy for each column. They load without pickle, and can be mapped into memory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from aleator.export.items import Items, Part
from aleator.export.manifest import Index

LIBRARY = PACKAGE = "numpy"


def write(folder: Path, items: Items) -> Index:
    """items/vector.npy [n, dim], and items/NAME.npy [n] for each column."""
    (folder / "items").mkdir()
    for name, column in {**items.columns, "vector": items.vectors}.items():
        np.save(folder / "items" / f"{name}.npy", column, allow_pickle=False)
    return Index(
        "none: vectors alone", ("items/vector.npy has the vectors, and the other files in items/ the columns",)
    )


def write_users(folder: Path, parts: Iterable[Part], n: int) -> str:
    """users/vector.npy [n, dim] and users/user_id.npy [n]. Returns what a client does with them."""
    (folder / "users").mkdir()
    ids, first, file = [], 0, None
    for part in parts:
        if file is None:
            shape = n, part.vectors.shape[1]
            file = np.lib.format.open_memmap(folder / "users" / "vector.npy", "w+", np.float32, shape)
        file[first : first + len(part.ids)] = part.vectors
        first += len(part.ids)
        ids.append(part.ids)
    np.save(folder / "users" / "user_id.npy", np.concatenate(ids), allow_pickle=False)
    return "users/vector.npy has the vectors of the users in users/user_id.npy"
