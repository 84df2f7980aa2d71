"""Methods by the names of the paper: what they build, and where their options come from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import aleator as al
from aleator.models import MODELS
from aleator.recipe import RECIPES, Recipe, recipe_of
from aleator.studies import methods
from aleator.studies.elsewhere import LIBRARIES
from aleator.studies.methods import BACKBONES, CONFIGS, GRAFTS, Method, make, tuned, under_aur
from aleator.studies.reproduce import studies
from aleator.studies.workbench import Workbench

PLAIN: dict[str, Any] = {"recipe": RECIPES["ours"], "seed": 0, "device": "cpu"}


@pytest.fixture
def tiny(split: al.Split) -> al.Split:
    return replace(split, name="tiny")


def test_every_model_has_a_name() -> None:
    assert {backbone.model for backbone in BACKBONES.values() if not backbone.grafted} == set(MODELS.classes)


def test_a_name_says_what_is_built(tiny: al.Split) -> None:
    joint = make(Method("LGCN-AUR-J"), tiny, "tiny", **PLAIN)
    assert isinstance(joint, al.AUR)
    assert joint.joint
    assert (type(joint.model).__name__, type(joint.estimator).__name__) == ("LightGCN", "FactorEstimator")
    other = make(Method("VAE-AUR-M"), tiny, "tiny", **PLAIN)
    assert isinstance(other, al.AUR)
    assert not other.joint
    assert type(other.estimator).__name__ == "MLPEstimator"
    assert type(make(Method("PopBias"), tiny, "tiny", **PLAIN)).__name__ == "ZeroSum"
    with pytest.raises(al.AleatorError, match="no method 'MF-AUR-X'"):
        Method("MF-AUR-X")


def test_a_name_is_read_once_into_its_parts() -> None:
    plain, joint = Method("MF-BPR"), Method("implicit-als-AUR-J")
    assert (plain.backbone, plain.uncertain, plain.variant, plain.base.grafted) == ("MF-BPR", False, None, False)
    assert (joint.backbone, joint.uncertain, joint.base.grafted) == ("implicit-als", True, True)
    assert joint.variant is not None
    assert (joint.variant.joint, joint.variant.estimator) == (True, "factor")
    assert joint.bare == Method("implicit-als")


def test_options_beyond_the_tuned_ones(tiny: al.Split) -> None:
    method = Method("MF-AUR", {"alpha": 3.0, "model.dim": 7})
    made = make(method, tiny, "tiny", **PLAIN)
    assert isinstance(made, al.AUR)
    assert (made.alpha, made.model.dim) == (3.0, 7)  # type: ignore[attr-defined]
    assert method.bare == Method("MF", {"model.dim": 7})
    assert method.key != Method("MF-AUR", {"alpha": 3.0}).key


def test_quick_is_small_whatever_was_tuned() -> None:
    data = al.Interactions.of([0, 0, 1, 1], [0, 1, 1, 2])
    split = al.Split(data, data, data)
    made = make(Method("MF-AUR"), split, "yelp2018", quick=True, **PLAIN)
    assert isinstance(made, al.AUR)
    assert (made.model.dim, made.estimator.max_epochs) == (16, 2)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", GRAFTS)
def test_models_of_other_libraries_are_grafted(name: str, tiny: al.Split) -> None:
    library = LIBRARIES[name].name
    pytest.importorskip(library, reason=f"{library} is not installed")
    bare = make(Method(name), tiny, "tiny", quick=True, **PLAIN).fit(tiny)
    aur = make(Method(f"{name}-AUR"), tiny, "tiny", quick=True, **PLAIN).fit(tiny)
    assert isinstance(aur, al.AUR)
    for made in (bare, aur):
        assert np.isfinite(al.evaluate(made, tiny).mean("overall", "recall@20"))
    assert bare.fitted.fingerprint == aur.fitted.fingerprint, "they do not know the same pairs"


def test_every_file_of_tuned_options_builds_what_it_is_for(tiny: al.Split) -> None:
    """Misspelt or superseded options are an error."""
    files = sorted(methods.CONFIGS.glob("*/*.toml"))
    assert files
    paper_name = {backbone.model: name for name, backbone in BACKBONES.items()}
    for file in files:
        model, _, recipe = file.stem.partition(".")
        assert recipe in ("", "paper"), file
        if model in GRAFTS:
            continue
        for chosen in ("ours", "test") if not recipe else ("paper",):
            about = PLAIN | {"recipe": recipe_of(chosen)}
            name = paper_name[model]
            assert tuned(file.parent.name, model, recipe_of(chosen)), file
            make(Method(name), tiny, file.parent.name, **about)
            make(Method(under_aur(name)), tiny, file.parent.name, **about)


def test_recipe_paper_takes_none_of_our_options() -> None:
    ours, test, paper = (RECIPES[name] for name in ("ours", "test", "paper"))
    assert tuned("nowhere", "mf", ours) == {}
    assert tuned("yelp2018", "macr", ours) == tuned("yelp2018", "macr", test) != {}
    assert tuned("yelp2018", "macr", paper) == {}
    assert tuned("amazon-book", "mf", paper) == {"gamma": 0.01}, "the paper's own choice for Amazon-Book"
    assert tuned("amazon-book", "mf", ours) == {}


def test_options_of_aur_are_not_those_of_the_bare_model() -> None:
    paper = RECIPES["paper"]
    assert methods.options_of(Method("MF-AUR"), "amazon-book", paper) == {"gamma": 0.01}
    assert methods.options_of(Method("MF"), "amazon-book", paper) == {}


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.name)
def test_the_options_of_every_cell_of_every_study_have_an_effect(recipe: Recipe, split: al.Split) -> None:
    """Options that were tuned for a dataset meet those of a study: none of them may be refused."""
    built = 0
    for dataset in sorted(folder.name for folder in CONFIGS.iterdir()):
        bench = Workbench(dataset, split, recipe=recipe)
        for method in {m.key: m for study in studies("all") for m in study.cells(bench)}.values():
            if not method.base.grafted:
                bench.make(method)
                built += 1
    assert built > 200
