"""Models: anything that estimates the expectation. One algorithm, one file, one line here."""

from aleator.models.base import Model
from aleator.models.ease import EASE
from aleator.models.grafting import GRAFTS, graft
from aleator.models.graph_filter import GraphFilter
from aleator.models.itemknn import ItemKNN
from aleator.models.lightgcn import LightGCN
from aleator.models.mf import MF
from aleator.models.multvae import MultVAE
from aleator.models.ue import UE
from aleator.registry import Registry

MODELS: Registry[Model] = Registry(
    "model",
    *GRAFTS,
    ease=EASE,
    graph_filter=GraphFilter,
    itemknn=ItemKNN,
    lightgcn=LightGCN,
    mf=MF,
    multvae=MultVAE,
    ue=UE,
)

__all__ = ["EASE", "MF", "MODELS", "UE", "GraphFilter", "ItemKNN", "LightGCN", "Model", "MultVAE", "graft"]
