"""MACR: learn matching, popularity and conformity side by side, then subtract the effect of popularity alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from aleator.batches import Users
from aleator.errors import require
from aleator.kernels.ragged import pair_products
from aleator.models.base import Model
from aleator.models.bpr import squared_norms
from aleator.models.calibration import Calibrate
from aleator.models.epochs import Epochs, normal
from aleator.models.factors import FactorTable
from aleator.options import Among, Between, Ranges
from aleator.training.graph import Graph, check_layers
from aleator.training.negatives import unobserved
from aleator.training.stop import Stop

_WEIGHTS = Among(1e-5, 1e-4, 1e-3, 1e-2)


@dataclass(kw_only=True, eq=False, repr=False)
class MACR(Epochs, Model):
    """Model-agnostic counterfactual reasoning (Wei et al., 2021).

    It learns three things side by side. m_ui = <x_u, y_i> says how well a pair matches. b_i = <w, y_i> says how popular
    the item is. a_u = <v, x_u> says how easily the user takes any item (conformity). The product m_ui sigmoid(b_i)
    sigmoid(a_u) is trained to tell observed pairs from negatives, by binary cross-entropy. The loss adds the
    cross-entropy of b_i times `item_weight`, that of a_u times `user_weight`, and l2 times the squared norms of BPR's
    triples.

    The score subtracts what the pair would get if all pairs matched equally well. It is (m_ui - `reference`)
    sigmoid(b_i) sigmoid(a_u), calibrated to the label's scale. With `backbone="lightgcn"`, x and y are first smoothed
    over the graph of the pairs (He et al., 2020).
    """

    backbone: Literal["mf", "lightgcn"] = "mf"  # factors alone, or factors smoothed over the graph
    layers: int = 2  # steps over the graph, at most 64, with backbone "lightgcn"
    item_weight: float = 1e-2  # weight of the popularity's cross-entropy in the loss
    user_weight: float = 1e-3  # weight of the conformity's cross-entropy in the loss
    reference: float = 15.0  # subtracted from the matching; a higher one recommends less popular items
    draws: int = 8  # negatives for each observed pair; more of them are slower and less noisy
    l2: float = 3e-3  # weight of the squared norms in the loss; take less for lightgcn, such as 1e-4
    dim: int = 64  # dimensions of the factors
    lr: float = 5e-3  # learning rate of Adam
    max_epochs: int = 400  # largest number of epochs
    check_every: int = 5  # epochs between two checks of the validation Recall@20
    calibrate: Calibrate = "linear"  # map of raw scores onto the label's scale

    tables: list[Tensor] = field(init=False)  # of users, items, and the directions v and w; scores do not need them
    graph: Graph | None = field(default=None, init=False)

    steps: ClassVar[int] = 32
    ranges: ClassVar[Ranges] = {
        "dim": Among(64, 128, 256),
        "lr": Between(5e-4, 2e-2, log=True),
        "l2": Between(1e-5, 1e-1, log=True),
        "item_weight": Between(1e-4, 1e-1, log=True),
        "reference": Between(0.0, 40.0),
    }
    paper_ranges: ClassVar[Ranges] = {
        "l2": Among(0.0, 1e-4, 1e-3, 1e-2, 1e-1),
        "item_weight": _WEIGHTS,
        "user_weight": _WEIGHTS,
        "reference": Among(*(float(c) for c in range(20, 41, 2))),
    }
    paper: ClassVar[dict[str, Any]] = {
        "reference": 30.0,
        "draws": 1,
        "dim": 128,
        "lr": 1e-4,
        "batch_size": 32,
        "max_epochs": 1000,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.dim >= 1, f"dim is {self.dim}", "give a dim of at least 1")
        check_layers(self.layers)
        require(self.draws >= 1, f"draws is {self.draws}", "give at least 1")
        for name in ("item_weight", "user_weight", "l2"):
            value = getattr(self, name)
            require(value >= 0, f"{name} is {value}", "give a weight of at least 0")

    def unused(self) -> Mapping[str, str]:
        of_layers = {} if self.backbone == "lightgcn" else {"layers": "with backbone mf"}
        return {**super().unused(), **of_layers}

    def learn(self, stop: Stop) -> None:
        shapes = (self.fitted.n_users, self.dim), (self.fitted.n_items, self.dim), (self.dim,), (self.dim,)
        self.tables = normal(*shapes, seed=self.seed, device=self.torch_device)
        self.graph = Graph(self.histories) if self.backbone == "lightgcn" else None
        self.log = self.minimise(self.loss, self.tables, self.histories, stop, seed=self.seed)

    def matching(self) -> tuple[Tensor, Tensor]:
        """[n_users, dim] and [n_items, dim], whose inner products are m."""
        x, y = self.tables[:2]
        return (x, y) if self.graph is None else self.graph.propagate(x, y, self.layers)

    def publish(self) -> None:
        x, y = self.matching()
        of_user, of_item = (torch.sigmoid(t @ to)[:, None] for t, to in zip((x, y), self.tables[2:], strict=True))
        users = of_user * torch.cat([x, torch.full_like(of_user, -self.reference)], 1)
        items = of_item * torch.cat([y, torch.ones_like(of_item)], 1)
        self.table = FactorTable(users, items)

    def loss(self, users: Users, generator: torch.Generator) -> Tensor:
        (x, y), (to_user, to_item) = self.matching(), self.tables[2:]
        x = x.index_select(0, users.index)
        conformity, popularity = x @ to_user, y @ to_item

        def entropy(pairs: Users, label: Literal[1, -1]) -> Tensor:
            a, b = conformity.index_select(0, pairs.row), popularity.index_select(0, pairs.item)
            whole = pair_products(x, y, pairs) * a.sigmoid() * b.sigmoid()
            parts = ((1.0, whole), (self.item_weight, b), (self.user_weight, a))
            return sum(
                (w * (pairs.weight * F.softplus(-label * logit)).sum() for w, logit in parts), whole.new_zeros(())
            )

        others = unobserved(users, len(y), self.draws, generator)
        penalty = squared_norms(self.tables[0].index_select(0, users.index), self.tables[1], users, others)
        return entropy(users, 1) + entropy(others, -1) + self.l2 * penalty
