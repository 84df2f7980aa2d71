"""Popularity shift: the two test parts are what they say, and a cell is measured on its own split."""

from __future__ import annotations

import numpy as np
import pytest

import aleator as al
from aleator.studies.beyond import popularity_shift
from aleator.studies.beyond.control import DIVIDED, POPULARITY
from aleator.studies.beyond.drift import drift, resplit
from aleator.studies.beyond.popularity_shift import WAY
from aleator.studies.methods import Method
from aleator.studies.report.tables import Table
from aleator.studies.workbench import Workbench
from tests.studies.making import record


@pytest.fixture(scope="module")
def skewed() -> al.Split:
    data = al.simulate(n_users=300, n_items=60, per_user=120, skew=1.0, seed=1).interactions
    return data.split(valid=0.0, test=0.2, seed=0)


def test_one_test_part_is_even_over_items_and_the_other_follows_popularity(skewed: al.Split) -> None:
    even, popular = (resplit(skewed, way, 0) for way in popularity_shift.WAYS)
    assert np.bincount(even.test.item).std() < 0.5 * np.bincount(popular.test.item, minlength=60).std()
    assert drift(popular)["popularity_correlation"] > 0.8
    assert drift(even)["popularity_correlation"] < drift(popular)["popularity_correlation"]
    for made in (even, popular):
        assert made.everything.together(made.test).fingerprint == skewed.everything.together(skewed.test).fingerprint
    assert (even.valid_by, popular.valid_by) == ("balanced", "random"), "validation looks like the test"
    assert resplit(skewed, "balanced", 1).test.fingerprint != even.test.fingerprint
    assert resplit(skewed, "balanced", 0).test.fingerprint == even.test.fingerprint


def test_a_cell_is_measured_on_its_own_split(skewed: al.Split) -> None:
    bench = Workbench("tiny", skewed, quick=True, device="cpu", plain=True)
    row = popularity_shift.measure(bench, Method("Popularity", {WAY: "balanced"}))
    split = resplit(skewed, "balanced", 0)
    report = al.evaluate(al.Popularity().fit(split), split)
    assert row["metrics"]["overall"]["recall@20"] == report.mean("overall", "recall@20")
    assert row["against"]["method"] == "MF"
    control = popularity_shift.measure(bench, Method("MF", {WAY: "balanced", DIVIDED: POPULARITY}))
    (test,) = (
        test for test in control["against"]["tests"] if (test["protocol"], test["metric"]) == ("overall", "recall@20")
    )
    bare = popularity_shift.measure(bench, Method("MF", {WAY: "balanced"}))
    assert test["baseline"] == bare["metrics"]["overall"]["recall@20"]
    assert "against" not in bare


def test_each_way_has_a_table_and_the_control_its_name() -> None:
    metrics = {p: {"recall@20": 0.1, "recall@50": 0.2} for p in ("overall", "tail_absolute", "tail_relative")}
    way = {"chosen": {}, "drift": {"popularity_correlation": 0.5}, "tail": ""}
    rows = [
        record(method="MF", settings=own, metrics=metrics, ways={own[WAY]: way})
        for own in ({WAY: "balanced"}, {WAY: "balanced", DIVIDED: POPULARITY}, {WAY: "random"})
    ]
    even, popular = popularity_shift.show(rows)
    assert isinstance(even, Table)
    assert isinstance(popular, Table)
    assert [line[0] for line in even.rows] == ["MF", "MF / popularity^a"]
    assert "even over items" in even.caption
    assert [line[0] for line in popular.rows] == ["MF"]
