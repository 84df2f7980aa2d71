"""Vectors of users and items as files, and as an index of nearest neighbours. Each kind of index has a small file."""

from aleator.export.export import Target, export
from aleator.export.manifest import check_export

__all__ = ["Target", "check_export", "export"]
