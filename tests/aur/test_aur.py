"""AUR: fit, score, recommend, save, load, as a person uses it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import aleator as al
from aleator.ranking.scan import Scan, available
from aleator.recipe import FINE_LAMS, PAPER_LAMS

Make = Callable[..., al.AUR]
COLUMNS = ["user_id", "item_id", "rank", "score", "expectation", "uncertainty", "popularity", "tail"]


def bytes_of(aur: al.AUR, folder: Path) -> list[bytes]:
    aur.save(folder)
    return [(folder / name).read_bytes() for name in ("manifest.json", "tensors.safetensors")]


def planted(aur: al.AUR, tail_item: int, head_item: int) -> None:
    """Everything is alike, except that one tail item is uncertain and one head item is expected."""
    n_items, model = aur.fitted.n_items, aur.model
    assert isinstance(model, al.MF)
    assert isinstance(aur.estimator, al.FactorEstimator)
    model.table.users = torch.ones(aur.fitted.n_users, 1)
    model.table.items = torch.full((n_items, 1), 0.01)
    model.table.items[tail_item], model.table.items[head_item] = 0.3, 0.5
    sigma = torch.full((n_items,), 0.01)
    sigma[tail_item], sigma[head_item] = 0.8, 0.05
    aur.estimator.z = torch.ones(n_items, 1)  # a user of one item has p = 1, and s = q
    aur.estimator.q = torch.log(sigma.square() * aur.objective.k)[:, None]


class TestBlend:
    def test_at_lam_1_the_ranking_is_the_bare_models(self, fitted_aur: al.AUR) -> None:
        users = list(range(80))
        mine = fitted_aur.recommend(users, k=20, lam=1.0)
        bare = fitted_aur.model.recommend(users, k=20)
        assert mine.select("user_id", "item_id", "rank").equals(bare.select("user_id", "item_id", "rank"))
        np.testing.assert_allclose(mine["score"], bare["score"], rtol=1e-6)

    def test_at_lam_0_the_ranking_is_by_the_uncertainty(self, fitted_aur: al.AUR) -> None:
        mine = fitted_aur.recommend([0, 5], k=30, lam=0.0)
        np.testing.assert_allclose(mine["score"], mine["uncertainty"], rtol=1e-5)
        for user in (0, 5):
            assert mine.filter(user_id=user)["uncertainty"].is_sorted(descending=True)

    def test_a_score_is_the_blend_of_the_two_that_are_shown(self, fitted_aur: al.AUR) -> None:
        mine = fitted_aur.recommend([0, 5, 9], k=20, lam=0.3)
        np.testing.assert_allclose(mine["score"], 0.3 * mine["expectation"] + 0.7 * mine["uncertainty"], rtol=1e-4)

    def test_expectation_and_uncertainty_can_be_asked_for(self, fitted_aur: al.AUR) -> None:
        users, items = [3, 1], [7, 0, 49]
        r, sigma = fitted_aur.expectation(users, items), fitted_aur.uncertainty(users, items)
        assert r.shape == sigma.shape == (2, 3)
        assert (sigma > 0).all()
        lam = fitted_aur.lam_used
        torch.testing.assert_close(fitted_aur.score(users, items), lam * r + (1 - lam) * sigma)
        torch.testing.assert_close(fitted_aur.uncertainty(users)[:, items], sigma)
        shown = fitted_aur.recommend([3], k=50, filter_seen=False, untrained=True)
        at = {item: place for place, item in enumerate(shown["item_id"])}
        np.testing.assert_allclose(sigma[0], [shown["uncertainty"][at[i]] for i in items], rtol=1e-5)

    def test_a_tail_item_of_high_uncertainty_outranks_a_head_item_of_low_uncertainty(
        self, small_aur: Make, split: al.Split
    ) -> None:
        aur = small_aur(lam=0.5).fit(split)
        order = np.argsort(aur.fitted.popularity, kind="stable")
        tail_item, head_item = int(order[aur.fitted.popularity[order] > 0][0]), int(order[-1])
        planted(aur, tail_item, head_item)
        other = int(order[-5])
        first = {lam: aur.recommend({"new": [other]}, k=2, lam=lam)["item_id"].to_list() for lam in (1.0, 0.5, 0.0)}
        assert first[1.0] == [head_item, tail_item]
        assert first[0.5] == [tail_item, head_item]
        assert first[0.0][0] == tail_item
        shown = aur.recommend({"new": [other]}, k=2)
        assert shown["tail"].to_list() == [True, False]
        np.testing.assert_allclose(shown["uncertainty"], [0.8, 0.05], rtol=1e-4)

    def test_the_knob_stays_where_it_was_turned_and_recommend_leaves_it(self, small_aur: Make, split: al.Split) -> None:
        aur = small_aur(lam=0.5).fit(split)
        at_half, at_zero = aur.score([0]), aur.recommend([0], k=5, lam=0.0)
        assert torch.equal(aur.score([0]), at_half)
        aur.set_lam(0)
        assert aur.recommend([0], k=5).equals(at_zero)

    def test_a_recommendation_at_another_lam_does_not_show_in_scores_asked_for_meanwhile(
        self, small_aur: Make, split: al.Split, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As when a service answers two people at once."""
        aur = small_aur(lam=0.5).fit(split)
        expected, real, meanwhile = aur.score([1]), aur.model.score_block, []

        def interrupted(*given: Any) -> Any:
            monkeypatch.setattr(aur.model, "score_block", real)
            meanwhile.append(aur.score([1]))
            return real(*given)

        monkeypatch.setattr(aur.model, "score_block", interrupted)
        aur.recommend([0], k=5, lam=0.0)
        assert torch.equal(meanwhile[0], expected)

    @pytest.mark.parametrize("lam", [-0.1, 1.1, float("nan"), "half", "auto"])
    def test_a_lam_outside_0_to_1_is_refused_and_changes_nothing(self, fitted_aur: al.AUR, lam: Any) -> None:
        before = fitted_aur.lam_used
        with pytest.raises(al.AleatorError, match="lam"):
            fitted_aur.recommend([0], lam=lam)
        with pytest.raises(al.AleatorError, match="lam"):
            fitted_aur.set_lam(lam)
        assert fitted_aur.lam_used == before


class TestRecommend:
    def test_the_columns(self, fitted_aur: al.AUR) -> None:
        assert fitted_aur.recommend([0], k=3).columns == COLUMNS

    def test_popularity_and_tail_are_those_of_all_training_pairs(self, fitted_aur: al.AUR, split: al.Split) -> None:
        shown = fitted_aur.recommend(list(range(10)), k=30)
        popularity = split.everything.popularity
        items = shown["item_id"].to_numpy()
        assert shown["popularity"].to_list() == popularity[items].tolist()
        assert shown["tail"].to_list() == al.Tail.mass(0.5).mask(popularity)[items].tolist()

    def test_without_refit_the_tail_does_not_move_either(self, small_aur: Make, split: al.Split) -> None:
        """DESIGN: the tail is computed on train and valid together, whether or not a validation part is carved."""
        aur = small_aur(refit=False).fit(split)
        expected = al.Tail.mass(0.5).mask(split.everything.popularity)
        assert (al.Tail.mass(0.5).mask(split.train.popularity) != expected).any()  # or this could not fail
        shown = aur.recommend(list(range(80)), k=30)
        assert shown["tail"].to_list() == expected[shown["item_id"].to_numpy()].tolist()

    def test_somebody_with_a_users_history_gets_that_users_list(self, fitted_aur: al.AUR) -> None:
        data = fitted_aur.fitted
        history = data.item[data.user == 11].tolist()
        mine, theirs = fitted_aur.recommend([11], k=10), fitted_aur.recommend({11: history}, k=10)
        assert mine["item_id"].to_list() == theirs["item_id"].to_list()
        np.testing.assert_allclose(mine["score"], theirs["score"], rtol=1e-3, atol=1e-4)


class TestFit:
    def test_refit_uses_all_training_pairs_and_no_refit_those_of_train(self, small_aur: Make, split: al.Split) -> None:
        assert len(split.everything) > len(split.train)
        for refit, data in ((True, split.everything), (False, split.train)):
            aur = small_aur(refit=refit).fit(split)
            assert aur.fitted.fingerprint == aur.model.fitted.fingerprint == data.fingerprint
            assert torch.equal(aur.model.score([0]), al.MF(dim=8, iterations=5, l2=0.001).fit(data).score([0]))

    def test_the_refit_runs_for_the_epochs_that_validation_chose(
        self, small_aur: Make, split: al.Split, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        aur, asked = small_aur(estimator__check_every=1), []
        real = type(aur.estimator).learn

        def spy(self: Any, histories: Any, expectation: Any, objective: Any, stop: Any) -> None:
            real(self, histories, expectation, objective, stop)
            asked.append((len(histories.item), stop.epochs, self.log.best_epoch))

        monkeypatch.setattr(type(aur.estimator), "learn", spy)
        aur.fit(split)
        assert [row[0] for row in asked] == [len(split.train), len(split.everything)]
        assert asked[0][1] is None
        assert asked[1][1] == asked[0][2]
        assert aur.estimator.log is not None
        assert "metric" in aur.estimator.log.rows[0]  # the log is that of the validated training

    def test_a_training_of_one_epoch_learns(self, small_aur: Make, split: al.Split) -> None:
        options = {"refit": False, "lam": 0.0, "estimator__check_every": 2, "estimator__init": 0.01}
        one, two = (small_aur(estimator__max_epochs=n, **options).fit(split) for n in (1, 2))
        assert isinstance(one.estimator, al.FactorEstimator)
        start = torch.Generator().manual_seed(0)
        assert not torch.equal(one.estimator.z, 0.01 * torch.randn(50, 16, generator=start))
        assert not torch.equal(one.score([0]), two.score([0]))

    def test_bare_interactions_are_enough(self, small_aur: Make, split: al.Split) -> None:
        aur = small_aur().fit(split.everything)
        assert len(aur.fitted) == len(split.everything)
        assert 0 <= aur.lam_used <= 1

    def test_the_test_part_is_never_touched(self, small_aur: Make, split: al.Split, tmp_path: Path) -> None:
        flipped = al.Interactions.of(
            split.test.user, 49 - split.test.item, users=split.test.users, items=split.test.items
        )
        for number, test in enumerate((flipped, split.test.take(np.zeros(len(split.test), bool)))):
            other = replace(split, test=test)
            assert bytes_of(small_aur().fit(split), tmp_path / f"a{number}") == bytes_of(
                small_aur().fit(other), tmp_path / f"b{number}"
            )

    def test_the_same_seed_gives_the_same_files_and_another_seed_does_not(
        self, small_aur: Make, split: al.Split, tmp_path: Path
    ) -> None:
        options = {"estimator__history_dropout": 0.3, "estimator__activation": "tanh"}
        one, same, other = (
            bytes_of(small_aur(seed=seed, **options).fit(split), tmp_path / name)
            for name, seed in (("a", 1), ("b", 1), ("c", 2))
        )
        assert one == same
        assert one[1] != other[1]

    def test_fitting_twice_gives_what_fitting_once_gives(
        self, small_aur: Make, split: al.Split, tmp_path: Path
    ) -> None:
        aur = small_aur().fit(split.train)
        assert bytes_of(aur.fit(split), tmp_path / "a") == bytes_of(small_aur().fit(split), tmp_path / "b")

    def test_lam_is_chosen_by_what_select_says(self, small_aur: Make, split: al.Split) -> None:
        overall = small_aur(select="overall").fit(split)
        assert [row["lam"] for row in overall.curve] == list(FINE_LAMS)
        best = max(row["recall@20"] for row in overall.curve)
        chosen = next(row for row in overall.curve if row["lam"] == overall.lam_used)
        assert chosen["recall@20"] == best
        balanced = small_aur(select="balanced").fit(split)
        assert balanced.curve == overall.curve
        chosen = next(row for row in balanced.curve if row["lam"] == balanced.lam_used)
        assert chosen["recall@20"] >= balanced.curve[-1]["recall@20"]
        assert chosen["tail_recall@50"] >= balanced.curve[-1]["tail_recall@50"]

    def test_a_given_lam_is_kept_and_the_curve_is_drawn_all_the_same(self, small_aur: Make, split: al.Split) -> None:
        aur = small_aur(lam=0.37).fit(split)
        assert aur.lam_used == 0.37
        assert len(aur.curve) == len(FINE_LAMS)

    def test_more_alpha_lifts_the_tail(self, split: al.Split, small_aur: Make) -> None:
        def tail_share(alpha: float) -> float:
            aur = small_aur(alpha=alpha, lam=0.0, estimator__max_epochs=30).fit(split)
            return float(aur.recommend(list(range(80)), k=10)["tail"].mean())

        assert tail_share(8.0) > tail_share(1.0)

    def test_what_was_given_to_fit_is_not_changed(self, small_aur: Make, split: al.Split) -> None:
        before = split.train.fingerprint, split.valid.fingerprint, split.test.fingerprint
        parts = [replace(part) for part in (split.train, split.valid, split.test)]
        copy = replace(split, train=parts[0], valid=parts[1], test=parts[2])
        for part in parts:
            for array in (part.user, part.item, part.csr.data, part.csr.indices, part.popularity):
                array.flags.writeable = False
        try:
            small_aur().fit(copy)
        finally:
            for part in parts:
                part.user.flags.writeable = part.item.flags.writeable = True
        assert (copy.train.fingerprint, copy.valid.fingerprint, copy.test.fingerprint) == before

    def test_a_model_given_to_two_aurs_is_not_shared(self, split: al.Split) -> None:
        model, estimator = al.MF(dim=4), al.FactorEstimator(dim=4, max_epochs=2)
        one, other = (al.AUR(model, estimator=estimator, seed=seed).fit(split) for seed in (0, 1))
        assert one.model is not other.model
        assert one.estimator is not other.estimator
        assert not torch.equal(one.model.score([0]), other.model.score([0]))

    def test_users_of_one_pair_each_leave_nothing_to_validate_on(self, small_aur: Make) -> None:
        with pytest.raises(al.AleatorError, match="no validation pair"):
            small_aur().fit(al.Interactions.of([1, 2, 3], [1, 2, 3]))

    def test_a_loss_that_is_not_finite_stops_with_the_epoch_and_what_to_try(
        self, small_aur: Make, split: al.Split
    ) -> None:
        with pytest.raises(al.AleatorError, match=r"uncertainty estimator diverged.*in epoch \d+.*learning rate"):
            small_aur(estimator__lr=1e30).fit(split)

    def test_options_are_checked_by_name(self) -> None:
        with pytest.raises(al.AleatorError, match="did you mean 'alpha'"):
            al.AUR(al.MF(), alhpa=2.0)  # type: ignore[call-arg]

    def test_no_uncertainty_without_a_fit_and_for_nobody_unknown(self, fitted_aur: al.AUR) -> None:
        with pytest.raises(al.AleatorError, match="not fitted"):
            al.AUR(al.MF()).uncertainty([0])
        with pytest.raises(al.AleatorError, match="unknown user 999"):
            fitted_aur.uncertainty([0, 999])


@pytest.fixture(scope="module")
def paper(small_aur: Make, split: al.Split) -> al.AUR:
    options = {"model__max_epochs": 4, "model__lr": 0.01, "recipe": "paper"}
    return small_aur(**options).fit(replace(split, paper_tail=al.Tail.count(2)))


class TestRecipePaper:
    def test_it_chooses_on_the_test_part_from_the_papers_grid(self, paper: al.AUR, split: al.Split) -> None:
        assert [row["lam"] for row in paper.curve] == list(PAPER_LAMS)
        assert paper.fitted.fingerprint == split.everything.fingerprint
        report = al.evaluate(paper, split, k=(20,))
        chosen = next(row for row in paper.curve if row["lam"] == paper.lam_used)
        assert report.mean("overall", "recall@20") == pytest.approx(chosen["recall@20"])

    def test_its_tail_is_the_programs(self, paper: al.AUR, split: al.Split) -> None:
        shown = paper.recommend([0, 1], k=30)
        assert shown["tail"].to_list() == [n <= 2 for n in shown["popularity"]]

    def test_it_is_labelled_wherever_its_figures_are_printed(self, paper: al.AUR, split: al.Split) -> None:
        """Also where nobody repeats to `evaluate` what the model was made with."""
        assert "recipe paper" in str(al.evaluate(paper, split, recipe="paper"))
        assert "recipe paper" in str(al.evaluate(paper, split))

    def test_it_is_remembered_by_the_saved_model(self, paper: al.AUR, split: al.Split, tmp_path: Path) -> None:
        paper.save(tmp_path / "m")
        assert json.loads((tmp_path / "m" / "manifest.json").read_text())["options"]["recipe"] == "paper"
        loaded = al.AUR.load(tmp_path / "m")
        assert loaded.recipe == "paper"
        assert loaded.objective == paper.objective
        assert loaded.recommend([0], k=5).equals(paper.recommend([0], k=5))

    def test_without_a_test_part_it_is_refused(self, small_aur: Make, split: al.Split) -> None:
        with pytest.raises(al.AleatorError, match="chooses on the test part"):
            small_aur(recipe="paper").fit(split.everything)


class TestSaveAndLoad:
    """What AUR adds to the folder of every recommender."""

    def test_the_choice_of_lam_and_the_uncertainty_are_loaded(self, fitted_aur: al.AUR, tmp_path: Path) -> None:
        fitted_aur.save(tmp_path / "m")
        loaded = al.AUR.load(tmp_path / "m")
        assert (loaded.lam_used, loaded.curve) == (fitted_aur.lam_used, fitted_aur.curve)
        assert torch.equal(loaded.uncertainty([0, 7]), fitted_aur.uncertainty([0, 7]))
        assert torch.equal(loaded.expectation([0, 7]), fitted_aur.expectation([0, 7]))

    def test_the_manifest_says_what_it_is_made_of(self, fitted_aur: al.AUR, tmp_path: Path) -> None:
        fitted_aur.save(tmp_path / "m")
        manifest = json.loads((tmp_path / "m" / "manifest.json").read_text())
        assert manifest["options"]["model"]["kind"] == "MF"
        assert manifest["options"]["model"]["options"]["dim"] == 8
        assert manifest["options"]["estimator"]["kind"] == "FactorEstimator"
        assert manifest["learned"]["lam"] == fitted_aur.lam_used

    @pytest.mark.parametrize("tail", [al.Tail.count(1_234_567), al.Tail.mass(0.123456789), al.Tail.items(0.85)])
    def test_the_tail_survives(self, small_aur: Make, split: al.Split, tmp_path: Path, tail: al.Tail) -> None:
        small_aur(tail=tail, lam=0.5).fit(split).save(tmp_path / "m")
        loaded = al.AUR.load(tmp_path / "m")
        assert (loaded.tail, loaded.tail_rule) == (tail, tail)

    def test_the_device_asked_for_at_loading_is_that_of_every_part(
        self, small_aur: Make, split: al.Split, tmp_path: Path
    ) -> None:
        """A model that was fitted on one machine's device is loaded on another's."""
        small_aur(lam=0.5, device="cpu").fit(split).save(tmp_path / "m")
        path = tmp_path / "m" / "manifest.json"
        manifest = json.loads(path.read_text())
        for part in (manifest, manifest["options"]["model"], manifest["options"]["estimator"]):
            part["options"]["device"] = "cuda:7"
        path.write_text(json.dumps(manifest))
        loaded = al.AUR.load(tmp_path / "m", device="cpu")
        assert (loaded.device, loaded.model.device, loaded.estimator.device) == ("cpu", "cpu", "cpu")
        assert loaded.expectation([0], [1, 2]).shape == (1, 2)


def test_the_bare_model_and_the_model_under_aur_are_the_same(split: al.Split) -> None:
    """Both choose their epochs on the same held-out pairs, so that a comparison is of the uncertainty alone."""
    options: dict[str, Any] = {"solver": "adam", "dim": 4, "max_epochs": 8, "lr": 0.01}
    bare = al.MF(**options).fit(split)
    aur = al.AUR(al.MF(**options), estimator=al.FactorEstimator(dim=4, max_epochs=2)).fit(split)
    assert torch.equal(bare.table.items, aur.model.table.items)


def test_a_model_that_is_handed_over_is_not_changed(split: al.Split) -> None:
    bare = al.MF(dim=4).fit(split)
    before = bare.table.items.clone()
    al.AUR(bare, estimator=al.FactorEstimator(dim=4, max_epochs=1), seed=5).fit(split)
    assert bare.seed == 0
    assert torch.equal(bare.table.items, before)
    assert len(bare.recommend([0], k=3)) == 3


def test_paper_models_are_labelled_however_they_are_evaluated(
    small_aur: Callable[..., al.AUR], split: al.Split
) -> None:
    paper = small_aur(recipe="paper", model__max_epochs=2).fit(split)
    assert "chosen on the test part" in str(al.evaluate(paper, split, recipe="ours"))
    honest = small_aur().fit(split)
    told = str(al.evaluate(honest, split, recipe="paper"))
    assert "recipe paper" in told
    assert "chosen on the test part" not in told


@pytest.fixture(scope="module")
def many_items() -> al.Split:
    """A catalogue that is large enough to be scanned, with enough pairs that hardly any scores are equal."""
    return al.simulate(n_users=60, n_items=4200, per_user=2000, skew=0.8, seed=2).interactions.split(seed=0)


def count_scans(monkeypatch: pytest.MonkeyPatch) -> list[Scan]:
    """The scans that are prepared from now on."""
    made: list[Scan] = []

    class Counted(Scan):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(self)

    monkeypatch.setattr("aleator.aur.aur.Scan", Counted)
    return made


def without_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aleator.aur.aur.available", lambda: False)


@pytest.mark.skipif(not available(), reason="this PyTorch multiplies no 8-bit integers here")
class TestScan:
    """On a CPU a large catalogue is scanned, which must give what scoring everything gives."""

    @pytest.mark.parametrize("lam", [0.0, 0.4, 1.0])
    def test_recommendations_and_figures_are_those_of_scoring_everything(
        self, small_aur: Make, many_items: al.Split, lam: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        aur, made = small_aur(lam=lam, device="cpu", estimator__max_epochs=2).fit(many_items), count_scans(monkeypatch)
        users = aur.fitted.users.decode(np.arange(20)).tolist()
        scanned, report = aur.recommend(users, k=7), al.evaluate(aur, many_items).to_dict()
        assert len(made) == 1
        without_scans(monkeypatch)
        plain = aur.recommend(users, k=7)
        assert scanned["item_id"].to_list() == plain["item_id"].to_list()
        for column in ("score", "expectation", "uncertainty"):
            np.testing.assert_allclose(scanned[column].to_numpy(), plain[column].to_numpy(), rtol=1e-5, atol=1e-7)
        again = al.evaluate(aur, many_items).to_dict()
        for protocol in ("overall", "tail_absolute", "tail_relative"):
            # scores that are equal but for rounding may change places
            assert again[protocol] == pytest.approx(report[protocol], abs=1e-4)

    def test_newcomers_allow_lists_and_seen_items_work_as_ever(
        self, small_aur: Make, many_items: al.Split, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        aur = small_aur(lam=0.3, device="cpu", estimator__max_epochs=2).fit(many_items)
        made, items = count_scans(monkeypatch), aur.fitted.items.decode(np.arange(50)).tolist()
        newcomers = {"new": [items[3], items[8], items[21]], "other": [items[1]]}
        asked: dict[str, Any] = {"k": 5, "allow": items[::2], "deny": [items[4]], "filter_seen": False}
        scanned = aur.recommend(newcomers, **asked)
        assert len(made) == 1
        without_scans(monkeypatch)
        assert scanned["item_id"].to_list() == aur.recommend(newcomers, **asked)["item_id"].to_list()

    def test_what_was_prepared_is_forgotten_with_a_new_fit(
        self, small_aur: Make, many_items: al.Split, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = count_scans(monkeypatch)
        aur = small_aur(lam=0.3, device="cpu", estimator__max_epochs=2).fit(many_items)
        user = aur.fitted.users.decode(np.arange(1)).tolist()
        before = len(made)
        for _ in range(2):
            aur.recommend(user, k=2)
        assert len(made) == before + 1
        aur.fit(many_items).recommend(user, k=2)
        assert len(made) == before + 2


@pytest.mark.parametrize("options", [{"solver": "adam", "valid": 0.3}, {"refit": False}])
def test_an_option_of_the_model_that_aur_decides_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(al.AleatorError, match=r"has no effect under AUR; give \w+ to AUR"):
        al.AUR(al.MF(**options))


def test_a_model_of_another_recipe_is_refused() -> None:
    with pytest.raises(al.AleatorError, match="MF has recipe paper and AUR ours"):
        al.AUR(al.MF(recipe="paper"))


def test_a_tail_that_is_given_holds_under_recipe_paper_too(small_aur: Make, split: al.Split) -> None:
    with_cut = replace(split, paper_tail=al.Tail.count(2))
    given = small_aur(recipe="paper", model__max_epochs=1, tail=al.Tail.items(0.3)).fit(with_cut)
    assert given.tail_rule == al.Tail.items(0.3)
    assert small_aur(recipe="paper", model__max_epochs=1).fit(with_cut).tail_rule == al.Tail.count(2)
