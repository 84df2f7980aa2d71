"""The catalogue: benchmark datasets by name, from a local folder or from their publisher.

None of the data is part of Aleator: terms differ, and most forbid passing the files on. A dataset is looked for in the
folder that is given, in $ALEATOR_DATA, then in the cache ($XDG_CACHE_HOME/aleator or ~/.cache/aleator); in each first as
an archive (`yelp2018.npz`: arrays train_user, train_item, test_user ...), then as the publisher's files in a folder of
its name (`yelp2018/train.txt`). What is nowhere is downloaded into the cache. Every source gives the same split.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from aleator.data.download import digest, fetch
from aleator.data.formats import read, read_npz
from aleator.data.interactions import Array, Interactions
from aleator.data.splits import Split, ValidBy, given
from aleator.data.tail import Tail
from aleator.errors import AleatorError, require, unknown_name

Columns = dict[str, Any]  # user, item, and where known rating and time, aligned
Parts = dict[str, Columns]  # train, test and where there is one valid
Titles = dict[int, str]


@dataclass(frozen=True)
class File:
    """One file of a publisher."""

    name: str
    url: str  # in a wheel: the path within it
    checksum: str | None = None  # "git:...", "md5:..." or "sha256:..."; None where none is known
    size: int | None = None  # bytes


@dataclass(frozen=True)
class Source:
    """One set of raw files that the benchmark split can be made of."""

    reads: tuple[str, ...]  # what `prepare` needs, plain in the folder or within a zip file there
    prepare: Callable[[Path], Parts]
    files: tuple[File, ...] = ()  # what to download; empty where it must be fetched by hand
    titles: Callable[[Path], Titles] | None = None
    wheel: str | None = None  # the pip requirement whose wheel holds the files


@dataclass(frozen=True)
class Dataset:
    """What is known of a dataset: its size, where it comes from, and how raw files become the benchmark split."""

    name: str
    title: str
    users: int
    items: int
    train: int  # pairs, as the files give them
    valid: int
    test: int
    citation: str
    terms: str
    page: str  # where the publisher speaks of it
    archive: str  # name of the numpy archive, where there is one
    sources: tuple[Source, ...]  # in the order in which a download is tried
    valid_by: ValidBy  # how a validation part looks like the test
    in_time_order: bool = False  # the items of a user are in time order although no times are known
    paper_tail: Tail | None = None  # the cut of the paper's released program
    first_id: int = 0  # the original id of the archive's 0
    archive_titles: str | None = None  # a csv.gz beside the archive with the columns item and title
    note: str = ""


def names() -> list[str]:
    """The names that `load` knows."""
    return list(CATALOG)


def dataset(name: str) -> Dataset:
    """The entry of the catalogue."""
    if name not in CATALOG:
        raise unknown_name("dataset", name, CATALOG)
    return CATALOG[name]


def load(name: str, root: str | os.PathLike[str] | None = None, download: bool = True) -> Split:
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
    """The names of the datasets that `load` finds without a download."""
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
    return given(part("train"), part("test"), part("valid") if "valid" in parts else None, **about)


def _from_archive(entry: Dataset, folder: Path) -> Split:
    path = folder / entry.archive
    parts = read_npz(path)
    require({"train", "test"} <= set(parts), f"'{path}' lacks train or test pairs", "replace it by a whole archive")
    for columns in parts.values():
        columns |= {side: columns[side].astype(np.int64) + entry.first_id for side in ("user", "item")}
    titles: Titles = {}
    if entry.archive_titles and (folder / entry.archive_titles).is_file():
        with gzip.open(folder / entry.archive_titles, "rt", encoding="utf-8", newline="") as text:
            titles = {int(row["item"]) + entry.first_id: row["title"].strip() for row in csv.DictReader(text)}
    return _split(entry, parts, titles)


# Raw files: found plain in the folder of the dataset or within a zip file there, as the publisher packed them.


def _complete(folder: Path, source: Source) -> bool:
    return folder.is_dir() and all(_find(folder, name) is not None for name in source.reads)


def _find(folder: Path, name: str) -> tuple[Path, str | None] | None:
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


def _text(folder: Path, name: str, encoding: str = "latin-1") -> str:
    found = _find(folder, name)
    assert found is not None, "asked for before it was looked for"
    path, member = found
    if member is None:
        return path.read_text(encoding)
    with zipfile.ZipFile(path) as packed:
        return packed.read(member).decode(encoding)


def _read_source(source: Source, folder: Path) -> tuple[Parts, Titles]:
    try:
        return source.prepare(folder), source.titles(folder) if source.titles else {}
    except (ValueError, IndexError, OSError, zipfile.BadZipFile) as error:
        what = f"the files in '{folder}' cannot be read ({str(error).splitlines()[0]})"
        raise AleatorError(what, "delete them so that they are fetched again") from error


def _ratings(text: str, header: bool = False) -> Columns:
    """Lines of user, item, rating and time, apart by tabs or by "::"."""
    rows = np.loadtxt(io.StringIO(text.replace("::", "\t")), skiprows=int(header), ndmin=2)
    return {"user": rows[:, 0], "item": rows[:, 1], "rating": rows[:, 2], "time": rows[:, 3]}


def _take(columns: Columns, rows: Array) -> Columns:
    return {name: values[rows] for name, values in columns.items()}


def _place_in_user(user: Array, *order: Array) -> Array:
    """[n] position of each row among those of its user, by the keys of `order`, then by the order of the rows."""
    rows = np.lexsort((*reversed(order), user))
    first = np.searchsorted(user[rows], user[rows])
    place = np.empty(len(user), np.int64)
    place[rows] = np.arange(len(user)) - first
    return place


def _adjacency(folder: Path) -> Parts:
    """LightGCN's train.txt and test.txt: a line for a user, then its items."""

    def columns(name: str) -> Columns:
        data = read(folder / name, format="adjacency")
        return {"user": data.users.decode(data.user), "item": data.items.decode(data.item)}

    return {"train": columns("train.txt"), "test": columns("test.txt")}


def _dice(folder: Path) -> Parts:
    """DICE's sparse matrices. Its pairs drawn evenly for training (train_skew) are training pairs too."""

    def columns(*names: str) -> Columns:
        found = [sp.coo_matrix(sp.load_npz(folder / name)) for name in names]
        return {"user": np.concatenate([m.row for m in found]), "item": np.concatenate([m.col for m in found])}

    return {
        "train": columns("train_coo_record.npz", "train_skew_coo_record.npz"),
        "valid": columns("val_coo_record.npz"),
        "test": columns("test_coo_record.npz"),
    }


def _coat(folder: Path) -> Parts:
    """Two matrices of ratings, 0 where there is none; ids are row and column numbers."""

    def columns(name: str) -> Columns:
        ratings = np.loadtxt(io.StringIO(_text(folder, name)), ndmin=2)
        user, item = np.nonzero(ratings)
        return {"user": user, "item": item, "rating": ratings[user, item]}

    return {"train": columns("train.ascii"), "test": columns("test.ascii")}


def _ml100k_official(folder: Path) -> Parts:
    """GroupLens' own ua split: ten ratings of each user are held out."""
    return {"train": _ratings(_text(folder, "ua.base")), "test": _ratings(_text(folder, "ua.test"))}


def _ml100k_recbole(folder: Path) -> Parts:
    """The ua split out of RecBole's file: its test is the first ten rows of each user, in the order of the file."""
    every = _ratings(_text(folder, "ml-100k.inter"), header=True)
    held = _place_in_user(every["user"]) < 10
    return {"train": _take(every, ~held), "test": _take(every, held)}


def _ml100k_recbole_titles(folder: Path) -> Titles:
    """As GroupLens writes them: "Toy Story (1995)"; RecBole's file has title and year apart, and one misspelt."""
    if _find(folder, "ml-100k.item") is None:
        return {}
    rows = csv.reader(_text(folder, "ml-100k.item", "utf-8").splitlines()[1:], delimiter="\t", quoting=csv.QUOTE_NONE)
    return {int(r[0]): "unknown" if r[1] == "unkonwn" else f"{r[1].strip()} ({r[2]})" for r in rows}


def _ml1m(folder: Path) -> Parts:
    """Each user's ten latest ratings are the test; ties in time go by item."""
    every = _ratings(_text(folder, "ratings.dat"))
    held = _place_in_user(every["user"], -every["time"], -every["item"]) < 10
    return {"train": _take(every, ~held), "test": _take(every, held)}


def _listed_titles(name: str, separator: str) -> Callable[[Path], Titles]:
    """Titles of a MovieLens list of items: id, title and more, apart by `separator`."""

    def titles(folder: Path) -> Titles:
        if _find(folder, name) is None:
            return {}
        rows = (line.split(separator) for line in _text(folder, name).splitlines() if line)
        return {int(row[0]): row[1].strip() for row in rows}

    return titles


# Downloads


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


# The entries

_LIGHTGCN = "https://raw.githubusercontent.com/gusye1234/LightGCN-PyTorch/master/data"
_MACR = "https://raw.githubusercontent.com/weitianxin/MACR/main/data"
_KGAT = "https://raw.githubusercontent.com/xiangwang1223/knowledge_graph_attention_network/master/Data"
_GROUPLENS = "https://files.grouplens.org/datasets/movielens"
_MOVIELENS = (
    "F. M. Harper and J. A. Konstan. The MovieLens Datasets: History and Context. ACM Transactions on Interactive "
    "Intelligent Systems 5(4), 2015."
)
_MOVIELENS_TERMS = "For research; no redistribution and no commercial use without GroupLens' permission."
_LIGHTGCN_SPLIT = (
    "Split of X. He, K. Deng, X. Wang, Y. Li, Y. Zhang and M. Wang. LightGCN: Simplifying and Powering Graph Convolution "
    "Network for Recommendation. SIGIR 2020."
)


def _train_and_test(base: str, train: str | None, test: str | None, sizes: tuple[int | None, int | None]) -> Source:
    """LightGCN's two files below `base`, with their checksums and sizes where known."""
    files = (
        File("train.txt", f"{base}/train.txt", train, sizes[0]),
        File("test.txt", f"{base}/test.txt", test, sizes[1]),
    )
    return Source(("train.txt", "test.txt"), _adjacency, files)


_ENTRIES = (
    Dataset(
        name="yelp2018",
        title="Yelp2018, the LightGCN split",
        users=31_668,
        items=38_048,
        train=1_237_259,
        valid=0,
        test=324_147,
        citation=f"Yelp Open Dataset (challenge of 2018). {_LIGHTGCN_SPLIT}",
        terms="Yelp's dataset licence: academic, non-commercial use, no redistribution.",
        page="https://github.com/gusye1234/LightGCN-PyTorch",
        archive="yelp2018.npz",
        sources=(
            _train_and_test(
                f"{_LIGHTGCN}/yelp2018",
                "git:cda12361055ba448ae4bd1070f6000c16dea8f22",
                "git:30dfbc3437b27b74cb2970b435a5ec93ad9f2468",
                (6_904_880, 1_986_152),
            ),
        ),
        valid_by="user_time",
        in_time_order=True,
        paper_tail=Tail.count(56),
        note="Each user's items stand in time order in the file, judged by how item popularity drifts along it.",
    ),
    Dataset(
        name="amazon-book",
        title="Amazon-Book, the LightGCN split",
        users=52_643,
        items=91_599,
        train=2_380_730,
        valid=0,
        test=603_378,
        citation=(
            "R. He and J. McAuley. Ups and Downs: Modeling the Visual Evolution of Fashion Trends with One-Class "
            f"Collaborative Filtering. WWW 2016. {_LIGHTGCN_SPLIT}"
        ),
        terms="Published for research, without an explicit licence.",
        page="https://github.com/gusye1234/LightGCN-PyTorch",
        archive="amazon_book.npz",
        sources=(
            _train_and_test(
                f"{_LIGHTGCN}/amazon-book",
                "git:6ef55159c5f1fd7f6d86eb9ff290d0cc2854ac99",
                "git:09e5da4e0bf46c751c4ba0f4375e414fd13512cd",
                (None, 3_848_611),
            ),
        ),
        valid_by="user_time",
        in_time_order=True,
        paper_tail=Tail.count(39),
        note="The split is chronological and item popularity drifts strongly between its parts.",
    ),
    Dataset(
        name="gowalla",
        title="Gowalla check-ins, the LightGCN split",
        users=29_858,
        items=40_981,
        train=810_128,
        valid=0,
        test=217_242,
        citation=(
            "E. Cho, S. A. Myers and J. Leskovec. Friendship and Mobility: User Movement in Location-Based Social "
            f"Networks. KDD 2011. {_LIGHTGCN_SPLIT}"
        ),
        terms="Published for research, without an explicit licence.",
        page="https://github.com/gusye1234/LightGCN-PyTorch",
        archive="gowalla.npz",
        sources=(
            _train_and_test(
                f"{_LIGHTGCN}/gowalla",
                "git:a27782bd7a1d4d0744148dc0460ea94da74763f2",
                "git:9ed5af4b5d21511f33740b4e22e3852f45671800",
                (None, 1_372_559),
            ),
        ),
        valid_by="user_time",
        in_time_order=True,
    ),
    Dataset(
        name="adressa",
        title="Adressa news, as MACR and AUR use it",
        users=13_485,
        items=744,
        train=113_345,
        valid=0,
        test=2_976,
        citation=(
            "J. A. Gulla, L. Zhang, P. Liu, O. Ozgobek and X. Su. The Adressa Dataset for News Recommendation. WI 2017. "
            "Preparation of T. Wei, F. Feng, J. Chen, Z. Wu, J. Yi and X. He. Model-Agnostic Counterfactual Reasoning "
            "for Eliminating Popularity Bias in Recommender System. KDD 2021."
        ),
        terms="For research; ask the publisher for any other use.",
        page="https://github.com/weitianxin/MACR",
        archive="adressa.npz",
        sources=(_train_and_test(f"{_MACR}/addressa", None, None, (None, None)),),
        valid_by="balanced",
        paper_tail=Tail.count(500),
        note="The test holds exactly 4 pairs of each item. No checksum is known: what is downloaded is not verified.",
    ),
    Dataset(
        name="ml-10m",
        title="MovieLens-10M, as DICE prepares it",
        users=37_962,
        items=4_819,
        train=960_031,
        valid=137_147,
        test=274_295,
        citation=(
            f"{_MOVIELENS} Preparation of Y. Zheng, C. Gao, X. Li, X. He, D. Jin and Y. Li. Disentangling User Interest "
            "and Conformity for Recommendation with Causal Embedding. WWW 2021."
        ),
        terms=_MOVIELENS_TERMS,
        page="https://github.com/tsinghua-fib-lab/DICE",
        archive="ml10m.npz",
        sources=(
            Source(
                ("train_coo_record.npz", "train_skew_coo_record.npz", "val_coo_record.npz", "test_coo_record.npz"),
                _dice,
            ),
        ),
        valid_by="balanced",
        note=(
            "Not MACR's preparation, which the paper used: not comparable with its figures. Valid and test are drawn "
            "evenly over items. No direct download and no checksum is known."
        ),
    ),
    Dataset(
        name="ml-100k",
        title="MovieLens-100K, the official ua split",
        users=943,
        items=1_682,
        train=90_570,
        valid=0,
        test=9_430,
        citation=_MOVIELENS,
        terms=_MOVIELENS_TERMS,
        page="https://grouplens.org/datasets/movielens/100k/",
        archive="ml100k.npz",
        sources=(
            Source(
                ("ml-100k.inter",),
                _ml100k_recbole,
                (
                    File(
                        "ml-100k.inter",
                        "recbole/dataset_example/ml-100k/ml-100k.inter",
                        "sha256:4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff",
                    ),
                    File(
                        "ml-100k.item",
                        "recbole/dataset_example/ml-100k/ml-100k.item",
                        "sha256:51d7cdf777ce5c0f5b32c1d947a4a81fe07d75e78abbe761e0cd4d0756064532",
                    ),
                ),
                _ml100k_recbole_titles,
                wheel="recbole==1.2.1",
            ),
            Source(
                ("ua.base", "ua.test"),
                _ml100k_official,
                (File("ml-100k.zip", f"{_GROUPLENS}/ml-100k.zip", "md5:0e33842e24a9c977be4e0107933c0723"),),
                _listed_titles("u.item", "|"),
            ),
        ),
        valid_by="each",
        first_id=1,
        archive_titles="ml100k_items.csv.gz",
        note=(
            "Ids are GroupLens' own, from 1; the archive counts from 0 and is moved up by one. The test was drawn at "
            "random. RecBole's wheel is tried first because pip reaches it behind company mirrors."
        ),
    ),
    Dataset(
        name="ml-1m",
        title="MovieLens-1M, each user's ten latest ratings held out",
        users=6_040,
        items=3_706,
        train=939_809,
        valid=0,
        test=60_400,
        citation=_MOVIELENS,
        terms=_MOVIELENS_TERMS,
        page="https://grouplens.org/datasets/movielens/1m/",
        archive="ml1m.npz",
        sources=(
            Source(
                ("ratings.dat",),
                _ml1m,
                (File("ml-1m.zip", f"{_GROUPLENS}/ml-1m.zip", "md5:c4d9eecfca2ab87c1945afe126590906"),),
                _listed_titles("movies.dat", "::"),
            ),
        ),
        valid_by="user_time",
        note="It has no official split: this one is ours, and needs no seed.",
    ),
    Dataset(
        name="amazon-book-kgat",
        title="Amazon-Book, KGAT's 10-core version",
        users=70_679,
        items=24_915,
        train=652_514,
        valid=0,
        test=193_920,
        citation=(
            "X. Wang, X. He, Y. Cao, M. Liu and T.-S. Chua. KGAT: Knowledge Graph Attention Network for Recommendation. "
            "KDD 2019."
        ),
        terms="For research; no redistribution and no commercial use without the authors' permission.",
        page="https://github.com/xiangwang1223/knowledge_graph_attention_network",
        archive="amazon_book_kgat.npz",
        sources=(_train_and_test(f"{_KGAT}/amazon-book", None, None, (None, None)),),
        valid_by="user_time",
        in_time_order=True,
        note=(
            "Not the split of the paper: not comparable with its figures. In time order: item popularity of train and "
            "test correlates by .69, of each user's last tenth with the rest by .83, of a random tenth by .95. No "
            "checksum is known: what is downloaded is not verified."
        ),
    ),
    Dataset(
        name="coat",
        title="Coat Shopping, with ratings",
        users=290,
        items=300,
        train=6_960,
        valid=0,
        test=4_640,
        citation=(
            "T. Schnabel, A. Swaminathan, A. Singh, N. Chandak and T. Joachims. Recommendations as Treatments: Debiasing "
            "Learning and Evaluation. ICML 2016."
        ),
        terms="Published for research; see the publisher's page for any other use.",
        page="https://www.cs.cornell.edu/~schnabts/mnar/",
        archive="coat.npz",
        sources=(
            Source(
                ("train.ascii", "test.ascii"),
                _coat,
                (File("coat.zip", "https://www.cs.cornell.edu/~schnabts/mnar/coat.zip"),),
            ),
        ),
        valid_by="balanced",
        note=(
            "Train is self-selected, test was assigned at random and so is even over items; 366 test pairs also stand in "
            "train and are left out. No checksum is known: what is downloaded is not verified."
        ),
    ),
)
CATALOG = {entry.name: entry for entry in _ENTRIES}
