"""What history items add: leaving one out, the strongest, and the lists in the frame of `recommend`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import aleator as al
from aleator.batches import Histories, Users
from aleator.ranking import contributions
from aleator.ranking.contributions import history_items, leave_one_out, strongest

CPU = torch.device("cpu")


@pytest.fixture
def users() -> Users:
    return Histories.of_lists([[1, 4, 7], [], [2]], 9, CPU).batch(torch.arange(3))


@pytest.mark.parametrize("cells", [1, 1 << 20])
def test_leaving_an_item_out_scores_the_rest_of_the_history_as_a_newcomers(
    users: Users, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contributions, "_CELLS", cells)

    def score(some: Users, items: Tensor | None) -> Tensor:
        """The square of the sum of the history, plus the item."""
        assert items is not None
        assert (some.index == -1).all()
        total = torch.zeros(len(some)).index_add(0, some.row, some.item.float() * some.weight)
        return total.square()[:, None] + items

    items = torch.tensor([[0, 3], [1, 1], [8, 5]])
    found = leave_one_out(score, users, items)
    wanted = [12**2 - 11**2, 12**2 - 8**2, 12**2 - 5**2, 2**2]
    assert found.tolist() == [[value, value] for value in wanted]
    assert leave_one_out(score, users.part(1, 2), items[1:2]).shape == (0, 2)


def test_the_strongest_are_in_order_and_nothing_stands_for_none(users: Users) -> None:
    values = torch.tensor([[1.0, 5.0], [3.0, torch.nan], [2.0, 7.0], [-1.0, 0.0]])
    assert strongest(values, users, 2).tolist() == [[[1, 2], [2, 0]], [[-1, -1], [-1, -1]], [[3, -1], [3, -1]]]
    assert strongest(values, users, 5).shape == (3, 2, 5)
    assert strongest(values[:0], users.part(1, 2), 2).tolist() == [[[-1, -1], [-1, -1]]]


@pytest.mark.parametrize("cells", [1, 1 << 22])
def test_lists_name_the_items_that_add_most_and_none_that_adds_nothing(
    split: al.Split, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contributions, "_CELLS", cells)  # a user at a time, or many
    model = al.EASE(l2=10.0).fit(split)
    found = model.recommend(list(range(80)), k=5, explain=2)
    whole = model.explain(list(range(80)), found["item_id"].unique().to_list(), n=None)
    positive = whole.filter(whole["adds_to_expectation"] > 0).group_by("user_id", "item_id", maintain_order=True)
    wanted = {key: rows["history_item"].to_list()[:2] for key, rows in positive}
    told = zip(found["user_id"], found["item_id"], found["expectation_from"].to_list(), strict=True)
    assert all(items == wanted.get((user, item), []) for user, item, items in told)
    assert min(map(len, found["expectation_from"].to_list())) < 2, "some have less than 2 reasons"
    plain = model.recommend(list(range(80)), k=5)
    assert found.drop("expectation_from").equals(plain), "all else is the same"


def test_places_without_an_item_do_no_harm(split: al.Split) -> None:
    model = al.EASE(l2=10.0).fit(split)
    users = model.users([3])
    found = history_items(model, users, torch.tensor([[5, -1]]), 2)["expectation_from"]
    assert found.shape == (1, 2, 2)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("texts", [False, True])
def test_lists_of_ids_and_titles_survive_in_every_kind_of_frame(kind: str, texts: bool, split: al.Split) -> None:
    frames = pytest.importorskip(kind, reason=f"needs {kind}")
    pairs = split.everything
    item = [f"i{i}" for i in pairs.item] if texts else pairs.item.tolist()
    columns = {"user_id": pairs.user.tolist(), "item_id": item}
    make = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}[kind]
    data = al.read(getattr(frames, make)(columns)).with_titles({i: f"title of {i}" for i in item})
    found = al.EASE(l2=10.0).fit(data).recommend([0, 1], k=4, explain=2)
    names = ["expectation_from", "expectation_from_titles"]
    ids, titles = (found[name].to_pylist() if kind == "pyarrow" else found[name].to_list() for name in names)
    history = set(np.array(item, object)[np.isin(pairs.user, [0, 1])])
    assert any(len(own) == 2 for own in ids)
    assert all({*own} <= history for own in ids)
    assert {type(each) for own in ids for each in own} == {str if texts else int}
    assert [[f"title of {each}" for each in own] for own in ids] == [list(own) for own in titles]


@pytest.mark.parametrize("n", [0, -1, 2.5, "3", True])
def test_a_number_of_history_items_that_is_none_is_refused(n: Any, split: al.Split) -> None:
    model = al.EASE(l2=10.0).fit(split)
    with pytest.raises(al.AleatorError, match=r"explain is .* whole number of at least 1"):
        model.recommend([0], k=2, explain=n)
    with pytest.raises(al.AleatorError, match=r"n is .* whole number of at least 1"):
        model.explain([0], [1], n=n)
