"""LightGCN: against the dense normalised adjacency, pair by pair."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import aleator as al
from aleator.models.lightgcn import LightGCN
from aleator.training.graph import Graph
from aleator.training.negatives import unobserved

from .literal import same_gradients, squared_error, tiny_world


def started(**options: Any) -> LightGCN:
    """On the tiny world, with random embeddings in float64."""
    model = LightGCN(dim=3, **options)
    model.data = tiny_world()
    draw = torch.Generator().manual_seed(0)
    users, items = (torch.randn(n, 3, generator=draw, dtype=torch.float64).requires_grad_() for n in (6, 9))
    model.embeddings, model.graph = (users, items), Graph(model.histories)
    return model


def propagated(model: LightGCN) -> Tensor:
    """[15, 3] the mean of E, A E, A^2 E .. where A = D^-1/2 [0 R; R' 0] D^-1/2, in loops."""
    taken = model.fitted.csr.toarray() > 0
    layer = torch.cat(list(model.embeddings))
    total = layer
    for _ in range(model.layers):
        rows = []
        for vertex in range(15):
            row = torch.zeros(3, dtype=torch.float64)
            for other in range(15):
                user, item = min(vertex, other), max(vertex, other) - 6
                if user < 6 <= item + 6 and taken[user, item]:
                    row = row + layer[other] / (taken[user].sum() * taken[:, item].sum()) ** 0.5
            rows.append(row)
        layer = torch.stack(rows)
        total = total + layer
    return total / (model.layers + 1)


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_the_loss_is_the_papers_in_value_and_gradient(layers: int) -> None:
    model = started(layers=layers, mu=0.3, l2=0.07)
    users = model.histories.batch(torch.tensor([4, 0, 3]))
    factors, (theirs, items) = propagated(model), model.embeddings

    def score(place: int, item: int, _: bool) -> Tensor:
        return (factors[int(users.index[place])] * factors[6 + item]).sum()

    penalty = theirs[[4, 0, 3]].square().sum() + items.square().sum() * 3 / 6  # of the embeddings, not of the factors
    expected = squared_error(score, users, 9, 0.3) + 0.07 * penalty
    same_gradients(model.objective(users, torch.Generator()), expected, model.parameters(), exact=1e-5)


def penalty_of(model: LightGCN, batch: list[int]) -> Tensor:
    theirs, items = model.embeddings
    return theirs[batch].square().sum() + items.square().sum() * len(batch) / 6


def test_bpr_is_its_authors_loss_in_value_and_gradient() -> None:
    model, batch = started(loss="bpr", draws=2, l2=0.07), [4, 0, 3]
    users, factors = model.histories.batch(torch.tensor(batch)), propagated(model)
    others = unobserved(users, 9, 2, torch.Generator().manual_seed(1))
    expected = 0.07 * penalty_of(model, batch)
    for n, (row, item, weight) in enumerate(zip(users.row, users.item, users.weight, strict=True)):
        x = factors[batch[int(row)]]
        for j in others.item[2 * n : 2 * n + 2].tolist():
            difference = (x * (factors[6 + int(item)] - factors[6 + j])).sum()
            expected = expected - weight.double() / 2 * torch.log(torch.sigmoid(difference))
    mine = model.objective(users, torch.Generator().manual_seed(1))
    same_gradients(mine, expected, model.parameters(), exact=1e-5)


@pytest.mark.parametrize("draws", ["auto", 4])
def test_softmax_is_the_share_of_an_item_among_itself_and_the_negatives(draws: Any) -> None:
    """All 9 items are drawn by "auto". The user's own are left out."""
    model, batch = started(loss="softmax", draws=draws, temperature=0.5, l2=0.07), [4, 0, 3]
    users, factors = model.histories.batch(torch.tensor(batch)), propagated(model)
    factors = factors / factors.norm(dim=1, keepdim=True)
    drawn = torch.randperm(9, generator=torch.Generator().manual_seed(1))[: 9 if draws == "auto" else draws].tolist()
    expected = 0.07 * penalty_of(model, batch)
    for row, item, weight in zip(users.row, users.item, users.weight, strict=True):
        x, taken = factors[batch[int(row)]], users.item[users.row == row].tolist()
        assert not set(taken) >= set(drawn)
        each = {j: torch.exp((x * factors[6 + j]).sum() / 0.5) for j in {int(item), *set(drawn).difference(taken)}}
        expected = expected - weight.double() * torch.log(each[int(item)] / sum(each.values()))
    mine = model.objective(users, torch.Generator().manual_seed(1))
    same_gradients(mine, expected, model.parameters(), exact=1e-5)


def test_softmax_scores_are_cosines_before_the_calibration() -> None:
    model = started(loss="softmax", layers=2)
    model.publish()
    factors = propagated(model)
    expected = torch.nn.functional.cosine_similarity(factors[:6, None], factors[None, 6:], dim=2)
    torch.testing.assert_close(model.table.users @ model.table.items.T, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("loss", ["bpr", "softmax"])
def test_other_losses_are_calibrated_and_not_trained_jointly(loss: Any, split: al.Split) -> None:
    assert (LightGCN().calibrate, LightGCN(loss=loss).calibrate) == ("none", "linear")
    assert LightGCN(loss=loss, calibrate="isotonic").calibrate == "isotonic"
    with pytest.raises(al.AleatorError, match="cannot be trained jointly"):
        al.AUR(LightGCN(loss=loss, calibrate="none"), joint=al.Joint())
    model = LightGCN(dim=8, loss=loss, lr=0.02, max_epochs=20, l2=1e-3).fit(split)
    observed = model.score_pairs(model.histories.batch(torch.arange(20)))
    everything = model.score_block(model.histories.batch(torch.arange(20)))
    assert 0 < float(everything.mean()) < float(observed.mean()) < 1.1


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"draws": 3}, "draws"),
        ({"temperature": 0.1}, "temperature"),
        ({"loss": "bpr", "temperature": 0.1}, "temperature"),
        ({"loss": "bpr", "negatives": "each"}, "negatives"),
        ({"loss": "softmax", "calibrate": "none", "mu": 0.3}, "mu"),
    ],
)
def test_options_without_an_effect_beside_the_loss_are_refused(options: Any, name: str) -> None:
    with pytest.raises(al.AleatorError, match=f"option {name} of LightGCN has no effect"):
        LightGCN(**options)


def test_what_is_published_are_the_propagated_embeddings() -> None:
    model = started(layers=2)
    model.publish()
    torch.testing.assert_close(
        torch.cat([model.table.users, model.table.items]), propagated(model), rtol=1e-6, atol=1e-6
    )


def test_gradients_flow_from_published_scores_to_the_parameters() -> None:
    model = started()
    users, items = model.histories.batch(torch.tensor([1, 2])), torch.tensor([0, 5, 7])
    model.publish()
    factors = propagated(model)
    same_gradients(
        model.score_block(users, items).square().sum(),
        (factors[[1, 2]] @ factors[6 + items].T).square().sum(),
        model.parameters(),
        exact=1e-5,
    )


def test_only_the_propagated_factors_are_saved() -> None:
    model = LightGCN(dim=3, max_epochs=2).fit(tiny_world())
    assert sorted(model.pack()[1]) == ["model.item_factors", "model.user_factors"]
    assert not any(t.requires_grad for t in [*model.parameters(), model.table.users])


def test_a_newcomer_gets_scores_like_those_of_a_user_with_the_same_history(split: al.Split) -> None:
    model = LightGCN(dim=16, lr=0.02, max_epochs=20, device="cpu").fit(split)
    known = model.score(list(range(40)))
    histories = {u: model.fitted.item[model.fitted.user == u].tolist() for u in range(40)}
    new = model.score(histories)
    likeness = np.corrcoef(known.numpy().ravel(), new.numpy().ravel())[0, 1]
    assert likeness > 0.9


@pytest.mark.parametrize(
    ("option", "value"), [("layers", -1), ("l2", -0.1), ("dim", 0), ("draws", 0), ("temperature", 0.0)]
)
def test_options_that_make_no_sense_are_refused(option: str, value: Any) -> None:
    with pytest.raises(al.AleatorError, match=option):
        LightGCN(loss="softmax", **{option: value})
