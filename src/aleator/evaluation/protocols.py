"""Evaluation: the three protocols in one pass over the users, in bounded memory.

overall         all items are candidates, all test items are relevant
tail_absolute   all items are candidates, the test items in the tail are relevant
tail_relative   tail items are candidates, the test items in the tail are relevant
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from aleator.batches import Histories, Users, pieces
from aleator.data.interactions import Interactions
from aleator.data.splits import Split
from aleator.data.tail import Tail
from aleator.errors import require
from aleator.evaluation.metrics import METRICS, gini
from aleator.evaluation.report import Empty, Report
from aleator.progress import progress
from aleator.ranking.top import best, blocks

PROTOCOLS = ("overall", "tail_absolute", "tail_relative")


class Scorer(Protocol):
    """What can be evaluated: it scores batches of users and knows what it was fitted on."""

    @property
    def fitted(self) -> Interactions: ...
    @property
    def histories(self) -> Histories: ...
    @property
    def torch_device(self) -> torch.device: ...
    def score_block(self, users: Users, items: Tensor | None = None) -> Tensor: ...


def evaluate(
    model: Scorer,
    split: Split,
    *,
    tail: Tail | None = None,
    k: int | Sequence[int] = (20, 50),
    empty: Empty | None = None,
    recipe: Literal["ours", "paper"] | None = None,
    memory: int | None = None,
) -> Report:
    """Metrics of `model` on the test part of `split`, for each user with a test item.

    Train and validation items of a user are never candidates; items that were never trained on are, and count where they
    are in the test. `empty` says what a user without a relevant item is under the tail protocols: left out ("skip"), or
    0 ("zero", what the paper's released program does). `recipe="paper"` takes that and the program's tail cut.
    """
    require(isinstance(split, Split), f"a {type(split).__name__} has no test part", "give a Split")
    require(len(split.test) > 0, "the split has no test part", "split with test above 0")
    k = (k,) if isinstance(k, int) else k
    recipe = recipe or getattr(model, "recipe", "ours")
    for name, value, known in (("recipe", recipe, ("ours", "paper")), ("empty", empty, ("skip", "zero", None))):
        require(value in known, f"{name} is {value!r}", f"give one of {', '.join(filter(None, known))}")
    require(len(k) > 0 and min(k) >= 1, f"k is {tuple(k)}", "give cut-offs of at least 1")
    seen, device = split.everything, model.torch_device
    if tail is None:
        tail = split.paper_tail if recipe == "paper" and split.paper_tail is not None else Tail.mass(0.5)
    empty = empty or ("zero" if recipe == "paper" else "skip")
    cuts = sorted(set(k))
    in_tail = torch.from_numpy(tail.mask(seen.popularity)).to(device)
    link = _Link(model, seen, device)
    leaked = link.trained_on(split.test)
    require(
        leaked == 0,
        f"the model was trained on {leaked} of the {len(split.test)} test pairs",
        "fit it on the train part of this split",
    )
    seen_rows, test_rows = Histories(seen.csr, device), Histories(split.test.csr, device)
    who = (test_rows.size > 0).nonzero().squeeze(1)
    found: dict[str, list[Tensor]] = {}
    shown = {cut: torch.zeros(seen.n_items, dtype=torch.int64, device=device) for cut in cuts}
    size, chunk = blocks(len(who), seen.n_items, device, memory)
    with torch.no_grad(), progress("evaluating", len(who)) as bar:
        for index in pieces(who, size):
            test = test_rows.batch(index)
            lists = link.top(
                link.users(index), max(cuts), seen=seen_rows.batch(index), candidates=[None, in_tail], chunk=chunk
            )
            everything, only_tail = (items for _, items in lists)
            tail_test = in_tail[test.item]
            hits = _hits(everything, test, seen.n_items)
            hits_relative = _hits(only_tail, test, seen.n_items)
            n_tail = torch.bincount(test.row[tail_test], minlength=len(index))
            at_tail = in_tail[everything] & (everything >= 0)
            for name, hit, relevant in (
                ("overall", hits, test.size),
                ("tail_absolute", hits & at_tail, n_tail),
                ("tail_relative", hits_relative, n_tail),
            ):
                for metric, function in METRICS.items():
                    for cut in cuts:
                        value = function(hit, relevant, cut)
                        if empty == "skip":
                            value = value.masked_fill(relevant == 0, torch.nan)
                        found.setdefault(f"{name} {metric}@{cut}", []).append(value)
            for cut in cuts:
                top = everything[:, :cut]
                shown[cut] += torch.bincount(top[top >= 0], minlength=seen.n_items)
            bar.advance(len(index))
    per_user: dict[str, dict[str, NDArray[np.float64]]] = {p: {} for p in PROTOCOLS}
    for key, values in found.items():
        protocol, _, metric = key.partition(" ")
        per_user[protocol][metric] = torch.cat(values).cpu().numpy()
    popularity = torch.from_numpy(seen.popularity).to(device)
    untrained = split.test.item[seen.popularity[split.test.item] == 0]
    return Report(
        users=seen.users.decode(who.cpu().numpy()),
        per_user=per_user,
        lists={name: value for cut in cuts for name, value in _lists(shown[cut], cut, popularity, in_tail).items()},
        about={
            "dataset": split.name,
            "recipe": recipe,
            "empty": empty,
            "tail": str(tail),
            "tail_cut": tail.cut(seen.popularity),
            "tail_items": tail.describe(seen.popularity),
            "users": len(who),
            "test_pairs": len(split.test),
            "test": split.test.fingerprint,
            "chosen_on_test": getattr(model, "recipe", "ours") == "paper",
            "users_without_history": int((seen_rows.size[who] == 0).sum()),
            "untrained_items": len(np.unique(untrained)),
            "untrained_pairs": len(untrained),
        },
    )


def _hits(items: Tensor, test: Users, n_items: int) -> Tensor:
    """[B, K] whether each listed item is among the user's test items."""
    keys = test.row * n_items + test.item  # sorted, since CSR rows are
    wanted = torch.arange(len(items), device=items.device)[:, None] * n_items + items
    if not len(keys):
        return torch.zeros_like(items, dtype=torch.bool)
    place = torch.searchsorted(keys, wanted).clamp_max(len(keys) - 1)
    return (keys[place] == wanted) & (items >= 0)


def _lists(shown: Tensor, cut: int, popularity: Tensor, in_tail: Tensor) -> dict[str, float]:
    """What the lists of the first `cut` are like, whatever the test says."""
    total = max(int(shown.sum()), 1)
    return {
        f"coverage@{cut}": float((shown > 0).double().mean()),
        f"gini@{cut}": gini(shown),
        f"popularity@{cut}": float((shown * popularity).sum() / total),
        f"tail_share@{cut}": float(shown[in_tail].sum() / total),
    }


class _Link:
    """The model's view of a split's users and items; their ids are matched by name where the vocabularies differ."""

    def __init__(self, model: Scorer, seen: Interactions, device: torch.device) -> None:
        self.model, self.n_items = model, seen.n_items
        self.same = model.fitted.users == seen.users and model.fitted.items == seen.items
        if self.same:
            return
        user = model.fitted.users.encode(seen.users.decode(np.arange(seen.n_users)))
        item = model.fitted.items.encode(seen.items.decode(np.arange(seen.n_items)))
        require(
            bool((item >= 0).any()), "the model knows none of the items of this split", "evaluate it on its own data"
        )
        self.user, self.item = torch.from_numpy(user).to(device), torch.from_numpy(item).to(device)
        rows = [
            seen_items[seen_items >= 0]
            for seen_items in (
                item[seen.csr.indices[a:b]] for a, b in zip(seen.csr.indptr, seen.csr.indptr[1:], strict=False)
            )
        ]
        self.newcomers = Histories.of_lists(rows, model.fitted.n_items, device)

    def trained_on(self, test: Interactions) -> int:
        """How many of the test pairs the model was fitted on: their figures would mean nothing."""
        user, item = test.user.astype(np.int64), test.item.astype(np.int64)
        if not self.same:
            user, item = self.user.cpu().numpy()[user], self.item.cpu().numpy()[item]
        known = (user >= 0) & (item >= 0)
        asked = sp.csr_matrix(
            (np.ones(int(known.sum()), bool), (user[known], item[known])), shape=self.model.fitted.csr.shape
        )
        return int(self.model.fitted.csr.astype(bool).multiply(asked).nnz)

    def users(self, index: Tensor) -> Users:
        if self.same:
            return self.model.histories.batch(index)
        batch = self.newcomers.batch(index)
        return Users(self.user[index], batch.row, batch.item, batch.weight, batch.size)

    def top(self, users: Users, k: int, **options: Any) -> list[tuple[Tensor, Tensor]]:
        """The best items of each set of candidates, by the model's own fast way where it has one."""
        fast = getattr(self.model, "top", None)
        if self.same and fast is not None:
            lists: list[tuple[Tensor, Tensor]] = fast(users, k, **options)
            return lists
        return best(self._score, users, k, self.n_items, **options)

    def _score(self, users: Users, items: Tensor | None) -> Tensor:
        if self.same:
            return self.model.score_block(users, items)
        wanted = self.item if items is None else self.item[items]
        scores = self.model.score_block(users, wanted.clamp_min(0))
        return scores.masked_fill(wanted < 0, -torch.inf)
