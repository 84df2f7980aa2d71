"""The three protocols against a brute-force implementation, and what must not change a figure."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import aleator as al
from aleator.batches import Histories, Users
from aleator.data.interactions import Interactions
from aleator.data.splits import Split
from aleator.data.tail import Tail
from aleator.data.vocabulary import Vocabulary
from aleator.evaluation.protocols import PROTOCOLS, evaluate
from aleator.evaluation.report import Report
from aleator.ranking.top import best
from aleator.words import RecipeName

Matrix = np.ndarray[Any, Any]
CPU = torch.device("cpu")
N_USERS, N_ITEMS, CUTS = 30, 40, (1, 5, 20, 50)  # 50 is more than there are items


class Listing(ABC):
    """The part of a Scorer that follows from its scores."""

    torch_device = CPU
    recipe: RecipeName = "ours"
    fitted: Interactions

    @abstractmethod
    def score_block(self, users: Users, items: Tensor | None = None) -> Tensor: ...

    def top(self, users: Users, k: int, **options: Any) -> list[tuple[Tensor, Tensor]]:
        return best(self.score_block, users, k, self.fitted.n_items, **options)


class Fake(Listing):
    """A Scorer that returns a given matrix."""

    def __init__(self, fitted: Interactions, scores: Matrix) -> None:
        self.fitted, self.scores = fitted, torch.from_numpy(scores)
        self.histories = Histories(fitted.csr, CPU)

    def score_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        block = self.scores[users.index]
        return block if items is None else block[:, items]


def pairs(mask: Matrix, users: Vocabulary, items: Vocabulary) -> Interactions:
    user, item = (side.astype(np.int32) for side in np.nonzero(mask))
    return Interactions(user, item, users, items)


def make_split(seed: int) -> tuple[Split, Matrix, Matrix]:
    """A split with every awkward kind of user and item, with what is seen and what is tested as masks."""
    rng = np.random.default_rng(seed)
    fame = rng.dirichlet(np.full(N_ITEMS, 0.4)) * 8
    seen = rng.random((N_USERS, N_ITEMS)) < np.minimum(fame, 0.9)
    seen[:, -4:] = False  # items that are never trained on
    seen[0] = True
    seen[0, [3, -1, -2, -3, -4]] = False  # a user with few candidates left
    seen[5] = False
    seen[5, 0] = True
    test = (rng.random((N_USERS, N_ITEMS)) < 0.12) & ~seen
    test[0] = ~seen[0]
    test[1] = False  # a user without a test item
    test[2] = False
    test[2, int(np.argmax(np.where(seen[2], -1, seen.sum(0))))] = True  # a user whose one test item is popular
    seen[test] = False
    valid = seen & (rng.random(seen.shape) < 0.1)
    users, items = Vocabulary(np.arange(N_USERS) * 10), Vocabulary(np.arange(N_ITEMS) + 1000)
    train, held = pairs(seen & ~valid, users, items), pairs(valid, users, items)
    return Split(train, held, pairs(test, users, items), name="made up"), seen, test


def one_user(order: list[int], relevant: set[int], k: int) -> dict[str, float]:
    """Each metric as a person would write it down."""
    listed = order[:k]
    found = [place for place, item in enumerate(listed, 1) if item in relevant]
    n = len(relevant)
    ideal = sum(1 / math.log2(place + 1) for place in range(1, min(k, n) + 1))
    return {
        f"recall@{k}": len(found) / n if n else 0.0,
        f"precision@{k}": len(found) / k,
        f"hit_rate@{k}": float(bool(found)),
        f"mrr@{k}": 1 / found[0] if found else 0.0,
        f"ndcg@{k}": sum(1 / math.log2(place + 1) for place in found) / ideal if n else 0.0,
        f"map@{k}": sum(hit / place for hit, place in enumerate(found, 1)) / n if n else 0.0,
    }


def brute(scores: Matrix, seen: Matrix, test: Matrix, tail: Matrix, empty: str) -> dict[str, dict[str, list[float]]]:
    per_user: dict[str, dict[str, list[float]]] = {p: {} for p in PROTOCOLS}
    for user in np.flatnonzero(test.any(1)):
        shown = np.flatnonzero(~seen[user] & (scores[user] > -np.inf)).tolist()
        order = sorted(shown, key=lambda i: (-scores[user, i], i))
        for protocol in PROTOCOLS:
            relevant = {i for i in np.flatnonzero(test[user]).tolist() if protocol == "overall" or tail[i]}
            listed = [i for i in order if protocol != "tail_relative" or tail[i]]
            for k in CUTS:
                for name, value in one_user(listed, relevant, k).items():
                    skipped = empty == "skip" and not relevant
                    per_user[protocol].setdefault(name, []).append(math.nan if skipped else value)
    return per_user


def assert_equal(report: Report, expected: dict[str, dict[str, list[float]]]) -> None:
    assert set(report.per_user) == set(expected)
    for protocol, metrics in expected.items():
        assert set(report.per_user[protocol]) == set(metrics)
        for name, values in metrics.items():
            mine = report.per_user[protocol][name]
            np.testing.assert_allclose(mine, values, rtol=1e-12, atol=0, err_msg=f"{protocol} {name}")
            mean = np.nanmean(values) if np.isfinite(values).any() else 0.0
            assert report.mean(protocol, name) == pytest.approx(mean, rel=1e-12)


def make_scores(kind: str, seed: int) -> Matrix:
    rng = np.random.default_rng(seed + 100)
    if kind == "random":
        return rng.normal(size=(N_USERS, N_ITEMS)).astype(np.float32)
    if kind == "tied":
        return rng.integers(0, 3, (N_USERS, N_ITEMS)).astype(np.float32)
    return np.zeros((N_USERS, N_ITEMS), np.float32)


@pytest.mark.parametrize("empty", ["skip", "zero"])
@pytest.mark.parametrize("kind", ["random", "tied", "constant"])
@pytest.mark.parametrize("seed", range(4))
def test_every_figure_equals_brute_force(kind: str, empty: Any, seed: int) -> None:
    split, seen, test = make_split(seed)
    scores = make_scores(kind, seed)
    for tail in (Tail.mass(0.5), Tail.count(2), Tail.items(0.3)):
        in_tail = tail.mask(seen.sum(0))
        report = evaluate(Fake(split.train, scores), split, tail=tail, k=CUTS, empty=empty)
        assert_equal(report, brute(scores, seen, test, in_tail, empty))
        assert report.users.tolist() == (np.flatnonzero(test.any(1)) * 10).tolist()


def test_the_made_up_splits_have_what_they_promise() -> None:
    for seed in range(4):
        split, seen, test = make_split(seed)
        assert not (seen & test).any()
        assert (seen.sum(0) == 0).sum() >= 4
        assert test[:, seen.sum(0) == 0].any()  # items never trained on are in the test
        assert len(split.valid) > 0
        in_tail = Tail.mass(0.5).mask(seen.sum(0))
        with_test = test.any(1)
        assert not with_test.all()
        assert (~(test & in_tail).any(1) & with_test).any()
        assert ((~seen).sum(1) < 20).any()  # fewer candidates than k


@pytest.mark.parametrize("tail", [Tail.count(0), Tail.count(10**6)])
def test_a_tail_of_nearly_nothing_and_a_tail_of_everything(tail: Tail) -> None:
    split, seen, test = make_split(1)
    scores = make_scores("tied", 1)
    report = evaluate(Fake(split.train, scores), split, tail=tail, k=CUTS)
    assert_equal(report, brute(scores, seen, test, tail.mask(seen.sum(0)), "skip"))


def test_a_tail_without_any_item_has_no_mean_unless_it_counts_as_zero() -> None:
    users, items = Vocabulary(np.arange(3)), Vocabulary(np.arange(4))
    seen = np.array([[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0]], bool)
    test = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 1]], bool)
    split = Split(pairs(seen, users, items), pairs(seen & False, users, items), pairs(test, users, items))
    scores = np.arange(12, dtype=np.float32).reshape(3, 4)
    for empty in ("skip", "zero"):
        report = evaluate(Fake(split.train, scores), split, tail=Tail.count(0), k=(2,), empty=empty)
        for protocol in ("tail_relative", "tail_absolute"):
            assert report.to_dict()[protocol]["recall@2"] == (None if empty == "skip" else 0)
        assert report.mean("overall", "recall@2") > 0


@pytest.mark.parametrize("kind", ["random", "tied"])
def test_no_figure_depends_on_the_memory_budget(kind: str) -> None:
    split, *_ = make_split(2)
    fake = Fake(split.train, make_scores(kind, 2))
    whole = evaluate(fake, split, k=CUTS)
    for memory in (1, 24, 24 * 7, 24 * N_ITEMS, 24 * N_ITEMS * 4, 10**6):
        report = evaluate(fake, split, k=CUTS, memory=memory)
        assert report.lists == whole.lists
        for protocol in PROTOCOLS:
            for name, values in whole.per_user[protocol].items():
                assert report.per_user[protocol][name].tobytes() == values.tobytes()


def test_no_figure_of_a_real_model_depends_on_the_memory_budget(split: al.Split, fitted_aur: al.AUR) -> None:
    whole = evaluate(fitted_aur, split, k=(3, 10))
    for memory in (24 * 7, 24 * 200):
        report = evaluate(fitted_aur, split, k=(3, 10), memory=memory)
        for protocol in PROTOCOLS:
            for name, values in whole.per_user[protocol].items():
                np.testing.assert_array_equal(report.per_user[protocol][name], values)


def test_figures_at_one_cutoff_do_not_depend_on_the_others_nor_on_their_order() -> None:
    split, *_ = make_split(3)
    fake = Fake(split.train, make_scores("tied", 3))
    alone, among = evaluate(fake, split, k=(5,)), evaluate(fake, split, k=(50, 5, 5, 1))
    for protocol in PROTOCOLS:
        for name, values in alone.per_user[protocol].items():
            np.testing.assert_array_equal(among.per_user[protocol][name], values)


def test_the_scores_that_a_scorer_keeps_are_not_changed() -> None:
    split, *_ = make_split(0)
    scores = make_scores("random", 0)
    evaluate(Fake(split.train, scores.copy()), split)
    fake = Fake(split.train, scores)
    evaluate(fake, split)
    np.testing.assert_array_equal(fake.scores.numpy(), make_scores("random", 0))


def test_what_the_lists_are_like() -> None:
    split, seen, test = make_split(1)
    scores = make_scores("random", 1)
    tail = Tail.mass(0.5)
    report = evaluate(Fake(split.train, scores), split, tail=tail, k=(5,))
    shown = np.zeros(N_ITEMS)
    for user in np.flatnonzero(test.any(1)):
        order = sorted(np.flatnonzero(~seen[user]), key=lambda i: -scores[user, i])
        shown[order[:5]] += 1
    in_tail = tail.mask(seen.sum(0))
    assert report.lists["coverage@5"] == pytest.approx((shown > 0).mean())
    assert report.lists["popularity@5"] == pytest.approx((shown * seen.sum(0)).sum() / shown.sum())
    assert report.lists["tail_share@5"] == pytest.approx(shown[in_tail].sum() / shown.sum())
    difference = np.abs(shown[:, None] - shown).sum() / (2 * N_ITEMS * shown.sum())
    assert report.lists["gini@5"] == pytest.approx(difference)


def test_untrained_items_are_counted() -> None:
    split, seen, test = make_split(0)
    report = evaluate(Fake(split.train, make_scores("random", 0)), split)
    never = seen.sum(0) == 0
    assert report.about["untrained_pairs"] == test[:, never].sum()
    assert report.about["untrained_items"] == (test[:, never].sum(0) > 0).sum()
    assert f"{test[:, never].sum()} test pairs are of items never trained on" in str(report)


class ByHistory(Listing):
    """A Scorer whose scores are a function of the history alone: a sum of integers, so exact in any order."""

    def __init__(self, fitted: Interactions, effect: Matrix) -> None:
        self.fitted, self.effect = fitted, torch.from_numpy(effect)
        self.histories = Histories(fitted.csr, CPU)

    def score_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        block = torch.zeros((len(users), self.effect.shape[1])).index_add_(0, users.row, self.effect[users.item])
        return block if items is None else block[:, items]


def test_a_model_of_other_ids_is_matched_by_name() -> None:
    """It misses some users and items of the split, and knows others; its own places are different."""
    split, seen, test = make_split(2)
    known = np.r_[np.arange(5, N_ITEMS), N_ITEMS + 3, N_ITEMS + 9]  # names without the offset of 1000
    users, items = Vocabulary(np.r_[5, np.arange(0, N_USERS, 2) * 10]), Vocabulary(known + 1000)
    users.ids.sort()
    own = Interactions(np.zeros(2, np.int32), np.array([0, 1], np.int32), users, items)
    effect = np.random.default_rng(0).integers(0, 9, (len(known), len(known))).astype(np.float32)
    report = evaluate(ByHistory(own, effect), split, tail=Tail.mass(0.5), k=CUTS)
    scores = np.full((N_USERS, N_ITEMS), -np.inf)
    scores[:, 5:] = seen[:, 5:].astype(float) @ effect[: N_ITEMS - 5, : N_ITEMS - 5]
    assert_equal(report, brute(scores, seen, test, Tail.mass(0.5).mask(seen.sum(0)), "skip"))
    chunked = evaluate(ByHistory(own, effect), split, tail=Tail.mass(0.5), k=CUTS, memory=24 * 9)
    assert chunked.to_dict() == report.to_dict()


def test_a_model_that_knows_none_of_the_items_is_refused() -> None:
    split, *_ = make_split(0)
    users, items = Vocabulary(np.arange(3)), Vocabulary(np.arange(4))
    own = Interactions(np.zeros(1, np.int32), np.zeros(1, np.int32), users, items)
    with pytest.raises(al.AleatorError, match="none of the items"):
        evaluate(ByHistory(own, np.zeros((4, 4), np.float32)), split)


@pytest.mark.parametrize("k", [(), (0,), (5, -1)])
def test_impossible_cutoffs_are_refused(k: tuple[int, ...]) -> None:
    split, *_ = make_split(0)
    with pytest.raises(al.AleatorError, match="k is"):
        evaluate(Fake(split.train, make_scores("random", 0)), split, k=k)


def test_one_cutoff_may_be_given_as_a_number() -> None:
    split, *_ = make_split(0)
    fake = Fake(split.train, make_scores("random", 0))
    assert evaluate(fake, split, k=5).to_dict() == evaluate(fake, split, k=(5,)).to_dict()


@pytest.mark.parametrize("options", [{"empty": "ignore"}, {"recipe": "papr"}])
def test_a_misspelt_convention_is_refused_rather_than_taken_for_another(options: dict[str, Any]) -> None:
    split, *_ = make_split(0)
    with pytest.raises(al.AleatorError):
        evaluate(Fake(split.train, make_scores("random", 0)), split, **options)


def test_a_split_without_a_test_part_is_refused() -> None:
    split, *_ = make_split(0)
    nothing = replace(split, test=split.test.take(np.zeros(len(split.test), bool)))
    with pytest.raises(al.AleatorError, match="no test part"):
        evaluate(Fake(split.train, make_scores("random", 0)), nothing)


def test_recipe_paper_takes_the_programs_cut_counts_empty_users_as_zero_and_says_so() -> None:
    split, seen, test = make_split(1)
    split = replace(split, paper_tail=Tail.count(3))
    scores = make_scores("random", 1)
    report = evaluate(Fake(split.train, scores), split, k=CUTS, recipe="paper")
    assert_equal(report, brute(scores, seen, test, seen.sum(0) <= 3, "zero"))
    assert "recipe paper" in str(report)
    assert "popularity <= 3" in str(report)
    assert "counted as 0" in str(report)
    ours = evaluate(Fake(split.train, scores), split, k=CUTS)
    assert "recipe paper" not in str(ours)
    assert "skipped" in str(ours)


def test_a_report_is_json_with_the_three_protocols_by_name() -> None:
    split, *_ = make_split(1)
    report = evaluate(Fake(split.train, make_scores("random", 1)), split, k=(20,))
    read = json.loads(report.to_json())
    for protocol in PROTOCOLS:
        assert read[protocol]["recall@20"] == report.mean(protocol, "recall@20")
    assert read["about"]["users"] == len(report.users)


SMALL = al.read({"user": [1, 1, 1, 2, 2, 2], "item": [1, 2, 3, 1, 2, 3]}).split(valid=0.0, test=0.34, seed=0)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"k": 20.0}, "k is 20.0; give whole numbers of at least 1"),
        ({"k": (5, 2.5)}, "give whole numbers"),
        ({"k": "20"}, "give whole numbers"),
        ({"k": True}, "give whole numbers"),
        ({"k": 0}, "give whole numbers"),
        ({"k": ()}, "give whole numbers"),
        ({"tail": 0.5}, r"tail is 0.5; give a rule, such as Tail.mass\(0.5\)"),
        ({"tail": "mass:0.5"}, "give a rule"),
        ({"empty": "drop"}, "give 'skip' or 'zero'"),
    ],
)
def test_wrong_options_get_a_message(options: dict[str, Any], says: str) -> None:
    model = Fake(SMALL.train, np.zeros((2, 3)))
    with pytest.raises(al.AleatorError, match=says):
        evaluate(model, SMALL, **options)
    with pytest.raises(al.AleatorError, match="a str is no model"):
        evaluate("model", SMALL)  # type: ignore[arg-type]


def test_a_misspelt_metric_gets_the_nearest_name() -> None:
    report = evaluate(Fake(SMALL.train, np.zeros((2, 3))), SMALL, k=np.int64(20))  # type: ignore[arg-type]
    with pytest.raises(al.AleatorError, match=r"'recal@20'; did you mean 'recall@20'\?"):
        report.mean("overall", "recal@20")
    with pytest.raises(al.AleatorError, match="unknown protocol 'tail'; known: overall"):
        report.mean("tail", "recall@20")
