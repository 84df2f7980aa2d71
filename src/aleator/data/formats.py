"""Reading and writing interactions: files, frames and matrices of every usual kind."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from aleator.data.interactions import Array, Duplicates, Interactions
from aleator.errors import AleatorError, require

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
Columns = dict[str, Any]


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
    `format` says it. Columns are recognised by their usual names, or named by `user=`, `item=` and so on. A matrix gives
    row and column numbers as ids and its values as weights. `titles` maps item ids to texts, or names a file with an
    item column and a title column.
    """
    named = {"user": user, "item": item, "rating": rating, "weight": weight, "time": time}
    frame: str | None = None
    notes: list[str] = []
    if sp.issparse(source):
        columns = _matrix(source)
    elif isinstance(source, (str, os.PathLike)):
        columns, notes = _file(Path(source), format, named)
    else:
        columns, frame, notes = _frame(source, named)
    in_time_order = bool(columns.pop("in_time_order", False))
    data = Interactions.of(
        **columns, duplicates=duplicates, in_time_order=in_time_order, frame=frame, notes=tuple(notes), **about
    )
    if data.rating is not None and min_rating is None:
        note = "rating: every rated pair counts as an interaction; give min_rating to keep only high ratings"
        data = data.take(np.arange(len(data)), note)
    data = data.clean(min_rating=min_rating, k_core=k_core)
    return data if titles is None else data.with_titles(read_titles(titles))


def read_titles(source: Mapping[Any, str] | str | os.PathLike[str]) -> dict[Any, str]:
    """Item titles by external id."""
    if isinstance(source, Mapping):
        return dict(source)
    table = _table(Path(source), None)
    names = [*ALIASES["item"].split(), "id"]
    ids = next((c for c in table.columns if c.lower() in names), table.columns[0])
    text = next((c for c in table.columns if c.lower() in ("title", "name", "movie_title")), table.columns[-1])
    return dict(zip(table[ids].to_list(), table[text].to_list(), strict=True))


def write(data: Interactions, path: str | os.PathLike[str]) -> None:
    """Interactions to csv, tsv, parquet, inter or npz, by the ending of the name."""
    target, kind = Path(path), Path(path).suffix.lstrip(".")
    columns: Columns = {"user": data.users.decode(data.user), "item": data.items.decode(data.item)}
    columns |= {n: getattr(data, n) for n in ("rating", "weight", "time") if getattr(data, n) is not None}
    if kind == "npz":
        np.savez_compressed(target, **{k: v.astype(str) if v.dtype == object else v for k, v in columns.items()})
        return
    import polars as pl

    table = pl.DataFrame({name: list(c) if c.dtype == object else c for name, c in columns.items()})
    if kind in ("csv", "tsv"):
        table.write_csv(target, separator="," if kind == "csv" else "\t")
    elif kind == "parquet":
        table.write_parquet(target)
    elif kind == "inter":
        types = {"user": "user_id:token", "item": "item_id:token", "time": "timestamp:float"}
        table.rename({c: types.get(c, f"{c}:float") for c in table.columns}).write_csv(target, separator="\t")
    else:
        raise AleatorError(
            f"'{target.name}' names no format that can be written", "end it in csv, tsv, parquet, inter or npz"
        )


def _matrix(matrix: Any) -> Columns:
    coo = sp.coo_matrix(matrix)
    keep = coo.data != 0
    columns: Columns = {"user": coo.row[keep], "item": coo.col[keep]}
    return columns if (coo.data[keep] == 1).all() else {**columns, "weight": coo.data[keep]}


def _file(path: Path, format: str | None, named: dict[str, str | None]) -> tuple[Columns, list[str]]:
    require(path.is_file(), f"there is no file '{path}'", "check the path")
    require(path.stat().st_size > 0, f"'{path}' is empty", "give a file with interactions")
    kind = format or _kind(path)
    plain: dict[str, Callable[[Path], Columns]] = {"npz": _npz, "adjacency": _adjacency}
    if kind in plain:
        return plain[kind](path), []
    return _pick(_table(path, kind), named, str(path))


def _kind(path: Path) -> str:
    suffix = path.name.removesuffix(".gz").rsplit(".", 1)[-1].lower()
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
        "give format= one of csv, tsv, parquet, inter, u.data, ratings.dat, npz, adjacency",
    )
    return known[suffix]


def _table(path: Path, kind: str | None) -> pl.DataFrame:
    import polars as pl

    kind = kind or _kind(path)
    header = ["user", "item", "rating", "time"]
    try:
        if kind == "parquet":
            return pl.read_parquet(path)
        if kind == "csv":
            return pl.read_csv(path, infer_schema_length=None)
        if kind == "tsv":
            return pl.read_csv(path, separator="\t", infer_schema_length=None)
        if kind == "inter":
            return _inter(pl.read_csv(path, separator="\t", infer_schema=False))
        if kind == "u.data":
            return pl.read_csv(path, separator="\t", has_header=False, new_columns=header)
        if kind == "ratings.dat":
            rows = pl.read_csv(path, has_header=False, separator="\x01", new_columns=["line"], quote_char=None)
            parts = rows["line"].str.split_exact("::", 3).struct.rename_fields(header).struct.unnest()
            return parts.with_columns(pl.col("user", "item").cast(pl.Int64), pl.col("rating", "time").cast(pl.Float64))
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise AleatorError(
            f"'{path}' cannot be read as {kind} ({reason})", "check the file or give its format"
        ) from None
    raise AleatorError(
        f"unknown format '{kind}'", "give one of csv, tsv, parquet, inter, u.data, ratings.dat, npz, adjacency"
    )


def _inter(table: pl.DataFrame) -> pl.DataFrame:
    """RecBole's atomic files: a header of name:type. Tokens become integers where every one of them is."""
    import polars as pl

    for column in table.columns:
        name, _, kind = column.partition(":")
        if kind == "float":
            table = table.with_columns(pl.col(column).cast(pl.Float64).alias(name))
        else:
            whole = table[column].cast(pl.Int64, strict=False)
            round_trip = whole.null_count() == 0 and (whole.cast(pl.String) == table[column]).all()
            table = table.with_columns((whole if round_trip else table[column]).alias(name))
        if name != column:
            table = table.drop(column)
    return table


def _adjacency(path: Path) -> Columns:
    """LightGCN's `user item item ...`, a line a user, the items of a user in file order."""
    users: list[Array] = []
    items: list[Array] = []
    with path.open() as lines:
        for number, line in enumerate(lines, 1):
            try:
                ids = np.array(line.split(), np.int64)
            except ValueError:
                raise AleatorError(
                    f"line {number} of '{path}' is not a list of integers",
                    "each line holds a user and its items, or give the format",
                ) from None
            if len(ids) > 1:
                users.append(np.full(len(ids) - 1, ids[0]))
                items.append(ids[1:])
    require(bool(users), f"'{path}' has no interactions", "each line holds a user and its items")
    return {"user": np.concatenate(users), "item": np.concatenate(items)}


def _npz(path: Path) -> Columns:
    parts = read_npz(path)
    if "" in parts:
        return parts[""]
    require(
        "train" in parts, f"'{path}' holds no train_user and train_item", "save arrays user and item, or train_user ..."
    )
    names = [n for n in ("train", "valid", "test") if n in parts]
    shared = set.intersection(*(set(parts[n]) for n in names))
    return {c: np.concatenate([parts[n][c] for n in names]) for c in shared}


def read_npz(path: str | os.PathLike[str]) -> dict[str, Columns]:
    """The parts ("train", "valid", "test", or "" for bare columns) of a numpy archive, each a dict of columns."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise AleatorError(f"'{path}' is not a numpy archive ({error})", "check the file") from None
    parts: dict[str, Columns] = {}
    for name, array in arrays.items():
        part, _, column = name.rpartition("_")
        if column in ALIASES:
            parts.setdefault(part, {})[column] = array
    return {name: columns for name, columns in parts.items() if {"user", "item"} <= set(columns)}


def _frame(source: Any, named: dict[str, str | None]) -> tuple[Columns, str | None, list[str]]:
    if isinstance(source, Mapping):
        import polars as pl

        columns, notes = _pick(pl.DataFrame(source), named, "the columns given")
        return columns, None, notes
    try:
        import narwhals as nw

        table = nw.from_native(source, eager_only=True)
    except TypeError:
        raise AleatorError(
            f"a {type(source).__name__} cannot be read as interactions",
            "give a path, a frame, a dict of columns or a scipy sparse matrix",
        ) from None
    columns, notes = _pick(table, named, "the frame")
    return columns, table.implementation.name.lower(), notes


def _pick(table: Any, named: dict[str, str | None], where: str) -> tuple[Columns, list[str]]:
    """The columns by role, and a note of those that were not used. `table` is a polars or narwhals frame."""
    present = list(table.columns)
    lowered = {c.lower(): c for c in reversed(present)}
    chosen: dict[str, str] = {}
    for role, name in named.items():
        if name is not None:
            require(name in present, f"{where} has no column '{name}'", f"it has {', '.join(present)}")
            chosen[role] = name
    for role, aliases in ALIASES.items():
        if role not in chosen:
            found = next((lowered[a] for a in aliases.split() if a in lowered), None)
            if found is not None and found not in chosen.values():
                chosen[role] = found
    for role in ("user", "item"):
        require(role in chosen, f"{where} has no {role} column among {', '.join(present)}", f"name it with {role}=")
    require(len(table) > 0, f"{where} has no rows", "give at least one interaction")
    columns = {role: _values(table, name, role, where) for role, name in chosen.items()}
    unused = [c for c in present if c not in chosen.values()]
    return columns, [f"columns not used: {', '.join(unused)}"] if unused else []


def _values(table: Any, name: str, role: str, where: str) -> Array:
    column = table[name]
    if column.is_null().any():
        count = int(column.is_null().sum())
        raise AleatorError(f"column '{name}' of {where} has {count} missing values", "fill them or drop those rows")
    values: Array = column.to_numpy()
    if role == "time" and values.dtype.kind in "OU":
        try:
            values = values.astype("datetime64[us]")
        except ValueError:
            raise AleatorError(f"column '{name}' of {where} is no time", "give numbers or ISO dates") from None
    if role in ("rating", "weight") and values.dtype.kind not in "iufb":
        raise AleatorError(
            f"column '{name}' of {where} is taken as the {role} but holds no numbers", f"name another with {role}="
        )
    return values
