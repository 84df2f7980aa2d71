"""Kernels: the fast paths that models and estimators share."""
