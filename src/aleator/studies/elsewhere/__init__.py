"""Models that other libraries fit, grafted. Studies of grafts ask for them by name.

`libraries.py` fits them. `handed_over.py` takes them from files, where the libraries cannot be installed.
"""

from aleator.studies.elsewhere.handed_over import Wanted, at_hand, version_of
from aleator.studies.elsewhere.libraries import LIBRARIES

__all__ = ["LIBRARIES", "Wanted", "at_hand", "version_of"]
