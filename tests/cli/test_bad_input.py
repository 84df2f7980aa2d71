"""Any mistake of a person gives a message of one line and exit code 2. Nothing is written."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

import pytest

import aleator as al
from aleator.checkpoint import folder
from tests.cli.conftest import SMALL, Run
from tests.folders import files_of, manifest_of, put_manifest


def refused(ran: Any, *words: str) -> None:
    """Check the exit code, the form of the message, and that it has these words."""
    assert ran.code == 2
    assert "Traceback" not in ran.err
    assert ran.err.startswith("error: ")
    assert len(ran.err.strip().splitlines()) == 1
    for word in words:
        assert word in ran.err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["empty"]),
        ("user_id,item_id\n", ["no rows"]),
        ("user_id,thing\n1,2\n", ["no item column", "thing"]),
        ("user_id,item_id\n1,2\n,3\n", ["missing"]),
        ("user_id,item_id\n1,2\n1,3\n1,4\n", ["one user"]),
    ],
)
def test_files_that_cannot_be_fitted(run: Run, tmp_path: Path, content: str, words: list[str]) -> None:
    (tmp_path / "bad.csv").write_text(content)
    refused(run("fit", tmp_path / "bad.csv", "--out", tmp_path / "m", *SMALL), *words)
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--users", "u1,nobody"], ["nobody"]),
        (["--users", "u1", "--k", "0"], ["k is 0"]),
        (["--users", "u1", "--k", "9999"], ["k is 9999", "items"]),
        (["--users", "u1", "--lam", "1.5"], ["lam is 1.5"]),
        (["--history", "zzz,yyy"], ["none of the 2 items"]),
        ([], ["--users", "--history"]),
    ],
)
def test_wrong_requests(run: Run, model: Path, words: list[str], told: list[str]) -> None:
    refused(run("recommend", model, *words), *told)


def test_misspelt_names(run: Run, parts: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "m")
    refused(run("fit", parts, *out, "--set", "alhpa=2"), "alhpa", "'alpha'")
    refused(run("fit", parts, *out, "--model", "mf", "--set", "model.dmi=2"), "dmi", "'dim'")
    refused(run("fit", parts, *out, "--set", "estimator.activation=relo"), "relo", "relu")
    refused(run("fit", parts, *out, "--model", "mf", "--set", "model.dim=big"), "dim", "int")
    for compared in ([], ["--model", "auto"]):
        refused(run("fit", parts, *out, *compared, "--set", "model.dim=8"), "model.dim", "name a model")
    refused(run("fit", parts, *out, "--model", "auto", "--no-uncertainty"), "name a model")
    refused(run("fit", parts, *out, "--set", "contenders=mf"), "the model is a str")
    refused(run("fit", parts, *out, "--set", "seed=abc"), "seed", "'abc'", "int")
    refused(run("fit", parts, *out, "--model", "mff"), "mff", "'mf'")
    refused(run("fit", parts, *out, "--no-uncertainty", "--set", "alpha=2"), "alpha", "no effect")
    refused(run("fit", "yelp2081", *out), "yelp2081")
    assert run("fit", parts, "--oot", "m").code == 2
    assert run("fitt").code == 2


def test_folders_that_hold_no_model(run: Run, model: Path, parts: Path, tmp_path: Path) -> None:
    refused(run("recommend", tmp_path, "--users", "u1"), "not a model folder")
    for name in files_of(model):
        broken = tmp_path / name
        broken.mkdir()
        for file in model.iterdir():
            content = file.read_bytes()
            (broken / file.name).write_bytes(content[: len(content) // 2] if file.name == name else content)
        refused(run("evaluate", broken, parts), "damaged or foreign")
    foreign = shutil.copytree(model, tmp_path / "foreign")
    put_manifest(foreign, manifest_of(model) | {"kind": "Elephant"})
    refused(run("evaluate", foreign, parts), "Elephant")


def test_a_test_part_is_needed(run: Run, model: Path, ratings: Path, tmp_path: Path) -> None:
    refused(run("evaluate", model, ratings), "no test part")
    single = tmp_path / "single.csv"
    single.write_text("user_id,item_id\n1,2\n2,3\n")
    refused(run("data", "split", single, "--out", tmp_path / "x"), "no test pair")
    assert not (tmp_path / "x").exists()


def test_nothing_is_overwritten_that_is_no_model(run: Run, parts: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").write_text("all of it")
    refused(run("fit", parts, "--out", tmp_path / "precious", *SMALL), "not a model folder")
    assert (tmp_path / "precious" / "thesis.txt").read_text() == "all of it"


def test_no_space_left(run: Run, parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(folder, "write_tensors", full)
    refused(run("fit", parts, "--out", tmp_path / "m", *SMALL), "No space left")
    assert [place.name for place in tmp_path.iterdir()] == ["m.fit"]  # the fit is not lost: the next call saves it
    monkeypatch.undo()
    assert run("fit", parts, "--out", tmp_path / "m", *SMALL).code == 0
    assert [place.name for place in tmp_path.iterdir()] == ["m"]


def test_ctrl_c_in_training(run: Run, parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(al.FactorEstimator, "step", interrupted)
    ran = run("fit", parts, "--out", tmp_path / "m", *SMALL)
    assert ran.code == 130
    assert ran.err.endswith("the same call goes on from there\ninterrupted; unfinished results were not written\n")
    assert [place.name for place in tmp_path.iterdir()] == ["m.fit"]


def test_a_diverging_training_says_when_and_what_to_try(run: Run, parts: Path, tmp_path: Path) -> None:
    words = ("--set", "estimator.lr=1e30", "--set", "estimator.weight_decay=0.0", *SMALL)
    refused(run("fit", parts, "--out", tmp_path / "m", *words), "epoch", "learning rate")
    assert not (tmp_path / "m").exists()


def test_a_model_is_not_tested_on_what_it_was_trained_on(run: Run, ratings: Path, parts: Path, tmp_path: Path) -> None:
    assert run("fit", ratings, "--out", tmp_path / "leak", *SMALL).code == 0
    refused(run("evaluate", tmp_path / "leak", parts), "was trained on", "test pairs")


def test_places_that_cannot_be_written_are_refused_before_the_training(
    run: Run, parts: Path, ratings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(al.AUR, "fit", lambda *_: pytest.fail("trained first"))
    (tmp_path / "file").write_text("mine")
    refused(run("fit", parts, "--out", tmp_path / "file"), "not a model folder")
    refused(run("fit", parts, "--out", tmp_path / "file" / "m"), "nothing can be written")
    refused(run("data", "split", ratings, "--out", tmp_path / "file"), "not empty")
    refused(run("data", "split", ratings, "--out", parts), "not empty")
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    refused(run("fit", parts, "--out", tmp_path / "m", "--config", tmp_path / "bad.toml"), "cannot be read")


def test_one_seed_for_every_part(run: Run, parts: Path, tmp_path: Path) -> None:
    assert run("fit", parts, "--out", tmp_path / "m", *SMALL, "--seed", 1, "--set", "seed=3").code == 0
    model = al.AUR.load(tmp_path / "m")
    assert (model.seed, model.model.seed, model.estimator.seed) == (3, 3, 3)
    assert run("fit", parts, "--out", tmp_path / "b", "--no-uncertainty", "--set", "seed=3").code == 0
    assert al.load_model(tmp_path / "b").seed == 3
