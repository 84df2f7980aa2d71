"""Loading a saved folder without knowing what is in it."""

from __future__ import annotations

from aleator import checkpoint
from aleator.aur import AUR
from aleator.models import MODELS
from aleator.recommender import Recommender


def load_model(folder: checkpoint.Path_, device: str = "auto") -> Recommender:
    """The AUR or the bare model that was saved in `folder`."""
    kind = str(checkpoint.read_manifest(folder).get("kind"))
    return AUR.load(folder, device) if kind == "AUR" else MODELS.by_class(kind).load(folder, device)
