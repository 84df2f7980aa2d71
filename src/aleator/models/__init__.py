"""Models: anything that estimates the expectation. One algorithm, one file, one line here."""

from aleator.models.base import Model
from aleator.models.bpr import BPR
from aleator.models.ease import EASE
from aleator.models.expomf import ExpoMF
from aleator.models.fism import FISM
from aleator.models.graft import GRAFTS, graft
from aleator.models.graph_filter import GraphFilter
from aleator.models.ips import IPS
from aleator.models.itemknn import ItemKNN
from aleator.models.lightgcn import LightGCN
from aleator.models.macr import MACR
from aleator.models.mf import MF
from aleator.models.multvae import MultVAE
from aleator.models.pmf import PMF
from aleator.models.popularity import Popularity
from aleator.models.random_scores import Random
from aleator.models.ue import UE
from aleator.models.zerosum import ZeroSum
from aleator.options import Registry

MODELS: Registry[Model] = Registry(
    "model",
    *GRAFTS,
    bpr=BPR,
    ease=EASE,
    expomf=ExpoMF,
    fism=FISM,
    graph_filter=GraphFilter,
    ips=IPS,
    itemknn=ItemKNN,
    lightgcn=LightGCN,
    macr=MACR,
    mf=MF,
    multvae=MultVAE,
    pmf=PMF,
    popularity=Popularity,
    random=Random,
    ue=UE,
    zerosum=ZeroSum,
)

__all__ = [
    "BPR",
    "EASE",
    "FISM",
    "IPS",
    "MACR",
    "MF",
    "MODELS",
    "PMF",
    "UE",
    "ExpoMF",
    "GraphFilter",
    "ItemKNN",
    "LightGCN",
    "Model",
    "MultVAE",
    "Popularity",
    "Random",
    "ZeroSum",
    "graft",
]
