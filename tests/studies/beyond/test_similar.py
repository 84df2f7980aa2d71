"""The study of similar items: its steps in time, and figures against lists made by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

import aleator as al
from aleator.studies.beyond import similar
from aleator.studies.beyond.similar import Steps
from aleator.studies.methods import Method
from aleator.studies.workbench import Workbench


@pytest.fixture(scope="module")
def timed() -> al.Split:
    world = al.simulate(n_users=80, n_items=50, per_user=120, skew=0.5, seed=1).interactions
    time = np.random.default_rng(0).permutation(len(world))
    data = al.Interactions.of(world.user, world.item, time=time)
    return data.split(valid=0.1, test=0.2, by="user_time", seed=0)


def test_steps_lead_from_a_held_out_item_to_the_next_one_of_the_user(timed: al.Split) -> None:
    made = similar.cut(timed, 0)
    assert made.train.n_items == timed.train.n_items
    assert len(made.train) + len(made.test) == len(timed.everything), "the test part is not used"
    steps, held = Steps.of(made, 0), made.test
    assert held.time is not None
    wanted = []
    for user in np.unique(held.user):
        own = held.user == user
        items = held.item[own][np.argsort(held.time[own])].tolist()
        wanted += [(user, *step) for step in pairwise(items)]
    assert sorted(zip(steps.user, steps.item, steps.then, strict=True)) == sorted(wanted)


def test_without_times_a_random_other_held_out_item_is_the_next(split: al.Split) -> None:
    made = similar.cut(split, 0)
    one, other = Steps.of(made, 0), Steps.of(made, 1)
    assert one.then.tolist() != other.then.tolist()
    pairs = set(zip(made.test.user, made.test.item, strict=True))
    assert {*zip(one.user, one.item, strict=True)} | {*zip(one.user, one.then, strict=True)} <= pairs


def test_figures_are_means_over_users_of_hits_in_the_lists() -> None:
    steps = Steps(*(np.array(each) for each in ([0, 0, 5], [1, 1, 2], [3, 4, 4])))
    near = torch.zeros(6, 6)
    near[1, 3], near[1, 4], near[2, 1] = 2.0, torch.nan, 1.0
    trained, tail = torch.tensor([False, True, True, True, True, False]), np.arange(6) >= 4
    items = torch.tensor([1, 2])
    lists = similar.listed(lambda items: near[items], items, trained)
    assert [[j for j in own if j >= 0] for own in lists.tolist()] == [[3, 2], [1, 3, 4]]
    found = similar.figures(lambda items: near[items], steps, trained, tail)
    assert found["recall@20"] == pytest.approx((0.5 + 1) / 2)
    assert found["tail recall@20"] == pytest.approx((0 + 1) / 2)
    assert found["tail share"] == pytest.approx(1 / 5)


def test_the_similarity_of_similar_items_is_among_the_ways(timed: al.Split) -> None:
    model = al.EASE(l2=10.0).fit(timed)
    ways = similar.ways(model)
    listed = similar.listed(ways[similar.USED], torch.tensor([4]), torch.from_numpy(timed.everything.popularity > 0))
    ids = model.fitted.items
    told = ids.encode(model.similar_items(ids.decode([4]), k=20)["similar_item"]).tolist()
    assert listed[0, : len(told)].tolist() == told
    scores = model.score({item: [item] for item in ids.ids.tolist()}).double().numpy()
    over_newcomers = ways["correlation over newcomers"](torch.tensor([4]))[0]
    np.testing.assert_allclose(over_newcomers, np.corrcoef(scores.T)[4], atol=1e-4)
    lists = ways[similar.LIST](torch.tensor([4]))
    assert torch.equal(lists, model.score({"new": ids.decode([4]).tolist()}))


def test_a_cell_has_figures_for_each_way(timed: al.Split) -> None:
    bench = Workbench("tiny", timed, quick=True, device="cpu", plain=True)
    assert list(similar.measure(bench, Method("Popularity"))["metrics"]) == [similar.LIST]
    row = similar.measure(bench, Method("MF-AUR"))
    assert {similar.USED, f"{similar.USED}, lam 0.5", "cosine of item vectors"} <= row["metrics"].keys()
    assert row["pairs"] >= row["users"] > 0
