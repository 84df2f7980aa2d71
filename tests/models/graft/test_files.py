"""Files as sources of a graft: what they hold is matched by ids, and what they claim is held against their size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from implicit.cpu.als import AlternatingLeastSquares
from safetensors.numpy import save_file

import aleator as al
from aleator.data import limits
from aleator.data.sparse import read_sparse
from aleator.models.graft.files import read_factors, read_ids


@pytest.fixture(scope="module")
def split() -> al.Split:
    return al.simulate(n_users=90, n_items=60, per_user=200, seed=2).interactions.split(valid=0.1, test=0.2, seed=0)


@pytest.fixture(scope="module")
def factors(split: al.Split) -> tuple[Any, Any]:
    model = AlternatingLeastSquares(factors=6, random_state=0, num_threads=1)
    model.fit(split.train.csr, show_progress=False)
    return model.user_factors, model.item_factors


def as_npy(path: Path, matrix: Any) -> Path:
    np.save(path.with_suffix(".npy"), matrix)
    return path.with_suffix(".npy")


def as_safetensors(path: Path, matrix: Any) -> Path:
    """With ids, in another order."""
    order = np.random.default_rng(0).permutation(len(matrix))
    save_file({"factors": matrix[order], "ids": order}, path.with_suffix(".safetensors"))
    return path.with_suffix(".safetensors")


def as_parquet(path: Path, matrix: Any) -> Path:
    order = np.random.default_rng(1).permutation(len(matrix))
    frame = pl.DataFrame({"id": order, "features": matrix[order].tolist()})
    frame.write_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


@pytest.mark.parametrize("write", [as_npy, as_safetensors, as_parquet])
def test_factors_of_a_file_score_as_those_in_memory(
    write: Callable[[Path, Any], Path], split: al.Split, factors: Any, tmp_path: Path
) -> None:
    pair = tuple(write(tmp_path / name, side) for name, side in zip(("user", "item"), factors, strict=True))
    users = list(range(90))
    expected = al.graft(factors).fit(split).score(users)
    torch.testing.assert_close(al.graft(pair).fit(split).score(users), expected)


def write_spark(folder: Path, factors: Any) -> Path:
    """The layout of ALSModel.save: id int32, features list of float32, in parts."""
    pa, pq = pytest.importorskip("pyarrow", reason="pyarrow writes the folder"), pytest.importorskip("pyarrow.parquet")
    for name, side in zip(("userFactors", "itemFactors"), factors, strict=True):
        (folder / name).mkdir(parents=True)
        (folder / name / "_SUCCESS").touch()
        for part in range(3):
            ids = np.arange(part, len(side), 3, dtype=np.int32)
            features = pa.array(side[ids].tolist(), pa.list_(pa.float32()))
            table = pa.table({"id": pa.array(ids), "features": features})
            pq.write_table(table, folder / name / f"part-0000{part}-x.snappy.parquet", compression="snappy")
    return folder


def test_a_folder_of_spark_is_read_without_spark(split: al.Split, factors: Any, tmp_path: Path) -> None:
    grafted = al.graft(write_spark(tmp_path / "als", factors)).fit(split)
    users = list(range(90))
    torch.testing.assert_close(grafted.score(users), al.graft(factors).fit(split).score(users))
    assert grafted.reconciled["users"] == {"both": 90, "only_data": 0, "only_model": 0}
    (tmp_path / "other").mkdir()
    with pytest.raises(al.AleatorError, match=r"no folder userFactors.*ALSModel\.save"):
        al.graft(tmp_path / "other")


def test_numbers_as_ids_of_rows_can_be_named(split: al.Split, factors: Any, tmp_path: Path) -> None:
    """Spark takes numbers alone, so its users number their ids first."""
    names = [f"u{n}" for n in range(90)]
    data = al.read({"user": [names[n] for n in split.train.user], "item": split.train.item})
    folder = write_spark(tmp_path / "als", factors)
    named = al.graft(folder, users=names).fit(data)
    expected = al.graft(factors).fit(split.train).score(list(range(90)))
    torch.testing.assert_close(named.score(names), expected)
    for given, theirs in (({"users": names[:9]}, r"user.* 9 others .*leave out users="), ({"items": []}, "0 others")):
        with pytest.raises(al.AleatorError, match=theirs):
            al.graft(folder, **given)


def test_an_item_item_matrix_of_scipy(split: al.Split, tmp_path: Path) -> None:
    gram = sp.csr_matrix(split.train.csr.T @ split.train.csr, dtype=np.float32)
    for format in ("csr", "csc", "coo"):
        sp.save_npz(tmp_path / "m.npz", gram.asformat(format))
        assert abs(read_sparse(tmp_path / "m.npz") - gram).max() == 0
    users = list(range(90))
    torch.testing.assert_close(
        al.graft(tmp_path / "m.npz").fit(split).score(users), al.graft(gram).fit(split).score(users)
    )


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_of_scores(split: al.Split, factors: Any, tmp_path: Path, ending: str) -> None:
    scores = factors[0] @ factors[1].T
    user, item = np.nonzero(scores > np.quantile(scores, 0.5))
    frame = pl.DataFrame({"user_id": user, "item_id": item, "score": scores[user, item].astype(np.float64)})
    path = tmp_path / f"scores.{ending}"
    frame.write_csv(path) if ending == "csv" else frame.write_parquet(path)
    found = al.graft(path).fit(split).score(list(range(90)))
    torch.testing.assert_close(found, al.graft(frame).fit(split).score(list(range(90))))


def test_ids_of_a_text_file_are_numbers_if_that_changes_none(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("3\n1\n20\n")
    (tmp_path / "b.txt").write_text("003\n1\n")
    np.save(tmp_path / "c.npy", np.array(["x", "y"]))
    assert read_ids(tmp_path / "a.txt").tolist() == [3, 1, 20]
    assert read_ids(tmp_path / "b.txt").tolist() == ["003", "1"]
    assert read_ids(tmp_path / "c.npy").tolist() == ["x", "y"]
    named = al.graft((np.eye(3), np.eye(3)[:2]), users=tmp_path / "a.txt", items=str(tmp_path / "b.txt"))
    assert (named.user_ids.tolist(), named.item_ids.tolist()) == ([3, 1, 20], ["003", "1"])


USERS, ITEMS = [*range(5, 90), 900, 901], [*range(4, 60), 600]  # of the files: 5 users and 4 items are missing


def files_of(folder: Path, kind: str, factors: Any) -> tuple[Any, dict[str, Any]]:
    """What to graft, and the ids to give with it. Rows are in the order of `USERS` and `ITEMS`."""
    x, y = np.r_[factors[0][5:], factors[0][:2]], np.r_[factors[1][4:], factors[1][:1]]
    given = {"users": np.array(USERS), "items": np.array(ITEMS)}
    if kind == "npy":
        return (as_npy(folder / "x", x), as_npy(folder / "y", y)), given
    if kind == "safetensors":
        save_file({"factors": x, "ids": given["users"]}, folder / "x.safetensors")
        save_file({"factors": y, "ids": given["items"]}, folder / "y.safetensors")
        return (folder / "x.safetensors", folder / "y.safetensors"), {}
    if kind == "parquet":
        for name, ids, side in (("x", USERS, x), ("y", ITEMS, y)):
            pl.DataFrame({"id": ids, "features": side.tolist()}).write_parquet(folder / f"{name}.parquet")
        return (folder / "x.parquet", folder / "y.parquet"), {}
    if kind == "spark":
        return write_spark(folder / "als", (x, y)), given
    if kind == "npz":
        sp.save_npz(folder / "m.npz", sp.csr_matrix(y @ y.T))
        return folder / "m.npz", {"items": given["items"]}
    user, item = np.nonzero(np.ones((len(x), len(y))))
    scores = {"user_id": given["users"][user], "item_id": given["items"][item], "score": (x @ y.T).ravel()}
    pl.DataFrame(scores).write_parquet(folder / "s.parquet")
    return folder / "s.parquet", {}


@pytest.mark.parametrize("kind", ["npy", "safetensors", "parquet", "spark", "npz", "table"])
def test_ids_that_one_side_alone_has_are_counted_and_told(
    kind: str, split: al.Split, factors: Any, tmp_path: Path
) -> None:
    source, given = files_of(tmp_path, kind, factors)
    grafted = al.graft(source, **given).fit(split)
    assert grafted.reconciled["items"] == {"both": 56, "only_data": 4, "only_model": 1}
    fates = {"npz": "are unknown to the model and similar to none", "table": "are not listed in the table"}
    told = fates.get(kind, "are unknown to the model and get each user's lowest score")
    assert f"graft: 4 of 60 items of the data {told}" in grafted.notes
    assert "graft: 1 of the model's items are not in the data and are left out" in grafted.notes
    assert bool(grafted.score(list(range(90))).isfinite().all())
    if kind == "npz":  # it knows no users
        return
    assert grafted.reconciled["users"] == {"both": 85, "only_data": 5, "only_model": 2}
    told = "get each item's share of the users" if kind == "table" else "are served by their history"
    assert f"graft: 5 of 90 users of the data are unknown to the model and {told}" in grafted.notes


class TestBadFiles:
    def refused(self, read: Callable[[Path], Any], path: Path, problem: str) -> None:
        with pytest.raises(al.AleatorError, match=problem):
            read(path)

    def test_pickles_are_not_opened(self, tmp_path: Path) -> None:
        np.save(tmp_path / "p.npy", np.array([[print]]), allow_pickle=True)
        self.refused(read_factors, tmp_path / "p.npy", "cannot be read as an array")

    def test_an_array_that_is_shorter_than_it_claims(self, tmp_path: Path) -> None:
        with (tmp_path / "n.npy").open("wb") as file:
            about = {"descr": "<f4", "fortran_order": False, "shape": (10**12, 64)}
            np.lib.format.write_array_header_1_0(file, about)
            file.write(b"\0" * 64)
        self.refused(read_factors, tmp_path / "n.npy", "cannot be read as an array")

    def test_a_parquet_file_that_would_blow_up(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "FREE", 1 << 20)
        frame = pl.DataFrame({"id": np.zeros(20000, np.int32), "features": [[0.0] * 200] * 20000})
        frame.write_parquet(tmp_path / "z.parquet")
        self.refused(read_factors, tmp_path / "z.parquet", "takes .* bytes of memory or more, and the limit is")

    @pytest.mark.parametrize(
        ("frame", "problem"),
        [
            ({"user": [1], "x": [2.0]}, "has the columns user, x; name them id and features"),
            ({"id": [1, 2], "features": [[1.0, 2.0], [1.0]]}, "not 2 numbers each"),
            ({"id": [1, None], "features": [[1.0], [1.0]]}, "have no id"),
        ],
    )
    def test_a_parquet_file_of_something_else(self, tmp_path: Path, frame: Any, problem: str) -> None:
        pl.DataFrame(frame).write_parquet(tmp_path / "f.parquet")
        self.refused(read_factors, tmp_path / "f.parquet", problem)

    @pytest.mark.parametrize("name", ["x.npy", "x.safetensors", "x.parquet", "x.pkl"])
    def test_garbage(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_bytes(b"garbage" * 10)
        self.refused(read_factors, tmp_path / name, "cannot be read|is no file of factors")
        self.refused(read_factors, tmp_path / "missing.npy", "there is no file")

    def test_nobody_is_told_to_open_a_pickle(self, tmp_path: Path) -> None:
        (tmp_path / "x.npy").write_bytes(b"garbage" * 10)
        with pytest.raises(al.AleatorError) as told:
            read_factors(tmp_path / "x.npy")
        assert "pickle" not in str(told.value)
