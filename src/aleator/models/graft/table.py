"""A table of candidates with scores from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import scipy.sparse as sp
import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.checkpoint.checks import fit, fit_rows
from aleator.errors import require
from aleator.models.calibration import Sample
from aleator.models.graft.base import Grafted, taken
from aleator.training.stop import Stop

_IDS = "give the table the same ids as the data"


@dataclass(kw_only=True, eq=False, repr=False)
class GraftedTable(Grafted):
    """r_ui from a table of candidates with scores, calibrated to the label's scale (Zadrozny and Elkan, 2002).

    A pair that is not listed has r_ui = 0, or the lowest listed score if that is below 0.
    """

    listed: Histories = field(init=False)  # the candidates of each user, with their scores as weights
    lowest: float = field(default=0.0, init=False)  # r_ui of a pair that is not listed

    learned: ClassVar[Mapping[str, str]] = {"known": "[n_users] bool"}
    facts: ClassVar[tuple[str, ...]] = (*Grafted.facts, "lowest")
    matches_rows: ClassVar[bool] = False  # each of its rows has ids
    suspect: ClassVar[str] = "check its ids, and that its model has learned"
    scores_histories: ClassVar[bool] = False
    strangers: ClassVar[str] = "are unknown to the model and get each item's share of the users"
    new_items: ClassVar[str] = "are not listed in the table"

    @property
    def chooses(self) -> bool:
        """A fit without a refit needs the held-out pairs too: they show the scale of the scores."""
        return not self.refit

    def learn(self, stop: Stop) -> None:
        source = self.open_source()
        self.listed = Histories(taken(source, *self.places(*source.shape)), self.torch_device)
        self.known = self.listed.size > 0
        require(bool(self.known.any()), "no candidate of the table has both its user and its item in the data", _IDS)

    def evidence(self, held: Histories | None) -> Iterable[Sample]:
        """The listed pairs. Held-out pairs count as observed, since candidates usually leave out training pairs."""
        weight = torch.zeros_like(self.listed.weight)
        everyone = torch.arange(self.fitted.n_users)
        listed = self.listed.batch(everyone)
        for rows in [self.histories] if held is None else [self.histories, held]:
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

    def absorb_map(self) -> None:
        """Apply the map to the listed scores once, whatever kind it is."""
        if self.map is not None:
            self.listed.weight, self.map = self.map(self.listed.weight), None
        self.lowest = min(0.0, float(self.listed.weight.min()))

    def raw_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        scores = torch.full((len(users), self.fitted.n_items), self.lowest, device=self.torch_device)
        listed = self.listed.batch(users.index.clamp_min(0))
        scores[listed.row, listed.item] = listed.weight
        return scores if items is None else scores[:, items]

    def candidates(self, users: Users) -> Tensor | None:
        mask = torch.zeros((len(users), self.fitted.n_items), dtype=torch.bool, device=self.torch_device)
        listed = self.listed.batch(users.index.clamp_min(0))
        mask[listed.row, listed.item] = True
        return mask

    def tensors(self) -> dict[str, Tensor]:
        listed = self.listed
        return super().tensors() | {"weight": listed.weight, "item": listed.item, "indptr": listed.indptr}

    def set_tensors(self, tensors: dict[str, Tensor]) -> None:
        super().set_tensors(tensors)
        shapes = {"weight": "[entries]", "item": "[entries] int64", "indptr": "[n_users + 1] int64"}
        fit(tensors, shapes, n_users=self.fitted.n_users)
        fit_rows(tensors["indptr"], tensors["item"], self.fitted.n_items)
        parts: Any = tuple(tensors[name].cpu().numpy() for name in ("weight", "item", "indptr"))
        self.listed = Histories(sp.csr_matrix(parts, self.fitted.csr.shape), self.torch_device)
