"""Aleator: recommendation with aleatoric uncertainty.

A name is imported when it is first used, so `import aleator` imports no PyTorch.
"""

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

from aleator.errors import AleatorError
from aleator.export import check_export, export  # at once: later, Python would put the package in place of the function
from aleator.threads import limit_threads, one_thread_after_fork, spin_briefly
from aleator.version import __version__

if TYPE_CHECKING:
    from aleator.aur import AUR, Joint
    from aleator.aur.loading import load_model
    from aleator.batch.run import recommend_batch
    from aleator.data.catalog import load_dataset
    from aleator.data.formats import read, write
    from aleator.data.interactions import Interactions
    from aleator.data.simulate import simulate
    from aleator.data.splits import Split
    from aleator.data.tail import Tail
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
    )
    from aleator.models.graft.graft import graft
    from aleator.ranking.vectors import Vectors
    from aleator.training.watch import Epoch
    from aleator.tuning.search import tune
    from aleator.uncertainty import Estimator, FactorEstimator, MLPEstimator

spin_briefly()  # before anything loads PyTorch
limit_threads()
one_thread_after_fork()

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
    "Epoch",
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
    "check_export",
    "evaluate",
    "export",
    "graft",
    "load_dataset",
    "load_model",
    "read",
    "recommend_batch",
    "simulate",
    "tune",
    "write",
]

_HOMES = {  # what is imported when it is used; the same as above, where types are checked
    "aur": ("AUR", "Joint"),
    "aur.loading": ("load_model",),
    "batch.run": ("recommend_batch",),
    "data.catalog": ("load_dataset",),
    "data.formats": ("read", "write"),
    "data.interactions": ("Interactions",),
    "data.simulate": ("simulate",),
    "data.splits": ("Split",),
    "data.tail": ("Tail",),
    "evaluation.protocols": ("evaluate",),
    "evaluation.report": ("Report",),
    "models": (
        *("BPR", "EASE", "FISM", "IPS", "MACR", "MF", "PMF", "UE", "ExpoMF", "GraphFilter", "ItemKNN", "LightGCN"),
        *("Model", "MultVAE", "Popularity", "Random", "ZeroSum"),
    ),
    "models.graft.graft": ("graft",),
    "ranking.vectors": ("Vectors",),
    "training.watch": ("Epoch",),
    "tuning.search": ("tune",),
    "uncertainty": ("Estimator", "FactorEstimator", "MLPEstimator"),
}


if not TYPE_CHECKING:  # or it would let every name pass

    def __getattr__(name: str) -> Any:
        for home, names in _HOMES.items():
            if name in names:
                value = globals()[name] = getattr(import_module(f"aleator.{home}"), name)
                return value
        near = get_close_matches(name, __all__, n=1)
        told = f"; did you mean '{near[0]}'?" if near else ""
        raise AttributeError(f"module 'aleator' has no attribute '{name}'{told}", name=name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
