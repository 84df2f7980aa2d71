"""IPS: matrix factorisation with observed pairs weighted by the inverse propensity of their item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from aleator.batches import Histories
from aleator.errors import require
from aleator.evaluation.held_out import HeldOut
from aleator.models.mf import MF
from aleator.options import Between, Ranges
from aleator.training.stop import Stop
from aleator.training.update import Update


@dataclass(kw_only=True, eq=False, repr=False)
class IPS(MF):
    """Matrix factorisation by inverse propensity scoring on implicit feedback.

    The propensity of an item that n_i users took is a power of its popularity, p_i = (n_i / max n)^`power` (Yang et al.,
    2018; Saito et al., 2020). An observed pair has the weight 1 / p_i in the objective of `MF`, so pairs of rare items
    count more. `self_normalise` divides these weights by their mean (Swaminathan and Joachims, 2015). Unobserved pairs
    keep the weight `mu`, so this is not the unbiased loss of Saito et al. r_ui = <x_u, y_i> means the same as in `MF`.
    """

    power: float = 0.5  # exponent of the popularity in the propensity
    clip: float | None = None  # smallest propensity, which bounds the weights; None for no bound
    self_normalise: bool = True  # whether to divide the weights by their mean over the observed pairs

    inverse_propensity: Tensor = field(init=False)  # [n_items] the weight of an observed pair

    learned: ClassVar[Mapping[str, str]] = {"inverse_propensity": "[n_items]"}
    trains_jointly: ClassVar[bool] = False  # the joint loss has other weights
    streams: ClassVar[bool] = False  # it weighs all pairs at once
    ranges: ClassVar[Ranges] = {
        **MF.ranges,
        "power": Between(0.1, 1.0),
        "clip": Between(1e-3, 0.3, log=True),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.power > 0, f"power is {self.power}", "give a power above 0, or use MF")
        require(self.clip is None or 0 <= self.clip < 1, f"clip is {self.clip}", "give a propensity from 0 to below 1")

    def learn(self, stop: Stop) -> None:
        self._weigh()
        super().learn(stop)

    def choose(self, held_out: HeldOut) -> None:
        self._weigh()
        super().choose(held_out)

    def expand(self, update: Update, before: Histories) -> None:
        self._weigh()
        super().expand(update, before)

    def _weigh(self) -> None:
        """Compute the weights of the items from their popularity."""
        count = torch.tensor(self.fitted.popularity, dtype=torch.float64)
        inverse = 1 / (count.clamp_min(1) / count.max()).pow(self.power).clamp_min(self.clip or 0.0)
        if self.self_normalise:
            inverse *= count.sum() / (count @ inverse)
        self.inverse_propensity = inverse.float().to(self.torch_device)

    def pair_weight(self, item: Tensor, weight: Tensor) -> Tensor:
        return weight * self.inverse_propensity[item]
