"""Raw files of publishers, plain in a folder or within a zip file there, and how they become benchmark splits."""

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
from aleator.errors import AleatorError

Columns = dict[str, Any]  # user, item, and where known rating and time, aligned
Parts = dict[str, Columns]  # train, test and where there is one valid
Titles = dict[int, str]


def find(folder: Path, name: str) -> tuple[Path, str | None] | None:
    """The plain file, or the zip file and the member of it, or None."""
    if (folder / name).is_file():
        return folder / name, None
    for path in sorted(folder.glob("*.zip")):
        try:
            with zipfile.ZipFile(path) as packed:
                member = next((m for m in packed.namelist() if m.rpartition("/")[2] == name), None)
        except zipfile.BadZipFile:
            raise AleatorError(f"'{path}' is not a zip file", "delete it so that it is fetched again") from None
        if member is not None:
            return path, member
    return None


def plain(folder: Path, name: str) -> Path:
    """The path of a file, unpacked beside the zip file that holds it where need be."""
    found = find(folder, name)
    assert found is not None, "asked for before it was looked for"
    path, member = found
    if member is not None:
        part = folder / f"{name}.part"
        with zipfile.ZipFile(path) as packed:
            part.write_bytes(packed.read(member))
        os.replace(part, folder / name)
    return folder / name


def text(folder: Path, name: str, encoding: str = "latin-1") -> str:
    found = find(folder, name)
    assert found is not None, "asked for before it was looked for"
    path, member = found
    if member is None:
        return path.read_text(encoding)
    with zipfile.ZipFile(path) as packed:
        return packed.read(member).decode(encoding)


def ratings(text: str, header: bool = False) -> Columns:
    """Lines of user, item, rating and time, apart by tabs or by "::"."""
    rows = np.loadtxt(io.StringIO(text.replace("::", "\t")), skiprows=int(header), ndmin=2)
    return {"user": rows[:, 0], "item": rows[:, 1], "rating": rows[:, 2], "time": rows[:, 3]}


def take(columns: Columns, rows: Array) -> Columns:
    return {name: values[rows] for name, values in columns.items()}


def place_in_user(user: Array, *order: Array) -> Array:
    """[n] position of each row among those of its user, by the keys of `order`, then by the order of the rows."""
    rows = np.lexsort((*reversed(order), user))
    first = np.searchsorted(user[rows], user[rows])
    place = np.empty(len(user), np.int64)
    place[rows] = np.arange(len(user)) - first
    return place


def adjacency(folder: Path) -> Parts:
    """LightGCN's train.txt and test.txt: a line for a user, then its items."""

    def columns(name: str) -> Columns:
        data = read(plain(folder, name), format="adjacency")
        return {"user": data.users.decode(data.user), "item": data.items.decode(data.item)}

    return {"train": columns("train.txt"), "test": columns("test.txt")}


def dice(folder: Path) -> Parts:
    """DICE's sparse matrices. Its pairs drawn evenly for training (train_skew) are training pairs too."""

    def columns(*names: str) -> Columns:
        found = [sp.coo_matrix(sp.load_npz(plain(folder, name))) for name in names]
        return {"user": np.concatenate([m.row for m in found]), "item": np.concatenate([m.col for m in found])}

    return {
        "train": columns("train_coo_record.npz", "train_skew_coo_record.npz"),
        "valid": columns("val_coo_record.npz"),
        "test": columns("test_coo_record.npz"),
    }


def coat(folder: Path) -> Parts:
    """Two matrices of ratings, 0 where there is none; ids are row and column numbers."""

    def columns(name: str) -> Columns:
        ratings = np.loadtxt(io.StringIO(text(folder, name)), ndmin=2)
        user, item = np.nonzero(ratings)
        return {"user": user, "item": item, "rating": ratings[user, item]}

    return {"train": columns("train.ascii"), "test": columns("test.ascii")}


def ml100k_official(folder: Path) -> Parts:
    """GroupLens' own ua split: ten ratings of each user are held out."""
    return {"train": ratings(text(folder, "ua.base")), "test": ratings(text(folder, "ua.test"))}


def ml100k_recbole(folder: Path) -> Parts:
    """The ua split out of RecBole's file: its test is the first ten rows of each user, in the order of the file."""
    every = ratings(text(folder, "ml-100k.inter"), header=True)
    held = place_in_user(every["user"]) < 10
    return {"train": take(every, ~held), "test": take(every, held)}


def ml100k_recbole_titles(folder: Path) -> Titles:
    """As GroupLens writes them: "Toy Story (1995)"; RecBole's file has title and year apart, and one misspelt."""
    if find(folder, "ml-100k.item") is None:
        return {}
    rows = csv.reader(text(folder, "ml-100k.item", "utf-8").splitlines()[1:], delimiter="\t", quoting=csv.QUOTE_NONE)
    return {int(r[0]): "unknown" if r[1] == "unkonwn" else f"{r[1].strip()} ({r[2]})" for r in rows}


def ml1m(folder: Path) -> Parts:
    """Each user's ten latest ratings are the test; ties in time go by item."""
    every = ratings(text(folder, "ratings.dat"))
    held = place_in_user(every["user"], -every["time"], -every["item"]) < 10
    return {"train": take(every, ~held), "test": take(every, held)}


def listed_titles(name: str, separator: str) -> Callable[[Path], Titles]:
    """Titles of a MovieLens list of items: id, title and more, apart by `separator`."""

    def titles(folder: Path) -> Titles:
        if find(folder, name) is None:
            return {}
        rows = (line.split(separator) for line in text(folder, name).splitlines() if line)
        return {int(row[0]): row[1].strip() for row in rows}

    return titles
