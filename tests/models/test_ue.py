"""UE: against its formula, pair by pair."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import aleator as al
from aleator.models.ue import UE

from .literal import history_of, same_gradients, squared_error, tiny_world


def started(**options: Any) -> UE:
    model = UE(dim=3, **options)
    model.data = tiny_world()
    draw = torch.Generator().manual_seed(0)
    model.z, model.q = (torch.randn(9, 3, generator=draw, dtype=torch.float64).requires_grad_() for _ in range(2))
    return model


def score(model: UE, history: list[int], item: int, without: bool = False) -> Tensor:
    """<sum of z over the history, without the item itself where asked / sqrt(size), q_i>."""
    summed = torch.zeros(3, dtype=torch.float64)
    for j in history:
        if not (without and j == item):
            summed = summed + model.z[j]
    return (summed / math.sqrt(len(history)) * model.q[item]).sum()


@pytest.mark.parametrize("self_exclude", [False, True])
@pytest.mark.parametrize("mu", [1.0, 0.3])
def test_the_loss_is_the_papers_in_value_and_gradient(self_exclude: bool, mu: float) -> None:
    model = started(alpha=2.5, mu=mu, self_exclude=self_exclude)
    users = model.histories.batch(torch.tensor([4, 0, 3]))

    def each(place: int, item: int, observed: bool) -> Tensor:
        return score(model, history_of(users, place), item, without=self_exclude and observed)

    expected = squared_error(each, users, 9, mu, positive=2.5)
    same_gradients(model.loss(users, torch.Generator()), expected, model.parameters())


def test_scores_follow_the_formula_and_send_gradients_to_the_parameters() -> None:
    model = started()
    users, items = model.histories.batch(torch.tensor([1, 2])), torch.tensor([0, 5, 7])
    expected = torch.stack([torch.stack([score(model, history_of(users, u), int(i)) for i in items]) for u in range(2)])
    model.publish()
    same_gradients(model.score_block(users, items).square().sum(), expected.square().sum(), model.parameters())


def test_out_of_sample_pairs_owe_nothing_to_themselves() -> None:
    model = started()
    users = model.histories.batch(torch.tensor([4, 0, 3]))
    pairs = zip(users.row.tolist(), users.item.tolist(), strict=True)
    expected = torch.stack([score(model, history_of(users, row), item, without=True) for row, item in pairs])
    found = model.out_of_sample_pairs(users)
    assert found is not None
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    assert started(self_exclude=False).out_of_sample_pairs(users) is None


def test_a_newcomer_is_scored_as_a_user_with_the_same_history(split: al.Split) -> None:
    model = UE(dim=8, max_epochs=2).fit(split)
    history = model.fitted.item[model.fitted.user == 5].tolist()
    torch.testing.assert_close(model.score({"new": history}), model.score([5]))


def test_the_papers_recipe_is_the_plain_architecture(split: al.Split) -> None:
    model = UE(recipe="paper", dim=4)
    assert (model.alpha, model.mu, model.self_exclude, model.weight_decay) == (1.0, 1.0, False, 0.0)
    assert UE(recipe="paper", alpha=2.0).alpha == 2.0


@pytest.mark.parametrize(("option", "value"), [("alpha", 0.0), ("dim", 0), ("weight_decay", -1.0)])
def test_options_that_make_no_sense_are_refused(option: str, value: Any) -> None:
    with pytest.raises(al.AleatorError, match=option):
        UE(**{option: value})
