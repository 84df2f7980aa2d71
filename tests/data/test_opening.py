"""Opening: a name of the catalogue, a folder of parts or a file, each with the options that make sense for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from aleator.data.interactions import Interactions
from aleator.data.opening import open_dataset, open_file, open_split
from aleator.data.splits import Split
from aleator.errors import AleatorError


@pytest.fixture(autouse=True)
def away_from_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, no ALEATOR_DATA, and an empty working folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("ALEATOR_DATA", raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ratings.csv"
    path.write_text("user,item,rating\n1,10,5\n1,20,2\n2,10,4\n2,20,4\n3,30,1\n")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with train, valid and test files, and with another file."""
    parts = tmp_path / "mine"
    parts.mkdir()
    (parts / "train.csv").write_text("user,item,rating\n1,10,5\n1,20,2\n2,10,4\n")
    (parts / "valid.csv").write_text("user,item,rating\n2,20,4\n")
    (parts / "test.tsv").write_text("user\titem\trating\n2\t30\t5\n1\t30\t1\n")
    (parts / "notes.md").write_text("not a part")
    return parts


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data root with tiny files of Gowalla."""
    gowalla = tmp_path / "data" / "gowalla"
    gowalla.mkdir(parents=True)
    (gowalla / "train.txt").write_text("0 3 1\n1 2 0\n")
    (gowalla / "test.txt").write_text("0 2\n")
    return tmp_path / "data"


def test_a_name_of_the_catalogue_is_a_split(root: Path) -> None:
    opened = open_dataset("gowalla", root)
    assert isinstance(opened, Split)
    assert (opened.name, len(opened.train), len(opened.test)) == ("gowalla", 4, 1)
    assert len(open_split("gowalla", root, min_rating=None).train) == 4


def test_a_name_of_the_catalogue_comes_before_a_file_of_that_name(root: Path) -> None:
    Path("gowalla").mkdir()
    assert isinstance(open_dataset("gowalla", root), Split)


@pytest.mark.parametrize("option", [{"min_rating": 3.0}, {"k_core": 2}])
def test_a_benchmark_cannot_be_cleaned(option: dict[str, float], root: Path) -> None:
    with pytest.raises(AleatorError, match="'gowalla' is a benchmark with a fixed split; clean a file of your own"):
        open_dataset("gowalla", root, **option)


def test_a_file_is_interactions(file: Path) -> None:
    for opened in (open_dataset(str(file), None), open_file(str(file))):
        assert isinstance(opened, Interactions)
        assert len(opened) == 5


def test_options_of_read_reach_a_file(file: Path) -> None:
    assert len(open_file(str(file), min_rating=4)) == 3
    assert len(open_file(str(file), k_core=2)) == 4
    with pytest.raises(AleatorError, match="unknown option of read 'kcore'"):
        open_file(str(file), kcore=2)


def test_a_folder_of_parts_is_a_split_named_after_it(folder: Path) -> None:
    opened = open_dataset(str(folder), None)
    assert isinstance(opened, Split)
    assert opened.name == "mine"
    assert opened.counts == {"train": 3, "valid": 1, "test": 2}
    assert opened.test.items.decode(opened.test.item).tolist() == [30, 30]


def test_a_folder_needs_no_validation_part(folder: Path) -> None:
    (folder / "valid.csv").unlink()
    assert len(open_split(str(folder), None).valid) == 0


def test_min_rating_reaches_every_part_of_a_folder(folder: Path) -> None:
    opened = open_split(str(folder), None, min_rating=4)
    assert opened.counts == {"train": 2, "valid": 1, "test": 1}


def test_a_folder_that_is_split_has_no_core(folder: Path) -> None:
    with pytest.raises(AleatorError, match=r"mine' is split already; use k_core before splitting"):
        open_dataset(str(folder), None, k_core=2)


@pytest.mark.parametrize("missing", ["train.csv", "test.tsv"])
def test_a_folder_without_train_or_test_is_refused(missing: str, folder: Path) -> None:
    (folder / missing).unlink()
    with pytest.raises(AleatorError, match="has no train and test files; make them with `aleator data split`"):
        open_dataset(str(folder), None)


def test_what_is_split_is_not_opened_as_a_file(folder: Path) -> None:
    with pytest.raises(AleatorError, match="mine' is split already; give a file of interactions"):
        open_file(str(folder))


def test_a_file_is_not_opened_as_a_split(file: Path) -> None:
    with pytest.raises(AleatorError, match="has no test part; make one with `aleator data split`"):
        open_split(str(file), None)


def test_what_is_nowhere_is_answered_with_the_known_names() -> None:
    with pytest.raises(AleatorError, match="'yelp2081' is neither a name in the catalogue nor a file") as caught:
        open_dataset("yelp2081", None)
    assert "yelp2018" in caught.value.remedy
