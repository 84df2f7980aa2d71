"""Ranking: exact top-k under ties, chunks that change nothing, and masks that hide what was seen."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from aleator.batches import Histories, Users
from aleator.device import BUDGETS
from aleator.ranking.blend import blend, uncertainty
from aleator.ranking.top import best, blocks, hide, top_blends, top_k

CPU = torch.device("cpu")
Matrix = np.ndarray[Any, Any]

few_values = st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 0.25, 1.0, 3.0])
matrices = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 4), st.integers(1, 12)),
    elements=st.one_of(few_values, st.floats(-1e6, 1e6, width=32)),
)


def ranked(row: Matrix, k: int) -> tuple[list[float], list[int]]:
    """Values and columns by a stable sort in plain Python; -1 where candidates ran out."""
    order = sorted(range(len(row)), key=lambda column: (-row[column], column))[:k]
    return [float(row[c]) for c in order], [c if row[c] > -math.inf else -1 for c in order]


def histories(rows: list[list[int]], n_items: int) -> Histories:
    return Histories.of_lists(rows, n_items, CPU)


def nobody(n: int) -> Users:
    return histories([[] for _ in range(n)], 1).batch(torch.arange(n))


@given(matrices, st.integers(1, 15))
def test_top_k_equals_a_stable_sort(scores: Matrix, k: int) -> None:
    values, columns = top_k(torch.from_numpy(scores.copy()), k)
    expected = [ranked(row, k) for row in scores]
    assert values.tolist() == [e[0] for e in expected]
    assert columns.tolist() == [e[1] for e in expected]


@given(matrices, st.integers(1, 15))
def test_top_k_leaves_the_scores_as_they_were(scores: Matrix, k: int) -> None:
    given_scores = torch.from_numpy(scores.copy())
    top_k(given_scores, k)
    np.testing.assert_array_equal(given_scores.numpy(), scores)


def test_top_k_of_many_equal_scores_takes_the_lowest_columns() -> None:
    values, columns = top_k(torch.ones(3, 5000), 7)
    assert columns.tolist() == [list(range(7))] * 3
    assert (values == 1).all()


@given(
    hnp.arrays(np.float32, (3, 12), elements=st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 2.0])),
    st.integers(1, 12),
    st.data(),
)
def test_top_k_of_named_items_is_that_of_their_columns(scores: Matrix, k: int, data: st.DataObject) -> None:
    """However the items of a row are ordered."""
    order = torch.tensor([data.draw(st.permutations(range(12))) for _ in range(3)])
    whole = torch.from_numpy(scores)
    values, items = top_k(whole.gather(1, order), k, order)
    right, right_items = top_k(whole, k)
    assert torch.equal(values, right)
    assert torch.equal(items, right_items)


def test_top_k_does_not_depend_on_the_other_rows() -> None:
    scores = torch.from_numpy(np.random.default_rng(0).integers(0, 4, (64, 300)).astype(np.float32))
    together = top_k(scores, 20)[1]
    for row in range(64):
        assert torch.equal(top_k(scores[row : row + 1], 20)[1][0], together[row])


@st.composite
def tasks(draw: st.DrawFn) -> tuple[Matrix, int, int, list[list[int]], list[Matrix | None]]:
    scores = draw(matrices)
    n_users, n_items = scores.shape
    columns = st.sets(st.integers(0, n_items - 1))
    seen = [sorted(draw(columns)) for _ in range(n_users)]
    masks = [None, *draw(st.lists(hnp.arrays(bool, n_items), max_size=2))]
    return scores, draw(st.integers(1, 14)), draw(st.integers(1, 13)), seen, masks


@given(tasks())
def test_best_equals_a_stable_sort_of_the_candidates_however_items_are_chunked(
    task: tuple[Matrix, int, int, list[list[int]], list[Matrix | None]],
) -> None:
    scores, k, chunk, seen, masks = task
    n_users, n_items = scores.shape

    def score(users: Users, items: torch.Tensor | None) -> torch.Tensor:
        block = torch.from_numpy(scores)[users.index]
        return block if items is None else block[:, items]

    found = best(
        score,
        nobody(n_users),
        k,
        n_items,
        seen=histories(seen, n_items).batch(torch.arange(n_users)),
        candidates=[None if m is None else torch.from_numpy(m) for m in masks],
        chunk=chunk,
    )
    assert len(found) == len(masks)
    for (values, items), mask in zip(found, masks, strict=True):
        for user in range(n_users):
            allowed = scores[user].astype(np.float64)
            allowed[seen[user]] = -math.inf
            if mask is not None:
                allowed[~mask] = -math.inf
            expected = [(v, i) for v, i in zip(*ranked(allowed, k), strict=True) if i >= 0]
            got = [(v, i) for v, i in zip(values[user].tolist(), items[user].tolist(), strict=True) if i >= 0]
            assert got == expected
            padding = items[user] < 0
            assert (values[user][padding] == -math.inf).all()
            assert not padding.any() or padding.nonzero().min() == len(got)  # the padding stands last


def test_best_without_seen_shows_everything_and_an_empty_candidate_set_gives_no_columns() -> None:
    scores = torch.tensor([[1.0, 2.0, 3.0]])
    everything, nothing = best(
        lambda users, items: scores.clone(),
        nobody(1),
        2,
        3,
        seen=None,
        candidates=[None, torch.zeros(3, dtype=torch.bool)],
    )
    assert everything[1].tolist() == [[2, 1]]
    assert nothing[1].shape == nothing[0].shape == (1, 0)


@given(matrices, st.integers(0, 5), st.data())
def test_hide_sets_exactly_the_history_items_of_the_window(scores: Matrix, first: int, data: st.DataObject) -> None:
    n_users, width = scores.shape
    n_items = first + width + 3
    seen = [sorted(data.draw(st.sets(st.integers(0, n_items - 1)))) for _ in range(n_users)]
    block = torch.from_numpy(scores.copy())
    hide(block, histories(seen, n_items).batch(torch.arange(n_users)), first)
    expected = scores.copy()
    for user, items in enumerate(seen):
        for item in items:
            if first <= item < first + width:
                expected[user, item - first] = -math.inf
    np.testing.assert_array_equal(block.numpy(), expected)


def test_blend_at_its_ends_is_one_of_the_two() -> None:
    r, sigma = torch.tensor([[0.1, 0.9]]), torch.tensor([[0.7, 0.2]])
    assert torch.equal(blend(r, sigma, 1.0), r)
    assert torch.equal(blend(r, sigma, 0.0), sigma)
    torch.testing.assert_close(blend(r, sigma, 0.25), torch.tensor([[0.55, 0.375]]))


def test_an_uncertainty_without_bound_does_not_reach_a_ranking_by_the_expectation_alone() -> None:
    assert blend(torch.tensor([0.3]), torch.tensor([math.inf]), 1.0).tolist() == pytest.approx([0.3])


def test_uncertainty_is_the_root_of_the_scaled_variance() -> None:
    s = torch.tensor([[-2.0, 0.0, 3.0]], dtype=torch.float64)
    torch.testing.assert_close(uncertainty(s, 100.0), (s.exp() / 100).sqrt())


@pytest.mark.parametrize(("n_users", "n_items"), [(1, 1), (1000, 10), (10, 100_000), (5, 10_000_000)])
@pytest.mark.parametrize("memory", [1, 1000, 10**6, None])
def test_blocks_stay_within_the_budget_and_are_never_empty(n_users: int, n_items: int, memory: int | None) -> None:
    users, items = blocks(n_users, n_items, CPU, memory)
    assert 1 <= users <= n_users
    assert 1 <= items <= n_items
    assert users * items == 1 or users * items * 4 <= (memory or BUDGETS["cpu"].score_bytes)
    assert items == n_items or users == 1  # items are cut only where one user's row is too long


@pytest.mark.parametrize("n_items", [7, 300])
@pytest.mark.parametrize("levels", [None, 4])  # few levels make ties
def test_the_best_of_many_blends_are_those_of_each_blend_alone(n_items: int, levels: int | None) -> None:
    draw = torch.Generator().manual_seed(0)
    r, sigma = (torch.rand(20, n_items, generator=draw) for _ in range(2))
    if levels:
        r, sigma = ((x * levels).round() / levels for x in (r, sigma))
    users = Histories.of_lists([list(range(i % 6)) for i in range(20)], n_items, torch.device("cpu")).batch(
        torch.arange(20)
    )
    lams = [i / 50 for i in range(51)]
    for lam, found in zip(lams, top_blends(r, sigma, lams, 3, users), strict=True):
        scores = blend(r, sigma, lam)
        hide(scores, users)
        assert torch.equal(found, top_k(scores, 3)[1])
