"""The study of grafts: the bare model is the one inside the AUR, and both know the same pairs."""

from __future__ import annotations

import pytest

import aleator as al
from aleator.recipe import RECIPES
from aleator.studies.beyond import grafts
from aleator.studies.elsewhere import LIBRARIES
from aleator.studies.methods import FLOORS, Method
from aleator.studies.report.tables import Table
from aleator.studies.study import header, measured
from aleator.studies.workbench import Workbench


@pytest.fixture(scope="module")
def bench() -> Workbench:
    data = al.simulate(n_users=120, n_items=60, per_user=100, seed=2).interactions
    return Workbench("tiny", data.split(valid=0.0, test=0.2, seed=0), recipe=RECIPES["ours"], quick=True, device="cpu")


def test_the_bare_model_is_that_of_the_library(bench: Workbench) -> None:
    method = Method("implicit-als-AUR", grafts.SETTING)
    row = grafts.measure(bench, method)
    bare = bench.make(method.bare, bench.split_for(method)).fit(bench.split_for(method))
    expected = al.evaluate(bare, bench.split).mean("overall", "recall@20")
    assert row["bare"]["overall"]["recall@20"] == pytest.approx(expected, rel=0.02)
    assert row["library"].startswith("implicit ")
    assert row["control"]["metrics"]["overall"]["recall@20"] is not None


def test_there_is_a_cell_for_each_library_that_is_installed(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aleator.studies.elsewhere.libraries.util.find_spec", lambda name: name == "pyspark" or None)
    assert [method.name for method in grafts.cells(bench)] == [*FLOORS, "spark-als-AUR"]
    assert {library.name for library in LIBRARIES.values()} == {"implicit", "lenskit", "cornac", "rectools", "pyspark"}


def test_the_table_names_the_library(bench: Workbench) -> None:
    method = Method("implicit-bpr-AUR", grafts.SETTING)
    row = measured(grafts.STUDY, bench, method, header(grafts.STUDY, bench, method))
    (table,) = (block for block in grafts.show([row]) if isinstance(block, Table))
    assert list(table.rows[0])[:2] == ["implicit-bpr-AUR", row["library"]]
