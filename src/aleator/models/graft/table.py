"""Models that were fitted elsewhere, as scores of known users: tables of candidates, and functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import scipy.sparse as sp
import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.data.interactions import Interactions
from aleator.errors import require
from aleator.evaluation.held_out import HeldOut
from aleator.models.calibration import Sample
from aleator.models.graft.base import ByUser, Grafted, taken

_IDS = "give the table the same ids as the data"


@dataclass(kw_only=True, eq=False, repr=False)
class GraftedTable(ByUser):
    """r_ui from a table of candidates with scores, on the label's scale (Zadrozny and Elkan, 2002).

    Of a pair that is not listed nothing is expected: r_ui = 0, or the lowest of those listed where that is below.
    """

    listed: Histories = field(init=False)  # the candidates of each user, with their scores as weights
    lowest: float = field(default=0.0, init=False)

    learned: ClassVar[tuple[str, ...]] = ("known",)
    facts: ClassVar[tuple[str, ...]] = (*Grafted.facts, "lowest")
    new_items: ClassVar[str] = "are not listed in the table"

    def learn(self, check: HeldOut | None, epochs: int | None) -> None:
        self.listed = Histories(taken(self.source, *self.places(*self.source.shape)), self.torch_device)
        self.known = self.listed.size > 0
        require(bool(self.known.any()), "no candidate of the table has both its user and its item in the data", _IDS)

    def evidence(self, check: HeldOut | None) -> Iterable[Sample]:
        """The listed pairs. Those held out count as observed, since a list of candidates leaves out what was taken."""
        weight = torch.zeros_like(self.listed.weight)
        everyone = torch.arange(self.fitted.n_users)
        listed = self.listed.batch(everyone)
        for rows in [self.histories] if check is None else [self.histories, check.held]:
            pairs = rows.batch(everyone)
            key, sought = (p.row * self.fitted.n_items + p.item for p in (pairs, listed))
            place = torch.searchsorted(key, sought).clamp_max(len(key) - 1)
            weight = torch.where(key[place] == sought, pairs.weight[place], weight)
        require(
            bool((weight > 0).any()),
            "no candidate of the table was taken in train or validation: the scale of its scores cannot be learned",
            "list candidates of a model of split.train, or give scores from 0 to 1 and calibrate='none'",
        )
        yield listed.weight, torch.where(weight > 0, weight, self.mu), (weight > 0).to(weight)

    def train(self, data: Interactions, check: HeldOut | None = None, epochs: int | None = None) -> None:
        super().train(data, check, epochs)
        if self.map is not None:
            self.listed.weight, self.map = self.map(self.listed.weight), None
        self.lowest = min(0.0, float(self.listed.weight.min()))

    def raw_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        scores = torch.full((len(users), self.fitted.n_items), self.lowest, device=self.torch_device)
        listed = self.listed.batch(users.index.clamp_min(0))
        scores[listed.row, listed.item] = listed.weight
        return scores if items is None else scores[:, items]

    def pack(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        about, tensors = super().pack()
        return about, tensors | {f"model.{name}": getattr(self.listed, name) for name in ("weight", "item", "indptr")}

    def unpack(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        super().unpack(learned, tensors)
        parts = (tensors[f"model.{name}"].cpu().numpy() for name in ("weight", "item", "indptr"))
        self.listed = Histories(sp.csr_matrix(tuple(parts), self.fitted.csr.shape), self.torch_device)
