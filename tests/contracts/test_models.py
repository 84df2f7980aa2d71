"""What every model must do, whatever its algorithm. A model enters by its line in MODELS; options that make it small
and quick go into `small.py`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import aleator as al
from aleator.data.interactions import Interactions
from aleator.data.simulate import simulate
from aleator.models import MODELS
from tests.folders import files_of

from .small import DRAWS_BY_USER, SMALL, STARTS_AT_RANDOM

CASES = [(name, options) for name in MODELS.classes for options in SMALL.get(name, [{}])]


def label(case: tuple[str, dict[str, Any]]) -> str:
    return " ".join([case[0], *[v for v in case[1].values() if isinstance(v, str)]])


every_model = pytest.mark.parametrize("case", CASES, ids=label)


def build(case: tuple[str, dict[str, Any]], **more: Any) -> al.Model:
    name, options = case
    return MODELS[name](**{**options, **more})


@pytest.fixture(scope="module")
def world() -> Interactions:
    """60 users and 40 items, with one user of one item and one item of one user."""
    data = simulate(n_users=60, n_items=40, per_user=120, skew=0.5, seed=4).interactions
    everyone = np.arange(60)  # so that each item has a user
    user, item = np.r_[data.user, everyone, 60, 7], np.r_[data.item, everyone % 40, 3, 40]
    made = Interactions.of(user, item)
    assert (made.n_users, made.n_items) == (61, 41)
    return made


@every_model
def test_the_checkerboard(case: tuple[str, dict[str, Any]]) -> None:
    """Users take the items of their own colour, all but one: that one must be ranked first among the unseen."""
    if not MODELS[case[0]].personalises:
        pytest.skip(f"{case[0]} declares that it does not personalise")
    n = 50
    board = np.add.outer(np.arange(n), np.arange(n)) % 2 == 0
    np.fill_diagonal(board, False)
    model = build(case).fit(Interactions.of(*np.nonzero(board)))
    first = model.recommend(list(range(n)), k=1)
    assert first["item_id"].to_list() == list(range(n))


@every_model
def test_scores_are_finite_for_the_rarest_users_and_items(
    case: tuple[str, dict[str, Any]], world: Interactions
) -> None:
    model = build(case).fit(world)
    assert world.popularity[40] == 1
    assert (world.user == 60).sum() == 1
    scores = model.score(list(range(61)))
    assert scores.shape == (61, 41)
    assert torch.isfinite(scores).all()
    assert torch.isfinite(model.score({"one item": [40], "many": list(range(30))})).all()


@every_model
def test_an_item_and_a_user_without_a_training_pair_are_scored_too(
    case: tuple[str, dict[str, Any]], world: Interactions
) -> None:
    rows = (world.user != 60) & (world.item != 3)
    model = build(case).fit(world.take(rows))
    assert torch.isfinite(model.score([0, 60])).all()
    assert 3 not in model.recommend([0], k=41)["item_id"].to_list()
    assert 3 in model.recommend([0], k=41, untrained=True)["item_id"].to_list()


@every_model
def test_what_is_loaded_scores_as_what_was_saved(
    case: tuple[str, dict[str, Any]], world: Interactions, tmp_path: Path
) -> None:
    model = build(case).fit(world)
    model.save(tmp_path / "m")
    for loaded in (type(model).load(tmp_path / "m"), al.load_model(tmp_path / "m")):
        assert type(loaded) is type(model)
        assert torch.equal(loaded.score([0, 5, 60]), model.score([0, 5, 60]))
        assert torch.equal(loaded.score({"x": [1, 2]}), model.score({"x": [1, 2]}))
        assert loaded.recommend([3], k=5).equals(model.recommend([3], k=5))
        assert loaded.fingerprint == model.fingerprint
        assert {**loaded.options(), "device": ""} == {**model.options(), "device": ""}


@every_model
def test_saving_what_was_loaded_gives_the_same_files(
    case: tuple[str, dict[str, Any]], world: Interactions, tmp_path: Path
) -> None:
    model = build(case).fit(world)
    model.save(tmp_path / "a")
    type(model).load(tmp_path / "a").save(tmp_path / "b")
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")


@every_model
def test_the_same_seed_gives_the_same_bits(
    case: tuple[str, dict[str, Any]], world: Interactions, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        torch.rand(3)  # what the process drew before does not matter
        np.random.seed(len(list(tmp_path.iterdir())))
        build(case, seed=3).fit(world).save(tmp_path / name)
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")


@every_model
def test_fitting_again_gives_what_a_new_model_gives(case: tuple[str, dict[str, Any]], world: Interactions) -> None:
    model = build(case).fit(world.take(np.arange(len(world)) % 3 > 0)).fit(world)
    assert torch.equal(model.score([0, 1]), build(case).fit(world).score([0, 1]))


@every_model
def test_the_order_of_the_rows_does_not_matter(case: tuple[str, dict[str, Any]], world: Interactions) -> None:
    shuffled = world.take(np.random.default_rng(0).permutation(len(world)))
    assert torch.equal(build(case).fit(shuffled).score([0, 1]), build(case).fit(world).score([0, 1]))


@every_model
def test_scores_do_not_depend_on_the_batch_nor_on_which_items_are_asked_for(
    case: tuple[str, dict[str, Any]], world: Interactions
) -> None:
    model = build(case).fit(world)
    together = model.score(list(range(61)))
    for user in (0, 17, 60):
        torch.testing.assert_close(model.score([user])[0], together[user], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(model.score([5, 3], [40, 2, 2]), together[[5, 3]][:, [40, 2, 2]], rtol=1e-5, atol=1e-6)
    new = model.score({"a": [1, 2], "b": [5, 9, 11]})
    torch.testing.assert_close(model.score({"b": [5, 9, 11]})[0], new[1], rtol=1e-4, atol=1e-5)


@every_model
def test_scores_are_handed_out_as_a_copy(case: tuple[str, dict[str, Any]], world: Interactions) -> None:
    """Ranking and the loss of the estimator overwrite the block that they are given."""
    model = build(case).fit(world)
    users = model.users([0, 1, 2])
    items = torch.arange(5)
    for chosen in (None, items):
        before = model.score_block(users, chosen).clone()
        model.score_block(users, chosen).fill_(-7)
        assert torch.equal(model.score_block(users, chosen), before)


@every_model
def test_recommendations_do_not_depend_on_the_memory_they_may_take(
    case: tuple[str, dict[str, Any]], world: Interactions
) -> None:
    model = build(case).fit(world)
    whole = model.recommend(list(range(61)), k=10)
    for memory in (24 * 7, 24 * 100):
        part = model.recommend(list(range(61)), k=10, memory=memory)
        assert part["item_id"].to_list() == whole["item_id"].to_list()


@every_model
def test_new_users_are_served_by_their_history(case: tuple[str, dict[str, Any]], world: Interactions) -> None:
    model = build(case).fit(world)
    listed = model.recommend({"somebody": [0, 1, 2, 999], "else": [9]}, k=5)  # 999 is unknown
    assert listed["user_id"].to_list() == ["somebody"] * 5 + ["else"] * 5
    assert not {0, 1, 2} & set(listed["item_id"].to_list()[:5])
    assert 9 not in listed["item_id"].to_list()[5:]


@every_model
def test_fitting_changes_nothing_of_what_it_was_given(case: tuple[str, dict[str, Any]], world: Interactions) -> None:
    weight = np.linspace(0.5, 2, len(world)).astype(np.float32)
    data = Interactions.of(world.user, world.item, weight=weight, users=world.users, items=world.items)
    arrays = [data.user, data.item, data.weight, data.csr.data, data.csr.indices, data.csr.indptr, data.popularity]
    before = [a.copy() for a in arrays if a is not None]
    for array in arrays:
        assert array is not None
        array.flags.writeable = False
    build(case).fit(data)
    for array, kept in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, kept)


@every_model
def test_options_are_checked_by_name(case: tuple[str, dict[str, Any]]) -> None:
    for typed, meant in (("sede", "seed"), ("devise", "device")):
        with pytest.raises(al.AleatorError, match=f"did you mean '{meant}'"):
            build(case, **{typed: 1})


@every_model
def test_the_docstring_cites_and_says_what_a_score_means(case: tuple[str, dict[str, Any]]) -> None:
    text = MODELS[case[0]].__doc__ or ""
    assert re.search(r"\(.*(19|20)\d\d\)", text, re.S), "no citation"
    assert re.search(r"r_ui|score|expectation", text), "it does not say what the score means"


@every_model
def test_it_says_that_it_is_not_fitted(case: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    model = build(case)
    for use in (lambda: model.recommend([0]), lambda: model.score([0]), lambda: model.save(tmp_path / "m")):
        with pytest.raises(al.AleatorError, match="not fitted"):
            use()
    assert list(tmp_path.iterdir()) == []


@every_model
def test_the_test_part_is_never_touched(case: tuple[str, dict[str, Any]], world: Interactions) -> None:
    split = world.split(seed=0)
    other = al.Split(split.train, split.valid, split.test.take(np.arange(len(split.test)) % 2 == 0), split.valid_by)
    assert torch.equal(build(case).fit(split).score([0, 1]), build(case).fit(other).score([0, 1]))


@every_model
def test_scores_lie_near_the_scale_of_the_label(case: tuple[str, dict[str, Any]], world: Interactions) -> None:
    model = build(case).fit(world)
    scores = model.score(list(range(61)))
    observed = scores.numpy()[world.user, world.item]
    low, high = scores.quantile(0.05), scores.quantile(0.95)
    assert low > -0.5
    assert high < 1.5
    if model.personalises:
        assert float(observed.mean()) > float(scores.mean()) + 0.1


@every_model
def test_other_numbers_for_the_users_change_nothing_else(case: tuple[str, dict[str, Any]], world: Interactions) -> None:
    if label(case) in DRAWS_BY_USER:
        pytest.skip("it starts from random user factors, or draws batches of users")
    place = np.random.default_rng(0).permutation(61)
    model, moved = (build(case).fit(Interactions.of(user, world.item)) for user in (world.user, place[world.user]))
    torch.testing.assert_close(moved.score(place.tolist()), model.score(list(range(61))), rtol=0, atol=0.05)


@every_model
def test_other_numbers_for_the_items_change_nothing_else(case: tuple[str, dict[str, Any]], world: Interactions) -> None:
    if case[0] in STARTS_AT_RANDOM:
        pytest.skip("it starts from random item factors, so that other item numbers mean another start")
    place = np.random.default_rng(0).permutation(41)
    model, moved = (build(case).fit(Interactions.of(world.user, item)) for item in (world.item, place[world.item]))
    torch.testing.assert_close(moved.score([0, 1])[:, place], model.score([0, 1]), rtol=0, atol=1e-4)


@every_model
def test_contributions_add_up_to_the_score_or_are_what_leaving_an_item_out_makes(
    case: tuple[str, dict[str, Any]], world: Interactions
) -> None:
    """With the same rest for each user where they are terms of a sum: a constant of the item."""
    model = build(case).fit(world)
    if not model.personalises:
        with pytest.raises(al.AleatorError, match="do not follow from the items of a history"):
            model.explain([0], [1])
        return
    new = {"a": [1, 2, 5, 9], "b": [30]}
    found = model.explain(new, [3, 40], n=None)
    assert list(zip(found["user_id"], found["item_id"], strict=True)) == [("a", 3)] * 4 + [("a", 40)] * 4 + [
        ("b", 3),
        ("b", 40),
    ]
    scores = model.score(new, [3, 40])
    for row, (name, history) in enumerate(new.items()):
        for column, item in enumerate((3, 40)):
            rows = found.filter((found["user_id"] == name) & (found["item_id"] == item))
            assert sorted(rows["history_item"]) == history
            added = rows["adds_to_score"].to_numpy()
            assert (np.diff(added) <= 0).all()
            assert added.sum() + rows["rest"][0] == pytest.approx(float(scores[row, column]), abs=1e-5)
            assert rows["share"].abs().sum() == pytest.approx(1, abs=1e-5) or not added.any()
            if rows["exact"][0]:
                others = found.filter((found["user_id"] != name) & (found["item_id"] == item))
                assert rows["rest"][0] == pytest.approx(others["rest"][0], abs=1e-5)
                continue
            for left_out, value in zip(rows["history_item"], added, strict=True):
                if rest := [each for each in history if each != left_out]:
                    difference = float(scores[row, column] - model.score({"less": rest}, [item])[0, 0])
                    assert value == pytest.approx(difference, abs=1e-4)
