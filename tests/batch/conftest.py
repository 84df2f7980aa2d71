"""A fitted model with attributes and titles, and its users as a frame."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

import aleator as al


@pytest.fixture(scope="session")
def model(small_aur: Callable[..., al.AUR], split: al.Split) -> al.AUR:
    """Ids are texts; user u7 is known and has no training pair. Tests must not change it."""
    data = split.everything.take(split.everything.user != 7)
    pairs = al.read({"user": [f"u{u}" for u in (*data.user, 7)], "item": [f"i{i}" for i in (*data.item, 0)]})
    items = list(pairs.items.ids)
    pairs = pairs.with_attributes({"item": items, "half": ["low" if int(i[1:]) < 25 else "high" for i in items]})
    pairs = pairs.with_titles({item: f"thing {item}" for item in items[1:]})
    return small_aur().fit(pairs.take(pairs.users.ids[pairs.user] != "u7"))


@pytest.fixture(scope="session")
def users(model: al.AUR) -> pl.DataFrame:
    """All users of the model, with two more columns."""
    ids = model.fitted.users.ids.tolist()[::-1]
    return pl.DataFrame({"segment": [n % 3 for n in range(len(ids))], "user_id": ids, "rank": ["old"] * len(ids)})
