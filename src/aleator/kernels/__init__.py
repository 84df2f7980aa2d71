"""Kernels: fast paths that models and estimators share."""
