"""The report of an evaluation: means, per-user values, and comparison with another."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleator.errors import require
from aleator.evaluation.significance import Comparison, compare
from aleator.recipe import DEFAULT_RECIPE, recipe_of


@dataclass(frozen=True, eq=False)
class Report:
    """`per_user[protocol][metric]` [n] is aligned with `users`; NaN where a user has no relevant item and is skipped."""

    users: NDArray[Any]
    per_user: dict[str, dict[str, NDArray[np.float64]]]
    lists: dict[str, float]
    about: dict[str, Any]

    def mean(self, protocol: str, metric: str) -> float:
        """The mean over users, such as `mean("overall", "recall@20")`."""
        values = self.per_user[protocol][metric]
        return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")

    def to_dict(self) -> dict[str, Any]:
        """Protocol -> metric -> mean, with what the lists are like and what the figures are about.

        A mean is None where no user has ground truth.
        """
        means = {p: {m: _or_none(self.mean(p, m)) for m in metrics} for p, metrics in self.per_user.items()}
        return {**means, "lists": self.lists, "about": self.about}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1)

    def compare(self, other: Report) -> Comparison:
        """This report against `other` (the baseline): paired tests over users, corrected for many comparisons."""
        same = len(self.users) == len(other.users) and bool((self.users == other.users).all())
        require(same, "the two reports are about different users", "evaluate both on the same split")
        for key in ("test", "tail_cut", "empty"):
            require(self.about[key] == other.about[key], f"the two reports differ in {key}", "evaluate both alike")
        return compare(self.per_user, other.per_user)

    @property
    def conventions(self) -> str:
        """The line that makes a tail figure mean something."""
        empty = "skipped" if self.about["empty"] == "skip" else "counted as 0"
        cuts = (
            f" [recipe {self.about['recipe']}: its tail cut and its policy]"
            if self.about["recipe"] != DEFAULT_RECIPE
            else ""
        )
        label = recipe_of(self.about["model_recipe"]).warning or cuts
        return f"tail: {self.about['tail_items']}; users without a tail test item are {empty}{label}"

    def __str__(self) -> str:
        metrics = list(next(iter(self.per_user.values())))
        width = max(len(m) for m in metrics)
        head = " " * width + "".join(f"{p:>15}" for p in self.per_user)
        rows = [f"{m:<{width}}" + "".join(f"{self.mean(p, m):>15.4f}" for p in self.per_user) for m in metrics]
        lists = "  ".join(f"{name} {value:.4g}" for name, value in self.lists.items())
        told = {
            "untrained_pairs": "test pairs are of items never trained on",
            "users_without_history": "users have no history and are ranked by popularity",
        }
        more = [f"{self.about[key]} {words}" for key, words in told.items() if self.about[key]]
        return "\n".join([head, *rows, f"lists: {lists}", f"{self.about['users']} users; {self.conventions}", *more])


def _or_none(value: float) -> float | None:
    """JSON has no NaN."""
    return value if np.isfinite(value) else None
