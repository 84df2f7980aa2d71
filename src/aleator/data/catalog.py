"""The catalogue: benchmark datasets by name, from a local folder or from their publisher.

No data is part of Aleator. The terms of the datasets differ, and most forbid passing the files on. A dataset is looked
for in the folder that is given, then in $ALEATOR_DATA, then in the cache ($XDG_CACHE_HOME/aleator or ~/.cache/aleator).
In each place, an archive is tried first: `yelp2018.npz` with the arrays train_user, train_item, test_user and so on.
Then the publisher's files are tried, in a folder named after the dataset (`yelp2018/train.txt`). A dataset that is in
none of these places is downloaded into the cache. Every source gives the same split.
"""

from __future__ import annotations

import csv
import gzip
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from aleator.data.archives import read_parts
from aleator.data.datasets import CATALOG, Dataset, Source
from aleator.data.interactions import Interactions
from aleator.data.publishers import bring
from aleator.data.raw import Columns, Parts, Titles
from aleator.data.splits import Split
from aleator.errors import AleatorError, require, unknown_name


def names() -> list[str]:
    """The names that `load_dataset` knows."""
    return list(CATALOG)


def dataset(name: str) -> Dataset:
    """The entry of a dataset in the catalogue: its size, source, terms and citation."""
    if name not in CATALOG:
        raise unknown_name("dataset", name, CATALOG)
    return CATALOG[name]


def load_dataset(name: str, root: str | os.PathLike[str] | None = None, download: bool = True) -> Split:
    """Load the benchmark split of a dataset of the catalogue.

    The ids are the publisher's integers. Rows that are not known to be in order of time are sorted by user and item.
    So the split does not depend on where the files came from.

    Args:
        name: Name of the dataset: "yelp2018", "amazon-book", "gowalla", "adressa", "ml-10m", "ml-100k", "ml-1m",
            "amazon-book-kgat" or "coat".
        root: Folder to look in first. Then follow the folder $ALEATOR_DATA and the cache. Each may hold an archive
            such as yelp2018.npz, or the publisher's files in a folder such as yelp2018.
        download: Whether to download the files into the cache if they are in none of these places.

    Returns:
        The split. `aleator data describe NAME` shows its citation and its terms.

    Example:
        >>> split = load_dataset("ml-100k")  # doctest: +SKIP
        >>> split  # doctest: +SKIP
        Split(ml-100k: 943 users, 1,682 items; train 90,570, valid 0, test 9,430 pairs)
    """
    entry = dataset(name)
    given = [Path(place) for place in (root, os.environ.get("ALEATOR_DATA")) if place]
    for place in given:
        require(place.is_dir(), f"there is no folder '{place}'", "check the data root or ALEATOR_DATA")
    places = [*given, cache_folder()]
    for place in places:
        if (place / entry.archive).is_file():
            return _from_archive(entry, place)
        for source in entry.sources:
            if source.is_in(place / name):
                return _from_source(entry, source, place / name)
    problem = f"{name} is not in " + ", ".join(f"'{place}'" for place in places)
    remedy = f"put {entry.archive} or the files of {entry.page} (into a folder {name}) there"
    require(download, problem, f"{remedy}, or allow the download")
    try:
        source = bring(entry, cache_folder() / name)
    except AleatorError as error:
        raise AleatorError(f"{problem} and could not be downloaded ({error.problem})", remedy) from error
    return _from_source(entry, source, cache_folder() / name)


def at_hand(root: str | os.PathLike[str] | None = None) -> list[str]:
    """The names of the datasets that `load_dataset` finds without a download."""
    places = [Path(place) for place in (root, os.environ.get("ALEATOR_DATA"), cache_folder()) if place]

    def is_in(place: Path, entry: Dataset) -> bool:
        return (place / entry.archive).is_file() or any(source.is_in(place / entry.name) for source in entry.sources)

    return [name for name, entry in CATALOG.items() if any(is_in(place, entry) for place in places)]


def cache_folder() -> Path:
    """The folder where downloads are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aleator"


def _from_archive(entry: Dataset, folder: Path) -> Split:
    path = folder / entry.archive
    parts = read_parts(path)
    require({"train", "test"} <= set(parts), f"'{path}' lacks train or test pairs", "replace it by a whole archive")
    for columns in parts.values():
        for side in ("user", "item"):
            columns[side] = columns[side].astype(np.int64) + entry.first_id
    titles: Titles = {}
    if entry.archive_titles and (folder / entry.archive_titles).is_file():
        with gzip.open(folder / entry.archive_titles, "rt", encoding="utf-8", newline="") as text:
            titles = {int(row["item"]) + entry.first_id: row["title"].strip() for row in csv.DictReader(text)}
    return _split(entry, parts, titles)


def _from_source(entry: Dataset, source: Source, folder: Path) -> Split:
    try:
        parts = source.prepare(folder)
        titles = source.titles(folder) if source.titles else {}
    except (ValueError, IndexError, OSError, zipfile.BadZipFile) as error:
        problem = f"the files in '{folder}' cannot be read ({str(error).splitlines()[0]})"
        raise AleatorError(problem, "delete them so that they are downloaded again") from error
    return _split(entry, parts, titles)


def _split(entry: Dataset, parts: Parts, titles: Titles) -> Split:
    """The split of parts with the publisher's ids."""
    expected = {"train": entry.train, "valid": entry.valid, "test": entry.test}
    made = {}
    for name, n_expected in expected.items():
        if name in parts:
            part = _interactions(entry, parts[name], name, n_expected)
            made[name] = part.with_titles(titles) if titles else part
    about = {"name": entry.name, "valid_by": entry.valid_by, "paper_tail": entry.paper_tail}
    split = Split.of(made["train"], made["test"], made.get("valid"), **about)
    return split if entry.liked is None else _liked(split, entry.liked)


def _liked(split: Split, least: float) -> Split:
    """The split of the pairs that are rated at least `least`. Its test pairs of any rating are `judged`."""

    def kept(part: Interactions) -> Interactions:
        assert part.rating is not None
        return part.take(part.rating >= least)

    return replace(split, train=kept(split.train), valid=kept(split.valid), test=kept(split.test), judged=split.test)


def _interactions(entry: Dataset, given: Columns, name: str, n_expected: int) -> Interactions:
    in_time_order = entry.in_time_order
    columns: Columns = {column: np.asarray(values) for column, values in given.items()}
    for column in ("user", "item", "time"):
        if column in columns:
            columns[column] = columns[column].astype(np.int64)
    if not in_time_order:
        order = np.lexsort((columns["item"], columns["user"]))
        columns = {column: values[order] for column, values in columns.items()}
    n = len(columns["user"])
    notes = []
    if "rating" in columns:
        positive = "every rated pair" if entry.liked is None else f"a pair rated at least {entry.liked:g}"
        notes.append(f"rating: {positive} counts as an interaction")
    if n != n_expected:
        notes.append(f"{name}: {n:,} pairs where the catalogue has {n_expected:,}")
    return Interactions.of(**columns, in_time_order=in_time_order, notes=tuple(notes))
