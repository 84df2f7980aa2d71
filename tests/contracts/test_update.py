"""What an update must do, whatever the model: known ids keep their places, new ones are served, the old model stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import aleator as al
from aleator.data.interactions import Interactions
from aleator.data.simulate import simulate
from aleator.models import MODELS
from aleator.uncertainty import ESTIMATORS

from .small import SMALL

CASES = [(name, options) for name in MODELS.classes for options in SMALL.get(name, [{}])]
CASES += [("aur fism", {}), ("aur mf", {}), ("aur mlp", {})]
every_recommender = pytest.mark.parametrize(
    "case", CASES, ids=lambda case: " ".join([case[0], *map(str, case[1].values())])
)


def build(case: tuple[str, dict[str, Any]]) -> al.AUR | al.Model:
    name, options = case
    if not name.startswith("aur"):
        made: al.Model = MODELS[name](**options)
        return made
    part = name.removeprefix("aur ")
    four: dict[str, Any] = {"dim": 4}
    model = MODELS["mf" if part == "mlp" else part](**four)
    own: dict[str, Any] = {"max_epochs": 3} | ({"hidden": 8} if part == "mlp" else {"dim": 8})
    estimator = ESTIMATORS["mlp" if part == "mlp" else "factor"](**own)
    return al.AUR(model, estimator=estimator, residuals="in-sample", unobserved="constant")


@pytest.fixture(scope="module")
def parts() -> tuple[Interactions, Interactions, Interactions]:
    """What is known, what is new, and both. Users from "u50" on and items from "i32" on are new."""
    data = simulate(n_users=60, n_items=40, per_user=60, skew=0.5, seed=4).interactions
    user, item = np.r_[data.user, np.arange(60)], np.r_[data.item, np.arange(60) % 40]
    users, items = np.array([f"u{n}" for n in range(60)]), np.array([f"i{n}" for n in range(40)])
    new = (user >= 50) | (item >= 32) | (np.arange(len(user)) % 17 == 0)
    made = [Interactions.of(users[user[rows]], items[item[rows]]) for rows in (~new, new, slice(None))]
    return made[0], made[1], made[2]


@pytest.fixture(scope="module")
def updated(parts: tuple[Interactions, Interactions, Interactions]) -> Callable[[Any], tuple[Any, Any, torch.Tensor]]:
    """A fitted recommender, the same updated, and the scores of the first before the update; each case once."""
    known: dict[str, tuple[Any, Any, torch.Tensor]] = {}

    def make(case: tuple[str, dict[str, Any]]) -> tuple[Any, Any, torch.Tensor]:
        if str(case) not in known:
            made = build(case).fit(parts[0])
            scores = made.score(parts[0].users.ids.tolist()).clone()
            known[str(case)] = made, made.update(parts[1]), scores
        return known[str(case)]

    return make


@every_recommender
def test_known_ids_keep_their_places_and_new_ones_follow(case: Any, updated: Any, parts: Any) -> None:
    old, new, _ = updated(case)
    for side in ("users", "items"):
        before, after = getattr(old.fitted, side).ids, getattr(new.fitted, side).ids
        assert after[: len(before)].tolist() == before.tolist()
    assert sorted(new.fitted.users.ids) == parts[2].users.ids.tolist()
    assert sorted(new.fitted.items.ids) == parts[2].items.ids.tolist()
    assert len(new.fitted) == len(parts[2])


@every_recommender
def test_the_served_recommender_stays_as_it_was(case: Any, updated: Any, parts: Any) -> None:
    old, new, scores = updated(case)
    assert type(new) is type(old)
    assert old.updated == {}
    assert torch.equal(old.score(parts[0].users.ids.tolist()), scores)
    assert old.fitted.n_items == scores.shape[1]


@every_recommender
def test_new_users_and_items_are_scored_and_listed(case: Any, updated: Any, parts: Any) -> None:
    new = updated(case)[1]
    everyone = parts[2].users.ids.tolist()
    assert torch.isfinite(new.score(everyone)).all()
    lists = new.recommend(everyone, k=10)
    assert set(lists["user_id"]) == set(everyone)
    assert {item for item in lists["item_id"] if int(item[1:]) >= 32}
    seen = set(zip(parts[2].users.ids[parts[2].user], parts[2].items.ids[parts[2].item], strict=True))
    assert not seen & set(zip(lists["user_id"], lists["item_id"], strict=True))


@every_recommender
def test_popularity_and_histories_follow(case: Any, updated: Any, parts: Any) -> None:
    new, both = updated(case)[1], parts[2]
    at = both.items.encode(new.fitted.items.ids)
    assert new.fitted.popularity.tolist() == both.popularity[at].tolist()
    lists = new.recommend(["u3"], k=5)
    assert lists["popularity"].to_list() == both.popularity[both.items.encode(lists["item_id"].to_list())].tolist()


@every_recommender
def test_it_is_saved_with_what_it_took_in(case: Any, updated: Any, parts: Any, tmp_path: Path) -> None:
    new = updated(case)[1]
    new.save(tmp_path / "m")
    loaded = al.load_model(tmp_path / "m")
    n, users = len(parts[2]) - len(parts[0]), 60 - parts[0].n_users
    assert loaded.updated == new.updated == {"pairs": n, "users": users, "items": 8}
    assert loaded.notes[-1] == f"updated since the fit: {n} new pairs, {users} new users, 8 new items"
    assert torch.equal(loaded.score(["u1", "u55"]), new.score(["u1", "u55"]))
    assert torch.equal(loaded.score({"x": ["i1", "i35"]}), new.score({"x": ["i1", "i35"]}))


@every_recommender
def test_what_is_loaded_is_updated_to_the_same(case: Any, updated: Any, parts: Any, tmp_path: Path) -> None:
    old, new, _ = updated(case)
    old.save(tmp_path / "m")
    loaded = al.load_model(tmp_path / "m").update(parts[1])
    assert torch.equal(loaded.score(["u1", "u55"]), new.score(["u1", "u55"]))


@every_recommender
def test_a_second_update_counts_on_and_a_fit_starts_anew(case: Any, updated: Any, parts: Any) -> None:
    new = updated(case)[1]
    more = new.update(Interactions.of(["u1", "zoe"], ["i39", "zebra"]))
    pairs = new.updated["pairs"] + len(more.fitted) - len(new.fitted)
    assert more.updated == {"pairs": pairs, "users": new.updated["users"] + 1, "items": new.updated["items"] + 1}
    assert len([note for note in more.notes if note.startswith("updated")]) == 1
    assert torch.isfinite(more.score(["zoe"], ["zebra"])).all()
    again = build(case).fit(parts[0]).update(parts[1]).fit(parts[2])
    assert again.updated == {}
    assert not any(note.startswith("updated") for note in again.notes)


def clustered(new: bool) -> Interactions:
    """Users and items of one colour belong together. The new ones are the last of 60 users and the last of 40 items."""
    rng, rows = np.random.default_rng(0), []
    for user in range(60):
        for item in range(user % 2, 40, 2):
            late = user >= 54 or item >= 36
            if rng.random() < 0.6 and late == new:
                rows.append((user, item))
    return Interactions.of(*zip(*rows, strict=True))


@every_recommender
def test_new_users_and_items_go_where_they_belong(case: Any) -> None:
    kind = None if case[0].startswith("aur") else MODELS[case[0]]
    if kind is not None and not kind.personalises:
        pytest.skip(f"{case[0]} declares that it does not personalise")
    model = build(case).fit(clustered(new=False)).update(clustered(new=True))
    scores = model.score(list(range(60)))
    own = (torch.arange(60) % 2)[:, None] == torch.from_numpy(model.fitted.items.ids % 2)
    for users, items in ((range(54, 60), range(40)), (range(54), range(36, 40)), (range(54, 60), range(36, 40))):
        at = torch.from_numpy(model.fitted.items.encode(np.array(items)))
        part, mine = scores[list(users)][:, at], own[list(users)][:, at]
        assert part[mine].mean() > part[~mine].mean()
        won = [row[m].mean() > row[~m].mean() for row, m in zip(part, mine, strict=True)]
        assert np.mean(won) > 0.9
