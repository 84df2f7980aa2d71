"""Controls of an AUR, which need no estimator.

Divided scores. The scores of the bare model are divided by a number of each item: its popularity to a power, or the
length of its vector, which ranks by cosine. The power a is chosen as AUR chooses lam: on the validation part, by the same
rule, with the bare model (a = 0) as the reference. The model is then fitted again on all training pairs, as AUR does.

A second model. Its score takes the place of the log-variance in the same blend.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from aleator.aur.choice import DISCOUNTS, Choice, choose, grid
from aleator.batches import Histories, Users
from aleator.data.interactions import Interactions
from aleator.data.splits import Split
from aleator.data.vocabulary import Vocabulary
from aleator.errors import AleatorError
from aleator.models.base import Model
from aleator.models.cache import ModelCache
from aleator.ranking.blend import discounts
from aleator.ranking.top import best
from aleator.studies.methods import OF_STUDY, Method
from aleator.studies.records import Measured
from aleator.studies.workbench import Workbench, measured
from aleator.training.loop import epochs_of
from aleator.training.stop import Stop
from aleator.uncertainty.base import Estimator, Expectation
from aleator.uncertainty.objective import Objective
from aleator.words import RecipeName, Select

DIVIDED = f"{OF_STUDY}divided_by"  # the setting of a cell whose scores are divided, by one of the two below
POPULARITY, LENGTH = "popularity^a", "length"


@dataclass(frozen=True)
class Divided(ABC):
    """A fitted model whose scores are divided by a number of each item."""

    model: Model

    @abstractmethod
    def divisor(self) -> Tensor:
        """The number of each item, [n_items]."""

    @property
    def fitted(self) -> Interactions:
        return self.model.fitted

    @property
    def histories(self) -> Histories:
        return self.model.histories

    @property
    def torch_device(self) -> torch.device:
        return self.model.torch_device

    @property
    def recipe(self) -> RecipeName:
        return self.model.recipe

    def score_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        scores, divisor = self.model.score_block(users, items), self.divisor()
        return scores / (divisor if items is None else divisor[items])

    def top(
        self,
        users: Users,
        k: int,
        *,
        seen: Users | None,
        candidates: Sequence[Tensor | None] = (None,),
        chunk: int | None = None,
    ) -> list[tuple[Tensor, Tensor]]:
        return best(self.score_block, users, k, self.fitted.n_items, seen=seen, candidates=candidates, chunk=chunk)


@dataclass(frozen=True)
class ByPopularity(Divided):
    """A fitted model whose scores are divided by popularity^a. An item without an interaction counts as having one."""

    a: float
    choice: Choice | None = None  # the held-out figures of each a, where it was chosen

    def divisor(self) -> Tensor:
        return torch.reciprocal(discounts(self.histories.popularity, self.a))


@dataclass(frozen=True)
class ByCosine(Divided):
    """A fitted factor model that ranks by the cosine of user and item vectors: all item vectors have length 1."""

    def divisor(self) -> Tensor:
        factors = self.model.factors(self.histories.batch(torch.arange(1)))
        if factors is None:
            raise AleatorError(f"{type(self.model).__name__} has no item vectors", "use a factor model")
        lengths: Tensor = factors[1].norm(dim=1)
        return lengths.clamp_min(1e-12)


def by_popularity(
    model: Model, split: Split, select: Select = "balanced", cache: ModelCache | None = None
) -> ByPopularity:
    """The control of `model`, which has options and need not be fitted: a is chosen on validation, then it is fitted."""
    recipe = model.conventions
    fitted, held = recipe.divide(split, model.valid, model.seed)
    tail = torch.from_numpy(recipe.tail(split).mask(split.everything.popularity))
    judged, final = copy.copy(model), copy.copy(model)
    judged.fit_cached(cache, fitted, judged.hold_out(fitted, held))
    held_out = judged.hold_out(fitted, held, tail=tail, times=4)
    controls = [ByPopularity(judged, a) for a in DISCOUNTS]
    with torch.no_grad():
        measured = held_out.measure(lambda users: (control.score_block(users) for control in controls))
    choice = choose(measured, grid([], DISCOUNTS), select)
    return ByPopularity(final.fit(split, cache=cache), choice.discount, choice)


def divided(bench: Workbench, method: Method) -> Divided:
    """The control that a cell names in its setting `DIVIDED`, fitted."""
    model = bench.make(method.bare)
    assert isinstance(model, Model)
    if method.settings[DIVIDED] == POPULARITY:
        return by_popularity(model, bench.split, cache=bench.cache)
    return ByCosine(model.fit(bench.split, cache=bench.cache))


def accuracy_divided(bench: Workbench, method: Method) -> Measured:
    """Metrics of a control of divided scores, with the power that was chosen."""
    control = divided(bench, method)
    row = measured(bench, bench.evaluated(method, lambda: control), control.model)
    if isinstance(control, ByPopularity):
        row["chosen"] = {"a": control.a}
    return row


@dataclass(kw_only=True, eq=False, repr=False)
class SecondModel(Estimator):
    """A model in the place of an estimator: its score stands where the log-variance would.

    So `AUR(model, estimator=SecondModel(second=other))` is the blend of two models, with the same spreads and the same
    choice of lam. `second` was fitted before: its options and its number of epochs are those of that fit. The
    expectations of the first model and the objective are not used.
    """

    second: Model

    now: Model = field(init=False)  # the second model, fitted on the pairs at hand

    def learn(self, histories: Histories, expectation: Expectation, objective: Objective, stop: Stop) -> None:
        self.now = copy.copy(self.second)
        self.now.fit_pairs(_interactions(histories), epochs=epochs_of(self.second.log))

    def log_variance(self, users: Users, items: Tensor | None = None) -> Tensor:
        return self.now.score_block(users, items)

    def observed(self, users: Users) -> Tensor:
        return self.now.score_pairs(users)

    def sample(self, n_items: int, draw: torch.Generator) -> Tensor | None:
        return None


def _interactions(histories: Histories) -> Interactions:
    """The pairs of histories, with dense ids as external ones."""
    user = np.repeat(np.arange(histories.n_users, dtype=np.int32), histories.host_size.numpy())
    users, items = (Vocabulary(np.arange(n)) for n in (histories.n_users, histories.n_items))
    item = histories.item.cpu().numpy().astype(np.int32)
    return Interactions(user, item, users, items, weight=histories.weight.cpu().numpy())
