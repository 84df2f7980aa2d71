"""The frame of `explain`: its rows, its columns, and mistakes."""

from __future__ import annotations

import pytest

import aleator as al


@pytest.fixture(scope="module")
def model(split: al.Split) -> al.Model:
    return al.EASE(l2=10.0).fit(split)


def test_rows_are_the_history_items_that_add_most_in_order(model: al.Model) -> None:
    whole, some = model.explain([4, 3], [7, 2], n=None), model.explain([4, 3], [7, 2], n=2)
    sizes = {user: int(model.fitted.csr[user].nnz) for user in (4, 3)}
    assert len(whole) == 2 * (sizes[4] + sizes[3])
    pairs = list(dict.fromkeys(zip(some["user_id"], some["item_id"], strict=True)))
    assert pairs == [(4, 7), (4, 2), (3, 7), (3, 2)], "in the order in which they were asked for"
    for user, item in pairs:
        rows = whole.filter((whole["user_id"] == user) & (whole["item_id"] == item))
        assert rows["adds_to_score"].to_list() == sorted(rows["adds_to_score"], reverse=True)
        assert rows.head(2).equals(some.filter((some["user_id"] == user) & (some["item_id"] == item)))


def test_columns_have_titles_if_there_are_titles(split: al.Split) -> None:
    bare = ["user_id", "item_id", "history_item", "adds_to_expectation", "adds_to_score", "share", "rest", "exact"]
    assert al.EASE(l2=10.0).fit(split).explain([3], [7]).columns == bare
    titled = split.everything.with_titles({item: f"thing {item}" for item in range(50)})
    found = al.EASE(l2=10.0).fit(titled).explain([3], [7])
    assert found.columns == [*bare, "title", "history_title"]
    assert found["title"].to_list() == ["thing 7"] * 3
    assert found["history_title"].to_list() == [f"thing {item}" for item in found["history_item"]]


def test_nobody_nothing_and_a_user_without_a_history_have_no_rows(split: al.Split) -> None:
    data = split.everything
    model = al.EASE(l2=10.0).fit(data.take(data.user != 5))
    asked: list[tuple[list[int], list[int]]] = [([], [7]), ([3], []), ([5], [7])]
    for users, items in asked:
        found = model.explain(users, items)
        assert len(found) == 0
        assert "adds_to_score" in found.columns
    assert set(model.explain([3, 5, 4], [7])["user_id"]) == {3, 4}


def test_unknown_ids_are_named(model: al.Model) -> None:
    for users, items, told in (([3], [999], "unknown item 999"), ([999], [7], "unknown user 999")):
        with pytest.raises(al.AleatorError, match=told):
            model.explain(users, items)
    with pytest.raises(al.AleatorError, match="items is 7; give a list of item ids"):
        model.explain([3], 7)  # type: ignore[arg-type]
    with pytest.raises(al.AleatorError, match="no uncertainty, and so no lam"):
        model.explain([3], [7], lam=0.5)
    with pytest.raises(al.AleatorError, match="not fitted"):
        al.EASE().explain([3], [7])
