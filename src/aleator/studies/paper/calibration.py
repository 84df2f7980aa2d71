"""Calibration of the lists: how many tail items users get, beside how many they take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from aleator.batches import Histories, Users, pieces
from aleator.data.splits import Split
from aleator.progress import progress
from aleator.ranking.top import blocks
from aleator.recommender import Recommender
from aleator.studies.methods import Method
from aleator.studies.paper.main import cells
from aleator.studies.published import figure
from aleator.studies.report.tables import Block, Cell, Picture, Row, Table, figure_of, interval, seeds_of, values
from aleator.studies.study import Study
from aleator.studies.workbench import Bench, chosen

FOCUS = 0.6  # the share of tail items in a history from which on its user is tail-focus
SHOWN = "tail_share@20"


def batches(system: Recommender, split: Split, who: Tensor) -> Iterator[tuple[Users, Users]]:
    """Users (`who`, dense ids) as the fitted `system` knows them and with all that they have seen, some at a time."""
    seen = Histories(split.everything.csr, system.torch_device)
    size, _ = blocks(len(who), seen.n_items, system.torch_device)
    with progress("measuring", len(who)) as bar:
        for index in pieces(who, max(size // 2, 1)):  # half of the memory: what is done with the scores takes as much
            yield system.histories.batch(index), seen.batch(index)
            bar.advance(len(index))


def measure(bench: Bench, method: Method) -> Row:
    system, seen = bench.fit(method), bench.split.everything
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
    metrics: dict[str, dict[str, float]] = {}
    for name, group in (("tail_focus", taken >= FOCUS), ("head_focus", taken < FOCUS)):
        if group.any():
            shares = {SHOWN: float(listed[group].mean()), "history": float(taken[group].mean())}
            metrics[name] = shares | {"users": int(group.sum())}
    return {"metrics": metrics, "chosen": chosen(system), "config": system.options()}


def show(rows: Sequence[Row]) -> list[Block]:
    from aleator.studies.report import plots

    dataset, recipe, first = rows[0]["dataset"], rows[0]["recipe"], rows[0]["metrics"]
    groups = {name: f"{name.replace('_', '-')} users" for name in first}
    runs = seeds_of(rows)
    heights = {method: [interval(values(of, g, SHOWN))[0] for g in groups] for method, of in runs.items()}
    histories = [first[group]["history"] for group in groups]
    claim = figure("calibration", dataset, "AUR", "tail_focus", SHOWN)
    caption = (
        f"{dataset}, recipe {recipe}: the mean share of tail items in the top 20, for users with at least "
        f"{100 * FOCUS:g} % tail items in their history (tail-focus) and for all others (head-focus). "
        f"Tail: {rows[0]['tail']}. "
    )
    told = f" The paper reports more than {100 * claim:g} % for tail-focus users with AUR." if claim else ""
    picture = Picture(
        plots.bars(list(groups.values()), heights, "tail share of the top 20", marks=histories, marked="histories"),
        f"{caption}See whether AUR brings the lists closer to the histories (dashed).{told}",
        "Share of tail items in the lists of tail-focus and head-focus users, a bar for each method",
    )
    lines: list[list[Cell]] = [
        [method, *(figure_of(of, group, SHOWN) for group in groups), str(len(of))] for method, of in runs.items()
    ]
    lines.append(["the histories themselves", *(f"{share:.4f}" for share in histories), None])
    heads = [f"{title} ({first[group]['users']})" for group, title in groups.items()]
    table = Table(["method", *heads, "seeds"], lines, f"{caption}In brackets: how many users.{told}")
    return [picture, table]


STUDY = Study(
    name="calibration",
    title="Calibration of the lists",
    question="Do the lists hold as many tail items as the histories of the users do?",
    cells=cells,
    measure=measure,
    show=show,
)
