"""Pairs on disk are those that `read` makes in memory, to the bit, and what went wrong on the disk is told."""

from __future__ import annotations

import errno
import json
import os
import shutil
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import aleator as al
from aleator.data import maps
from aleator.data.interactions import Interactions
from aleator.errors import AleatorError
from aleator.words import By


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several pieces and several groups to sort, of few pairs."""
    monkeypatch.setattr(maps, "BUCKET", 60)
    monkeypatch.setattr("aleator.data.on_disk.CHUNK", 50)
    monkeypatch.setattr(maps, "CHUNK", 70)


@pytest.fixture
def frame() -> pl.DataFrame:
    """Rows in no order, some of a pair that occurs twice."""
    rng = np.random.default_rng(0)
    n = 400
    return pl.DataFrame(
        {
            "user_id": [f"ü{u}" for u in rng.integers(30, size=n)],
            "item_id": rng.integers(40, size=n) * 7 - 20,
            "timestamp": rng.integers(100, size=n),
            "weight": rng.random(n) + 0.5,
            "stars": rng.integers(1, 6, size=n),
        }
    )


@pytest.fixture
def folder(frame: pl.DataFrame, tmp_path: Path) -> Path:
    """The rows in two partitions, beside a file that marks the end of a job."""
    for name, part in (("day=1", frame[:150]), ("day=2", frame[150:])):
        (tmp_path / "pairs" / name).mkdir(parents=True)
        part.write_parquet(tmp_path / "pairs" / name / "part-0.parquet")
    (tmp_path / "pairs" / "_SUCCESS").touch()
    return tmp_path / "pairs"


def same(a: Interactions, b: Interactions) -> bool:
    """Whether both have the same pairs, weights and ids."""
    return a.fingerprint == b.fingerprint and len(a) == len(b)


@pytest.mark.parametrize(
    "options",
    [{}, {"duplicates": "sum"}, {"min_rating": 3}, {"user": "item_id", "item": "user_id"}, {"time": "stars"}],
    ids=str,
)
def test_it_holds_what_memory_holds(options: dict[str, Any], frame: pl.DataFrame, folder: Path, tmp_path: Path) -> None:
    there = al.read(folder, on_disk=tmp_path / "cache", **options)
    here = al.read(frame, **options)
    assert same(there, here)
    assert set(there.notes) == set(here.notes)
    assert there.on_disk is not None
    assert all(isinstance(there.on_disk.columns[name], np.memmap) for name in ("user", "item", "weight"))
    assert (there.popularity == here.popularity).all()


def test_rows_that_lack_a_value_are_refused_or_dropped(frame: pl.DataFrame, tmp_path: Path) -> None:
    lacking = frame.with_columns(pl.when(pl.col("stars") > 4).then(None).otherwise(pl.col("weight")).alias("weight"))
    lacking.write_parquet(tmp_path / "pairs.parquet")
    with pytest.raises(AleatorError, match=r"column 'weight' of .* has [0-9]+ missing values"):
        al.read(tmp_path / "pairs.parquet", on_disk=tmp_path / "cache")
    there = al.read(tmp_path / "pairs.parquet", on_disk=tmp_path / "cache", missing="drop")
    assert same(there, al.read(lacking, missing="drop"))


def test_the_same_call_finds_the_files_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = al.read(folder, on_disk=tmp_path / "cache")
    monkeypatch.delattr(pl, "scan_parquet")  # the source is not read again
    assert same(first, al.read(folder, on_disk=tmp_path / "cache"))


@pytest.mark.parametrize("change", ["source", "option"])
def test_files_of_another_source_are_not_taken(change: str, folder: Path, tmp_path: Path) -> None:
    al.read(folder, on_disk=tmp_path / "cache")
    if change == "source":
        pl.DataFrame({"user_id": ["new"], "item_id": [1]}).write_parquet(folder / "more.parquet")
    with pytest.raises(AleatorError, match="holds another source, other options, or the source as it was"):
        al.read(folder, on_disk=tmp_path / "cache", min_rating=None if change == "source" else 3)


@pytest.mark.parametrize("by", ["random", "user_time", "last"])
def test_a_split_is_that_of_memory(by: By, frame: pl.DataFrame, folder: Path, tmp_path: Path) -> None:
    there = al.read(folder, on_disk=tmp_path / "cache").split(valid=0.1, test=0.2, by=by, seed=5)
    here = al.read(frame).split(valid=0.1, test=0.2, by=by, seed=5)
    for part in ("train", "valid", "test", "everything"):
        assert same(getattr(there, part), getattr(here, part)), part
        assert getattr(there, part).on_disk is not None, part
    assert same(there.carve(0.1, 1).valid, here.carve(0.1, 1).valid)


def test_the_same_split_finds_its_parts_again_and_another_seed_does_not(folder: Path, tmp_path: Path) -> None:
    data = al.read(folder, on_disk=tmp_path / "cache")
    one, again, other = (data.split(seed=seed).test for seed in (0, 0, 1))
    assert one.on_disk is not None
    assert again.on_disk is not None
    assert one.on_disk.folder == again.on_disk.folder
    assert same(one, again)
    assert not same(one, other)


def test_the_users_of_each_item_are_sorted_into_files(folder: Path, tmp_path: Path) -> None:
    data = al.read(folder, on_disk=tmp_path / "cache")
    assert data.on_disk is not None
    rows, turned = data.on_disk.by_item, data.csr.T.tocsr()
    assert (rows.start == turned.indptr).all()
    assert (rows.column == turned.indices).all()
    assert rows.weight is not None
    assert (rows.weight == turned.data).all()


def test_a_change_takes_the_rows_into_memory(folder: Path, tmp_path: Path) -> None:
    data = al.read(folder, on_disk=tmp_path / "cache")
    some = data.take(data.user < 5)
    assert some.on_disk is None
    assert some.csr.nnz == len(some)


def test_titles_and_attributes_leave_the_pairs_on_disk(folder: Path, tmp_path: Path) -> None:
    about = {"item": [1, 8], "title": ["one", "eight"]}
    data = al.read(folder, on_disk=tmp_path / "cache", titles={1: "one"}, attributes=about)
    assert data.on_disk is not None
    assert data.titles is not None
    assert data.titles[data.items.encode([1])[0]] == "one"
    assert "title" in data.attributes


def test_an_update_takes_new_pairs_in(folder: Path, frame: pl.DataFrame, tmp_path: Path) -> None:
    model = al.MF(dim=2, l2=0.01).fit(al.read(folder, on_disk=tmp_path / "cache"))
    later = model.update(Interactions.of(["new", "new"], [1, 8]))
    assert len(later.fitted) == len(model.fitted) + 2
    assert later.fitted.on_disk is None
    assert (later.fitted.csr[: model.fitted.n_users].sum(1) == model.fitted.csr.sum(1)).all()


@pytest.mark.parametrize("by", ["global_time", "balanced"])
def test_a_split_that_looks_at_all_pairs_is_refused(by: By, folder: Path, tmp_path: Path) -> None:
    data = al.read(folder, on_disk=tmp_path / "cache")
    with pytest.raises(AleatorError, match=f"pairs on disk cannot be split by {by}; split by random"):
        data.split(by=by)


@pytest.mark.parametrize("option", [{"k_core": 2}, {"in_time_order": True}, {"format": "csv"}], ids=str)
def test_what_needs_all_pairs_in_memory_is_refused(option: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    with pytest.raises(AleatorError, match=f"{next(iter(option))} was given with on_disk"):
        al.read(folder, on_disk=tmp_path / "cache", **option)


def test_only_parquet_is_read(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("user,item\n1,2\n")
    (tmp_path / "empty").mkdir()
    for source, told in (
        (tmp_path / "pairs.csv", "is no parquet file"),
        (tmp_path / "empty", "has no parquet files"),
        (tmp_path / "nowhere", "there is no"),
        ({"user": [1], "item": [2]}, "the source is a dict"),
    ):
        with pytest.raises(AleatorError, match=told):
            al.read(source, on_disk=tmp_path / "cache")
    (folder / "day=1" / "part-0.parquet").write_bytes(b"PAR1 no, not really PAR1")
    with pytest.raises(AleatorError, match="cannot be read as parquet"):
        al.read(folder, on_disk=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("damage", ["cut", "changed", "gone", "manifest"])
def test_damaged_files_are_told(damage: str, folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    al.read(folder, on_disk=cache)
    if damage == "cut":
        os.truncate(cache / "item", 8)
    elif damage == "changed":
        content = bytearray((cache / "item").read_bytes())
        content[5] ^= 255
        (cache / "item").write_bytes(content)
    elif damage == "gone":
        (cache / "user").unlink()
    else:
        (cache / "manifest.json").write_text("{")
    with pytest.raises(AleatorError, match=r"is not whole .*; delete it, and read the source again"):
        al.read(folder, on_disk=cache)


@pytest.mark.parametrize(
    ("name", "made", "type"),
    [
        ("item", np.array([10**6] * 40, "<i4"), "<i4"),
        ("item", np.array([-1] * 40, "<i4"), "<i4"),
        ("user", np.array([10**6] * 40, "<i4"), "<i4"),
        ("user", np.zeros(39, "<i4"), "<i4"),
        ("start", np.array([0, 10**9, 40], "<i8"), "<i8"),
        ("start", np.array([0, 1, 41], "<i8"), "<i8"),
        ("item", np.zeros(20, "<i8"), "|O"),
        ("../item", np.zeros(40, "<i4"), "<i4"),
    ],
)
def test_columns_that_would_lead_elsewhere_are_refused(name: str, made: Any, type: str, tmp_path: Path) -> None:
    """Their checksums are right: whoever can write the files can write the manifest too."""
    rows = {"user": [1] * 20 + [2] * 20, "item": [*range(20), *range(20)]}
    pl.DataFrame(rows).write_parquet(tmp_path / "pairs.parquet")
    cache = tmp_path / "cache"
    al.read(tmp_path / "pairs.parquet", on_disk=cache)
    facts = json.loads((cache / "manifest.json").read_text())
    (cache / name).write_bytes(made.tobytes())
    facts["files"][name] = {"dtype": type, "bytes": made.nbytes, "crc32": zlib.crc32(made.tobytes())}
    (cache / "manifest.json").write_text(json.dumps(facts))
    with pytest.raises(AleatorError, match="is not whole"):
        al.read(tmp_path / "pairs.parquet", on_disk=cache)


def test_a_full_disk_leaves_nothing_that_looks_whole(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(maps.Writer, "finish", full)
        with pytest.raises(AleatorError, match=r"cannot be written .No space left on device.; check the folder"):
            al.read(folder, on_disk=tmp_path / "cache")
    assert [path.name for path in tmp_path.iterdir()] == ["pairs"]
    data = al.read(folder, on_disk=tmp_path / "cache")
    monkeypatch.setattr(maps.Writer, "finish", full)
    before = sorted(path.name for path in (tmp_path / "cache").iterdir())
    with pytest.raises(AleatorError, match="No space left"):
        data.split()
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == before


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_told(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(AleatorError, match="cannot be written"):
        al.read(folder, on_disk=tmp_path / "closed" / "cache")


def test_a_folder_of_something_else_is_not_asked_to_be_deleted(folder: Path, tmp_path: Path) -> None:
    al.Popularity().fit(al.simulate(n_users=20, n_items=10).interactions).save(tmp_path / "model")
    with pytest.raises(AleatorError, match=r"holds something else than pairs on disk; give a folder"):
        al.read(folder, on_disk=tmp_path / "model")


def test_a_file_in_the_way_is_told(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(AleatorError, match="is not empty"):
        al.read(folder, on_disk=tmp_path / "file")
    with pytest.raises(AleatorError, match="cannot be"):
        al.read(folder, on_disk=tmp_path / "file" / "cache")


def test_two_that_read_at_once_end_with_the_same_files(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, elsewhere = maps.Writer.finish, tmp_path / "elsewhere"
    al.read(folder, on_disk=elsewhere)

    def later(writer: maps.Writer, *args: Any, **columns: Any) -> None:
        finish(writer, *args, **columns)
        if not (tmp_path / "cache").exists():
            shutil.copytree(elsewhere, tmp_path / "cache")  # another process was faster

    monkeypatch.setattr(maps.Writer, "finish", later)
    assert same(al.read(folder, on_disk=tmp_path / "cache"), al.read(folder, on_disk=elsewhere))
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
