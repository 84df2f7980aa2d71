"""Expectation against uncertainty: how closely the square of one follows the square of the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from aleator.aur import AUR
from aleator.batches import Users
from aleator.data.splits import Split
from aleator.studies import records
from aleator.studies.methods import Method, under_aur
from aleator.studies.paper.calibration import batches
from aleator.studies.paper.main import BACKBONES
from aleator.studies.published import figure, published
from aleator.studies.records import Measured, Record, Scatter
from aleator.studies.report.cells import Cell
from aleator.studies.report.tables import Block, Picture, Table, change, count, figure_of, mean_of, over_seeds, seeds_of
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, chosen

MOST_USERS, MOST_ITEMS = 2000, 400
DRAWN = "MF"  # the backbone whose scatter is drawn
ROUNDING = 1e-12  # a spread that is a smaller share of the numbers is rounding


def cells(bench: Workbench) -> list[Method]:
    return [Method(under_aur(bare)) for bare in BACKBONES]


def evenly(values: Tensor, most: int) -> Tensor:
    """At most `most` of the values, at even steps."""
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
    """[B] Pearson's correlation of the rows of x and y, [B, n], over the entries kept; 0 where one does not vary."""
    n = kept.sum(1, keepdim=True).clamp_min(1)
    size = ((x * kept).square().sum(1) * (y * kept).square().sum(1)).sqrt()
    x, y = ((v - (v * kept).sum(1, keepdim=True) / n) * kept for v in (x, y))
    spread = (x.square().sum(1) * y.square().sum(1)).sqrt()
    return torch.where(spread > ROUNDING * size, (x * y).sum(1) / spread, 0.0)


def measure(bench: Workbench, method: Method) -> Measured:
    aur, split = bench.fit(method), bench.split
    assert isinstance(aur, AUR)
    who = torch.from_numpy(split.everything.csr.indptr).diff().nonzero().squeeze(1)
    with torch.no_grad():
        some = batches(aur, split, evenly(who, MOST_USERS))
        found = torch.cat([pearson(*squares(aur, users, seen)) for users, seen in some]).cpu().numpy()
    low, high = np.quantile(found, [0.05, 0.95])
    row: Measured = {
        "metrics": {
            "overall": {
                "pearson": float(found.mean()),
                "share_positive": float((found > 0).mean()),
                "low": float(low),
                "high": float(high),
                "users": len(found),
            }
        },
        "chosen": chosen(aur),
        "config": aur.options(),
    }
    if method.backbone == DRAWN:
        row["scatter"] = scatter(aur, split, int(np.random.default_rng(bench.seed).choice(who.numpy())))
    return row


def scatter(aur: AUR, split: Split, user: int) -> Scatter:
    """r^2 and sigma^2 of some of one user's unseen items, and their correlation over all of them."""
    with torch.no_grad():
        ((users, seen),) = batches(aur, split, torch.tensor([user]))
        r, sigma, unseen = squares(aur, users, seen)
    items = evenly(unseen[0].nonzero().squeeze(1), MOST_ITEMS)
    return {
        "user": split.everything.users.decode([user]).tolist()[0],
        "r2": [float(f"{value:.6g}") for value in r[0, items].tolist()],
        "sigma2": [float(f"{value:.6g}") for value in sigma[0, items].tolist()],
        "unseen": int(unseen.sum()),
        "pearson": float(pearson(r, sigma, unseen)[0]),
    }


def show(rows: Sequence[Record]) -> list[Block]:
    drawn = min((row for row in rows if "scatter" in row), key=lambda row: row["seed"], default=None)
    return [table(rows), *([] if drawn is None else [picture(drawn)])]


def table(rows: Sequence[Record]) -> Table:
    """The correlations of each method."""
    dataset = rows[0]["dataset"]
    known = bool(published("correlation", dataset))
    lines: list[list[Cell]] = []
    for method, runs in seeds_of(rows).items():
        line: list[Cell] = [method, figure_of(runs, "overall", "pearson")]
        if known:
            printed = figure("correlation", dataset, method, "overall", "pearson")
            line += [printed, change(mean_of(runs, "overall", "pearson"), printed)]
        line += [figure_of(runs, "overall", metric) for metric in ("low", "high", "share_positive")]
        lines.append([*line, count(len(runs))])
    beside = ["published mean", "difference"] if known else []
    heads = ["method", "mean over users", *beside, "5 % quantile", "95 % quantile", "share of users above 0", "seeds"]
    caption = (
        f"{records.about(rows)}: Pearson's correlation of the squared expectation and the squared uncertainty over the "
        f"unseen items of each of {rows[0]['metrics']['overall']['users']} users. The paper says that both rise "
        "together, so that ranking by the uncertainty keeps the accuracy. See how far the mean is above 0, and for how "
        f"many users the correlation is positive. {over_seeds(rows)}".strip()
    )
    return Table(heads, lines, caption)


def picture(row: Record) -> Picture:
    """The scatter of one user."""
    from aleator.studies.report import plots

    one = row["scatter"]
    told = (
        f"{records.about([row])}, {row['method']}: one user ({one['user']}). Seed {row['seed']} drew this user at random "
        f"from all users with a history. The points are {len(one['r2'])} of the user's {one['unseen']} unseen items, at "
        f"even steps through the catalogue. The correlation over all unseen items is {one['pearson']:.2f}."
    )
    plot = plots.scatter(one["r2"], one["sigma2"], "squared expectation", "squared uncertainty", f"user {one['user']}")
    return Picture(plot, told, "Squared uncertainty against squared expectation of one user's unseen items")


STUDY = Study(
    name="correlation",
    title="Expectation and uncertainty",
    question="Does the uncertainty rise with the expectation, so that ranking by it keeps the accuracy?",
    cells=cells,
    measure=measure,
    show=show,
)
