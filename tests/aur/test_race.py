"""The race: which settings are open, how entries are ranked, and who wins."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest
import torch

import aleator as al
from aleator.aur.blended import Blended, Setting
from aleator.aur.choice import LAMS, grid
from aleator.aur.race import decide, open_discounts, ranking, settings
from aleator.checkpoint.checks import typed
from aleator.data.interactions import Interactions
from aleator.evaluation.held_out import HeldOut, Lams, Measured
from aleator.training.loop import Log
from aleator.training.stop import Stop

SPECTRAL, RANDOM = (("init", "spectral"),), (("init", 0.01),)
USERS = 40
Pairs = list[tuple[str, str]]


class TestSettings:
    @pytest.mark.parametrize(
        ("residuals", "unobserved", "expected"),
        [
            ("auto", "auto", [("in-sample", "constant"), ("constant", "constant"), ("in-sample", "model")]),
            ("auto", "model", [("in-sample", "model")]),
            ("auto", "constant", [("in-sample", "constant"), ("constant", "constant")]),
            ("in-sample", "auto", [("in-sample", "constant"), ("in-sample", "model")]),
            ("in-sample", "model", [("in-sample", "model")]),
            ("in-sample", "constant", [("in-sample", "constant")]),
            ("constant", "auto", [("constant", "constant")]),
            ("constant", "model", [("constant", "model")]),
            ("constant", "constant", [("constant", "constant")]),
            ("loo", "auto", [("loo", "constant"), ("loo", "model")]),
            ("loo", "model", [("loo", "model")]),
            ("loo", "constant", [("loo", "constant")]),
            ("cross-fit", "auto", [("cross-fit", "constant"), ("cross-fit", "model")]),
            ("cross-fit", "model", [("cross-fit", "model")]),
            ("cross-fit", "constant", [("cross-fit", "constant")]),
        ],
    )
    def test_they_are_what_options_leave_open_the_simplest_first(
        self, residuals: Any, unobserved: Any, expected: Pairs
    ) -> None:
        def found(estimator: al.Estimator) -> list[tuple[Any, ...]]:
            made = settings(residuals, unobserved, estimator)
            return [(each.residuals, each.unobserved, each.options) for each in made]

        fixed = [(*pair, ()) for pair in expected]
        assert found(al.FactorEstimator(init="spectral")) == fixed
        assert found(al.FactorEstimator(init=0.1)) == fixed
        assert found(al.MLPEstimator()) == fixed
        random = [(*pair, RANDOM) for pair in expected if pair[1] == "constant"]  # it is tried with constants only
        assert found(al.FactorEstimator()) == [(*pair, SPECTRAL) for pair in expected] + random

    def test_a_setting_is_told_in_words_and_survives_json(self) -> None:
        setting = Setting("in-sample", "constant", SPECTRAL)
        assert str(setting) == "residuals in-sample, unobserved constant, init spectral"
        kept = json.loads(json.dumps({"residuals": "in-sample", "unobserved": "constant", "options": SPECTRAL}))
        assert typed(Setting, kept, "setting") == setting


def flat(*lifts: float, tail: Sequence[float] = (), noise: float = 0.0, seed: int = 0) -> Measured:
    """Metrics [V, U] of users whose metrics all lie at the `lifts`, with noise of mean 0."""
    draw = torch.Generator().manual_seed(seed)
    users = 0.3 + 0.2 * torch.rand(1, USERS, generator=torch.Generator().manual_seed(99), dtype=torch.float64)
    drawn = noise * torch.randn(len(lifts), USERS, generator=draw, dtype=torch.float64)
    values = users + torch.tensor(lifts, dtype=torch.float64)[:, None] + drawn - drawn.mean(1, keepdim=True)
    of_tail = torch.tensor(tail or [0.1] * len(lifts), dtype=torch.float64)[:, None].expand(-1, USERS)
    return Measured(values, values.clone(), of_tail.clone())


class TestRanking:
    """Each entry has three lams, the bare model last."""

    def test_overall_ranks_by_the_best_merit_of_an_entry(self) -> None:
        entries = [flat(0.01, 0.02, 0.0), flat(0.0, 0.08, 0.0), flat(0.05, 0.0, 0.0)]
        assert ranking(entries, "overall") == [1, 2, 0]

    def test_the_merit_is_relative_to_the_best_bare_model(self) -> None:
        """An entry that gains much on a weak model of its own is not taken for it."""
        weak, strong = flat(-0.05, 0.02, -0.1), flat(0.01, 0.04, 0.0)
        assert ranking([weak, strong], "overall") == [1, 0]
        assert ranking([weak, strong], "balanced") == [1, 0]

    def test_balanced_wants_a_gain_on_the_best_bare_model(self) -> None:
        """The weak one is near the best blend and has more tail, but its gain on the strong bare model is noise."""
        noisy, steady = flat(0.055, noise=0.05, seed=1), flat(0.06, noise=0.005, seed=2)
        ends = flat(-0.1, tail=(0.1,), noise=0.005, seed=3), flat(0.05, tail=(0.1,), noise=0.005, seed=4)

        def joined(top: Measured, bare: Measured, tail: float) -> Measured:
            rows = torch.cat([top.recall, bare.recall])
            return Measured(rows, rows, torch.cat([torch.full_like(top.tail, tail), bare.tail]))

        weak, strong = joined(noisy, ends[0], 0.9), joined(steady, ends[1], 0.2)
        assert ranking([weak, strong], "balanced") == [1, 0]

    def test_balanced_ranks_by_the_tail_among_lams_as_good_as_the_best_of_all(self) -> None:
        most_tail = flat(0.0598, 0.01, 0.0, tail=(0.4, 0.9, 0.1), noise=0.005, seed=1)
        best = flat(0.02, 0.06, 0.0, tail=(0.5, 0.2, 0.1), noise=0.005, seed=2)
        assert ranking([best, most_tail], "balanced") == [1, 0]
        assert ranking([best, most_tail], "overall") == [0, 1]

    def test_an_entry_without_a_lam_that_may_be_chosen_is_behind_all_that_have_one(self) -> None:
        far = flat(0.02, 0.01, 0.0, tail=(0.9, 0.9, 0.9), noise=0.001, seed=1)
        best = flat(0.06, 0.01, 0.0, tail=(0.2, 0.2, 0.1), noise=0.001, seed=2)
        assert ranking([far, best], "balanced") == [1, 0]

    def test_where_nothing_gains_balanced_ranks_by_merit(self) -> None:
        entries = [flat(-0.09, -0.08, 0.0), flat(-0.05, -0.02, 0.0, tail=(0.9, 0.9, 0.0)), flat(-0.1, -0.1, -0.05)]
        assert ranking(entries, "balanced")[-1] == 2

    @pytest.mark.parametrize("select", ["overall", "balanced"])
    def test_of_entries_within_a_standard_error_the_simplest_wins(self, select: Any) -> None:
        def noisy(lift: float, seed: int) -> Measured:
            made = flat(lift, 0.0, 0.0, noise=0.05, seed=seed)
            return Measured(made.recall, made.ndcg, made.recall - 0.1)

        simple, middle, best = noisy(0.098, 1), noisy(0.099, 2), noisy(0.1, 3)
        assert ranking([simple, middle, best], select)[0] == 0
        assert ranking([best, middle, simple], select)[0] == 0

    def test_a_simpler_entry_that_is_worse_by_more_does_not_win(self) -> None:
        assert (
            ranking([flat(0.03, 0.0, 0.0, noise=0.01, seed=1), flat(0.08, 0.0, 0.0, noise=0.01, seed=2)], "overall")[0]
            == 1
        )


@dataclass
class Planted:
    """Stands for a Blended whose blends lift the metrics by `lift`, once the estimator trained for `late` epochs."""

    lift: float
    name: str
    late: int = 0
    first: float = 0.0  # the lift before
    model: Any = field(default_factory=al.MF)
    trained: list[int | None] = field(default_factory=list)
    forgot: int = 0  # how often it freed what it had learned

    @property
    def setting(self) -> str:
        return self.name

    @property
    def estimator(self) -> Any:
        return self

    @property
    def log(self) -> Log:
        return Log(best_epoch=17, rows=[], seconds=[])

    def learn(self, stop: Stop) -> None:
        self.trained.append(stop.epochs)

    def forget(self) -> None:
        self.forgot += 1

    def progress(self, held_out: HeldOut) -> Callable[[], float]:
        return lambda: self.lift

    @property
    def lams(self) -> Lams:
        return grid(LAMS, [0.0])

    def measure(self, held_out: HeldOut) -> Measured:
        lift = self.lift if (self.trained[-1] or 100) >= self.late else self.first
        return flat(*([lift] * (len(LAMS) - 1)), 0.0, noise=0.001, seed=len(self.name))


def race(entries: list[Planted], select: Any = "overall") -> tuple[Planted, list[Any]]:
    won, results = decide(cast(list[Blended], entries), cast(HeldOut, None), select)
    return cast(Planted, won), results


class TestDecide:
    @pytest.mark.parametrize("select", ["overall", "balanced"])
    @pytest.mark.parametrize("best", range(6))
    def test_the_planted_winner_wins_is_trained_to_its_end_and_all_are_reported(self, best: int, select: Any) -> None:
        entries = [Planted(0.1 if i == best else 0.01 * i, name="x" * (i + 1)) for i in range(6)]
        won, results = race(entries, select)
        assert won is entries[best]
        assert won.trained == [3, 6, None]
        assert sorted(len(entry.trained) for entry in entries) == [1, 1, 1, 1, 2, 3]  # six, then the better two
        assert [entry.forgot for entry in entries] == [len(entry.trained) - (entry is won) for entry in entries]
        assert results[0].setting == won.name
        assert {result.setting for result in results} == {entry.name for entry in entries}
        assert len(results) == 6
        assert [result.epochs for result in results] == [17, 6, 3, 3, 3, 3]
        assert results[0].model == "MF"

    def test_what_is_reported_are_the_figures_of_its_blend(self) -> None:
        _, results = race([Planted(-0.05, "a"), Planted(0.1, "bb")])
        best = flat(0.1, noise=0.001, seed=2)
        assert results[0].recall == pytest.approx(float(best.recall.mean()), abs=1e-9)
        assert results[0].lam == 0.8  # the highest of those that are as good
        assert results[1].lam == 1.0
        assert str(results[1]).startswith("MF, a: 0.")

    def test_rounds_get_longer(self) -> None:
        """What is good after 3 epochs can be overtaken after 6. What is bad after 3 is out."""
        late, early, out = Planted(0.1, "a", late=6, first=0.05), Planted(0.06, "bb"), Planted(0.2, "ccc", late=6)
        won, _ = race([Planted(0.0, "dddd"), Planted(0.0, "eeeee"), out, early, late])
        assert won is late
        assert early.trained == [3, 6]
        assert out.trained == [3]

    def test_one_entry_is_no_race(self) -> None:
        only = Planted(0.1, "a")
        won, results = race([only])
        assert won is only
        assert only.trained == [None]
        assert results == []


class TestOpenDiscounts:
    @pytest.mark.parametrize(("power", "expected"), [(0.5, (0.5, 0.0)), (0.0, (0.0,))])
    def test_it_is_the_one_that_suits_the_bare_model(self, power: float, expected: tuple[float, ...]) -> None:
        """Scores are a taste times popularity^power, and people take what they like."""
        rng = np.random.default_rng(0)
        n_users, n_items = 200, 60
        popularity = np.linspace(1, 150, n_items).astype(int)
        taken = np.zeros((n_users, n_items), bool)
        for item, n in enumerate(popularity):
            taken[rng.choice(n_users, n, replace=False), item] = True
        taste = rng.random((n_users, n_items)) * ~taken
        liked = taste >= np.sort(taste, 1)[:, [-5]]
        held_out = HeldOut(
            Interactions.of(*np.nonzero(taken)), Interactions.of(*np.nonzero(liked)), torch.device("cpu")
        )
        scores = torch.from_numpy(taste * popularity**power).float()
        assert open_discounts(lambda users: scores[users.index], held_out) == expected


def tiny(**options: Any) -> al.AUR:
    estimator = al.FactorEstimator(dim=8, max_epochs=4, lr=0.01, init=0.01)
    given: dict[str, Any] = {"estimator": estimator, "device": "cpu", "seed": 0} | options
    return al.AUR(**given)


class TestEndToEnd:
    def test_of_two_models_the_better_is_kept_and_what_was_compared_is_saved(
        self, split: al.Split, tmp_path: Any
    ) -> None:
        contenders = [al.Random(), al.MF(dim=8, iterations=5)]
        silent = al.FactorEstimator(dim=8, max_epochs=1, init=0.0)  # the models alone decide
        aur = tiny(contenders=contenders, estimator=silent, residuals="in-sample", unobserved="constant").fit(split)
        assert isinstance(aur.model, al.MF)
        assert [result.model for result in aur.race] == ["MF", "Random"]
        assert aur.setting == Setting("in-sample", "constant")
        aur.save(tmp_path / "m")
        loaded = al.AUR.load(tmp_path / "m")
        assert isinstance(loaded.model, al.MF)
        assert (loaded.race, loaded.setting) == (aur.race, aur.setting)
        assert torch.equal(loaded.score([0, 1]), aur.score([0, 1]))

    def test_settings_race_and_the_winners_options_reach_its_estimator(self, split: al.Split) -> None:
        aur = tiny(model=al.MF(dim=8, iterations=5), estimator=al.FactorEstimator(dim=8, max_epochs=2, lr=0.01)).fit(
            split
        )
        assert len(aur.race) == 5  # three with a spectral start, two with a random one
        assert aur.race[0].setting == str(aur.setting)
        assert len({result.setting for result in aur.race}) == 5
        assert isinstance(aur.estimator, al.FactorEstimator)
        assert (("init", aur.estimator.init),) == aur.setting.options

    def test_fitting_twice_races_twice(self, split: al.Split) -> None:
        contenders = [al.Random(), al.MF(dim=8, iterations=5)]
        aur = tiny(contenders=contenders, residuals="in-sample").fit(split.train)
        first = aur.race
        again = tiny(contenders=contenders, residuals="in-sample").fit(split)
        aur.fit(split)
        assert len(aur.race) == len(first) == 4
        assert aur.race == again.race
        assert torch.equal(aur.score([0, 1]), again.score([0, 1]))

    def test_a_contender_that_cannot_be_fitted_is_left_out_and_a_note_says_so(
        self, split: al.Split, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def short_of_memory(self: al.EASE, *given: Any) -> None:
            raise al.AleatorError("memory is short", "use another model")

        monkeypatch.setattr(al.EASE, "fit_pairs", short_of_memory)
        mf, fixed = al.MF(dim=8, iterations=5, l2=0.001), {"residuals": "in-sample", "unobserved": "constant"}
        aur = tiny(contenders=[al.EASE(), mf], **fixed).fit(split)
        assert isinstance(aur.model, al.MF)
        assert "EASE was left out: memory is short" in aur.notes
        with pytest.raises(al.AleatorError, match="memory is short"):
            tiny(contenders=[al.EASE()], **fixed).fit(split)

    def test_one_model_and_one_setting_are_no_race(self, fitted_aur: al.AUR) -> None:
        assert fitted_aur.race == []

    def test_contenders_are_not_changed_and_get_the_options_of_aur(self, split: al.Split) -> None:
        mine = al.MF(dim=4, iterations=2)
        aur = tiny(contenders=[mine], residuals="in-sample", unobserved="constant", seed=7).fit(split)
        assert mine.seed == 0
        assert aur.model.seed == 7
        with pytest.raises(al.AleatorError, match="not fitted"):
            mine.score([0])

    def test_without_a_model_there_are_two_by_default(self) -> None:
        aur = al.AUR()
        assert len(aur.contenders) == len(aur.entrants) == 2
        assert "MF" in {type(model).__name__ for model in aur.entrants}
        assert repr(aur) == "AUR()"

    def test_contenders_beside_a_model_are_refused(self) -> None:
        with pytest.raises(al.AleatorError, match="option contenders of AUR has no effect with a model"):
            al.AUR(al.MF(), contenders=[al.EASE()])

    def test_what_is_no_model_is_refused(self) -> None:
        with pytest.raises(al.AleatorError, match="the model is a str"):
            al.AUR(contenders=["mf"])  # type: ignore[list-item]
