"""A case: a tail item with a low expectation and a high uncertainty that the user took; and how common such cases are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aleator.aur import AUR
from aleator.batches import Histories, pieces
from aleator.data.splits import Split
from aleator.ranking.top import hide, top_k
from aleator.studies.methods import Method
from aleator.studies.paper.calibration import batches
from aleator.studies.report.tables import Block, Cell, Row, Table, figure_of
from aleator.studies.study import Study
from aleator.studies.workbench import Bench, chosen

OTHERS = 3  # items with a high expectation that the user did not take, beside the one of the case


def cells(bench: Bench) -> list[Method]:
    return [Method("MF-AUR")]


def ranks(scores: Tensor, row: Tensor, item: Tensor) -> Tensor:
    """[n] the ranks of items in rows of `scores`, [B, n_items]: 1 for the highest, and the same for equal ones."""
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
            for part in aur.parts(users):
                hide(part, seen)
                by.append(ranks(part, test.row, test.item))
            found.append(torch.stack([users.index[test.row], test.item, *by]))
    pairs: NDArray[np.int64] = torch.cat(found, 1).cpu().numpy()
    return pairs


def measure(bench: Bench, method: Method) -> Row:
    aur, split = bench.fit(method), bench.split
    assert isinstance(aur, AUR)
    user, item, by_r, by_sigma = ranked_pairs(aur, split)
    in_tail = bench.tail.mask(split.everything.popularity)[item]
    metrics: dict[str, dict[str, float]] = {}
    for name, group in (("tail", in_tail), ("head", ~in_tail)):
        if group.any():
            metrics[name] = {
                "better_by_uncertainty": float((by_sigma < by_r)[group].mean()),
                "pairs": int(group.sum()),
                "median_rank_by_expectation": float(np.median(by_r[group])),
                "median_rank_by_uncertainty": float(np.median(by_sigma[group])),
            }
    row: Row = {"metrics": metrics, "chosen": chosen(aur), "config": aur.options()}
    telling = in_tail & np.isin(user, user[~in_tail])
    if telling.any():
        pick = int(np.where(telling, by_r - by_sigma, np.iinfo(np.int64).min).argmax())
        row["user"] = split.everything.users.decode([user[pick]]).tolist()[0]
        row["items"] = case(aur, split, int(user[pick]), int(item[pick]))
    return row


def case(aur: AUR, split: Split, user: int, item: int) -> list[dict[str, Any]]:
    """The unseen items with the highest expectation that `user` did not take, and the `item` of the test part."""
    test = Histories(split.test.csr, aur.torch_device).batch(torch.tensor([user]))
    with torch.no_grad():
        ((users, seen),) = batches(aur, split, torch.tensor([user]))
        r, sigma = aur.parts(users)
    parts = r[0].tolist(), sigma[0].tolist()
    for part in (r, sigma):
        hide(part, seen)
    others = r.clone()
    hide(others, test)
    shown = [i for i in top_k(others, OTHERS)[1][0].tolist() if i >= 0] + [item]
    row, column = torch.zeros(len(shown), dtype=torch.int64, device=r.device), torch.tensor(shown, device=r.device)
    by_r, by_sigma = (ranks(part, row, column).tolist() for part in (r, sigma))
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


def show(rows: Sequence[Row]) -> list[Block]:
    dataset, recipe = rows[0]["dataset"], rows[0]["recipe"]
    blocks: list[Block] = []
    told = next((row for row in rows if "items" in row), None)
    if told is not None:
        lines: list[list[Cell]] = [
            [
                one["title"] or str(one["item"]),
                *(one[name] for name in ("expectation", "uncertainty")),
                str(one["popularity"]),
                "yes" if one["feedback"] else "no",
                *(str(one[f"rank_by_{name}"]) for name in ("expectation", "uncertainty")),
            ]
            for one in told["items"]
        ]
        caption = (
            f"{dataset}, recipe {recipe}, {told['method']}, user {told['user']}. This case was picked for being telling: "
            "of all tail items in the test part, of users with a head item there too, the one that the uncertainty ranks "
            f"higher than the expectation by the most places. The others are the {OTHERS} unseen items with the highest "
            "expectation that the user did not take. Ranks are among the unseen items."
        )
        heads = ["item", "expectation", "uncertainty", "popularity", "taken in the test part"]
        blocks.append(Table([*heads, "rank by expectation", "rank by uncertainty"], lines, caption))
    common: list[list[Cell]] = []
    for name, group in rows[0]["metrics"].items():
        medians = [figure_of(rows, name, f"median_rank_by_{part}", 1) for part in ("expectation", "uncertainty")]
        share = figure_of(rows, name, "better_by_uncertainty")
        common.append([f"{name} items", str(group["pairs"]), share, *medians, str(len(rows))])
    heads = ["test pairs of", "pairs", "share ranked higher by the uncertainty"]
    heads += ["median rank by expectation", "median rank by uncertainty", "seeds"]
    caption = (
        f"{dataset}, recipe {recipe}: how common such cases are among all test pairs. The case above is an extreme one; "
        f"this table is what to judge by. Tail: {rows[0]['tail']}."
    )
    blocks.append(Table(heads, common, caption))
    return blocks


STUDY = Study(
    name="case",
    title="A case, and how common it is",
    question="Does the uncertainty find tail items that the expectation buries, and how often?",
    cells=cells,
    measure=measure,
    show=show,
    seeds=False,
)
