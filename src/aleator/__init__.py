"""Aleator: recommendation with aleatoric uncertainty."""

from aleator.threads import spin_briefly

spin_briefly()  # before anything loads PyTorch

# ruff: noqa: E402

from aleator.aur import AUR, Joint
from aleator.aur.loading import load_model
from aleator.batch.run import recommend_batch
from aleator.data.catalog import load_dataset
from aleator.data.formats import read, write
from aleator.data.interactions import Interactions
from aleator.data.simulate import simulate
from aleator.data.splits import Split
from aleator.data.tail import Tail
from aleator.errors import AleatorError
from aleator.evaluation.protocols import evaluate
from aleator.evaluation.report import Report
from aleator.models import (
    BPR,
    EASE,
    FISM,
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
from aleator.ranking.vectors import Vectors
from aleator.tuning.search import tune
from aleator.uncertainty import Estimator, FactorEstimator, MLPEstimator
from aleator.version import __version__

__all__ = [
    "AUR",
    "BPR",
    "EASE",
    "FISM",
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
    "Joint",
    "LightGCN",
    "MLPEstimator",
    "Model",
    "MultVAE",
    "Popularity",
    "Random",
    "Report",
    "Split",
    "Tail",
    "Vectors",
    "ZeroSum",
    "__version__",
    "evaluate",
    "graft",
    "load_dataset",
    "load_model",
    "read",
    "recommend_batch",
    "simulate",
    "tune",
    "write",
]
