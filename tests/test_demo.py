"""The demo runs on a tiny world, and says what is true."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aleator as al
from aleator import demo
from aleator.cli.demo import show
from aleator.data import catalog
from aleator.evaluation.significance import Comparison, Row


@pytest.fixture(scope="module")
def made() -> demo.Demo:
    world = al.simulate(n_users=200, n_items=150, per_user=200, skew=0.8, seed=2)
    titles = {i: f"film {i}" for i in range(150)}
    split = world.interactions.with_titles(titles).split(valid=0.0, test=0.25, seed=0)
    estimator = al.FactorEstimator(dim=32, max_epochs=10, init="spectral")
    fixed: dict[str, Any] = {"estimator": estimator, "residuals": "in-sample", "unobserved": "constant"}
    mf_aur, aur = (al.AUR(al.MF(dim=8), lam=lam, **fixed) for lam in (0.5, 0.0))
    return demo.run(split, al.MF(dim=8), mf_aur, aur, "a tiny world")


def test_the_table_has_all_systems_and_the_conventions(made: demo.Demo) -> None:
    table = made.table()
    for metric in demo.SHOWN:
        for comparison in made.comparisons.values():
            row = comparison["tail_absolute", metric]
            assert f"{row.baseline:.4f}" in table
            sign = " " if not row.significant else "+" if row.mean > row.baseline else "-"
            assert f"{row.mean:.4f}{sign}" in f"{table} "
    assert "default: AUR on MF" in table
    assert "popularity <=" in table
    assert "skipped" in table


def row(mean: float, p: float, protocol: str, metric: str) -> Row:
    return Row(protocol, metric, mean, 0.1, mean / 0.1 - 1, 0.0, 0.0, p, 100)


@pytest.mark.parametrize(
    ("figures", "told"),
    [
        (
            [(0.12, 0.01), (0.08, 0.01), (0.11, 0.5)],
            "gains in Recall@20 (+20.0%), loses in NDCG@20 (-20.0%) and does not differ significantly in "
            "tail Recall@50 (+10.0%)",
        ),
        ([(0.08, 0.01)] * 3, "it loses in Recall@20 (-20.0%), NDCG@20 (-20.0%) and tail Recall@50 (-20.0%)."),
        ([(0.1, 1.0)] * 3, "it does not differ significantly in Recall@20 (+0.0%), NDCG@20"),
    ],
)
def test_a_loss_is_told_like_a_gain(figures: list[tuple[float, float]], told: str) -> None:
    rows = [row(*figure, *key) for figure, key in zip(figures, demo.TOLD.values(), strict=True)]
    assert told in demo._change("MF-AUR", al.AUR(al.MF(), lam=0.5), Comparison(rows))


def test_lam_1_is_told_where_it_was_chosen() -> None:
    rows = [row(0.1, 1.0, *key) for key in demo.TOLD.values()]
    assert "MF alone, since no blend gained" in demo._change("MF-AUR", al.AUR(al.MF()), Comparison(rows))
    assert "alone" not in demo._change("MF-AUR", al.AUR(al.MF(), lam=1.0), Comparison(rows))


def test_the_story_has_the_tail_share_of_each_system_and_of_the_test_part(made: demo.Demo) -> None:
    last = made.story()[-1]
    for name, report in made.reports.items():
        assert f"{report.lists['tail_share@20']:.1%} ({name})" in last
    tail = made.aur.tail_mask.numpy()
    assert f"Of the test part, {tail[made.split.test.item].mean():.1%}" in last


def test_cases_are_told_both_ways(made: demo.Demo) -> None:
    tail = set(made.aur.fitted.items.decode(made.aur.tail_mask.nonzero().squeeze(1).numpy()).tolist())
    found = missed = 0
    test = made.split.test
    for user in np.unique(test.user):
        taken = set(test.items.decode(test.item[test.user == user]).tolist()) & tail
        name = test.users.decode([user])[0]
        mf, default = (
            system.recommend([name], k=20, untrained=True)["item_id"].to_list() for system in (made.bare, made.aur)
        )
        found += bool(taken & set(default[:8]) - set(mf))
        missed += bool(taken & set(mf[:8]) - set(default))
    assert (made.cases.found, made.cases.missed) == (found, missed)
    assert f"{found} users took" in made.cases.told
    assert f"For {missed} users" in made.cases.told


def test_cases_are_what_they_claim(made: demo.Demo) -> None:
    assert made.cases.shown
    for case in made.cases.shown:
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
    assert len(labels) == len(shares["MF"]) == len(errors["default"])
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
    assert made.cases.shown[0].found in page


def test_the_demo_falls_back_to_a_simulated_world(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object) -> al.Split:
        raise al.AleatorError("no network", "find one")

    monkeypatch.setattr(catalog, "load_dataset", nothing)
    split, note = demo.open_world(None)
    assert "simulated" in note
    assert len(split.test) > 1000


@pytest.mark.parametrize(("name", "options"), [("ml-100k", " --data ml-100k --data-root /data"), (None, "")])
def test_the_demo_ends_by_saying_how_to_open_the_page(
    made: demo.Demo, name: str | None, options: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A simulated world is in no catalogue, so its service has no test part to mark."""
    show(replace(made, split=replace(made.split, name=name)), Path("m/model"), Path("m/report.html"), Path("/data"))
    *_, serve, page = capsys.readouterr().out.splitlines()
    assert serve == f"aleator serve m/model{options}"
    assert "http://127.0.0.1:8000" in page
