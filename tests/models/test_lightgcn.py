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
    same_gradients(model.loss(users, torch.Generator()), expected, model.parameters(), exact=1e-5)


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


@pytest.mark.parametrize(("option", "value"), [("layers", -1), ("l2", -0.1), ("dim", 0)])
def test_options_that_make_no_sense_are_refused(option: str, value: Any) -> None:
    with pytest.raises(al.AleatorError, match=option):
        LightGCN(**{option: value})
