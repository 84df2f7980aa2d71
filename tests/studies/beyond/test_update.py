"""The study of updates: which rows its table has."""

from __future__ import annotations

import aleator as al
from aleator.studies.beyond import update
from aleator.studies.methods import Method
from aleator.studies.report.tables import Table
from aleator.studies.workbench import Workbench
from tests.studies.making import record


def test_random_and_popularity_stand_beside_three_ways_to_serve_late_pairs(split: al.Split) -> None:
    bench = Workbench("made", split, quick=True)
    rows = [
        record(method=name, metrics=update.measure(bench, Method(name))["metrics"]) for name in ("Popularity", "MF")
    ]
    small, large = update.show(rows)
    assert isinstance(small, Table)
    assert isinstance(large, Table)
    shown = [["Popularity", "fitted again"], ["MF", "stale"], ["MF", "updated"], ["MF", "fitted again"]]
    assert [line[:2] for line in small.rows] == shown
    assert [line[:2] for line in large.rows] == [*shown[:3], ["MF", "updated in 10 steps"], shown[3]]


def test_steps_hold_each_late_pair_once_and_the_earliest_first() -> None:
    data = al.Interactions.of([1, 2, 3, 4, 5, 6, 7], list("abcabca"), time=[5, 3, 7, 1, 6, 2, 4])
    parts = update.steps(data, 3, seed=0)
    assert [part.time.tolist() for part in parts if part.time is not None] == [[1, 2, 3], [4, 5], [6, 7]]
    assert parts[0].users.decode(parts[0].user).tolist() == [4, 6, 2]
    unknown = update.steps(al.Interactions.of([1, 2, 3, 4], list("abca")), 2, seed=0)
    assert sorted(int(user) for part in unknown for user in part.users.ids) == [1, 2, 3, 4]
