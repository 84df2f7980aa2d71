"""Methods by the names of the paper, such as MF, LGCN-AUR, VAE-AUR-M or UE, with the options tuned for a dataset."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from aleator.aur import AUR
from aleator.aur.build import build
from aleator.data.splits import Split
from aleator.errors import require
from aleator.models import MODELS
from aleator.options import Configurable
from aleator.recipe import Recipe
from aleator.recommender import Recommender
from aleator.studies.elsewhere import LIBRARIES, Wanted
from aleator.uncertainty import ESTIMATORS, FactorEstimator

CONFIGS = Path(__file__).parent / "configs"
QUICK = {"max_epochs": 2, "iterations": 3, "dim": 16, "init": "spectral"}  # set where a class has such an option
QUICK_JOINT = {"max_epochs": 2}
QUICK_SETTING = {"residuals": "in-sample", "unobserved": "model"}  # of the estimator, so that nothing races


@dataclass(frozen=True)
class Backbone:
    """A bare model as the paper names it."""

    model: (
        str | None
    )  # its name in `aleator.models`, and that of its file of tuned options; None if AUR compares several
    grafted: bool = False  # fitted by another library, by its name in `elsewhere.LIBRARIES`, then used as it is
    tunable: bool = True  # whether it has options worth a search


@dataclass(frozen=True)
class Variant:
    """A kind of AUR."""

    estimator: Literal["factor", "mlp"] = "factor"
    joint: bool = False


FLOORS = ("Random", "Popularity")  # every table of methods has them: what is not above them has learned nothing
BACKBONES = {
    "MF": Backbone("mf"),
    "LGCN": Backbone("lightgcn"),
    "VAE": Backbone("multvae"),
    "MF-BPR": Backbone("bpr"),
    "IPS": Backbone("ips"),
    "MACR": Backbone("macr"),
    "PopBias": Backbone("zerosum"),
    "ExpoMF": Backbone("expomf"),
    "PMF": Backbone("pmf"),
    "UE": Backbone("ue"),
    "FISM": Backbone("fism"),
    "EASE": Backbone("ease"),
    "ItemKNN": Backbone("itemknn"),
    "GraphFilter": Backbone("graph_filter"),
    "Popularity": Backbone("popularity", tunable=False),
    "Random": Backbone("random", tunable=False),
    **{name: Backbone(name, grafted=True) for name in LIBRARIES},
}
DEFAULT, COMPARED = "AUR", Backbone(None, tunable=False)  # the default AUR: it compares models and keeps one
GRAFTS = tuple(name for name, backbone in BACKBONES.items() if backbone.grafted)
UNDIVIDED = {"discount": 0.0, "prior": 0.0}  # of an AUR: popularity has no part in the scores but through r and s
OF_STUDY = "study."  # begins the name of a setting that a study reads, and that is no option of the method
VARIANTS = {"": Variant(), "-M": Variant(estimator="mlp"), "-J": Variant(joint=True)}  # by what follows AUR in a name


def under_aur(backbone: str, variant: str = "") -> str:
    """The name of AUR on a backbone.

    >>> under_aur("MF", "-J")
    'MF-AUR-J'
    """
    return f"{backbone}-AUR{variant}"


# what each name means: the backbone, and the variant of AUR if there is one
MEANINGS: dict[str, tuple[str, Variant | None]] = {
    **{name: (name, None) for name in BACKBONES},
    **{under_aur(name, ending): (name, variant) for name in BACKBONES for ending, variant in VARIANTS.items()},
    DEFAULT: (DEFAULT, Variant()),
}


@dataclass(frozen=True)
class Method:
    """A method by its name, with options beyond the tuned ones, such as {"alpha": 3, "model.dim": 256}.

    A setting whose name begins with `OF_STUDY` is no option. It says what a study does with the method.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require(self.name in MEANINGS, f"there is no method '{self.name}'", f"known: {', '.join(BACKBONES)}")

    @property
    def backbone(self) -> str:
        """The name of the bare model."""
        return MEANINGS[self.name][0]

    @property
    def base(self) -> Backbone:
        """What is declared about the bare model."""
        return BACKBONES.get(self.backbone, COMPARED)

    @property
    def variant(self) -> Variant | None:
        """The kind of AUR; None for a bare model."""
        return MEANINGS[self.name][1]

    @property
    def uncertain(self) -> bool:
        """Whether it is an AUR."""
        return self.variant is not None

    @property
    def bare(self) -> Method:
        """The model without AUR, with the same options of its own."""
        return Method(self.backbone, {n: v for n, v in self.settings.items() if n.startswith("model.")})

    @property
    def key(self) -> str:
        """Tells it from any other method."""
        return key_of(self.name, self.settings)


def key_of(name: str, settings: Mapping[str, Any]) -> str:
    """The name of a method and its options in one text.

    >>> key_of("MF-AUR", {"alpha": 3.0})
    'MF-AUR alpha=3.0'
    """
    return " ".join([name, *(f"{option}={value}" for option, value in sorted(settings.items()))])


def tunable(name: str) -> bool:
    """Whether a row of that name has options worth a search. A row that is no method of its own counts as such."""
    return name not in MEANINGS or Method(name).base.tunable


def tuned(dataset: str, model: str, recipe: Recipe) -> dict[str, Any]:
    """The options found for a model on a dataset; none where it was not tuned.

    They stand in `NAME.toml`. Recipe paper takes the released program's options instead: only those in `NAME.paper.toml`
    differ from dataset to dataset. The tables of a file are those of `aleator fit --config`.
    """
    path = CONFIGS / dataset / f"{model}{'.paper' if recipe.paper_options else ''}.toml"
    return tomllib.loads(path.read_text()) if path.exists() else {}


def options_of(method: Method, dataset: str, recipe: Recipe) -> dict[str, Any]:
    """The tuned options that a method uses: those of its model, and under AUR those of its estimator and of AUR."""
    found = {} if method.base.model is None else tuned(dataset, method.base.model, recipe)
    return {name: value for name, value in found.items() if name == "model" or method.uncertain}


def settings_of(method: Method, dataset: str, recipe: Recipe, *, quick: bool) -> dict[str, Any]:
    """All options of a method as `build` takes them: the tuned ones, its own, and those of a quick run."""
    settings: dict[str, Any] = {"model": {}, "estimator": {}} | options_of(method, dataset, recipe)
    if method.variant is not None and method.variant.joint:
        settings["joint"] = QUICK_JOINT if quick else settings.get("joint", True)
    for name, value in method.settings.items():
        if name.startswith(OF_STUDY):
            continue
        table, _, option = name.rpartition(".")
        if table:
            known = settings.get(table)
            settings[table] = (known if isinstance(known, dict) else {}) | {option: value}
        else:
            settings[option] = value
    if quick:
        kinds: dict[str, type[Configurable]] = {"estimator": ESTIMATORS[(method.variant or Variant()).estimator]}
        if method.base.model is not None and not method.base.grafted:
            kinds["model"] = MODELS[method.base.model]
        for table, kind in kinds.items():
            own = [name.removeprefix(f"{table}.") for name in method.settings]
            settings[table] |= _quick(kind, settings[table], recipe, own)
        settings["model"] |= {"factors": QUICK["dim"]} if method.base.grafted else {}
        settings = QUICK_SETTING | settings
    return settings


def _quick(kind: type[Configurable], options: dict[str, Any], recipe: Recipe, own: Sequence[str]) -> dict[str, Any]:
    """The quick options that the class has, that have an effect, and that are not a method's `own`."""
    about = {"recipe": recipe.name} if "recipe" in kind.option_names() else {}
    names = set(kind.option_names()) - kind(**options, **about).unused().keys() - set(own)
    return {name: value for name, value in QUICK.items() if name in names}


def make(
    method: Method, split: Split, dataset: str, *, recipe: Recipe, seed: int, device: str, quick: bool = False
) -> Recommender:
    """The method, ready to be fitted on `split`."""
    settings = settings_of(method, dataset, recipe, quick=quick)
    if method.base.grafted:
        return grafted(method, split, settings, recipe=recipe, seed=seed, device=device)
    return build(
        method.base.model,
        settings if method.uncertain else {"model": settings["model"]},
        with_uncertainty=method.uncertain,
        estimator=method.variant.estimator if method.variant is not None else None,
        recipe=recipe.name,
        seed=seed,
        device=device,
        max_epochs=QUICK["max_epochs"] if quick and method.base.model is None else None,
    )


def grafted(
    method: Method, split: Split, settings: dict[str, Any], *, recipe: Recipe, seed: int, device: str
) -> Recommender:
    """A model of another library, bare or under AUR.

    It is fitted without the pairs that lam is chosen on. The estimator is not refitted, so both know the same pairs.
    """
    common: dict[str, Any] = {"seed": seed, "recipe": recipe.name, "device": device}
    common |= {"refit": False} if recipe.refits else {}
    model = wanted(method, split, settings, recipe=recipe, seed=seed)
    fitted = model.graft(**{} if method.uncertain else common)
    if not method.uncertain:
        return fitted
    options = {name: value for name, value in settings.items() if name not in ("model", "estimator")}
    return AUR(fitted, estimator=FactorEstimator(**settings["estimator"]), **common, **options)


def wanted(method: Method, split: Split, settings: dict[str, Any], *, recipe: Recipe, seed: int) -> Wanted:
    """The model of another library that a method grafts: on which pairs it is fitted, and with which options."""
    assert method.base.model is not None
    pairs = split.everything if recipe.on_test else split.train
    return Wanted(method.base.model, split.name, pairs, seed, settings["model"])
