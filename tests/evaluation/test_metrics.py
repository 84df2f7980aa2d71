"""Metrics: by hand, by ranx, and by what a metric must never do."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aleator.evaluation.metrics import METRICS, gini
from aleator.ranking.top import top_k

RANX = ("recall", "ndcg", "precision", "hit_rate", "mrr", "map")  # they name them as we do


def value(metric: str, hits: list[int], relevant: int, k: int) -> float:
    return float(METRICS[metric](torch.tensor([hits]).bool(), torch.tensor([relevant]), k)[0])


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("recall", 2 / 5),
        ("precision", 2 / 4),
        ("hit_rate", 1.0),
        ("mrr", 1 / 2),
        ("map", (1 / 2 + 2 / 4) / 5),
        (
            "ndcg",
            (1 / math.log2(3) + 1 / math.log2(5)) / (1 + 1 / math.log2(3) + 1 / math.log2(4) + 1 / math.log2(5)),
        ),
    ],
)
def test_a_list_worked_out_by_hand(metric: str, expected: float) -> None:
    assert value(metric, [0, 1, 0, 1, 1], 5, 4) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("metric", METRICS)
def test_nothing_relevant_is_zero_and_so_is_a_list_without_hits(metric: str) -> None:
    assert value(metric, [0, 0, 0], 0, 3) == 0
    assert value(metric, [0, 0, 0], 4, 3) == 0


@pytest.mark.parametrize("metric", METRICS)
def test_an_empty_list_is_zero(metric: str) -> None:
    found = METRICS[metric](torch.zeros((2, 0), dtype=torch.bool), torch.tensor([0, 3]), 5)
    assert found.tolist() == [0, 0]


def test_a_list_shorter_than_k_counts_as_padded_with_misses() -> None:
    for metric in METRICS:
        assert value(metric, [1, 0], 3, 5) == pytest.approx(value(metric, [1, 0, 0, 0, 0], 3, 5), rel=1e-14)


def test_a_perfect_list_is_one_except_for_precision_of_few() -> None:
    for metric in ("recall", "ndcg", "hit_rate", "mrr", "map"):
        assert value(metric, [1, 1, 1, 0, 0], 3, 5) == pytest.approx(1, rel=1e-14)
    assert value("precision", [1, 1, 1, 0, 0], 3, 5) == pytest.approx(0.6)


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.integers(0, 5), st.integers(1, 14))
def test_every_metric_lies_between_0_and_1_and_no_hit_lowers_it(hits: list[bool], missed: int, k: int) -> None:
    relevant = sum(hits) + missed
    for metric in METRICS:
        whole = value(metric, [int(h) for h in hits], relevant, k)
        assert 0 <= whole <= 1 + 1e-12
        if missed and not all(hits):
            better = [int(h) for h in hits]
            better[better.index(0)] = 1
            assert value(metric, better, relevant, k) >= whole - 1e-12


def test_all_metrics_equal_ranx(monkeypatch: pytest.MonkeyPatch) -> None:
    # interpreted, ranx takes a second on this little; compiled, it takes most of a minute to get ready
    monkeypatch.setattr(pytest.importorskip("numba").config, "DISABLE_JIT", True)
    ranx = pytest.importorskip("ranx")
    rng = np.random.default_rng(0)
    n_users, n_items, cuts = 30, 60, (1, 5, 20)
    scores = rng.permuted(np.tile(np.linspace(0, 1, n_items), (n_users, 1)), axis=1)
    relevant = rng.random((n_users, n_items)) < rng.uniform(0.02, 0.4, (n_users, 1))
    relevant[np.arange(n_users), rng.integers(n_items, size=n_users)] = True
    qrels = ranx.Qrels({f"u{u}": {f"i{i}": 1 for i in np.flatnonzero(relevant[u])} for u in range(n_users)})
    run = ranx.Run({f"u{u}": {f"i{i}": float(scores[u, i]) for i in range(n_items)} for u in range(n_users)})
    names = [f"{theirs}@{cut}" for theirs in RANX for cut in cuts]
    expected = ranx.evaluate(qrels, run, names, return_mean=False)
    items = top_k(torch.from_numpy(scores), max(cuts))[1]
    hits = torch.from_numpy(relevant).gather(1, items)
    users = [int(user[1:]) for user in run.run]
    for name in RANX:
        for cut in cuts:
            mine = METRICS[name](hits, torch.from_numpy(relevant.sum(1)), cut).numpy()[users]
            np.testing.assert_allclose(mine, expected[f"{name}@{cut}"], rtol=0, atol=1e-6, err_msg=f"{name}@{cut}")


@given(st.lists(st.integers(0, 50), min_size=1, max_size=20).filter(lambda c: sum(c) > 0))
def test_gini_is_half_the_relative_mean_difference(counts: list[int]) -> None:
    pairs = sum(abs(a - b) for a in counts for b in counts)
    expected = pairs / (2 * len(counts) * sum(counts))
    assert gini(torch.tensor(counts)) == pytest.approx(expected, abs=1e-12)


def test_gini_of_nothing_is_zero() -> None:
    assert gini(torch.zeros(4, dtype=torch.int64)) == 0
