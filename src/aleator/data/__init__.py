"""Interactions: reading, cleaning and splitting them, the catalogue of datasets, and simulated worlds."""

from aleator.data.formats import read, write
from aleator.data.interactions import Interactions
from aleator.data.splits import Split
from aleator.data.tail import Tail
from aleator.data.vocabulary import Vocabulary

__all__ = ["Interactions", "Split", "Tail", "Vocabulary", "read", "write"]
