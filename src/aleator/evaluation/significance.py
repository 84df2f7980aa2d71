"""Paired tests over users, with Holm's correction for many comparisons."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

PerUser = dict[str, dict[str, NDArray[np.float64]]]


@dataclass(frozen=True)
class Row:
    """One metric under one protocol: means of both, the change, a 95 % interval of the difference, and p."""

    protocol: str
    metric: str
    mean: float
    baseline: float
    change: float  # relative; infinite where the baseline is 0
    low: float
    high: float
    p: float  # two-sided paired t-test over users, Holm-corrected over all rows
    users: int

    @property
    def significant(self) -> bool:
        return self.p < 0.05


@dataclass(frozen=True)
class Comparison:
    """Rows for each protocol and metric."""

    rows: list[Row]

    def __getitem__(self, key: tuple[str, str]) -> Row:
        return {(r.protocol, r.metric): r for r in self.rows}[key]

    def to_dict(self) -> list[dict[str, Any]]:
        return [asdict(row) | {"change": row.change if np.isfinite(row.change) else None} for row in self.rows]

    def __str__(self) -> str:
        head = f"{'protocol':<14} {'metric':<12} {'baseline':>9} {'this':>9} {'change':>9}  {'p (Holm)':>9}"
        lines = [
            f"{r.protocol:<14} {r.metric:<12} {r.baseline:>9.4f} {r.mean:>9.4f} {r.change:>+9.1%}  {r.p:>9.2g}"
            + (" *" if r.significant else "")
            for r in self.rows
        ]
        return "\n".join([head, *lines, "* p < 0.05, two-sided paired t-test over users, Holm-corrected"])


def compare(mine: PerUser, theirs: PerUser) -> Comparison:
    """Every metric that both have."""
    from scipy import stats  # slow to import

    raw: list[tuple[str, str, NDArray[np.float64], NDArray[np.float64]]] = []
    for protocol, metrics in mine.items():
        for metric in (m for m in metrics if m in theirs.get(protocol, {})):
            a, b = metrics[metric], theirs[protocol][metric]
            both = np.isfinite(a) & np.isfinite(b)
            raw.append((protocol, metric, a[both], b[both]))
    corrected = holm(np.array([paired_p(a - b) for _, _, a, b in raw]))
    rows = []
    for (protocol, metric, a, b), p in zip(raw, corrected, strict=True):
        difference = a - b
        half = float(stats.sem(difference) * stats.t.ppf(0.975, len(difference) - 1)) if len(difference) > 1 else np.inf
        mean_a, mean_b = (float(x.mean()) if len(x) else np.nan for x in (a, b))
        change = mean_a / mean_b - 1 if mean_b else (0.0 if mean_a == 0 else float("inf"))
        middle = mean_a - mean_b
        rows.append(Row(protocol, metric, mean_a, mean_b, change, middle - half, middle + half, float(p), len(a)))
    return Comparison(rows)


def paired_p(difference: NDArray[np.float64]) -> float:
    """The p-value of a two-sided paired t-test; 1 where all differences are zero."""
    from scipy import stats

    if len(difference) < 2 or not difference.any():
        return 1.0
    if difference.std() == 0:
        return 0.0
    return float(stats.ttest_1samp(difference, 0.0).pvalue)


def holm(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Holm's step-down correction.

    >>> holm(np.array([0.01, 0.04, 0.03])).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p)
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(stepped, 1)
    return corrected
