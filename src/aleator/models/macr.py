"""MACR: what popularity alone would score is taken off."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from aleator.data.interactions import Interactions
from aleator.errors import require
from aleator.evaluation.held_out import HeldOut
from aleator.models.bpr import squared_norms
from aleator.models.calibration import Calibrate
from aleator.models.factors import FactorModel
from aleator.models.gradient import GradientModel
from aleator.search import Among, Between, Ranges
from aleator.training.graph import Graph
from aleator.training.histories import Users
from aleator.training.kernels import pair_products
from aleator.training.negatives import unobserved


@dataclass(kw_only=True, eq=False, repr=False)
class MACR(FactorModel, GradientModel):
    """Model-agnostic counterfactual reasoning about popularity (Wei et al., 2021)."""

    backbone: Literal["mf", "lightgcn"] = "mf"
    layers: int = 2  # of lightgcn
    item_weight: float = 1e-2
    user_weight: float = 1e-3
    reference: float = 1.0
    draws: int = 4  # of unobserved items for each pair: more are slower and less noisy
    l2: float = 1e-3
    dim: int = 64
    lr: float = 3e-3
    calibrate: Calibrate = "linear"

    tables: list[Tensor] = field(init=False)  # users, items, and the weights of the two branches

    steps: ClassVar[int] = 128

    def learn(self, check: HeldOut | None, epochs: int | None) -> None:
        shapes = (self.fitted.n_users, self.dim), (self.fitted.n_items, self.dim), (self.dim,), (self.dim,)
        self.tables = self.normal(*shapes, spread=0.01)
        self.optimise(self.tables, self.loss, check, epochs)

    @property
    def graph(self) -> Graph:
        kept: tuple[Interactions, Graph] | None = getattr(self, "_graph", None)
        if kept is None or kept[0] is not self.fitted:
            kept = self._graph = (self.fitted, Graph(self.histories))
        return kept[1]

    def matching(self) -> tuple[Tensor, Tensor]:
        x, y = self.tables[:2]
        return self.graph.propagate(x, y, self.layers) if self.backbone == "lightgcn" else (x, y)

    def publish(self) -> None:
        x, y = self.matching()
        a, b = torch.sigmoid(x @ self.tables[2])[:, None], torch.sigmoid(y @ self.tables[3])[:, None]
        self.user_factors = torch.cat([a * x, -self.reference * a], 1)
        self.item_factors = torch.cat([b * y, b], 1)

    def loss(self, users: Users, generator: torch.Generator) -> Tensor:
        all_x, y = self.matching()
        x = all_x.index_select(0, users.index)
        of_user, of_item = x @ self.tables[2], y @ self.tables[3]

        def entropy(pairs: Users, sign: int) -> Tensor:
            user, item = of_user.index_select(0, pairs.row), of_item.index_select(0, pairs.item)
            score = pair_products(x, y, pairs) * user.sigmoid() * item.sigmoid()
            cost = F.softplus(-sign * score) + self.item_weight * F.softplus(-sign * item)
            return pairs.weight @ (cost + self.user_weight * F.softplus(-sign * user))

        others = unobserved(users, len(y), self.draws, generator)
        penalty = squared_norms(self.tables[0].index_select(0, users.index), self.tables[1], users, others)
        return entropy(users, 1) + entropy(others, -1) + self.l2 * penalty
