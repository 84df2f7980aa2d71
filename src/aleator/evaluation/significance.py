"""Paired tests over users, with Holm's correction for many comparisons."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

PerUser = dict[str, dict[str, NDArray[np.float64]]]
EQUAL = 1e-9  # differences within this share of the largest one are equal: they differ by rounding


@dataclass(frozen=True)
class Row:
    """The comparison of one metric under one protocol."""

    protocol: str
    metric: str
    mean: float  # of this report
    baseline: float  # mean of the other report
    change: float  # mean / baseline - 1; infinite if only the baseline is 0
    low: float  # lower end of the 95 % confidence interval of mean - baseline
    high: float  # upper end of that interval
    p: float  # two-sided paired t-test over users (`paired_p`), Holm-corrected over all rows of the comparison
    users: int  # number of users with a value in both reports

    @property
    def significant(self) -> bool:
        """Whether the corrected p is below 0.05."""
        return self.p < 0.05


@dataclass(frozen=True)
class Comparison:
    """The comparison of two reports: one row for each protocol and metric. `print` shows it as a table.

    `comparison["overall", "recall@20"]` is one of its rows.
    """

    rows: list[Row]

    def __getitem__(self, key: tuple[str, str]) -> Row:
        return {(r.protocol, r.metric): r for r in self.rows}[key]

    def to_dict(self) -> list[dict[str, Any]]:
        """The rows as dicts for JSON. An infinite change is None, and so is an end of an interval."""
        names = ("change", "low", "high")
        return [
            asdict(row) | {name: value if np.isfinite(value := getattr(row, name)) else None for name in names}
            for row in self.rows
        ]

    def __str__(self) -> str:
        head = f"{'protocol':<14} {'metric':<12} {'baseline':>9} {'this':>9} {'change':>9}  {'p (Holm)':>9}"
        lines = [
            f"{r.protocol:<14} {r.metric:<12} {r.baseline:>9.4f} {r.mean:>9.4f} {r.change:>+9.1%}  {r.p:>9.2g}"
            + (" *" if r.significant else "")
            for r in self.rows
        ]
        told = f"* p < 0.05, two-sided paired t-test over users, Holm-corrected over these {len(self.rows)} rows"
        return "\n".join([head, *lines, told])


def compare(mine: PerUser, theirs: PerUser) -> Comparison:
    """Compare every metric that both have, over the users who have a value in both."""
    paired: list[tuple[str, str, NDArray[np.float64], NDArray[np.float64]]] = []
    for protocol, metrics in mine.items():
        for metric in (m for m in metrics if m in theirs.get(protocol, {})):
            values, baseline = metrics[metric], theirs[protocol][metric]
            both = np.isfinite(values) & np.isfinite(baseline)
            paired.append((protocol, metric, values[both], baseline[both]))
    corrected = holm(np.array([paired_p(values - baseline) for _, _, values, baseline in paired]))
    return Comparison([_row(*pair, float(p)) for pair, p in zip(paired, corrected, strict=True)])


def _row(protocol: str, metric: str, values: NDArray[np.float64], baseline: NDArray[np.float64], p: float) -> Row:
    """The row of one metric, from the values of the same users [n] and the corrected p."""
    mean, baseline_mean = (float(side.mean()) if len(side) else np.nan for side in (values, baseline))
    change = mean / baseline_mean - 1 if baseline_mean else (0.0 if mean == 0 else float("inf"))
    difference, half = mean - baseline_mean, _half_width(values - baseline)
    low, high = difference - half, difference + half
    return Row(protocol, metric, mean, baseline_mean, change, low, high, p, len(values))


def _half_width(difference: NDArray[np.float64]) -> float:
    """Half the width of the 95 % confidence interval of the mean difference. Equal differences do not tell it."""
    from scipy import stats  # slow to import

    if len(difference) < 2 or np.ptp(difference) <= EQUAL * np.abs(difference).max() > 0:
        return np.inf
    return float(stats.sem(difference) * stats.t.ppf(0.975, len(difference) - 1))


def paired_p(difference: NDArray[np.float64]) -> float:
    """The p-value of a two-sided paired t-test, but at least 2^(1 - n) for n differences that are not zero.

    That is the least p of an exact test that turns the sign of each difference at random. It matters for few users: the
    t-test takes equal differences for certain, since they do not vary. Two users are no evidence however equal they are
    (p = 0.5). p is 1 if all differences are zero.
    """
    from scipy import stats  # slow to import

    n = np.count_nonzero(difference)
    if n < 2:
        return 1.0
    least: float = 2.0 ** (1 - n)
    if np.ptp(difference) <= EQUAL * np.abs(difference).max():
        return least
    return max(float(stats.ttest_1samp(difference, 0.0).pvalue), least)


def holm(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Holm's step-down correction of p-values for many comparisons.

    >>> holm(np.array([0.01, 0.04, 0.03])).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p)
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(stepped, 1)
    return corrected
