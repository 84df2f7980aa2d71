"""Expectation against uncertainty: how closely the square of one follows the square of the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aleator.aur import AUR
from aleator.batches import Users
from aleator.data.splits import Split
from aleator.studies.methods import Method
from aleator.studies.paper.calibration import batches
from aleator.studies.paper.main import BACKBONES
from aleator.studies.published import figure, published
from aleator.studies.report.tables import (
    Block,
    Cell,
    Picture,
    Row,
    Table,
    change,
    figure_of,
    interval,
    seeds_of,
    values,
)
from aleator.studies.study import Study
from aleator.studies.workbench import Bench, chosen

MOST_USERS, MOST_ITEMS = 2000, 400


def cells(bench: Bench) -> list[Method]:
    return [Method(f"{bare}-AUR") for bare in BACKBONES]


def evenly(values: Tensor, most: int) -> Tensor:
    """At most so many of them, at even steps."""
    if len(values) <= most:
        return values
    return values[torch.linspace(0, len(values) - 1, most, dtype=torch.float64).round().long().to(values.device)]


def squares(aur: AUR, users: Users, seen: Users) -> tuple[Tensor, Tensor, Tensor]:
    """r^2 and sigma^2 in float64, and which items are unseen; [B, n_items] each."""
    r, sigma = (part.double().square_() for part in aur.parts(users))
    unseen = torch.ones_like(r, dtype=torch.bool)
    unseen[seen.row, seen.item] = False
    return r, sigma, unseen


def pearson(x: Tensor, y: Tensor, kept: Tensor) -> Tensor:
    """[B] Pearson's correlation of the rows of x and y, [B, n], over what is kept; NaN where one does not vary."""
    n = kept.sum(1, keepdim=True)
    x, y = ((v - (v * kept).sum(1, keepdim=True) / n) * kept for v in (x, y))
    return (x * y).sum(1) / (x.square().sum(1) * y.square().sum(1)).sqrt()


def measure(bench: Bench, method: Method) -> Row:
    aur, split = bench.fit(method), bench.split
    assert isinstance(aur, AUR)
    who = torch.from_numpy(split.everything.csr.indptr).diff().nonzero().squeeze(1)
    with torch.no_grad():
        some = batches(aur, split, evenly(who, MOST_USERS))
        found = torch.cat([pearson(*squares(aur, users, seen)) for users, seen in some]).cpu().numpy()
    found = found[np.isfinite(found)]
    low, high = np.quantile(found, [0.05, 0.95])
    figures = {"pearson": found.mean(), "share_positive": (found > 0).mean(), "low": low, "high": high}
    row: Row = {
        "metrics": {"overall": {name: float(value) for name, value in figures.items()} | {"users": len(found)}},
        "chosen": chosen(aur),
        "config": aur.options(),
    }
    if method.name == "MF-AUR":
        row["scatter"] = scatter(aur, split, int(np.random.default_rng(bench.seed).choice(who.numpy())))
    return row


def scatter(aur: AUR, split: Split, user: int) -> dict[str, Any]:
    """r^2 and sigma^2 of some of one user's unseen items, and their correlation over all of them."""
    with torch.no_grad():
        ((users, seen),) = batches(aur, split, torch.tensor([user]))
        r, sigma, unseen = squares(aur, users, seen)
    items = evenly(unseen[0].nonzero().squeeze(1), MOST_ITEMS)
    points = {name: [float(f"{v:.6g}") for v in x[0, items].tolist()] for name, x in (("r2", r), ("sigma2", sigma))}
    who = split.everything.users.decode([user]).tolist()[0]
    return {"user": who, **points, "unseen": int(unseen.sum()), "pearson": float(pearson(r, sigma, unseen)[0])}


def show(rows: Sequence[Row]) -> list[Block]:
    from aleator.studies.report import plots

    dataset, recipe = rows[0]["dataset"], rows[0]["recipe"]
    known = bool(published("correlation", dataset))
    lines: list[list[Cell]] = []
    for method, runs in seeds_of(rows).items():
        printed = figure("correlation", dataset, method, "overall", "pearson")
        rest = [figure_of(runs, "overall", metric) for metric in ("low", "high", "share_positive")]
        mean = interval(values(runs, "overall", "pearson"))[0]
        line = [figure_of(runs, "overall", "pearson"), *([printed, change(mean, printed)] if known else []), *rest]
        lines.append([method, *line, str(len(runs))])
    heads = [
        "method",
        "mean over users",
        *(["published mean", "difference"] if known else []),
        "5 % quantile",
        "95 % quantile",
    ]
    users = rows[0]["metrics"]["overall"]["users"]
    caption = (
        f"{dataset}, recipe {recipe}: Pearson's correlation of the squared expectation and the squared uncertainty over "
        f"the unseen items of each of {users} users. The paper says that both go together, so that ranking by "
        "the uncertainty keeps the accuracy; see how far the mean is above 0, and how many users follow it."
    )
    blocks: list[Block] = [Table([*heads, "share of users above 0", "seeds"], lines, caption)]
    drawn = min((row for row in rows if "scatter" in row), key=lambda row: int(row["seed"]), default=None)
    if drawn is not None:
        one = drawn["scatter"]
        told = (
            f"{dataset}, recipe {recipe}, {drawn['method']}: one user ({one['user']}), drawn by seed {drawn['seed']} "
            f"from all users with a history and not for its looks; {len(one['r2'])} of its {one['unseen']} unseen items, "
            f"at even steps through the catalogue. Its own correlation, over all of them, is {one['pearson']:.2f}."
        )
        plot = plots.scatter(
            one["r2"], one["sigma2"], "squared expectation", "squared uncertainty", f"user {one['user']}"
        )
        blocks.append(Picture(plot, told, "Squared uncertainty against squared expectation of one user's unseen items"))
    return blocks


STUDY = Study(
    name="correlation",
    title="Expectation and uncertainty",
    question="Does the uncertainty rise with the expectation, so that ranking by it keeps the accuracy?",
    cells=cells,
    measure=measure,
    show=show,
)
