"""Running a study: one process measures a cell."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from aleator.studies import records
from aleator.studies.methods import Method
from aleator.studies.records import Measured
from aleator.studies.study import Study, run
from aleator.studies.workbench import Workbench

CONVENTIONS = {"data": "abc", "recipe": "ours", "tail": "mass:0.5", "empty": "skip"}
BENCH = cast(
    Workbench,
    SimpleNamespace(
        dataset="d",
        seed=0,
        quick=False,
        world=None,
        device="cpu",
        seconds={},
        recipe=SimpleNamespace(name="ours"),
        conventions=lambda: CONVENTIONS,
        tuned=lambda method: {},
    ),
)


def test_a_cell_that_another_process_measures_is_passed_over(tmp_path: Path) -> None:
    """A run inside the measurement of a cell stands for the other process: its lock is another one."""
    methods, said, measured = [Method("Random"), Method("Popularity")], list[str](), list[str]()

    def measure(bench: Workbench, method: Method) -> Measured:
        measured.append(method.name)
        if len(measured) == 1:
            run(study, bench, tmp_path, say=said.append)
        return {"metrics": {"overall": {"recall@20": 0.5}}, "config": {}}

    study = Study("s", "title", "question", lambda bench: methods, measure, lambda rows: [])
    run(study, BENCH, tmp_path, say=said.append)
    rows: Any = records.read(study.file(tmp_path, "d"))
    assert [row["method"] for row in rows] == ["Popularity", "Random"]  # each once
    assert measured == ["Random", "Popularity"]
    assert sum("another process measures it" in line for line in said) == 2
    assert [path.name for path in study.file(tmp_path, "d").parent.iterdir()] == ["d.jsonl"]  # no lock is left
