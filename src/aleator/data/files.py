"""Files of interactions: which format a file has, and which reader reads it."""

from __future__ import annotations

import io
import zlib
from pathlib import Path
from typing import IO

import numpy as np

from aleator.data.archives import read_archive
from aleator.data.arrays import Array
from aleator.data.columns import Columns, Names, require_nothing_named
from aleator.data.limits import Limit, is_packed, unpacked
from aleator.data.reading import Reading
from aleator.data.tables import TABLES, read_parquet, read_text_table
from aleator.data.text import SEPARATOR
from aleator.errors import AleatorError, require, unknown_name, unreadable
from aleator.paths import as_path

FORMATS = (*TABLES, "npz", "adjacency")
FORMAT_OF_ENDING = {
    "csv": "csv",
    "tsv": "tsv",
    "parquet": "parquet",
    "pq": "parquet",
    "inter": "inter",
    "data": "u.data",
    "base": "u.data",
    "test": "u.data",
    "dat": "ratings.dat",
    "npz": "npz",
    "txt": "adjacency",
}


def read_file(path: Path, format: str | None, named: Names, reading: Reading) -> tuple[Columns, list[str]]:
    """The columns of a file by role, with notes. The name of the file shows its format unless `format` is given."""
    require_file(path)
    format = format_of(path) if format is None else format.lower()
    if format not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    if format not in SEPARATOR:
        reading.require_no_text(f"'{path}'")
    if format == "npz":
        return read_archive(path, named, reading)
    if format == "adjacency":
        require_nothing_named(named, f"'{path}'")
        return _read_adjacency(Limit.of(path, reading.max_bytes)), []
    if format == "parquet":
        return read_parquet(path, named, reading)
    return read_text_table(path, format, named, reading)


def require_file(path: Path) -> None:
    """Raise an error unless there is a file with content."""
    as_path(path)
    require(not path.is_dir(), f"'{path}' is a folder", "give a file in it")
    require(path.is_file(), f"there is no file '{path}'", "check the path")
    require(path.stat().st_size > 0, f"'{path}' is empty", "give a file with rows")


def format_of(path: Path) -> str:
    """The format of a file by the ending of its name; ".gz" does not count."""
    ending = path.name.lower().removesuffix(".gz").rsplit(".", 1)[-1]
    require(
        ending in FORMAT_OF_ENDING,
        f"the name of '{path}' does not show its format",
        f"give format= one of {', '.join(FORMATS)}",
    )
    return FORMAT_OF_ENDING[ending]


def _read_adjacency(limit: Limit) -> Columns:
    """LightGCN's format: each line holds a user and the items of that user, in file order."""
    path = limit.path
    users: list[Array] = []
    items: list[Array] = []
    try:
        with _lines(limit) as lines:
            for number, line in enumerate(lines, 1):
                ids = _integers(line, f"line {number} of '{path}'")
                if len(ids) > 1:
                    users.append(np.full(len(ids) - 1, ids[0]))
                    items.append(ids[1:])
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise unreadable(path, "adjacency", error) from None
    require(bool(users), f"'{path}' has no interactions", "write a user and its items in each line")
    return {"user": np.concatenate(users), "item": np.concatenate(items)}


def _lines(limit: Limit) -> IO[str]:
    if not is_packed(limit.path):
        return limit.path.open(encoding="utf-8")
    content = unpacked(limit)
    limit.check(len(content), content.count(b" ") + content.count(b"\n"))
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8")


def _integers(line: str, where: str) -> Array:
    try:
        return np.array(line.split(), np.int64)
    except (ValueError, OverflowError):
        remedy = "write a user and its items in each line, or give the format of the file"
        raise AleatorError(f"{where} is not a list of integers", remedy) from None
