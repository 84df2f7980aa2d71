"""Reading interactions from parquet onto disk, for data that is larger than memory.

The source is read twice, in pieces: once for the ids, and once for the pairs, which are then sorted in files (maps.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aleator.data.arrays import Array
from aleator.data.columns import IDS, Names, find_roles, require_none_missing
from aleator.data.interactions import (
    RATED_NOTE,
    Interactions,
    check_duplicates,
    check_min_rating,
    numeric,
    repeats_note,
    require_weights,
)
from aleator.data.limits import Limit
from aleator.data.maps import (
    CHUNK,
    MANIFEST,
    Content,
    Facts,
    Maps,
    Writer,
    read_manifest,
    sorted_by,
    starts,
    whole_in,
    written,
)
from aleator.data.parquet_size import check_parquet
from aleator.data.reading import Reading
from aleator.data.tables import column_values
from aleator.data.text import literal, reading_file
from aleator.data.vocabulary import Vocabulary, of_one_type, typed_ids
from aleator.errors import require
from aleator.paths import as_path
from aleator.progress import progress
from aleator.words import Duplicates

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Asked:
    """What is asked of the rows of a source."""

    named: Names
    min_rating: float | None
    duplicates: Duplicates
    reading: Reading

    @property
    def facts(self) -> Facts:
        """For the manifest: other answers need other files."""
        named = {role: name for role, name in self.named.items() if name is not None}
        return {
            "named": named,
            "min_rating": self.min_rating,
            "duplicates": self.duplicates,
            "missing": self.reading.missing,
        }


def read_on_disk(source: Any, place: Any, asked: Asked) -> Interactions:
    """The interactions of a parquet file or of a folder of them, whose columns are files in the folder `place`.

    If the folder holds those of this very source already, they are taken.
    """
    if asked.min_rating is not None:
        check_min_rating(asked.min_rating)
    check_duplicates(asked.duplicates)
    folder, files = as_path(place), _files(source)
    facts = {"source": _fingerprint(as_path(source), files), **asked.facts}
    if (folder / MANIFEST).exists():
        same = {name: read_manifest(folder).get(name) for name in facts} == facts
        told = f"'{folder}' holds another source, other options, or the source as it was before it changed"
        require(same, told, "delete it, or give another folder")
    else:
        free = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
        require(free, f"'{folder}' is not empty", "give a folder that aleator may make")
        with written(folder) as part, progress(f"reading {as_path(source).name} onto disk", None):
            _Source(as_path(source), files, asked).write(part, facts)
    return _opened(folder)


def _opened(folder: Path) -> Interactions:
    import polars as pl

    maps = Maps.open(folder)
    with whole_in(folder):
        notes = [str(note) for note in read_manifest(folder)["notes"]]
    ids = {}
    for name in ("users", "items"):
        file = folder / f"{name}.parquet"
        with reading_file(file, "parquet"):
            check_parquet(Limit.of(file))
            column = pl.read_parquet(literal(file), glob=False, hive_partitioning=False)["id"]
        ids[name] = Vocabulary(column_values(column, "id", f"'{folder}'").copy())  # those of polars are read only
    fits = len(ids["users"]) == maps.n_users and len(ids["items"]) == maps.n_items
    require(fits, f"'{folder}' is not whole (its ids do not fit its pairs)", "delete it, and read the source again")
    empty = np.zeros(0, np.int32)
    return Interactions(empty, empty, ids["users"], ids["items"], notes=tuple(notes)).of_maps(maps).with_whole_ids()


def _files(source: Any) -> list[Path]:
    """The parquet files of a source, in the order of their names."""
    told = "give the path of a parquet file, or of a folder of them"
    require(isinstance(source, (str, Path)), f"on_disk was given, and the source is a {type(source).__name__}", told)
    path = as_path(source)
    require(path.exists(), f"there is no '{path}'", "check the path")
    found = sorted(each for each in path.rglob("*") if _counts(each, path)) if path.is_dir() else [path]
    require(bool(found), f"the folder '{path}' has no parquet files", told)
    parquet = all(each.suffix in (".parquet", ".pq") for each in found)
    require(parquet, f"'{path}' is no parquet file, and only such are read onto disk", told)
    return found


def _counts(path: Path, below: Path) -> bool:
    """Whether a file is part of a partitioned folder. Names that begin with "." or "_" are those of marks."""
    hidden = any(name.startswith((".", "_")) for name in path.relative_to(below).parts)
    return path.suffix in (".parquet", ".pq") and not hidden and path.is_file()


def _fingerprint(source: Path, files: list[Path]) -> str:
    """A hash of the names, sizes and times of all files."""
    digest = hashlib.sha256()
    for path in files:
        about = path.stat()
        digest.update(f"{path.relative_to(source)!s:}\0{about.st_size}\0{about.st_mtime_ns}\n".encode())
    return digest.hexdigest()


class _Source:
    """The rows of parquet files, in pieces."""

    def __init__(self, path: Path, files: list[Path], asked: Asked) -> None:
        import polars as pl

        self.asked, self.path, self.where = asked, path, f"'{path}'"
        asked.reading.require_no_text(self.where)
        with reading_file(path, "parquet"):
            table = pl.scan_parquet([literal(path) for path in files], glob=False, hive_partitioning=False)
            self.roles, self.notes = find_roles(table.collect_schema().names(), asked.named, self.where)
        rating = self.roles.pop("rating", None)
        require(
            asked.min_rating is None or rating is not None,
            "min_rating was given but there is no rating",
            "name the rating column",
        )
        used = [*self.roles.values(), *([rating] if asked.min_rating is not None else [])]
        for file in files:
            with reading_file(file, "parquet"):
                check_parquet(Limit.of(file, asked.reading.max_bytes), used)
        with reading_file(path, "parquet"):
            self.table = self._kept(table.select(list(dict.fromkeys(used))), rating)
            if rating is not None and asked.min_rating is None:
                self.notes.append(RATED_NOTE)
            self.n = int(self.table.select(pl.len()).collect().item())
        require(self.n > 0, f"{self.where} has no rows that count", "give at least one interaction")

    def _kept(self, table: pl.LazyFrame, rating: str | None) -> pl.LazyFrame:
        """The rows without those that lack a value or are rated too low."""
        import polars as pl
        import polars.selectors as cs

        total, least = int(table.select(pl.len()).collect().item()), self.asked.min_rating
        missing = pl.any_horizontal(pl.all().is_null(), cs.float().is_nan().fill_null(False))
        if self.asked.reading.missing == "drop":
            table = table.filter(~missing)
            kept = int(table.select(pl.len()).collect().item())
            self.notes += [f"missing: {total - kept} of {total} rows dropped"] if kept < total else []
            total = kept
        else:
            for name, n in table.select(pl.all().null_count()).collect().to_dicts()[0].items():
                require_none_missing(n, name, self.where)
        if least is not None and rating is not None:
            table = table.filter(pl.col(rating) >= least)
            kept = int(table.select(pl.len()).collect().item())
            require(kept > 0, "cleaning left no interactions", "lower min_rating")
            self.notes.append(f"min_rating {least}: {total - kept} of {total} rows dropped")
        return table

    def pieces(self, names: list[str]) -> Iterator[pl.DataFrame]:
        """The rows, some at a time, with these columns."""
        for first in range(0, self.n, CHUNK):
            with reading_file(self.path, "parquet"):
                piece = self.table.slice(first, CHUNK).select(names).collect()
            yield piece

    def write(self, folder: Path, facts: Facts) -> None:
        """Write the maps into a folder."""
        users, size = self._ids("user")
        items, _ = self._ids("item")
        for name, vocabulary in (("users", users), ("items", items)):
            _write_ids(folder / f"{name}.parquet", vocabulary)
        parts = (self._dense(piece, users, items) for piece in self.pieces(list(self.roles.values())))
        size_of_once, repeated = np.zeros(len(users), np.int64), 0
        with Writer(folder) as writer:
            for part in sorted_by("user", parts, size, folder):
                once = _each_once(part, self.asked.duplicates)
                repeated += len(part["user"]) - len(once["user"])
                size_of_once += np.bincount(once["user"], minlength=len(users))
                writer.append(once)
            if repeated:
                self.notes.append(repeats_note(repeated, self.n, self.asked.duplicates))
            about = {"users": len(users), "items": len(items), "notes": self.notes}
            writer.finish({**facts, **about}, start=starts(size_of_once))

    def _ids(self, role: str) -> tuple[Vocabulary, NDArray[np.int64]]:
        """The vocabulary of a side, and how many rows each id has."""
        known, counts = np.zeros(0, np.int64), np.zeros(0, np.int64)
        new: list[tuple[Array, Array]] = []

        def merge() -> tuple[Array, Array]:
            ids, n = zip(*new, strict=True)
            distinct, place = np.unique(np.concatenate(of_one_type(list(ids), role)), return_inverse=True)
            summed = np.zeros(len(distinct), np.int64)
            np.add.at(summed, place, np.concatenate(n))
            return distinct, summed

        name = self.roles[role]
        for piece in self.pieces([name]):
            found = piece[name].value_counts(name="rows of it")
            new.append((typed_ids(column_values(found[name], name, self.where), role), found["rows of it"].to_numpy()))
            if sum(len(ids) for ids, _ in new) > max(4 * len(known), CHUNK):
                known, counts = merge()
                new = [(known, counts)]
        known, counts = merge()
        return Vocabulary(known), counts.astype(np.int64)

    def _dense(self, piece: pl.DataFrame, users: Vocabulary, items: Vocabulary) -> Content:
        """The columns of a piece, with dense ids."""
        found: Content = {}
        for role, name in self.roles.items():
            values = column_values(piece[name], name, self.where)
            if role not in IDS:
                found[role] = self._numbers(values, role, name)
                continue
            dense = (users if role == "user" else items).encode(values)
            require(bool((dense >= 0).all()), f"{self.where} changed while it was read", "read it again")
            found[role] = dense.astype(np.int32)
        if self.asked.duplicates == "sum":
            found.setdefault("weight", np.ones(len(piece), np.float32))
        return found

    def _numbers(self, values: Array, role: str, name: str) -> Array:
        """Weights or times of a piece. Texts are refused: what they stand for may differ between pieces."""
        told = f"column '{name}' of {self.where} is read as the {role} but holds texts"
        require(values.dtype.kind not in "OUT", told, "make it numbers or dates in the file, to read it onto disk")
        if role == "weight":
            weight = numeric(values, role, np.float32)
            require_weights(weight)
            return weight
        time = numeric(values, role)
        return time.astype(np.float64 if time.dtype.kind == "f" else np.int64)


def _each_once(rows: Content, duplicates: Duplicates) -> Content:
    """The rows by user and item, each pair once: its first row in time, or in the order of the files without times."""
    keys = (*([rows["time"]] if "time" in rows else []), rows["item"], rows["user"])
    order = np.lexsort(keys)
    rows = {name: values[order] for name, values in rows.items()}
    first = np.ones(len(order), bool)
    first[1:] = (rows["user"][1:] != rows["user"][:-1]) | (rows["item"][1:] != rows["item"][:-1])
    if duplicates == "sum" and len(order):
        summed = np.add.reduceat(rows["weight"], np.flatnonzero(first))
        return {name: values[first] for name, values in rows.items()} | {"weight": summed}
    return {name: values[first] for name, values in rows.items()}


def _write_ids(path: Path, vocabulary: Vocabulary) -> None:
    import polars as pl

    ids = vocabulary.ids
    content = BytesIO()  # a full disk is then our error, and not one of polars
    pl.DataFrame({"id": ids.tolist() if ids.dtype.kind == "T" else ids}).write_parquet(content)
    path.write_bytes(content.getbuffer())
