"""Choosing lam: merit, "overall", and the one-standard-error rule of "balanced", on metrics that the test makes up."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from aleator.aur.choice import DISCOUNTS, Choice, choose, choose_discount, choose_lam, grid, merits
from aleator.aur.choice import LAMS as LAMS_OF_A_RACE
from aleator.batches import Users
from aleator.checkpoint.checks import typed
from aleator.checkpoint.manifest import without_nan
from aleator.evaluation.held_out import HeldOut, Lams, Measured
from aleator.recipe import FINE_LAMS, PAPER_LAMS

LAMS = (0.0, 0.5, 1.0)
Rows = list[list[float]]


class Told:
    """Stands for a HeldOut: gives the metrics it was told, and keeps the lams it was asked about."""

    def __init__(self, metrics: Measured) -> None:
        self.metrics = metrics
        self.lams: list[Lams] = []

    def measure_blends(self, parts: Any, lams: Lams) -> Measured:
        self.lams.append(lams)
        return self.metrics


def parts(users: Users) -> tuple[Tensor, Tensor]:
    return torch.tensor([[1.0, 0.0, 0.5]] * len(users)), torch.tensor([[0.0, 1.0, 0.5]] * len(users))


def measured(recall: Rows, tail: Rows, ndcg: Rows | None = None) -> Measured:
    """Metrics [V, U]. The NDCG is the recall if it is not given."""
    return Measured(*(torch.tensor(rows).double() for rows in (recall, recall if ndcg is None else ndcg, tail)))


def chosen(recall: Rows, tail: Rows, select: Any, ndcg: Rows | None = None, lams: Sequence[float] = LAMS) -> Choice:
    return choose(measured(recall, tail, ndcg), [(0.0, lams)], select)


def error(values: Sequence[float]) -> float:
    """The standard error of a mean, as textbooks have it."""
    return statistics.stdev(values) / math.sqrt(len(values))


def by_hand(recall: Rows, ndcg: Rows, tail: Rows, select: str) -> int:
    """The place of the chosen lam, from the words of the rule."""
    users, mean = range(len(recall[0])), statistics.fmean
    bare_recall, bare_ndcg = mean(recall[-1]), mean(ndcg[-1])
    m = [[(r[u] / bare_recall + n[u] / bare_ndcg) / 2 for u in users] for r, n in zip(recall, ndcg, strict=True)]
    best = max(range(len(m)), key=lambda v: (mean(m[v]), v))
    if select == "overall":
        return best

    def gains(rows: Rows, v: int) -> bool:
        differences = [a - b for a, b in zip(rows[v], rows[-1], strict=True)]
        return mean(differences) > 0 and mean(differences) >= error(differences)

    remaining = [
        v
        for v in range(len(m))
        if mean(m[v]) >= mean(m[best]) - error([a - b for a, b in zip(m[v], m[best], strict=True)])
        and gains(recall, v)
        and gains(ndcg, v)
    ]
    return max(remaining, key=lambda v: (mean(tail[v]), v)) if remaining else len(m) - 1


@pytest.mark.parametrize("select", ["overall", "balanced"])
def test_the_choice_is_that_of_the_rule_written_down_in_words(select: Any) -> None:
    draw, places = torch.Generator().manual_seed(0), set()
    for trial in range(60):
        users = torch.rand(1, 12, generator=draw, dtype=torch.float64)
        lift = torch.rand(5, 1, generator=draw, dtype=torch.float64) * 0.25
        rows = [
            (users + lift + 0.2 * torch.rand(5, 12, generator=draw, dtype=torch.float64)).tolist() for _ in range(3)
        ]
        recall, ndcg, tail = rows
        found = chosen(recall, tail, select, ndcg, (0.0, 0.2, 0.4, 0.6, 1.0))
        expected = by_hand(recall, ndcg, tail, select)
        assert found.curve[expected].lam == found.lam, trial
        places.add(expected)
    assert len(places) >= 4  # the trials differ


class TestMerit:
    def test_it_is_relative_to_the_means_of_the_bare_model(self) -> None:
        recall, ndcg = [[0.2, 0.6], [0.1, 0.3]], [[0.4, 0.0], [0.2, 0.6]]
        bare_recall, bare_ndcg = (0.1 + 0.3) / 2, (0.2 + 0.6) / 2
        expected = [
            [(r / bare_recall + n / bare_ndcg) / 2 for r, n in zip(*row, strict=True)]
            for row in zip(recall, ndcg, strict=True)
        ]
        found = merits(measured(recall, recall, ndcg))
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))
        assert float(found[-1].mean()) == pytest.approx(1)

    def test_it_can_be_relative_to_another_bare_model(self) -> None:
        one, other = measured([[0.2], [0.1]], [[0.0]] * 2), measured([[0.9], [0.4]], [[0.0]] * 2)
        assert merits(one, other).flatten().tolist() == pytest.approx([0.5, 0.25])

    def test_a_bare_model_that_finds_nothing_gives_no_nan(self) -> None:
        choice = chosen([[0.1, 0.2], [0.0, 0.1], [0.0, 0.0]], [[0.0] * 2] * 3, "overall")
        assert choice.lam == 0.0
        assert all(math.isfinite(point.merit) for point in choice.curve)


class TestOverall:
    def test_it_takes_the_highest_merit_whatever_the_tail(self) -> None:
        choice = chosen([[0.2, 0.2], [0.5, 0.3], [0.3, 0.3]], [[0.9, 0.9], [0.0, 0.0], [0.1, 0.1]], "overall")
        assert choice.lam == 0.5
        assert choice.curve[1].recall == pytest.approx(0.4)

    def test_recall_and_ndcg_count_alike_though_their_levels_differ(self) -> None:
        """+20 % of a small NDCG outweighs +10 % of a large Recall."""
        recall, ndcg = [[0.44] * 2, [0.40] * 2, [0.40] * 2], [[0.01] * 2, [0.012] * 2, [0.01] * 2]
        assert chosen(recall, [[0.0] * 2] * 3, "overall", ndcg).lam == 0.5


class TestBalanced:
    def test_it_takes_the_most_tail_among_the_lams_near_the_best(self) -> None:
        recall = [[0.55, 0.40, 0.50, 0.47], [0.50, 0.50, 0.50, 0.50], [0.3, 0.3, 0.3, 0.3]]
        tail = [[0.9] * 4, [0.2] * 4, [0.1] * 4]
        choice = chosen(recall, tail, "balanced")
        assert choice.best.lam == 0.5
        assert choice.lam == 0.0  # 0.02 below the best, with a standard error of 0.03
        assert [point.near for point in choice.curve] == [True, True, False]

    def test_a_lam_below_the_best_by_more_than_a_standard_error_is_not_near(self) -> None:
        recall = [[0.47, 0.48, 0.47, 0.48], [0.50] * 4, [0.3] * 4]
        assert chosen(recall, [[0.9] * 4, [0.2] * 4, [0.1] * 4], "balanced").lam == 0.5

    def test_it_takes_the_bare_model_where_every_blend_is_worse(self) -> None:
        recall = [[0.2, 0.2], [0.29, 0.29], [0.3, 0.3]]
        assert chosen(recall, [[0.9, 0.9], [0.9, 0.9], [0.0, 0.0]], "balanced").lam == 1.0

    @pytest.mark.parametrize("guarded", ["recall", "ndcg"])
    def test_the_gain_in_each_metric_must_exceed_its_standard_error(self, guarded: str) -> None:
        tail, bare = [[0.0] * 4, [0.9] * 4, [0.1] * 4], [0.3] * 4
        sure = [[0.0] * 4, [0.41, 0.43, 0.42, 0.44], bare]
        noisy = [0.9, 0.1, 0.3, 0.0]  # a mean gain of 0.025 with a standard error of about 0.2
        steady = [0.31, 0.33, 0.32, 0.34]
        for gained, lam in ((noisy, 1.0), (steady, 0.5)):
            rows = {"recall": sure, "ndcg": sure, guarded: [[0.0] * 4, gained, bare]}
            assert chosen(rows["recall"], tail, "balanced", rows["ndcg"]).lam == lam

    def test_what_gains_in_recall_but_loses_ndcg_is_never_chosen(self) -> None:
        recall, ndcg = [[0.6] * 3, [0.31] * 3, [0.3] * 3], [[0.29] * 3, [0.31] * 3, [0.3] * 3]
        tail = [[0.9] * 3, [0.2] * 3, [0.1] * 3]
        choice = chosen(recall, tail, "balanced", ndcg)
        assert choice.best.lam == 0.0
        assert not choice.curve[0].gains
        assert choice.lam == 1.0  # lam 0.5 gains in both, but is far from the best
        near = chosen([[0.33, 0.31, 0.32], [0.31, 0.32, 0.33], [0.3] * 3], tail, "balanced", ndcg)
        assert near.lam == 0.5

    def test_a_blend_that_ranks_as_the_bare_model_does_gains_nothing(self) -> None:
        same = [0.3, 0.5, 0.1]
        assert chosen([[0.0] * 3, same, same], [[0.9] * 3, [0.2] * 3, [0.1] * 3], "balanced").lam == 1.0

    def test_users_without_a_tail_item_are_left_out_of_the_tail_mean(self) -> None:
        nan = math.nan
        recall = [[0.4, 0.4], [0.4, 0.4], [0.3, 0.3]]
        choice = chosen(recall, [[nan, 0.1], [nan, 0.4], [nan, 0.2]], "balanced")
        assert choice.lam == 0.5
        assert [point.tail for point in choice.curve] == pytest.approx([0.1, 0.4, 0.2])

    def test_without_any_tail_item_the_highest_lam_that_may_be_chosen_is(self) -> None:
        choice = chosen([[0.4, 0.4], [0.4, 0.4], [0.3, 0.3]], [[math.nan] * 2] * 3, "balanced")
        assert choice.lam == 0.5
        assert {point.tail for point in choice.curve} == {0.0}

    def test_one_user_is_enough(self) -> None:
        assert chosen([[0.4], [0.5], [0.3]], [[0.9], [0.2], [0.1]], "balanced").lam == 0.5


@pytest.mark.parametrize("select", ["overall", "balanced"])
def test_of_equally_good_lams_the_highest_is_taken(select: Any) -> None:
    recall, tail = [[0.4, 0.5]] * 3 + [[0.3, 0.3]], [[0.2, 0.2]] * 4
    assert chosen(recall, tail, select, lams=(0.0, 0.3, 0.6, 1.0)).lam == 0.6
    assert chosen([[0.3, 0.3]] * 4, tail, select, lams=(0.0, 0.3, 0.6, 1.0)).lam == 1.0


def test_lams_are_tried_in_order_with_the_bare_model_last() -> None:
    told = Told(measured([[0.0, 0.0]] * 3, [[0.0, 0.0]] * 3))
    choice = choose_lam(cast(HeldOut, told), parts, (0.5, 0.0, 0.5), 0.0, "overall")  # out of order, and without 1
    assert told.lams == [[(0.0, [0.0, 0.5, 1.0])]]
    assert [point.lam for point in choice.curve] == [0.0, 0.5, 1.0]


class TestDiscount:
    def test_a_few_lams_choose_the_discount(self) -> None:
        lams = grid(LAMS_OF_A_RACE, DISCOUNTS)
        at = [(lam, power) for power, own in lams for lam in own]
        rows = [[0.5, 0.6] if where == (0.4, 0.3) else [0.3, 0.3] for where in at]
        told = Told(measured(rows, rows))
        assert choose_discount(cast(HeldOut, told), parts, "balanced") == 0.3
        assert told.lams == [lams]

    def test_all_lams_are_compared_at_it_and_with_the_bare_model(self) -> None:
        rows = [[0.4, 0.4]] * 12 + [[0.6, 0.7]] + [[0.3, 0.3]] * 39
        told = Told(measured(rows, rows))
        choice = choose_lam(cast(HeldOut, told), parts, FINE_LAMS, 0.3, "balanced")
        assert told.lams == [grid(FINE_LAMS, [0.3])]
        assert (choice.discount, choice.lam) == (0.3, FINE_LAMS[12])
        assert [point.lam for point in choice.curve] == list(FINE_LAMS)
        assert (choice.bare.lam, choice.bare.discount) == (1.0, 0.0)
        assert choice.bare not in choice.curve

    def test_of_equally_good_blends_the_lowest_discount_is_taken(self) -> None:
        rows = [[0.5, 0.5]] * 2 + [[0.5, 0.5]] * 2 + [[0.3, 0.3]]
        lams = [(0.4, (0.2, 1.0)), (0.0, (0.2, 0.5, 1.0))]
        choice = choose(measured(rows, rows), lams, "overall")
        assert (choice.discount, choice.lam) == (0.0, 0.5)

    def test_a_given_discount_has_the_bare_model_as_its_last_point(self) -> None:
        assert grid((0.5,), (0.2,)) == [(0.2, [0.5, 1.0]), (0.0, [1.0])]
        assert grid((0.5,), (0.2, 0.0)) == [(0.2, [0.5, 1.0]), (0.0, [0.5, 1.0])]

    def test_the_text_names_it(self) -> None:
        rows = [[0.2, 0.2], [0.5, 0.6], [0.3, 0.3]]
        told = str(choose(measured(rows, rows), [(0.4, (0.5, 1.0)), (0.0, (1.0,))], "overall"))
        assert "lam 1.00 and discount 0.40 is the best overall" in told
        assert [line.split()[:2] for line in told.splitlines()[2:5]] == [
            ["0.50", "0.40"],
            ["1.00", "0.40"],
            ["1.00", "0.00"],
        ]


def test_the_curve_has_the_means_of_each_lam() -> None:
    choice = chosen([[0.1, 0.3], [0.2, 0.4], [0.4, 0.0]], [[0.5, 0.7]] * 3, "overall", [[0.1, 0.2]] * 3)
    assert [point.recall for point in choice.curve] == pytest.approx([0.2, 0.3, 0.2])
    assert [point.ndcg for point in choice.curve] == pytest.approx([0.15] * 3)
    assert [point.tail for point in choice.curve] == pytest.approx([0.6] * 3)
    assert choice.users == 2


class TestText:
    def test_it_names_the_curve_the_guard_and_the_price(self) -> None:
        recall = [[0.55, 0.40, 0.50, 0.47], [0.50] * 4, [0.3] * 4]
        told = str(chosen(recall, [[0.9] * 4, [0.2] * 4, [0.1] * 4], "balanced"))
        rows = {line.split()[0]: line for line in told.splitlines()[2:5]}
        assert "0.4800" in rows["0.00"]
        assert "chosen, may be chosen" in rows["0.00"]
        assert "best overall, may be chosen" in rows["0.50"]
        assert rows["1.00"].endswith("the bare model")
        assert "of 4 users" in told
        assert "within a standard error: +60.0 % Recall@20, +60.0 % NDCG@20 and +800.0 % tail Recall@50" in told
        assert "The price is -4.0 % Recall@20 and -4.0 % NDCG@20 against the best" in told

    def test_it_says_when_the_bare_model_stays(self) -> None:
        worse = [[0.1] * 2, [0.2] * 2, [0.3] * 2]
        assert chosen(worse, worse, "balanced").why.startswith("lam 1, the bare model: no blend gains by a standard")
        assert chosen(worse, worse, "overall").why == "lam 1, the bare model, is the best overall"

    def test_it_says_when_the_best_is_taken(self) -> None:
        better = [[0.1] * 2, [0.4] * 2, [0.2] * 2]
        assert chosen(better, better, "overall").why.startswith("lam 0.50 is the best overall: +100.0 % Recall@20")

    def test_a_bare_model_without_tail_recall_is_no_division_by_zero(self) -> None:
        told = chosen([[0.1] * 2, [0.4] * 2, [0.2] * 2], [[0.0] * 2, [0.3] * 2, [0.0] * 2], "balanced").why
        assert "+0.3000 tail Recall@50" in told

    def test_a_fine_curve_is_thinned_but_keeps_what_matters(self) -> None:
        lams = [round(0.01 * step, 2) for step in range(101)]
        rows = [[0.2 + (0.1 if lam == 0.57 else 0.0)] * 3 for lam in lams]
        told = str(chosen(rows, rows, "balanced", lams=lams))
        assert len(told.splitlines()) < 18
        assert "  0.57" in told


def test_a_choice_survives_json() -> None:
    choice = chosen([[0.1, 0.3], [0.2, 0.4], [0.4, 0.0]], [[0.5, math.nan]] * 3, "balanced")
    kept = json.loads(json.dumps(without_nan(choice.to_dict()), allow_nan=False))
    assert str(typed(Choice, kept, "choice")) == str(choice)  # NaN does not equal itself


def test_the_grids_are_what_the_design_says() -> None:
    assert PAPER_LAMS == (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    assert FINE_LAMS[0] == 0
    assert FINE_LAMS[-1] == 1
    assert max(b - a for a, b in pairwise(FINE_LAMS)) <= 0.0500001
