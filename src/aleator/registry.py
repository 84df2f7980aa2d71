"""Names to classes: how the command line and saved folders find a model or an estimator."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from aleator.config import Configurable
from aleator.errors import unknown_name

T = TypeVar("T", bound=Configurable)


class Registry(Generic[T]):
    """Classes by the name that is typed, and by the class name that is saved; those `unnamed` by the latter alone."""

    def __init__(self, kind: str, *unnamed: type[T], **classes: type[T]) -> None:
        self.kind, self.unnamed, self.classes = kind, unnamed, classes

    def __getitem__(self, name: str) -> type[T]:
        if name not in self.classes:
            raise unknown_name(self.kind, name, self.classes)
        return self.classes[name]

    def by_class(self, name: str) -> type[T]:
        """The class called `name`, such as "MF"."""
        named = {c.__name__: c for c in (*self.classes.values(), *self.unnamed)}
        if name not in named:
            raise unknown_name(self.kind, name, named)
        return named[name]

    def build(self, manifest: dict[str, Any]) -> T:
        """From what `Configurable.to_manifest` gave."""
        return self.by_class(manifest["kind"])(**manifest["options"])
