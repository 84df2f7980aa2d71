"""Interactions: reading, cleaning, splitting, the catalogue, and simulated worlds."""

from aleator.data.formats import read, write
from aleator.data.interactions import Interactions, Vocabulary
from aleator.data.splits import Split
from aleator.data.tail import Tail

__all__ = ["Interactions", "Split", "Tail", "Vocabulary", "read", "write"]
