"""The graph of users and items, against the dense normalised adjacency."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from aleator.batches import Histories
from aleator.training.graph import Graph

CPU = torch.device("cpu")
TAKEN = np.array(
    [
        [1, 0, 1, 1, 0, 0],
        [0, 0, 1, 0, 0, 0],
        [0, 0, 0, 0, 0, 0],
        [1, 1, 1, 1, 0, 1],
    ]
)


def rows(weight: float = 1.0) -> Histories:
    return Histories(sp.csr_matrix(TAKEN * weight), CPU)


def adjacency() -> Tensor:
    """D^-1/2 A D^-1/2 of users and items together, written out, [10, 10]."""
    n, m = TAKEN.shape
    dense = torch.zeros(n + m, n + m, dtype=torch.float64)
    for u in range(n):
        for i in range(m):
            if TAKEN[u, i]:
                dense[u, n + i] = dense[n + i, u] = 1 / (TAKEN[u].sum() * TAKEN[:, i].sum()) ** 0.5
    return dense


def tables(dim: int = 3) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    users, items = (torch.randn(n, dim, generator=draw, dtype=torch.float64).requires_grad_() for n in TAKEN.shape)
    return users, items


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_the_mean_of_the_layers_and_its_gradient_are_those_of_the_dense_powers(layers: int) -> None:
    users, items = tables()
    layer = torch.cat([users, items])
    kept = [layer]
    for _ in range(layers):
        layer = adjacency() @ layer
        kept.append(layer)
    expected = torch.stack(kept).mean(0)
    found = torch.cat(Graph(rows()).propagate(users, items, layers))
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    direction = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for mine, theirs in zip(
        torch.autograd.grad((found * direction).sum(), [users, items]),
        torch.autograd.grad((expected * direction).sum(), [users, items]),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-6)


def test_a_gradient_that_is_spread_out_over_a_table_is_taken_too() -> None:
    users, items = tables()
    mine = torch.autograd.grad(Graph(rows()).neighbours(users, items)[0].sum(), items)[0]
    torch.testing.assert_close(mine, adjacency()[4:, :4].sum(1, keepdim=True).expand(6, 3), rtol=1e-6, atol=1e-6)


def test_who_has_no_pairs_gets_nothing_and_weights_of_pairs_do_not_matter() -> None:
    users, items = tables()
    found_users, found_items = Graph(rows()).neighbours(users, items)
    assert (found_users[2] == 0).all()
    assert (found_items[4] == 0).all()
    weighted = Graph(rows(weight=2.5)).neighbours(users, items)
    assert torch.equal(weighted[0], found_users)
    assert torch.equal(weighted[1], found_items)


def test_the_same_bits_come_out_whatever_the_threads(two_threads: None) -> None:
    rng = np.random.default_rng(0)
    graph = Graph(Histories(sp.random(300, 200, 0.1, format="csr", random_state=rng), CPU))
    users, items = (torch.from_numpy(rng.normal(size=(n, 16)).astype(np.float32)) for n in (300, 200))
    both = [torch.cat(graph.propagate(users, items, 3)) for _ in range(2)]
    torch.set_num_threads(1)
    assert torch.equal(both[0], both[1])
    assert torch.equal(both[0], torch.cat(graph.propagate(users, items, 3)))
