"""Fixtures that run the command line in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import aleator as al
from aleator import cli, progress


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("fit", path, "--out", folder)` runs a command as in a shell and returns exit code, output and errors."""
    monkeypatch.delenv("ALEATOR_DATA", raising=False)

    def call(*words: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["aleator", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            cli.main()
        progress.quiet(False)
        text = capsys.readouterr()
        return Ran(int(left.value.code or 0), text.out, text.err)

    return call


@pytest.fixture(scope="session")
def ratings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A csv of a small simulated world, with text ids, times and ratings."""
    data = al.simulate(n_users=60, n_items=40, per_user=80, skew=0.7, seed=3).interactions
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("files") / "ratings.csv"
    rows = [f"u{u},i{i},{rng.integers(1, 6)},{rng.integers(10**6)}" for u, i in zip(data.user, data.item, strict=True)]
    path.write_text("\n".join(["user_id,item_id,rating,timestamp", *rows]) + "\n")
    return path


SMALL = ("--model", "mf", "--set", "model.dim=8", "--set", "estimator.dim=16", "--max-epochs", "4", "--quiet")


@pytest.fixture(scope="session")
def parts(ratings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `ratings` split into train, valid and test files."""
    folder = tmp_path_factory.mktemp("parts")
    split = al.read(ratings).split(valid=0.1, test=0.2, by="user_time")
    for name in ("train", "valid", "test"):
        al.write(getattr(split, name), folder / f"{name}.parquet")
    return folder


@pytest.fixture(scope="session")
def model(parts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a fitted and saved AUR."""
    folder = tmp_path_factory.mktemp("models") / "aur"
    estimator = al.FactorEstimator(dim=16, max_epochs=4)
    read = {name: al.read(parts / f"{name}.parquet") for name in ("train", "valid", "test")}
    al.AUR(al.MF(dim=8), estimator=estimator).fit(al.Split.of(read["train"], read["test"], read["valid"])).save(folder)
    return folder
