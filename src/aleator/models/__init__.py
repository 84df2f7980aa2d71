"""Models: anything that estimates the expectation. One algorithm, one file, one line here."""

from aleator.models.base import Model
from aleator.models.mf import MF
from aleator.registry import Registry

MODELS: Registry[Model] = Registry("model", mf=MF)

__all__ = ["MF", "MODELS", "Model"]
