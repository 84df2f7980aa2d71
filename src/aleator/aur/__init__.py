"""AUR: a model, an uncertainty estimator on top of it, and the blend of both."""

from aleator.aur.aur import AUR
from aleator.aur.joint import Joint

__all__ = ["AUR", "Joint"]
