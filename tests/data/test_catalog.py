"""The catalogue: its entries, the places where it looks, and that every source gives the same split."""

from __future__ import annotations

import csv
import gzip
import os
import socket
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from aleator.data import catalog, limits, publishers
from aleator.data.datasets import CATALOG, File
from aleator.data.splits import Split
from aleator.data.tail import Tail
from aleator.errors import AleatorError
from tests.data.helpers import listed

ARCHIVES = Path(os.environ.get("ALEATOR_DATA") or Path(__file__).parents[3] / "shared" / "data")

# users, items, train, valid and test, as the publishers of the archives describe them
COUNTS = {
    "yelp2018": (31_668, 38_048, 1_237_259, 0, 324_147),
    "adressa": (13_485, 744, 113_345, 0, 2_976),
    "ml-10m": (37_962, 4_819, 960_031, 137_147, 274_295),
    "amazon-book-kgat": (70_679, 24_915, 652_514, 0, 193_920),
    "ml-100k": (943, 1_682, 90_570, 0, 9_430),
    "coat": (290, 300, 6_960, 0, 4_640),
}


def archived(name: str) -> Path:
    """The folder of the real archives. Skips the test if the archive is not there."""
    path = ARCHIVES / catalog.dataset(name).archive
    if not path.is_file():
        pytest.skip(f"needs the archive {path.name} in {ARCHIVES} (set ALEATOR_DATA)")
    return ARCHIVES


@pytest.fixture(autouse=True)
def away_from_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use an empty cache folder and no ALEATOR_DATA. Returns the cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("ALEATOR_DATA", raising=False)
    return tmp_path / "cache" / "aleator"


class Publisher(ThreadingHTTPServer):
    asked: list[str]


class Answer(SimpleHTTPRequestHandler):
    server: Publisher

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        super().do_GET()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def publisher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Publisher]:
    """A server of the folder tmp_path/published."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (tmp_path / "published").mkdir()
    with Publisher(("127.0.0.1", 0), partial(Answer, directory=tmp_path / "published")) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def pairs(split: Split, part: str) -> list[tuple[int, int]]:
    """External ids of the pairs of a part, in row order."""
    data = getattr(split, part)
    return list(zip(data.users.decode(data.user).tolist(), data.items.decode(data.item).tolist(), strict=True))


def assert_same(one: Split, other: Split) -> None:
    for part in ("train", "valid", "test"):
        mine, theirs = getattr(one, part), getattr(other, part)
        assert mine.users == theirs.users
        assert mine.items == theirs.items
        for column in ("user", "item", "rating", "time", "titles"):
            left, right = getattr(mine, column), getattr(theirs, column)
            assert (left is None) == (right is None), (part, column)
            if left is not None:
                assert left.dtype == right.dtype, (part, column)
                assert np.array_equal(left, right), (part, column)
        assert mine.notes == theirs.notes
    about = ("name", "valid_by", "paper_tail", "counts")
    assert [getattr(one, a) for a in about] == [getattr(other, a) for a in about]


def put_lightgcn(folder: Path, train: str = "0 3 1\n1 2 0\n", test: str = "0 2\n1\n") -> None:
    folder.mkdir(parents=True)
    (folder / "train.txt").write_text(train)
    (folder / "test.txt").write_text(test)


# Entries


def test_every_entry_is_complete() -> None:
    assert catalog.names() == [
        "yelp2018", "amazon-book", "gowalla", "adressa", "ml-10m", "ml-100k", "ml-1m", "amazon-book-kgat", "coat",
    ]  # fmt: skip
    for name in catalog.names():
        entry = catalog.dataset(name)
        assert entry.name == name
        assert min(entry.users, entry.items, entry.train, entry.test) > 0
        assert entry.citation
        assert entry.terms.endswith(".")
        assert entry.page.startswith("https://")
        for source in entry.sources:
            assert source.files or "No direct download" in entry.note
            for file in source.files:
                assert file.checksum or "No checksum is known" in entry.note
    assert len({entry.archive for entry in CATALOG.values()}) == len(CATALOG)


def test_the_cuts_of_the_papers_program() -> None:
    cuts = {name: entry.paper_tail for name, entry in CATALOG.items() if entry.paper_tail}
    assert cuts == {"yelp2018": Tail.count(56), "amazon-book": Tail.count(39), "adressa": Tail.count(500)}


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(AleatorError, match="unknown dataset 'yelp'; did you mean 'yelp2018'"):
        catalog.load_dataset("yelp")


# The real archives


@pytest.mark.parametrize("name", COUNTS)
def test_archives_give_the_published_counts(name: str) -> None:
    split = catalog.load_dataset(name, archived(name), download=False)
    entry = catalog.dataset(name)
    assert COUNTS[name] == (entry.users, entry.items, entry.train, entry.valid, entry.test)
    assert COUNTS[name] == (
        split.train.n_users,
        split.train.n_items,
        *(split.counts[p] for p in ("train", "valid", "test")),
    )
    assert (split.name, split.valid_by, split.paper_tail) == (name, entry.valid_by, entry.paper_tail)
    assert split.train.in_time_order == entry.in_time_order
    assert not any("catalogue" in note for note in split.train.notes + split.test.notes)
    if name != "ml-100k":  # only this one has the publisher's ids
        assert np.array_equal(split.train.users.ids, np.arange(entry.users))
        assert np.array_equal(split.train.items.ids, np.arange(entry.items))


def test_the_tail_of_yelp2018() -> None:
    popularity = catalog.load_dataset("yelp2018", archived("yelp2018"), download=False).everything.popularity
    assert Tail.mass(0.5).cut(popularity) == 55
    assert round(100 * Tail.mass(0.5).mask(popularity).mean(), 2) == 86.29
    assert round(100 * Tail.count(56).mask(popularity).mean(), 2) == 86.61


def test_coat_leaves_out_test_pairs_that_stand_in_train() -> None:
    split = catalog.load_dataset("coat", archived("coat"), download=False)
    assert split.judged is not None
    assert len(split.judged) == 4_640 - 366
    assert not set(pairs(split, "train")) & set(pairs(split, "test"))


def test_only_liked_pairs_of_coat_are_positive() -> None:
    split = catalog.load_dataset("coat", archived("coat"), download=False)
    for part in (split.train, split.test):
        assert part.rating is not None
        assert set(part.rating.tolist()) == {4, 5}
    assert (len(split.train), len(split.test)) == (1_905, 769)
    assert (split.train.n_users, split.train.n_items) == (290, 300)
    assert catalog.dataset("coat").note.startswith("Pairs rated 4 or 5 are positive, in train and in test.")


def test_the_published_yelp2018_files_pass_their_checksums_and_equal_the_archive(
    publisher: Publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text files are made from the archive. They equal the publisher's files byte for byte, so they must pass."""
    folder = archived("yelp2018")
    with np.load(folder / "yelp2018.npz") as archive:
        for part in ("train", "test"):
            user, item = archive[f"{part}_user"], archive[f"{part}_item"]
            starts = np.flatnonzero(np.diff(user, prepend=-1))
            groups = np.split(item, starts[1:])
            lines = [" ".join(map(str, [u, *items.tolist()])) for u, items in zip(user[starts], groups, strict=True)]
            (tmp_path / "published" / f"{part}.txt").write_bytes(("\n".join(lines) + "\n").encode())
    point_to(publisher.server_port, monkeypatch, "yelp2018")
    assert_same(catalog.load_dataset("yelp2018"), catalog.load_dataset("yelp2018", folder))


# Places


def test_raw_lightgcn_files_in_a_folder(tmp_path: Path) -> None:
    put_lightgcn(tmp_path / "data" / "gowalla")
    split = catalog.load_dataset("gowalla", tmp_path / "data", download=False)
    assert pairs(split, "train") == [(0, 3), (0, 1), (1, 2), (1, 0)]  # a user's items stay in file order
    assert pairs(split, "test") == [(0, 2)]
    assert split.train.in_time_order
    assert pairs(split.carve(0.5), "valid") == [(0, 1), (1, 0)]  # each user's latest
    assert (split.name, split.counts) == ("gowalla", {"train": 4, "valid": 0, "test": 1})
    assert "train: 4 pairs where the catalogue has 810,128" in split.train.notes


def test_a_zip_file_that_would_blow_up_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FREE", 1 << 16)
    folder = tmp_path / "gowalla"
    folder.mkdir()
    with zipfile.ZipFile(folder / "files.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("train.txt", "0 1\n" + "\n" * (1 << 20))
        packed.writestr("test.txt", "0 2\n")
    with pytest.raises(AleatorError, match=r"takes .* bytes of memory or more, and the limit is"):
        catalog.load_dataset("gowalla", tmp_path, download=False)
    assert not list(folder.glob("train*"))


def test_the_given_folder_comes_before_the_variable_and_that_before_the_cache(
    tmp_path: Path, away_from_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_lightgcn(tmp_path / "given" / "gowalla", train="0 10\n")
    put_lightgcn(tmp_path / "named" / "gowalla", train="0 20\n")
    put_lightgcn(away_from_home / "gowalla", train="0 30\n")
    assert pairs(catalog.load_dataset("gowalla", download=False), "train") == [(0, 30)]
    monkeypatch.setenv("ALEATOR_DATA", str(tmp_path / "named"))
    assert pairs(catalog.load_dataset("gowalla", download=False), "train") == [(0, 20)]
    assert pairs(catalog.load_dataset("gowalla", tmp_path / "given", download=False), "train") == [(0, 10)]
    (tmp_path / "given" / "gowalla" / "test.txt").unlink()  # an incomplete dataset does not count
    assert pairs(catalog.load_dataset("gowalla", tmp_path / "given", download=False), "train") == [(0, 20)]


def test_an_archive_comes_before_raw_files(tmp_path: Path) -> None:
    put_lightgcn(tmp_path / "gowalla")
    seven, eight, nine = (np.array([n], np.int32) for n in (7, 8, 9))
    np.savez(tmp_path / "gowalla.npz", train_user=seven, train_item=eight, test_user=seven, test_item=nine)
    assert pairs(catalog.load_dataset("gowalla", tmp_path), "train") == [(7, 8)]


def test_polars_is_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)  # an import of it fails now
    put_lightgcn(tmp_path / "gowalla")
    assert len(catalog.load_dataset("gowalla", tmp_path).train) == 4
    np.savez(tmp_path / "adressa.npz", train_user=[7], train_item=[8], test_user=[7], test_item=[9])
    assert len(catalog.load_dataset("adressa", tmp_path).train) == 1


def test_the_error_for_a_missing_dataset_lists_the_places(tmp_path: Path) -> None:
    with pytest.raises(AleatorError, match=r"gowalla is not in .*; put gowalla\.npz or") as caught:
        catalog.load_dataset("gowalla", tmp_path, download=False)
    assert f"'{tmp_path}'" in caught.value.problem
    with pytest.raises(AleatorError, match="there is no folder"):
        catalog.load_dataset("gowalla", tmp_path / "nowhere")


def test_broken_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "coat").mkdir()
    for name in ("train.ascii", "test.ascii"):
        (tmp_path / "coat" / name).write_text("1 0\n<html>\n")
    with pytest.raises(AleatorError, match="cannot be read"):
        catalog.load_dataset("coat", tmp_path)
    (tmp_path / "ml-1m").mkdir()
    (tmp_path / "ml-1m" / "ml-1m.zip").write_text("<html>")
    with pytest.raises(AleatorError, match="not a zip file"):
        catalog.load_dataset("ml-1m", tmp_path)


# Raw files of other publishers


def test_movielens_1m_holds_out_ten_latest_ratings(tmp_path: Path) -> None:
    rows = [f"1::{100 + n}::{n % 5 + 1}::{1000 - n}" for n in range(12)]  # item 100 is the latest
    rows += [f"2::{100 + n}::3::500" for n in range(11)]  # all at the same time, so the largest ids are held out
    (tmp_path / "ml-1m").mkdir()
    with zipfile.ZipFile(tmp_path / "ml-1m" / "ml-1m.zip", "w") as packed:
        packed.writestr("ml-1m/ratings.dat", "\n".join(rows).encode())
        packed.writestr("ml-1m/movies.dat", "100::Café::Drama\n111::Other::Drama\n".encode("latin-1"))
    split = catalog.load_dataset("ml-1m", tmp_path)
    assert pairs(split, "train") == [(1, 110), (1, 111), (2, 100)]
    assert len(split.test) == 20
    assert listed(split.train.time) == [990, 989, 500]
    assert listed(split.train.rating) == [1, 2, 3]
    assert listed(split.test.titles)[:2] == ["Café", "101"]  # an item without a title shows its id


def test_coat_is_read_from_its_matrices(tmp_path: Path) -> None:
    (tmp_path / "coat").mkdir()
    (tmp_path / "coat" / "train.ascii").write_text("0 5 1\n2 0 0\n")
    (tmp_path / "coat" / "test.ascii").write_text("3 0 0\n0 0 4\n")
    split = catalog.load_dataset("coat", tmp_path)
    assert pairs(split, "train") == [(0, 1)]
    assert pairs(split, "test") == [(1, 2)]
    assert split.judged is not None
    assert listed(split.judged.rating) == [3, 4]
    assert (split.train.n_users, split.train.n_items) == (2, 3)
    assert "rating: a pair rated at least 4 counts as an interaction" in split.train.notes


def test_dice_matrices_put_both_training_parts_together(tmp_path: Path) -> None:
    (tmp_path / "ml-10m").mkdir()
    cells = {"train": (0, 0), "train_skew": (0, 1), "val": (1, 1), "test": (1, 0)}
    for name, (row, column) in cells.items():
        matrix = sp.coo_matrix(([1.0], ([row], [column])), shape=(2, 2))
        sp.save_npz(tmp_path / "ml-10m" / f"{name}_coo_record.npz", matrix)
    split = catalog.load_dataset("ml-10m", tmp_path)
    assert [pairs(split, part) for part in ("train", "valid", "test")] == [[(0, 0), (0, 1)], [(1, 1)], [(1, 0)]]


# MovieLens-100K from three sources


def official_files(folder: Path) -> dict[str, bytes]:
    """GroupLens' files, made from the archive."""
    files = {}
    with np.load(folder / "ml100k.npz") as archive:
        for part, name in (("train", "ua.base"), ("test", "ua.test")):
            columns = [archive[f"{part}_{c}"] for c in ("user", "item", "rating", "time")]
            rows = zip(columns[0] + 1, columns[1] + 1, *columns[2:], strict=True)
            files[f"ml-100k/{name}"] = "".join("\t".join(map(str, row)) + "\n" for row in rows).encode()
    with gzip.open(folder / "ml100k_items.csv.gz", "rt", encoding="utf-8", newline="") as text:
        lines = [f"{int(row['item']) + 1}|{row['title']}|{row['release']}||" for row in csv.DictReader(text)]
    files["ml-100k/u.item"] = "\n".join(lines).encode("latin-1")
    return files


def test_movielens_100k_has_its_own_ids_and_titles() -> None:
    split = catalog.load_dataset("ml-100k", archived("ml-100k"), download=False)
    assert np.array_equal(split.train.users.ids, np.arange(1, 944))
    assert listed(split.train.titles)[split.train.items.encode([50])[0]] == "Star Wars (1977)"  # item 50 of u.item
    assert (np.bincount(split.test.user) == 10).all()


def test_movielens_100k_from_the_publishers_zip_equals_the_archive(
    publisher: Publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away_from_home: Path
) -> None:
    folder = archived("ml-100k")
    with zipfile.ZipFile(tmp_path / "published" / "ml-100k.zip", "w") as packed:
        for name, content in official_files(folder).items():
            packed.writestr(name, content)
    point_to(publisher.server_port, monkeypatch, "ml-100k", checked=False)
    (tmp_path / "no wheels").mkdir()
    pip_from(tmp_path / "no wheels", monkeypatch)  # so that the publisher is asked
    assert_same(catalog.load_dataset("ml-100k"), catalog.load_dataset("ml-100k", folder))
    assert publisher.asked == ["/ml-100k.zip"]
    assert [path.name for path in (away_from_home / "ml-100k").iterdir()] == ["ml-100k.zip"]


def test_movielens_100k_from_a_wheel_takes_the_first_ten_rows_of_each_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away_from_home: Path
) -> None:
    rows = [f"{user}\t{item}\t4\t{1000 - item}" for item in range(12, 0, -1) for user in (2, 1)]
    wheel(tmp_path / "wheels", "\n".join(rows), "3\tFour Rooms\t1995\tThriller\n5\tunkonwn\tunkonwn\t\n")
    pip_from(tmp_path / "wheels", monkeypatch)
    forget_checksums(monkeypatch)
    split = catalog.load_dataset("ml-100k")
    assert pairs(split, "train") == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert listed(split.train.titles)[2:5] == ["Four Rooms (1995)", "4", "unknown"]
    assert sorted(path.name for path in (away_from_home / "ml-100k").iterdir()) == ["ml-100k.inter", "ml-100k.item"]
    pip_from(tmp_path, monkeypatch)  # no wheel is there, so the cache is used
    assert_same(catalog.load_dataset("ml-100k"), split)


def test_a_wheel_with_other_content_is_refused(
    publisher: Publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away_from_home: Path
) -> None:
    wheel(tmp_path / "wheels", "1\t1\t4\t1000", "")
    pip_from(tmp_path / "wheels", monkeypatch)
    point_to(publisher.server_port, monkeypatch, "ml-100k")  # the publisher has no files
    with pytest.raises(AleatorError, match=r"ml-100k.inter in the wheel is not the file .* answers 404") as caught:
        catalog.load_dataset("ml-100k")
    assert "\n" not in str(caught.value)
    assert list((away_from_home / "ml-100k").iterdir()) == []


def test_movielens_100k_from_recboles_wheel_equals_the_archive() -> None:
    """Needs a package index that pip can reach."""
    folder = archived("ml-100k")
    recbole = catalog.dataset("ml-100k").sources[0]
    try:
        publishers.bring_from_wheel(recbole, catalog.cache_folder() / "ml-100k")
    except AleatorError as error:
        if "pip can" not in error.problem:  # pip worked, but the files are wrong
            raise
        pytest.skip(f"needs a package index: {error.problem}")
    assert_same(catalog.load_dataset("ml-100k", download=False), catalog.load_dataset("ml-100k", folder))


# Downloads


def point_to(port: int, monkeypatch: pytest.MonkeyPatch, name: str, checked: bool = True) -> None:
    """Let the entry's files come from a server on this machine."""
    here = f"http://127.0.0.1:{port}"

    def moved(file: File) -> File:
        return replace(file, url=f"{here}/{file.name}", checksum=file.checksum if checked else None)

    entry = catalog.dataset(name)
    sources = [s if s.wheel else replace(s, files=tuple(map(moved, s.files))) for s in entry.sources]
    monkeypatch.setitem(CATALOG, name, replace(entry, sources=tuple(sources)))


def forget_checksums(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = catalog.dataset("ml-100k")
    files = tuple(replace(file, checksum=None) for file in entry.sources[0].files)
    sources = (replace(entry.sources[0], files=files), *entry.sources[1:])
    monkeypatch.setitem(CATALOG, "ml-100k", replace(entry, sources=sources))


def pip_from(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pip find only the packages in `folder`."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", folder.as_uri())


def wheel(folder: Path, interactions: str, items: str) -> None:
    """Make a wheel with the name of RecBole's and other data."""
    folder.mkdir()
    data, about = "recbole/dataset_example/ml-100k/ml-100k", "recbole-1.2.1.dist-info"
    with zipfile.ZipFile(folder / "recbole-1.2.1-py3-none-any.whl", "w") as packed:
        packed.writestr(f"{data}.inter", "user_id:token\titem_id:token\trating:float\ttimestamp:float\n" + interactions)
        packed.writestr(f"{data}.item", "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass\n" + items)
        packed.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: recbole\nVersion: 1.2.1\n")
        packed.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        packed.writestr(f"{about}/RECORD", "")


def test_a_missing_dataset_is_downloaded_once(
    publisher: Publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away_from_home: Path
) -> None:
    (tmp_path / "published" / "train.txt").write_text("0 1\n")
    (tmp_path / "published" / "test.txt").write_text("0 2\n")
    (tmp_path / "empty").mkdir()
    point_to(publisher.server_port, monkeypatch, "adressa")
    first = catalog.load_dataset("adressa", tmp_path / "empty")
    assert publisher.asked == ["/train.txt", "/test.txt"]
    assert sorted(path.name for path in (away_from_home / "adressa").iterdir()) == ["test.txt", "train.txt"]
    assert list((tmp_path / "empty").iterdir()) == []
    assert_same(catalog.load_dataset("adressa", tmp_path / "empty"), first)
    assert len(publisher.asked) == 2
    (away_from_home / "adressa" / "test.txt").unlink()
    assert_same(catalog.load_dataset("adressa"), first)
    assert publisher.asked[2:] == ["/test.txt"]  # only what is missing


def test_a_download_of_other_content_is_refused(
    publisher: Publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away_from_home: Path
) -> None:
    (tmp_path / "published" / "train.txt").write_text("0 1\n")
    (tmp_path / "published" / "test.txt").write_text("0 2\n")
    point_to(publisher.server_port, monkeypatch, "gowalla")
    with pytest.raises(AleatorError, match="not the file that was expected"):
        catalog.load_dataset("gowalla")
    assert list((away_from_home / "gowalla").iterdir()) == []


def test_a_folder_without_the_dataset_and_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    problem = r"could not be downloaded \(.*cannot be reached.*\); put gowalla.npz"
    with socket.socket() as taken:  # bound but not listening, so it refuses connections
        taken.bind(("127.0.0.1", 0))
        point_to(taken.getsockname()[1], monkeypatch, "gowalla")
        with pytest.raises(AleatorError, match=problem) as caught:
            catalog.load_dataset("gowalla", tmp_path)
    assert f"'{tmp_path}'" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_error_without_a_direct_download_names_the_page(tmp_path: Path) -> None:
    with pytest.raises(AleatorError, match=r"no direct download.*put ml10m.npz or the files of https://"):
        catalog.load_dataset("ml-10m", tmp_path)
