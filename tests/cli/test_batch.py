"""aleator recommend with a table of users, with filters, and with files of allowed and denied items."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import aleator as al
from aleator.engines import engine
from tests.cli.conftest import SMALL, Run
from tests.cli.test_bad_input import refused


@pytest.fixture
def users(model: Path, tmp_path: Path) -> Path:
    """A file with all users of the model and another column."""
    ids = al.load_model(model).fitted.users.ids.tolist()
    path = tmp_path / "users.csv"
    pl.DataFrame({"user_id": ids, "segment": ["a"] * len(ids)}).write_csv(path)
    return path


def test_a_batch_is_written_told_and_gone_on_with(run: Run, model: Path, users: Path, tmp_path: Path) -> None:
    out = tmp_path / "recs"
    words = ("recommend", model, "--users", users, "--k", 4, "--lam", 0.3, "--keep-seen", "--untrained", "--out", out)
    told = run(*words, "--per-part", 25, "--quiet")
    assert told.code == 0, told.err
    assert f"{out}: " in told.out
    assert "in 3 parts, " in told.out
    found = pl.read_parquet(out / "part-*.parquet")
    ids = pl.read_csv(users)["user_id"].to_list()
    want = al.load_model(model).recommend(ids, k=4, lam=0.3, filter_seen=False, untrained=True)
    assert found["item_id"].to_list() == want["item_id"].to_list()
    again = json.loads(run(*words, "--per-part", 25, "--json").out)
    assert (again["parts"], again["resumed"], again["rows"]) == (3, 3, len(found))
    assert "3 of them from an earlier run" in run(*words, "--per-part", 25).out
    refused(run(*words), "holds a batch with another per_part")


def test_what_the_model_does_not_know_is_told(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "users.csv").write_text("who,past\nu1,\nx,i1 i2\ny,\n")
    words = ("recommend", model, "--users", tmp_path / "users.csv", "--user", "who", "--k", 3)
    refused(run(*words, "--out", tmp_path / "a"), "does not know 2 of the users, such as 'x'", "--unknown")
    told = run(*words, "--out", tmp_path / "b", "--unknown", "drop", "--history", "past", "--format", "csv")
    assert "note: the model does not know 2 users: 1 by their history, 1 left out" in told.out
    assert pl.read_csv(tmp_path / "b" / "part-00000.csv")["user_id"].unique(maintain_order=True).to_list() == [
        "u1",
        "x",
    ]
    told = run(*words, "--out", tmp_path / "c", "--unknown", "popular", "--k", 39)
    assert "2 with popular items" in told.out
    assert "users have less than 39 items" in told.out


def test_attributes_filter_a_list_and_a_batch(run: Run, parts: Path, users: Path, tmp_path: Path) -> None:
    items = [f"i{n}" for n in range(40)]
    frame = pl.DataFrame({"item_id": items, "genre": ["A", "B"] * 20, "year": [1980 + n for n in range(40)]})
    frame.write_csv(tmp_path / "items.csv")
    fitted = run("fit", parts, "--out", tmp_path / "m", "--attributes", tmp_path / "items.csv", *SMALL)
    assert fitted.code == 0, fitted.err
    words = ("recommend", tmp_path / "m", "--k", 5, "--where", "genre=A", "--where", "year=1990..")
    shown = json.loads(run(*words, "--users", "u1,u2", "--json").out)
    assert {row["item_id"] for row in shown} <= set(items[10::2])
    told = run(*words, "--users", users, "--out", tmp_path / "recs")
    assert told.code == 0, told.err
    found = pl.read_parquet(tmp_path / "recs" / "part-*.parquet")
    assert set(found["item_id"]) <= set(items[10::2])
    assert found.filter(user_id="u1")["item_id"].to_list() == [r["item_id"] for r in shown if r["user_id"] == "u1"]
    refused(run(*words, "--users", "u1", "--where", "gnre=A"), "did you mean 'genre'")
    refused(run(*words, "--users", "u1", "--where", "genre=C"), "no item has the genre 'C'")


def test_files_of_items_hold_for_typed_users_too(run: Run, model: Path, tmp_path: Path) -> None:
    before = json.loads(run("recommend", model, "--users", "u1,u2", "--k", 4, "--json").out)
    first = [row["item_id"] for row in before if row["rank"] == 1]
    (tmp_path / "deny.csv").write_text(f"user_id,item_id\nu1,{first[0]}\nu1,what\nu9,i1\n")
    told = run("recommend", model, "--users", "u1,u2", "--k", 4, "--json", "--deny", tmp_path / "deny.csv")
    rows = json.loads(told.out)
    assert [r["item_id"] for r in rows if r["user_id"] == "u1"][:3] == [r["item_id"] for r in before[1:4]]
    assert [r["item_id"] for r in rows if r["user_id"] == "u2"] == [r["item_id"] for r in before[4:]]
    assert "note: deny: 1 of 3 rows" in told.err
    (tmp_path / "allow.csv").write_text(f"item_id\n{first[0]}\n")
    rows = json.loads(run("recommend", model, "--users", "u1", "--allow", tmp_path / "allow.csv", "--json").out)
    assert [row["item_id"] for row in rows] == first[:1]
    rows = json.loads(run("recommend", model, "--history", "i1", "--allow", tmp_path / "allow.csv", "--json").out)
    assert [row["item_id"] for row in rows] == first[:1]


def test_a_path_that_exists_is_a_table_and_anything_else_is_ids(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "u1").write_text("user_id\nu1\n")
    refused(run("recommend", model, "--users", "u1"), "'u1' is a table of users; name a folder with --out")
    assert json.loads(run("recommend", model, "--users", "u1,", "--k", 2, "--json").out)[0]["user_id"] == "u1"
    refused(run("recommend", model, "--users", "u2", "--out", "x"), "there is no file 'u2'")
    refused(run("recommend", model, "--users", "u2", "--unknown", "drop"), "--unknown goes with a table of users")
    refused(run("recommend", model, "--history", "i1", "--out", "x"), "--out goes with a table of users")
    refused(run("recommend", model, "--users", "u2", "--history", "i1"), "exactly one")


def test_engines_and_workers_that_there_are_not_are_refused(
    run: Run, model: Path, parts: Path, users: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    batch = ("recommend", model, "--users", users, "--out", tmp_path / "recs")
    evaluate, tune = ("evaluate", model, parts), ("tune", parts, "--no-uncertainty")
    before = set(tmp_path.iterdir())
    for words in (batch, evaluate, tune):
        refused(run(*words, "--workers", 2), "workers are of engine ray")
        assert run(*words, "--engine", "rey").code == 2
        monkeypatch.setattr(engine, "need", lambda *_: None)  # also where Ray is not installed
        refused(run(*words, "--engine", "ray", "--workers", 0), "workers is 0")
        refused(run(*words, "--engine", "ray", "--device", "cuda"), "device")
    refused(run("recommend", model, "--users", "u1", "--engine", "ray"), "--engine goes with a table of users")
    assert set(tmp_path.iterdir()) == before
