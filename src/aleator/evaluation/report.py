"""The report of an evaluation: means, values of each user, and a comparison with another report."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleator.errors import require, unknown_name
from aleator.evaluation.significance import Comparison, compare
from aleator.recipe import recipe_of
from aleator.words import DEFAULT_RECIPE


@dataclass(frozen=True, eq=False)
class Report:
    """The result of `evaluate`. `print(report)` shows the means under the three protocols.

    Attributes:
        users: Ids of the evaluated users, [n].
        per_user: Values of each user by protocol and metric, such as `per_user["overall"]["recall@20"]`, [n] in the
            order of `users`. NaN marks a user without a relevant item who is skipped.
        lists: Figures of the lists at each cut-off k. coverage@k is the share of all items that are listed. gini@k says
            how unevenly items are listed. popularity@k is the mean popularity of a listed item. tail_share@k is the
            share of tail items in the lists.
        about: What was evaluated: dataset, recipe, tail, and numbers of users and test pairs.
    """

    users: NDArray[Any]
    per_user: dict[str, dict[str, NDArray[np.float64]]]
    lists: dict[str, float]
    about: dict[str, Any]

    def mean(self, protocol: str, metric: str) -> float:
        """The mean of a metric over users, without skipped ones. NaN if no user has a value.

        Args:
            protocol: "overall", "tail_absolute" or "tail_relative".
            metric: A metric at a cut-off, such as "recall@20".
        """
        if protocol not in self.per_user:
            raise unknown_name("protocol", str(protocol), self.per_user)
        metrics = self.per_user[protocol]
        if metric not in metrics:
            raise unknown_name("metric of this report", str(metric), metrics)
        values = metrics[metric]
        return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")

    def to_dict(self) -> dict[str, Any]:
        """The means by protocol and metric, and `lists` and `about`, as a dict for JSON.

        A mean is None if no user has a relevant item.
        """
        means = {p: {m: _or_none(self.mean(p, m)) for m in metrics} for p, metrics in self.per_user.items()}
        return {**means, "lists": self.lists, "about": self.about}

    def to_json(self) -> str:
        """What `to_dict` returns, as JSON text."""
        return json.dumps(self.to_dict(), indent=1)

    def compare(self, other: Report) -> Comparison:
        """Compare this report with a baseline by paired t-tests over users, with Holm's correction over all rows.

        Both reports must be of the same test part, tail and `empty`.

        Args:
            other: The report of the baseline.

        Returns:
            A comparison with one row for each protocol and metric. `print` shows it as a table.
        """
        same = len(self.users) == len(other.users) and bool((self.users == other.users).all())
        require(same, "the two reports are about different users", "evaluate both on the same split")
        for key in ("test", "tail_cut", "empty"):
            require(
                self.about[key] == other.about[key],
                f"the two reports differ in {key}",
                "evaluate both with the same split and options",
            )
        return compare(self.per_user, other.per_user)

    @property
    def conventions(self) -> str:
        """One line that says which items are tail and how users without a tail test item count."""
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
            "unknown_items": "items of the split are unknown to the model and are never listed",
            "users_without_history": "users have no history and are ranked by popularity",
        }
        more = [f"{self.about[key]} {words}" for key, words in told.items() if self.about[key]]
        return "\n".join([head, *rows, f"lists: {lists}", f"{self.about['users']} users; {self.conventions}", *more])


def _or_none(value: float) -> float | None:
    """The value, or None for NaN, which JSON does not have."""
    return value if np.isfinite(value) else None
