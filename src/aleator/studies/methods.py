"""Methods by the names of the paper, such as MF, LGCN-AUR, VAE-AUR-M or UE, with the options tuned for a dataset."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from aleator.aur import AUR
from aleator.aur.build import build
from aleator.data.splits import Split
from aleator.errors import need, require
from aleator.models import MODELS
from aleator.models.graft import graft
from aleator.recommender import Recipe, Recommender
from aleator.uncertainty import ESTIMATORS, FactorEstimator

CONFIGS = Path(__file__).parent / "configs"
NAMES = {"MF": "mf", "LGCN": "lightgcn", "VAE": "multvae", "MF-BPR": "bpr", "IPS": "ips", "MACR": "macr"}
NAMES |= {"PopBias": "zerosum", "ExpoMF": "expomf", "PMF": "pmf", "UE": "ue", "EASE": "ease", "ItemKNN": "itemknn"}
NAMES |= {"GraphFilter": "graph_filter", "Popularity": "popularity", "Random": "random"}
GRAFTS = ("implicit-als", "implicit-bpr")  # models of the library implicit, fitted by it and grafted
VARIANTS = ("", "-M", "-J")  # of AUR: as it is, with an MLP as the estimator, trained jointly
QUICK = {"max_epochs": 2, "iterations": 3, "dim": 16}  # where a class has such an option


@dataclass(frozen=True)
class Method:
    """A method by its name, with options beyond the tuned ones, such as {"alpha": 3, "model.dim": 256}."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = self.backbone in NAMES or self.backbone in GRAFTS
        require(known and self.variant in VARIANTS, f"there is no method '{self.name}'", f"known: {', '.join(NAMES)}")

    @property
    def backbone(self) -> str:
        """The name of the bare model."""
        return self.name.partition("-AUR")[0]

    @property
    def uncertain(self) -> bool:
        return "-AUR" in self.name

    @property
    def variant(self) -> str:
        """What follows AUR: -M, -J or nothing."""
        return self.name.partition("-AUR")[2]

    @property
    def bare(self) -> Method:
        """The model without AUR, with the same options of its own."""
        return Method(self.backbone, {n: v for n, v in self.settings.items() if n.startswith("model.")})

    @property
    def key(self) -> str:
        """Tells it from any other method."""
        return " ".join([self.name, *(f"{name}={value}" for name, value in sorted(self.settings.items()))])


def tuned(dataset: str, model: str, recipe: Recipe) -> dict[str, Any]:
    """The options found for a model on a dataset, of `NAME.paper.toml` under that recipe where it exists.

    Its tables are those of `aleator fit --config`, with `mlp` for the other estimator; none where it was not tuned.
    """
    paths = [CONFIGS / dataset / f"{model}.toml"]
    paths[:0] = [CONFIGS / dataset / f"{model}.paper.toml"] if recipe == "paper" else []
    return next((tomllib.loads(path.read_text()) for path in paths if path.exists()), {})


def options_of(method: Method, dataset: str, recipe: Recipe) -> dict[str, Any]:
    """The tuned options that a method uses: those of its model, and under AUR those of its estimator and of AUR."""
    found = tuned(dataset, NAMES.get(method.backbone, method.backbone), recipe)
    factor, mlp = found.pop("estimator", {}), found.pop("mlp", {})
    if not method.uncertain:
        return {name: value for name, value in found.items() if name == "model"}
    estimator = mlp if method.variant == "-M" else factor
    return found | ({"estimator": estimator} if estimator else {})


def make(
    method: Method, split: Split, dataset: str, *, recipe: Recipe, seed: int, device: str, quick: bool = False
) -> Recommender:
    """The method, ready to be fitted on `split`."""
    model = NAMES.get(method.backbone, method.backbone)
    settings: dict[str, Any] = {"model": {}, "estimator": {}} | options_of(method, dataset, recipe)
    kind = "mlp" if method.variant == "-M" else "factor"
    settings |= {"joint": True} if method.variant == "-J" else {}
    if quick:
        settings["model"] |= _present(MODELS[model], QUICK) if method.backbone in NAMES else {"factors": QUICK["dim"]}
        settings["estimator"] |= _present(ESTIMATORS[kind], QUICK)
        settings["joint_epochs"] = 2
    for name, value in method.settings.items():
        table, _, option = name.rpartition(".")
        (settings[table] if table else settings)[option] = value
    if method.backbone in GRAFTS:
        return grafted(method, split, settings, recipe=recipe, seed=seed, device=device)
    if not method.uncertain:
        settings = {"model": settings["model"]}
    return build(
        model,
        settings,
        with_uncertainty=method.uncertain,
        estimator=kind if method.uncertain else None,
        recipe=recipe,
        seed=seed,
        device=device,
    )


def grafted(
    method: Method, split: Split, settings: dict[str, Any], *, recipe: Recipe, seed: int, device: str
) -> Recommender:
    """A model of implicit, bare or under AUR.

    It is fitted without the pairs that lam is chosen on; so that both know the same, the estimator is not refitted.
    """
    need("implicit", method.name)
    from implicit.cpu.als import AlternatingLeastSquares
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    kind = AlternatingLeastSquares if method.backbone == "implicit-als" else BayesianPersonalizedRanking
    fitted = kind(**settings["model"], random_state=seed)
    fitted.fit((split.train if recipe == "ours" else split.everything).csr, show_progress=False)
    common: dict[str, Any] = {"seed": seed, "recipe": recipe, "device": device, "refit": False}
    if not method.uncertain:
        return graft(fitted, **common)
    options = {name: value for name, value in settings.items() if name not in ("model", "estimator")}
    return AUR(graft(fitted), estimator=FactorEstimator(**settings["estimator"]), **common, **options)


def _present(kind: type, options: dict[str, Any]) -> dict[str, Any]:
    """Those that the class has."""
    names = {f.name for f in fields(kind)}
    return {name: value for name, value in options.items() if name in names}
