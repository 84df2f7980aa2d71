"""AUR-M: a multilayer perceptron from the history to the log-variances of all items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.errors import require
from aleator.kernels.fold_in import padded, with_new_items
from aleator.kernels.ragged import history_sum
from aleator.options import Among, Between, Ranges
from aleator.training.loop import trainable
from aleator.training.stop import Stop
from aleator.uncertainty.base import Expectation
from aleator.uncertainty.objective import Objective
from aleator.uncertainty.products import ProductEstimator, Schedule
from aleator.uncertainty.step import PairLoss, kept

SCHEDULE = Schedule(lr=1e-3, weight_decay=0.1, steps=32, patience=8, check_every=2, tolerance=0.0)


@dataclass(kw_only=True, eq=False, repr=False)
class MLPEstimator(ProductEstimator):
    """s_u = W relu(W_2 relu(W_1 h_u + b_1) + b_2) + b, with h_u the multi-hot history (AUR-M of Wang et al., 2023).

    The input h is scaled to length 1, so that long histories do not dominate the first layer. An observed item is part of
    its own input here. `history_dropout` weakens that shortcut.
    """

    hidden: int = 1024  # units of each hidden layer
    history_dropout: float = 0.5  # share of the history items that are dropped in training

    w1: Tensor = field(init=False)  # [n_items, hidden]
    b1: Tensor = field(init=False)  # [hidden]
    w2: Tensor = field(init=False)  # [hidden, hidden]
    b2: Tensor = field(init=False)  # [hidden]
    q: Tensor = field(init=False)  # [n_items, hidden + 1]: the last column is the bias

    learned: ClassVar[Mapping[str, str]] = {
        "w1": "[n_items, hidden]",
        "b1": "[hidden]",
        "w2": "[hidden, hidden]",
        "b2": "[hidden]",
        "q": "[n_items, hidden + 1]",
    }
    paper: ClassVar[dict[str, Any]] = ProductEstimator.paper | {"history_dropout": 0.0}
    ranges: ClassVar[Ranges] = ProductEstimator.ranges | {
        "hidden": Among(256, 512, 1024),
        "history_dropout": Between(0.0, 0.8),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.hidden >= 1, f"hidden is {self.hidden}", "give at least 1")
        require(0 <= self.history_dropout < 1, f"history_dropout is {self.history_dropout}", "give a share below 1")

    def numbers(self, n_items: int) -> int:
        return 2 * n_items * self.hidden + self.hidden**2

    def learn(self, histories: Histories, expectation: Expectation, objective: Objective, stop: Stop) -> None:
        n_items = histories.n_items
        self.require_memory(n_items, histories.device, checked=stop.metric is not None)
        self._start(n_items, histories.device)
        self.go_on(histories, expectation, objective, stop)

    def expand(self, n_items: int, before: Histories, after: Histories) -> None:
        both, n = torch.cat([self.w1, self.q], 1)[:n_items], self.hidden
        self.w1 = padded(self.w1[:n_items], after.n_items)
        both = with_new_items(both, self.user_factors, before, after)
        self.w1, self.q = both[:, :n].contiguous(), both[:, n:].contiguous()
        self.b1, self.w2, self.b2 = self.b1.clone(), self.w2.clone(), self.b2.clone()  # training writes into them

    def go_on(self, histories: Histories, expectation: Expectation, objective: Objective, stop: Stop) -> None:
        n_items = histories.n_items
        with trainable([self.w1, self.b1, self.w2, self.b2]):  # the gradient of q is computed by hand

            def loss(users: Users, draw: torch.Generator) -> Tensor:
                items = self.sample(n_items, draw)
                p = self._forward(users, kept(users, self.history_dropout, draw, self.q.dtype))
                pairs = PairLoss(users, p.detach(), self.q, expectation, objective, dtype=self.product_dtype(p))
                total = pairs.backward(n_items, items)
                p.backward(pairs.dp)  # type: ignore[no-untyped-call]
                self.q.grad = pairs.dq
                return total.to(p.dtype)

            plan = self.resolved(SCHEDULE)
            self.log = self.minimise(loss, self.parameters(), histories, stop, plan)

    def _start(self, n_items: int, device: torch.device) -> None:
        """The start of He et al. (2015) for the hidden layers. Log-variances start near 0, at the mode of the prior."""
        draw = torch.Generator().manual_seed(self.seed)

        def normal(rows: int, columns: int, spread: float) -> Tensor:
            return (spread * torch.randn(rows, columns, generator=draw)).to(device)

        n = self.hidden
        self.w1, self.w2 = normal(n_items, n, 1.0), normal(n, n, (2 / n) ** 0.5)
        self.b1, self.b2 = torch.zeros_like(self.w2[0]), torch.zeros_like(self.w2[0])
        self.q = normal(n_items, n + 1, 0.1 / n**0.5)

    def _forward(self, users: Users, keep: Tensor) -> Tensor:
        """p [B, hidden + 1], whose last column is 1."""
        count = torch.zeros(len(users), dtype=keep.dtype, device=keep.device).index_add_(0, users.row, keep)
        first = history_sum(self.w1, users, keep * count.clamp_min(1).rsqrt()[users.row])
        second = torch.relu(torch.relu(first + self.b1) @ self.w2 + self.b2)
        return torch.cat([second, torch.ones_like(second[:, :1])], 1)

    def user_factors(self, users: Users) -> Tensor:
        return self._forward(users, kept(users, 0.0, None, self.q.dtype))
