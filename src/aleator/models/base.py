"""The base of all models. A model estimates the expectation. Its file says how it learns and how it scores."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints

import torch
from torch import Tensor

from aleator.batches import Histories, Users, pieces
from aleator.checkpoint.checks import Figure, fit, typed
from aleator.data.interactions import Interactions
from aleator.data.splits import Split
from aleator.device import allocating
from aleator.errors import AleatorError, require
from aleator.evaluation.held_out import HeldOut
from aleator.kernels.fold_in import with_new_items
from aleator.kernels.ragged import pair_products
from aleator.models.calibration import Calibrate, Map, fit_map, samples
from aleator.models.factors import FactorTable
from aleator.models.path import Path
from aleator.ranking.contributions import Contributions, Terms, leave_one_out
from aleator.ranking.derived import Derived
from aleator.recommender import Recommender
from aleator.training.journal import recorded
from aleator.training.loop import epochs_of
from aleator.training.stop import Stop
from aleator.training.update import Update
from aleator.training.watch import phase

if TYPE_CHECKING:
    from aleator.models.cache import ModelCache

_AT_A_TIME = 4096  # users to fold in
_TOO_LARGE = 1e18  # products of smaller numbers stay in the range of float32


@dataclass(kw_only=True, eq=False, repr=False)
class Model(Recommender):
    """The base of all models: an estimate of the expectation r_ui, on the scale of the label (0 to 1).

    A model is a recommender of its own, and the part of an `AUR` that estimates the expectation.

    Calibration maps raw scores onto the label's scale, by a monotone map. "linear" fits a line, so that inner products
    stay inner products. "isotonic" fits a piecewise linear curve. Models that are on that scale by themselves need none.
    """

    mu: float = 0.1  # weight (or share) of the unobserved pairs in the loss and in the calibration
    calibrate: Calibrate = "none"  # map of raw scores onto the label's scale: "linear", "isotonic" or "none"

    map: Map | None = field(default=None, init=False)  # the calibration, unless it is part of the factors
    chosen: dict[str, float] = field(default_factory=dict, init=False)  # options that were chosen on held-out pairs
    tried: list[dict[str, Figure]] = field(default_factory=list, init=False)  # values of them, with their Recall@20
    _table: FactorTable | None = field(default=None, init=False)
    _lined: Derived[Tensor] = field(default_factory=lambda: Derived(_with_ones), init=False)  # item factors and a 1

    learned: ClassVar[Mapping[str, str]] = {}  # tensors to save beside a table of factors: their names and shapes
    facts: ClassVar[tuple[str, ...]] = ()  # names of the other attributes to save
    scores_are_products: ClassVar[bool] = True  # whether scores are inner products, if there is a table of factors
    trains_jointly: ClassVar[bool] = False  # whether AUR-J can train its `parameters`
    weighs_negatives: ClassVar[bool] = False  # whether it is fitted with weight `mu` on the unobserved pairs
    streams: ClassVar[bool] = False  # whether it takes pairs on disk batch by batch
    frozen: ClassVar[bool] = False  # whether it was fitted elsewhere and cannot be fitted again

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.mu <= 1, f"mu is {self.mu}", "give a mu above 0 and at most 1")

    def unused(self) -> Mapping[str, str]:
        found = dict(super().unused())
        if not self.weighs_negatives and self.calibrate == "none":
            found["mu"] = "without calibration"
        if not self.holds_out:
            found["valid"] = "where nothing is held out"
        return found

    # What a model file writes

    @abstractmethod
    def learn(self, stop: Stop) -> None:
        """Learn from the pairs in `self.fitted`. `stop` says when a training in epochs ends."""

    def expand(self, update: Update, before: Histories) -> None:
        """Make what scores need of the users and items that are new in `self.fitted`, without training.

        `before` are the histories that it knew. A factor model folds in users by `fold_in`. It folds in all items that
        came since the fit, by a map that is fitted to those of the fit. Those of the fit stay as they are, so small
        updates do not add up their errors. A model without factors is fitted again.
        """
        if self._table is None:
            self.fit_pairs(self.fitted)
            return
        old, after, items = self.table, self.histories, self.table.items[: update.n_items]
        old.fold_in(before.batch(torch.arange(0)), before)  # fits the map, to what it knew
        self.table = table = old.padded(after, update.n_items)
        grown = (after.size[: before.n_users] > before.size).nonzero().squeeze(1).cpu()
        known, new = grown[grown < update.n_users], grown[grown >= update.n_users]
        new = torch.cat([new, torch.arange(before.n_users, after.n_users)])

        def fold_in_users() -> None:
            for index in pieces(known, _AT_A_TIME) if len(known) else ():
                here = index.to(items.device)
                table.users[here] = self.moved(old.users[here], before.batch(index), after.batch(index))
            for index in pieces(new, _AT_A_TIME) if len(new) else ():
                table.users[index.to(items.device)] = self.fold_in(after.batch(index, known=False))

        fold_in_users()
        table.items = with_new_items(items, lambda users: table.users[users.index], before, after)
        fold_in_users()  # now with the new items
        self.table = FactorTable(table.users, table.items)

    def moved(self, x: Tensor, before: Users, after: Users) -> Tensor:
        """[B, dim] the factors of known users whose histories have grown, from the factors `x` of before.

        They move by what the fold-in of their histories moves. So they keep what training found beyond a fold-in.
        """
        return x + self.fold_in(after) - self.fold_in(before)

    def go_on(self, stop: Stop) -> None:
        """Train on from what was learned. It writes into tensors that `expand` made."""

    @property
    def stops_early(self) -> bool:
        """Whether the number of epochs is chosen on held-out pairs."""
        return False

    @property
    def chooses(self) -> bool:
        """Whether an option is "auto" and is chosen on held-out pairs."""
        return False

    def choose(self, held_out: HeldOut) -> None:
        """Fit to the pairs in `self.fitted` with a few values, and `keep` those of one option that were tried."""

    def raw_factors(self, users: Users) -> tuple[Tensor, Tensor] | None:
        """[B, dim] and [n_items, dim], whose inner products are the raw scores. None if there are none."""
        if self._table is None or not self.scores_are_products:
            return None
        table = self._table
        return users.once("x", lambda: table.rows(users, self.fold_in), table.users, table.items), table.items

    def raw_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        """Scores before calibration, [B, n_items] or [B, len(items)]. The caller may overwrite the tensor."""
        factors = self.raw_factors(users)
        assert factors is not None, "a model without factors writes its own raw_block"
        x, y = factors
        return x @ (y if items is None else y[items]).T

    def raw_pairs(self, users: Users) -> Tensor:
        """Scores of each item of each history before calibration, [n]."""
        factors = self.raw_factors(users)
        return self.raw_block(users)[users.row, users.item] if factors is None else pair_products(*factors, users)

    def fold_in(self, users: Users) -> Tensor:
        """[B, dim] the factors of newcomers, by fold-in: from their histories."""
        return self.table.fold_in(users, self.histories)

    def out_of_sample_pairs(self, users: Users) -> Tensor | None:
        """The expectation of each item of each history, as if that item were not in the history, [n].

        None if the model has no closed form for it.
        """
        return None

    def raw_terms(self, users: Users, items: Tensor) -> Tensor | None:
        """What each item of a history adds to the raw scores of its user's own items (dense ids [B, k]), [n, k].

        The terms and a constant add up to the raw score. None if it is no such sum.
        """
        return None

    def candidates(self, users: Users) -> Tensor | None:
        """[B, n_items] a mask of the items that the model scores at all. None for all items."""
        return None

    def parameters(self) -> list[Tensor]:
        """What joint training trains. `publish` then turns it into what scores are computed from."""
        return []

    def publish(self) -> None:
        """Compute from the parameters what scores need, such as factors."""

    # What every model does

    @property
    def holds_out(self) -> bool:
        """Whether a fit holds pairs out: to choose epochs or options on, or because it is not to refit."""
        return self.stops_early or self.chooses or not self.refit

    @property
    def table(self) -> FactorTable:
        """The factors of users and items, if the model has them."""
        if self._table is None:
            raise AleatorError(f"this {type(self).__name__} has no factors", "fit it first, if it is a factor model")
        return self._table

    @table.setter
    def table(self, table: FactorTable) -> None:
        self._table = table

    def fit_split(self, split: Split, cache: ModelCache | None) -> None:
        recipe = self.conventions
        if not self.holds_out:
            self.fit_cached(cache, split.everything)
            return
        fitted, held = recipe.divide(split, self.valid, self.seed)
        if not (self.stops_early or self.chooses):
            self.fit_cached(cache, fitted)
            return
        held_out = self.hold_out(fitted, held)
        again = recipe.refits and self.refit
        if again and not self.stops_early:
            self.choose_on(fitted, held_out)
            self.fit_cached(cache, split.everything)
            return
        self.fit_cached(cache, fitted, held_out)
        if again:
            log = self.log  # that of the fit that chose the number of epochs
            with phase("refit"):
                self.fit_cached(cache, split.everything, epochs=epochs_of(log))
            self.log = log

    def take_in(self, update: Update) -> None:
        require(
            not self.frozen,
            f"the model of a {type(self).__name__} was fitted elsewhere, and cannot be updated here",
            "update it there, graft it again and fit; newcomers with a history are served without that",
        )
        before, log = self.histories, self.log
        self.data = update.growth.after
        self.expand(update, before)
        if self.goes_on:
            self.go_on(Stop(epochs=update.due(log)))
            self.log = log  # that of the fit, for later updates

    def fit_cached(
        self,
        cache: ModelCache | None,
        data: Interactions,
        held_out: HeldOut | None = None,
        epochs: int | None = None,
    ) -> None:
        """`fit_pairs`, or the result of the same fit if the cache or the journal has it."""

        def fit() -> None:
            if cache is None:
                self.fit_pairs(data, held_out, epochs)
            else:
                cache.fit_pairs(self, data, held_out, epochs)

        def take(learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
            self.data = data
            self.unpack(learned, {name: value.to(self.torch_device) for name, value in tensors.items()})

        recorded(f"fit of {type(self).__name__}", fit, self.pack, take)

    def choose_on(self, data: Interactions, held_out: HeldOut) -> None:
        """Choose the options that are "auto", by fits to these pairs that are judged on the pairs `held_out`."""
        self.data, self.map = data, None
        self.chosen, self.tried = {}, []
        if self.chooses and len(held_out.who):
            with allocating(repr(self)):
                self.choose(held_out)

    def keep(self, option: str, path: Path) -> None:
        """Take the best value of an option, and note all that were tried."""
        self.chosen = {option: path.best}
        self.tried = [{option: value, "recall": found} for value, found in path.tried.items()]

    def fit_pairs(self, data: Interactions, held_out: HeldOut | None = None, epochs: int | None = None) -> None:
        """Learn from exactly these pairs, then calibrate.

        Options that are "auto" are chosen on the pairs `held_out`. Without them, an earlier choice holds. A training in
        epochs stops early on the pairs `held_out`. Without them, it runs for `epochs`.
        """
        require(
            data.on_disk is None or self.streams,
            f"{type(self).__name__} takes all pairs into memory, and these are on disk",
            "take FISM, MF or Popularity, or read the data without on_disk",
        )
        if held_out is not None:
            self.choose_on(data, held_out)
        self.data, self.map, self.log = data, None, None
        metric = None if held_out is None else lambda: self._recall(held_out)
        with allocating(repr(self)):
            self.learn(Stop(metric, epochs))
        assert self.log is not None or not self.stops_early, "learn sets self.log, for the epochs of a refit"
        with torch.no_grad():
            self.publish()
            self._require_finite()
            self.map = self.fit_map(held_out)
            self.absorb_map()

    def _require_finite(self) -> None:
        learned = [tensor for tensor in self.tensors().values() if tensor.is_floating_point() and len(tensor)]
        fit = all(bool(end.abs() < _TOO_LARGE) for tensor in learned for end in tensor.aminmax())  # without a copy
        told = f"{self!r} learned numbers that are not finite, or too large to multiply"
        require(fit, told, "take milder options, or weights nearer to 1")

    def _recall(self, held_out: HeldOut) -> float:
        """The mean Recall@20 on held-out pairs during training."""
        with torch.no_grad():
            self.publish()
            measured = held_out.measure(lambda users: [self.score_block(users)])
        return float(measured.recall.mean())

    def fit_map(self, held_out: HeldOut | None) -> Map | None:
        """The map of raw scores onto the label's scale, fitted on training pairs."""
        return fit_map(samples(self.raw_block, self.histories, self.mu, self.seed), self.calibrate, self.torch_device)

    def absorb_map(self) -> None:
        """Make a linear map part of the factors, if scores are inner products."""
        if self.map is not None and self.calibrate == "linear" and self._table is not None and self.scores_are_products:
            self.table.absorb(self.map)
            self.map = None

    def factors(self, users: Users) -> tuple[Tensor, Tensor] | None:
        found = self.raw_factors(users)
        x = self._on_line(found)
        if found is None or x is None:
            return None
        return x, found[1] if self.map is None else self._lined(found[1])

    def user_factors(self, users: Users) -> Tensor | None:
        return self._on_line(self.raw_factors(users))

    def _on_line(self, raw: tuple[Tensor, Tensor] | None) -> Tensor | None:
        """The users' side of `raw_factors`, calibrated. None if the calibration is no line."""
        if raw is None or self.map is None:
            return None if raw is None else raw[0]
        if self.map.line is None:
            return None
        slope, level = self.map.line
        return torch.cat([slope * raw[0], raw[0].new_full((len(raw[0]), 1), level)], 1)

    def score_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        scores = self.raw_block(users, items)
        return self.without_history(scores if self.map is None else self.map(scores), users, items)

    def score_pairs(self, users: Users) -> Tensor:
        """The expectation of each item of each history, [n]."""
        scores = self.raw_pairs(users)
        return scores if self.map is None else self.map(scores)

    @property
    def follows_histories(self) -> bool:
        """Whether the expectation of a user can be told from the history. If not, it has no terms."""
        return self.personalises

    def terms(self, users: Users, items: Tensor) -> Terms | None:
        """What each item of a history adds to the expectations of its user's own items (dense ids [B, k])."""
        if not self.follows_histories:
            return None
        slope = 1.0 if self.map is None else self.map.line and self.map.line[0]
        raw = None if slope is None else self.raw_terms(users, items)
        if raw is None or slope is None:
            return Terms(leave_one_out(self.score_block, users, items), exact=False)
        return Terms(slope * raw, exact=True)

    def contributions(self, users: Users, items: Tensor) -> Contributions:
        found = self.terms(users, items)
        if found is None:
            kind = type(self).__name__
            told = f"the scores of this {kind} do not follow from the items of a history"
            raise AleatorError(told, "explain an AUR with it, whose uncertainty does, or another model")
        return Contributions({"expectation": found.values}, found.values, found.exact)

    def tensors(self) -> dict[str, Tensor]:
        """The tensors to save, by name."""
        of_table = {} if self._table is None else self._table.tensors()
        return of_table | {name: getattr(self, name) for name in self.learned}

    def set_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Take over what `tensors` returned."""
        if "user_factors" in tensors:
            self.table = FactorTable(tensors["user_factors"], tensors["item_factors"])
        for name in self.learned:
            setattr(self, name, tensors[name])

    def pack(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        about = {name: getattr(self, name) for name in ("chosen", "tried", *self.facts)}
        tensors = {f"model.{name}": value for name, value in self.tensors().items()}
        if self.map is not None:
            tensors |= {"model.map.x": self.map.x, "model.map.y": self.map.y}
        return about | {"notes": self.notes, "log": None if self.log is None else self.log.to_dict()}, tensors

    def unpack(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        hints = get_type_hints(type(self), include_extras=True)
        for name in ("log", "notes", "chosen", "tried", *self.facts):
            setattr(self, name, typed(hints[name], learned[name], name))
        mine = {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
        self.map = Map.restore(mine.pop("map.x"), mine.pop("map.y")) if "map.x" in mine else None
        shapes = {**self.learned, **(FactorTable.shapes if "user_factors" in mine else {})}
        fit(mine, shapes, n_users=self.fitted.n_users, n_items=self.take_rows(mine))
        self.set_tensors(mine)

    def take_rows(self, tensors: Mapping[str, Tensor]) -> int:
        """The rows of the item tables: all items, unless tables that are shared out come from a journal."""
        return self.fitted.n_items


def _with_ones(table: Tensor) -> Tensor:
    return torch.cat([table, torch.ones_like(table[:, :1])], 1)
