"""load_model: load a saved folder, whatever kind of recommender it holds."""

from __future__ import annotations

from aleator import checkpoint
from aleator.aur import AUR
from aleator.models import MODELS
from aleator.recommender import Recommender


def load_model(folder: checkpoint.Path_, device: str = "auto") -> Recommender:
    """Load the AUR or the bare model that was saved in a folder. Loading runs no code.

    Args:
        folder: A folder that `save` wrote.
        device: Where to compute: "cpu", "cuda", or "auto" for the GPU if there is one.

    Returns:
        The fitted recommender, of the class that was saved.
    """
    kind = str(checkpoint.read_manifest(folder).get("kind"))
    return AUR.load(folder, device) if kind == "AUR" else MODELS.by_class(kind).load(folder, device)
