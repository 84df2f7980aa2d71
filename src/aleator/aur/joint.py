"""AUR-J: the model and the estimator are trained together, by one loss.

The paper reports that this is unstable. The loss rewards a vanishing variance where the model fits. These pairs then
weigh more and more. Three things prevent that. Both parts start from what they learned one after the other. A floor
under the variance (the objective's `floor`) bounds the weight of a pair. Gradients are clipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_type_hints

import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.errors import require
from aleator.models import MODELS
from aleator.models.base import Model
from aleator.options import check_type
from aleator.training.loop import Log, Loop, trainable
from aleator.training.stop import Stop
from aleator.uncertainty.base import Estimator
from aleator.uncertainty.objective import Objective

_STEPS = 16  # steps of an epoch


@dataclass(frozen=True, kw_only=True)
class Joint:
    """Options of joint training (AUR-J), for `al.AUR(model, joint=al.Joint())`.

    The model and the estimator are first trained one after the other, and then together.

    Args:
        weights: Weights of observed and other pairs in the joint loss: alpha and 1 ("estimator"), or 1 and mu ("model").
        lr: Learning rate of Adam.
        clip: Largest norm of a gradient. Larger ones are scaled down.
        max_epochs: Largest number of epochs. Early stopping may end it before.
    """

    weights: Literal["estimator", "model"] = "estimator"  # of observed and other pairs: alpha and 1, or 1 and mu
    lr: float = 1e-3  # learning rate of Adam
    clip: float = 1.0  # largest norm of a gradient
    max_epochs: int = 100  # largest number of epochs

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self)).items():
            check_type("Joint", name, getattr(self, name), hint)
        require(
            min(self.lr, self.clip, self.max_epochs) > 0,
            "an option of joint training is not positive",
            "give numbers above 0",
        )


def check_joint(model: Model, floor: float) -> None:
    """Refuse a model, or a floor of the objective, that cannot be trained jointly."""
    kind = type(model).__name__
    able = ", ".join(other.__name__ for other in MODELS.classes.values() if other.trains_jointly)
    require(model.trains_jointly, f"{kind} cannot be trained jointly", f"use one of {able}")
    require(model.calibrate == "none", f"{kind} is calibrated, which joint training undoes", "drop calibrate")
    require(floor > 0, "joint training without a floor diverges", "give a floor above 0")


def learn_jointly(
    joint: Joint, model: Model, estimator: Estimator, objective: Objective, histories: Histories, stop: Stop, seed: int
) -> Log:
    """Train the model and the estimator together, in place, from what they have learned so far."""
    observed, other = (objective.alpha, 1.0) if joint.weights == "estimator" else (1.0, model.mu)
    parameters = [*model.parameters(), *estimator.parameters()]
    loop = Loop(
        max_epochs=joint.max_epochs,
        batch_size=histories.batch_size(_STEPS),
        lr=joint.lr,
        device=histories.device,
        clip=joint.clip,
        from_start=stop.metric is not None,
        seed=seed,
        label="joint training",
    )

    def loss(users: Users, draw: torch.Generator) -> Tensor:
        items = estimator.sample(histories.n_items, draw)
        return joint_loss(model, estimator, objective, users, items, observed=observed, other=other)

    with trainable(parameters):
        log = loop.minimise(loss, parameters, histories, stop)
    with torch.no_grad():
        model.publish()
    return log


def joint_loss(
    model: Model,
    estimator: Estimator,
    objective: Objective,
    users: Users,
    items: Tensor | None = None,
    *,
    observed: float = 1.0,
    other: float = 1.0,
) -> Tensor:
    """sum w ((r - Y)^2 / (e^s + floor) + beta s + gamma s^2) over the users and all items.

    w is `observed` on observed pairs (times their weight) and `other` on the others. If `items` (sorted) are given, the
    sum over the other pairs is estimated from these items. Gradients flow into the model and the estimator.
    """
    model.publish()
    others = objective.pairs(model.score_block(users, items), estimator.log_variance(users, items))
    free = torch.ones_like(others, requires_grad=False)
    free[(users.row, users.item) if items is None else users.among(items)] = 0
    pairs = objective.pairs(model.score_pairs(users) - 1, estimator.observed(users))
    up = other * (1 if items is None else model.fitted.n_items / len(items))
    return up * (free * others).sum() + observed * (users.weight * pairs).sum()
