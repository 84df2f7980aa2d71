"""A batch gives what `recommend` gives, to every user once, whatever interrupts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import aleator as al
from aleator.batch.folder import held
from tests.batch.helpers import assert_alike, batch, lists_in

SOURCE = Path(al.__file__).parents[1]


# What it writes


OPTIONS: list[dict[str, Any]] = [
    {},
    {"lam": 0.2, "filter_seen": False},
    {"where": {"half": "high"}, "deny": ["i30", "i41"]},
    {"untrained": True, "allow": ["i4", "i5", "i9", "i14", "i40"]},
    {"explain": 2},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_the_rows_are_those_of_recommend(
    model: al.AUR, users: pl.DataFrame, tmp_path: Path, options: dict[str, Any]
) -> None:
    told = batch(model, users, tmp_path / "out", **options)
    ids = users["user_id"].to_list()
    want = model.recommend(ids, k=5, **options)
    found = lists_in(tmp_path / "out")
    assert_alike(found.select(want.columns), want)
    assert (told["users"], told["rows"], told["parts"]) == (len(ids), len(want), -(-len(ids) // 11))


def test_each_user_has_their_own_lists(model: al.AUR, users: pl.DataFrame, tmp_path: Path) -> None:
    ids = users["user_id"].to_list()
    ranked = model.recommend(ids, k=8)
    deny = ranked.filter(pl.col("rank") <= 2).select("user_id", "item_id")
    deny.write_parquet(tmp_path / "deny.parquet")
    batch(model, users, tmp_path / "a", deny=tmp_path / "deny.parquet")
    want = ranked.filter(pl.col("rank").is_between(3, 7))
    found = lists_in(tmp_path / "a")
    assert found.select("user_id", "item_id").equals(want.select("user_id", "item_id"))
    told = batch(model, users, tmp_path / "b", allow={"u3": ["i4", "i9"]}, filter_seen=False)
    found = lists_in(tmp_path / "b")
    assert sorted(found["item_id"]) == ["i4", "i9"]
    assert (found["user_id"].unique().to_list(), told["rows"], told["short"]) == (["u3"], 2, len(ids))
    assert found["confidence"].is_nan().all()  # its ranks are not those of all items


def test_other_columns_stand_behind_and_one_of_an_old_name_is_renamed(
    model: al.AUR, users: pl.DataFrame, tmp_path: Path
) -> None:
    batch(model, users, tmp_path / "out", k=2)
    found = lists_in(tmp_path / "out")
    assert found.columns == [*model.recommend(["u1"], k=1).columns, "segment", "given_rank"]
    segment = dict(zip(users["user_id"], users["segment"], strict=True))
    assert found["segment"].to_list() == [segment[user] for user in found["user_id"]]
    assert set(found["given_rank"]) == {"old"}


def test_csv(model: al.AUR, users: pl.DataFrame, tmp_path: Path) -> None:
    users.write_csv(tmp_path / "users.csv")
    batch(model, tmp_path / "users.csv", tmp_path / "out", format="csv")
    found = lists_in(tmp_path / "out", "csv")
    want = model.recommend(users["user_id"].to_list(), k=5)
    assert found["item_id"].to_list() == want["item_id"].to_list()
    assert set(found["segment"]) == {0, 1, 2}
    lists = users.with_columns(tags=pl.lit(["a", "b"]))
    with pytest.raises(al.AleatorError, match="a part cannot be written as csv"):
        batch(model, lists, tmp_path / "other", format="csv")


def test_frames_of_any_kind_and_size_give_the_same_parts(model: al.AUR, users: pl.DataFrame, tmp_path: Path) -> None:
    def frames() -> Iterator[Any]:
        yield users[:3].to_pandas()
        yield users[3:30].to_arrow()
        yield users[30:]

    batch(model, users, tmp_path / "one")
    told = batch(model, frames(), tmp_path / "many")
    for path in (tmp_path / "one").glob("part-*"):
        assert pl.read_parquet(path).equals(pl.read_parquet(tmp_path / "many" / path.name))
    assert (told["users"], told["parts"]) == (len(users), 8)
    again = batch(model, frames(), tmp_path / "many")
    assert again["resumed"] == told["parts"]


def test_the_last_file_has_the_counts_and_the_options(model: al.AUR, users: pl.DataFrame, tmp_path: Path) -> None:
    told = batch(model, users, tmp_path, k=3, where={"half": {"low", "high"}})
    done = json.loads((tmp_path / "_SUCCESS").read_text())
    assert {name: told[name] for name in done if name != "aleator"} == {n: v for n, v in done.items() if n != "aleator"}
    assert (done["users"], done["k"], done["where"], done["left_out"]) == (len(users), 3, {"half": ["high", "low"]}, 0)


def test_a_bare_model_and_integers(split: al.Split, tmp_path: Path) -> None:
    model = al.EASE(l2=5.0).fit(split)
    (tmp_path / "users.csv").write_text("customer;uid\nx;4\ny;2\n")
    al.recommend_batch(model, tmp_path / "users.csv", tmp_path / "out", k=3)
    found = lists_in(tmp_path / "out")
    assert_alike(found.drop("customer"), model.recommend([4, 2], k=3))
    with pytest.raises(al.AleatorError, match="this EASE has no uncertainty"):
        al.recommend_batch(model, tmp_path / "users.csv", tmp_path / "other", k=3, lam=0.5)


def test_a_user_in_two_rows_is_refused(model: al.AUR, users: pl.DataFrame, tmp_path: Path) -> None:
    for frame in (pl.concat([users, users[40:41]]), users[[0, 1, 0]]):
        with pytest.raises(al.AleatorError, match="is in several rows of the frame of users; give each user once"):
            batch(model, frame, tmp_path / "out")
    assert not (tmp_path / "out").exists()


# Interruptions


KILLED = """
import os, signal, sys
from pathlib import Path
import polars as pl
import aleator as al
from aleator.batch import folder

model, users, out, moment, n = sys.argv[1:]
left = int(n)

def die_at(n_th, half):
    def call(*given):
        global left
        left -= 1
        if left == 0:
            half(*given)
            os.kill(os.getpid(), signal.SIGKILL)
        return n_th(*given)
    return call

def half_a_line(journal, line):
    journal.write(b'{"part": "part-')
    journal.flush()

def half_a_part(self, path):
    path.write_bytes(b"PAR1 half")

nothing = lambda *_: None
if moment == "half a part":
    pl.DataFrame.write_parquet = die_at(pl.DataFrame.write_parquet, half_a_part)
elif moment == "before the name":
    Path.replace = die_at(Path.replace, nothing)
elif moment == "before the journal":
    folder._append = die_at(folder._append, nothing)
else:
    folder._append = die_at(folder._append, half_a_line)
al.recommend_batch(al.load_model(model), users, out, k=5, per_part=11)
"""
MOMENTS = [("half a part", 3), ("before the name", 2), ("before the journal", 2), ("half a line", 1)]


def test_a_killed_batch_goes_on_and_every_user_comes_once(model: al.AUR, users: pl.DataFrame, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    users.write_parquet(tmp_path / "users.parquet")
    out, finished = tmp_path / "out", []
    for moment, n in MOMENTS:
        words = [str(tmp_path / "model"), str(tmp_path / "users.parquet"), str(out), moment, str(n)]
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
        ran = subprocess.run([sys.executable, "-c", KILLED, *words], check=False, env=environment, capture_output=True)
        assert ran.returncode == -signal.SIGKILL, ran.stderr
        assert not (out / "_SUCCESS").exists()
        finished.append((out / "_journal.jsonl").read_bytes().count(b"}\n") - 1)
    assert finished == [2, 3, 4, 4]
    told = batch(al.load_model(tmp_path / "model"), tmp_path / "users.parquet", out)
    assert (told["resumed"], told["parts"]) == (4, 8)
    names = {path.name for path in out.iterdir()}
    assert names == {*(f"part-{n:05}.parquet" for n in range(8)), "_journal.jsonl", "_SUCCESS"}
    found = lists_in(out)
    assert found["user_id"].to_list() == [user for user in users["user_id"] for _ in range(5)]
    batch(model, users, tmp_path / "undisturbed")
    assert found.equals(lists_in(tmp_path / "undisturbed"))


def test_a_finished_batch_is_not_done_again(
    model: al.AUR, users: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = batch(model, users, tmp_path)
    monkeypatch.setattr("aleator.batch.job.ranked", lambda *_: pytest.fail("ranked again"))
    again = batch(model, users, tmp_path)
    assert again["resumed"] == told["parts"] == 8
    assert again["rows"] == told["rows"]


def test_a_part_that_was_lost_or_cut_is_made_again(model: al.AUR, users: pl.DataFrame, tmp_path: Path) -> None:
    batch(model, users, tmp_path)
    whole = lists_in(tmp_path)
    (tmp_path / "part-00002.parquet").unlink()
    (tmp_path / "part-00004.parquet").write_bytes(b"PAR1")
    assert batch(model, users, tmp_path)["resumed"] == 6
    assert lists_in(tmp_path).equals(whole)


@pytest.mark.parametrize(
    ("options", "different"),
    [
        ({"k": 4}, "k"),
        ({"lam": 0.9}, "lam"),
        ({"filter_seen": False}, "filter_seen"),
        ({"deny": ["i4"]}, "deny and candidates"),
        ({"deny": {"u3": ["i4"]}}, "deny"),
        ({"where": {"half": "low"}}, "where and candidates"),
        ({"unknown": "drop"}, "unknown"),
        ({"per_part": 12}, "per_part"),
    ],
)
def test_other_options_are_refused(
    model: al.AUR, users: pl.DataFrame, tmp_path: Path, options: dict[str, Any], different: str
) -> None:
    batch(model, users[:20], tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(al.AleatorError, match=f"holds a batch with another {different}; give another folder"):
        batch(model, users[:20], tmp_path, **options)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_another_model_and_other_users_are_refused(
    model: al.AUR, users: pl.DataFrame, tmp_path: Path, split: al.Split
) -> None:
    tmp_path = tmp_path / "out"
    batch(model, users, tmp_path)
    other = al.EASE().fit(model.fitted)
    with pytest.raises(al.AleatorError, match="holds a batch with another model"):
        batch(other, users, tmp_path)
    with pytest.raises(al.AleatorError, match="holds a batch with another users"):
        batch(model, users[:50], tmp_path)
    with pytest.raises(al.AleatorError, match=r"part-00000.parquet in .* is of other users than"):
        batch(model, users[::-1], tmp_path)
    changed = users.with_columns(segment=pl.Series([*users["segment"][:-1], 99]))
    with pytest.raises(al.AleatorError, match=r"part-00007.parquet in .* is of other users than"):
        batch(model, changed, tmp_path)
    batch(model, iter([users]), tmp_path.with_name("iterated"))
    with pytest.raises(al.AleatorError, match="has 3 parts more than the frame of users has users for"):
        batch(model, iter([users[:55]]), tmp_path.with_name("iterated"))


def test_a_batch_without_a_finished_part_may_be_another_one(model: al.AUR, users: pl.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(al.AleatorError, match="does not know"):
        batch(model, iter([pl.DataFrame({"user_id": ["nobody"]})]), tmp_path)
    assert batch(model, users, tmp_path, k=2)["resumed"] == 0


def test_a_second_run_at_the_same_time_is_refused(model: al.AUR, users: pl.DataFrame, tmp_path: Path) -> None:
    with held(tmp_path, {}), pytest.raises(al.AleatorError, match="another run is writing to"):
        batch(model, users, tmp_path)
    batch(model, users, tmp_path)


# Mistakes


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"k": 0}, "k is 0"),
        ({"k": 500}, "k is 500 but there are"),
        ({"lam": 3}, "lam is 3"),
        ({"per_part": 0}, "per_part is 0"),
        ({"format": "json"}, "unknown format 'json'"),
        ({"explain": 0}, "explain is 0"),
        ({"explain": 2, "format": "csv"}, "a csv file holds no lists of reasons; write parquet"),
        ({"unknown": "popluar"}, "did you mean 'popular'"),
        ({"user": "name"}, "has no column 'name'; name one of"),
        (
            {"history": "past", "unknown": "drop", "users": pl.DataFrame({"user_id": ["x"]})},
            "there is no column 'past'",
        ),
        ({"history": "n", "users": pl.DataFrame({"user_id": ["x"], "n": [3]})}, "column 'n' holds no histories"),
        ({"where": {"halve": "low"}}, "did you mean 'half'"),
        ({"allow": ["what"]}, "unknown item 'what'"),
        ({"deny": "nowhere.csv"}, "there is no file 'nowhere.csv'"),
        ({"users": pl.DataFrame({"name": ["u1"]})}, "has no user column among name; name it with user="),
        ({"users": pl.DataFrame({"user_id": ["u1", None]})}, "column 'user_id' of the frame of users has 1 missing"),
        ({"users": pl.DataFrame({"user_id": pl.Series([], dtype=pl.String)})}, "the frame of users has no rows"),
        ({"users": ["u1", "u2"]}, "a str is no table"),
        ({"users": 5}, "users is 5"),
        ({"users": "users.pq"}, "there is no file 'users.pq'"),
    ],
)
def test_mistakes_leave_nothing(
    model: al.AUR, users: pl.DataFrame, tmp_path: Path, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(al.AleatorError) as told:
        batch(model, options.pop("users", users), tmp_path / "out", **options)
    assert says in str(told.value)
    assert not (tmp_path / "out").exists()


def test_a_folder_with_other_things_is_refused(model: al.AUR, users: pl.DataFrame, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    for out, says in ((tmp_path, "is not empty and holds no batch"), (tmp_path / "mine.txt", "is a file")):
        with pytest.raises(al.AleatorError, match=says):
            batch(model, users, out)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_pandas_comes_with_its_index_left_out(model: al.AUR, tmp_path: Path) -> None:
    frame = pd.DataFrame({"user_id": ["u3", "u1"]}, index=[9, 8])
    batch(model, frame, tmp_path, k=1)
    assert lists_in(tmp_path)["user_id"].to_list() == ["u3", "u1"]
