"""MACR: its losses as the paper writes them, its counterfactual scores, and what the reference does."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
from torch import Tensor

import aleator as al
from aleator.batches import Users
from aleator.data.simulate import simulate
from aleator.training.graph import Graph

from .literal import same_gradients
from .literal_triples import N_ITEMS, N_USERS, norms, random_tables, tiny_world, triples

Backbone = Literal["mf", "lightgcn"]
both = pytest.mark.parametrize("backbone", ["mf", "lightgcn"])


def ready(backbone: Backbone, **options: Any) -> al.MACR:
    """With random tables in float64."""
    model = al.MACR(dim=3, backbone=backbone, **options)
    model.data = tiny_world()
    model.tables = random_tables((N_USERS, 3), (N_ITEMS, 3), (3,), (3,))
    model.graph = Graph(model.histories) if backbone == "lightgcn" else None
    return model


def smoothed(x: Tensor, y: Tensor, layers: int) -> tuple[Tensor, Tensor]:
    """He et al. (2020): the mean over the layers of the normalised adjacency, densely."""
    r = torch.from_numpy(tiny_world().csr.toarray() > 0).double()
    adjacency = torch.zeros(N_USERS + N_ITEMS, N_USERS + N_ITEMS, dtype=torch.float64)
    adjacency[:N_USERS, N_USERS:], adjacency[N_USERS:, :N_USERS] = r, r.T
    degree = adjacency.sum(1).clamp_min(1)
    adjacency = adjacency / torch.sqrt(degree[:, None] * degree)
    tables = [torch.cat([x, y])]
    for _ in range(layers):
        tables.append(adjacency @ tables[-1])
    mean = sum(tables[1:], tables[0]) / (layers + 1)
    return mean[:N_USERS], mean[N_USERS:]


def matching(model: al.MACR) -> tuple[Tensor, Tensor]:
    x, y = model.tables[:2]
    return smoothed(x, y, model.layers) if model.backbone == "lightgcn" else (x, y)


def literal(model: al.MACR, users: Users, seed: int) -> Tensor:
    """Wei et al. (2021): L_O + alpha L_I + beta L_U, the mean over the drawn items, and the L2 of the program."""
    (x, y), (v, w) = matching(model), model.tables[2:]
    total = torch.zeros((), dtype=torch.float64)

    def entropies(u: int, i: int, label: int) -> Tensor:
        y_k, y_u, y_i = (x[u] * y[i]).sum(), (v * x[u]).sum(), (w * y[i]).sum()
        y_ui = y_k * torch.sigmoid(y_i) * torch.sigmoid(y_u)
        loss = torch.zeros((), dtype=torch.float64)
        for weight, logit in ((1.0, y_ui), (model.item_weight, y_i), (model.user_weight, y_u)):
            chance = torch.sigmoid(logit)
            loss = loss - weight * (label * torch.log(chance) + (1 - label) * torch.log(1 - chance))
        return loss

    for row, i, weight in zip(users.row.tolist(), users.item.tolist(), users.weight.tolist(), strict=True):
        total = total + weight * entropies(int(users.index[row]), i, 1)
    for u, i, j, weight in triples(users, model.draws, seed):
        total = total + weight * (entropies(u, j, 0) + model.l2 * norms(model.tables[0], model.tables[1], u, i, j))
    return total


@both
def test_the_loss_equals_the_literal_one_in_value_and_gradient(backbone: Backbone) -> None:
    model = ready(backbone, l2=0.07, draws=2, item_weight=0.3, user_weight=0.2)
    users = model.histories.batch(torch.tensor([4, 1, 2, 0]))
    fast = model.loss(users, torch.Generator().manual_seed(7))
    # the weights of the graph's edges are single precision
    same_gradients(fast, literal(model, users, 7), model.tables, exact=1e-9 if backbone == "mf" else 1e-6)


@both
def test_the_score_is_what_is_left_without_the_counterfactual(backbone: Backbone) -> None:
    """y_k sigmoid(y_i) sigmoid(y_u) - c sigmoid(y_i) sigmoid(y_u) of each pair."""
    model = ready(backbone, reference=4.0)
    (x, y), (v, w) = matching(model), model.tables[2:]
    with torch.no_grad():
        model.publish()
        scores = model.raw_block(model.histories.batch(torch.arange(N_USERS), trained=True))
        for u in range(N_USERS):
            for i in range(N_ITEMS):
                branches = torch.sigmoid((w * y[i]).sum()) * torch.sigmoid((v * x[u]).sum())
                expected = (x[u] * y[i]).sum() * branches - 4.0 * branches
                torch.testing.assert_close(scores[u, i], expected, rtol=1e-6, atol=1e-6)


def test_a_higher_reference_recommends_less_popular_items() -> None:
    split = simulate(n_users=100, n_items=80, per_user=40, skew=1.2, seed=3).interactions.split(seed=0)
    popularity = []
    for reference in (0.0, 20.0):
        model = al.MACR(dim=8, lr=0.05, max_epochs=20, reference=reference)
        model.fit_pairs(split.everything)
        popularity.append(model.recommend(list(range(100)), k=10)["popularity"].to_numpy().mean())
    assert popularity[1] < 0.9 * popularity[0]


def test_its_branch_learns_which_items_are_popular() -> None:
    data = simulate(n_users=100, n_items=80, per_user=40, skew=1.2, seed=3).interactions
    model = al.MACR(dim=8, lr=0.05, max_epochs=10, item_weight=1.0)
    model.fit_pairs(data)
    branch = (model.tables[1] @ model.tables[3]).numpy()
    order = data.popularity.argsort()
    assert branch[order[-20:]].mean() > branch[order[:20]].mean() + 0.5


@pytest.mark.parametrize(
    "options", [{"draws": 0}, {"l2": -1.0}, {"item_weight": -1.0}, {"user_weight": -1.0}, {"layers": -1}]
)
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(al.AleatorError, match=next(iter(options))):
        al.MACR(**options)
