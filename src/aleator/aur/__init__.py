"""AUR: a model, an uncertainty estimator on top of it, and the blend of both."""

from aleator.aur.aur import AUR

__all__ = ["AUR"]
