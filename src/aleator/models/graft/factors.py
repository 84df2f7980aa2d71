"""Factors that were fitted elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from aleator.batches import pieces
from aleator.data.interactions import Interactions
from aleator.evaluation.held_out import HeldOut
from aleator.models.factors import FactorModel
from aleator.models.graft.base import Grafted
from aleator.ranking.top import blocks


@dataclass(kw_only=True, eq=False, repr=False)
class GraftedFactors(Grafted, FactorModel):
    """r_ui = <x_u, y_i> of the factors given, on the label's scale (Zadrozny and Elkan, 2002)."""

    dim: int = field(default=1, init=False)

    def learn(self, check: HeldOut | None, epochs: int | None) -> None:
        x, y = (side.to(self.torch_device) for side in self.source)
        rows, columns = (torch.from_numpy(place).to(x.device) for place in self.places(len(x), len(y)))
        x, y, new = x[rows.clamp_min(0)], y[columns.clamp_min(0)], columns < 0
        if bool(new.any()):  # a dimension of their own gives them each user's lowest score
            x = torch.cat([x, _lowest(x, y[~new])[:, None]], 1)
            y = torch.cat([y.masked_fill(new[:, None], 0), new[:, None].to(y)], 1)
        self.user_factors, self.item_factors = x, y

    def train(self, data: Interactions, check: HeldOut | None = None, epochs: int | None = None) -> None:
        super().train(data, check, epochs)
        strangers = (~self.known).nonzero().squeeze(1)
        if len(strangers):  # as newcomers, who are made from the finished factors
            trained = (self.known & (self.histories.size > 0)).nonzero().squeeze(1)
            self.user_factors[strangers] = self._summed(self.histories.batch(strangers)) @ self.fold_map(trained)


def _lowest(x: Tensor, y: Tensor) -> Tensor:
    """[n] the lowest inner product of each row of x with those of y."""
    size, _ = blocks(len(x), len(y), x.device)
    return torch.cat([(part @ y.T).amin(1) for part in pieces(x, size)])
