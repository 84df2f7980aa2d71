"""Paired tests over users: against scipy, against Holm by hand, and the same seen from both sides."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from aleator.errors import AleatorError
from aleator.evaluation.report import Report
from aleator.evaluation.significance import compare, holm, paired_p

PerUser = dict[str, dict[str, Any]]


def by_hand(p: list[float]) -> list[float]:
    """Holm (1979), one hypothesis at a time."""
    corrected, worst = [0.0] * len(p), 0.0
    for step, place in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        worst = max(worst, (len(p) - step) * p[place])
        corrected[place] = min(worst, 1.0)
    return corrected


def figures(seed: int, shift: float = 0.0) -> PerUser:
    rng = np.random.default_rng(seed)
    made: PerUser = {p: {m: rng.random(40) + shift for m in ("recall@20", "ndcg@20")} for p in ("overall", "tail")}
    made["tail"]["recall@20"][[3, 7]] = math.nan
    return made


def report(per_user: PerUser, users: Any = None, **about: Any) -> Report:
    who = np.arange(40) if users is None else users
    return Report(
        who,
        per_user,
        {},
        {"test": "a", "tail_cut": 5, "empty": "skip", "recipe": "ours", "chosen_on_test": False, **about},
    )


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_equals_the_procedure_by_hand(p: list[float]) -> None:
    np.testing.assert_allclose(holm(np.array(p)), by_hand(p), rtol=1e-14)


def test_holm_keeps_the_order_and_never_lowers_p() -> None:
    p = np.random.default_rng(0).random(30) ** 3
    corrected = holm(p)
    assert (corrected >= p).all()
    assert (np.diff(corrected[np.argsort(p)]) >= 0).all()


def test_the_test_is_scipys_paired_t() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random(50), rng.random(50)
    assert paired_p(a - b) == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-12)


@pytest.mark.parametrize(
    ("difference", "p"),
    [
        ([0.0, 0.0, 0.0], 1.0),
        ([0.25, 0.25], 0.5),
        ([0.3 - 0.2, 0.6 - 0.5], 0.5),  # equal but for rounding
        ([0.25, 0.25, 0.25], 0.25),
        ([0.25, 0.0, 0.0, 0.0], 1.0),
        ([0.3], 1.0),
        ([], 1.0),
    ],
)
def test_degenerate_differences_have_a_defined_p(difference: list[float], p: float) -> None:
    assert paired_p(np.array(difference)) == p


@given(st.lists(st.floats(0.1, 1), min_size=1, max_size=8), st.lists(st.just(0.0), max_size=4))
def test_p_is_never_below_that_of_an_exact_test_by_signs(some: list[float], none: list[float]) -> None:
    assert paired_p(np.array(some + none)) >= 2.0 ** (1 - len(some))


def test_equal_differences_have_no_interval() -> None:
    mine, theirs = ({"overall": {"recall@20": np.array(values)}} for values in ([0.5, 0.75], [0.25, 0.5]))
    comparison = compare(mine, theirs)
    (row,) = comparison.rows
    assert (row.low, row.high, row.p) == (-math.inf, math.inf, 0.5)
    assert json.loads(json.dumps(comparison.to_dict(), allow_nan=False))[0]["low"] is None


def test_the_print_names_the_family_of_the_correction() -> None:
    mine, theirs = figures(0, 0.1), figures(1)
    assert str(compare(mine, theirs)).endswith("Holm-corrected over these 4 rows")


def test_each_row_is_scipys_test_corrected_over_all_rows() -> None:
    mine, theirs = figures(0, 0.1), figures(1)
    comparison = compare(mine, theirs)
    keys = [(r.protocol, r.metric) for r in comparison.rows]
    assert keys == [(p, m) for p in mine for m in mine[p]]
    raw = [stats.ttest_rel(mine[p][m], theirs[p][m], nan_policy="omit").pvalue for p, m in keys]
    np.testing.assert_allclose([r.p for r in comparison.rows], by_hand(raw), rtol=1e-9)
    assert [r.users for r in comparison.rows] == [40, 40, 38, 40]


def figures_with_gaps() -> tuple[PerUser, PerUser]:
    mine, theirs = figures(0, 0.1), figures(1)
    theirs["tail"]["recall@20"][[3, 7]] = 0.5
    theirs["tail"]["recall@20"][[1, 2]] = math.nan
    return mine, theirs


def test_only_users_that_both_have_are_compared() -> None:
    mine, theirs = figures_with_gaps()
    row = compare(mine, theirs)["tail", "recall@20"]
    both = np.isfinite(mine["tail"]["recall@20"]) & np.isfinite(theirs["tail"]["recall@20"])
    assert row.users == both.sum() == 36
    assert row.mean == pytest.approx(mine["tail"]["recall@20"][both].mean())
    assert row.baseline == pytest.approx(theirs["tail"]["recall@20"][both].mean())


def test_seen_from_the_other_side_signs_turn_and_p_stays() -> None:
    mine, theirs = figures_with_gaps()
    there, back = compare(mine, theirs), compare(theirs, mine)
    for a, b in zip(there.rows, back.rows, strict=True):
        assert (a.protocol, a.metric, a.users) == (b.protocol, b.metric, b.users)
        assert (a.mean, a.baseline) == (b.baseline, b.mean)
        assert a.p == pytest.approx(b.p, rel=1e-12)
        assert (a.low, a.high) == pytest.approx((-b.high, -b.low))
        assert (1 + a.change) * (1 + b.change) == pytest.approx(1)


def test_the_interval_is_around_the_difference_and_matches_the_verdict() -> None:
    mine, theirs = figures(0, 0.3), figures(1)
    for row in compare(mine, theirs).rows:
        assert row.low < row.mean - row.baseline < row.high
        assert row.significant
        assert row.low > 0


def test_a_report_against_itself_shows_no_change() -> None:
    for row in report(figures(0)).compare(report(figures(0))).rows:
        assert (row.change, row.p, row.significant) == (0, 1, False)


def test_metrics_that_only_one_side_has_are_left_out() -> None:
    mine, theirs = figures(0), figures(1)
    del theirs["overall"]["ndcg@20"]
    assert ("overall", "ndcg@20") not in [(r.protocol, r.metric) for r in compare(mine, theirs).rows]


def test_a_comparison_is_json_also_where_the_baseline_is_zero() -> None:
    mine, theirs = figures(0), figures(1)
    theirs["overall"]["recall@20"][:] = 0

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    json.loads(json.dumps(compare(mine, theirs).to_dict()), parse_constant=refuse)


def test_a_row_that_is_not_there_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        compare(figures(0), figures(1))["overall", "recall@7"]


@pytest.mark.parametrize("other", [{"tail_cut": 6}, {"empty": "zero"}, {"test": "b"}, {"users": np.arange(1, 41)}])
def test_reports_that_do_not_mean_the_same_are_not_compared(other: dict[str, Any]) -> None:
    with pytest.raises(AleatorError, match="two reports"):
        report(figures(0)).compare(report(figures(1), **other))


def test_a_comparison_prints_a_line_for_each_row() -> None:
    lines = str(compare(figures(0, 0.3), figures(1))).splitlines()
    assert len(lines) == 1 + 4 + 1
    assert lines[1].endswith("*")
