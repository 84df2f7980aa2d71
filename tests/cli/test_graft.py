"""aleator graft makes an ordinary model folder out of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from implicit.cpu.als import AlternatingLeastSquares

import aleator as al
from tests.cli.conftest import Run
from tests.models.graft.test_files import write_spark

SMALL = ("--set", "estimator.dim=8", "--set", "estimator.max_epochs=3", "--quiet")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, al.Split]:
    """A folder of parts with numbers as ids, and of files to graft from."""
    folder = tmp_path_factory.mktemp("graft")
    split = al.simulate(n_users=90, n_items=60, per_user=200, seed=2).interactions.split(valid=0.1, test=0.2, seed=0)
    (folder / "parts").mkdir()
    for name in ("train", "valid", "test"):
        al.write(getattr(split, name), folder / "parts" / f"{name}.parquet")
    model = AlternatingLeastSquares(factors=6, random_state=0, num_threads=1)
    model.fit(split.train.csr, show_progress=False)
    x, y = model.user_factors, model.item_factors
    np.save(folder / "user.npy", x)
    np.save(folder / "item.npy", y)
    np.save(folder / "rolled.npy", np.roll(x, 7, 0))
    (folder / "users.txt").write_text("\n".join(map(str, range(90))))
    (folder / "items.txt").write_text("\n".join(map(str, range(60))))
    write_spark(folder / "als", (x, y))
    sp.save_npz(folder / "sim.npz", sp.csr_matrix(y @ y.T))
    scores = x @ y.T
    scores[split.train.user, split.train.item] = -9
    user, item = np.nonzero(scores > np.quantile(scores, 0.6))
    pl.DataFrame({"user_id": user, "item_id": item, "score": scores[user, item]}).write_parquet(folder / "s.parquet")
    return folder, split


def source(folder: Path, kind: str) -> list[Any]:
    ids = ["--users", folder / "users.txt", "--items", folder / "items.txt"]
    return {
        "factors": ["--factors", folder / "user.npy", folder / "item.npy", *ids],
        "spark": ["--spark", folder / "als"],
        "similarities": ["--similarities", folder / "sim.npz", "--items", folder / "items.txt"],
        "scores": ["--scores", folder / "s.parquet"],
    }[kind]


@pytest.mark.parametrize("kind", ["factors", "spark", "similarities", "scores"])
def test_files_become_a_model_folder_that_recommends(
    run: Run, world: tuple[Path, al.Split], kind: str, tmp_path: Path
) -> None:
    folder, _ = world
    words = ["--interactions", folder / "parts", "--out", tmp_path / "m", *SMALL, "--json"]
    ran = run("graft", *source(folder, kind), *words)
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    assert 0 <= told["lam"] <= 1
    assert told["reconciled"]["items"]["both"] > 50
    assert isinstance(al.load_model(tmp_path / "m"), al.AUR)
    rows = json.loads(run("recommend", tmp_path / "m", "--users", "0,1", "--k", "3", "--json").out)
    assert [row["user_id"] for row in rows] == [0, 0, 0, 1, 1, 1]


def test_without_a_validation_part_lam_is_not_chosen_and_that_is_told(
    run: Run, world: tuple[Path, al.Split], tmp_path: Path
) -> None:
    folder, split = world
    words = ["--interactions", folder / "parts" / "train.parquet", "--out", tmp_path / "m", *SMALL]
    ran = run("graft", *source(folder, "factors"), *words)
    assert ran.code == 0, ran.err
    assert "note: lam is 0.5: there is no validation part" in ran.out
    assert len(al.AUR.load(tmp_path / "m").fitted) == len(split.train)
    assert run("graft", *source(folder, "factors"), *words, "--lam", 0.8).code == 0
    assert al.AUR.load(tmp_path / "m").lam_used == 0.8


def test_mistakes_are_told_before_the_fit(
    run: Run, world: tuple[Path, al.Split], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = world
    monkeypatch.setattr(al.AUR, "fit", lambda *_: pytest.fail("trained first"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    data = ["--interactions", folder / "parts"]
    for words, told in (
        ([*source(folder, "factors"), *data, "--out", tmp_path / "mine"], "is not a model folder"),
        ([*data, "--out", tmp_path / "m"], "0 sources were given"),
        ([*source(folder, "spark"), *source(folder, "scores"), *data, "--out", tmp_path / "m"], "2 sources"),
        (["--spark", folder / "gone", *data, "--out", tmp_path / "m"], "there is no folder"),
        (["--similarities", folder / "s.parquet", *data, "--out", tmp_path / "m"], "does not end in .npz"),
        (["--scores", folder / "sim.npz", *data, "--out", tmp_path / "m"], "does not end in .csv or .tsv or .parquet"),
        (["--similarities", folder / "gone.npz", *data, "--out", tmp_path / "m"], "there is no file"),
    ):
        ran = run("graft", *words)
        assert ran.code == 2
        assert ran.err.startswith("error: ")
        assert told in ran.err


def test_rolled_factors_are_refused_unless_asked_for(run: Run, world: tuple[Path, al.Split], tmp_path: Path) -> None:
    folder, _ = world
    words = ["--factors", folder / "rolled.npy", folder / "item.npy", *source(folder, "factors")[3:]]
    words += ["--interactions", folder / "parts", "--out", tmp_path / "m", *SMALL]
    ran = run("graft", *words)
    assert ran.code == 2
    assert "no higher than those of other users" in ran.err
    assert not (tmp_path / "m").exists()
    assert run("graft", *words, "--no-check").code == 0
