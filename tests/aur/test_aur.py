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
from safetensors.torch import load_file, save_file

import aleator as al
from aleator.aur.blended import Setting
from aleator.recipe import FINE_LAMS, PAPER_LAMS
from tests.folders import as_of_format, files_of, manifest_of, put_manifest, tensors_of

Make = Callable[..., al.AUR]
COLUMNS = ["user_id", "item_id", "rank", "score", "confidence", "expectation", "uncertainty", "popularity", "tail"]


def bytes_of(aur: al.AUR, folder: Path) -> dict[str, bytes]:
    aur.save(folder)
    return files_of(folder)


def planted(aur: al.AUR, tail_item: int, head_item: int) -> None:
    """Everything is alike, except that one tail item is uncertain and one head item is expected."""
    n_items, model = aur.fitted.n_items, aur.model
    assert isinstance(model, al.MF)
    assert isinstance(aur.estimator, al.FactorEstimator)
    model.table.users = torch.ones(aur.fitted.n_users, 1)
    model.table.items = torch.full((n_items, 1), 0.01)
    model.table.items[tail_item], model.table.items[head_item] = 0.4, 0.5
    sigma = torch.full((n_items,), 0.01)
    sigma[tail_item], sigma[head_item] = 0.8, 0.05
    aur.estimator.z = torch.ones(n_items, 1)  # a user of one item has p = 1, and s = q
    aur.estimator.q = torch.log(sigma.square() * aur.objective.k)[:, None]
    blended = aur.blended
    blended.measure_spreads()
    aur.spreads, aur.label_scale = blended.spreads, None


def log_variance(aur: al.AUR, users: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return aur.estimator.log_variance(aur.users(users))


class TestBlend:
    def test_at_lam_1_the_ranking_is_the_bare_models(self, fitted_aur: al.AUR) -> None:
        users = list(range(80))
        mine = fitted_aur.recommend(users, k=20, lam=1.0)
        bare = fitted_aur.model.recommend(users, k=20)
        assert mine.select("user_id", "item_id", "rank").equals(bare.select("user_id", "item_id", "rank"))
        assert fitted_aur.spreads is not None
        np.testing.assert_allclose(mine["score"], bare["score"] / fitted_aur.spreads.r, rtol=1e-5)

    def test_at_lam_0_the_ranking_is_by_the_uncertainty(self, fitted_aur: al.AUR) -> None:
        mine = fitted_aur.recommend([0, 5], k=30, lam=0.0)
        s = log_variance(fitted_aur, [0, 5])
        assert fitted_aur.spreads is not None
        for row, user in enumerate((0, 5)):
            shown = mine.filter(user_id=user)
            assert shown["uncertainty"].is_sorted(descending=True)
            expected = s[row, shown["item_id"].to_list()] / fitted_aur.spreads.s
            np.testing.assert_allclose(shown["score"], expected, rtol=1e-4, atol=1e-6)

    def test_the_score_is_the_linear_blend_of_expectation_and_log_variance(self, fitted_aur: al.AUR) -> None:
        """With the root mean within-user variances over unobserved pairs, by hand."""
        users, data = list(range(80)), fitted_aur.fitted
        r, s = fitted_aur.expectation(users).double().numpy(), log_variance(fitted_aur, users).double().numpy()
        open_ = (data.csr.toarray() == 0) & (data.popularity > 0)
        c_r, c_s = (
            np.sqrt(np.mean([np.var(row[mask]) for row, mask in zip(part, open_, strict=True)])) for part in (r, s)
        )
        literal = 0.3 * r / c_r + 0.7 * s / c_s
        np.testing.assert_allclose(fitted_aur.at(0.3).score(users), literal, rtol=1e-4, atol=1e-4)

    def test_the_score_is_divided_by_a_power_of_popularity(self, fitted_aur: al.AUR) -> None:
        users, less = list(range(20)), fitted_aur.at(0.3)
        less.discount_used = 0.4
        popularity = np.maximum(less.fitted.popularity, 1)
        expected = fitted_aur.at(0.3).score(users) / popularity**0.4
        np.testing.assert_allclose(less.score(users), expected, rtol=1e-4, atol=1e-6)
        some = less.fitted.items.decode(np.array([7, 3])).tolist()
        np.testing.assert_allclose(less.score(users, some), less.score(users)[:, [7, 3]], rtol=1e-5)

    def test_a_prior_adds_the_share_of_users_the_less_is_known(self, fitted_aur: al.AUR) -> None:
        more, newcomers = fitted_aur.at(0.3), {"one": [3], "four": [3, 5, 7, 11]}
        more.prior_used = 2.0
        assert more.spreads is not None
        share = more.fitted.popularity / more.fitted.n_users
        expected = fitted_aur.at(0.3).score(newcomers) + np.array([[1.9], [0.4]]) * share / more.spreads.r
        np.testing.assert_allclose(more.score(newcomers), expected, rtol=1e-4, atol=1e-5)

    def test_lists_follow_the_discount_and_the_prior(self, fitted_aur: al.AUR) -> None:
        """The scan of inner products has them too."""
        turned = fitted_aur.at(0.3)
        turned.discount_used, turned.prior_used = 0.4, 2.0
        users = list(range(20))
        listed = turned.recommend(users, k=50, filter_seen=False, untrained=True)
        scores = turned.score(users).numpy()
        for user in users:
            own = listed.filter(user_id=user)
            np.testing.assert_allclose(own["score"], np.sort(scores[user])[::-1], rtol=1e-4, atol=1e-5)

    def test_with_a_given_lam_the_discount_and_the_prior_are_0(self, split: al.Split) -> None:
        estimator = al.FactorEstimator(dim=4, max_epochs=1, init=0.01)
        aur = al.AUR(al.MF(dim=4), estimator=estimator, residuals="in-sample", unobserved="constant", lam=0.5).fit(
            split
        )
        assert (aur.discount_used, aur.prior_used) == (0.0, 0.0)

    def test_a_second_fit_starts_from_the_knobs_that_were_given(self, small_aur: Make, split: al.Split) -> None:
        aur = small_aur(discount=0.3).fit(split)
        first = aur.lam_used, aur.discount_used, aur.choice
        aur.set_lam(0.5)
        aur.discount_used, aur.prior_used = 0.0, 7.0
        aur.fit(split)
        assert (aur.lam_used, aur.discount_used, aur.choice) == first
        assert aur.prior_used == 0

    @pytest.mark.parametrize(("options", "told"), [({"discount": 1.5}, "discount"), ({"prior": -1.0}, "prior")])
    def test_a_discount_or_prior_out_of_range_is_refused(self, options: dict[str, Any], told: str) -> None:
        with pytest.raises(al.AleatorError, match=told):
            al.AUR(**options)
        with pytest.raises(al.AleatorError, match="linear"):
            al.AUR(blend="sigma", prior=1.0)

    def test_the_papers_blend_is_of_the_two_that_are_shown(self, small_aur: Make, split: al.Split) -> None:
        aur = small_aur(blend="sigma", lam=0.3).fit(split)
        users = [0, 5, 9]
        sigma = torch.sqrt(torch.exp(log_variance(aur, users).double()) / aur.objective.k)
        expected = 0.3 * aur.expectation(users).double() + 0.7 * sigma
        torch.testing.assert_close(aur.score(users).double(), expected, rtol=1e-5, atol=1e-6)
        assert aur.spreads is None
        assert aur.factors(aur.users(users)) is None

    def test_factors_have_the_scores_as_products_and_lam_on_the_side_of_the_users_alone(
        self, fitted_aur: al.AUR
    ) -> None:
        users = fitted_aur.users(list(range(20)))
        one = fitted_aur.factors(users)
        other = fitted_aur.at(0.9).factors(users)
        assert one is not None
        assert other is not None
        assert one[1] is other[1]
        for lam in (0.0, 0.9, 1.0):
            found = fitted_aur.at(lam).factors(users)
            assert found is not None
            torch.testing.assert_close(
                found[0] @ found[1].T, fitted_aur.at(lam).score_block(users), rtol=1e-4, atol=1e-4
            )

    def test_a_model_without_factors_leaves_none_to_the_blend(self, split: al.Split) -> None:
        estimator = al.FactorEstimator(dim=4, max_epochs=1, init=0.01)
        aur = al.AUR(al.EASE(), estimator=estimator, residuals="in-sample", unobserved="constant").fit(split)
        assert aur.factors(aur.users([0])) is None

    def test_a_part_that_does_not_rank_is_left_out_and_reported(self, small_aur: Make, split: al.Split) -> None:
        flat = small_aur(estimator__init=0.0, lam=0.5).fit(split)  # z = q = 0 is a saddle: it stays there
        assert flat.spreads is not None
        assert flat.spreads.s == 0
        assert any("the uncertainty does not rank" in note for note in flat.notes)
        mine, bare = flat.recommend([0, 1], k=10), flat.model.recommend([0, 1], k=10)
        assert mine["item_id"].to_list() == bare["item_id"].to_list()
        assert torch.isfinite(flat.uncertainty([0, 1])).all()

    def test_expectation_and_uncertainty_can_be_asked_for(self, fitted_aur: al.AUR) -> None:
        users, items = [3, 1], [7, 0, 49]
        r, sigma = fitted_aur.expectation(users, items), fitted_aur.uncertainty(users, items)
        assert r.shape == sigma.shape == (2, 3)
        assert (sigma >= 0).all()
        torch.testing.assert_close(fitted_aur.uncertainty(users)[:, items], sigma)
        shown = fitted_aur.recommend([3], k=50, filter_seen=False, untrained=True)
        at = {item: place for place, item in enumerate(shown["item_id"])}
        np.testing.assert_allclose(r[0], [shown["expectation"][at[i]] for i in items], rtol=1e-5)
        np.testing.assert_allclose(sigma[0], [shown["uncertainty"][at[i]] for i in items], rtol=1e-5)

    @pytest.mark.parametrize("blend", ["linear", "sigma"])
    def test_a_tail_item_of_high_uncertainty_outranks_a_head_item_of_low_uncertainty(
        self, blend: str, small_aur: Make, split: al.Split
    ) -> None:
        aur = small_aur(lam=0.5, blend=blend).fit(split)
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
        assert one != other

    def test_fitting_twice_gives_what_fitting_once_gives(
        self, small_aur: Make, split: al.Split, tmp_path: Path
    ) -> None:
        aur = small_aur().fit(split.train)
        assert bytes_of(aur.fit(split), tmp_path / "a") == bytes_of(small_aur().fit(split), tmp_path / "b")

    def test_lam_is_chosen_by_what_select_says(self, small_aur: Make, split: al.Split) -> None:
        overall, balanced = (small_aur(select=select).fit(split) for select in ("overall", "balanced"))
        assert overall.choice is not None
        assert balanced.choice is not None
        assert [point.lam for point in overall.choice.curve] == list(FINE_LAMS)
        assert overall.choice.curve == balanced.choice.curve
        assert overall.lam_used == overall.choice.lam == overall.choice.best.lam
        chosen, bare = balanced.choice.chosen, balanced.choice.curve[-1]
        assert balanced.lam_used == chosen.lam
        assert chosen is bare or (chosen.recall > bare.recall and chosen.ndcg > bare.ndcg)

    def test_a_given_lam_is_kept_and_the_curve_is_drawn_all_the_same(self, small_aur: Make, split: al.Split) -> None:
        aur = small_aur(lam=0.37).fit(split)
        assert aur.lam_used == 0.37
        assert aur.choice is not None
        assert len(aur.choice.curve) == len(FINE_LAMS)

    def test_more_alpha_lifts_the_tail(self, split: al.Split, small_aur: Make) -> None:
        def tail_share(alpha: float) -> float:
            own = {"max_epochs": 30, "check_every": 30}  # as many epochs for each alpha
            options = {f"estimator__{name}": value for name, value in own.items()}
            aur = small_aur(alpha=alpha, lam=0.0, unobserved="model", **options).fit(split)
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

    @pytest.mark.parametrize("estimator", [al.FactorEstimator(dim=10**12), al.MLPEstimator(hidden=10**12)], ids=repr)
    def test_an_estimator_too_large_for_memory_is_refused_before_the_model_is_trained(
        self, estimator: al.Estimator, split: al.Split, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(al.MF, "learn", lambda *_: pytest.fail("trained first"))
        with pytest.raises(al.AleatorError, match=r"needs [\d.]+ GiB and [\d.]+ GiB are free on cpu"):
            al.AUR(al.MF(dim=2), estimator=estimator, device="cpu").fit(split)

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
        assert paper.choice is not None
        assert [point.lam for point in paper.choice.curve] == list(PAPER_LAMS)
        assert paper.fitted.fingerprint == split.everything.fingerprint
        report = al.evaluate(paper, split, k=(20,))
        assert report.mean("overall", "recall@20") == pytest.approx(paper.choice.chosen.recall)

    def test_blend_residuals_and_uncertainty_are_the_papers(self, paper: al.AUR) -> None:
        assert (paper.blend, paper.residuals, paper.unobserved) == ("sigma", "in-sample", "model")
        assert (paper.gamma, paper.floor) == (1e-3, 1e-3)
        assert (paper.race, paper.spreads, paper.label_scale) == ([], None, None)
        expected = torch.sqrt(torch.exp(log_variance(paper, [0, 1])) / paper.objective.k)
        torch.testing.assert_close(paper.uncertainty([0, 1]), expected)
        lam = paper.lam_used
        torch.testing.assert_close(paper.score([0, 1]), lam * paper.expectation([0, 1]) + (1 - lam) * expected)

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
        for name in ("lam_used", "choice", "race", "setting", "spreads", "blend"):
            assert getattr(loaded, name) == getattr(fitted_aur, name)
        assert torch.equal(loaded.score([0, 7]), fitted_aur.score([0, 7]))
        assert torch.equal(loaded.uncertainty([0, 7]), fitted_aur.uncertainty([0, 7]))
        assert torch.equal(loaded.expectation([0, 7]), fitted_aur.expectation([0, 7]))

    def test_the_manifest_says_what_it_is_made_of(self, fitted_aur: al.AUR, tmp_path: Path) -> None:
        fitted_aur.save(tmp_path / "m")
        manifest = json.loads((tmp_path / "m" / "manifest.json").read_text())
        assert manifest["options"]["model"]["kind"] == "MF"
        assert manifest["options"]["model"]["options"]["dim"] == 8
        assert manifest["options"]["estimator"]["kind"] == "FactorEstimator"
        assert manifest["learned"]["lam"] == fitted_aur.lam_used

    @pytest.mark.parametrize("written", [1, 2])
    def test_a_folder_of_an_earlier_format_is_the_papers_blend_and_scores_as_before(
        self, written: int, small_aur: Make, split: al.Split, tmp_path: Path
    ) -> None:
        aur = small_aur(blend="sigma", unobserved="model", lam=0.4).fit(split)
        aur.save(tmp_path / "m")
        manifest = manifest_of(tmp_path / "m")
        options, learned = manifest["options"], manifest["learned"]
        for name in ("blend", "unobserved"):
            del options[name]
        for name in ("choice", "race", "setting", "spreads"):
            del learned[name]
        learned["curve"] = [{"lam": 0.4, "recall@20": 0.1, "tail_recall@50": 0.2}]
        if written == 1:
            names = ("joint_weights", "joint_lr", "joint_clip", "joint_epochs")
            options |= dict(zip(names, ("estimator", 1e-3, 1.0, 100), strict=True)) | {"joint": False}
        as_of_format(tmp_path / "m", written, manifest)
        tensors = {n: v for n, v in load_file(tensors_of(tmp_path / "m")).items() if "scale" not in n}
        save_file(tensors, tensors_of(tmp_path / "m"))

        loaded = al.load_model(tmp_path / "m", device="cpu")
        assert isinstance(loaded, al.AUR)
        assert (loaded.blend, loaded.residuals, loaded.unobserved) == ("sigma", "in-sample", "model")
        assert (loaded.choice, loaded.race, loaded.spreads, loaded.joint) == (None, [], None, None)
        assert loaded.setting == Setting("in-sample", "model")
        assert torch.equal(loaded.score([0, 7]), aur.score([0, 7]))
        sigma = torch.sqrt(torch.exp(log_variance(aur, [0, 7])) / aur.objective.k)
        torch.testing.assert_close(loaded.uncertainty([0, 7]), sigma)
        loaded.save(tmp_path / "again")
        assert torch.equal(al.AUR.load(tmp_path / "again").score([0, 7]), aur.score([0, 7]))

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
        manifest = manifest_of(tmp_path / "m")
        for part in (manifest, manifest["options"]["model"], manifest["options"]["estimator"]):
            part["options"]["device"] = "cuda:7"
        put_manifest(tmp_path / "m", manifest)
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
