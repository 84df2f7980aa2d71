"""Vectors of users and items as files, and as an index of nearest neighbours. Each kind of index has a small file.

`import aleator` imports this package, since it has the name of a function. What is large is imported inside of functions.
"""

from aleator.export.export import export
from aleator.export.manifest import check_export

__all__ = ["check_export", "export"]
