"""The expectations that an estimator is trained on.

The paper takes those of the model. Others can serve better.

Observed pairs. If a model was fitted to a pair, the residual of that pair understates the noise. Some models have a
closed form that leaves the pair out of the user's side: out of the history, or out of the user's least squares. The item
side of such a model has still seen the pair. Cross-fitting leaves the pair out of everything. It splits the pairs into a
few random parts, fits the model again without each part in turn, and predicts that part (Chernozhukov et al., 2018).

Unobserved pairs. There the squared residual is r^2, so s becomes an echo of r. With a constant instead, s only learns
where observed pairs are and how well the model foresees them, and it complements r. With a constant on the observed
pairs too, no model is used at all.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Literal

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from aleator.batches import Histories, Users, pieces
from aleator.errors import require
from aleator.models.base import Model
from aleator.ranking.top import blocks
from aleator.training.loop import epochs_of
from aleator.training.watch import phase
from aleator.uncertainty.base import Expectation

Residuals = Literal["in-sample", "loo", "cross-fit", "constant"]
Unobserved = Literal["model", "constant"]
_FOLDS = 5


def expectations(model: Model, residuals: Residuals, unobserved: Unobserved, constant: float) -> Expectation:
    """The expectations of a fitted model that an estimator is trained on.

    `residuals` says which ones the observed pairs have, and `unobserved` which ones the others have.
    """
    found: Expectation = model
    if residuals in ("loo", "cross-fit"):
        told = f"residuals {residuals} take all pairs into memory, and these are on disk"
        require(model.fitted.on_disk is None, told, "use residuals in-sample or constant")
        found = OutOfSample(model, residuals == "cross-fit")
    if unobserved == "constant" or residuals == "constant":
        which = {"observed": residuals == "constant", "unobserved": unobserved == "constant"}
        found = Constant(found, constant, model.fitted.n_items, **which)
    return found


class Constant:
    """Expectations with a constant in place of those of the observed pairs, of the unobserved pairs, or of both."""

    def __init__(
        self, expectation: Expectation, value: float, n_items: int, *, observed: bool, unobserved: bool
    ) -> None:
        self.expectation, self.value, self.n_items = expectation, value, n_items
        self.observed, self.unobserved = observed, unobserved

    def score_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        if not self.unobserved:
            return self.expectation.score_block(users, items)
        shape = len(users), self.n_items if items is None else len(items)
        return torch.full(shape, self.value, device=users.item.device)

    def score_pairs(self, users: Users) -> Tensor:
        if not self.observed:
            return self.expectation.score_pairs(users)
        return torch.full((len(users.item),), self.value, device=users.item.device)


class OutOfSample:
    """The expectations of a fitted model, except that those of observed pairs are out of sample.

    They come from the closed form of the model if it has one, and from cross-fitting otherwise or if `cross_fit`.
    """

    def __init__(self, model: Model, cross_fit: bool = False) -> None:
        self.score_block = model.score_block
        values = None if cross_fit else _closed_form(model)
        if values is None:
            values = _cross_fitted(model)
        matrix = model.fitted.csr
        self.values = Histories(
            sp.csr_matrix((values, matrix.indices, matrix.indptr), matrix.shape), model.torch_device
        )

    def score_pairs(self, users: Users) -> Tensor:
        return self.values.batch(users.index, total=len(users.item)).weight


@torch.no_grad()
def _by_block(rows: Histories, score: Callable[[Tensor], Tensor | None]) -> NDArray[np.float32] | None:
    """What `score` gives for the users of each block, joined; None where it gives None."""
    size, _ = blocks(rows.n_users, rows.n_items, rows.device)
    found = [score(index) for index in pieces(torch.arange(rows.n_users), size)]
    known = [part.float().cpu() for part in found if part is not None]
    return torch.cat(known).numpy() if len(known) == len(found) else None


def _closed_form(model: Model) -> NDArray[np.float32] | None:
    """[n_pairs] the expectations of the observed pairs in the order of the CSR. None without a closed form."""
    return _by_block(model.histories, lambda index: model.out_of_sample_pairs(model.histories.batch(index)))


@torch.no_grad()
def _cross_fitted(model: Model) -> NDArray[np.float32]:
    """[n_pairs] the expectations of the observed pairs in the order of the CSR, by cross-fitting."""
    require(
        not model.frozen,
        f"{type(model).__name__} was fitted elsewhere and cannot be fitted again on other pairs",
        "use residuals in-sample",
    )
    data, matrix = model.fitted, model.fitted.csr
    fold = np.random.default_rng(model.seed).permutation(len(matrix.data)) % _FOLDS
    user = np.repeat(np.arange(data.n_users), np.diff(matrix.indptr))
    key = user.astype(np.int64) * data.n_items + matrix.indices
    row = np.searchsorted(key, data.user.astype(np.int64) * data.n_items + data.item)  # of each pair in the CSR
    values = np.zeros(len(fold), np.float32)
    for left_out in range(_FOLDS):
        other = copy.copy(model)
        with torch.enable_grad(), phase(f"cross-fit {left_out + 1} of {_FOLDS}"):
            other.fit_cached(None, data.take(fold[row] != left_out), epochs=epochs_of(model.log))
        mask = fold == left_out
        held = sp.csr_matrix((np.ones(mask.sum()), (user[mask], matrix.indices[mask])), matrix.shape)
        values[mask] = _scores(other, Histories(held, model.torch_device))
    return values


def _scores(model: Model, held: Histories) -> NDArray[np.float32]:
    """[n_pairs] the expectations of held-out pairs, in the order of their CSR."""

    def score(index: Tensor) -> Tensor:
        pairs = held.batch(index)
        return model.score_block(model.histories.batch(index))[pairs.row, pairs.item]

    found = _by_block(held, score)
    assert found is not None, "every model scores"
    return found
