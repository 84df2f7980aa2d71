"""The base of grafted models: scores from elsewhere, matched to the data by ids and mapped onto the label's scale."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.data.interactions import Array, Interactions
from aleator.errors import AleatorError, require
from aleator.evaluation.held_out import HeldOut
from aleator.models.base import Model
from aleator.models.calibration import Calibrate, Map, Sample, fit_map, samples
from aleator.models.graft.alignment import follows_users
from aleator.models.graft.reconcile import reconcile
from aleator.training.journal import step

if TYPE_CHECKING:
    from aleator.models.cache import ModelCache

_COMPARED = 64  # users whose scores tell one graft from another


@dataclass(kw_only=True, eq=False, repr=False)
class Grafted(Model):
    """A model that was fitted elsewhere.

    `fit` matches its users and items with those of the data, by their ids. A monotone map onto the label's scale turns
    its scores into the expectation r_ui (Zadrozny and Elkan, 2002).
    """

    calibrate: Calibrate = "linear"  # map of raw scores onto the label's scale: "linear", "isotonic" or "none"
    check: bool = True  # whether to refuse scores that do not follow the users' own histories

    source: Any = field(default=None, init=False)  # what `graft` was given
    user_ids: Any = field(default=None, init=False)  # external ids of its users, if given
    item_ids: Any = field(default=None, init=False)  # external ids of its items, if given
    known: Tensor = field(init=False)  # [n_users] whether it knows each user of the data
    reconciled: dict[str, dict[str, int]] = field(default_factory=dict, init=False)  # counts of users and items

    frozen: ClassVar[bool] = True
    facts: ClassVar[tuple[str, ...]] = ("reconciled",)
    matches_rows: ClassVar[bool] = True  # whether its ids could be in a wrong order
    suspect: ClassVar[str] = (
        "check that users= and items= are in the order of its rows, and that it has learned"  # if scores do not fit
    )
    scores_histories: ClassVar[bool] = True  # whether it can score a history without a known user
    strangers: ClassVar[str] = "are unknown to the model and are served by their history"
    new_items: ClassVar[str] = "are unknown to the model and get each user's lowest score"

    def open_source(self) -> Any:
        """What `graft` was given, at the start of a fit."""
        require(
            self.source is not None, "a graft that was loaded cannot be fitted again", "make a new one with al.graft"
        )
        self.notes = []
        return self.source

    def fit_cached(
        self,
        cache: ModelCache | None,
        data: Interactions,
        held_out: HeldOut | None = None,
        epochs: int | None = None,
    ) -> None:
        """`fit_pairs`. A fit that goes on must have got the same model: options do not tell one graft from another."""
        self.fit_pairs(data, held_out, epochs)
        with step(f"scores of {type(self).__name__}") as kept:
            if kept.journal is None:
                return
            found = kept.found()
            scores = self.score_block(self.histories.batch(torch.arange(min(_COMPARED, data.n_users))))
            mine = {"scores": hashlib.sha256(scores.cpu().numpy().tobytes()).hexdigest()}
            told = "the fit that was interrupted is that of another grafted model"
            require(found is None or found[0] == mine, told, "graft that one, or start anew with resume=False")
            if found is None:
                kept.finish(mine, {})

    def __sklearn_clone__(self) -> Self:
        made = super().__sklearn_clone__()
        made.source, made.user_ids, made.item_ids = self.source, self.user_ids, self.item_ids
        return made

    def places(self, n_users: int, n_items: int) -> tuple[Array, Array]:
        """The model's row of each user [n_users] and each item [n_items] of the data, -1 for none.

        `n_users` and `n_items` are those of the model. The counts of matches go into `reconciled` and the notes.
        """
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

    @property
    def follows_histories(self) -> bool:
        return self.scores_histories

    def fit_map(self, held_out: HeldOut | None) -> Map | None:
        made = fit_map(self.evidence(None if held_out is None else held_out.held), self.calibrate, self.torch_device)
        require(
            made is None or made.rises,
            "the model's scores are no higher on observed pairs than on others",
            f"{self.suspect}, or give scores from 0 to 1 and calibrate='none'",
        )
        if self.check and self.matches_rows:
            require(
                follows_users(self.raw_block, self.histories, self.known, self.seed),
                "the model scores the histories of users no higher than those of other users",
                f"{self.suspect}, or go on with check=False",
            )
        return made

    def evidence(self, held: Histories | None) -> Iterable[Sample]:
        """The samples that the map is fitted on. `held` are the held-out pairs of each user."""
        return samples(self.raw_block, self.histories, self.mu, self.seed, self.known)

    def score_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        """Scores of a batch.

        If the model cannot score a history, unknown users get the share of all users who took each item.
        """
        if self.scores_histories:
            return super().score_block(users, items)
        known = (users.index >= 0) & self.known[users.index]
        scores = self.raw_block(users, items)
        scores = scores if self.map is None else self.map(scores)
        return self.without_history(scores, replace(users, size=users.size * known, trained=False), items)

    def score_pairs(self, users: Users) -> Tensor:
        if self.scores_histories:
            return super().score_pairs(users)
        return self.score_block(users)[users.row, users.item]


def numbers(given: Any, name: str) -> Tensor:
    """A copy of the matrix `given` as a float32 tensor. It must hold finite numbers."""
    try:
        made = given.detach().clone() if isinstance(given, Tensor) else torch.tensor(_array(given))
    except (TypeError, ValueError):
        raise AleatorError(f"the {name} are a {type(given).__name__}", "give an array of numbers") from None
    require(made.ndim == 2, f"the {name} have {made.ndim} dimensions", "give a matrix")
    require(
        bool(made.isfinite().all()),
        f"not all the {name} are finite",
        "check how they were computed, and whether some are masked",
    )
    return made.float()


def lowest_for_none(scores: Array) -> Array:
    """The scores [n, n_items] with each user's lowest score in place of NaN. All are 0 if there is no other."""
    lowest = np.where(np.isnan(scores), np.inf, scores).min(1, keepdims=True)
    return np.where(np.isnan(scores), np.where(np.isinf(lowest), 0, lowest), scores)


@runtime_checkable
class _Convertible(Protocol):
    """Frames, and factors of implicit on a GPU."""

    def to_numpy(self) -> Array: ...


def _array(given: Any) -> Array:
    plain = given.to_numpy() if isinstance(given, _Convertible) else given
    if np.iscomplexobj(plain):
        raise TypeError
    with np.errstate(over="ignore"):  # too large numbers are refused as infinite
        return np.array(plain, np.float32, order="C")


def taken(matrix: Any, rows: Array, columns: Array) -> sp.csr_matrix:
    """These rows and columns of a sparse matrix, in this order. -1 gives an empty row or column."""
    padded = sp.csr_matrix(matrix, copy=True)
    padded.resize(padded.shape[0] + 1, padded.shape[1] + 1)
    return padded[rows][:, columns].sorted_indices()
