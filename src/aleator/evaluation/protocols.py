"""Evaluation: the three protocols in one pass over the users, in bounded memory.

overall         All items are candidates. All test items are relevant.
tail_absolute   All items are candidates. The test items in the tail are relevant.
tail_relative   Tail items are candidates. The test items in the tail are relevant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from aleator.batches import Histories, Users, pieces
from aleator.data.interactions import Interactions
from aleator.data.splits import Split
from aleator.data.tail import Tail
from aleator.device import in_smaller_blocks
from aleator.engines.engine import Ask, EngineName, check_engine, started
from aleator.errors import AleatorError, require
from aleator.evaluation.metrics import METRICS, gini
from aleator.evaluation.report import Report
from aleator.progress import progress
from aleator.ranking.top import best, blocks
from aleator.recipe import recipe_of
from aleator.words import Empty, RecipeName

PROTOCOLS = ("overall", "tail_absolute", "tail_relative")
_LONGEST = 1_000_000  # items of a list
Block = tuple[int, Tensor]  # a piece of the evaluation: its number, and the dense ids of its users
Values = dict[str, dict[str, Tensor]]  # protocol -> metric -> [n_users], NaN for a skipped user
Shown = dict[int, Tensor]  # cut-off -> [n_items], how often each item is listed


class Scorer(Protocol):
    """Something that can be evaluated. Every recommender can."""

    @property
    def fitted(self) -> Interactions:
        """The interactions it was fitted on."""

    @property
    def histories(self) -> Histories:
        """The histories of these interactions, on its device."""

    @property
    def torch_device(self) -> torch.device:
        """The device it computes on."""

    @property
    def recipe(self) -> RecipeName:
        """The recipe it was fitted under."""

    def score_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        """Scores of a batch, [B, n_items], or [B, len(items)] for the dense ids `items`."""

    def top(
        self,
        users: Users,
        k: int,
        *,
        seen: Users | None,
        candidates: Sequence[Tensor | None] = (None,),
        chunk: int | None = None,
    ) -> list[tuple[Tensor, Tensor]]:
        """The k best items of each set of candidates, as `ranking.top.best` returns them."""


def evaluate(
    model: Scorer,
    split: Split,
    *,
    tail: Tail | None = None,
    k: int | Sequence[int] = (20, 50),
    empty: Empty | None = None,
    recipe: RecipeName | None = None,
    memory: int | None = None,
    engine: EngineName = "process",
    workers: int | None = None,
) -> Report:
    """Evaluate a model on the test part of a split, under the three protocols.

    - overall: all items are candidates, and all test items are relevant.
    - tail_absolute: all items are candidates, and the test items in the tail are relevant.
    - tail_relative: only tail items are candidates, and the test items in the tail are relevant.

    Every user with a test item is evaluated. The train and validation items of a user are not candidates. Items without
    a training interaction are candidates, and they count if they are in the test part. If the model has another
    vocabulary than the split, ids are matched. An item that the model does not know is never listed, but it counts.

    Args:
        model: A fitted AUR or model.
        split: A split with a test part. The model must not have been fitted on pairs of the test part.
        tail: Which items are tail items. By default the recipe says so, and not the tail of an AUR: reports of several
            models are then about the same items.
        k: One or more cut-offs.
        empty: What to do with a user without a relevant item under the tail protocols. "skip" leaves the user out.
            "zero" counts 0, as the paper's released program does. By default the recipe says so.
        recipe: "ours", "test" or "paper", for the defaults of `tail` and `empty`. By default that of the model.
        memory: Bytes that blocks of scores may take. By default it depends on the device.
        engine: What ranks the blocks of users: this "process" one after the other, or the workers of "ray" side by side.
            The model must be on the CPU for Ray.
        workers: Workers of Ray, which share its cores out. By default one for each core.

    Returns:
        A report with the metrics recall, ndcg, precision, hit_rate, mrr and map at each cut-off.
    """
    cuts = _check(model, split, tail, k, empty)
    check_engine(engine, workers, model.torch_device.type)
    conventions, seen = recipe_of(recipe or model.recipe), split.everything
    tail, empty = tail or conventions.tail(split), empty or conventions.empty
    in_tail = torch.from_numpy(tail.mask(seen.popularity)).to(model.torch_device)
    lists, per_user, shown = _evaluated(model, split, in_tail, cuts, memory, empty, engine, workers)
    return Report(
        users=seen.users.decode(lists.who.cpu().numpy()),
        per_user=per_user,
        lists=lists.described(shown),
        about={
            "dataset": split.name,
            "recipe": conventions.name,
            "model_recipe": model.recipe,
            "empty": empty,
            "tail": str(tail),
            "tail_cut": tail.cut(seen.popularity),
            "tail_items": tail.describe(seen.popularity),
            "users": len(lists.who),
            "test_pairs": len(split.test),
            "test": split.test.fingerprint,
            "chosen_on_test": recipe_of(model.recipe).on_test,
            "users_without_history": int((lists.seen.size[lists.who] == 0).sum()),
            **_untrained(split),
            "unknown_items": lists.model.unknown_items,
        },
    )


def _check(model: Any, split: Any, tail: Any, k: Any, empty: Any) -> list[int]:
    """Check the arguments of `evaluate`. Returns the cut-offs, ascending."""
    require(hasattr(type(model), "score_block"), f"a {type(model).__name__} is no model", "give a fitted AUR or model")
    require(isinstance(split, Split), f"a {type(split).__name__} has no test part", "give a Split")
    require(len(split.test) > 0, "the split has no test part", "split with test above 0")
    require(empty in ("skip", "zero", None), f"empty is {empty!r}", "give 'skip' or 'zero'")
    if not isinstance(tail, Tail | None):
        raise AleatorError(f"tail is {tail!r}", "give a rule, such as Tail.mass(0.5)")
    cuts = tuple(k) if isinstance(k, Iterable) and not isinstance(k, str) else (k,)
    whole = all(isinstance(cut, int | np.integer) and not isinstance(cut, bool) for cut in cuts)
    require(whole and len(cuts) > 0 and min(cuts) >= 1, f"k is {k!r}", "give whole numbers of at least 1")
    require(max(cuts) <= _LONGEST, f"k is {k!r}", f"give whole numbers of at most {_LONGEST:,}")
    return sorted({int(cut) for cut in cuts})


def _untrained(split: Split) -> dict[str, int]:
    """How many items of the test part have no training interaction, and how many test pairs they have."""
    items = split.test.item[split.everything.popularity[split.test.item] == 0]
    return {"untrained_items": len(np.unique(items)), "untrained_pairs": len(items)}


class _Batch(NamedTuple):
    """A batch of users: which of their listed items are test items, and how many test items they have."""

    hits: Tensor  # [B, K] among the best of all items
    hits_in_tail: Tensor  # [B, K] among the best of all items, tail items only
    hits_of_tail: Tensor  # [B, K] among the best of the tail items
    relevant: Tensor  # [B]
    relevant_in_tail: Tensor  # [B]


class _Lists:
    """Measures the best items of users with a test item, block by block, in whatever process."""

    def __init__(
        self, model: Scorer, split: Split, in_tail: Tensor, cuts: list[int], memory: int | None, empty: Empty
    ) -> None:
        seen, device = split.everything, model.torch_device
        self.model = _ModelOnSplit(model, seen, device)
        leaked = self.model.trained_on(split.test)
        require(
            leaked == 0,
            f"the model was trained on {leaked} of the {len(split.test)} test pairs",
            "fit it on the train part of this split",
        )
        self.in_tail, self.cuts, self.n_items, self.empty = in_tail, cuts, seen.n_items, empty
        self.seen, self.test = Histories.of(seen, device), Histories.of(split.test, device)
        self.who = (self.test.size > 0).nonzero().squeeze(1)
        self.popularity = torch.from_numpy(seen.popularity).to(device)
        self.size, self.chunk = blocks(len(self.who), seen.n_items, device, memory)

    def __call__(self, block: Block, ask: Ask) -> tuple[Values, Shown]:
        """The metrics of the users of a block, and their lists as counts."""
        with torch.no_grad():
            batch, shown = self._batch(block[1])
            return self._values(batch), shown

    def _batch(self, index: Tensor) -> tuple[_Batch, Shown]:
        candidates = [None, self.in_tail]
        found = self.model.top(
            self.model.users(index),
            max(self.cuts),
            seen=self.seen.batch(index),
            candidates=candidates,
            chunk=self.chunk,
        )
        (_, everything), (_, only_tail) = found
        first = {cut: everything[:, :cut] for cut in self.cuts}
        shown = {cut: torch.bincount(top[top >= 0], minlength=self.n_items) for cut, top in first.items()}
        test = self.test.batch(index)
        hits = _hits(everything, test, self.n_items)
        batch = _Batch(
            hits=hits,
            hits_in_tail=hits & self.in_tail[everything] & (everything >= 0),
            hits_of_tail=_hits(only_tail, test, self.n_items),
            relevant=test.size,
            relevant_in_tail=torch.bincount(test.row[self.in_tail[test.item]], minlength=len(index)),
        )
        return batch, shown

    def _values(self, batch: _Batch) -> Values:
        """Each metric of the users of a batch under each protocol."""
        found: Values = {}
        for protocol, hits, relevant in (
            ("overall", batch.hits, batch.relevant),
            ("tail_absolute", batch.hits_in_tail, batch.relevant_in_tail),
            ("tail_relative", batch.hits_of_tail, batch.relevant_in_tail),
        ):
            values = {f"{name}@{cut}": own(hits, relevant, cut) for name, own in METRICS.items() for cut in self.cuts}
            if self.empty == "skip":
                values = {name: value.masked_fill(relevant == 0, torch.nan) for name, value in values.items()}
            found[protocol] = values
        return found

    def described(self, shown: Shown) -> dict[str, float]:
        """Figures of the lists that do not depend on the test part."""
        found: dict[str, float] = {}
        for cut, times in shown.items():
            total = max(int(times.sum()), 1)
            found |= {
                f"coverage@{cut}": float((times > 0).double().mean()),
                f"gini@{cut}": gini(times),
                f"popularity@{cut}": float((times * self.popularity).sum() / total),
                f"tail_share@{cut}": float(times[self.in_tail].sum() / total),
            }
        return found


@in_smaller_blocks
def _evaluated(
    model: Scorer,
    split: Split,
    in_tail: Tensor,
    cuts: list[int],
    memory: int | None,
    empty: Empty,
    engine: EngineName,
    workers: int | None,
) -> tuple[_Lists, dict[str, dict[str, NDArray[np.float64]]], Shown]:
    """What measures the lists, each metric of each user, and how often each item is listed."""
    lists = _Lists(model, split, in_tail, cuts, memory, empty)
    found: dict[int, Values] = {}
    shown: Shown = {}
    with started(engine, workers) as runs, progress("evaluating", len(lists.who)) as bar:
        for (number, index), measured in runs.run(lists, enumerate(pieces(lists.who, lists.size))):
            found[number], listed = measured
            shown = {cut: shown[cut] + times if cut in shown else times for cut, times in listed.items()}
            bar.advance(len(index))
    ordered = [found[number] for number in sorted(found)]
    per_user = {
        protocol: {name: torch.cat([values[protocol][name] for values in ordered]).cpu().numpy() for name in metrics}
        for protocol, metrics in ordered[0].items()
    }
    return lists, per_user, shown


def _hits(items: Tensor, test: Users, n_items: int) -> Tensor:
    """[B, K] whether each listed item is among the user's test items."""
    keys = test.row * n_items + test.item  # they ascend, since the columns of a CSR row do
    wanted = torch.arange(len(items), device=items.device)[:, None] * n_items + items
    if not len(keys):
        return torch.zeros_like(items, dtype=torch.bool)
    place = torch.searchsorted(keys, wanted).clamp_max(len(keys) - 1)
    return (keys[place] == wanted) & (items >= 0)


class _ModelOnSplit:
    """The users and items of a split as the model knows them.

    If the vocabularies of the model and the split differ, users and items are matched by their ids.
    """

    def __init__(self, model: Scorer, seen: Interactions, device: torch.device) -> None:
        self.model, self.n_items = model, seen.n_items
        self.same = model.fitted.users == seen.users and model.fitted.items == seen.items
        self.unknown_items = 0  # items of the split that the model does not know
        if self.same:
            return
        user = model.fitted.users.encode(seen.users.decode(np.arange(seen.n_users)))
        item = model.fitted.items.encode(seen.items.decode(np.arange(seen.n_items)))
        require(
            bool((item >= 0).any()), "the model knows none of the items of this split", "evaluate it on its own data"
        )
        self.unknown_items = int((item < 0).sum())
        self.user, self.item = torch.from_numpy(user).to(device), torch.from_numpy(item).to(device)
        rows = [
            seen_items[seen_items >= 0]
            for seen_items in (
                item[seen.csr.indices[a:b]] for a, b in zip(seen.csr.indptr, seen.csr.indptr[1:], strict=False)
            )
        ]
        self.newcomers = Histories.of_lists(rows, model.fitted.n_items, device)

    def trained_on(self, test: Interactions) -> int:
        """How many of the test pairs the model was fitted on. Metrics on such pairs would mean nothing."""
        user, item = test.user.astype(np.int64), test.item.astype(np.int64)
        if not self.same:
            user, item = self.user.cpu().numpy()[user], self.item.cpu().numpy()[item]
        known = (user >= 0) & (item >= 0)
        asked = sp.csr_matrix(
            (np.ones(int(known.sum()), bool), (user[known], item[known])), shape=self.model.fitted.csr.shape
        )
        return int(self.model.fitted.csr.astype(bool).multiply(asked).nnz)

    def users(self, index: Tensor) -> Users:
        """A batch of the split's users `index` (dense ids of the split), with ids and histories as the model has them."""
        if self.same:
            return self.model.histories.batch(index)
        batch = self.newcomers.batch(index)
        return Users(self.user[index], batch.row, batch.item, batch.weight, batch.size)

    def top(self, users: Users, k: int, **options: Any) -> list[tuple[Tensor, Tensor]]:
        """The best items of each set of candidates, as dense ids of the split."""
        if self.same:
            return self.model.top(users, k, **options)
        return best(self._score, users, k, self.n_items, **options)

    def _score(self, users: Users, items: Tensor | None) -> Tensor:
        wanted = self.item if items is None else self.item[items]
        scores = self.model.score_block(users, wanted.clamp_min(0))
        return scores.masked_fill(wanted < 0, -torch.inf)
