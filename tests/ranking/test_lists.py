"""Candidates for all users and for each user, and mistakes in them."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import polars as pl
import pytest

import aleator as al


def items_of(frame: Any, user: Any) -> list[Any]:
    return list(frame.filter(frame["user_id"] == user)["item_id"])


@pytest.fixture(scope="module", params=["factors", "matrix"])
def model(request: pytest.FixtureRequest, split: al.Split) -> al.Model:
    return (al.MF(dim=4, l2=0.01) if request.param == "factors" else al.EASE(l2=10.0)).fit(split)


def unseen(model: al.Model, user: int) -> list[Any]:
    return items_of(model.recommend([user], k=model.fitted.n_items), user)


def test_each_user_gets_only_their_own_allowed_items_in_the_order_of_all(model: al.Model) -> None:
    ranked = {user: unseen(model, user) for user in (3, 4)}
    allow = {3: ranked[3][9:2:-3], 4: ranked[4][::4]}
    found = model.recommend([3, 4], k=20, allow=allow)
    for user in (3, 4):
        assert items_of(found, user) == [item for item in ranked[user] if item in allow[user]][:20]
    one = model.recommend([3, 4], k=2, allow=allow, memory=1)  # a user at a time
    assert items_of(one, 4) == items_of(found, 4)[:2]


def test_an_allowed_item_that_was_seen_or_is_denied_is_not_listed(model: al.Model) -> None:
    seen = model.fitted.items.decode(model.fitted.csr[3].indices[:1]).tolist()
    a, b = unseen(model, 3)[:2]
    allow = {3: [*seen, a, b, a], 4: []}
    assert items_of(model.recommend([3, 4], allow=allow), 3) == [a, b]
    assert items_of(model.recommend([3, 4], allow=allow), 4) == []
    assert set(items_of(model.recommend([3, 4], allow=allow, filter_seen=False), 3)) == {*seen, a, b}
    assert items_of(model.recommend([3, 4], allow=allow, deny={3: [a]}), 3) == [b]
    assert items_of(model.recommend([3, 4], allow=allow, deny=[b]), 3) == [a]


def test_a_user_is_denied_their_own_items_alone(model: al.Model) -> None:
    ranked = {user: unseen(model, user) for user in (3, 4)}
    found = model.recommend([4, 3], k=5, deny={3: ranked[3][:2]})
    assert items_of(found, 3) == ranked[3][2:7]
    assert items_of(found, 4) == ranked[4][:5]
    kept = model.recommend([4, 3], k=50, deny={3: ranked[3][:2]}, filter_seen=False)
    assert len(items_of(kept, 3)) == len(items_of(kept, 4)) - 2


def test_newcomers_have_lists_by_their_names(model: al.Model) -> None:
    free = items_of(model.recommend({"new": [1, 2]}, k=5), "new")
    assert items_of(model.recommend({"new": [1, 2]}, k=5, allow={"new": free[3:1:-1]}), "new") == free[2:4]


def test_filters_keep_the_order_of_what_passes(model: al.Model) -> None:
    items = list(range(model.fitted.n_items))
    model = copy.copy(model)
    model.data = model.fitted.with_attributes({"item": items, "third": [i % 3 for i in items]})
    ranked = {user: unseen(model, user) for user in (3, 4)}
    found = model.recommend([3, 4], k=9, where={"third": [0, 2]}, deny={3: ranked[3][:1]})
    assert items_of(found, 4) == [item for item in ranked[4] if item % 3 != 1][:9]
    assert items_of(found, 3) == [item for item in ranked[3][1:] if item % 3 != 1][:9]
    with pytest.raises(al.AleatorError, match="unknown attribute 'thrid'; did you mean 'third'"):
        model.recommend([3], where={"thrid": 1})


def test_ids_come_back_in_the_type_of_the_data(split: al.Split) -> None:
    data = split.everything
    for kind in (np.int32, np.uint16, np.int64):
        pairs = {"user": data.user.astype(kind), "item": data.item.astype(kind)}
        found = al.EASE(l2=10.0).fit(al.read(pl.DataFrame(pairs))).recommend([3, 4], k=2)
        assert {found["user_id"].to_numpy().dtype, found["item_id"].to_numpy().dtype} == {np.dtype(kind)}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"allow": 5}, "allow is 5; give a list of item ids"),
        ({"deny": "5"}, "deny is '5'; give a list of item ids"),
        ({"allow": {3: 5}}, "allow of 3 is 5; give a list of item ids"),
        ({"allow": {}}, "allow has no list for 3"),
        ({"deny": {4: [1]}}, "deny has a list for 4, who is not asked for"),
        ({"allow": {3: [999]}}, "unknown item 999"),
        ({"lam": 0.5}, "has no uncertainty"),
        ({"alow": [1]}, "did you mean 'allow'"),
    ],
)
def test_mistakes(model: al.Model, options: dict[str, Any], words: str) -> None:
    with pytest.raises(al.AleatorError, match=words):
        model.recommend([3], **options)


def test_the_lists_of_an_aur_at_a_lam(fitted_aur: al.AUR) -> None:
    ranked = list(fitted_aur.recommend([3], k=8, lam=0.4)["item_id"])
    found = fitted_aur.recommend([3], k=8, lam=0.4, allow={3: ranked[::2]})
    assert list(found["item_id"]) == ranked[::2]
