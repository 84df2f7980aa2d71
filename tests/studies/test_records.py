"""Records: what tells cells apart, and that every record ever kept can still be read."""

from __future__ import annotations

from pathlib import Path
from typing import NotRequired, get_origin, get_type_hints

import pytest

from aleator.studies import records
from aleator.studies.records import Record
from tests.studies.making import record

RESULTS = Path(__file__).parents[2] / "results"
HINTS = get_type_hints(Record, include_extras=True)
REQUIRED = {name for name, hint in HINTS.items() if get_origin(hint) is not NotRequired}
FILES = sorted(file for file in RESULTS.glob("*/*.jsonl") if file.parent.name != "performance")


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_records_that_were_kept_still_load(file: Path) -> None:
    rows = records.read(file)
    assert len(rows) == len(file.read_text().splitlines())
    for row in rows:
        assert row.keys() >= REQUIRED, f"it lacks {REQUIRED - row.keys()}"
        assert row.keys() - {"seconds_evaluating"} <= HINTS.keys()  # the joint study of old kept that one
    assert len(records.latest(rows)) <= len(rows)


def test_a_cell_is_its_method_options_recipe_and_seed() -> None:
    cells = [
        record(),
        record(seed=1),
        record(method="MF-AUR"),
        record(recipe="paper"),
        record(part="front"),
        record(settings={"alpha": 2.0}),
        record(quick=True),
    ]
    assert len({records.key(row) for row in cells}) == len(cells)
    assert records.key(record(settings={})) == records.key(record(seconds=9.0))


def test_other_data_and_other_options_make_another_record_of_the_same_cell() -> None:
    first, data, tuned = record(data="a"), record(data="b"), record(data="a", tuned={"model": {"dim": 8}})
    assert len({records.key(row) for row in (first, data, tuned)}) == 1
    assert len({records.made_of(row) for row in (first, data, tuned)}) == 3
    assert records.latest([first, data, tuned]) == [tuned]


def test_what_was_appended_is_read_without_what_json_lacks(tmp_path: Path) -> None:
    file = tmp_path / "new" / "records.jsonl"
    records.append(file, record(metrics={"overall": {"recall@20": float("nan"), "ndcg@20": 0.5}}))
    with file.open("a") as torn:
        torn.write('{"study": "ma')
    records.append(file, record(seed=1))
    first, second = records.read(file)
    assert first["metrics"] == {"overall": {"recall@20": None, "ndcg@20": 0.5}}
    assert second["seed"] == 1
    assert records.read(tmp_path / "nothing.jsonl") == []
