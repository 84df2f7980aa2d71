"""Tuning: the search for good options, and its trials."""

from aleator.tuning.search import Tuned, tune

__all__ = ["Tuned", "tune"]
