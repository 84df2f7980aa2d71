"""Default options: the control is chosen by the rule of lam, and the tables begin with what fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import aleator as al
from aleator.aur.choice import DISCOUNTS, choose
from aleator.studies import records
from aleator.studies.beyond import default
from aleator.studies.beyond.control import ByPopularity, by_popularity
from aleator.studies.methods import DEFAULT, FLOORS, Method
from aleator.studies.report.cells import DOWN, UP
from aleator.studies.study import run
from aleator.studies.workbench import Workbench
from tests.studies.making import record


def test_the_control_divides_scores_by_a_power_of_popularity(split: al.Split) -> None:
    model = al.MF(dim=4).fit(split)
    users = model.histories.batch(torch.arange(5))
    plain, scores = model.score_block(users), ByPopularity(model, 0.3).score_block(users)
    popularity = np.maximum(split.everything.popularity, 1)
    np.testing.assert_allclose(scores.numpy(), plain.numpy() / popularity**0.3, rtol=1e-5)
    some = torch.tensor([7, 3])
    torch.testing.assert_close(ByPopularity(model, 0.3).score_block(users, some), scores[:, some])
    report = al.evaluate(ByPopularity(model, 0.0), split)
    assert report.to_dict()["overall"] == al.evaluate(model, split).to_dict()["overall"]


@pytest.mark.parametrize("select", ["balanced", "overall"])
def test_the_power_is_chosen_on_validation_by_the_rule_of_lam_and_the_model_is_refitted(
    split: al.Split, select: Any
) -> None:
    control = by_popularity(al.MF(dim=4), split, select)
    assert control.model.fitted.fingerprint == split.everything.fingerprint
    judged = al.MF(dim=4)
    judged.fit_pairs(split.train, judged.hold_out(split.train, split.valid))
    tail = torch.from_numpy(al.Tail.mass(0.5).mask(split.everything.popularity))
    held_out = judged.hold_out(split.train, split.valid, tail=tail)
    scorings = [ByPopularity(judged, a) for a in DISCOUNTS]
    measured = held_out.measure(lambda users: [each.score_block(users) for each in scorings])
    assert DISCOUNTS[-1] == 0
    assert control.choice == choose(measured, [(a, [1.0]) for a in DISCOUNTS], select)
    assert control.a == control.choice.discount


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of a tiny dataset."""
    data = al.simulate(n_users=120, n_items=60, per_user=60, skew=0.7, seed=1).interactions
    bench = Workbench("ml-100k", data.split(valid=0.0, test=0.2, seed=0), quick=True, device="cpu")
    out = tmp_path_factory.mktemp("results")
    _, failed = run(default.STUDY, bench, out, say=lambda line: None)
    assert failed == []
    return out


def test_a_cell_has_the_bare_model_the_control_and_aur_without_tuned_options(found: Path) -> None:
    rows = default.STUDY.rows(found, "ml-100k")
    assert [row["method"] for row in rows] == [*FLOORS, "MF-AUR", "MF-AUR", "FISM-AUR", DEFAULT, DEFAULT]
    for row in rows[len(FLOORS) :]:
        assert row["tuned"] == {}, "ml-100k has a file of options, which is not used"
        assert row["control"]["a"] in DISCOUNTS
        assert row["model"] in ("MF", "FISM")
        for test in row["against"]["tests"]:
            protocol, metric = test["protocol"], test["metric"]
            assert test["mean"] == row["metrics"][protocol][metric]
            assert test["baseline"] == row["bare"][protocol][metric]
            if (row["chosen"]["lam"], row["chosen"]["discount"], row["chosen"]["prior"]) == (1, 0, 0):
                assert test["p"] == 1
    assert rows[-1]["settings"] == {"select": "overall"}


def test_the_bare_model_is_that_of_default_options(found: Path) -> None:
    (row,) = (row for row in default.STUDY.rows(found, "ml-100k") if row["method"] == "FISM-AUR")
    data = al.simulate(n_users=120, n_items=60, per_user=60, skew=0.7, seed=1).interactions
    split = data.split(valid=0.0, test=0.2, seed=0)
    bench = Workbench("ml-100k", split, quick=True, device="cpu", plain=True)
    report = al.evaluate(bench.make(Method("FISM")).fit(split), split)
    assert row["bare"]["overall"]["recall@20"] == pytest.approx(report.mean("overall", "recall@20"))


def cell(method: str, lam: float, values: dict[str, tuple[float, float]], seed: int = 0, **more: Any) -> records.Record:
    """A record with (difference, p) of each metric; the bare model has 0.1 everywhere."""
    metrics: dict[str, Any] = {"overall": {}, "tail_absolute": {}}
    bare: dict[str, Any] = {"overall": {}, "tail_absolute": {}}
    tests = []
    for shown, (protocol, metric) in default.SHOWN.items():
        difference, p = values.get(shown, (0.0, 1.0))
        metrics[protocol][metric], bare[protocol][metric] = 0.1 + difference, 0.1
        tests.append({"protocol": protocol, "metric": metric, "mean": 0.1 + difference, "baseline": 0.1, "p": p})
    control = {"a": 0.2, "metrics": bare}
    made = {"metrics": metrics, "bare": bare, "control": control, "against": {"method": "", "tests": tests}}
    return record(method=method, chosen={"lam": lam, "discount": 0.0, "prior": 0.0}, seed=seed, **made, **more)


def test_what_fails_comes_first_and_cells_at_lam_1_stand_apart() -> None:
    gain = {"Recall@20": (0.01, 1e-9), "NDCG@20": (0.01, 1e-9), "tail Recall@50": (0.02, 1e-9)}
    rows = [
        cell("MF-AUR", 0.5, gain),
        cell("EASE-AUR", 0.6, {"NDCG@20": (-0.01, 1e-9)}),
        cell("VAE-AUR", 1.0, {}),
        cell(DEFAULT, 0.5, gain),
    ]
    fails, blended, bare, whole = default.tables(rows)
    assert [line[1] for line in fails.rows] == ["EASE-AUR"]
    assert [line[1] for line in blended.rows] == ["MF-AUR", "EASE-AUR"]
    assert "above that of the bare model in 1 of 2" in blended.caption
    assert "all three metrics in 1" in blended.caption, (
        "the control is the bare model here, which EASE-AUR is not above"
    )
    assert [line[1] for line in bare.rows] == ["VAE-AUR"]
    assert [line[1] for line in whole.rows] == [DEFAULT]
    assert str(blended.rows[0][7]) == f"0.1100 (+10.0%) {UP}"
    assert str(fails.rows[0][10]) == f"0.0900 (-10.0%) {DOWN}"
    nothing = default.tables(rows[:1])[0]
    assert (nothing.rows, "There are none." in nothing.caption) == ([], True)


def test_the_correction_is_over_all_cells_of_all_datasets_for_each_seed() -> None:
    loss = {"Recall@20": (-0.01, 0.02)}
    assert default.by_cell([cell("MF-AUR", 0.5, loss)])[0].fails
    others = [cell("MF-AUR", 0.5, {}, dataset=name) for name in ("b", "c")]
    assert not default.by_cell([cell("MF-AUR", 0.5, loss), *others])[0].fails, "0.02 times three cells is above 0.05"
    seeds = [cell("MF-AUR", 0.5, loss, seed=seed) for seed in range(3)]
    (one,) = default.by_cell(seeds)
    assert one.fails, "other seeds are not other cells"
    mixed = [cell("MF-AUR", 0.5, loss), cell("MF-AUR", 1.0, {}, seed=1)]
    (one,) = default.by_cell(mixed)
    assert one.fails, "one seed is enough"
    assert not one.bare_everywhere


def test_all_datasets_together(found: Path) -> None:
    tables = default.together(found)
    assert {line[0] for table in tables for line in table.rows} == {"ml-100k"}
    assert [line[1] for line in tables[-1].rows] == [*FLOORS]
    assert "ml-100k" in tables[0].caption
