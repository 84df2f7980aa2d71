"""The studies that look into fitted methods, against slow and literal counts on a tiny world."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import aleator as al
from aleator.batches import Users
from aleator.recommender import Recommender
from aleator.studies.methods import Method
from aleator.studies.paper import calibration, case, correlation, worst_case
from aleator.studies.records import CaseItem, Record
from aleator.studies.report.tables import Block, Picture, Table
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench
from tests.studies.making import record

STUDIES = [calibration.STUDY, worst_case.STUDY, correlation.STUDY, case.STUDY]


@pytest.fixture(scope="module")
def bench(split: al.Split) -> Workbench:
    return Workbench("tiny", replace(split, name="tiny"), quick=True, device="cpu")


def rows_of(study: Study, bench: Workbench) -> list[Record]:
    """The records of a study."""
    keys: dict[str, Any] = {"dataset": bench.dataset, **bench.conventions()}
    return [record(**keys, method=method.name, **study.measure(bench, method)) for method in study.cells(bench)]


def items_shown(row: Record) -> list[CaseItem]:
    """The items of a case."""
    items = row["items"]
    assert isinstance(items, list)
    return items


def figures(row: Record, group: str) -> dict[str, float]:
    """The metrics of a group that are known."""
    return {name: value for name, value in row["metrics"][group].items() if value is not None}


@pytest.fixture(scope="module")
def rows(bench: Workbench) -> dict[str, list[Record]]:
    return {study.name: rows_of(study, bench) for study in STUDIES}


def scores_of(system: Recommender) -> np.ndarray[Any, np.dtype[np.float32]]:
    """[n_users, n_items] the scores of all pairs, histories among them."""
    with torch.no_grad():
        return system.score_block(system.histories.batch(torch.arange(system.fitted.n_users))).numpy()


def parts_of(aur: Recommender, users: list[int] | None = None) -> list[np.ndarray[Any, np.dtype[np.float64]]]:
    """Expectation and uncertainty of users (or all) and all items."""
    assert isinstance(aur, al.AUR)
    index = torch.arange(aur.fitted.n_users) if users is None else torch.tensor(users)
    with torch.no_grad():
        return [part.double().numpy() for part in aur.parts(aur.histories.batch(index))]


def log_variance_of(aur: Recommender) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The log-variance of all users and items. The uncertainty rises with it, but is flat at its ends."""
    assert isinstance(aur, al.AUR)
    with torch.no_grad():
        s: np.ndarray[Any, np.dtype[np.float64]] = aur.estimator.log_variance(
            aur.histories.batch(torch.arange(aur.fitted.n_users))
        ).numpy()
    return s


def items_of(data: al.Interactions, user: int) -> set[int]:
    return {int(i) for u, i in zip(data.user, data.item, strict=True) if u == user}


def unseen_of(split: al.Split, user: int) -> list[int]:
    return [i for i in range(split.train.n_items) if i not in items_of(split.everything, user)]


def tail_of(bench: Workbench) -> set[int]:
    return set(np.flatnonzero(bench.tail.mask(bench.split.everything.popularity)).tolist())


@pytest.mark.parametrize("name", ["MF", "LGCN-AUR", "VAE"])
def test_calibration_is_what_counting_by_hand_gives(bench: Workbench, rows: dict[str, list[Record]], name: str) -> None:
    scores, tail = scores_of(bench.fit(Method(name))), tail_of(bench)
    groups: dict[str, list[tuple[float, float]]] = {"tail_focus": [], "head_focus": []}
    for user in range(bench.split.train.n_users):
        history = items_of(bench.split.everything, user)
        if not history:
            continue
        taken = sum(i in tail for i in history) / len(history)
        top = sorted(unseen_of(bench.split, user), key=lambda i: -scores[user, i])[:20]
        listed = sum(i in tail for i in top) / len(top)
        groups["tail_focus" if taken >= 0.6 else "head_focus"].append((listed, taken))
    (row,) = (row for row in rows["calibration"] if row["method"] == name)
    assert set(row["metrics"]) == {"tail_focus", "head_focus"}
    for group, found in groups.items():
        listed_mean, taken_mean = np.mean(found, axis=0)
        assert figures(row, group)["users"] == len(found) > 0
        assert row["metrics"][group]["tail_share@20"] == pytest.approx(listed_mean)
        assert row["metrics"][group]["history"] == pytest.approx(taken_mean)


def sorted_lengths(bench: Workbench, name: str) -> list[int]:
    """Where the last of the test items stands when a user's unseen items are sorted; of equal ones it comes first."""
    scores, found = scores_of(bench.fit(Method(name))), []
    for user in range(bench.split.train.n_users):
        test = items_of(bench.split.test, user)
        if test:
            order = sorted(unseen_of(bench.split, user), key=lambda i: (-scores[user, i], i not in test))
            found.append(1 + max(order.index(i) for i in test))
    return found


@pytest.mark.parametrize("bare", ["MF", "LGCN", "VAE"])
def test_the_worst_case_is_the_place_of_the_last_test_item(
    bench: Workbench, rows: dict[str, list[Record]], bare: str
) -> None:
    by_name = {row["method"]: row for row in rows["worst_case"]}
    before, after = (sorted_lengths(bench, name) for name in (bare, f"{bare}-AUR"))
    assert len(set(before)) > 1
    for name, found in ((bare, before), (f"{bare}-AUR", after)):
        assert by_name[name]["metrics"]["overall"]["list_length"] == pytest.approx(np.mean(found))
        assert by_name[name]["metrics"]["overall"]["median"] == np.median(found)
    assert "against" not in by_name[bare]
    against = by_name[f"{bare}-AUR"]["against"]
    (test,) = against["tests"]
    assert (against["method"], test["protocol"], test["metric"]) == (bare, "overall", "list_length")
    assert test["p"] == pytest.approx(1.0 if before == after else stats.ttest_rel(after, before).pvalue)


def test_test_items_of_equal_scores_all_count(bench: Workbench) -> None:
    class Level(al.MF):
        def score_block(self, users: Users, items: torch.Tensor | None = None) -> torch.Tensor:
            return torch.ones(len(users), self.fitted.n_items)

    level = Level(device="cpu")
    level.data = bench.split.everything
    sizes = np.bincount(bench.split.test.user)
    np.testing.assert_array_equal(worst_case.lengths(level, bench.split), sizes[sizes > 0])


def test_the_worst_case_does_not_depend_on_the_batches(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    system = bench.fit(Method("MF-AUR"))
    whole = worst_case.lengths(system, bench.split)
    monkeypatch.setattr(calibration, "blocks", lambda n_users, n_items, device: (14, n_items))
    sizes = [len(users) for users, _ in calibration.batches(system, bench.split, torch.arange(20))]
    assert sizes == [7, 7, 6]
    np.testing.assert_array_equal(worst_case.lengths(system, bench.split), whole)


@pytest.mark.parametrize("name", ["MF-AUR", "LGCN-AUR", "VAE-AUR"])
def test_correlations_are_those_of_numpy(bench: Workbench, rows: dict[str, list[Record]], name: str) -> None:
    r, sigma = parts_of(bench.fit(Method(name)))
    found = []
    for user in range(bench.split.train.n_users):
        if items_of(bench.split.everything, user):
            items = unseen_of(bench.split, user)
            if np.ptp(sigma[user, items]) > 0:  # a correlation with what does not vary is no number
                found.append(np.corrcoef(r[user, items] ** 2, sigma[user, items] ** 2)[0, 1])
    (row,) = (row for row in rows["correlation"] if row["method"] == name)
    metrics = figures(row, "overall")
    assert metrics["users"] == len(found)
    assert metrics["pearson"] == pytest.approx(np.mean(found), rel=1e-6)
    assert metrics["share_positive"] == pytest.approx(np.mean([c > 0 for c in found]))
    expected = [pytest.approx(np.quantile(found, q), rel=1e-6) for q in (0.05, 0.95)]
    assert [metrics["low"], metrics["high"]] == expected


def test_the_scatter_is_of_one_drawn_user(bench: Workbench, rows: dict[str, list[Record]]) -> None:
    mf, *others = rows["correlation"]
    assert not any("scatter" in row for row in others)
    one = mf["scatter"]
    (user,) = bench.split.train.users.encode([one["user"]]).tolist()
    items = unseen_of(bench.split, user)
    r, sigma = (part[0, items] ** 2 for part in parts_of(bench.fit(Method("MF-AUR")), [user]))
    np.testing.assert_allclose(one["r2"], r, rtol=1e-5)
    np.testing.assert_allclose(one["sigma2"], sigma, rtol=1e-5)
    assert one["unseen"] == len(items)
    assert one["pearson"] == pytest.approx(np.corrcoef(r, sigma)[0, 1], rel=1e-6)
    again = correlation.measure(replace(bench, seed=1), Method("MF-AUR"))["scatter"]  # the same fit, another draw
    assert again["user"] != one["user"]


def test_samples_are_even_and_hold_both_ends() -> None:
    assert correlation.evenly(torch.arange(5), 5).tolist() == [0, 1, 2, 3, 4]
    assert correlation.evenly(torch.arange(101), 5).tolist() == [0, 25, 50, 75, 100]
    assert len(set(correlation.evenly(torch.arange(70_000), 2000).tolist())) == 2000


@pytest.mark.parametrize("constant", [1.0, 0.0111, 0.0])
def test_what_does_not_vary_has_no_correlation(constant: float) -> None:
    """Rounding is no variation: the mean of many equal numbers is not always that number."""
    x, kept = torch.full((1, 1001), constant, dtype=torch.float64), torch.ones(1, 1001, dtype=torch.bool)
    x[0, 0], kept[0, 0] = 5.0, False
    assert correlation.pearson(x, torch.rand_like(x), kept).tolist() == [0]


def ranks_by_argsort(values: np.ndarray[Any, Any], items: list[int]) -> dict[int, int]:
    order = np.argsort(-values[items], kind="stable")
    return {items[at]: place + 1 for place, at in enumerate(order)}


def test_the_case_is_the_most_extreme_one(bench: Workbench, rows: dict[str, list[Record]]) -> None:
    aur = bench.fit(Method("MF-AUR"))
    (r, sigma), s = parts_of(aur), log_variance_of(aur)
    tail, pairs = tail_of(bench), []
    for user in range(bench.split.train.n_users):
        test, unseen = items_of(bench.split.test, user), unseen_of(bench.split, user)
        mixed = any(i in tail for i in test) and any(i not in tail for i in test)
        by_r, by_sigma = ranks_by_argsort(r[user], unseen), ranks_by_argsort(s[user], unseen)
        pairs += [(user, i, by_r[i], by_sigma[i], i in tail, mixed) for i in sorted(test)]
    (row,) = rows["case"]
    for name, wanted in (("tail", True), ("head", False)):
        group = [pair for pair in pairs if pair[4] == wanted]
        metrics = figures(row, name)
        assert metrics["pairs"] == len(group)
        assert metrics["better_by_uncertainty"] == pytest.approx(np.mean([p[3] < p[2] for p in group]))
        assert metrics["median_rank_by_expectation"] == np.median([p[2] for p in group])
        assert metrics["median_rank_by_uncertainty"] == np.median([p[3] for p in group])
    best = max((pair for pair in pairs if pair[4] and pair[5]), key=lambda p: p[2] - p[3])
    user, item, by_r_best, by_sigma_best = best[:4]
    assert bench.split.train.users.decode([user]).tolist() == [row["user"]]
    *others, last = items_shown(row)
    assert (last["rank_by_expectation"], last["rank_by_uncertainty"]) == (by_r_best, by_sigma_best)
    assert by_r_best > by_sigma_best
    test, unseen = items_of(bench.split.test, user), unseen_of(bench.split, user)
    highest = sorted((i for i in unseen if i not in test), key=lambda i: -r[user, i])[:3]
    ids = bench.split.train.items
    assert [one["item"] for one in items_shown(row)] == ids.decode([*highest, item]).tolist()
    assert [one["feedback"] for one in items_shown(row)] == [0, 0, 0, 1]
    by_r, by_sigma = ranks_by_argsort(r[user], unseen), ranks_by_argsort(s[user], unseen)
    for one, i in zip(items_shown(row), [*highest, item], strict=True):
        assert one["title"] is None
        assert one["expectation"] == pytest.approx(r[user, i], rel=1e-4)
        assert one["uncertainty"] == pytest.approx(sigma[user, i], rel=1e-4)
        assert one["popularity"] == sum(bench.split.everything.item == i)
        assert (one["rank_by_expectation"], one["rank_by_uncertainty"]) == (by_r[i], by_sigma[i])
    assert max(one["expectation"] for one in others) == others[0]["expectation"]


def test_the_others_of_a_case_were_not_taken(bench: Workbench) -> None:
    aur, ids = bench.fit(Method("MF-AUR")), bench.split.train.items
    assert isinstance(aur, al.AUR)
    (r, _), taken_first = parts_of(aur), 0
    for user in np.unique(bench.split.test.user).tolist():
        test, unseen = items_of(bench.split.test, user), unseen_of(bench.split, user)
        taken_first += bool(test & set(sorted(unseen, key=lambda i: -r[user, i])[:3]))
        *others, _ = (one["item"] for one in case.case(aur, bench.split, user, min(test)))
        assert not test & set(ids.encode(others).tolist())
    assert taken_first


def test_a_case_shows_titles_where_there_are_some(bench: Workbench) -> None:
    parts = bench.split.train, bench.split.valid, bench.split.test
    titles = {i: f"title of {i}" for i in bench.split.train.items.ids.tolist()}
    train, valid, test = (part.with_titles(titles) for part in parts)
    named = replace(bench, split=replace(bench.split, train=train, valid=valid, test=test))
    items = items_shown(record(**case.measure(named, Method("MF-AUR"))))
    assert [one["title"] for one in items] == [f"title of {one['item']}" for one in items]


def texts(blocks: list[Block]) -> str:
    """All that is written."""
    for block in blocks:
        if isinstance(block, Picture):
            assert block.figure.axes
            assert block.alt
    return "\n".join((b.markdown() if isinstance(b, Table) else "") + b.caption for b in blocks)


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_rows_are_plain_json_and_are_shown(study: Study, rows: dict[str, list[Record]]) -> None:
    mine = rows[study.name]
    assert json.loads(json.dumps(mine, allow_nan=False)) == mine
    assert all(row["config"] and "chosen" in row for row in mine)
    for shown in (mine, [*mine, *(row | {"seed": 1} for row in mine)]):
        text = texts(list(study.show(shown)))
        assert "tiny, recipe ours" in text
        assert "published" not in text
        assert "The paper reports" not in text
        assert ("±" in text) == (len(shown) > len(mine))
        assert all(row["method"] in text for row in mine)


def test_what_the_paper_printed_stands_beside(rows: dict[str, list[Record]]) -> None:
    shown = {
        study.name: texts(list(study.show([row | {"dataset": "yelp2018"} for row in rows[study.name]])))
        for study in STUDIES
    }
    assert "more than 35 %" in shown["calibration"]
    assert "| 18823 | -99." in shown["worst_case"]
    assert "| 0.7400 |" in shown["correlation"]


def test_the_scatter_shown_is_of_the_first_seed(rows: dict[str, list[Record]]) -> None:
    mine = rows["correlation"]
    other = [row | {"seed": 1, "scatter": row["scatter"] | {"user": "nobody"}} for row in mine if "scatter" in row]
    text = texts(list(correlation.STUDY.show([*other, *mine])))
    assert "nobody" not in text
    assert f"one user ({mine[0]['scatter']['user']}). Seed 0 drew this user" in text


def test_a_case_says_that_it_was_picked(rows: dict[str, list[Record]]) -> None:
    (row,) = rows["case"]
    text = texts(list(case.STUDY.show([row])))
    assert "This case was picked because it is extreme" in text
    without = record(**{name: value for name, value in row.items() if name not in ("items", "user")})
    assert len(case.STUDY.show([without])) == 1


def test_measuring_needs_no_matplotlib() -> None:
    modules = ", ".join(
        f"aleator.studies.paper.{module}" for module in ("calibration", "worst_case", "correlation", "case")
    )
    code = f"import sys; sys.modules['matplotlib'] = None; import {modules}"
    subprocess.run([sys.executable, "-c", code], check=True)
