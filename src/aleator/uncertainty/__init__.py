"""Estimators of the uncertainty, and the paper's objective that trains them."""

from aleator.options import Registry
from aleator.uncertainty.base import Estimator
from aleator.uncertainty.factor import FactorEstimator
from aleator.uncertainty.mlp import MLPEstimator
from aleator.uncertainty.objective import Objective

ESTIMATORS: Registry[Estimator] = Registry("estimator", factor=FactorEstimator, mlp=MLPEstimator)

__all__ = ["ESTIMATORS", "Estimator", "FactorEstimator", "MLPEstimator", "Objective"]
