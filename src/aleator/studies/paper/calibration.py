"""Calibration of the lists: the share of tail items in the lists, beside their share in the histories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from aleator.batches import Histories, Users, pieces
from aleator.data.splits import Split
from aleator.progress import progress
from aleator.ranking.top import blocks
from aleator.recommender import Recommender
from aleator.studies import records
from aleator.studies.methods import Method
from aleator.studies.paper.main import METHODS, cells
from aleator.studies.published import figure
from aleator.studies.records import Figures, Measured, Record
from aleator.studies.report.cells import Cell, number
from aleator.studies.report.tables import Block, Picture, Table, count, figure_of, mean_of, over_seeds, rule, seeds_of
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, chosen

FOCUS = 0.6  # a user with at least this share of tail items in the history is tail-focus
SHOWN = "tail_share@20"


def batches(system: Recommender, split: Split, who: Tensor) -> Iterator[tuple[Users, Users]]:
    """Some users at a time (`who`, dense ids): as the fitted `system` knows them, and with all that they have seen."""
    seen = Histories(split.everything.csr, system.torch_device)
    size, _ = blocks(len(who), seen.n_items, system.torch_device)
    with progress("measuring", len(who)) as bar:
        for index in pieces(
            who, max(size // 2, 1)
        ):  # half of the memory: the caller's work on the scores needs as much
            yield system.histories.batch(index), seen.batch(index)
            bar.advance(len(index))


def tail_shares(system: Recommender, bench: Workbench) -> tuple[Tensor, Tensor]:
    """The share of tail items in the top 20 and in the history of each user with a history and an unseen item."""
    seen = bench.split.everything
    in_tail = torch.from_numpy(bench.tail.mask(seen.popularity)).to(system.torch_device)
    size = torch.from_numpy(seen.csr.indptr).diff()
    who = ((size > 0) & (size < seen.n_items)).nonzero().squeeze(1)
    found: list[Tensor] = []
    with torch.no_grad():
        for users, history in batches(system, bench.split, who):
            ((_, items),) = system.top(users, 20, seen=history)
            listed = (in_tail[items] & (items >= 0)).sum(1) / (items >= 0).sum(1).double()
            taken = torch.bincount(history.row[in_tail[history.item]], minlength=len(users)) / history.size.double()
            found.append(torch.stack([listed, taken]))
    listed, taken = torch.cat(found, 1).cpu()
    return listed, taken


def measure(bench: Workbench, method: Method) -> Measured:
    system = bench.fit(method)
    listed, taken = tail_shares(system, bench)
    metrics: Figures = {}
    for name, group in (("tail_focus", taken >= FOCUS), ("head_focus", taken < FOCUS)):
        if group.any():
            metrics[name] = {
                SHOWN: float(listed[group].mean()),
                "history": float(taken[group].mean()),
                "users": int(group.sum()),
            }
    return {"metrics": metrics, "chosen": chosen(system), "config": system.options()}


def show(rows: Sequence[Record]) -> list[Block]:
    from aleator.studies.report import plots

    first, runs = rows[0]["metrics"], seeds_of(rows)
    groups = {name: f"{name.replace('_', '-')} users" for name in first}
    heights = {method: [mean_of(of, group, SHOWN) for group in groups] for method, of in runs.items()}
    histories = [first[group]["history"] or 0.0 for group in groups]
    caption = (
        f"{records.about(rows)}: the mean share of tail items in the top 20. Tail-focus users have at least "
        f"{100 * FOCUS:g} % tail items in their history, and head-focus users have less. Tail: {rows[0]['tail']}. "
    )
    claim = figure("calibration", rows[0]["dataset"], "AUR", "tail_focus", SHOWN)
    told = f" The paper reports more than {100 * claim:g} % for tail-focus users with AUR." if claim else ""
    picture = Picture(
        plots.bars(list(groups.values()), heights, "tail share of the top 20", marks=histories, marked="histories"),
        f"{caption}See whether AUR brings the lists closer to the histories (dashed).{told}",
        "Share of tail items in the lists of tail-focus and head-focus users, a bar for each method",
    )
    lines: list[list[Cell]] = [
        [method, *(figure_of(of, group, SHOWN) for group in groups), count(len(of))] for method, of in runs.items()
    ]
    lines.append(["the histories themselves", *(number(share, ".4f") for share in histories), None])
    heads = [f"{title} ({first[group]['users']})" for group, title in groups.items()]
    more = " ".join(filter(None, ("In brackets: the number of users.", rule(rows), over_seeds(rows))))
    table = Table(["method", *heads, "seeds"], lines, f"{caption}{more}{told}")
    return [picture, table]


STUDY = Study(
    name="calibration",
    title="Calibration of the lists",
    question="Do the lists have as large a share of tail items as the histories of the users?",
    cells=cells,
    measure=measure,
    show=show,
    order=METHODS,
)
