"""Recipes: what choices are made on, which tail counts, and what must stand beside a figure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import aleator as al
from aleator.data.interactions import Interactions
from aleator.data.tail import DEFAULT_TAIL
from aleator.recipe import FINE_LAMS, PAPER_LAMS, RECIPES, Recipe, recipe_of
from aleator.words import DEFAULT_RECIPE

OURS, TEST, PAPER = recipe_of("ours"), recipe_of("test"), recipe_of("paper")


def nothing(data: Interactions) -> Interactions:
    return data.take(np.zeros(len(data), bool))


def test_ours_fits_on_train_and_chooses_on_the_validation_part(split: al.Split) -> None:
    fitted, held = OURS.divide(split, 0.3, 5)
    assert fitted.fingerprint == split.train.fingerprint
    assert held.fingerprint == split.valid.fingerprint


def test_ours_carves_a_validation_part_where_there_is_none(split: al.Split) -> None:
    whole = al.Split(split.everything, nothing(split.valid), split.test)
    fitted, held = OURS.divide(whole, 0.3, 5)
    assert len(fitted) + len(held) == len(split.everything)
    assert len(held) == pytest.approx(0.3 * len(split.everything), rel=0.15)
    same, other = OURS.divide(whole, 0.3, 5)[1], OURS.divide(whole, 0.3, 6)[1]
    assert held.fingerprint == same.fingerprint != other.fingerprint


def test_ours_never_looks_at_the_test_part(split: al.Split) -> None:
    blind = replace(split, test=nothing(split.test))
    for mine, theirs in zip(OURS.divide(split, 0.1, 0), OURS.divide(blind, 0.1, 0), strict=True):
        assert mine.fingerprint == theirs.fingerprint


@pytest.mark.parametrize("recipe", [TEST, PAPER], ids=lambda recipe: recipe.name)
def test_two_recipes_fit_on_everything_and_choose_on_the_test_part(recipe: Recipe, split: al.Split) -> None:
    fitted, held = recipe.divide(split, 0.1, 0)
    assert fitted.fingerprint == split.everything.fingerprint
    assert held is split.test


def test_paper_needs_a_test_part(split: al.Split) -> None:
    with pytest.raises(al.AleatorError, match="chooses on the test part and there is none"):
        PAPER.divide(replace(split, test=nothing(split.test)), 0.1, 0)


def test_the_tail_is_the_programs_beside_published_figures_and_where_it_has_one(split: al.Split) -> None:
    cut = al.Tail.count(3)
    with_cut = replace(split, paper_tail=cut)
    assert PAPER.tail(with_cut) == TEST.tail(with_cut) == cut
    assert PAPER.tail(split) == DEFAULT_TAIL
    assert OURS.tail(with_cut) == DEFAULT_TAIL
    assert OURS.tail(split) == DEFAULT_TAIL


def test_figures_chosen_on_the_test_part_carry_a_warning() -> None:
    assert OURS.warning == ""
    assert PAPER.warning == " [recipe paper: chosen on the test part]"
    assert TEST.warning == " [recipe test: chosen on the test part]"
    assert (OURS.on_test, TEST.on_test, PAPER.on_test) == (False, True, True)


def test_test_has_our_options_and_the_conventions_of_published_figures() -> None:
    assert (OURS.paper_options, TEST.paper_options, PAPER.paper_options) == (False, False, True)
    assert (OURS.refits, TEST.refits, PAPER.refits) == (True, False, False)
    assert (OURS.lams, TEST.lams, PAPER.lams) == (FINE_LAMS, FINE_LAMS, PAPER_LAMS)
    assert len(FINE_LAMS) == 51
    assert set(PAPER_LAMS) < set(FINE_LAMS)
    assert (OURS.empty, TEST.empty, PAPER.empty) == ("skip", "zero", "zero")


def test_an_aur_of_recipe_paper_has_the_options_of_the_released_program(split: al.Split) -> None:
    """None of ours is left, once it is fitted."""
    aur = al.AUR(
        al.MF(max_epochs=2, recipe="paper"),
        estimator=al.FactorEstimator(dim=8, max_epochs=2),
        recipe="paper",
        device="cpu",
    ).fit(split)
    model, estimator = aur.model, aur.estimator
    assert isinstance(model, al.MF)
    assert isinstance(estimator, al.FactorEstimator)
    assert (model.solver, model.solved_by, model.dim, model.mu) == ("adam", "adam", 128, 0.1)
    assert (model.l2_used, model.frequency, model.negatives) == (0.0, False, "shared")
    assert (model.lr, model.batch_size, model.patience, model.check_every) == (1e-4, 32, 10, 2)
    assert (estimator.init, estimator.self_exclude, estimator.history_dropout) == (0.01, False, 0.0)
    assert (estimator.lr, estimator.batch_size, estimator.weight_decay) == (1e-4, 32, 0.0)
    assert (estimator.patience, estimator.check_every, estimator.sampled_items) == (10, 2, "all")
    assert (aur.alpha, aur.beta, aur.gamma, aur.floor, aur.blend) == (1.0, 0.01, 1e-3, 1e-3, "sigma")
    assert (aur.setting.residuals, aur.setting.unobserved, aur.setting.options) == ("in-sample", "model", ())
    assert (aur.race, aur.label_scale, aur.spreads) == ([], None, None)
    assert estimator.z.abs().max() < 0.1, "the start is random, with a deviation of 0.01, and two epochs move it little"
    assert (
        al.LightGCN(recipe="paper").options().items() >= {"dim": 128, "layers": 3, "loss": "squares", "l2": 0}.items()
    )
    assert al.MultVAE(recipe="paper").options().items() >= {"dropout": 0, "weight_decay": 0, "lr": 1e-4}.items()


def test_an_aur_of_recipe_test_has_our_options(split: al.Split) -> None:
    ours, test = al.AUR(al.MF()), al.AUR(al.MF(), recipe="test")
    of_recipe = ("recipe", "valid", "refit", "model", "estimator")
    for mine, theirs in ((ours, test), (ours.model, test.model), (ours.estimator, test.estimator)):
        both = [{n: v for n, v in part.options().items() if n not in of_recipe} for part in (mine, theirs)]
        assert both[0] == both[1]
    fitted = al.MF(dim=4, recipe="test").fit(split)
    assert fitted.fitted.fingerprint == split.everything.fingerprint
    with pytest.raises(al.AleatorError, match="recipe test, which chooses on the test part"):
        al.MF(recipe="test", refit=False)


def test_recipes_are_known_by_their_names() -> None:
    assert DEFAULT_RECIPE == "ours"
    assert {name: made.name for name, made in RECIPES.items()} == {name: name for name in ("ours", "test", "paper")}
    with pytest.raises(al.AleatorError, match=r"unknown recipe 'papr'.*did you mean 'paper'"):
        recipe_of("papr")
