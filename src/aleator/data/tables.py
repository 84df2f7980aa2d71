"""Tables: text files, parquet files and frames as columns by role."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aleator.data.arrays import Array, pieces
from aleator.data.columns import IDS, Columns, Names, dropped_note, find_roles, require_none_missing, typed
from aleator.data.limits import Limit
from aleator.data.parquet_size import check_parquet
from aleator.data.reading import Reading
from aleator.data.text import SEPARATOR, WITHOUT_HEADER, literal, read_text, reading_file
from aleator.data.vocabulary import Vocabulary
from aleator.errors import AleatorError, need, require, unknown_name

if TYPE_CHECKING:
    import polars as pl

TABLES = (*SEPARATOR, "parquet")
_COLUMN_TYPES = "make it a column of strings, numbers or dates"
MOVIELENS_HEADER = ("user", "item", "rating", "time")  # MovieLens files have no header line


def read_text_table(path: Path, format: str, named: Names, reading: Reading) -> tuple[Columns, list[str]]:
    """The columns of a text file by role, with notes. What a text stands for depends on the role of its column."""
    table = read_table(path, format, reading)
    if format in WITHOUT_HEADER:
        table = _with_header(table, path, format)
    where = f"'{path}'"
    chosen, notes = find_roles(table.columns, named, where, "or give the separator with sep= (--sep)")
    import polars as pl

    narrowed = pl.DataFrame({role: _narrowed(table[name], role, reading) for role, name in chosen.items()})
    columns, dropped = _typed(narrowed, {role: (role, name) for role, name in chosen.items()}, where, reading)
    return columns, notes + dropped


def _typed(source: Any, chosen: dict[str, tuple[Any, Any]], where: str, reading: Reading) -> tuple[Columns, list[str]]:
    """The columns of a frame by role, and a note about dropped rows.

    `chosen` has the name of the column of each role in the frame, and its name for messages.
    """
    import narwhals as nw

    table = nw.from_native(source, eager_only=True)
    require(len(table) > 0, f"{where} has no rows", "give at least one interaction")
    notes: list[str] = []
    if reading.missing == "drop":
        missing = [_missing(table[name]).to_numpy() for name, _ in chosen.values()]
        complete = ~np.logical_or.reduce(missing)
        table, notes = table.filter(complete.tolist()), dropped_note(complete, where)
    columns: Columns = {}
    for role, (name, told) in chosen.items():
        columns[role] = typed(column_values(table[name], told, where), role, told, where, reading)
    return columns, notes


def _missing(series: Any) -> Any:
    """Which values of a narwhals series are missing."""
    return series.is_null() | series.is_nan().fill_null(True) if series.dtype.is_float() else series.is_null()


def read_frame(source: Any, named: Names, reading: Reading) -> tuple[Columns, str, list[str]]:
    """The columns of a pandas, polars or arrow frame by role, the kind of the frame, and notes."""
    need("narwhals", "reading frames")
    import narwhals as nw

    try:
        table = nw.from_native(source, eager_only=True)
    except TypeError:
        raise AleatorError(
            f"a {type(source).__name__} cannot be read as interactions",
            "give a path, a frame, a dict of columns or a scipy sparse matrix",
        ) from None
    except nw.exceptions.NarwhalsError as error:
        reason = " ".join(str(error).split())
        raise AleatorError(f"the frame cannot be read ({reason})", "rename its columns") from None
    where = "the frame"
    chosen, notes = find_roles(table.columns, named, where)
    columns, dropped = _typed(table, {role: (name, name) for role, name in chosen.items()}, where, reading)
    return columns, table.implementation.name.lower(), notes + dropped


def read_parquet(path: Path, named: Names, reading: Reading) -> tuple[Columns, list[str]]:
    """The columns of a parquet file by role, with notes.

    Columns are read one after the other and piece by piece, so that a large file fits into memory. The ids come as
    dense ids with their vocabularies, in the columns user, users, item and items.
    """
    where = f"'{path}'"
    with reading_file(path, "parquet"):
        import polars as pl
        import polars.selectors as cs

        limit = Limit.of(path, reading.max_bytes)
        check_parquet(limit, ())
        table = pl.scan_parquet(literal(path), glob=False, hive_partitioning=False)
        n = table.select(pl.len()).collect().item()
        chosen, notes = find_roles(table.collect_schema().names(), named, where)
        require(n > 0, f"{where} has no rows", "give at least one interaction")
        check_parquet(limit, chosen.values())
        if reading.missing == "drop":
            names = list(dict.fromkeys(chosen.values()))
            table = table.select(names).drop_nulls().filter(pl.all_horizontal(~cs.float().is_nan()))
            complete = table.select(pl.len()).collect().item()
            notes += dropped_note(np.arange(n) < complete, where)
            n = complete
        columns: Columns = {}
        for role, name in chosen.items():
            values = _in_pieces(table, name, n, where, limit)
            if role in IDS:
                columns[f"{role}s"], columns[role] = Vocabulary.gather(values, role)
                continue
            parts = [typed(part, role, name, where, reading) for part in values]
            if {"M"} < {part.dtype.kind for part in parts}:
                # a text such as "2020" is a number in one piece, but a date if the column has dates in another
                whole = table.select(name).collect().to_series()
                parts = [typed(column_values(whole, name, where), role, name, where, reading)]
            columns[role] = np.concatenate(parts)
    return columns, notes


def read_table(path: Path, format: str, reading: Reading) -> pl.DataFrame:
    """The rows of a table file. All columns are texts, except in parquet."""
    if format in SEPARATOR:
        return read_text(path, format, reading)
    if format != "parquet":
        raise unknown_name("format", format, TABLES)
    with reading_file(path, format):
        import polars as pl

        check_parquet(Limit.of(path, reading.max_bytes))
        return pl.read_parquet(literal(path), glob=False, hive_partitioning=False)


def _with_header(table: pl.DataFrame, path: Path, format: str) -> pl.DataFrame:
    if format == "ratings.dat":  # a short line has missing values, which get a message of their own
        import polars as pl

        absent = [f"column_{n}" for n in range(table.width + 1, len(MOVIELENS_HEADER) + 1)]
        table = table.with_columns(pl.lit(None, pl.String).alias(name) for name in absent)
    require(
        table.width == len(MOVIELENS_HEADER),
        f"{format} has {len(MOVIELENS_HEADER)} columns, but '{path}' has {table.width}",
        "check the file or give its format",
    )
    return table.rename(dict(zip(table.columns, MOVIELENS_HEADER, strict=True)))


def _in_pieces(table: pl.LazyFrame, name: str, n: int, where: str, limit: Limit) -> Iterator[Array]:
    """The values of a column of n rows, piece by piece."""
    import polars as pl

    missing = 0
    for rows in pieces(n):
        piece = table.select(name).slice(rows.start, rows.stop - rows.start).collect().to_series()
        if piece.dtype in (pl.String, pl.Categorical):  # rows that share a long text in the file get one each
            limit.check(int(piece.cast(pl.String).str.len_bytes().sum()))
        missing += piece.null_count()
        if not missing:
            yield column_values(piece, name, where)
    require_none_missing(missing, name, where)  # only now, so that the message counts all of them


def _narrowed(column: pl.Series, role: str, reading: Reading) -> pl.Series:
    """A column of texts as what they stand for.

    Ids become integers if that changes none of them ("007" stays a text). Other columns become numbers, unless an
    option says how they are written.
    """
    need("polars", "reading and writing tables")
    import polars as pl

    is_id = role in IDS
    if not is_id:
        column = column.set(_blank(column).fill_null(False), None)
        if reading.decimal != "." or (role == "time" and reading.dates):
            return column
    for dtype in (pl.Int64, pl.UInt64 if is_id else pl.Float64):
        cast = column.cast(dtype, strict=False)
        if cast.null_count() == column.null_count() and (not is_id or (cast.cast(pl.String) == column).all()):
            return cast
    return _without_blanks(column) if is_id else column


def _without_blanks(ids: pl.Series) -> pl.Series:
    """Text ids with null for those that are blank, and for "NaN" where all the others are numbers."""
    import polars as pl

    missing = _blank(ids)
    number = ids.cast(pl.Float64, strict=False)
    if number.null_count() == ids.null_count():  # among texts, "NaN" may be a name
        missing |= number.is_nan()
    return ids.set(missing.fill_null(False), None)


def _blank(texts: pl.Series) -> pl.Series:
    """Which texts are empty, or hold only blanks."""
    return texts.str.strip_chars() == ""


def column_values(column: Any, name: str, where: str) -> Array:
    """A column of a frame as an array. Dates become microseconds, decimals become floats."""
    need("narwhals", "reading frames")
    import narwhals as nw

    series = nw.from_native(column, series_only=True)
    require_none_missing(int(series.is_null().sum()), name, where)
    if series.dtype == nw.Decimal:
        series = series.cast(nw.Float64)
    flat = not series.dtype.is_nested() and series.dtype != nw.Binary
    require(flat, f"column '{name}' of {where} is of type {series.dtype}", _COLUMN_TYPES)
    if series.dtype == nw.String:
        return _texts(series)
    try:
        if series.dtype == nw.Datetime:
            series = series.dt.timestamp("us")
        values: Array = series.to_numpy()
    except Exception:  # every frame library has errors of its own
        raise AleatorError(f"column '{name}' of {where} is of type {series.dtype}", _COLUMN_TYPES) from None
    return values


def _texts(series: Any) -> Array:
    """A column of texts as an array. to_numpy may give each the room of the longest, and cut NULs at the end."""
    texts = np.empty(len(series), np.dtypes.StringDType())
    for rows in pieces(len(series)):
        texts[rows] = series[rows].to_list()
    return texts
