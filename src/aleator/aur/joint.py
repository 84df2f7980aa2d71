"""AUR-J: the model and the estimator trained together, by the one loss of both.

The paper reports that this is unstable: the loss rewards a variance that vanishes where the model fits, which then
weighs these pairs ever more. Three things keep it in bounds: both start from what they learned one after the other, a
floor under the variance (the objective's `floor`) bounds the weight of a pair, and gradients are clipped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.models.base import Model
from aleator.training.loop import Log, Trainer
from aleator.uncertainty.base import Estimator
from aleator.uncertainty.objective import Objective


@dataclass(frozen=True)
class Joint:
    """The joint loss sum w ((r - Y)^2 / (e^s + floor) + beta s + gamma s^2), over model and estimator.

    w is `positive` on observed pairs (times their weight) and `negative` on the others.
    """

    model: Model
    estimator: Estimator
    objective: Objective
    positive: float
    negative: float

    def train(
        self,
        histories: Histories,
        trainer: Trainer,
        check: Callable[[], float] | None,
    ) -> Log:
        """From where both are, in place."""
        parameters = [*self.model.parameters(), *self.estimator.parameters()]
        for parameter in parameters:
            parameter.requires_grad_()

        def published() -> float:
            with torch.no_grad():
                self.model.publish()
                assert check is not None
                return check()

        def loss(users: Users, draw: torch.Generator) -> Tensor:
            return self.loss(users, self.estimator.sample(histories.n_items, draw))

        log = trainer.fit(parameters, loss, histories, published if check else None)
        for parameter in parameters:
            parameter.requires_grad_(False).grad = None
        with torch.no_grad():
            self.model.publish()
        return log

    def loss(self, users: Users, items: Tensor | None) -> Tensor:
        """Summed over the users and all items, or estimated from the `items` (sorted)."""
        self.model.publish()
        n_items = self.model.fitted.n_items
        others = self.objective.pairs(self.model.score_block(users, items), self.estimator.log_variance(users, items))
        free = torch.ones_like(others, requires_grad=False)
        if items is None:
            free[users.row, users.item] = 0
        else:
            place = torch.searchsorted(items, users.item).clamp_max(len(items) - 1)
            inside = items[place] == users.item
            free[users.row[inside], place[inside]] = 0
        observed = self.objective.pairs(self.model.score_pairs(users) - 1, self.estimator.observed(users))
        up = self.negative * (1 if items is None else n_items / len(items))
        return up * (free * others).sum() + self.positive * (users.weight * observed).sum()
