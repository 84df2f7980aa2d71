"""Numpy archives (npz) with one array for each column, or with one for each column of each part."""

from __future__ import annotations

import math
import os
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np

from aleator.data.arrays import require_texts
from aleator.data.columns import ALIASES, Columns, Names, by_role, typed, unused_note
from aleator.data.limits import Limit
from aleator.data.reading import Reading
from aleator.errors import AleatorError, parsing, require

PARTS = ("train", "valid", "test")


def read_parts(path: str | os.PathLike[str]) -> dict[str, Columns]:
    """The columns of each part of an archive.

    An array named train_user is the column user of the part train. An array named user belongs to the part "".
    Parts without users or items are left out.
    """
    return _parts(_load(Limit.of(Path(path))))


def read_archive(path: Path, named: Names, reading: Reading) -> tuple[Columns, list[str]]:
    """The columns of an archive by role, with notes.

    An archive of parts gives the pairs of all parts together, with the columns that all parts have.
    """
    arrays = _load(Limit.of(path, reading.max_bytes))
    parts = _parts(arrays)
    names = [name for name in PARTS if name in parts]
    if "" in parts or "train" not in names or any(named.values()):
        return by_role(arrays, named, f"'{path}'", reading)
    shared = [role for role in ALIASES if all(role in parts[name] for name in names)]
    columns: Columns = {}
    for role in shared:
        read = [typed(parts[name][role], role, role, f"'{path}'", reading) for name in names]
        try:
            columns[role] = np.concatenate(read)
        except TypeError:  # numpy has no type for both
            kinds = " and ".join(sorted({str(column.dtype) for column in read}))
            raise AleatorError(f"the parts of '{path}' hold {role} as {kinds}", "write it alike in all parts") from None
    notes = [f"parts put together: {', '.join(names)}"] if len(names) > 1 else []
    notes += unused_note(arrays, [f"{name}_{role}" for name in names for role in shared])
    return columns, notes


def _load(limit: Limit) -> Columns:
    check_archive(limit)
    with parsing(limit.path, "npz"), np.load(limit.path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    require_texts(arrays.values(), f"'{limit.path}'")
    return arrays


def check_archive(limit: Limit) -> int:
    """The bytes of all arrays of an archive. Each must be there as its header says, and together they keep the limit.

    An archive is checked by its headers, before memory is taken for its arrays.
    """
    path = limit.path
    require(zipfile.is_zipfile(path), f"'{path}' is not a numpy archive, or it is cut short", "check the file")
    with parsing(path, "npz"), zipfile.ZipFile(path) as archive:
        parts = archive.infolist()
        known = all(part.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for part in parts)
        require(known, f"'{path}' is compressed in a way that numpy does not write", "write it with numpy.savez")
        total = sum(part.file_size for part in parts)
        limit.check(total)  # before any of them is opened: a header may be long too
        values = 0
        for part in parts:
            with archive.open(part) as file:
                values += _check_header(file, part, path)
        limit.check(total, values)
        return total


def read_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape and the type that an array of numpy claims to have."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    return shape, dtype


def _check_header(file: IO[bytes], part: zipfile.ZipInfo, path: Path) -> int:
    """The number of values of an array. They must be there."""
    shape, dtype = read_header(file)
    require(not dtype.hasobject, f"'{path}' holds Python objects, which are not read", "write texts or numbers")
    n = math.prod(shape)
    whole = n * dtype.itemsize + file.tell() == part.file_size and (dtype.itemsize > 0 or n == 0)
    require(
        whole, f"'{path}' claims {n:,} values for {part.filename}, which are not there", "write it with numpy.savez"
    )
    return n


def _parts(arrays: Columns) -> dict[str, Columns]:
    parts: dict[str, Columns] = {}
    for name, array in arrays.items():
        part, _, column = name.rpartition("_")
        if column in ALIASES:
            parts.setdefault(part, {})[column] = array
    return {name: columns for name, columns in parts.items() if {"user", "item"} <= columns.keys()}
