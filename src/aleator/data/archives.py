"""Numpy archives (npz) with one array for each column, or with one for each column of each part."""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path

import numpy as np

from aleator.data.columns import ALIASES, Columns, Names, by_role, typed, unused_note
from aleator.data.reading import Reading
from aleator.errors import require, unreadable

PARTS = ("train", "valid", "test")


def read_parts(path: str | os.PathLike[str]) -> dict[str, Columns]:
    """The columns of each part of an archive.

    An array named train_user is the column user of the part train. An array named user belongs to the part "".
    Parts without users or items are left out.
    """
    return _parts(_load(path))


def read_archive(path: Path, named: Names, reading: Reading) -> tuple[Columns, list[str]]:
    """The columns of an archive by role, with notes.

    An archive of parts gives the pairs of all parts together, with the columns that all parts have.
    """
    arrays = _load(path)
    parts = _parts(arrays)
    names = [name for name in PARTS if name in parts]
    if "" in parts or "train" not in names or any(named.values()):
        return by_role(arrays, named, f"'{path}'", reading)
    shared = [role for role in ALIASES if all(role in parts[name] for name in names)]
    columns: Columns = {}
    for role in shared:
        columns[role] = np.concatenate([typed(parts[name][role], role, role, f"'{path}'", reading) for name in names])
    notes = [f"parts put together: {', '.join(names)}"] if len(names) > 1 else []
    notes += unused_note(arrays, [f"{name}_{role}" for name in names for role in shared])
    return columns, notes


def _load(path: str | os.PathLike[str]) -> Columns:
    whole = zipfile.is_zipfile(path)
    require(whole, f"'{path}' is not a numpy archive, or it is cut short", "check the file")
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, RuntimeError, zlib.error, zipfile.BadZipFile) as error:
        raise unreadable(path, "npz", error) from None


def _parts(arrays: Columns) -> dict[str, Columns]:
    parts: dict[str, Columns] = {}
    for name, array in arrays.items():
        part, _, column = name.rpartition("_")
        if column in ALIASES:
            parts.setdefault(part, {})[column] = array
    return {name: columns for name, columns in parts.items() if {"user", "item"} <= columns.keys()}
