"""Does the uncertainty find mislabelled pairs: the measures, and a small world in which it does."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import aleator as al
from aleator.data.simulate import simulate
from aleator.recommender import as_split
from aleator.studies.beyond import mislabelled
from aleator.studies.beyond.mislabelled import average_precision, liked, measure, parts_of
from aleator.studies.methods import Method
from aleator.studies.records import Record
from aleator.studies.report.cells import DOWN
from aleator.studies.report.tables import Table
from aleator.studies.workbench import Workbench
from tests.studies.making import record

METRICS = ("auroc", "average_precision")


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=1, max_size=40))
def test_average_precision_is_that_of_its_definition(pairs: list[tuple[bool, int]]) -> None:
    label, score = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
    if label.any():
        precision = [label[score >= s].mean() for s in score[label]]
        assert average_precision(label, score) == pytest.approx(np.mean(precision))


def test_the_uncertainty_finds_mislabelled_pairs_in_a_small_world() -> None:
    world = simulate(n_users=500, n_items=250, per_user=120, skew=0.5, seed=0)
    bench = Workbench("world-mild", as_split(world.interactions), world=world)
    found = measure(bench, Method("MF-AUR", {"model.dim": 16, "estimator.dim": 64}))["metrics"]["auroc"]
    known = {name: value for name, value in found.items() if value is not None}
    assert known["uncertainty"] > known["popularity"] + 0.02
    assert known["uncertainty"] > known["random"] + 0.1
    assert known["blend"] > known["expectation"] - 0.005
    assert abs(known["random"] - 0.5) < 0.02


def test_scores_of_pairs_are_those_of_the_blocks(split: al.Split, small_aur: object) -> None:
    aur: al.AUR = small_aur().fit(split)  # type: ignore[operator]
    user, item = np.array([3, 0, 3, 79]), np.array([1, 2, 0, 49])
    with torch.no_grad():
        users = aur.histories.batch(torch.arange(80))
        blocks = aur.expectation(users), aur.estimator.log_variance(users), aur.score_block(users)
    for made, block in zip(parts_of(aur, user, item), blocks, strict=True):
        np.testing.assert_allclose(made, block.numpy()[user, item], rtol=1e-6)


def test_differences_are_those_of_each_seed_and_marked_where_their_interval_leaves_out_0() -> None:
    def cell(seed: int, uncertainty: float, expectation: float, way: str = "for the blend") -> Record:
        scores = {
            "uncertainty": uncertainty,
            "expectation": expectation,
            "blend": 0.5,
            "popularity": 0.5,
            "random": 0.5,
        }
        metrics, settings = dict.fromkeys(METRICS, scores), mislabelled.WAYS[way]
        return record(method="MF-AUR", seed=seed, liked=0.2, metrics=metrics, settings=settings)

    rows = [cell(0, 0.6, 0.7), cell(1, 0.8, 0.92)]
    rows += [cell(0, 0.5, 0.7, "no model"), cell(1, 0.9, 0.92, "no model")]
    table = mislabelled.show(rows)[0]
    assert isinstance(table, Table)
    blend, control = (dict(zip(table.columns, line, strict=True)) for line in table.rows)
    assert (blend["estimator"], control["estimator"]) == ("for the blend", "no model")
    assert str(blend["against no model"]).startswith("+0.0000 ±")
    assert blend["against expectation"] == "-0.1100 ±0.1271"
    assert str(blend["against popularity"]).split()[0] == "+0.2000"
    assert control["against no model"] is None, "it is that row itself"
    more = mislabelled.show([*rows, cell(2, 0.7, 0.81)])[0]
    assert isinstance(more, Table)
    assert dict(zip(more.columns, more.rows[0], strict=True))["against expectation"] == f"-0.1100 ±0.0248 {DOWN}"


def test_what_was_rated_low_is_not_trained_on() -> None:
    train = al.Interactions.of([0, 0, 1], [0, 1, 1], rating=[5, 2, 4])
    test = train.take(np.zeros(3, bool))
    made = liked(al.Split(train, test, test))
    assert sorted(zip(made.train.user.tolist(), made.train.item.tolist(), strict=True)) == [(0, 0), (1, 1)]
