"""Beyond the paper: similar items. Which similarity finds the item that a user takes next?

The test part is not used: the latest pairs of each user are held out of the training part. Of each held-out item, the 20
most similar items are listed. A hit is the item that the same user took right after it. Where the order in time is not
known, pairs are held out at random, and a random other held-out item is the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aleator.aur import AUR
from aleator.batches import Histories, Users, pieces
from aleator.data.splits import Split
from aleator.ranking.similar import moments
from aleator.ranking.top import blocks, top_k
from aleator.recommender import Recommender
from aleator.studies import records
from aleator.studies.methods import DEFAULT, FLOORS, Method, key_of, under_aur
from aleator.studies.records import Figures, Measured, Record
from aleator.studies.report.cells import Cell
from aleator.studies.report.tables import Block, Table, count, figure_of, over_seeds, rule, seeds_of
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, chosen

PLAIN = {"model.neighbours": "auto", "model.shrink": 0.0, "model.user_exponent": 0.0}  # the cosine of co-occurrence
METHODS = (*FLOORS, "ItemKNN", "EASE", "FISM", "MF", under_aur("MF"), DEFAULT)
LIST, USED = "list of a newcomer", "correlation over users"  # `similar_items` uses the latter
K, SHARE = 20, 0.2  # similar items that are listed, and the share of the pairs that is held out
_USERS = 4096  # most users, or newcomers, that scores are compared over where it is not `similar_items`

Ids = NDArray[np.int64]
Way = Callable[[Tensor], Tensor]  # takes items [m], returns their similarities to all items, [m, n_items]


def cells(bench: Workbench) -> list[Method]:
    return [*(Method(name) for name in METHODS), Method("ItemKNN", PLAIN)]


def cut(split: Split, seed: int) -> Split:
    """The training pairs alone, with the latest of each user as the test part."""
    data = split.everything
    made = data.split(valid=0.0, test=SHARE, by="random" if data.in_time() is None else "user_time", seed=seed)
    return replace(made, name=split.name)


@dataclass(frozen=True)
class Steps:
    """Pairs of held-out items that a user took one right after the other, as dense ids."""

    user: Ids
    item: Ids
    then: Ids

    @classmethod
    def of(cls, split: Split, seed: int) -> Steps:
        """Those of the test part. A draw decides between items of equal time."""
        held = split.test
        time, draw = held.in_time(), np.random.default_rng([seed, 2]).random(len(held))
        order = np.lexsort((draw, held.user) if time is None else (draw, time, held.user))
        user, item = held.user[order].astype(np.int64), held.item[order].astype(np.int64)
        same = user[1:] == user[:-1]
        return cls(user[1:][same], item[:-1][same], item[1:][same])


def ways(system: Recommender) -> dict[str, Way]:
    """The similarities to compare, by name."""
    found: dict[str, Way] = {LIST: lambda items: system.score_block(newcomers(system, items))}
    if not system.personalises:
        return found
    everyone, with_one = sampled(system), newcomers(system, torch.arange(system.fitted.n_items)[:_USERS])
    factors = system.factors(everyone.part(0, 1))
    if factors is not None:
        found["cosine of item vectors"] = _cosine(factors[1])
    found["cosine over users"] = _cosine(_scores(system, everyone))
    found["correlation over newcomers"] = _cosine(_centred(_scores(system, with_one)))
    found[USED] = moments(system.without_prior()).correlations
    if isinstance(system, AUR):
        found[f"{USED}, lam 0.5"] = moments(system.at(0.5).without_prior()).correlations
    return found


def newcomers(system: Recommender, items: Tensor) -> Users:
    """Newcomers who took one of the items (dense ids) each."""
    made = Histories.of_lists(items[:, None].tolist(), system.fitted.n_items, system.torch_device)
    return made.batch(torch.arange(len(items)), known=False)


def sampled(system: Recommender) -> Users:
    """A random sample of the users."""
    who = (system.histories.host_size > 0).nonzero().squeeze(1)
    draw = torch.randperm(len(who), generator=torch.Generator().manual_seed(system.seed))[:_USERS]
    return system.histories.batch(who[draw])


def _scores(system: Recommender, users: Users) -> Tensor:
    """[n_items, B] the scores of a batch."""
    size, _ = blocks(len(users), system.fitted.n_items, system.torch_device)
    edges = [*range(0, len(users), size), len(users)]
    return torch.cat([system.score_block(users.part(first, last)) for first, last in pairwise(edges)]).T


def _centred(table: Tensor) -> Tensor:
    return table - table.mean(1, keepdim=True)


def _cosine(table: Tensor) -> Way:
    """The cosines of the rows of a table [n_items, dim]. They are 0 for a row of zeros."""
    unit = table / table.norm(dim=1, keepdim=True).clamp_min(torch.finfo(table.dtype).tiny)
    return lambda items: unit[items] @ unit.T


def listed(way: Way, items: Tensor, trained: Tensor) -> Tensor:
    """[m, 20] the most similar trained items of each of the `items`, without itself; -1 for none."""
    values = way(items).nan_to_num(-torch.inf).masked_fill(~trained, -torch.inf)
    return top_k(values.scatter(1, items[:, None], -torch.inf), K)[1]


@torch.no_grad()
def figures(way: Way, steps: Steps, trained: Tensor, tail: NDArray[np.bool_]) -> dict[str, float | None]:
    """The mean over users of the share of steps that are hits, and of the hits among steps to tail items.

    Also the share of tail items in the lists of the distinct items.
    """
    items, place = np.unique(steps.item, return_inverse=True)
    size, _ = blocks(len(items), len(trained), trained.device)
    parts = pieces(torch.from_numpy(items).to(trained.device), size)
    lists = torch.cat([listed(way, some, trained) for some in parts]).cpu().numpy()
    hits = (lists[place] == steps.then[:, None]).any(1)
    of_tail = tail[steps.then]
    return {
        f"recall@{K}": _by_user(steps.user, hits),
        f"tail recall@{K}": _by_user(steps.user[of_tail], hits[of_tail]),
        "tail share": float(tail[lists[lists >= 0]].mean()) if (lists >= 0).any() else None,
    }


def _by_user(user: Ids, hits: NDArray[np.bool_]) -> float | None:
    """The mean over users of the share of hits. None without a user."""
    _, place, size = np.unique(user, return_inverse=True, return_counts=True)
    return float((np.bincount(place, hits) / size).mean()) if len(size) else None


def measure(bench: Workbench, method: Method) -> Measured:
    own = bench.on("similar", lambda: cut(bench.split, bench.seed))
    system = own.fit(method)
    bench.seconds[method.key] = own.seconds[method.key]
    steps, popularity = Steps.of(own.split, bench.seed), own.split.everything.popularity
    trained = torch.from_numpy(popularity > 0).to(system.torch_device)
    tail = own.tail.mask(popularity)
    with torch.no_grad():
        found: Figures = {name: figures(way, steps, trained, tail) for name, way in ways(system).items()}
    users = len(np.unique(steps.user))
    return {
        "metrics": found,
        "users": users,
        "pairs": len(steps.user),
        "chosen": chosen(system),
        "config": system.options(),
    }


def show(rows: Sequence[Record]) -> list[Block]:
    lines: list[list[Cell]] = []
    for method, runs in seeds_of(rows).items():
        name = "cosine of co-occurrence" if method == key_of("ItemKNN", PLAIN) else method
        for way in runs[0]["metrics"]:
            shown = [figure_of(runs, way, metric) for metric in (f"recall@{K}", f"tail recall@{K}", "tail share")]
            lines.append([name, way, *shown, count(len(runs))])
    caption = (
        f"{records.about(rows)}: the share of held-out items whose next item, by the same user, is among the {K} most "
        f"similar ones. It is a mean over {rows[0]['users']} users with {rows[0]['pairs']} such steps. See which "
        f"similarity finds next items, and which finds those of the tail. `similar_items` uses the {USED}. All methods "
        f"have default options. {rule(rows)} {over_seeds(rows)}".strip()
    )
    heads = ["method", "similarity", f"recall@{K}", f"tail recall@{K}", "share of tail items in the lists", "seeds"]
    return [Table(heads, lines, caption)]


STUDY = Study(
    name="beyond",
    part="similar",
    title="Beyond: similar items",
    question="Which similarity of two items finds the item that a user takes next?",
    cells=cells,
    measure=measure,
    show=show,
    plain=True,
    applies=lambda bench: bench.world is None and not bench.recipe.on_test,
    order=METHODS,
)
