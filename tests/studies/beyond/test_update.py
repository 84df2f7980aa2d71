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
    table = update.show(rows)[0]
    assert isinstance(table, Table)
    assert [line[:2] for line in table.rows] == [
        ["Popularity", "fitted again"],
        ["MF", "stale"],
        ["MF", "updated"],
        ["MF", "fitted again"],
    ]
