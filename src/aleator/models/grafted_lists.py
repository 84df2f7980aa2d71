"""Models that were fitted elsewhere, as scores of known users: tables of candidates, and functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import scipy.sparse as sp
import torch
from torch import Tensor

from aleator.data.interactions import Interactions
from aleator.errors import AleatorError, require
from aleator.evaluation.held_out import HeldOut
from aleator.models.calibration import Sample
from aleator.models.grafted import Grafted, numbers, taken
from aleator.training.histories import Histories, Users

_IDS = "give the table the same ids as the data"


class _ByUser(Grafted):
    """Scores of known users alone: nothing follows from a history, so that others get each item's share of the users."""

    strangers: ClassVar[str] = "are unknown to the model and get each item's share of the users"

    def score_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        known = (users.index >= 0) & self.known[users.index]
        scores = self.raw_block(users, items)
        scores = scores if self.map is None else self.map(scores)
        return self.without_history(scores, replace(users, size=users.size * known, trained=False), items)

    def score_pairs(self, users: Users) -> Tensor:
        return self.score_block(users)[users.row, users.item]


@dataclass(kw_only=True, eq=False, repr=False)
class GraftedTable(_ByUser):
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


@dataclass(kw_only=True, eq=False, repr=False)
class GraftedFunction(_ByUser):
    """r_ui from a function of user ids, on the label's scale (Zadrozny and Elkan, 2002). It is not saved."""

    function: Callable[[Any], Any] | None = field(default=None, init=False)
    columns: Tensor = field(init=False)  # [n_items] of the function's, -1 for none
    width: int = field(default=0, init=False)  # how many it has
    last: tuple[Tensor, Tensor] | None = field(default=None, init=False)  # a batch, and its scores

    learned: ClassVar[tuple[str, ...]] = ("known", "columns")
    facts: ClassVar[tuple[str, ...]] = (*Grafted.facts, "width")

    def attach(self, function: Callable[[Any], Any]) -> None:
        """Give a graft that was loaded its function again: the same users and items, in the same order."""
        self.function, self.last = function, None

    def learn(self, check: HeldOut | None, epochs: int | None) -> None:
        self.attach(self.source)
        self.width = self.fitted.n_items if self.item_ids is None else len(self.item_ids)
        _, columns = self.places(self.fitted.n_users if self.user_ids is None else len(self.user_ids), self.width)
        self.columns = torch.from_numpy(columns).to(self.torch_device)

    def raw_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        last = self.last
        if last is None or last[0] is not users.index:  # an estimator asks for a batch part by part
            last = self.last = users.index, self._whole(users)
        return last[1].clone() if items is None else last[1][:, items]

    def _whole(self, users: Users) -> Tensor:
        """[B, n_items]; an item that the function does not have gets the user's lowest score."""
        scores = torch.zeros((len(users), len(self.columns)), device=self.columns.device)
        asked = ((users.index >= 0) & self.known[users.index]).nonzero().squeeze(1)
        if len(asked):
            found = self._called(users.index[asked]).to(scores)
            scores[asked] = torch.where(self.columns < 0, found.amin(1, keepdim=True), found[:, self.columns])
        return scores

    def _called(self, index: Tensor) -> Tensor:
        """[n, width] what the function gives for the users `index`."""
        if self.function is None:
            raise AleatorError("a grafted function is not saved", "give it again, by the model's attach")
        found = numbers(self.function(self.fitted.users.decode(index.cpu().numpy())), "scores of the function")
        require(
            found.shape == (len(index), self.width),
            f"the function gave scores of shape {tuple(found.shape)} for {len(index)} users and {self.width} items",
            "give items=, the item ids of its columns in their order",
        )
        return found

    def pack(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        warnings.warn(
            "the grafted function is not saved: give it again after loading, by the model's attach", stacklevel=2
        )
        return super().pack()
