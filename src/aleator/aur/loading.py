"""load_model: load a saved folder, whatever kind of recommender it holds."""

from __future__ import annotations

from aleator import checkpoint
from aleator.aur import AUR
from aleator.models import MODELS
from aleator.recommender import Recommender


def load_model(folder: checkpoint.Path_, device: str = "auto", verify: bool = True) -> Recommender:
    """Load the AUR or the bare model that was saved in a folder. Loading runs no code.

    On a CPU, tensors are mapped into memory: all processes that load a folder share them. A folder is never rewritten in
    place, so a loaded recommender stays as it is when another one is saved there.

    Args:
        folder: A folder that `save` wrote.
        device: Where to compute: "cpu", "cuda", or "auto" for the GPU if there is one.
        verify: Whether to compare all tensors with their checksums, and to look for numbers that are not finite. A worker
            can save that time if its parent has verified the folder.

    Returns:
        The fitted recommender, of the class that was saved.
    """
    manifest, tensors = checkpoint.read(folder, verify)
    kind: type[Recommender] = AUR if manifest["kind"] == "AUR" else MODELS.by_class(manifest["kind"])
    return kind.restored_from(folder, manifest, tensors, device, verify)
