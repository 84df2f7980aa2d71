"""Options as dataclass fields: named once, typed once, checked by name and by type, remembered as given."""

from __future__ import annotations

import copy
import dataclasses
import types
import typing
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar

from aleator.errors import AleatorError, unknown_name


class Configurable:
    """Base of everything with options.

    Subclasses are `@dataclass(kw_only=True, eq=False, repr=False)`; each field is an option. `paper` holds the values
    that the paper's released program uses, for `recipe="paper"`.
    """

    paper: ClassVar[dict[str, Any]] = {}
    given: dict[str, Any]

    def __new__(cls, *args: Any, **options: Any) -> Self:
        hints = typing.get_type_hints(cls)
        known = [f.name for f in dataclasses.fields(cls) if f.init]  # type: ignore[arg-type]
        for name, value in options.items():
            if name not in known:
                raise unknown_name(f"option of {cls.__name__}", name, known)
            _check(cls.__name__, name, value, hints[name])
        self = super().__new__(cls)
        self.given = dict(options)
        return self

    def options(self) -> dict[str, Any]:
        """Every option with its value."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.init and f.kw_only}  # type: ignore[arg-type]

    def to_manifest(self) -> dict[str, Any]:
        """Kind and options, as a registry builds it from."""
        return {"kind": type(self).__name__, "options": self.options()}

    def with_defaults(self, **defaults: Any) -> Self:
        """A copy, with `defaults` for those options that were not given."""
        known = {f.name for f in dataclasses.fields(self) if f.init}  # type: ignore[arg-type]
        made = copy.copy(self)
        made.given = {**{k: v for k, v in defaults.items() if k in known}, **self.given}
        for name, value in made.given.items():
            setattr(made, name, value)
        made.__post_init__()
        return made

    def __post_init__(self) -> None:
        """Check the options."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.given.items())
        return f"{type(self).__name__}({shown})"


def _check(owner: str, name: str, value: Any, hint: Any) -> None:
    if not _matches(value, hint):
        raise AleatorError(f"option {name} of {owner} is {value!r}", f"it takes {_words(hint)}")


def _words(hint: Any) -> str:
    """A type as a person would say it.

    >>> _words(float | typing.Literal["auto"])
    "float or 'auto'"
    """
    if typing.get_origin(hint) is typing.Literal:
        return " or ".join(map(repr, typing.get_args(hint)))
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(_words(arg) for arg in typing.get_args(hint))
    return "nothing" if hint is type(None) else getattr(hint, "__name__", str(hint))


def _matches(value: Any, hint: Any) -> bool:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return any(value == arg and type(value) is type(arg) for arg in args)
    if origin in (typing.Union, types.UnionType):
        return any(_matches(value, arg) for arg in args)
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    kind = origin or hint
    return not isinstance(kind, type) or isinstance(value, kind)


@dataclass(frozen=True)
class Between:
    """A number from low to high; `log` where ratios matter, `whole` where it is an integer."""

    low: float
    high: float
    log: bool = False
    whole: bool = False


@dataclass(frozen=True)
class Among:
    """One of these values."""

    values: tuple[Any, ...]

    def __init__(self, *values: Any) -> None:
        object.__setattr__(self, "values", values)


Ranges = dict[str, Between | Among]


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
