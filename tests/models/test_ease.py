"""EASE: its closed form, its limits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import aleator as al
from aleator.data.interactions import Interactions
from aleator.models import ease


@pytest.fixture
def small() -> Interactions:
    rng = np.random.default_rng(3)
    taken = rng.random((12, 7)) < 0.4
    taken[np.arange(12), np.arange(12) % 7] = True
    return Interactions.of(*np.nonzero(taken), weight=rng.choice([0.5, 1.0, 2.0], int(taken.sum())))


def test_the_scores_are_those_of_the_papers_closed_form(small: Interactions) -> None:
    x = small.csr.toarray().astype(np.float64)
    p = np.linalg.inv(x.T @ x + 2.5 * np.eye(7))
    b = np.zeros((7, 7))
    for i in range(7):
        for j in range(7):
            b[i, j] = 0 if i == j else -p[i, j] / p[j, j]
    model = al.EASE(l2=2.5, calibrate="none").fit(small)
    np.testing.assert_allclose(model.score(list(range(12))).numpy(), x @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_each_item_is_regressed_on_the_others(small: Interactions, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the closed form minimises, column by column: ridge regression without the item itself."""
    if kind == "float32":
        monkeypatch.setattr(ease, "_SMALL", 0)
    x = small.csr.toarray().astype(np.float64)
    model = al.EASE(l2=2.5, calibrate="none").fit(small)
    scores = model.score(list(range(12))).numpy()
    for i in range(7):
        others = np.delete(x, i, axis=1)
        ridge = np.linalg.solve(others.T @ others + 2.5 * np.eye(6), others.T @ x[:, i])
        np.testing.assert_allclose(scores[:, i], others @ ridge, rtol=1e-4, atol=1e-5)


def test_where_float32_is_not_enough_float64_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Items 0 and 1 have the same users: without a penalty that counts, X'X is singular.

    They are 256, whose root is exact. So on every processor the second pivot in float32 is 0, not what rounding leaves.
    """
    monkeypatch.setattr(ease, "_SMALL", 0)
    user = np.r_[np.arange(256), np.arange(256), np.arange(0, 256, 4)]
    data = Interactions.of(user, np.repeat([0, 1, 2], [256, 256, 64]))
    model = al.EASE(l2=1e-6, calibrate="none").fit(data)
    assert model.score({"a": [0]}, [1]).item() == pytest.approx(1, abs=1e-3)
    monkeypatch.setattr(ease, "free_memory", lambda device: 3 * 4 * 9)
    with pytest.raises(al.AleatorError, match="raise l2"):
        model.fit(data)


def test_a_catalogue_that_does_not_fit_is_refused_with_how_much_it_needs(
    small: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ease, "free_memory", lambda device: 100)
    with pytest.raises(al.AleatorError, match=r"EASE inverts .* GiB.*graph_filter or itemknn"):
        al.EASE().fit(small)


def test_fewer_neighbours_keep_the_strongest_weights_of_either_sign(small: Interactions) -> None:
    whole, cut = (al.EASE(l2=1.0, neighbours=n, calibrate="none").fit(small) for n in ("auto", 2))
    items = {str(i): [i] for i in range(7)}
    a, b = whole.score(items), cut.score(items)
    assert bool((a < 0).any())
    last = a.abs().sort(0, descending=True).values[1]
    torch.testing.assert_close(b, torch.where(a.abs() >= last * (1 - 1e-6), a, 0), rtol=1e-5, atol=1e-6)


def test_an_l2_that_is_not_positive_is_refused() -> None:
    with pytest.raises(al.AleatorError, match="l2 is 0"):
        al.EASE(l2=0.0)
