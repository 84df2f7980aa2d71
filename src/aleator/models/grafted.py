"""Models that were fitted elsewhere, as factors or as similarities of items. `al.graft` makes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional as F

from aleator.data.interactions import Array, Interactions
from aleator.errors import AleatorError, require
from aleator.evaluation.held_out import HeldOut
from aleator.models.base import Model
from aleator.models.calibration import Calibrate, Map, Sample, fit_map, samples
from aleator.models.factors import FactorModel
from aleator.models.item_item import ItemItemModel
from aleator.models.reconcile import reconcile
from aleator.models.similarities import Block
from aleator.ranking import blocks
from aleator.training.histories import pieces

_ROWS = 1024  # of a matrix at a time


@dataclass(kw_only=True, eq=False, repr=False)
class Grafted(Model):
    """A model that is not fitted again: it learns which of its users and items are those of the data, by their ids.

    Its scores become the expectation r_ui by a monotone map onto the label's scale (Zadrozny and Elkan, 2002).
    """

    calibrate: Calibrate = "linear"

    source: Any = field(default=None, init=False)  # what was given
    user_ids: Any = field(default=None, init=False)  # of its rows, where given
    item_ids: Any = field(default=None, init=False)
    known: Tensor = field(init=False)  # [n_users] whether it knows them
    reconciled: dict[str, dict[str, int]] = field(default_factory=dict, init=False)

    frozen: ClassVar[bool] = True
    facts: ClassVar[tuple[str, ...]] = ("reconciled",)
    strangers: ClassVar[str] = "are unknown to the model and are served by their history"
    new_items: ClassVar[str] = "are unknown to the model and get each user's lowest score"

    def train(self, data: Interactions, check: HeldOut | None = None, epochs: int | None = None) -> None:
        require(self.source is not None, "a graft that was loaded is not fitted again", "make it anew with al.graft")
        self.notes = []
        super().train(data, check, epochs)

    def places(self, n_users: int, n_items: int) -> tuple[Array, Array]:
        """[n_users] and [n_items] of the data: which rows of the model they are, -1 for none. Counts are kept."""
        users, of_users = reconcile("user", self.user_ids, n_users, self.fitted.users)
        items, of_items = reconcile("item", self.item_ids, n_items, self.fitted.items)
        self.reconciled = {"users": of_users.to_dict(), "items": of_items.to_dict()}
        self.notes += of_users.notes("user", self.strangers) + of_items.notes("item", self.new_items)
        self.known = torch.from_numpy(users >= 0).to(self.torch_device)
        require(
            bool((self.known & (self.histories.size > 0)).any()),
            "no user that the model knows has a history in the data",
            "give the data that the model was fitted on",
        )
        return users, items

    def fit_map(self, check: HeldOut | None) -> Map | None:
        made = fit_map(self.evidence(check), self.calibrate, self.torch_device)
        require(
            made is None or made.rises,
            "the model's scores are no higher on observed pairs than on others",
            "check that users= and items= are in the order of its rows, or give scores from 0 to 1 and calibrate='none'",
        )
        return made

    def evidence(self, check: HeldOut | None) -> Iterable[Sample]:
        """What the map is fitted on."""
        return samples(self.raw_block, self.histories, self.mu, self.seed, self.known)


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


@dataclass(kw_only=True, eq=False, repr=False)
class GraftedSimilarities(Grafted, ItemItemModel):
    """r_ui = what the items of the history say of i by the matrix given, on the label's scale (Zadrozny and Elkan, 2002).

    An item says nothing of itself, so that an observed pair is expected only as far as the rest of the history goes.
    """

    neighbours: int | Literal["auto"] = field(default="auto", init=False)

    facts: ClassVar[tuple[str, ...]] = (*Grafted.facts, *ItemItemModel.facts)
    new_items: ClassVar[str] = "are unknown to the model and similar to none"

    def most_entries(self) -> int:
        return int(self.source.nnz) if sp.issparse(self.source) else int(self.source.numel())

    def blocks(self) -> Iterator[Block]:
        _, items = self.places(self.fitted.n_users, self.source.shape[0])
        if sp.issparse(self.source):
            yield taken(self.source.T, items, items)
        else:
            padded = F.pad(self.source.T, (0, 1, 0, 1))
            for rows in pieces(torch.from_numpy(items), _ROWS):
                yield padded[rows][:, items].to(self.torch_device)


def numbers(given: Any, name: str) -> Tensor:
    """A copy of the matrix `given`, of finite numbers."""
    given = given.to_numpy() if hasattr(given, "to_numpy") else given  # implicit's factors on a GPU, and frames
    try:
        made = (
            given.detach().clone()
            if isinstance(given, Tensor)
            else torch.tensor(np.array(given, np.float32, order="C"))
        )
    except (TypeError, ValueError):
        raise AleatorError(f"the {name} are a {type(given).__name__}", "give an array of numbers") from None
    require(made.ndim == 2, f"the {name} have {made.ndim} dimensions", "give a matrix")
    require(bool(made.isfinite().all()), f"not all the {name} are finite", "look for what went wrong, or was masked")
    return made.float()


def taken(matrix: Any, rows: Array, columns: Array) -> sp.csr_matrix:
    """These rows and columns of a sparse matrix, in this order; -1 for one that is empty."""
    padded = sp.csr_matrix(matrix, copy=True)
    padded.resize(padded.shape[0] + 1, padded.shape[1] + 1)
    return padded[rows][:, columns].sorted_indices()


def _lowest(x: Tensor, y: Tensor) -> Tensor:
    """[n] the lowest inner product of each row of x with those of y."""
    size, _ = blocks(len(x), len(y), x.device)
    return torch.cat([(part @ y.T).amin(1) for part in pieces(x, size)])
