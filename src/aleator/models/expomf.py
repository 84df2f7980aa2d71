"""ExpoMF: matrix factorisation with latent exposure. A zero may mean that the user never saw the item."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from aleator.batches import Histories, Users, pieces
from aleator.device import budget
from aleator.errors import require
from aleator.kernels.least_squares import conjugate_gradients
from aleator.kernels.ragged import history_sum
from aleator.models.base import Model
from aleator.models.epochs import normal
from aleator.models.factors import FactorTable
from aleator.options import Among, Between, Ranges
from aleator.training.loop import Loop
from aleator.training.stop import Stop
from aleator.training.update import Update

_STEPS = 3  # of conjugate gradients in an M-step, which starts from the factors of the step before
_ROUNDS_FOR_NEW, _STEPS_FOR_NEW = 5, 10  # rounds of EM and steps in each for a newcomer, whose factors start at 0


@dataclass(kw_only=True, eq=False, repr=False)
class ExpoMF(Model):
    """Matrix factorisation that infers who was exposed to which item (Liang et al., 2016).

    Each item has a probability that a user is exposed to it. The label of an exposed pair is N(r_ui, 1 / `precision`).
    The label of any other pair is 0. EM infers the exposure of the unobserved pairs. It then solves for the factors by
    least squares weighted with the exposure, with priors N(0, 1 / `l2`), and updates the probabilities of the items.
    These have a Beta prior with mode `exposure`, which weighs `prior_weight` times as much as all users. The score
    r_ui = <x_u, y_i> is the expected label of an exposed pair.
    """

    dim: int = 128  # dimensions of the factors
    precision: float = 6.0  # one over the variance of the label of an exposed pair
    l2: float = 24.0  # one over the variance of the prior of the factors
    exposure: float = 0.2  # mode of the prior of an item's exposure probability
    prior_weight: float = 1.0  # weight of that prior, as a multiple of the number of users
    max_epochs: int = 100  # largest number of EM iterations
    patience: int = 10  # training stops after so many checks without a better Recall@20
    check_every: int = 1  # iterations between two checks of the validation Recall@20

    item_exposure: Tensor = field(init=False)  # [n_items] exposure probabilities

    learned: ClassVar[Mapping[str, str]] = {"item_exposure": "[n_items]"}
    ranges: ClassVar[Ranges] = {
        "dim": Among(32, 64, 128, 256),
        "precision": Between(0.5, 30.0, log=True),
        "l2": Between(0.1, 300.0, log=True),
        "exposure": Between(0.01, 0.6, log=True),
        "prior_weight": Between(0.1, 10.0, log=True),
    }
    paper_ranges: ClassVar[Ranges] = {"l2": Among(1e-4, 1e-3, 1e-2, 1e-1), "exposure": Among(0.001, 0.01, 0.1)}
    paper: ClassVar[dict[str, Any]] = {"precision": 1.0, "l2": 1e-5, "exposure": 0.01, "prior_weight": 0.0}

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.dim >= 1, f"dim is {self.dim}", "give a dim of at least 1")
        require(
            min(self.precision, self.l2, self.max_epochs, self.patience, self.check_every) > 0,
            "precision, l2 or a training option is not positive",
            "give numbers above 0",
        )
        require(0 < self.exposure < 1, f"exposure is {self.exposure}", "give a probability between 0 and 1")
        require(self.prior_weight >= 0, f"prior_weight is {self.prior_weight}", "give a weight of at least 0")

    @property
    def stops_early(self) -> bool:
        return True

    def learn(self, stop: Stop) -> None:
        data = self.fitted
        shapes = (data.n_users, self.dim), (data.n_items, self.dim)
        self.table = FactorTable(*normal(*shapes, seed=self.seed, device=self.torch_device))
        self.item_exposure = torch.full((data.n_items,), self.exposure, device=self.torch_device)
        self.go_on(stop)

    @property
    def goes_on(self) -> bool:
        return not self._calibrated

    def expand(self, update: Update, before: Histories) -> None:
        new = self.fitted.n_items - before.n_items
        self.item_exposure = torch.cat([self.item_exposure, self.item_exposure.new_full((new,), self.exposure)])
        super().expand(update, before)

    def moved(self, x: Tensor, before: Users, after: Users) -> Tensor:
        return super().moved(x, before, after) if self._calibrated else self.fold_in(after)

    def go_on(self, stop: Stop) -> None:
        data = self.fitted
        loop = Loop(
            max_epochs=self.max_epochs,
            batch_size=data.n_users,
            lr=1.0,  # not used: EM takes the steps
            device=self.torch_device,
            patience=self.patience,
            check_every=self.check_every,
            label=type(self).__name__,
        )
        em = EM(self, Histories(data.csr.T.tocsr(), self.torch_device))
        parameters = [self.table.users, self.table.items, self.item_exposure]
        self.log = loop.minimise(self.loss, parameters, self.histories, stop, em)

    def log_odds(self) -> Tensor:
        """[n_items] the log-odds that an unobserved pair with r_ui = 0 is exposed."""
        return self.item_exposure.logit() + 0.5 * math.log(self.precision / (2 * math.pi))

    def loss(self, users: Users, generator: torch.Generator) -> Tensor:
        """The negative log posterior of all parameters, with the exposures summed out, up to a constant."""
        x, y, half = self.table.users[users.index], self.table.items, 0.5 * self.precision
        seen, unseen, odds = self.item_exposure.log(), (-self.item_exposure).log1p(), self.log_odds()
        mode, n = self.exposure, self.prior_weight * self.fitted.n_users
        r = self.raw_pairs(users)
        loss = (
            half * users.weight * (r - 1).square() - odds[users.item] + F.softplus(odds[users.item] - half * r.square())
        ).sum()
        loss += 0.5 * self.l2 * (x.square().sum() + y.square().sum()) - n * (mode * seen + (1 - mode) * unseen).sum()
        for part in pieces(x, max(budget(x.device).expomf_pairs // len(y), 1)):
            loss -= F.softplus(odds - half * (part @ y.T).square_()).sum()
        return loss - len(x) * unseen.sum()

    def improve(self, x: Tensor, y: Tensor, rows: Histories, log_odds: Tensor, steps: int = _STEPS) -> Tensor:
        """An E-step for the pairs of all rows, and an M-step for their factors `x` [n_rows, dim], in place.

        y [n, dim] are the factors of the other side, and log_odds is [n] or [n_rows, 1]. Returns the expected number of
        exposures of each row, [n_rows].
        """
        seen = torch.empty_like(x[:, 0])
        for index in pieces(torch.arange(len(x)), max(budget(x.device).expomf_pairs // len(y), 1)):
            part, here = rows.batch(index), slice(int(index[0]), int(index[-1]) + 1)
            odds = log_odds if log_odds.ndim == 1 else log_odds[here]
            weight = torch.sigmoid(odds - 0.5 * self.precision * (x[here] @ y.T).square_())
            weight[part.row, part.item] = 1
            seen[here] = weight.sum(1)
            weight[part.row, part.item] = part.weight.to(weight.dtype)
            target = self.precision * history_sum(y, part, part.weight)
            x[here] = descend(x[here], y, weight.mul_(self.precision), target, self.l2, steps)
        return seen

    @property
    def _calibrated(self) -> bool:
        """Whether a linear map is part of the factors."""
        return self.table.dim != self.dim

    def fold_in(self, users: Users) -> Tensor:
        """Fold-in by EM for each newcomer. If a linear map is part of the factors, fold-in is a linear map too."""
        items = self.table.items
        if self._calibrated:
            return super().fold_in(users)
        rows, x = Histories.of_users(users, self.fitted.n_items), items.new_zeros(len(users), self.dim)
        for _ in range(_ROUNDS_FOR_NEW):
            self.improve(x, items, rows, self.log_odds(), _STEPS_FOR_NEW)
        return x


class EM:
    """The optimiser of the training loop: an E-step and an M-step for the items, then for the users."""

    def __init__(self, model: ExpoMF, by_item: Histories) -> None:
        self.model, self.by_item = model, by_item

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Do nothing: there are no gradients."""

    def settle(self) -> None:
        """Do nothing: no updates are deferred."""

    def tensors(self) -> dict[str, Tensor]:
        """Nothing: it knows the parameters alone."""
        return {}

    def set_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Do nothing."""

    def step(self) -> None:
        """One iteration of EM."""
        model, prior = self.model, self.model.prior_weight
        users, items = model.table.users, model.table.items
        seen = model.improve(items, users, self.by_item, model.log_odds()[:, None]) / len(users)
        model.item_exposure.copy_(((prior * model.exposure + seen) / (prior + 1)).clamp(1e-6, 1 - 1e-6))
        model.improve(users, items, model.histories, model.log_odds())


def descend(x: Tensor, y: Tensor, weight: Tensor, target: Tensor, l2: float, steps: int) -> Tensor:
    """Take `steps` steps of conjugate gradients from each row of x [B, dim] towards (Y' W Y + l2)^-1 target.

    W is the diagonal matrix of the row's `weight` [B, n]. A step costs two products with y, and no row needs a matrix of
    its own.
    """

    def normal(v: Tensor) -> Tensor:
        """(Y' W Y + l2) v."""
        return (v @ y.T).mul_(weight) @ y + l2 * v

    return conjugate_gradients(normal, target - normal(x), x, steps)[0]
