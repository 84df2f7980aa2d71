"""What an export holds, what is refused, and that it is complete or not there."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest

import aleator as al
from aleator.export import items as parts
from aleator.export import to_parquet
from aleator.recommender import Recommender

from .conftest import aur_on


def test_parquet_is_read_by_polars_pandas_and_arrow(aur: al.AUR, tmp_path: Path) -> None:
    told = al.export(aur, tmp_path / "x", lam=0.25)
    data, made = aur.fitted, aur.vectors(lam=0.25)
    trained = data.popularity > 0
    items = pl.read_parquet(tmp_path / "x" / "items.parquet")
    assert items.columns == ["item_id", "popularity", "tail", "title", "vector"]
    assert items["item_id"].to_list() == data.items.decode(np.flatnonzero(trained)).tolist()
    assert items["popularity"].to_list() == data.popularity[trained].tolist()
    assert items["tail"].to_list() == aur.tail_mask.numpy()[trained].tolist()
    assert items["title"].to_list() == [f"Title of {name}" for name in items["item_id"]]
    assert np.array_equal(items["vector"].to_numpy(), made.item_vectors[trained])

    users = pd.read_parquet(tmp_path / "x" / "users")
    assert users["user_id"].tolist() == data.users.ids.tolist()
    assert np.array_equal(np.stack(users["vector"]), made.user_vectors)
    table = pq.read_table(tmp_path / "x" / "users")
    assert table.column_names == ["user_id", "vector"]
    assert table["vector"].type.list_size == told["dim"] == made.item_vectors.shape[1]


def test_the_manifest_says_what_was_made_and_what_to_do(aur: al.AUR, tmp_path: Path) -> None:
    told = al.export(aur, tmp_path / "x", to="npy", lam=0.25)
    assert json.loads((tmp_path / "x" / "manifest.json").read_text()) == told
    facts = {"to": "npy", "model": "AUR", "items": 39, "users": 61, "lam": 0.25, "rank": None, "recall": None}
    assert {name: told[name] for name in facts} == facts
    assert told["fingerprint"] == aur.fingerprint
    assert told["versions"] == {"aleator": al.__version__}
    assert any("0.25" in step for step in told["client"])
    assert told["files"] == sorted(file.name for file in (tmp_path / "x").iterdir())


def test_bare_models_have_no_lam(data: al.Interactions, tmp_path: Path) -> None:
    model = al.Popularity().fit(data)
    assert al.export(model, tmp_path / "x")["lam"] is None
    with pytest.raises(al.AleatorError, match="this Popularity has no uncertainty, and so no lam"):
        al.export(model, tmp_path / "y", lam=0.5)


def test_users_can_be_left_out(aur: al.AUR, tmp_path: Path) -> None:
    for to in ("parquet", "npy"):
        told = al.export(aur, tmp_path / to, to=to, users=False)
        assert (told["users"], told["lam"]) == (0, None)
        assert not (tmp_path / to / "users").exists()
    with pytest.raises(al.AleatorError, match="lam was given without users; leave lam out"):
        al.export(aur, tmp_path / "y", users=False, lam=0.5)


@pytest.mark.parametrize("to", ["parquet", "npy"])
def test_many_users_come_in_parts(aur: al.AUR, to: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    al.export(aur, tmp_path / "whole", to=to)
    monkeypatch.setattr(parts, "_BYTES", 4 * aur.vectors([]).item_vectors.shape[1] * 25)  # 25 users
    al.export(aur, tmp_path / "parts", to=to)
    if to == "npy":
        for name in ("vector", "user_id"):
            whole, cut = (np.load(tmp_path / folder / "users" / f"{name}.npy") for folder in ("whole", "parts"))
            assert np.array_equal(whole, cut)
        return
    assert [file.name for file in sorted((tmp_path / "parts" / "users").iterdir())] == [
        f"part-0000{number}.parquet" for number in range(3)
    ]
    whole, cut = (pl.read_parquet(tmp_path / folder / "users") for folder in ("whole", "parts"))
    assert whole.equals(cut)


class TestWhere:
    def test_an_older_export_is_replaced_whole(self, aur: al.AUR, tmp_path: Path) -> None:
        al.export(aur, tmp_path / "x", to="npy")
        al.export(aur, tmp_path / "x")
        assert sorted(file.name for file in (tmp_path / "x").iterdir()) == ["items.parquet", "manifest.json", "users"]
        assert [file.name for file in tmp_path.iterdir()] == ["x"]

    def test_anything_else_is_refused_before_any_work(self, aur: al.AUR, tmp_path: Path) -> None:
        aur.save(tmp_path / "model")
        (tmp_path / "file").write_text("mine")
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "manifest.json").write_text("{}")
        al.export(aur, tmp_path / "with mine")
        (tmp_path / "with mine" / "notes.txt").write_text("mine")
        for name in ("model", "file", "folder", "with mine"):
            with pytest.raises(al.AleatorError, match=f"'.*{name}' exists and is not an export; save to another place"):
                al.export(aur, tmp_path / name)
        assert (tmp_path / "with mine" / "notes.txt").read_text() == "mine"

    @pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
    def test_an_interrupted_export_leaves_nothing_and_the_older_one(
        self, error: BaseException, aur: al.AUR, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        older = al.export(aur, tmp_path / "older", to="npy")

        def stop(*_: Any) -> str:
            raise error

        monkeypatch.setattr(to_parquet, "write_users", stop)  # after the items were written
        for name in ("new", "older"):
            with pytest.raises((KeyboardInterrupt, al.AleatorError)) as raised:
                al.export(aur, tmp_path / name)
            assert isinstance(error, KeyboardInterrupt) or "No space left on device" in str(raised.value)
        assert [file.name for file in tmp_path.iterdir()] == ["older"]
        assert al.check_export(tmp_path / "older", aur) == older


class TestRefused:
    def test_targets_that_do_not_exist(self, aur: al.AUR, tmp_path: Path) -> None:
        with pytest.raises(al.AleatorError, match="unknown target 'Faiss'; did you mean 'faiss'"):
            al.export(aur, tmp_path / "x", to="Faiss")  # type: ignore[arg-type]

    def test_what_is_no_model(self, tmp_path: Path) -> None:
        with pytest.raises(al.AleatorError, match="the model is a str; give a fitted one"):
            al.export("model/", tmp_path / "x")  # type: ignore[arg-type]
        with pytest.raises(al.AleatorError, match="is not fitted; call fit first"):
            al.export(al.AUR(), tmp_path / "x")

    def test_a_library_that_is_missing(self, aur: al.AUR, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        with pytest.raises(al.AleatorError, match="an export to faiss needs the library faiss; install faiss-cpu"):
            al.export(aur, tmp_path / "x", to="faiss")

    def test_models_without_vectors(self, data: al.Interactions, tmp_path: Path) -> None:
        sigma = al.AUR(al.MF(dim=3), estimator=al.FactorEstimator(dim=4, max_epochs=2), lam=0.5, blend="sigma")
        made: list[Recommender] = [al.EASE(), aur_on(al.EASE()), sigma]
        made += [al.PMF(dim=3, max_epochs=2), al.MF(dim=3, calibrate="isotonic")]
        for model in made:
            with pytest.raises(al.AleatorError, match="not inner products of vectors; use recommend, or give rank="):
                al.export(model.fit(data), tmp_path / "x")
        assert not any(tmp_path.iterdir())


class TestCheck:
    def test_an_export_belongs_to_its_model_at_every_lam(self, aur: al.AUR, tmp_path: Path) -> None:
        told = al.export(aur, tmp_path / "x", to="npy", lam=0.9)
        aur.save(tmp_path / "m")
        for model in (aur, aur.at(0.1), al.load_model(tmp_path / "m")):
            assert al.check_export(tmp_path / "x", model) == told

    def test_an_export_of_another_fit_is_stale(self, aur: al.AUR, data: al.Interactions, tmp_path: Path) -> None:
        al.export(aur, tmp_path / "x", to="npy")
        again = aur_on(al.MF(dim=6, l2=0.003)).fit(data.take(np.arange(len(data)) > 0))
        with pytest.raises(al.AleatorError, match=f"made from another model: .*{aur.fingerprint}.*; export this model"):
            al.check_export(tmp_path / "x", again)

    def test_other_folders_are_no_exports(self, aur: al.AUR, tmp_path: Path) -> None:
        aur.save(tmp_path / "m")
        for folder in (tmp_path / "m", tmp_path, tmp_path / "nothing"):
            with pytest.raises(al.AleatorError, match="is not an export; give a folder that aleator export wrote"):
                al.check_export(folder, aur)

    def test_a_later_format_is_refused(self, aur: al.AUR, tmp_path: Path) -> None:
        told = al.export(aur, tmp_path / "x", to="npy")
        (tmp_path / "x" / "manifest.json").write_text(json.dumps(told | {"export": 99}))
        with pytest.raises(al.AleatorError, match="has format 99; this version of aleator reads format 1"):
            al.check_export(tmp_path / "x", aur)
