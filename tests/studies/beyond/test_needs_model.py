"""What the estimator's ranking needs: each control is what it says, and is tested against the right reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import aleator as al
from aleator.ranking.blend import Spreads
from aleator.studies.beyond import needs_model
from aleator.studies.beyond.control import DIVIDED, LENGTH, POPULARITY, ByCosine, SecondModel, accuracy_divided
from aleator.studies.beyond.default import SHOWN
from aleator.studies.methods import Method
from aleator.studies.report.cells import DOWN, UP
from aleator.studies.report.tables import Table
from aleator.studies.workbench import Workbench
from aleator.uncertainty.spectral import singular_vectors
from tests.studies.making import record


@pytest.fixture(scope="module")
def bench(split: al.Split) -> Workbench:
    return Workbench("tiny", split, quick=True, device="cpu", plain=True)


@pytest.mark.parametrize("model", [al.MF(dim=4), al.FISM(dim=4, max_epochs=2)], ids=lambda model: type(model).__name__)
def test_cosine_ranks_by_item_vectors_of_length_1(model: al.Model, split: al.Split) -> None:
    model.fit(split)
    users = model.histories.batch(torch.arange(5))
    factors = model.factors(users)
    assert factors is not None
    x, y = factors
    expected = x @ (y / y.norm(dim=1, keepdim=True).clamp_min(1e-12)).T
    torch.testing.assert_close(ByCosine(model).score_block(users), expected)
    some = torch.tensor([7, 3])
    torch.testing.assert_close(ByCosine(model).score_block(users, some), expected[:, some])


def test_a_model_without_vectors_has_no_cosine(split: al.Split) -> None:
    model = al.EASE().fit(split)
    with pytest.raises(al.AleatorError, match="no item vectors"):
        ByCosine(model).score_block(model.histories.batch(torch.arange(2)))


def test_a_second_model_takes_the_place_of_s_in_the_same_blend(split: al.Split) -> None:
    second = al.EASE().fit(split)
    about: dict[str, Any] = {"residuals": "in-sample", "unobserved": "model"}
    aur = al.AUR(al.MF(dim=4), estimator=SecondModel(second=second), **about).fit(split)
    users = aur.histories.batch(torch.arange(8))
    other = al.EASE(l2=second.chosen["l2"]).fit(split).score_block(users)
    torch.testing.assert_close(aur.at(0.0).blended.raw(users)[1], other, msg="it is refitted on all training pairs")
    r = al.MF(dim=4).fit(split).score_block(users)
    assert isinstance(aur.spreads, Spreads)
    of_r, of_s = aur.spreads.shares
    torch.testing.assert_close(aur.at(0.3).score_block(users), 0.3 * of_r * r + 0.7 * of_s * other)
    assert aur.choice is not None
    assert aur.lam_used == aur.choice.lam


def test_the_untrained_estimator_is_its_spectral_start(bench: Workbench) -> None:
    aur = bench.fit(Method("MF-AUR", needs_model.NOTHING | needs_model.UNTRAINED))
    assert isinstance(aur, al.AUR)
    z = aur.estimator.tensors()["z"]
    vectors, values = singular_vectors(aur.histories, z.shape[1], torch.Generator().manual_seed(bench.seed))
    table = vectors * values.sqrt()
    scale = z.norm() / table.norm()
    torch.testing.assert_close(z[:, : table.shape[1]].abs(), scale * table.abs(), rtol=1e-3, atol=1e-4)


def test_every_cell_has_a_name_in_the_tables(split: al.Split) -> None:
    whole = Workbench("tiny", split)
    keys = [method.key for method in needs_model.cells(whole)]
    assert len(set(keys)) == len(keys)
    assert set(keys) == needs_model.LABELS.keys()
    assert {method.name for method in needs_model.cells(whole)} == {
        "Random",
        "Popularity",
        "MF",
        "MF-AUR",
        "FISM",
        "FISM-AUR",
    }


def test_a_cell_is_tested_against_the_bare_model_and_against_divided_scores(bench: Workbench) -> None:
    bare, control, cosine = (
        needs_model.measure(bench, Method("MF", own)) for own in ({}, {DIVIDED: POPULARITY}, {DIVIDED: LENGTH})
    )
    assert {test["p"] for test in bare["against"]["tests"]} == {1.0}, "against itself"
    assert {test["p"] for test in control["against_control"]["tests"]} == {1.0}
    row = needs_model.measure(bench, Method("MF-AUR", needs_model.OBSERVED))
    for told, other in (("against", bare), ("against_control", control)):
        tests: Any = row[told]["tests"]  # type: ignore[literal-required]
        assert {test["protocol"] for test in tests} == {
            "overall",
            "tail_absolute",
            "alone overall",
            "alone tail_absolute",
        }
        for test in tests:
            protocol, metric = test["protocol"], test["metric"]
            assert test["mean"] == row["metrics"][protocol][metric]
            assert test["baseline"] == other["metrics"][protocol.removeprefix("alone ")][metric]
    aur = bench.fit(Method("MF-AUR", needs_model.OBSERVED))
    assert isinstance(aur, al.AUR)
    alone = al.evaluate(aur.at(0.0), bench.split)
    assert row["metrics"]["alone overall"]["ndcg@20"] == alone.mean("overall", "ndcg@20")
    assert cosine["metrics"]["overall"] != bare["metrics"]["overall"]


def test_the_power_of_a_control_is_told(bench: Workbench) -> None:
    assert 0 <= accuracy_divided(bench, Method("MF", {DIVIDED: POPULARITY}))["chosen"]["a"] <= 0.6


def test_the_tables_show_both_references_and_what_was_measured_so_far() -> None:
    def tests(start: str, mean: float, baseline: float, p: float) -> list[dict[str, Any]]:
        about: dict[str, Any] = {"mean": mean, "baseline": baseline, "p": p}
        return [{"protocol": f"{start}{p}", "metric": m, **about} for p, m in SHOWN.values()]

    def cell(method: str, settings: dict[str, Any], value: float, **more: Any) -> Any:
        metrics: dict[str, Any] = {}
        for protocol, metric in SHOWN.values():
            metrics.setdefault(protocol, {})[metric] = metrics.setdefault(f"alone {protocol}", {})[metric] = value
        return record(method=method, settings=settings, metrics=metrics, **more)

    aur = cell(
        "MF-AUR",
        needs_model.NOTHING,
        0.12,
        chosen={"lam": 0.4},
        against={"method": "MF", "tests": tests("", 0.12, 0.1, 0.01) + tests("alone ", 0.12, 0.1, 0.5)},
        against_control={"method": "", "tests": tests("", 0.12, 0.15, 0.01) + tests("alone ", 0.12, 0.15, 0.01)},
    )
    floor = cell("Random", {}, 0.01)
    del floor["metrics"]["alone overall"]
    blended, alone = needs_model.show([aur, floor])
    assert isinstance(blended, Table)
    assert isinstance(alone, Table)
    assert [line[1] for line in blended.rows] == ["(a) AUR, a constant on all pairs: no model", "Random"]
    assert blended.rows[0][2:7] == ["0.40", None, None, f"0.1200 {UP}", f"-20.0% {DOWN}"]
    assert blended.rows[1][6] is None
    assert len(alone.rows) == 1
    assert alone.rows[0][2:4] == ["0.1200", f"-20.0% {DOWN}"]
    assert np.isclose(alone.rows[0][2].value, 0.12)  # type: ignore[union-attr]
