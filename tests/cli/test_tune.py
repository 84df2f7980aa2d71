"""aleator tune finds options, keeps its trials in a file, and writes the best options for fit."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

import aleator as al
from tests.cli.conftest import Run
from tests.cli.test_bad_input import refused

QUICK = ("--no-uncertainty", "--set", "model.iterations=2")


def test_what_is_found_is_written_for_fit_and_continued(
    run: Run, parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = run("tune", parts, *QUICK, "--trials", 2)
    assert told.code == 0, told.err
    assert "2 trials: 2 complete" in told.out
    assert "defaults" in told.out
    assert "it needs 10 complete trials" in told.out
    stem = f"tune-{parts.name}-mf"
    assert {file.name for file in tmp_path.iterdir()} == {f"{stem}.db", f"{stem}.db.lock", f"{stem}.toml"}
    found = json.loads(run("tune", parts, *QUICK, "--trials", 13, "--json").out)
    assert len(found["trials"]) == 13
    assert found["value"] == max(row["recall@20"] for row in found["trials"]) >= found["default"]
    assert tomllib.loads(Path(found["out"]).read_text()) == found["options"]
    assert (tmp_path / found["plot"]).read_bytes().startswith(b"\x89PNG")
    assert sum(found["importance"].values()) == pytest.approx(1)
    again = Path(found["out"]).read_text().splitlines()[1].removeprefix("# aleator ").split()
    assert run(*again).code == 0
    model = al.load_model("model")
    assert {name: model.options()[name] for name in found["options"]["model"]} == found["options"]["model"]


def test_with_uncertainty(run: Run, parts: Path, tmp_path: Path) -> None:
    words = ("--set", "model.dim=4", "--set", "estimator.dim=8", "--max-epochs", "2", "--trials", "2", "--seed", "3")
    out = ("--study", tmp_path / "s.db", "--out", tmp_path / "best.toml")
    told = run("tune", parts, *words, *out, "--select", "balanced", "--only", "uncertainty", "--quiet")
    assert told.code == 0, told.err
    assert "tail_recall@50" in told.out
    assert "lam" in told.out
    best = tomllib.loads((tmp_path / "best.toml").read_text())
    assert (best["select"], best["model"], best["estimator"]["dim"]) == ("balanced", {"dim": 4}, 8)
    assert "--seed 3 --max-epochs 2" in (tmp_path / "best.toml").read_text()
    refused(run("tune", parts, *words, *out, "--select", "overall"), "other settings", "metric")
    best_words = ("--model", "mf", "--config", tmp_path / "best.toml", "--max-epochs", 2)
    assert run("fit", parts, *best_words, "--out", tmp_path / "m").code == 0


def test_places_that_cannot_be_written_are_refused_first(
    run: Run, parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(al, "tune", lambda *_, **__: pytest.fail("searched first"))
    refused(run("tune", parts, "--study", tmp_path / "nowhere" / "s.db"), "cannot be written")
    refused(run("tune", parts, "--study", tmp_path / "s.db", "--out", tmp_path), "cannot be written")


def test_ctrl_c_says_that_the_trials_are_kept(
    run: Run, parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(al, "tune", stop)
    told = run("tune", parts, "--study", tmp_path / "s.db")
    assert told.code == 130
    assert f"the trials so far are in {tmp_path / 's.db'}" in told.err
    assert not (tmp_path / "s.toml").exists()
