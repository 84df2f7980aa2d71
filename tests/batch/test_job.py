"""Users whom the model does not know, and parts without lists."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import aleator as al
from tests.batch.helpers import batch, lists_in


@pytest.fixture
def strangers(users: pl.DataFrame) -> pl.DataFrame:
    """Known users among three strangers. The first two have a history; that of the second has no known item."""
    new = pl.DataFrame({"user_id": ["x", "y", "z"], "history": ["i3 what i4 i3", "what", None]})
    known = users[:12].select("user_id", history=pl.lit("i1"))
    return pl.concat([known[:5], new, known[5:]])


def test_unknown_users_are_refused_before_anything_is_written(
    model: al.AUR, strangers: pl.DataFrame, tmp_path: Path
) -> None:
    for history, told in ((None, "3 of the users, such as 'x'"), ("history", "2 of the users, such as 'y'")):
        with pytest.raises(al.AleatorError, match=f"does not know {told}; give ids such as 'u0', or say"):
            batch(model, strangers, tmp_path / "out", history=history)
    assert not (tmp_path / "out").exists()
    with pytest.raises(al.AleatorError, match="does not know 3 of the users"):
        batch(model, iter([strangers]), tmp_path / "out")  # cannot be looked at before


def test_unknown_users_are_left_out_and_counted(model: al.AUR, strangers: pl.DataFrame, tmp_path: Path) -> None:
    told = batch(model, strangers, tmp_path, unknown="drop")
    want = strangers.filter(~pl.col("user_id").is_in(["x", "y", "z"]))["user_id"].to_list()
    found = lists_in(tmp_path)
    assert found["user_id"].unique(maintain_order=True).to_list() == want
    assert (told["users"], told["unknown"], told["left_out"], told["by_history"]) == (15, 3, 3, 0)
    assert found.columns == [*model.recommend(["u1"], k=1).columns, "history"]


def test_a_history_serves_a_stranger_and_not_a_known_user(
    model: al.AUR, strangers: pl.DataFrame, tmp_path: Path
) -> None:
    told = batch(model, strangers, tmp_path / "a", history="history", unknown="popular")
    found = lists_in(tmp_path / "a")
    assert "history" not in found.columns
    by_id = {user: found.filter(user_id=user)["item_id"].to_list() for user in ("x", "y", "z", *strangers["user_id"])}
    assert by_id["x"] == model.recommend({"x": ["i3", "i4"]}, k=5)["item_id"].to_list()
    assert by_id["y"] == by_id["z"] == model.recommend(["u7"], k=5)["item_id"].to_list()
    first = strangers["user_id"][0]
    assert by_id[first] == model.recommend([first], k=5)["item_id"].to_list()
    assert found["user_id"].unique(maintain_order=True).to_list() == strangers["user_id"].to_list()
    assert (told["unknown"], told["by_history"], told["left_out"]) == (3, 1, 0)
    as_lists = strangers.with_columns(pl.col("history").str.split(" "))
    batch(model, as_lists, tmp_path / "b", history="history", unknown="popular")
    assert lists_in(tmp_path / "b").equals(found)


def test_lists_of_each_user_hold_for_strangers_too(model: al.AUR, strangers: pl.DataFrame, tmp_path: Path) -> None:
    popular = model.recommend(["u7"], k=2)["item_id"].to_list()
    batch(model, strangers, tmp_path, unknown="popular", deny={"y": popular})
    found = lists_in(tmp_path)
    assert not set(found.filter(user_id="y")["item_id"]) & set(popular)
    assert set(found.filter(user_id="z")["item_id"]) >= set(popular)


def test_a_part_without_lists_has_the_columns(model: al.AUR, tmp_path: Path) -> None:
    frame = pl.DataFrame({"user_id": ["x", "y", "u1"], "n": [1, 2, 3]})
    batch(model, frame, tmp_path, unknown="drop", per_part=2, explain=2)
    first, second = (pl.read_parquet(path) for path in sorted(tmp_path.glob("part-*")))
    assert (len(first), len(second)) == (0, 5)
    assert first.schema == second.schema
