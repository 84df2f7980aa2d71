"""Raw files of publishers, and how they become benchmark splits. A file may be inside a zip file of its folder."""

from __future__ import annotations

import csv
import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from aleator.data.arrays import Array
from aleator.data.formats import read
from aleator.data.limits import Limit
from aleator.data.sparse import read_sparse
from aleator.errors import AleatorError

Columns = dict[str, Any]  # user, item and, where they are known, rating and time, [n] each
Parts = dict[str, Columns]  # train, test and, where there is one, valid
Titles = dict[int, str]  # title by item id


def find(folder: Path, name: str) -> tuple[Path, str | None] | None:
    """Where a file is: its path and None, or a zip file and the member in it. None if it is nowhere in the folder."""
    if (folder / name).is_file():
        return folder / name, None
    for path in sorted(folder.glob("*.zip")):
        try:
            with zipfile.ZipFile(path) as packed:
                members = [member for member in packed.namelist() if member.rpartition("/")[2] == name]
        except zipfile.BadZipFile:
            raise AleatorError(f"'{path}' is not a zip file", "delete it so that it is downloaded again") from None
        if members:
            return path, members[0]
    return None


def plain(folder: Path, name: str) -> Path:
    """The path of a file. A file in a zip file is unpacked beside it first."""
    path, member = _found(folder, name)
    if member is not None:
        part = folder / f"{name}.part"
        part.write_bytes(_unpacked(path, member))
        os.replace(part, folder / name)
    return folder / name


def text(folder: Path, name: str, encoding: str = "latin-1") -> str:
    """The content of a file."""
    path, member = _found(folder, name)
    if member is None:
        return path.read_text(encoding)
    return _unpacked(path, member).decode(encoding)


def _unpacked(path: Path, member: str) -> bytes:
    with zipfile.ZipFile(path) as packed:
        Limit.of(path).check(packed.getinfo(member).file_size)
        return packed.read(member)


def _found(folder: Path, name: str) -> tuple[Path, str | None]:
    found = find(folder, name)
    assert found is not None, "the catalogue checks with Source.is_in before it reads"
    return found


def ratings(text: str, header: bool = False) -> Columns:
    """The columns of lines with user, item, rating and time, separated by tabs or by "::"."""
    rows = np.loadtxt(io.StringIO(text.replace("::", "\t")), skiprows=int(header), ndmin=2)
    return {"user": rows[:, 0], "item": rows[:, 1], "rating": rows[:, 2], "time": rows[:, 3]}


def take(columns: Columns, rows: Array) -> Columns:
    """Some rows of all columns, by a mask [n]."""
    return {name: values[rows] for name, values in columns.items()}


def place_in_user(user: Array, *order: Array) -> Array:
    """Position of each row among the rows of its user, [n], sorted by the keys of `order` and then by row number."""
    rows = np.lexsort((*reversed(order), user))
    first = np.searchsorted(user[rows], user[rows])
    place = np.empty(len(user), np.int64)
    place[rows] = np.arange(len(user)) - first
    return place


def adjacency(folder: Path) -> Parts:
    """LightGCN's train.txt and test.txt: each line holds a user and the items of that user."""

    def columns(name: str) -> Columns:
        data = read(plain(folder, name), format="adjacency")
        return {"user": data.users.decode(data.user), "item": data.items.decode(data.item)}

    return {"train": columns("train.txt"), "test": columns("test.txt")}


def dice(folder: Path) -> Parts:
    """DICE's sparse matrices. The pairs that it drew evenly over items (train_skew) are training pairs too."""

    def columns(*names: str) -> Columns:
        matrices = [sp.coo_matrix(read_sparse(plain(folder, name))) for name in names]
        user = np.concatenate([matrix.row for matrix in matrices])
        item = np.concatenate([matrix.col for matrix in matrices])
        return {"user": user, "item": item}

    return {
        "train": columns("train_coo_record.npz", "train_skew_coo_record.npz"),
        "valid": columns("val_coo_record.npz"),
        "test": columns("test_coo_record.npz"),
    }


def coat(folder: Path) -> Parts:
    """Two matrices of ratings, with 0 for no rating. The ids are row and column numbers."""

    def columns(name: str) -> Columns:
        ratings = np.loadtxt(io.StringIO(text(folder, name)), ndmin=2)
        user, item = np.nonzero(ratings)
        return {"user": user, "item": item, "rating": ratings[user, item]}

    return {"train": columns("train.ascii"), "test": columns("test.ascii")}


def ml100k_official(folder: Path) -> Parts:
    """GroupLens' own ua split, which holds out ten ratings of each user."""
    return {"train": ratings(text(folder, "ua.base")), "test": ratings(text(folder, "ua.test"))}


def ml100k_recbole(folder: Path) -> Parts:
    """The ua split from RecBole's file, where the first ten rows of each user are the test part."""
    every = ratings(text(folder, "ml-100k.inter"), header=True)
    held = place_in_user(every["user"]) < 10
    return {"train": take(every, ~held), "test": take(every, held)}


def ml100k_recbole_titles(folder: Path) -> Titles:
    """Titles as GroupLens writes them: "Toy Story (1995)". RecBole has title and year in two columns."""
    if find(folder, "ml-100k.item") is None:
        return {}
    lines = text(folder, "ml-100k.item", "utf-8").splitlines()[1:]
    titles: Titles = {}
    for item, title, year, *_ in csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
        misspelt = title == "unkonwn"  # RecBole's file has this spelling for the one item without a title
        titles[int(item)] = "unknown" if misspelt else f"{title.strip()} ({year})"
    return titles


def ml1m(folder: Path) -> Parts:
    """Our own split: the ten latest ratings of each user are the test part. Of equal times, larger items come first."""
    every = ratings(text(folder, "ratings.dat"))
    held = place_in_user(every["user"], -every["time"], -every["item"]) < 10
    return {"train": take(every, ~held), "test": take(every, held)}


def listed_titles(name: str, separator: str) -> Callable[[Path], Titles]:
    """A reader of titles from a MovieLens file. Each line holds an id, a title and more, separated by `separator`."""

    def titles(folder: Path) -> Titles:
        if find(folder, name) is None:
            return {}
        rows = (line.split(separator) for line in text(folder, name).splitlines() if line)
        return {int(row[0]): row[1].strip() for row in rows}

    return titles
