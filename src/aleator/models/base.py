"""What every model is: an estimate of the expectation. A model file says how it learns and how it scores."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from aleator.batches import Users
from aleator.data.interactions import Interactions
from aleator.data.splits import Split
from aleator.errors import require
from aleator.evaluation.held_out import HeldOut
from aleator.models.calibration import Calibrate, Map, fit_map, samples
from aleator.options import Ranges
from aleator.recommender import Recommender, as_split
from aleator.training.loop import Log


@dataclass(kw_only=True, eq=False, repr=False)
class Model(Recommender):
    """An estimate of the expectation r_ui, on the scale of the label (0 to 1).

    `mu` is the weight, or the share kept, of the unobserved pairs. `calibrate` is the monotone map from raw scores onto
    the label's scale; models that are on it by themselves need none.
    """

    mu: float = 0.1
    calibrate: Calibrate = "none"

    log: Log | None = field(default=None, init=False)
    map: Map | None = field(default=None, init=False)

    learned: ClassVar[tuple[str, ...]] = ()  # names of the tensors that are saved
    facts: ClassVar[tuple[str, ...]] = ()  # names of the other attributes that are
    personalises: ClassVar[bool] = True  # whether scores differ between users
    trains_jointly: ClassVar[bool] = False  # whether AUR-J can train it, by its `parameters`
    frozen: ClassVar[bool] = False  # whether it was fitted elsewhere, and cannot be fitted again
    ranges: ClassVar[Ranges] = {}  # where `aleator tune` searches
    paper_ranges: ClassVar[Ranges] = {}  # and with recipe "paper"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.mu <= 1, f"mu is {self.mu}", "give a mu above 0 and at most 1")

    @property
    def stops_early(self) -> bool:
        """Whether the number of epochs is chosen on held-out pairs."""
        return False

    @abstractmethod
    def learn(self, check: HeldOut | None, epochs: int | None) -> None:
        """Learn from `self.fitted`; where training stops early it does so on `check`, or after `epochs` without it."""

    @abstractmethod
    def raw_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        """Scores before calibration, [B, n_items] or [B, len(items)]; a tensor that the caller may write into."""

    def raw_pairs(self, users: Users) -> Tensor:
        """The same for each item of each history, [n]."""
        return self.raw_block(users)[users.row, users.item]

    def out_of_sample_pairs(self, users: Users) -> Tensor | None:
        """The expectation of each item of each history without that pair in the history, [n]; None where that takes
        fitting again."""
        return None

    def parameters(self) -> list[Tensor]:
        """What is trained; `publish` then makes scores of it."""
        return []

    def publish(self) -> None:
        """Make what scores are computed from out of the parameters."""

    def train(self, data: Interactions, check: HeldOut | None = None, epochs: int | None = None) -> None:
        """Learn from `data` and calibrate."""
        self.data, self.map = data, None
        self.learn(check, epochs)
        with torch.no_grad():
            self.map = self.fit_map(check)

    def fit_map(self, check: HeldOut | None) -> Map | None:
        """The map of raw scores onto the label's scale, fitted on training pairs."""
        return fit_map(samples(self.raw_block, self.histories, self.mu, self.seed), self.calibrate, self.torch_device)

    def score_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        scores = self.raw_block(users, items)
        return self.without_history(scores if self.map is None else self.map(scores), users, items)

    def score_pairs(self, users: Users) -> Tensor:
        """The expectation of each item of each history, [n]."""
        scores = self.raw_pairs(users)
        return scores if self.map is None else self.map(scores)

    def fit(self, data: Split | Interactions) -> Self:
        split = as_split(data)
        fitted, held = self.choose_on(split) if self.stops_early or not self.refit else (split.everything, None)
        if not self.stops_early or held is None:
            self.train(fitted)
            return self
        self.train(fitted, HeldOut(fitted, held, self.torch_device, most_users=self.monitored_users, seed=self.seed))
        if self.recipe == "ours" and self.refit:
            chosen = self.log
            self.train(split.everything, epochs=max(chosen.best_epoch, 1) if chosen else None)
            self.log = chosen
        return self

    def checker(self, check: HeldOut | None) -> Callable[[], float] | None:
        """The mean Recall@20 on held-out pairs, as a trainer wants it."""
        if check is None:
            return None

        def recall() -> float:
            with torch.no_grad():
                self.publish()
                overall, _ = check.recall(lambda users: [self.score_block(users)])
            return float(overall.mean())

        return recall

    def pack(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        about = {name: getattr(self, name) for name in self.facts}
        tensors = {f"model.{name}": getattr(self, name) for name in self.learned}
        if self.map is not None:
            tensors |= {"model.map.x": self.map.x, "model.map.y": self.map.y}
        return about | {"notes": self.notes, "log": None if self.log is None else self.log.to_dict()}, tensors

    def unpack(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.log, self.notes = None if learned["log"] is None else Log(**learned["log"]), learned["notes"]
        for name in self.facts:
            setattr(self, name, learned[name])
        for name in self.learned:
            setattr(self, name, tensors[f"model.{name}"])
        if "model.map.x" in tensors:
            self.map = Map(tensors["model.map.x"], tensors["model.map.y"])
