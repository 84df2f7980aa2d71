"""The simplest control of an AUR: the scores of its bare model, divided by the popularity of the item to a power.

The power a is chosen as AUR chooses lam: on the validation part, by the same rule, with the bare model (a = 0) as the
reference. The model is then fitted again on all training pairs, as AUR does.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from aleator.aur.choice import DISCOUNTS, Choice, Select, choose, grid
from aleator.batches import Histories, Users
from aleator.data.interactions import Interactions
from aleator.data.splits import Split
from aleator.models.base import Model
from aleator.models.cache import ModelCache
from aleator.ranking.blend import discounts
from aleator.ranking.top import best
from aleator.recipe import RecipeName


@dataclass(frozen=True)
class ByPopularity:
    """A fitted model whose scores are divided by popularity^a. An item without an interaction counts as having one."""

    model: Model
    a: float
    choice: Choice | None = None  # the held-out figures of each a, where it was chosen

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
        scores = self.model.score_block(users, items)
        popularity = self.histories.popularity
        return scores * discounts(popularity if items is None else popularity[items], self.a)

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
