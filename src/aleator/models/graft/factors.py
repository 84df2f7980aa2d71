"""Factors that were fitted elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from aleator.batches import pieces
from aleator.models.factors import FactorTable
from aleator.models.graft.base import Grafted
from aleator.ranking.top import blocks
from aleator.training.stop import Stop


@dataclass(kw_only=True, eq=False, repr=False)
class GraftedFactors(Grafted):
    """r_ui = <x_u, y_i> of the given factors, calibrated to the label's scale (Zadrozny and Elkan, 2002)."""

    def learn(self, stop: Stop) -> None:
        x, y = (side.to(self.torch_device) for side in self.open_source())
        rows, columns = (torch.from_numpy(place).to(x.device) for place in self.places(len(x), len(y)))
        x, y, new = x[rows.clamp_min(0)], y[columns.clamp_min(0)], columns < 0
        if bool(new.any()):  # one more dimension gives items that the model does not know each user's lowest score
            x = torch.cat([x, _lowest(x, y[~new])[:, None]], 1)
            y = torch.cat([y.masked_fill(new[:, None], 0), new[:, None].to(y)], 1)
        self.table = FactorTable(x, y)

    def absorb_map(self) -> None:
        """Make a linear map part of the factors. Then compute factors of users that the model does not know.

        They are treated as newcomers, by fold-in from the calibrated factors.
        """
        super().absorb_map()
        strangers = (~self.known).nonzero().squeeze(1)
        if len(strangers):
            trained = (self.known & (self.histories.size > 0)).nonzero().squeeze(1)
            to_factors = self.table.newcomer_map(trained, self.histories)
            self.table.users[strangers] = self.table.summed(self.histories.batch(strangers)) @ to_factors


def _lowest(x: Tensor, y: Tensor) -> Tensor:
    """[n] the lowest inner product of each row of x with the rows of y."""
    size, _ = blocks(len(x), len(y), x.device)
    return torch.cat([(part @ y.T).amin(1) for part in pieces(x, size)])
