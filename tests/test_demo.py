"""The demo runs on a tiny world, and says what is true."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import aleator as al
from aleator import demo
from aleator.data import catalog

SMALL = {"model": {"dim": 8}, "estimator": {"dim": 16, "max_epochs": 4}}


@pytest.fixture(scope="module")
def made() -> demo.Demo:
    world = al.simulate(n_users=200, n_items=150, per_user=200, skew=0.8, seed=2)
    titles = {i: f"film {i}" for i in range(150)}
    split = world.interactions.with_titles(titles).split(valid=0.0, test=0.25, seed=0)
    aur = al.AUR(al.MF(dim=8), estimator=al.FactorEstimator(dim=32, max_epochs=10), lam=0.0)
    return demo.run(split, al.MF(dim=8), aur, "a tiny world")


def test_the_table_has_both_systems_and_the_conventions(made: demo.Demo) -> None:
    table = made.table()
    for metric in demo.SHOWN:
        row = made.comparison["tail_absolute", metric]
        assert f"{row.baseline:.4f}" in table
        assert f"{row.mean:.4f}" in table
    assert "popularity <=" in table
    assert "skipped" in table


def test_cases_are_what_they_claim(made: demo.Demo) -> None:
    assert made.cases
    for case in made.cases:
        mine = made.aur.recommend([case.user], k=8)
        theirs = made.bare.recommend([case.user], k=20)
        item = mine["item_id"][case.rank - 1]
        assert mine["title"][case.rank - 1] == case.found
        assert item not in theirs["item_id"].to_list()
        assert mine["tail"][case.rank - 1]
        taken = made.split.test.items.decode(made.split.test.item[made.split.test.user == case.user])
        assert item in taken.tolist()
        assert f"{case.found} (tail) [taken in the test part]" in case.after


def test_recall_by_popularity_counts_every_test_pair_once(made: demo.Demo) -> None:
    labels, shares, errors = demo.recall_by_popularity(made, k=20, groups=4)
    assert len(labels) == len(shares["MF"]) == len(errors["MF-AUR"])
    popularity = made.aur.fitted.popularity[made.split.test.item]
    low, high = (int(end) for end in labels[-1].split("-"))
    last = (popularity >= low) & (popularity <= high)
    users = made.split.test.user[last]
    lists = {u: made.bare.recommend([u], k=20)["item_id"].to_list() for u in np.unique(users)}
    found = [i in lists[u] for u, i in zip(users, made.split.test.item[last], strict=True)]
    assert shares["MF"][-1] == pytest.approx(np.mean(found))


def test_the_report_is_one_page_with_every_figure(made: demo.Demo, tmp_path: Path) -> None:
    demo.write_report(made, tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert page.count("<figure") >= 5
    assert made.cases[0].found in page


def test_the_demo_falls_back_to_a_simulated_world(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object) -> al.Split:
        raise al.AleatorError("no network", "find one")

    monkeypatch.setattr(catalog, "load_dataset", nothing)
    split, note = demo.open_world(None)
    assert "simulated" in note
    assert len(split.test) > 1000
