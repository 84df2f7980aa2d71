"""The leaderboard: its rows are whole, stand beside the same split only, and say what they were chosen on."""

from __future__ import annotations

import pytest

import aleator as al
from aleator.studies.beyond.leaderboard import STUDY, board, show
from aleator.studies.report.tables import Table
from aleator.studies.workbench import Workbench
from tests.studies.making import record


def test_the_rows_are_whole_and_of_known_splits() -> None:
    found = board()
    assert "reczoo/BARS" in found["source"]
    assert "2026" in found["source"], "with its date"
    for row in found["rows"]:
        assert row["dataset"] in found["splits"]
        assert row["run"] in ("BARS", "elsewhere")
        assert 0 < row["recall@20"] < row.get("recall@50", 1) <= 1
        assert 0 < row["ndcg@20"] < row.get("ndcg@50", 1) <= 1
    places = [(row["dataset"], row["model"]) for row in found["rows"]]
    assert len(set(places)) == len(places)
    (simplex,) = (row for row in found["rows"] if (row["dataset"], row["model"]) == ("yelp2018", "SimpleX"))
    assert (simplex["recall@20"], simplex["ndcg@20"]) == (0.0701, 0.0575)


@pytest.mark.parametrize(("dataset", "shared"), [("yelp2018", True), ("gowalla", True), ("amazon-book-kgat", False)])
def test_only_the_same_split_is_compared(dataset: str, shared: bool, split: al.Split) -> None:
    assert STUDY.applies(Workbench(dataset, split)) is shared


def test_ours_stand_among_the_others_by_recall_and_all_say_what_they_were_chosen_on() -> None:
    metrics = {"overall": {"recall@20": 0.0700, "recall@50": 0.13, "ndcg@20": 0.058, "ndcg@50": 0.08}}
    (table,) = show([record(dataset="yelp2018", method="AUR", settings={"select": "overall"}, metrics=metrics)])
    assert isinstance(table, Table)
    names = [line[0] for line in table.rows]
    place = names.index("AUR, select overall")
    assert names[place - 1 : place + 2] == ["SimpleX (2021)", "AUR, select overall", "MF-CCL (2021)"]
    chosen = {str(line[0]): line[6] for line in table.rows}
    assert chosen["AUR, select overall"] == "validation"
    assert chosen["SimpleX (2021)"] == "test"
    assert chosen["GF-CF (2021)"] == "as printed"
    assert all(len(line) == len(table.columns) for line in table.rows)
    assert "yelp18_m1" in table.caption
    assert not any("gowalla" in str(cell) for line in table.rows for cell in line)
