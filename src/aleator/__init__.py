"""Aleator: recommendation with aleatoric uncertainty."""

from aleator.aur import AUR
from aleator.data.catalog import load
from aleator.data.formats import read, write
from aleator.data.interactions import Interactions
from aleator.data.simulate import simulate
from aleator.data.splits import Split, given
from aleator.data.tail import Tail
from aleator.errors import AleatorError
from aleator.evaluation.protocols import evaluate
from aleator.evaluation.report import Report
from aleator.loading import load_model
from aleator.models import (
    BPR,
    EASE,
    IPS,
    MACR,
    MF,
    PMF,
    UE,
    ExpoMF,
    GraphFilter,
    ItemKNN,
    LightGCN,
    Model,
    MultVAE,
    Popularity,
    Random,
    ZeroSum,
    graft,
)
from aleator.tuning import tune
from aleator.uncertainty import Estimator, FactorEstimator, MLPEstimator
from aleator.version import __version__

__all__ = [
    "AUR",
    "BPR",
    "EASE",
    "IPS",
    "MACR",
    "MF",
    "PMF",
    "UE",
    "AleatorError",
    "Estimator",
    "ExpoMF",
    "FactorEstimator",
    "GraphFilter",
    "Interactions",
    "ItemKNN",
    "LightGCN",
    "MLPEstimator",
    "Model",
    "MultVAE",
    "Popularity",
    "Random",
    "Report",
    "Split",
    "Tail",
    "ZeroSum",
    "__version__",
    "evaluate",
    "given",
    "graft",
    "load",
    "load_model",
    "read",
    "simulate",
    "tune",
    "write",
]
