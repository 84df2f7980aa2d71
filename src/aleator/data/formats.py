"""Reading interactions from files, frames, dicts and matrices, and writing them to files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from aleator.data.columns import ALIASES, Columns, Names, by_role, require_nothing_named
from aleator.data.files import format_of, read_file, require_file
from aleator.data.interactions import RATED_NOTE, Interactions
from aleator.data.on_disk import Asked, read_on_disk
from aleator.data.reading import Reading
from aleator.data.tables import read_frame, read_table
from aleator.data.text import SEPARATOR, WITHOUT_HEADER
from aleator.data.vocabulary import Vocabulary
from aleator.errors import AleatorError, need, require, unknown_name
from aleator.paths import as_path
from aleator.progress import progress
from aleator.words import Duplicates, Missing

WRITTEN = ("csv", "tsv", "parquet", "inter", "npz")
TITLE_COLUMNS = ("title", "name", "movie_title")


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
    attributes: Any = None,
    min_rating: float | None = None,
    k_core: int | None = None,
    duplicates: Duplicates = "first",
    sep: str | None = None,
    encoding: str = "utf-8",
    decimal: str = ".",
    dates: str | Sequence[str] | None = None,
    missing: Missing = "error",
    max_bytes: int | None = None,
    on_disk: str | os.PathLike[str] | None = None,
    **about: Any,
) -> Interactions:
    """Read interactions from a file, a frame, a dict of columns or a sparse matrix.

    Columns are found by their usual names, such as user_id, movieId or timestamp, unless they are named here. The
    types of ids are kept. In text files, which have no types, ids become integers if that changes none of them;
    otherwise they stay texts ("007"). Floats without a fraction, which pandas makes of integers beside missing values,
    become integers, and a note says so.

    Args:
        source: A path, a pandas, polars or arrow frame, a dict of columns, or a scipy sparse matrix of users by
            items. The ids of a matrix are its row and column numbers, and its values are the weights.
        format: Format of a file: csv, tsv, parquet, inter (RecBole), u.data or ratings.dat (MovieLens), npz, or
            adjacency (LightGCN's train.txt). By default the name of the file shows it.
        user: Name of the column of users.
        item: Name of the column of items.
        rating: Name of the column of ratings. A rating is only used by `min_rating`.
        weight: Name of the column of weights. A weight multiplies the weight of its pair in every loss.
        time: Name of the column of times: numbers or dates.
        titles: Titles of the items: a mapping from item id to title, or a file. Its column of items has the name that
            `item` gives, or a usual one, or is the first. Its column of titles is named title or name, or is the other
            of two.
        attributes: Attributes of the items, such as a genre or a price, to filter lists by: a file, a frame or a dict of
            columns. Its column of items has the name that `item` gives, or a usual one, or is the first.
        min_rating: Keep only rows with at least this rating.
        k_core: Keep only users and items with at least this many interactions among those that are kept.
        duplicates: What to do with a pair in several rows. "first" keeps the first row in time (in file order
            without times). "sum" adds up the weights.
        sep: Separator of the columns of a text file. By default comma, semicolon, tab, "|" or "::", whichever the first
            lines show, for csv and tsv.
        encoding: Encoding of a text file and of text files of titles and attributes, such as "latin-1".
        decimal: Decimal mark of numbers that are texts, "." or ",".
        dates: Format of times that are texts, such as "%m/%d/%Y %H:%M" for 12/1/2010 8:26 or "%d.%m.%Y" for 01.12.2010.
            Of several formats, the first that fits a text is used. By default times are numbers or ISO dates.
        missing: What to do with rows that lack a value in a column that is used. "error" refuses them. "drop" leaves
            them out, and a note counts them.
        max_bytes: The most memory that a file may expand to, for files that are compressed. A file that would take more
            is refused before it is read. By default 512 MiB, or 200 times the size of the file if that is more.
        on_disk: A folder for data that is larger than memory. The source is a parquet file, or a folder of them. It is
            read in pieces into files of this folder, which are then mapped into memory. The same call finds them again.
            `k_core` and `in_time_order` are refused, since they need all pairs in memory.
        **about: `in_time_order=True` says that the rows of each user are in order of time.

    Returns:
        The interactions. Their `notes` say what reading and cleaning did.

    Example:
        >>> data = read({"user_id": ["ann", "ann", "bob"], "movieId": [7, 9, 7], "stars": [5, 2, 4]}, min_rating=4)
        >>> data
        Interactions(2 pairs, 2 users, 1 items)
        >>> data.notes
        ('min_rating 4: 1 of 3 rows dropped',)
    """
    named = {"user": user, "item": item, "rating": rating, "weight": weight, "time": time}
    for name in about:
        if name != "in_time_order":
            known = ["format", *named, "titles", "attributes", "min_rating", "k_core", "duplicates", "in_time_order"]
            known += ["sep", "encoding", "decimal", "dates", "missing", "max_bytes", "on_disk"]
            raise unknown_name("option of read", name, known)
    written = Reading.of(sep, encoding, decimal, dates, missing, max_bytes)
    of_items = any(isinstance(each, (str, os.PathLike)) and _is_text(each) for each in (titles, attributes))
    others_alone = of_items and not _is_text(source, format)  # the encoding is that of titles and attributes
    reading = replace(written, encoding="utf-8") if others_alone else written
    if on_disk is None:
        columns, frame, notes = _columns(source, format, named, reading)
        data = Interactions.of(
            **columns, min_rating=min_rating, duplicates=duplicates, frame=frame, notes=tuple(notes), **about
        ).with_whole_ids()
        if data.rating is not None and min_rating is None:
            data = replace(data, notes=(*data.notes, RATED_NOTE))
        data = data.clean(k_core=k_core)
    else:
        refused = {"k_core": k_core is not None, "format": format not in (None, "parquet"), **about}
        option = next((name for name, given in refused.items() if given), None)
        require(
            option is None, f"{option} was given with on_disk, which reads parquet in pieces", f"leave out {option}"
        )
        data = read_on_disk(source, on_disk, Asked(named, min_rating, duplicates, reading))
    data = data if attributes is None else data.with_attributes(attributes, item, encoding)
    return data if titles is None else data.with_titles(read_titles(titles, written, item, data.items))


def _is_text(source: Any, format: str | None = None) -> bool:
    """Whether a source is a text file, which has an encoding."""
    if not isinstance(source, (str, os.PathLike)) or Path(source).is_dir():
        return False
    return (format_of(Path(source)) if format is None else format.lower()) in SEPARATOR


def _columns(source: Any, format: str | None, named: Names, reading: Reading) -> tuple[Columns, str | None, list[str]]:
    """The columns of any source by role, the kind of frame it is (or None), and notes."""
    if isinstance(source, (str, os.PathLike)):
        with progress(f"reading {Path(source).name}", None):
            columns, notes = read_file(Path(source), format, named, reading)
        return columns, None, notes
    require(format is None, "format was given but the source is not a file", "leave format out")
    reading.require_no_text("the source")
    if sp.issparse(source):
        return _matrix(source, named), None, []
    if isinstance(source, Mapping):
        columns, notes = by_role(source, named, "the dict", reading)
        return columns, None, notes
    return read_frame(source, named, reading)


def _matrix(matrix: Any, named: Names) -> Columns:
    require_nothing_named(named, "a matrix")
    require(matrix.ndim == 2, f"the matrix has {matrix.ndim} dimensions", "give a matrix of users by items")
    coo = sp.coo_matrix(matrix, copy=True)
    coo.sum_duplicates()  # scipy defines repeated entries as their sum
    keep = coo.data != 0
    columns: Columns = {"user": coo.row[keep], "item": coo.col[keep]}
    weight = coo.data[keep]
    return columns if (weight == 1).all() else {**columns, "weight": weight}


def read_titles(
    source: Mapping[Any, str] | str | os.PathLike[str],
    reading: Reading | None = None,
    item: str | None = None,
    items: Vocabulary | None = None,
) -> dict[Any, str]:
    """Item titles by external id, from a mapping or from a table file.

    In a file, the item column is the one named `item`, or the first with a usual name, or else the first of all. The
    title column is the first named title, name or movie_title, or the other one of two. MovieLens' movies.dat has no
    names: there they are the first and the second column. A file without a title of one of the `items` is an error.
    """
    if isinstance(source, Mapping):
        return dict(source)
    named = isinstance(source, (str, os.PathLike))
    require(named, f"titles is a {type(source).__name__}", "give a mapping from item id to title, or a file")
    path = Path(source)
    require_file(path)
    format = format_of(path)
    reading = Reading() if reading is None else Reading(encoding=reading.encoding, max_bytes=reading.max_bytes)
    table = read_table(path, format, reading)
    require(table.width > 1, f"'{path}' has one column", "give a file with an item column and a title column")
    usual = [name for name in table.columns if name.lower() in (*ALIASES["item"].split(), "id")]
    of_items = item if item in table.columns else [*usual, *table.columns][0]
    others = [name for name in table.columns if name != of_items]
    of_titles = [name for name in others if name.lower() in TITLE_COLUMNS]
    if format in WITHOUT_HEADER or len(others) == 1:
        of_titles = others
    told = f"'{path}' has no column of titles among {', '.join(others)}"
    require(len(of_titles) > 0, told, f"name one of them {TITLE_COLUMNS[0]}")
    pairs = zip(table[of_items].to_list(), table[of_titles[0]].to_list(), strict=True)
    found = {item_id: text for item_id, text in pairs if text is not None}
    if items is not None:
        known = set(map(str, found))
        told = f"column '{of_items}' of '{path}' holds no item of the data"
        remedy = "put the ids of the items into the first column, or name it item_id"
        require(any(str(each) in known for each in items.ids.tolist()), told, remedy)
    return found


def write(data: Interactions, path: str | os.PathLike[str]) -> None:
    """Write interactions to a file that `aleator.read` can read.

    Only parquet and npz keep the types of ids. From the other formats, texts that are whole numbers come back as
    integers. Titles and notes are not written. If writing fails, an older file of that name stays as it was.

    Args:
        data: The interactions.
        path: Where to write. The ending is the format: csv, tsv, parquet, inter (RecBole) or npz.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> data = Interactions.of(["ann", "bob"], [7, 9])
        >>> with TemporaryDirectory() as folder:
        ...     write(data, f"{folder}/pairs.npz")
        ...     read(f"{folder}/pairs.npz")
        Interactions(2 pairs, 2 users, 2 items)
    """
    target = as_path(path)
    format = check_place(target)
    columns: Columns = {"user": data.users.decode(data.user), "item": data.items.decode(data.item)}
    optional = {"rating": data.rating, "weight": data.weight, "time": data.time}
    columns |= {name: values for name, values in optional.items() if values is not None}
    part = target.with_name(f".{target.name}.part")  # renamed at the end, so that `target` is never half-written
    try:
        _write(columns, part, format)
        part.replace(target)
    except OSError as error:
        problem = f"'{target}' cannot be written ({error.strerror or error})"
        raise AleatorError(problem, "check the folder and the free space") from None
    finally:
        part.unlink(missing_ok=True)


def check_place(target: Path, folder_exists: bool = True) -> str:
    """The format of a file to write. Raise an error if its name shows none, or if there is no folder for it."""
    format = target.suffix.lstrip(".").lower()
    endings = "csv, tsv, parquet, inter or npz"
    require(format in WRITTEN, f"'{target.name}' does not name a format that can be written", f"end it in {endings}")
    there = target.parent.is_dir() or not folder_exists
    require(there, f"there is no folder '{target.parent}'", "make it first")
    return format


def _write(columns: Columns, target: Path, format: str) -> None:
    if format == "npz":
        cut = any(values.dtype == object and any(text[-1:] == "\0" for text in values) for values in columns.values())
        require(not cut, "an id ends in a NUL, which npz files do not keep", "write a parquet file")
        arrays = {name: values.astype(str) if values.dtype == object else values for name, values in columns.items()}
        with target.open("wb") as file:
            np.savez_compressed(file, **arrays)
        return
    need("polars", "reading and writing tables")
    import polars as pl

    table = pl.DataFrame({name: list(values) if values.dtype == object else values for name, values in columns.items()})
    if format == "parquet":
        table.write_parquet(target)
    elif format == "csv":
        table.write_csv(target)
    elif format == "tsv":
        table.write_csv(target, separator="\t")
    else:
        header = {"user": "user_id:token", "item": "item_id:token", "time": "timestamp:float"}
        table = table.rename({name: header.get(name, f"{name}:float") for name in table.columns})
        table.write_csv(target, separator="\t")
