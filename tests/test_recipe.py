"""Recipes: what choices are made on, which tail counts, and what must stand beside a figure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import aleator as al
from aleator.data.interactions import Interactions
from aleator.data.tail import DEFAULT_TAIL
from aleator.recipe import DEFAULT_RECIPE, FINE_LAMS, PAPER_LAMS, RECIPES, recipe_of

OURS, PAPER = recipe_of("ours"), recipe_of("paper")


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


def test_paper_fits_on_everything_and_chooses_on_the_test_part(split: al.Split) -> None:
    fitted, held = PAPER.divide(split, 0.1, 0)
    assert fitted.fingerprint == split.everything.fingerprint
    assert held is split.test


def test_paper_needs_a_test_part(split: al.Split) -> None:
    with pytest.raises(al.AleatorError, match="chooses on the test part and there is none"):
        PAPER.divide(replace(split, test=nothing(split.test)), 0.1, 0)


def test_the_tail_is_the_programs_only_for_paper_and_where_it_has_one(split: al.Split) -> None:
    cut = al.Tail.count(3)
    with_cut = replace(split, paper_tail=cut)
    assert PAPER.tail(with_cut) == cut
    assert PAPER.tail(split) == DEFAULT_TAIL
    assert OURS.tail(with_cut) == DEFAULT_TAIL
    assert OURS.tail(split) == DEFAULT_TAIL


def test_figures_chosen_on_the_test_part_carry_a_warning() -> None:
    assert OURS.warning == ""
    assert PAPER.warning == " [recipe paper: chosen on the test part]"
    assert (OURS.on_test, PAPER.on_test) == (False, True)


def test_only_ours_refits_and_takes_the_fine_grid() -> None:
    assert (OURS.refits, PAPER.refits) == (True, False)
    assert (OURS.lams, PAPER.lams) == (FINE_LAMS, PAPER_LAMS)
    assert len(FINE_LAMS) == 51
    assert set(PAPER_LAMS) < set(FINE_LAMS)
    assert (OURS.empty, PAPER.empty) == ("skip", "zero")


def test_recipes_are_known_by_their_names() -> None:
    assert DEFAULT_RECIPE == "ours"
    assert {name: made.name for name, made in RECIPES.items()} == {"ours": "ours", "paper": "paper"}
    with pytest.raises(al.AleatorError, match=r"unknown recipe 'papr'.*did you mean 'paper'"):
        recipe_of("papr")
