"""Reading and writing interactions: files, frames and matrices of every usual kind."""

from __future__ import annotations

import gzip
import os
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from aleator.data.interactions import Array, Duplicates, Interactions, Vocabulary, flat, pieces
from aleator.errors import AleatorError, need, require, unknown_name

if TYPE_CHECKING:
    import polars as pl

ALIASES = {
    "user": "user user_id userid uid visitorid visitor_id customer_id customerid reviewerid account_id session_id",
    "item": "item item_id itemid iid movieid movie_id sid asin parent_asin product_id productid article_id business_id"
    " book_id song_id track_id artist_id news_id",
    "rating": "rating ratings stars score overall",
    "weight": "weight count plays listen_count confidence",
    "time": "time timestamp datetime date unixreviewtime event_time created_at ts",
}
FORMATS = ("csv", "tsv", "parquet", "inter", "u.data", "ratings.dat", "npz", "adjacency")
Columns = dict[str, Any]
Names = dict[str, str | None]


def read(
    source: Any,
    *,
    format: str | None = None,
    user: str | None = None,
    item: str | None = None,
    rating: str | None = None,
    weight: str | None = None,
    time: str | None = None,
    titles: Mapping[Any, str] | str | os.PathLike[str] | None = None,
    min_rating: float | None = None,
    k_core: int | None = None,
    duplicates: Duplicates = "first",
    **about: Any,
) -> Interactions:
    """Interactions from a file, a frame (pandas, polars, arrow), a dict of columns, or a scipy sparse matrix.

    The format of a file follows from its name (csv, tsv, parquet, inter, u.data, ratings.dat, npz, train.txt) unless
    `format` says it. Columns are recognised by their usual names, or named by `user=`, `item=` and so on. Ids of a file
    without types become integers where that changes none of them; else they stay texts ("007"). A matrix gives row and
    column numbers as ids and its values as weights. `titles` maps item ids to texts, or names a file with an item
    column and a title column. `in_time_order=True` says that each user's rows are in time order.
    """
    named = {"user": user, "item": item, "rating": rating, "weight": weight, "time": time}
    for name in about:
        if name != "in_time_order":
            known = ["format", *named, "titles", "min_rating", "k_core", "duplicates", "in_time_order"]
            raise unknown_name("option of read", name, known)
    frame: str | None = None
    is_file = isinstance(source, (str, os.PathLike))
    require(format is None or is_file, "format was given but the source is no file", "leave it out")
    if is_file:
        columns, notes = _file(Path(source), format, named)
    elif sp.issparse(source):
        columns, notes = _matrix(source, named), []
    elif isinstance(source, Mapping):
        columns, notes = _arrays(source, named, "the dict")
    else:
        columns, frame, notes = _frame(source, named)
    data = Interactions.of(
        **columns, min_rating=min_rating, duplicates=duplicates, frame=frame, notes=tuple(notes), **about
    )
    if data.rating is not None and min_rating is None:
        note = "rating: every rated pair counts as an interaction; give min_rating to keep only high ratings"
        data = replace(data, notes=(*data.notes, note))
    data = data.clean(k_core=k_core)
    return data if titles is None else data.with_titles(read_titles(titles))


def read_titles(source: Mapping[Any, str] | str | os.PathLike[str]) -> dict[Any, str]:
    """Item titles by external id."""
    if isinstance(source, Mapping):
        return dict(source)
    path = _existing(Path(source))
    table = _table(path, _kind(path))
    require(table.width > 1, f"'{path}' has one column", "give titles as an item column and a title column")
    names = [*ALIASES["item"].split(), "id"]
    ids = next((c for c in table.columns if c.lower() in names), table.columns[0])
    text = next((c for c in table.columns if c.lower() in ("title", "name", "movie_title")), table.columns[-1])
    pairs = zip(table[ids].to_list(), table[text].to_list(), strict=True)
    return {i: title for i, title in pairs if title is not None}


def write(data: Interactions, path: str | os.PathLike[str]) -> None:
    """Interactions to csv, tsv, parquet, inter or npz, by the ending of the name.

    Only parquet and npz keep the type of an id: from the others, texts that are whole numbers come back as integers.
    """
    target, kind = Path(path), Path(path).suffix.lstrip(".").lower()
    require(
        kind in ("csv", "tsv", "parquet", "inter", "npz"),
        f"'{target.name}' names no format that can be written",
        "end it in csv, tsv, parquet, inter or npz",
    )
    require(target.parent.is_dir(), f"there is no folder '{target.parent}'", "make it first")
    columns: Columns = {"user": data.users.decode(data.user), "item": data.items.decode(data.item)}
    columns |= {n: getattr(data, n) for n in ("rating", "weight", "time") if getattr(data, n) is not None}
    part = target.with_name(f".{target.name}.part")  # nothing half-written ever bears the name that was asked for
    try:
        _write(columns, part, kind)
        part.replace(target)
    except OSError as error:
        problem = f"'{target}' cannot be written ({error.strerror or error})"
        raise AleatorError(problem, "check the folder and the space left") from None
    finally:
        part.unlink(missing_ok=True)


def _write(columns: Columns, target: Path, kind: str) -> None:
    if kind == "npz":
        with target.open("wb") as file:
            np.savez_compressed(file, **{k: v.astype(str) if v.dtype == object else v for k, v in columns.items()})
        return
    need("polars", "reading and writing tables")
    import polars as pl

    table = pl.DataFrame({name: list(c) if c.dtype == object else c for name, c in columns.items()})
    if kind == "parquet":
        table.write_parquet(target)
    elif kind == "inter":
        types = {"user": "user_id:token", "item": "item_id:token", "time": "timestamp:float"}
        table.rename({c: types.get(c, f"{c}:float") for c in table.columns}).write_csv(target, separator="\t")
    else:
        table.write_csv(target, separator="," if kind == "csv" else "\t")


def _matrix(matrix: Any, named: Names) -> Columns:
    _nothing_named(named, "a matrix")
    require(matrix.ndim == 2, f"the matrix has {matrix.ndim} dimensions", "give one of users by items")
    coo = sp.coo_matrix(matrix, copy=True)
    coo.sum_duplicates()  # what repeated entries mean in scipy
    keep = coo.data != 0
    columns: Columns = {"user": coo.row[keep], "item": coo.col[keep]}
    return columns if (coo.data[keep] == 1).all() else {**columns, "weight": coo.data[keep]}


def _nothing_named(named: Names, where: str) -> None:
    role = next((role for role, name in named.items() if name is not None), None)
    require(role is None, f"{where} has no columns to name", f"leave out {role}=")


def _file(path: Path, format: str | None, named: Names) -> tuple[Columns, list[str]]:
    _existing(path)
    kind = _kind(path) if format is None else format.lower()
    if kind == "npz":
        return _npz(path, named)
    if kind == "adjacency":
        _nothing_named(named, f"'{path}'")
        return _adjacency(path), []
    if kind == "parquet":
        return _parquet(path, named)
    return _picked(_table(path, kind), named, f"'{path}'", typed=False)


def _existing(path: Path) -> Path:
    require(not path.is_dir(), f"'{path}' is a folder", "give a file in it")
    require(path.is_file(), f"there is no file '{path}'", "check the path")
    require(path.stat().st_size > 0, f"'{path}' is empty", "give a file with rows")
    return path


def _kind(path: Path) -> str:
    suffix = path.name.lower().removesuffix(".gz").rsplit(".", 1)[-1]
    known = {
        "csv": "csv",
        "tsv": "tsv",
        "parquet": "parquet",
        "pq": "parquet",
        "inter": "inter",
        "data": "u.data",
        "dat": "ratings.dat",
        "npz": "npz",
        "txt": "adjacency",
        "base": "u.data",
        "test": "u.data",
    }
    require(
        suffix in known,
        f"the format of '{path}' cannot be told from its name",
        f"give format= one of {', '.join(FORMATS)}",
    )
    return known[suffix]


def _table(path: Path, kind: str) -> pl.DataFrame:
    """The rows of a file; texts, except in parquet: what they stand for follows from the role of the column."""
    with _reading(path, kind):
        import polars as pl

        if kind == "parquet":
            return pl.read_parquet(path)
        if kind in ("csv", "tsv"):
            return pl.read_csv(path, separator="," if kind == "csv" else "\t", infer_schema=False)
        if kind == "inter":  # RecBole's atomic files: a header of name:type
            return pl.read_csv(path, separator="\t", infer_schema=False).rename(lambda c: c.partition(":")[0])
        if kind == "u.data":
            return _headed(pl.read_csv(path, separator="\t", has_header=False, infer_schema=False), path, kind)
        if kind == "ratings.dat":
            lines = pl.read_csv(path, separator="\x01", has_header=False, infer_schema=False, quote_char=None)
            return _headed(lines.to_series().str.splitn("::", 4).struct.unnest(), path, kind)
    raise unknown_name("format", kind, FORMATS)


def _parquet(path: Path, named: Names) -> tuple[Columns, list[str]]:
    """The columns of a parquet file by role, one after the other in pieces; the ids are dense already."""
    where = f"'{path}'"
    with _reading(path, "parquet"):
        import polars as pl

        table = pl.scan_parquet(path)
        schema, n = table.collect_schema(), table.select(pl.len()).collect().item()
        chosen, notes = _roles(schema.names(), named, where)
        require(n > 0, f"{where} has no rows", "give at least one interaction")
        columns: Columns = {}
        for role, name in chosen.items():
            values = _in_pieces(table, name, n, where)
            if role in ("user", "item"):
                columns[f"{role}s"], columns[role] = Vocabulary.gather(values, role)
                continue
            parts = [_typed(part, role, name, where) for part in values]
            if {"M"} < {part.dtype.kind for part in parts}:  # texts such as "2020" are dates if any other is one
                parts = [_typed(_values(table.select(name).collect().to_series(), name, where), role, name, where)]
            columns[role] = np.concatenate(parts)
    return columns, notes


def _in_pieces(table: pl.LazyFrame, name: str, n: int, where: str) -> Iterator[Array]:
    """The values of a column of n rows, piece by piece; those missing are counted to the end, as in a frame."""
    missing = 0
    for rows in pieces(n):
        piece = table.select(name).slice(rows.start, rows.stop - rows.start).collect().to_series()
        missing += piece.null_count()
        if not missing:
            yield _values(piece, name, where)
    _nothing_missing(missing, name, where)


@contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """Whatever polars has to say about a file, in one sentence."""
    need("polars", "reading and writing tables")
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, UnicodeDecodeError, OSError) as error:
        raise _unreadable(path, kind, error) from None


def _unreadable(path: str | os.PathLike[str], kind: str, error: BaseException) -> AleatorError:
    reason = str(error).partition("\n")[0]
    reason = reason if len(reason) <= 120 else f"{reason[:120]}..."
    return AleatorError(f"'{path}' cannot be read as {kind} ({reason})", "check the file or give its format")


def _headed(table: pl.DataFrame, path: Path, kind: str) -> pl.DataFrame:
    """MovieLens' columns, which have no header."""
    header = ["user", "item", "rating", "time"]
    require(
        table.width == len(header),
        f"'{path}' cannot be read as {kind}, which has {len(header)} columns and not {table.width}",
        "check the file or give its format",
    )
    return table.rename(dict(zip(table.columns, header, strict=True)))


def _adjacency(path: Path) -> Columns:
    """LightGCN's `user item item ...`, a line a user, the items of a user in file order."""
    users: list[Array] = []
    items: list[Array] = []
    try:
        with (gzip.open if path.name.lower().endswith(".gz") else open)(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                ids = _integers(line, f"line {number} of '{path}'")
                if len(ids) > 1:
                    users.append(np.full(len(ids) - 1, ids[0]))
                    items.append(ids[1:])
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise _unreadable(path, "adjacency", error) from None
    require(bool(users), f"'{path}' has no interactions", "each line holds a user and its items")
    return {"user": np.concatenate(users), "item": np.concatenate(items)}


def _integers(line: str, where: str) -> Array:
    try:
        return np.array(line.split(), np.int64)
    except (ValueError, OverflowError):
        remedy = "each line holds a user and its items, or give the format"
        raise AleatorError(f"{where} is not a list of integers", remedy) from None


def _npz(path: Path, named: Names) -> tuple[Columns, list[str]]:
    """Bare columns, or the columns that all parts (train, valid, test) have, the parts put together."""
    arrays = _load_npz(path)
    parts = _parts(arrays)
    names = [n for n in ("train", "valid", "test") if n in parts]
    if "" in parts or "train" not in names or any(named.values()):
        return _arrays(arrays, named, f"'{path}'")
    shared = [c for c in ALIASES if all(c in parts[n] for n in names)]
    notes = [f"parts put together: {', '.join(names)}"] if len(names) > 1 else []
    notes += _unused(arrays, [f"{n}_{c}" for n in names for c in shared])
    return {c: np.concatenate([_typed(parts[n][c], c, c, f"'{path}'") for n in names]) for c in shared}, notes


def read_npz(path: str | os.PathLike[str]) -> dict[str, Columns]:
    """The parts ("train", "valid", "test", or "" for bare columns) of a numpy archive, each a dict of columns."""
    return _parts(_load_npz(path))


def _load_npz(path: str | os.PathLike[str]) -> Columns:
    require(zipfile.is_zipfile(path), f"'{path}' is not a numpy archive, or cut short", "check the file")
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, RuntimeError, zlib.error, zipfile.BadZipFile) as error:
        raise _unreadable(path, "npz", error) from None


def _parts(arrays: Columns) -> dict[str, Columns]:
    parts: dict[str, Columns] = {}
    for name, array in arrays.items():
        part, _, column = name.rpartition("_")
        if column in ALIASES:
            parts.setdefault(part, {})[column] = array
    return {name: columns for name, columns in parts.items() if {"user", "item"} <= set(columns)}


def _frame(source: Any, named: Names) -> tuple[Columns, str | None, list[str]]:
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
    columns, notes = _picked(table, named, "the frame", typed=True)
    return columns, table.implementation.name.lower(), notes


def _picked(table: Any, named: Names, where: str, typed: bool) -> tuple[Columns, list[str]]:
    """The columns of a polars or narwhals frame by role, and a note of those that were not used."""
    chosen, notes = _roles(table.columns, named, where)
    require(len(table) > 0, f"{where} has no rows", "give at least one interaction")
    series = {role: table[name] if typed else _narrowed(table[name], role) for role, name in chosen.items()}
    columns = {role: _typed(_values(series[role], name, where), role, name, where) for role, name in chosen.items()}
    return columns, notes


def _arrays(columns: Mapping[Any, Any], named: Names, where: str) -> tuple[Columns, list[str]]:
    """The same of a dict of arrays or lists."""
    chosen, notes = _roles(list(columns), named, where)
    return {role: _typed(columns[name], role, name, where) for role, name in chosen.items()}, notes


def _roles(present: Sequence[Any], named: Names, where: str) -> tuple[dict[str, Any], list[str]]:
    """The name of the column of each role, and a note of the columns that have none."""
    listed = ", ".join(map(str, present))
    chosen: dict[str, Any] = {}
    for role, name in named.items():
        if name is not None:
            require(name in present, f"{where} has no column '{name}'", f"it has {listed}")
            chosen[role] = name
    for role, aliases in ALIASES.items():
        if role not in chosen:
            free = {str(c).lower(): c for c in reversed(present) if c not in chosen.values()}
            found = next((free[a] for a in aliases.split() if a in free), None)
            if found is not None:
                chosen[role] = found
    for role in ("user", "item"):
        require(role in chosen, f"{where} has no {role} column among {listed}", f"name it with {role}=")
    require(
        chosen["user"] != chosen["item"], f"column '{chosen['user']}' is named as user and item", "name two columns"
    )
    return chosen, _unused(present, list(chosen.values()))


def _unused(present: Any, used: list[Any]) -> list[str]:
    unused = [str(c) for c in present if c not in used]
    return [f"columns not used: {', '.join(unused)}"] if unused else []


def _narrowed(column: pl.Series, role: str) -> pl.Series:
    """A column of texts as what it stands for: ids as integers where none of them is changed, all else as numbers."""
    need("polars", "reading and writing tables")
    import polars as pl

    is_id = role in ("user", "item")
    for dtype in (pl.Int64, pl.UInt64 if is_id else pl.Float64):
        cast = column.cast(dtype, strict=False)
        if cast.null_count() == column.null_count() and (not is_id or (cast.cast(pl.String) == column).all()):
            return cast
    if not is_id:
        return column
    number = column.cast(pl.Float64, strict=False)
    missing = column == ""
    if number.null_count() == column.null_count():  # "NaN" may be a name, but not among numbers
        missing |= number.is_nan()
    return column.set(missing.fill_null(False), None)


def _values(column: Any, name: str, where: str) -> Array:
    """A column of a frame as an array: dates in microseconds, decimals as floats."""
    need("narwhals", "reading frames")
    import narwhals as nw

    series = nw.from_native(column, series_only=True)
    _nothing_missing(int(series.is_null().sum()), name, where)
    if series.dtype == nw.Decimal:
        series = series.cast(nw.Float64)
    try:
        values: Array = (series.dt.timestamp("us") if series.dtype == nw.Datetime else series).to_numpy()
    except Exception:  # every kind of frame has errors of its own
        problem = f"column '{name}' of {where} is of type {series.dtype}"
        raise AleatorError(problem, "make it a column of strings, numbers or dates") from None
    return values


def _nothing_missing(count: int, name: str, where: str) -> None:
    require(count == 0, f"column '{name}' of {where} has {count} missing values", "fill them or drop those rows")


def _typed(values: Any, role: str, name: Any, where: str) -> Array:
    """The column of a role: ids as they are; numbers, and dates of a time, also where they stand as texts."""
    column = flat(values)
    if role in ("user", "item") or column.dtype.kind not in "OUT":
        return column
    found = _numbers(column)
    if found is None and role == "time":
        found = _dates(column)
    if found is None:
        kind = "numbers or ISO dates" if role == "time" else "numbers"
        raise AleatorError(
            f"column '{name}' of {where} is taken as the {role} but holds no {kind}", f"name another with {role}="
        )
    return found


def _numbers(column: Array) -> Array | None:
    try:
        floats = column.astype(np.float64)
    except (ValueError, TypeError):
        return None
    try:
        whole = column.astype(np.int64)
    except (ValueError, TypeError, OverflowError):
        return floats
    return whole if (whole == floats).all() else floats


def _dates(column: Array) -> Array | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # numpy warns that it turns time zones into UTC, as it should
        try:
            return column.astype("datetime64[us]")
        except (ValueError, TypeError):
            return None
