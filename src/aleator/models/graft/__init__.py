"""Grafting: models that were fitted elsewhere serve as the expectation."""

from aleator.models.graft.graft import GRAFTS, graft

__all__ = ["GRAFTS", "graft"]
