"""Every answer of the service is that of the library, alone and beside others."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aleator as al
from aleator.serving.app import Service, create_app
from aleator.serving.counters import Counters
from aleator.serving.served import Served
from aleator.serving.settings import Settings
from tests.serving.asking import Got, ask
from tests.serving.conftest import SETTINGS


def together(served: Served, requests: Sequence[tuple[str, Any]], **changed: Any) -> tuple[list[Got], Counters]:
    """Send requests at the same time."""
    counters = Counters(1)

    async def all_of_them() -> list[Got]:
        app = create_app(Service(served, Settings(log_requests=False, **changed), counters))
        return await asyncio.gather(*(ask(app, "POST", f"/{path}", body) for path, body in requests))

    return asyncio.run(all_of_them()), counters


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), n=st.integers(1, 30))
def test_concurrent_requests_get_the_answers_of_the_library(
    attack: Any, served: Served, model: al.AUR, seed: int, n: int
) -> None:
    asker = attack.Asker(model, random.Random(seed))
    requests = [asker.request() for _ in range(n)]
    found, _ = together(served, requests)
    for (path, body), got in zip(requests, found, strict=True):
        assert got.status == 200, got.body
        assert attack.wrong(model, path, body, got.json) is None, (path, body)


def test_the_comparison_sees_a_wrong_answer(attack: Any, served: Served, model: al.AUR) -> None:
    asker = attack.Asker(model, random.Random(0))
    bodies = {
        "recommend": {"users": asker.users[:2], "k": 3},
        "score": {"users": asker.users[:1], "items": asker.items[:2]},
    }
    for path, body in bodies.items():
        (got,), _ = together(served, [(path, body)])
        answer = got.json
        assert attack.wrong(model, path, body, answer) is None
        if path == "recommend":
            answer["lists"][1]["items"][2]["uncertainty"] += 0.01
        else:
            answer["users"][0]["scores"][1] += 0.01
        assert attack.wrong(model, path, body, answer) is not None
    assert attack.wrong(
        model.at(0.1),
        "recommend",
        bodies["recommend"],
        together(served, [("recommend", bodies["recommend"])])[0][0].json,
    )


def test_requests_that_go_together_are_scored_in_one_call(served: Served, model: al.AUR) -> None:
    users = model.fitted.users.ids.tolist()
    found, counters = together(
        served, [("recommend", {"users": [user], "k": k}) for k, user in enumerate(users[:20], 1)]
    )
    assert [len(got.json["lists"][0]["items"]) for got in found] == list(range(1, 21))
    text = counters.text("x").decode()
    batches, weight = (
        float(text.split(f"\naleator_{name}_total ")[1].split("\n")[0]) for name in ("batches", "batch_users")
    )
    assert weight == 20
    assert batches == 2  # the first one alone, and those that came while it was computed


def test_a_wrong_request_spoils_no_other_one_of_its_batch(served: Served, model: al.AUR) -> None:
    user = model.fitted.users.ids.tolist()[0]
    bodies = [
        {"users": [user]},
        {"users": [user]},
        {"users": ["nobody"]},
        {"histories": {"x": ["?"]}},
        {"users": [user]},
    ]
    found, _ = together(served, [("recommend", body) for body in bodies])
    assert [got.status for got in found] == [200, 200, 404, 422, 200]
    assert found[1].json == found[4].json


def test_a_user_without_a_history_is_served_beside_others(tmp_path: Path, attack: Any) -> None:
    train = al.Interactions.of(["a", "a", "b", "b", "c"], [1, 2, 2, 3, 3])
    test = al.Interactions.of(["new"], [1])
    split = al.Split.of(train, test)
    al.AUR(al.EASE(), lam=0.5, estimator=al.FactorEstimator(dim=4, max_epochs=2)).fit(split).save(tmp_path / "m")
    made = Served.load(tmp_path / "m", SETTINGS, split)
    bodies = [{"users": ["a"], "k": 2}, {"users": ["new"], "k": 2}, {"users": ["b", "new"], "k": 1}]
    found, _ = together(made, [("recommend", body) for body in bodies])
    for body, got in zip(bodies, found, strict=True):
        assert attack.wrong(made.model, "recommend", body, got.json) is None, got.body
    (taken,) = found[1].json["lists"]
    assert [item["in_test"] for item in taken["items"]] == [item["item_id"] == 1 for item in taken["items"]]


def test_a_bare_model_has_lists_without_an_uncertainty(tmp_path: Path) -> None:
    data = al.Interactions.of([1, 1, 2, 2, 3], [5, 6, 6, 7, 7])
    al.EASE().fit(data).save(tmp_path / "m")
    made = Served.load(tmp_path / "m", SETTINGS)
    paths = [
        ("recommend", {"users": [1], "k": 1}),
        ("recommend", {"users": [1], "lam": 0.5}),
        ("score", {"users": [1], "items": [5]}),
        ("explain", {"user": 1, "items": [7]}),
        ("map", {"user": 1, "limit": 2}),
    ]
    listed, refused, scored, explained, mapped = together(made, paths)[0]
    al.Popularity().fit(data).save(tmp_path / "popular")
    popular = Served.load(tmp_path / "popular", SETTINGS)
    assert together(popular, [("similar", {"items": [5], "k": 1})])[0][0].reason == "refused"
    (item,) = listed.json["lists"][0]["items"]
    assert (item["item_id"], item["uncertainty"], item["expectation"], item["confidence"]) == (7, None, None, None)
    assert "title" not in item
    assert refused.reason == "no_uncertainty"
    assert scored.json["users"][0]["uncertainties"] is None
    assert [each["item_id"] for each in explained.json["items"][0]["contributions"]] == [6, 5]
    assert mapped.json["points"][0]["uncertainty"] is None
    assert made.about()["lam"] is None


def test_items_of_the_test_part_are_marked(served: Served, data: al.Split, model: al.AUR) -> None:
    n = model.fitted.n_items
    test = set(
        zip(
            data.test.users.decode(data.test.user).tolist(),
            data.test.items.decode(data.test.item).tolist(),
            strict=True,
        )
    )
    user = data.test.users.decode(data.test.user[:1]).tolist()[0]
    history = {"me": model.fitted.items.ids.tolist()[:2]}
    (known, new), _ = together(
        served, [("recommend", {"users": [user], "k": n}), ("recommend", {"histories": history})]
    )
    marked = {item["item_id"] for item in known.json["lists"][0]["items"] if item["in_test"]}
    assert marked == {item for who, item in test if who == user} != set()
    assert {item["in_test"] for item in new.json["lists"][0]["items"]} == {None}


def test_the_map_holds_the_best_by_expectation_and_by_the_blend(served: Served, model: al.AUR) -> None:
    user = model.fitted.users.ids.tolist()[3]
    (got,), _ = together(served, [("map", {"user": user, "limit": 50, "lam": 0.2})])
    points = {point["item_id"]: point for point in got.json["points"]}
    assert len(points) == len(got.json["points"]) == 50
    for lam in (1.0, 0.2):
        rows = model.at(lam).recommend([user], 20).to_dicts()
        if lam == 1.0:  # the discount of popularity is part of the blend, and not of the expectation
            r = model.expectation([user])[0].numpy().copy()
            r[model.fitted.popularity == 0] = -np.inf
            r[model.fitted.items.encode([i["item_id"] for i in served.user(user)["history"]])] = -np.inf
            rows = [{"item_id": model.fitted.items.ids.tolist()[place]} for place in np.argsort(-r)[:20]]
        assert {row["item_id"] for row in rows} <= points.keys()
    sigma = model.uncertainty([user], list(points))[0].tolist()
    assert [point["uncertainty"] for point in points.values()] == pytest.approx(sigma, abs=1e-5)


def test_users_and_items_are_found_by_a_part_of_their_text(served: Served, model: al.AUR) -> None:
    ids = model.fitted.users.ids.tolist()
    found = [user["user_id"] for user in served.find_users("USER/1", 200)["users"]]
    assert set(found) == {id for id in ids if id.startswith("user/1")}
    assert [user["user_id"] for user in served.find_users("r/17 ", 5)["users"]] == ["user/17 <b>"]
    assert len(served.find_users("", 7)["users"]) == 7
    (item,) = served.find_items("ITEM 31 ", 5)["items"]
    assert (item["item_id"], item["title"]) == ("item 31 ☃", "<script>item 31 ☃</script>")
    popular = [item["popularity"] for item in served.find_items("", 10)["items"]]
    assert popular == sorted(model.fitted.popularity.tolist(), reverse=True)[:10]
    assert served.find_items("no such title", 5) == {"items": []}


def test_the_history_of_a_user_is_shown_with_the_test_part(served: Served, data: al.Split, model: al.AUR) -> None:
    user = data.test.users.decode(data.test.user[:1]).tolist()[0]
    found = served.user(user)
    taken, later = data.everything, data.test
    for part, name in ((taken, "history"), (later, "test")):
        own = part.items.decode(part.item[part.users.decode(part.user) == user]).tolist()
        assert [item["item_id"] for item in found[name]] == sorted(own)
    assert found["n_items"] == len(found["history"])


def test_what_is_served_is_told(service: Service, model: al.AUR, tmp_path: Path) -> None:
    about = service.about
    assert about["fingerprint"] == model.fingerprint
    assert (about["kind"], about["model"], about["lam"], about["has_test"]) == ("AUR", "MF", 0.6, True)
    assert about["attributes"] == ["genre", "year"]
    assert len(about["choice"]["curve"]) > 5
    assert service.evaluated() is None
    service.evaluation = tmp_path / "evaluation.json"
    service.evaluation.write_text(json.dumps({"data": "x"}))
    assert service.evaluated() == {"data": "x"}
