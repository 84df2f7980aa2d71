"""Choosing lam: what "overall" and "balanced" mean, on recalls that the test makes up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from aleator.aur.choice import Choice, choose_lam
from aleator.batches import Users
from aleator.evaluation.held_out import HeldOut
from aleator.recipe import FINE_LAMS, PAPER_LAMS

LAMS = (0.0, 0.5, 1.0)


class Recalls:
    """Stands for a HeldOut: gives the recalls [V, U] it was told, and keeps the lams it was asked about."""

    def __init__(self, overall: Any, tail: Any) -> None:
        self.overall, self.tail = torch.tensor(overall).double(), torch.tensor(tail).double()

    def recall_of_blends(self, parts: Any, lams: Sequence[float]) -> tuple[Tensor, Tensor]:
        self.lams = list(lams)
        return self.overall, self.tail


def parts(users: Users) -> tuple[Tensor, Tensor]:
    return torch.tensor([[1.0, 0.0, 0.5]] * len(users)), torch.tensor([[0.0, 1.0, 0.5]] * len(users))


def chosen(overall: Any, tail: Any, select: Any, lams: tuple[float, ...] = LAMS) -> Choice:
    return choose_lam(cast(HeldOut, Recalls(overall, tail)), parts, lams, select)


def test_lams_are_tried_in_order_with_the_bare_model_last() -> None:
    recalls = Recalls([[0.0, 0.0]] * 3, [[0.0, 0.0]] * 3)
    choose_lam(cast(HeldOut, recalls), parts, (0.5, 0.0), "overall")  # out of order, and without 1
    assert recalls.lams == [0.0, 0.5, 1.0]


def test_overall_takes_the_highest_overall_recall_whatever_the_tail() -> None:
    choice = chosen([[0.2, 0.2], [0.5, 0.3], [0.3, 0.3]], [[0.9, 0.9], [0.0, 0.0], [0.1, 0.1]], "overall")
    assert choice.lam == 0.5
    assert choice.curve[1]["recall@20"] == pytest.approx(0.4)


def test_balanced_takes_the_most_tail_among_those_no_worse_overall_than_the_bare_model() -> None:
    overall = [[0.2, 0.2, 0.2], [0.4, 0.4, 0.4], [0.3, 0.3, 0.3]]
    tail = [[0.9, 0.9, 0.9], [0.2, 0.2, 0.2], [0.1, 0.1, 0.1]]
    choice = chosen(overall, tail, "balanced")
    assert choice.lam == 0.5  # lam 0 has more tail, but loses overall
    assert choice.curve[1]["tail_recall@50"] == pytest.approx(0.2)


def test_balanced_falls_back_on_the_bare_model_where_every_blend_is_worse() -> None:
    overall = [[0.2, 0.2], [0.29, 0.29], [0.3, 0.3]]
    assert chosen(overall, [[0.9, 0.9], [0.9, 0.9], [0.0, 0.0]], "balanced").lam == 1.0


def test_balanced_wants_the_gain_to_exceed_its_standard_error() -> None:
    tail = [[0.0] * 4, [0.9] * 4, [0.1] * 4]
    bare = [0.3, 0.3, 0.3, 0.3]
    noisy = [0.9, 0.1, 0.3, 0.0]  # a mean gain of 0.025 with a standard error of about 0.2
    steady = [0.31, 0.33, 0.32, 0.34]
    assert chosen([[0.0] * 4, noisy, bare], tail, "balanced").lam == 1.0
    assert chosen([[0.0] * 4, steady, bare], tail, "balanced").lam == 0.5


def test_a_blend_that_ranks_as_the_bare_model_does_is_no_worse() -> None:
    same = [0.3, 0.5, 0.1]
    assert chosen([[0.0] * 3, same, same], [[0.9] * 3, [0.2] * 3, [0.1] * 3], "balanced").lam == 0.5


def test_users_without_a_tail_item_are_left_out_of_the_tail_mean() -> None:
    nan = math.nan
    choice = chosen([[0.3, 0.3]] * 3, [[nan, 0.1], [nan, 0.4], [nan, 0.2]], "balanced")
    assert choice.lam == 0.5
    assert [row["tail_recall@50"] for row in choice.curve] == pytest.approx([0.1, 0.4, 0.2])


def test_without_any_tail_item_the_choice_is_still_finite() -> None:
    choice = chosen([[0.3, 0.3]] * 3, [[math.nan] * 2] * 3, "balanced")
    assert choice.lam in LAMS
    assert {row["tail_recall@50"] for row in choice.curve} == {0.0}


def test_the_curve_has_each_lam_once_with_its_means() -> None:
    choice = chosen([[0.1, 0.3], [0.2, 0.2], [0.4, 0.0]], [[0.5, 0.7]] * 3, "overall", (1.0, 0.0, 0.5, 0.5))
    assert [row["lam"] for row in choice.curve] == [0.0, 0.5, 1.0]
    assert [row["recall@20"] for row in choice.curve] == pytest.approx([0.2, 0.2, 0.2])


def test_the_grids_are_what_the_design_says() -> None:
    assert PAPER_LAMS == (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    assert FINE_LAMS[0] == 0
    assert FINE_LAMS[-1] == 1
    assert max(b - a for a, b in pairwise(FINE_LAMS)) <= 0.0500001
