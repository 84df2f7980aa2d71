"""FISM: against its formula, pair by pair."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import aleator as al
from aleator.batches import Histories, Users
from aleator.models.fism import FISM

from .literal import history_of, same_gradients, squared_error, tiny_world


def started(kind: type[FISM] = FISM, **options: Any) -> FISM:
    """On the tiny world, with random parameters in float64."""
    model = kind(dim=3, **options)
    model.data = tiny_world()
    draw = torch.Generator().manual_seed(0)
    columns = 3, 3 + model.bias
    model.z, model.q = (torch.randn(9, n, generator=draw, dtype=torch.float64).requires_grad_() for n in columns)
    return model


def score(model: FISM, history: list[int], item: int) -> Tensor:
    """<sum of z over the history / sqrt(size), q_i> + b_i. For an empty history, only the bias is left."""
    summed = torch.zeros(3, dtype=torch.float64)
    for j in history:
        summed = summed + model.z[j]
    own = (summed / math.sqrt(max(len(history), 1)) * model.q[item, :3]).sum()
    return own + model.q[item, 3] if model.bias else own


def rest(history: list[int], item: int) -> list[int]:
    return [j for j in history if j != item]


def alone() -> Users:
    """Three users. The second has one item, so that nothing is left without it."""
    return Histories.of_lists([[0, 4, 7], [3], [1, 2]], 9, torch.device("cpu")).batch(torch.tensor([0, 1, 2]))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("mu", [1.0, 0.3])
def test_the_loss_of_an_observed_pair_is_that_of_the_rest_of_the_history(bias: bool, mu: float) -> None:
    model = started(alpha=2.5, mu=mu, bias=bias, history_dropout=0.0)
    for users in (model.histories.batch(torch.tensor([4, 0, 3])), alone()):

        def each(place: int, item: int, observed: bool, users: Users = users) -> Tensor:
            history = history_of(users, place)
            return score(model, rest(history, item) if observed else history, item)

        expected = squared_error(each, users, 9, mu, positive=2.5)
        same_gradients(model.loss(users, torch.Generator()), expected, model.parameters())


@pytest.mark.parametrize("bias", [True, False])
def test_with_dropout_the_loss_is_that_of_the_items_kept(bias: bool) -> None:
    """An item that was dropped is not in the history, so nothing is left out in its loss."""
    model = started(alpha=2.5, bias=bias, history_dropout=1.0)
    users = model.histories.batch(torch.arange(6))
    keep = model._kept(users, torch.Generator().manual_seed(3))
    kept = [users.item[(users.row == place) & (keep > 0)].tolist() for place in range(6)]
    sizes = [len(items) for items in kept]
    assert sum(sizes) < len(users.item)
    assert min(s for s in sizes if s) == 1 < max(sizes)

    def each(place: int, item: int, observed: bool) -> Tensor:
        return score(model, rest(kept[place], item) if observed else kept[place], item)

    expected = squared_error(each, users, 9, 1.0, positive=2.5)
    same_gradients(model.loss(users, torch.Generator().manual_seed(3)), expected, model.parameters())


def test_every_user_draws_a_rate_of_its_own() -> None:
    model, n = FISM(dim=3, history_dropout=0.8), 400
    model.z = torch.zeros(1, 3)
    lists = Histories.of_lists([range(n)] * 200, n, torch.device("cpu")).batch(torch.arange(200))
    dropped = 1 - model._kept(lists, torch.Generator().manual_seed(0)).view(200, n).mean(1)
    assert float(dropped.min()) < 0.1 < 0.7 < float(dropped.max()) < 0.9
    assert abs(float(dropped.mean()) - 0.4) < 0.06
    assert bool((model._kept(lists) == 1).all())


@pytest.mark.parametrize("bias", [True, False])
def test_scores_follow_the_formula_and_send_gradients_to_the_parameters(bias: bool) -> None:
    model = started(bias=bias)
    users, items = model.histories.batch(torch.tensor([1, 2])), torch.tensor([0, 5, 7])
    expected = torch.stack([torch.stack([score(model, history_of(users, u), int(i)) for i in items]) for u in range(2)])
    model.publish()
    same_gradients(model.score_block(users, items).square().sum(), expected.square().sum(), model.parameters())


@pytest.mark.parametrize("bias", [True, False])
def test_out_of_sample_pairs_are_scored_from_the_rest_of_the_history(bias: bool) -> None:
    model = started(bias=bias)
    for users in (model.histories.batch(torch.tensor([4, 0, 3])), alone()):
        pairs = list(zip(users.row.tolist(), users.item.tolist(), strict=True))
        expected = torch.stack([score(model, rest(history_of(users, row), item), item) for row, item in pairs])
        found = model.out_of_sample_pairs(users)
        assert found is not None
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_popularity_counts_the_more_the_shorter_a_history_is() -> None:
    """Item 0 is popular, and items 1 and 2 are like each other."""
    model = FISM(dim=1, alpha=1.0, bias=True)
    model.data = tiny_world()
    model.z, model.q = torch.zeros(9, 1), torch.zeros(9, 2)
    model.z[1:], model.q[2, 0], model.q[0, 1] = 1.0, 0.3, 0.5
    given = Histories.of_lists([[1], [1, 3, 4, 5]], 9, torch.device("cpu")).batch(torch.tensor([0, 1]), known=False)
    scores = model.score_block(given)
    assert scores[0, 0] > scores[0, 2]
    assert scores[1, 0] < scores[1, 2]


def test_dimensions_follow_the_catalogue(split: al.Split) -> None:
    assert FISM(max_epochs=1).fit(split).z.shape == (split.train.n_items, split.train.n_items // 8)
    assert FISM(max_epochs=1, dim=5).fit(split).z.shape[1] == 5


def test_a_newcomer_is_scored_as_a_user_with_the_same_history(split: al.Split) -> None:
    model = FISM(dim=8, max_epochs=2).fit(split)
    history = model.fitted.item[model.fitted.user == 5].tolist()
    torch.testing.assert_close(model.score({"new": history}), model.score([5]))


@pytest.mark.parametrize(
    ("option", "value"), [("alpha", 0.0), ("dim", 0), ("weight_decay", -1.0), ("history_dropout", 1.5)]
)
def test_options_that_make_no_sense_are_refused(option: str, value: Any) -> None:
    with pytest.raises(al.AleatorError, match=option):
        FISM(**{option: value})
