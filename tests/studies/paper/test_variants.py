"""Variants: the learning rate of joint training is chosen on held-out pairs, not by the test figures."""

from __future__ import annotations

from typing import Any

import pytest

import aleator as al
from aleator.studies.paper import variants
from aleator.studies.records import Record
from aleator.studies.report.tables import Table
from aleator.studies.workbench import Workbench
from tests.studies.making import record


def cell(lr: float, held_out: float, test: float, seed: int = 0) -> Record:
    metrics = {p: {"recall@20": test, "recall@50": test} for p in ("overall", "tail_absolute")}
    validation = {"recall@20": held_out, "ndcg@20": held_out}
    return record(method="MF-AUR-J", settings={"joint.lr": lr}, metrics=metrics, validation=validation, seed=seed)


def test_the_rate_is_chosen_on_held_out_pairs_in_each_seed() -> None:
    rows = [cell(1e-4, 0.1, 0.9), cell(1e-3, 0.2, 0.5), cell(1e-4, 0.2, 0.7, seed=1), cell(1e-3, 0.1, 0.9, seed=1)]
    chosen = variants.best_rates(rows)
    assert [(row["seed"], row["metrics"]["overall"]["recall@50"]) for row in chosen] == [(0, 0.5), (1, 0.7)]
    overall, _, rates = variants.show(rows)
    assert isinstance(overall, Table)
    assert isinstance(rates, Table)
    assert [str(line[0]) for line in overall.rows] == ["MF-AUR-J"]
    assert [line[:4] for line in rates.rows] == [
        ["MF-AUR-J", "0.0001", pytest.approx(0.15), pytest.approx(0.15)],
        ["MF-AUR-J", "0.001", pytest.approx(0.15), pytest.approx(0.15)],
    ]


def test_methods_without_a_rate_stay_as_they_are() -> None:
    metrics = {p: {"recall@20": 0.1, "recall@50": 0.1} for p in ("overall", "tail_absolute")}
    rows = [record(method=name, metrics=metrics, seed=seed) for name in ("MF-AUR", "UE") for seed in (0, 1)]
    assert [(row["method"], row["seed"]) for row in variants.best_rates(rows)] == [
        ("MF-AUR", 0),
        ("MF-AUR", 1),
        ("UE", 0),
        ("UE", 1),
    ]
    assert len(variants.show(rows)) == 2


def test_each_rate_is_a_cell_with_its_held_out_figures(split: al.Split) -> None:
    bench = Workbench("tiny", split, quick=True, device="cpu")
    methods = [method for method in variants.cells(bench) if method.name == "MF-AUR-J"]
    assert [method.settings["joint.lr"] for method in methods] == list(variants.LRS)
    rows: list[Any] = [variants.measure(bench, method) for method in (methods[0], methods[-1])]
    for row, lr in zip(rows, (variants.LRS[0], variants.LRS[-1]), strict=True):
        assert row["config"]["joint"]["lr"] == lr
        assert 0 < row["validation"]["recall@20"] < 1
        assert row["against"]["method"] == "MF"
