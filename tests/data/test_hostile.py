"""Hostile input: names of files that look like patterns, files that expand to more than there is, odd ids and weights."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import aleator as al
from aleator.data import limits
from aleator.data.formats import read_titles

PATTERNS = ["log[1]", "log*", "log?", "{log1,log2}", "**"]
ENDINGS = ["csv", "tsv", "parquet", "npz", "inter", "csv.gz"]


def pairs(n: int) -> al.Interactions:
    return al.Interactions.of([f"u{user}" for user in range(n)], [f"i{user % 3}" for user in range(n)])


def put(path: Path, n: int) -> None:
    """Write n pairs."""
    if path.suffix != ".gz":
        al.write(pairs(n), path)
        return
    al.write(pairs(n), path.with_suffix(""))
    path.write_bytes(gzip.compress(path.with_suffix("").read_bytes()))


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_name_that_looks_like_a_pattern_is_one_file(ending: str, tmp_path: Path) -> None:
    """`log[1].csv` once was read from `log1.csv`, and `log*.csv` from all of them."""
    for number in (1, 2):
        put(tmp_path / f"log{number}.{ending}", 4 + number)
    for n, pattern in enumerate(PATTERNS):
        path = tmp_path / f"{pattern}.{ending}"
        for name in (path, str(path)):
            with pytest.raises(al.AleatorError, match="there is no file"):
                al.read(name)
        put(path, 10 + n)
        assert len(al.read(path)) == len(al.read(str(path))) == 10 + n


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_beside_the_interactions_are_literal_too(ending: str, tmp_path: Path) -> None:
    def table(name: str, **columns: list[Any]) -> Path:
        frame, path = pl.DataFrame(columns), tmp_path / f"{name}.{ending}"
        with path.open("wb") as file:
            frame.write_csv(file) if ending == "csv" else frame.write_parquet(file)
        return path

    items = ["i0", "i1", "i2"]
    table("more1", item_id=items, title=["wrong"] * 3, kind=["wrong"] * 3, user_id=["u2"] * 3)
    titles = table("more[1]", item_id=items, title=["a", "b", "c"], kind=["x", "y", "z"])
    assert read_titles(titles)["i0"] == "a"
    log = tmp_path / "log.csv"
    put(log, 9)
    data = al.read(log, titles=titles, attributes=titles)
    assert "wrong" not in str(data.titles)
    assert data.attributes is not None
    assert "wrong" not in str(data.attributes)
    model = al.EASE(l2=1.0).fit(data)
    users, out = table("us[er]*", user_id=["u1"]), tmp_path / "o[ut]*"
    table("user", user_id=["u2"])
    al.recommend_batch(model, users, out, k=1)
    (part,) = out.glob("part-*")
    with part.open("rb") as file:
        assert pl.read_parquet(file)["user_id"].to_list() == ["u1"]


def rows_of_zeros(path: Path) -> None:
    path.write_bytes(gzip.compress(b"user_id,item_id\n" + b"1,2\n" * 500_000))


def one_long_line(path: Path) -> None:
    path.write_bytes(gzip.compress(b"user_id,item_id\n1," + b"2" * 2_000_000))


def packed_twice(path: Path) -> None:
    path.write_bytes(gzip.compress(gzip.compress(b"user_id,item_id\n" + b"1,2\n" * 500_000)))


def columns_of_zeros(path: Path) -> None:
    np.savez_compressed(path, user=np.zeros(400_000, np.int64), item=np.zeros(400_000, np.int64))


def claims(shape: str) -> Callable[[Path], None]:
    """An archive of a few hundred bytes whose arrays say that they have this shape."""

    def write(path: Path) -> None:
        header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}}}\n".encode()
        array = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
        with zipfile.ZipFile(path, "w") as file:
            for name in ("user.npy", "item.npy"):
                file.writestr(name, array)

    return write


def pages_of_zeros(path: Path) -> None:
    pl.DataFrame({"user_id": np.zeros(400_000, np.int64), "item_id": np.zeros(400_000, np.int64)}).write_parquet(path)


BOMBS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "rows": ("rows.csv.gz", rows_of_zeros),
    "a line": ("line.csv.gz", one_long_line),
    "twice": ("twice.csv.gz", packed_twice),
    "no ending": ("rows.csv", rows_of_zeros),
    "columns": ("big.npz", columns_of_zeros),
    "2^60 numbers": ("claim.npz", claims("(1152921504606846976,)")),
    "numbers beyond 64 bits": ("claim.npz", claims(f"({10**30},)")),
    "no shape": ("claim.npz", claims("(((((")),
    "pages": ("pages.parquet", pages_of_zeros),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_small_file_that_expands_is_refused(bomb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of all files is set low here, so that the bombs can be small."""
    monkeypatch.setattr(limits, "FREE", 1 << 16)
    name, make = BOMBS[bomb]
    make(tmp_path / name)
    with pytest.raises(al.AleatorError) as told:
        al.read(tmp_path / name)
    if bomb in ("rows", "a line", "no ending", "columns", "pages"):
        assert "max_bytes= (--max-bytes in a shell)" in str(told.value)


@pytest.mark.parametrize("bomb", ["rows", "columns", "pages"])
def test_a_limit_can_be_raised_or_lowered(bomb: str, tmp_path: Path) -> None:
    name, make = BOMBS[bomb]
    make(tmp_path / name)
    assert len(al.read(tmp_path / name, max_bytes=1 << 30)) == 1
    with pytest.raises(al.AleatorError, match=r"takes [\d,]+ bytes of memory or more, and the limit is 100,000"):
        al.read(tmp_path / name, max_bytes=100_000)


@pytest.mark.parametrize("weight", [1e30, 1e308, -1.0, 0.0, 1e-30, float("nan"), float("inf")])
def test_weights_that_no_model_can_take_are_refused(weight: float) -> None:
    with pytest.raises(al.AleatorError, match="weight"):
        al.Interactions.of([1, 2, 3], [1, 2, 3], weight=[1.0, 1.0, weight])


@pytest.mark.parametrize("ending", ["parquet", "csv", "tsv", "inter"])
def test_an_id_keeps_a_nul_at_its_end(ending: str, tmp_path: Path) -> None:
    data = al.Interactions.of(["u", "u\0"], ["i\0\0", "i"])
    al.write(data, tmp_path / f"log.{ending}")
    again = al.read(tmp_path / f"log.{ending}")
    assert set(again.users.ids.tolist()) == {"u", "u\0"}
    assert set(again.items.ids.tolist()) == {"i\0\0", "i"}


def test_an_archive_does_not_keep_it_and_says_so(tmp_path: Path) -> None:
    with pytest.raises(al.AleatorError, match="an id ends in a NUL, which npz files do not keep; write a parquet file"):
        al.write(al.Interactions.of(["u", "u\0"], ["i", "i"]), tmp_path / "log.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_model_keeps_it_too(tmp_path: Path) -> None:
    names = [f"u{n}\0" for n in range(6)]
    al.EASE(l2=1.0).fit(al.Interactions.of(names, ["a", "b", "c"] * 2)).save(tmp_path / "model")
    loaded = al.load_model(tmp_path / "model", device="cpu")
    assert loaded.recommend(["u1\0"], k=1)["user_id"].to_list() == ["u1\0"]
    with pytest.raises(al.AleatorError, match="unknown user 'u1'"):
        loaded.recommend(["u1"], k=1)


def test_texts_that_are_no_unicode_are_refused() -> None:
    for columns in ((["\ud800"], ["i"]), (["u"], ["i\udfff"])):
        with pytest.raises(al.AleatorError, match="ids hold texts that are no valid Unicode"):
            al.Interactions.of(*columns)
    data = pairs(6)
    with pytest.raises(al.AleatorError, match="titles hold texts that are no valid Unicode"):
        data.with_titles({"i0": "\ud800"})
    model = al.EASE(l2=1.0).fit(data)
    with pytest.raises(al.AleatorError, match="the names of the histories hold texts that are no valid Unicode"):
        model.recommend({"\ud800": ["i0"]}, k=1)
    with pytest.raises(al.AleatorError, match="unknown"):
        model.recommend(["\ud800"], k=1)


@pytest.mark.parametrize("history", [5, 5.0, None, "i0", b"i0", {"i0": 1}, np.array(5), np.array([["i0"]])], ids=repr)
def test_a_history_that_is_no_list_is_refused(history: Any) -> None:
    model = al.EASE(l2=1.0).fit(pairs(6))
    with pytest.raises(al.AleatorError, match=r"the history of 'new' is .*; give a list of item ids"):
        model.recommend({"new": history}, k=1)
