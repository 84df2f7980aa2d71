"""A case: a tail item with a low expectation and a high uncertainty that the user took, and how common that is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aleator.aur import AUR
from aleator.batches import Histories, pieces
from aleator.data.splits import Split
from aleator.ranking.top import hide, top_k
from aleator.studies import records
from aleator.studies.methods import Method
from aleator.studies.paper.calibration import batches
from aleator.studies.records import CaseItem, Figures, Measured, Record
from aleator.studies.report.cells import Cell
from aleator.studies.report.tables import Block, Table, count, figure_of
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, chosen

OTHERS = 3  # items with a high expectation that the user did not take, shown beside the item of the case


def cells(bench: Workbench) -> list[Method]:
    return [Method("MF-AUR")]


def ranks(scores: Tensor, row: Tensor, item: Tensor) -> Tensor:
    """[n] the ranks of items in rows of `scores`, [B, n_items]. The highest has rank 1; equal scores share a rank."""
    size = len(scores)
    cut = zip(pieces(row, size), pieces(scores[row, item], size), strict=True)
    return torch.cat([(scores[at] > value[:, None]).sum(1) + 1 for at, value in cut])


def ranked_pairs(aur: AUR, split: Split) -> NDArray[np.int64]:
    """Each test pair of a user with a history, [4, n]: user, item, rank among unseen items by r and by sigma."""
    tests = Histories(split.test.csr, aur.torch_device)
    known = torch.from_numpy(split.everything.csr.indptr).diff() > 0
    who = ((tests.host_size > 0) & known).nonzero().squeeze(1)
    found = []
    with torch.no_grad():
        for users, seen in batches(aur, split, who):
            test = tests.batch(users.index)
            by = []
            for part in aur.blended.raw(users):  # sigma rises with s, but it is flat at its ends
                hide(part, seen)
                by.append(ranks(part, test.row, test.item))
            found.append(torch.stack([users.index[test.row], test.item, *by]))
    pairs: NDArray[np.int64] = torch.cat(found, 1).cpu().numpy()
    return pairs


def measure(bench: Workbench, method: Method) -> Measured:
    aur, split = bench.fit(method), bench.split
    assert isinstance(aur, AUR)
    user, item, by_r, by_sigma = ranked_pairs(aur, split)
    in_tail = bench.tail.mask(split.everything.popularity)[item]
    metrics: Figures = {}
    for name, group in (("tail", in_tail), ("head", ~in_tail)):
        if group.any():
            metrics[name] = {
                "better_by_uncertainty": float((by_sigma < by_r)[group].mean()),
                "pairs": int(group.sum()),
                "median_rank_by_expectation": float(np.median(by_r[group])),
                "median_rank_by_uncertainty": float(np.median(by_sigma[group])),
            }
    row: Measured = {"metrics": metrics, "chosen": chosen(aur), "config": aur.options()}
    candidates = in_tail & np.isin(user, user[~in_tail])
    if candidates.any():
        pick = int(np.where(candidates, by_r - by_sigma, np.iinfo(np.int64).min).argmax())
        row["user"] = split.everything.users.decode([user[pick]]).tolist()[0]
        row["items"] = case(aur, split, int(user[pick]), int(item[pick]))
    return row


def case(aur: AUR, split: Split, user: int, item: int) -> list[CaseItem]:
    """The unseen items with the highest expectation that `user` did not take, and the `item` of the test part."""
    test = Histories(split.test.csr, aur.torch_device).batch(torch.tensor([user]))
    with torch.no_grad():
        ((users, seen),) = batches(aur, split, torch.tensor([user]))
        parts = [part[0].tolist() for part in aur.parts(users)]
        r, s = aur.blended.raw(users)
    for part in (r, s):
        hide(part, seen)
    others = r.clone()
    hide(others, test)
    shown = [i for i in top_k(others, OTHERS)[1][0].tolist() if i >= 0] + [item]
    row, column = torch.zeros(len(shown), dtype=torch.int64, device=r.device), torch.tensor(shown, device=r.device)
    by_r, by_sigma = (ranks(part, row, column).tolist() for part in (r, s))
    data = split.everything
    return [
        {
            "item": name,
            "title": None if data.titles is None else str(data.titles[i]),
            "expectation": parts[0][i],
            "uncertainty": parts[1][i],
            "popularity": int(data.popularity[i]),
            "feedback": int(i == item),
            "rank_by_expectation": by_r[place],
            "rank_by_uncertainty": by_sigma[place],
        }
        for place, (i, name) in enumerate(zip(shown, data.items.decode(shown).tolist(), strict=True))
    ]


def show(rows: Sequence[Record]) -> list[Block]:
    picked = next((row for row in rows if "items" in row), None)
    return [*([] if picked is None else [case_table(picked)]), how_common(rows)]


def case_table(row: Record) -> Table:
    """The items of the case."""
    items = row["items"]
    assert isinstance(items, list)
    lines: list[list[Cell]] = [
        [
            one["title"] or str(one["item"]),
            one["expectation"],
            one["uncertainty"],
            count(one["popularity"]),
            "yes" if one["feedback"] else "no",
            count(one["rank_by_expectation"]),
            count(one["rank_by_uncertainty"]),
        ]
        for one in items
    ]
    caption = (
        f"{records.about([row])}, {row['method']}, user {row['user']}. This case was picked because it is extreme. "
        "Candidates were all tail items in the test part of users who also have a head item there. Among "
        "them, the uncertainty ranks the picked item the most places higher than the expectation does. "
        f"The others are the {OTHERS} unseen items with the highest expectation that the user did not take. "
        "Ranks are among the unseen items."
    )
    heads = ["item", "expectation", "uncertainty", "popularity", "taken in the test part"]
    return Table([*heads, "rank by expectation", "rank by uncertainty"], lines, caption)


def how_common(rows: Sequence[Record]) -> Table:
    """The ranks of all test pairs."""
    lines: list[list[Cell]] = []
    for name, group in rows[0]["metrics"].items():
        medians = [figure_of(rows, name, f"median_rank_by_{part}", 1) for part in ("expectation", "uncertainty")]
        share = figure_of(rows, name, "better_by_uncertainty")
        lines.append([f"{name} items", count(int(group["pairs"] or 0)), share, *medians, count(len(rows))])
    heads = ["test pairs of", "pairs", "share ranked higher by the uncertainty"]
    heads += ["median rank by expectation", "median rank by uncertainty", "seeds"]
    caption = (
        f"{records.about(rows)}: how common such cases are among all test pairs. Judge by this table, since the case is "
        f"an extreme one. Tail: {rows[0]['tail']}."
    )
    return Table(heads, lines, caption)


STUDY = Study(
    name="case",
    title="A case, and how common it is",
    question="Does the uncertainty find tail items that the expectation ranks low, and how often?",
    cells=cells,
    measure=measure,
    show=show,
    seeds=False,
)
