"""Tables of users, read piece by piece and cut into parts of equal size."""

from __future__ import annotations

import csv
import io
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aleator.data.columns import ALIASES
from aleator.data.files import format_of, require_file
from aleator.data.frames import opened
from aleator.data.limits import Limit
from aleator.data.parquet_size import check_parquet
from aleator.data.text import open_bytes, reading_file, separator_of
from aleator.data.vocabulary import Vocabulary
from aleator.errors import AleatorError, need, require, unreadable
from aleator.paths import as_path

if TYPE_CHECKING:
    import polars as pl

USER = "user_id"  # what the column of users is called in the parts
ROWS = 1 << 17  # of a file in memory at a time
FORMATS = ("parquet", "csv", "tsv")


@dataclass(frozen=True)
class Table:
    """A table of users, which comes in frames of any size."""

    where: str  # what it is called in messages
    read: Callable[[], Iterator[pl.DataFrame]]
    user: str | None  # the name of its column of users
    ids: Vocabulary  # the users of the model
    texts: bool = False  # whether it is a text file, in which all columns are texts
    again: bool = True  # whether it can be read a second time

    @classmethod
    def of(cls, source: Any, user: str | None, ids: Vocabulary) -> Table:
        """From a file, a folder of parquet files, a frame, or an iterable of frames."""
        need("polars", "a batch")
        if isinstance(source, (str, os.PathLike)):
            files = _files(as_path(source))
            texts = format_of(files[0]) != "parquet"
            return cls(f"'{source}'", lambda: (frame for file in files for frame in _read(file)), user, ids, texts)
        import narwhals as nw

        if isinstance(nw.from_native(source, eager_only=True, pass_through=True), nw.DataFrame):
            source = [source]
        frames = isinstance(source, Iterable)
        require(frames, f"users is {source!r}", "give a file, a folder of parquet files, a frame, or frames")
        again = isinstance(source, Sequence)
        return cls("the frame of users", lambda: map(_polars, source), user, ids, again=again)

    def parts(self, size: int) -> Iterator[pl.DataFrame]:
        """Frames of `size` users each, the last one shorter, with the users in the first column, which is `USER`."""
        waiting: list[pl.DataFrame] = []
        rows = 0
        for frame in self.read():
            waiting.append(self._with_users_first(frame))
            rows += len(frame)
            if rows >= size:
                joined = self._joined(waiting)
                whole = rows // size * size
                yield from (joined[first : first + size] for first in range(0, whole, size))
                waiting, rows = [joined[whole:]], rows - whole
        if rows:
            yield self._joined(waiting)

    def _joined(self, frames: list[pl.DataFrame]) -> pl.DataFrame:
        import polars as pl

        try:
            return pl.concat(frames)
        except pl.exceptions.PolarsError as error:
            raise AleatorError(
                f"the parts of {self.where} have different columns ({str(error).partition(chr(10))[0]})",
                "give them the same columns of the same types",
            ) from None

    def _with_users_first(self, frame: pl.DataFrame) -> pl.DataFrame:
        present = ", ".join(frame.columns)
        name = self.user if self.user is not None else column_of("user", frame.columns)
        told = "name it with user= (--user in a shell)"
        require(name is not None, f"{self.where} has no user column among {present}", told)
        assert name is not None
        require(name in frame.columns, f"{self.where} has no column '{name}'", f"name one of {present}")
        require_whole(frame[name], self.where)
        column = alike(frame[name], self.ids) if self.texts else frame[name]
        if column.null_count():
            wrong = frame[name].filter(column.is_null())[0]
            told = f"correct it: the users of the model are such as {self.ids.ids[0]}"
            raise AleatorError(f"'{wrong}' in column '{name}' of {self.where} is no number", told)
        rest = frame.drop(name)
        require(USER not in rest.columns, f"{self.where} has a column '{USER}' beside '{name}'", "rename it")
        return rest.insert_column(0, column.alias(USER))


class Roll:
    """Who came so far: finds the users of each part in the model, and refuses one who comes twice."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.came = np.zeros(len(table.ids), bool)

    def call(self, ids: pl.Series) -> NDArray[np.int64]:
        """The dense ids of the users of a part, -1 for unknown ones."""
        dense = self.table.ids.encode(ids)
        rows = np.flatnonzero(dense >= 0)
        _, first = np.unique(dense[rows], return_index=True)
        again = self.came[dense[rows]]
        again[np.setdiff1d(np.arange(len(rows)), first, assume_unique=True)] = True
        if again.any():
            twice = ids[int(rows[again.argmax()])]
            raise AleatorError(f"user {twice!r} is in several rows of {self.table.where}", "give each user once")
        self.came[dense[rows]] = True
        return dense


def column_of(role: str, present: Sequence[str]) -> str | None:
    """The column with a usual name of a role, or None."""
    free = {name.lower(): name for name in reversed(present)}
    return next((free[alias] for alias in ALIASES[role].split() if alias in free), None)


def require_whole(column: pl.Series, where: str) -> None:
    """Refuse a column of ids with missing values. An empty text is missing too."""
    import polars as pl

    empty = (column == "").sum() if column.dtype == pl.String else 0
    missing = column.null_count() + int(empty)
    told = f"column '{column.name}' of {where} has {missing} missing values"
    require(missing == 0, told, "fill them, or leave those rows out")


def alike(column: pl.Series, ids: Vocabulary) -> pl.Series:
    """A column of ids in the type of the ids of a model. What cannot be one of them becomes null."""
    import polars as pl

    types = {"i": pl.Int64, "u": pl.UInt64, "f": pl.Float64, "T": pl.String}
    return column.cast(types[ids.ids.dtype.kind], strict=False)


def encoded(column: pl.Series, ids: Vocabulary) -> NDArray[np.int64]:
    """The dense id of each row of a column, [n], matched as texts are; -1 where it is unknown or missing."""
    like = alike(column, ids)
    dense = np.full(len(like), -1, np.int64)
    dense[like.is_not_null().to_numpy()] = ids.encode(like.drop_nulls())
    return dense


def _files(path: Path) -> list[Path]:
    """The files of a table: a file, or the parquet files of a folder by name."""
    if not path.is_dir():
        require_file(path)
        require(format_of(path) in FORMATS, f"'{path}' is no table of users", f"give a {', '.join(FORMATS)} file")
        return [path]
    found = [file for file in sorted(path.glob("*.parquet")) if not file.name.startswith(("_", "."))]
    require(bool(found), f"the folder '{path}' has no parquet files", "give a folder of parquet files, or a file")
    return found


def _read(path: Path) -> Iterator[pl.DataFrame]:
    format = format_of(path)
    return _read_parquet(path) if format == "parquet" else _read_text(path, format)


def _read_parquet(path: Path) -> Iterator[pl.DataFrame]:
    with reading_file(path, "parquet"):
        import polars as pl

        check_parquet(Limit.of(path), in_groups=True)
        table = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        rows = table.select(pl.len()).collect().item()
        for first in range(0, rows, ROWS):
            yield table.slice(first, ROWS).collect()


def _read_text(path: Path, format: str) -> Iterator[pl.DataFrame]:
    """A csv or tsv file; all columns are texts."""
    import polars as pl

    try:
        mark = separator_of(path, format)
        require(len(mark) == 1, f"the columns of '{path}' are separated by '{mark}'", "give a file with commas or tabs")
        with io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="") as file:
            lines = filter(None, csv.reader(file, delimiter=mark, strict=True))
            names = next(lines, [])
            require(0 < len(set(names)) == len(names), f"the header of '{path}' is {names}", "give each column a name")
            while rows := list(islice(lines, ROWS)):
                short = next((row for row in rows if len(row) != len(names)), None)
                told = f"a line of '{path}' has not {len(names)} values: {mark.join(short or [])!r}"
                require(short is None, told, "correct the line")
                columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
                yield pl.DataFrame(columns, schema=dict.fromkeys(names, pl.String))
    except (OSError, EOFError, zlib.error, UnicodeError, csv.Error) as error:
        raise unreadable(path, format, error) from None


def _polars(frame: Any) -> pl.DataFrame:
    made: pl.DataFrame = opened(frame).to_polars()
    return made
