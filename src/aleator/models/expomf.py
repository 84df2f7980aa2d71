"""Matrix factorisation with a latent exposure: a zero may mean that the user never saw the item."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from aleator.errors import require
from aleator.evaluation.held_out import HeldOut
from aleator.models.factors import FactorModel
from aleator.search import Among, Between, Ranges
from aleator.training.histories import Histories, Users, pieces
from aleator.training.kernels import history_sum
from aleator.training.trainer import Trainer

_CELLS = {"cpu": 1 << 20, "cuda": 1 << 27}  # pairs whose exposure is held at a time


@dataclass(kw_only=True, eq=False, repr=False)
class ExpoMF(FactorModel):
    """Matrix factorisation that infers who was exposed to what (Liang et al., 2016).

    User u saw item i (a_ui = 1) with probability `exposure` of the item, and the label is N(<x_u, y_i>, 1 / `precision`)
    where she did and 0 where she did not. EM estimates a_ui of the unobserved pairs, then the factors by least squares
    weighted with it (`l2` is the precision of their priors) and the item's exposure, which has a Beta prior: `exposure`
    is its mode and `prior_weight` how much it weighs against all users. r_ui = <x_u, y_i> is the label that is expected
    of somebody who sees the item.
    """

    precision: float = 6.0
    l2: float = 10.0
    exposure: float = 0.1
    prior_weight: float = 1.0
    max_epochs: int = 50  # iterations of EM
    patience: int = 5  # checks without a better Recall@20
    check_every: int = 1

    item_exposure: Tensor = field(init=False)  # [n_items]

    learned: ClassVar[tuple[str, ...]] = (*FactorModel.learned, "item_exposure")
    steps: ClassVar[int] = 3  # of conjugate gradients, towards each least squares solution

    @property
    def stops_early(self) -> bool:
        return True

    def learn(self, check: HeldOut | None, epochs: int | None) -> None:
        data, draw = self.fitted, torch.Generator().manual_seed(self.seed)
        self.user_factors, self.item_factors = (
            (0.01 * torch.randn(n, self.dim, generator=draw)).to(self.torch_device) for n in (data.n_users, data.n_items)
        )
        self.item_exposure = torch.full((data.n_items,), self.exposure, device=self.torch_device)
        trainer = Trainer(
            max_epochs=epochs or self.max_epochs,
            batch_size=data.n_users,
            lr=1.0,
            device=self.torch_device,
            patience=self.patience,
            check_every=self.check_every,
            seed=self.seed,
            label="ExpoMF by EM",
        )
        learned = [self.user_factors, self.item_factors, self.item_exposure]
        em = EM(self, Histories(data.csr.T.tocsr(), self.torch_device))
        self.log = trainer.fit(learned, self.loss, self.histories, self.checker(check), em)

    def loss(self, users: Users, generator: torch.Generator) -> Tensor:
        return self.user_factors.sum()*0

    def logit(self):
        """[n_items] log-odds of an unobserved pair with r = 0 having been seen."""
        return self.item_exposure.logit() + 0.5 * math.log(self.precision / (2 * math.pi))

    def improve(self, x, y, rows: Histories, prior: Tensor, steps):
        """One E-step for the pairs of each row, and from there an M-step of the row's factors x, in place."""
        seen = x.new_empty(len(x))
        size = max(_CELLS[x.device.type] // len(y), 1)
        for index in pieces(torch.arange(len(x)), size):
            part = rows.batch(index)
            index = index.to(x.device)
            r = x[index] @ y.T
            p = torch.sigmoid((prior if len(prior) == 1 else prior[index]) - 0.5 * self.precision * r.square())
            p[part.row, part.item] = 1.0
            seen[index] = p.sum(1)
            p[part.row, part.item] = part.weight
            p *= self.precision
            right = self.precision * history_sum(y, part, part.weight)
            x[index] = conjugate_gradients(x[index], y, p, right, self.l2, steps)
        return seen


def conjugate_gradients(x, y, weight, right, l2, steps):
    """From x towards the x of each row that minimises sum_i w_i <x, y_i>^2 + l2 |x|^2 - 2 <x, right>."""
    def normal(v: Tensor) -> Tensor:
        return (v @ y.T).mul_(weight) @ y + l2 * v

    left = right - normal(x)
    way, size = left, left.square().sum(1, keepdim=True)
    for _ in range(steps):
        ahead = normal(way)
        step = size / (way * ahead).sum(1, keepdim=True).clamp_min(1e-30)
        x = x + step * way
        left = left - step * ahead
        before, size = size, left.square().sum(1, keepdim=True)
        way = left + size / before.clamp_min(1e-30) * way
    return x


class EM:
    def __init__(self, model, by_item):
        self.model, self.by_item = model, by_item

    def zero_grad(self, set_to_none: bool = True) -> None: pass
    def step(self):
        m = self.model
        seen = m.improve(m.item_factors, m.user_factors, self.by_item, m.logit()[:, None], m.steps)
        n = m.fitted.n_users
        m.item_exposure.copy_(((m.prior_weight * m.exposure + seen / n) / (m.prior_weight + 1)).clamp(1e-6, 1 - 1e-6))
        m.improve(m.user_factors, m.item_factors, m.histories, m.logit()[None], m.steps)
