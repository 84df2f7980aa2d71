"""Similar items: against correlations that are written out, and what they do not depend on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import aleator as al
from aleator.data.interactions import Interactions
from aleator.ranking import similar
from aleator.recommender import Recommender

Make = Callable[..., al.AUR]
FITTED: dict[str, Callable[[Make], Recommender]] = {
    "factors": lambda small: al.MF(dim=4, l2=0.01),
    "products of histories": lambda small: al.FISM(dim=8, max_epochs=3),
    "matrix": lambda small: al.EASE(l2=10.0),
    "isotonic": lambda small: al.ItemKNN(calibrate="isotonic"),
    "blend": lambda small: small(lam=0.5),
    "blend of a matrix": lambda small: al.AUR(
        al.EASE(l2=10.0), lam=0.5, estimator=al.FactorEstimator(dim=8, max_epochs=3)
    ),
    "sigma": lambda small: small(blend="sigma", lam=0.5),
}


@pytest.fixture(scope="module")
def data(split: al.Split) -> Interactions:
    """Items 1, 3 and 15 have no pair."""
    assert np.flatnonzero(split.everything.popularity == 0).tolist() == [1, 3, 15]
    return split.everything


def literal(model: Recommender, users: list[int]) -> Any:
    """[n_items, n_items] the correlations of the scores over users."""
    with np.errstate(invalid="ignore"):  # of untrained items
        return np.corrcoef(model.score(users).double().numpy().T)


def with_history(data: Interactions) -> list[int]:
    found: list[int] = np.unique(data.user).tolist()
    return found


@pytest.mark.parametrize("kind", FITTED)
@pytest.mark.parametrize("cells", [1, 1 << 20])
def test_the_most_similar_items_are_those_of_the_highest_correlations(
    kind: str, cells: int, data: Interactions, small_aur: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = FITTED[kind](small_aur).fit(data)
    trained = np.flatnonzero(data.popularity > 0).tolist()
    wanted = literal(model, with_history(data))
    monkeypatch.setattr(similar, "blocks", lambda n_users, n_items, device: (min(cells, max(n_users, 1)), n_items))
    found = model.similar_items(list(range(50)), k=5)
    for item in range(50):
        rows = found.filter(found["item_id"] == item)
        others = [j for j in trained if j != item and wanted[item, j] > 0]
        order = sorted(others, key=lambda j: -wanted[item, j])[:5]
        if item not in trained:
            assert len(rows) == 0, "an item that nobody took is similar to none"
            continue
        np.testing.assert_allclose(rows["similarity"], [wanted[item, j] for j in order], atol=1e-4)
        np.testing.assert_allclose([wanted[item, j] for j in rows["similar_item"]], rows["similarity"], atol=1e-4)
        assert rows["rank"].to_list() == list(range(1, len(order) + 1))
        assert not {item, 1, 3, 15} & {*rows["similar_item"]}


@pytest.mark.parametrize("kind", ["factors", "matrix"])
def test_of_many_users_a_random_sample_is_taken(
    kind: str, data: Interactions, small_aur: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = FITTED[kind](small_aur).fit(data)
    monkeypatch.setattr(similar, "_USERS" if kind == "factors" else "_SCORES", 20 if kind == "factors" else 20 * 50)
    asked: list[int] = []
    draw = torch.randperm

    def noted(n: int, **about: Any) -> Any:
        asked.append(n)
        return draw(n, **about)

    monkeypatch.setattr(torch, "randperm", noted)
    found = model.similar_items([24], k=4)
    assert asked == [len(with_history(data))]
    sample = draw(asked[0], generator=torch.Generator().manual_seed(0))[:20]
    wanted = literal(model, np.array(with_history(data))[sample].tolist())
    assert len(found) == 4
    np.testing.assert_allclose([wanted[24, j] for j in found["similar_item"]], found["similarity"], atol=1e-4)


def test_items_are_similar_to_those_that_the_same_users_take() -> None:
    n = 40
    board = np.add.outer(np.arange(n), np.arange(n)) % 2 == 0
    board &= np.random.default_rng(0).random((n, n)) < 0.7
    found = al.AUR(lam=0.5, contenders=[al.FISM(dim=8)]).fit(Interactions.of(*np.nonzero(board)))
    rows = found.similar_items(list(range(n)), k=8)
    assert (rows["item_id"] % 2 == rows["similar_item"] % 2).mean() > 0.97


def test_popularity_on_top_of_the_scores_changes_nothing(fitted_aur: al.AUR) -> None:
    plain, other = (fitted_aur.at(0.5) for _ in range(2))
    plain.discount_used, plain.prior_used = 0.0, 0.0
    other.discount_used, other.prior_used = 0.5, 8.0
    assert (
        other.recommend({"new": [4]}, k=5)["item_id"].to_list()
        != plain.recommend({"new": [4]}, k=5)["item_id"].to_list()
    )
    found, wanted = (each.similar_items([24, 4], k=5) for each in (other, plain))
    assert found["similar_item"].to_list() == wanted["similar_item"].to_list()
    np.testing.assert_allclose(found["similarity"], wanted["similarity"], atol=1e-4)


def test_the_knob_compares_expectations_or_uncertainties(fitted_aur: al.AUR) -> None:
    r, s = (fitted_aur.similar_items([24], k=5, lam=lam) for lam in (1.0, 0.0))
    assert r["similar_item"].to_list() == fitted_aur.model.similar_items([24], k=5)["similar_item"].to_list()
    assert r["similar_item"].to_list() != s["similar_item"].to_list()


def test_the_frame_has_ids_as_they_were_given_and_titles(split: al.Split) -> None:
    pairs = split.everything
    texts = Interactions.of(pairs.user, [f"i{item}" for item in pairs.item])
    titled = texts.with_titles({f"i{item}": f"thing {item}" for item in range(50)})
    model = al.EASE(l2=10.0).fit(titled)
    found = model.similar_items("i24", k=2)
    assert found.equals(model.similar_items(["i24"], k=2))
    names = ["item_id", "rank", "similar_item", "similarity", "popularity", "tail", "title", "similar_title"]
    assert found.columns == names
    assert found["similar_title"].to_list() == [f"thing {item[1:]}" for item in found["similar_item"]]
    items = titled.items.encode(found["similar_item"])
    assert found["popularity"].to_list() == titled.popularity[items].tolist()
    assert found["tail"].to_list() == al.Tail.mass(0.5).mask(titled.popularity)[items].tolist()
    assert len(model.similar_items([], k=2)) == 0


def test_scores_that_are_the_same_for_all_users_or_random_are_refused(split: al.Split) -> None:
    aur = al.AUR(al.Popularity(), lam=0.5, estimator=al.FactorEstimator(dim=8, max_epochs=3)).fit(split)
    assert len(aur.similar_items([24], k=5)) > 0, "the uncertainty differs between users"
    for model in (aur.model, aur.at(1.0), al.Random().fit(split)):
        with pytest.raises(al.AleatorError, match="do not say which items go together"):
            model.similar_items([24])


def test_a_function_of_known_users_will_do(split: al.Split) -> None:
    bare = al.MF(dim=4, l2=0.01).fit(split)
    grafted = al.graft(lambda users: bare.score(users.tolist())).fit(split)
    one, other = (model.similar_items([24], k=5) for model in (grafted, bare))
    assert one["similar_item"].to_list() == other["similar_item"].to_list()


def test_mistakes_are_named(fitted_aur: al.AUR) -> None:
    for items, k, told in (
        ([999], 5, "unknown item 999"),
        (999, 5, "unknown item 999"),
        ([3], 0, "k is 0"),
        ([3], 51, "k is 51 but there are 50 items"),
        ({3: [4]}, 5, "unknown item"),
    ):
        with pytest.raises(al.AleatorError, match=told):
            fitted_aur.similar_items(items, k=k)
    with pytest.raises(al.AleatorError, match="lam is 2"):
        fitted_aur.similar_items([3], lam=2.0)
    with pytest.raises(al.AleatorError, match="no uncertainty, and so no lam"):
        fitted_aur.model.similar_items([3], lam=0.5)
    with pytest.raises(al.AleatorError, match="not fitted"):
        al.MF().similar_items([3])
