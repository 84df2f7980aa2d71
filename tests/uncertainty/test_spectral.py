"""The spectral start: singular vectors against numpy's, data of low rank, and the fit of scale and level."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from aleator.batches import Histories
from aleator.training.stop import Stop
from aleator.uncertainty import FactorEstimator, Objective, spectral
from aleator.uncertainty.spectral import _orthonormal, keeping_spectra, singular_vectors, spectral_start

from .fixed import Fixed

CPU = torch.device("cpu")
Matrix = np.ndarray[Any, Any]


def draw() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def histories(taken: Matrix) -> Histories:
    return Histories(sp.csr_matrix(taken.astype(np.float32)), CPU)


def groups(n_users: int = 24, n_items: int = 16) -> Matrix:
    """Two groups of users who took the same items each: data of rank 2."""
    return np.asarray(np.add.outer(np.arange(n_users) % 2, np.arange(n_items) % 2) != 1)


def normalised(taken: Matrix) -> Matrix:
    size, popularity = taken.sum(1, keepdims=True), taken.sum(0, keepdims=True)
    return np.asarray(taken / np.sqrt(np.maximum(size, 1)) / np.sqrt(np.maximum(popularity, 1)))


def start(
    taken: Matrix, dim: int, r: Tensor | None = None, objective: Objective | None = None
) -> tuple[Tensor, Tensor]:
    expectation = Fixed(torch.full(taken.shape, 0.1) if r is None else r)
    return spectral_start(histories(taken), dim, expectation, objective or Objective(floor=0.01), draw())


def blocks(seed: int = 0) -> Matrix:
    """Four groups, with gaps and noise. One user took nothing, and one a single item."""
    rng = np.random.default_rng(seed)
    own = np.equal.outer(np.arange(60) % 4, np.arange(32) % 4)
    taken = rng.random(own.shape) < np.where(own, 0.6, 0.03)
    taken[5], taken[6] = False, False
    taken[6, 2] = True
    return taken


@pytest.mark.parametrize(("k", "tolerance"), [(32, 2e-3), (20, 0.02)])
def test_the_leading_singular_vectors_are_those_of_the_normalised_interactions(k: int, tolerance: float) -> None:
    """With as many as there are items they are exact. With fewer, a few iterations find the first ones."""
    taken = blocks()
    vectors, values = singular_vectors(histories(taken), k, draw())
    _, wanted, right = np.linalg.svd(normalised(taken))
    np.testing.assert_allclose(values[:4], wanted[:4], rtol=tolerance)
    inside = np.linalg.norm(right[:4] @ vectors[:, :4].numpy(), axis=0)  # the share of each in the space of numpy's
    np.testing.assert_allclose(inside, 1, atol=tolerance)


@pytest.mark.parametrize("dim", [2, 3, 8, 16, 40])
def test_dimensions_beyond_the_rank_of_the_data_add_nothing(dim: int) -> None:
    taken = groups()
    _, values = singular_vectors(histories(taken), dim, draw())
    np.testing.assert_allclose(values[:2], [1, 1], atol=1e-4)  # the groups
    assert (values[2:] < 0.01).all()
    z, q = start(taken, dim)
    assert z.shape == q.shape == (16, dim)
    assert torch.isfinite(z).all()
    assert torch.isfinite(q).all()
    exact, _ = start(taken, 2)
    torch.testing.assert_close(z @ z.T, exact @ exact.T, atol=0.05, rtol=0.05)


class TestOrthonormal:
    def test_columns_are_orthonormal_and_span_the_same(self) -> None:
        table = torch.randn(50, 8, generator=draw()) * torch.logspace(0, 1.5, 8)
        basis = _orthonormal(table)
        torch.testing.assert_close(basis.T @ basis, torch.eye(8), atol=1e-3, rtol=0)
        torch.testing.assert_close(basis @ (basis.T @ table), table, atol=1e-2, rtol=1e-3)

    def test_products_without_a_cholesky_factor_are_left_to_qr(self) -> None:
        table = torch.zeros(12, 4)
        assert int(torch.linalg.cholesky_ex(table.T @ table).info) > 0
        basis = _orthonormal(table)
        torch.testing.assert_close(basis.T @ basis, torch.eye(4), atol=1e-5, rtol=0)

    def test_equal_columns_do_no_harm(self) -> None:
        table = torch.randn(50, 2, generator=draw())[:, [0, 1, 1, 0, 1]]
        basis = _orthonormal(table)
        assert torch.isfinite(basis).all()
        kept = torch.linalg.matrix_norm(basis, 2)
        assert float(kept) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(
    "taken",
    [
        np.tile(np.arange(9) == 3, (12, 1)),  # all users took one and the same item
        np.eye(9, dtype=bool),  # each took an item of their own
        np.ones((12, 9), bool),  # everybody took everything
        np.arange(108).reshape(12, 9) == 40,  # there is one pair
    ],
    ids=["one item", "own items", "everything", "one pair"],
)
@pytest.mark.parametrize("dim", [1, 4, 20])
def test_singular_data_start_and_train(taken: Matrix, dim: int) -> None:
    z, q = start(taken, dim)
    assert torch.isfinite(z).all()
    assert torch.isfinite(q).all()
    made = FactorEstimator(dim=dim, init="spectral", max_epochs=3)
    made.learn(histories(taken), Fixed(torch.full(taken.shape, 0.1)), Objective(floor=0.01), Stop())
    assert torch.isfinite(made.log_variance(histories(taken).batch(torch.arange(len(taken))))).all()


def literal(z: Tensor, q: Tensor, taken: Matrix, r: Tensor, objective: Objective) -> float:
    """The objective in float64. An observed pair has 1 / sqrt(n - 1) and the history without the item."""
    z, q, total = z.double(), q.double(), 0.0
    for user, row in enumerate(taken):
        history = np.flatnonzero(row).tolist()
        for item in range(len(row)):
            rest = [i for i in history if i != item]
            p = z[rest].sum(0) / max(len(rest), 1) ** 0.5
            residual = r[user, item].double() - float(row[item])
            weight = objective.alpha if row[item] else 1.0
            total += weight * float(objective.pairs(residual, (p * q[item]).sum()))
    return total


def test_scale_and_level_are_the_best_of_the_objective_without_the_own_item() -> None:
    """The sample is all pairs here. Any other scale or level gives a higher loss, up to the last step of the search."""
    rng = np.random.default_rng(3)
    own = np.equal.outer(np.arange(40) % 4, np.arange(16) % 4)
    taken = rng.random(own.shape) < np.where(own, 0.6, 0.05)  # histories of about three items
    r, objective = torch.full(taken.shape, 0.1), Objective(2.0, floor=0.01)
    z, q = start(taken, 4, r, objective)
    found = literal(z, q, taken, r, objective)
    for factor in (0.9, 1.1):
        scaled = z * factor**0.5
        assert literal(scaled, scaled + (q - z) / factor**0.5, taken, r, objective) > found  # another scale
        assert literal(z, z + factor * (q - z), taken, r, objective) > found  # another level


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The dimensions of the singular vectors that were computed."""
    found: list[int] = []

    def counted(*given: Any) -> tuple[Tensor, Tensor]:
        found.append(given[1])
        return singular_vectors(*given)

    monkeypatch.setattr(spectral, "singular_vectors", counted)
    return found


def started(rows: Histories, dim: int) -> tuple[Tensor, Tensor]:
    return spectral_start(rows, dim, Fixed(torch.full((60, 32), 0.1)), Objective(floor=0.01), draw())


def test_starts_from_the_same_histories_share_their_singular_vectors(computed: list[int]) -> None:
    rows = histories(blocks())
    apart = started(rows, 8)
    with keeping_spectra():
        shared = [started(rows, 8) for _ in range(3)]
        started(rows, 4)
    assert computed == [8, 8, 4]
    for found in shared:
        assert all(torch.equal(one, other) for one, other in zip(found, apart, strict=True))
    started(rows, 8)
    assert computed == [8, 8, 4, 8]  # nothing is kept outside


def test_singular_vectors_are_not_kept_where_memory_is_short(
    computed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spectral, "free_memory", lambda device: 1000)
    rows = histories(blocks())
    with keeping_spectra():
        for _ in range(2):
            started(rows, 8)
    assert computed == [8, 8]
