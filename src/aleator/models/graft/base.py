"""Models that were fitted elsewhere, as factors or as similarities of items. `al.graft` makes them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from aleator.batches import Users
from aleator.data.interactions import Array, Interactions
from aleator.errors import AleatorError, require
from aleator.evaluation.held_out import HeldOut
from aleator.models.base import Model
from aleator.models.calibration import Calibrate, Map, Sample, fit_map, samples
from aleator.models.graft.reconcile import reconcile


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


class ByUser(Grafted):
    """Scores of known users alone: nothing follows from a history, so that others get each item's share of the users."""

    strangers: ClassVar[str] = "are unknown to the model and get each item's share of the users"

    def score_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        known = (users.index >= 0) & self.known[users.index]
        scores = self.raw_block(users, items)
        scores = scores if self.map is None else self.map(scores)
        return self.without_history(scores, replace(users, size=users.size * known, trained=False), items)

    def score_pairs(self, users: Users) -> Tensor:
        return self.score_block(users)[users.row, users.item]


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
