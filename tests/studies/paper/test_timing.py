"""What is counted and what is timed. How long it takes is not tested."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

import aleator as al
from aleator.studies import study
from aleator.studies.methods import Method
from aleator.studies.paper import timing
from aleator.studies.published import published
from aleator.studies.records import Record
from aleator.studies.report.tables import Table
from aleator.studies.workbench import Workbench

ITEMS, TRAIN, TEST = 91_599, 2_380_730, 603_378  # Amazon-Book
MODELS = {"MF": al.MF(dim=128), "LGCN": al.LightGCN(dim=128, layers=3), "VAE": al.MultVAE(hidden=1024, dim=512)}


@pytest.fixture(scope="module")
def bench(split: al.Split) -> Workbench:
    return Workbench("tiny", replace(split, name="tiny"), device="cpu", quick=True)


@pytest.fixture(scope="module")
def rows(bench: Workbench, tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    out = tmp_path_factory.mktemp("results")
    study.run(timing.STUDY, bench, out, say=lambda line: None)
    return timing.STUDY.rows(out, "tiny")


@pytest.mark.parametrize("name", MODELS)
def test_the_formulas_give_the_printed_digits(name: str) -> None:
    counted = timing.model_macc(MODELS[name], ITEMS, TRAIN + TEST) / 1e6
    assert round(counted, 1) == published("time", "amazon-book")[name]["cost"]["macc_1e6"]


def test_training_pairs_alone_do_not_give_the_printed_digits_of_lightgcn() -> None:
    assert round(timing.model_macc(MODELS["LGCN"], ITEMS, TRAIN) / 1e6, 1) == 68.9


def test_options_move_the_formulas() -> None:
    assert timing.model_macc(al.MF(dim=8), 10, 100) == 80
    assert timing.model_macc(al.LightGCN(dim=8, layers=2), 10, 320) == 80 + 2 * 2 * 320 * 8 / 32
    assert timing.model_macc(al.MultVAE(hidden=4, dim=3), 10, 100) == 10 * 4 + 4 * 2 * 3 + 3 * 4 + 4 * 10
    assert timing.estimator_macc(al.FactorEstimator(dim=8), 10, 2.5) == 100


@pytest.mark.parametrize("name", ["MF-AUR", "LGCN-AUR"])
def test_as_many_epochs_are_timed_as_were_asked_for(bench: Workbench, name: str) -> None:
    system = bench.make(Method(name))
    assert isinstance(system, al.AUR)
    model, estimator = timing.epoch_seconds(system, bench.split.everything, 4)
    assert len(model) == len(estimator) == 4
    assert min(estimator) > 0
    log = system.estimator.log
    assert log is not None
    assert len(log.seconds) == 5  # one is not counted
    assert not any("metric" in row for row in log.rows)  # there was no validation


def test_a_sweep_is_what_more_sweeps_take_longer(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, model = [0.0], al.MF(dim=4, iterations=7)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])

    def fit_pairs(self: al.MF, data: al.Interactions) -> None:
        clock[0] += 10 + 2 * self.iterations  # ten for what every fit does

    monkeypatch.setattr(al.MF, "fit_pairs", fit_pairs)
    assert timing.sweep_seconds(model, bench.split.train, 3) == [2.0, 2.0, 2.0]
    assert model.iterations == 7


def test_a_record_for_each_model(rows: list[Record]) -> None:
    assert [row["method"] for row in rows] == ["MF-AUR", "LGCN-AUR", "VAE-AUR"]
    assert [row["solver"] for row in rows] == ["als by conjugate gradients", "adam", "adam"]
    for row in rows:
        assert row["epochs"] == 3
        assert row["config"]["model"]["options"]["seed"] == 0
        assert set(row["metrics"]["cost"]) == {
            *("macc_1e6", "estimator_macc_1e6"),
            *("model_seconds", "model_half_width", "estimator_seconds", "estimator_half_width"),
        }
    json.dumps(rows, allow_nan=False)


def test_the_table_names_the_machine(rows: list[Record]) -> None:
    (table,) = timing.show(rows)
    assert isinstance(table, Table)
    assert [line[0] for line in table.rows] == ["MF", "LGCN", "VAE"]
    assert "RTX 2080 Ti" in table.caption
    assert rows[0]["machine"]["device"] in table.caption
    assert not any("published" in head for head in table.columns)
    assert all(len(line) == len(table.columns) for line in table.rows)


def test_published_figures_stand_beside_amazon_book(rows: list[Record]) -> None:
    (table,) = timing.show([row | {"dataset": "amazon-book"} for row in rows])
    assert isinstance(table, Table)
    assert all(len(line) == len(table.columns) for line in table.rows)
    assert "83.3" in table.rows[1]
    assert "125.37" in table.rows[1]
