"""Theorem 1, checked by numbers: the loss of a user is at least the divergence of uncertainty from residual, plus c.

Let D2 = (r - Y)^2, p = D2 / K and q = e^s / R over the items of a user, where K and R are the sums. From x >= 1 + ln x
it follows that

    sum D2 / e^s  >=  KL(p||q) + 1 + 2 ln K - sum p ln D2 - ln R,      ln R <= max s + ln n,

A parabola in each s is at least its lowest point. So for alpha = 1, floor 0 and gamma > 0, with n items,

    L  >=  KL + c,   c = 1 + 2 ln K - sum p ln D2 - ln n - (n - 1) beta^2 / (4 gamma) - (1 - beta)^2 / (4 gamma).

The printed proof has ln R <= (max s) (ln n) instead. It therefore has (ln n - beta)^2 / (4 gamma) in place of the last
term and of ln n. One of its lines subtracts ln R once for each item. That looks like a misprint, since the next line has
it once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from aleator.aur import AUR
from aleator.batches import Users, pieces
from aleator.studies import records
from aleator.studies.methods import Method
from aleator.studies.records import Measured, Record
from aleator.studies.report.cells import Cell, number
from aleator.studies.report.tables import Block, Table
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, chosen
from aleator.uncertainty.objective import Objective

USERS = 500
SPREADS = (0.1, 1.0, 3.0)
_CELLS = 1 << 21  # pairs at a time


def cells(bench: Workbench) -> list[Method]:
    return [Method("MF-AUR", {"alpha": 1.0, "floor": 0.0})]


def bound(residual: Tensor, s: Tensor, objective: Objective) -> dict[str, Tensor]:
    """Both sides of the theorem for each user [B], from r - Y and s of all items [B, n]. It ignores alpha and floor.

    `log_sum` is ln R, and `step` is the printed proof's upper bound of it. `printed` is the printed constant.
    """
    n, beta, gamma = s.shape[1], objective.beta, objective.gamma
    squared = residual.square()
    total = squared.sum(1, keepdim=True)  # above 0
    p, log_sum = squared / total, s.logsumexp(1)
    known = 1 + 2 * total.squeeze(1).log() - torch.xlogy(p, squared).sum(1) - (n - 1) * beta**2 / (4 * gamma)
    return {
        "loss": replace(objective, floor=0.0).pairs(residual, s).sum(1),
        "kl": torch.xlogy(p, p).sum(1) - (p * s).sum(1) + log_sum,
        "constant": known - math.log(n) - (1 - beta) ** 2 / (4 * gamma),
        "printed": known - (math.log(n) - beta) ** 2 / (4 * gamma),
        "log_sum": log_sum,
        "step": s.amax(1) * math.log(n),
    }


def lowest(residual: Tensor, objective: Objective) -> Tensor:
    """The s of each pair at which its loss without the floor is lowest: D2 e^-s = beta + 2 gamma s.

    With e^v = s + beta / (2 gamma) this is e^v + v = y. Newton's steps approach v from above.
    """
    level = objective.beta / (2 * objective.gamma)
    y = residual.square().clamp_min(1e-300).log() - math.log(2 * objective.gamma) + level
    v = torch.where(y > 1, y.clamp_min(1).log(), y)
    for _ in range(10):
        v = v - (v.exp() + v - y) / (v.exp() + 1)
    return v.exp() - level


@torch.no_grad()
def residuals(system: AUR, users: Users) -> tuple[Tensor, Tensor]:
    """r - Y and s of all items [B, n] in float64. The s of an observed pair is the one that training uses."""
    residual, s = system.model.score_block(users).double(), system.estimator.log_variance(users).double()
    residual[users.row, users.item] -= 1
    s[users.row, users.item] = system.estimator.observed(users).double()
    return residual, s


def batches(system: AUR, most: int) -> Iterator[Users]:
    """At most `most` users with a history, at even steps through all of them."""
    histories = system.histories
    who = (histories.host_size > 0).nonzero().squeeze(1).numpy()
    some = who[np.unique(np.linspace(0, len(who) - 1, min(most, len(who))).round().astype(int))]
    for index in pieces(torch.from_numpy(some), max(_CELLS // histories.n_items, 1)):
        yield histories.batch(index)


def summary(found: Mapping[str, Tensor]) -> dict[str, float]:
    """Means and shares over users of the output of `bound`."""
    gap = found["loss"] - found["kl"] - found["constant"]
    return {
        "holds": _mean(gap >= 0),
        "smallest_gap": float(gap.min()),
        "loss": _mean(found["loss"]),
        "kl": _mean(found["kl"]),
        "constant": _mean(found["constant"]),
        "gap": _mean(gap),
        "step_fails": _mean(found["log_sum"] > found["step"]),
        "printed_constant": _mean(found["printed"]),
        "printed_fails": _mean(found["loss"] < found["kl"] + found["printed"]),
    }


def _mean(values: Tensor) -> float:
    return float(values.double().mean())


def log_variances(residual: Tensor, s: Tensor, objective: Objective, draw: torch.Generator) -> dict[str, Tensor]:
    """The sets of log-variances that the bound is checked on, by name; [B, n] each."""
    noise = torch.randn(s.shape, generator=draw, dtype=s.dtype).to(s.device)
    found = {"trained": s, "lowest loss": lowest(residual, objective), "equal": torch.zeros_like(s)}
    return found | {f"random {spread:g}": spread * noise for spread in SPREADS}


def measure(bench: Workbench, method: Method) -> Measured:
    system = bench.fit(method)
    assert isinstance(system, AUR)
    draw, objective = torch.Generator().manual_seed(bench.seed), system.objective
    sets: dict[str, list[dict[str, Tensor]]] = {}
    on_observed: list[Tensor] = []
    for users in batches(system, USERS):
        residual, s = residuals(system, users)
        for name, values in log_variances(residual, s, objective, draw).items():
            sets.setdefault(name, []).append(bound(residual, values, objective))
        squared = residual.square()
        theirs = squared.new_zeros(len(users)).index_add_(0, users.row, squared[users.row, users.item])
        on_observed.append(theirs / squared.sum(1))
    whole = {name: {key: torch.cat([part[key] for part in parts]) for key in parts[0]} for name, parts in sets.items()}
    return {
        "metrics": {name: {**summary(found)} for name, found in whole.items()},
        "users": len(torch.cat(on_observed)),
        "items": system.fitted.n_items,
        "on_observed": _mean(torch.cat(on_observed)),
        "chosen": chosen(system),
        "config": system.options(),
    }


def show(rows: Sequence[Record]) -> list[Block]:
    return [table(row) for row in rows]


def table(row: Record) -> Table:
    """Both sides of the bound for each set of log-variances."""
    metrics = {name: {key: value or 0.0 for key, value in found.items()} for name, found in row["metrics"].items()}
    columns = {
        "loss": ("loss", ".2f"),
        "KL": ("kl", ".2f"),
        "c": ("constant", ".2f"),
        "gap": ("gap", ".2f"),
        "smallest gap": ("smallest_gap", ".2f"),
        "printed c": ("printed_constant", ".2f"),
        "bound holds": ("holds", ".0%"),
        "printed step fails": ("step_fails", ".0%"),
        "printed bound fails": ("printed_fails", ".0%"),
    }
    lines: list[list[Cell]] = [
        [name, *(number(found[key], form) for key, form in columns.values())] for name, found in metrics.items()
    ]
    low, flat = metrics["lowest loss"], metrics["equal"]
    beta, gamma = row["config"]["beta"], row["config"]["gamma"]
    caption = (
        f"{records.about([row])}: means over {row['users']} users of the loss without the floor (alpha 1), of KL(p||q), "
        "of c, and of the gap between the loss and KL + c. The last three columns are shares of the users. "
        "What holds: loss >= KL + c with c = 1 + 2 ln K - sum p ln D2 - ln n - (n - 1) beta^2 / (4 gamma) - "
        f"(1 - beta)^2 / (4 gamma), here with n = {row['items']} items, beta = {beta:g}, gamma = {gamma:g}. "
        "What does not hold as printed: the proof subtracts ln R once for each item instead of once for each user, which "
        "looks like a misprint, since its next line has ln R once. It also has s ln n for ln(n e^s), which is s + ln n. "
        f"So the step ln R <= (max s) (ln n) fails where max s is small or negative. {_printed(row)} "
        "How loose the bound is: at the lowest loss that any s can reach, the theorem allows a KL of "
        f"{low['loss'] - low['constant']:.0f}. Equal log-variances carry no information and have a KL of "
        f"{flat['kl']:.2f}. So by the theorem alone, a low loss forces nothing. The KL at the lowest loss is only "
        f"{low['kl']:.2f}. That follows from the equation of the lowest loss, e^s = D2 / (beta + 2 gamma s). "
        f"And p is made of residuals: {row['on_observed']:.0%} of it lies on observed pairs, where it falls as the "
        "expectation rises."
    )
    return Table(["log-variances", *columns], lines, caption)


def _printed(row: Record) -> str:
    """Whether the printed constant is below the right one for every s."""
    items = row["items"]
    assert isinstance(items, int)
    beta, gamma, log = row["config"]["beta"], row["config"]["gamma"], math.log(items)
    if (log - beta) ** 2 >= (1 - beta) ** 2 + 4 * gamma * log:
        return "With so many items the printed constant is lower than c, so the printed bound still holds."
    return (
        "With so few items or so large a gamma the printed constant is higher than c: the printed bound is not proved."
    )


STUDY = Study(
    name="theorem",
    title="Theorem 1 by numbers",
    question="Does the loss bound the divergence of the uncertainty from the residual, and does a low loss force a low "
    "divergence?",
    cells=cells,
    measure=measure,
    show=show,
    seeds=False,
)
