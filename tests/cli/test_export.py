"""aleator export writes what al.export writes."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

import aleator as al
from tests.cli.conftest import Run


def test_export_writes_files_and_says_what_a_client_does(run: Run, model: Path, tmp_path: Path) -> None:
    done = run("export", model, "--out", tmp_path / "x", "--lam", 0.3)
    assert done.code == 0, done.err
    assert "no cosine" in done.out
    assert "lam 0.3" in done.out
    assert done.out.splitlines()[-1].endswith(f"saved in {tmp_path / 'x'}")
    aur = al.load_model(model)
    told = al.check_export(tmp_path / "x", aur)
    vectors = pl.read_parquet(tmp_path / "x" / "users")["vector"].to_numpy()
    assert (vectors == aur.vectors(lam=0.3).user_vectors).all()
    assert told["lam"] == 0.3


def test_export_prints_the_manifest_as_json(run: Run, model: Path, tmp_path: Path) -> None:
    done = run("export", model, "--out", tmp_path / "x", "--to", "npy", "--no-users", "--json")
    told = json.loads(done.out)
    assert told == json.loads((tmp_path / "x" / "manifest.json").read_text())
    assert (told["to"], told["users"]) == ("npy", 0)


def test_mistakes_are_told_in_a_sentence(run: Run, model: Path, tmp_path: Path) -> None:
    for words, told in (
        (["--rank", 5], "inner products already; leave rank out"),
        (["--lam", 2], "lam is 2"),
        (["--out", model], "is not an export; save to another place"),
        (["--to", "foo"], "'foo' is not one of"),
    ):
        done = run("export", model, "--out", tmp_path / "x", *words)
        assert done.code == 2
        assert told in " ".join(done.err.split())
        assert "Value error" not in done.err
    assert not (tmp_path / "x").exists()
