"""Options: dataclass fields that are checked by name and by type, the ranges to search them in, and named classes."""

from __future__ import annotations

import copy
import dataclasses
import reprlib
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar

from aleator.errors import AleatorError, require, unknown_name


class Configurable:
    """Base of everything that has options.

    Subclasses are `@dataclass(kw_only=True, eq=False, repr=False)`, and each field is an option. `paper` holds the
    values of the paper's released program, for recipe "paper". `aleator tune` searches in `ranges`, and under recipe
    "paper" in `paper_ranges`.

    An option that has no effect beside the others is refused if a user gave it to the constructor. It is not refused if
    it was offered: by `with_defaults`, which passes on options of AUR or of the command line, or by a model folder.
    """

    paper: ClassVar[dict[str, Any]] = {}
    ranges: ClassVar[Ranges] = {}
    paper_ranges: ClassVar[Ranges] = {}

    given: dict[str, Any]  # the options that were given to the constructor or to `with_defaults`
    offered: frozenset[str]  # given options that may be without an effect, since no user asked for them

    def __new__(cls, *args: Any, **options: Any) -> Self:
        hints = typing.get_type_hints(cls)
        known = cls.option_names()
        cls._require_names(args)
        for name, value in options.items():
            if name not in known:
                raise unknown_name(f"option of {cls.__name__}", name, known)
            if value is not cls.__dataclass_fields__[name].default:  # type: ignore[attr-defined]
                check_type(cls.__name__, name, value, hints[name])
        self = super().__new__(cls)
        self.given, self.offered = dict(options), frozenset()
        return self

    @classmethod
    def restored(cls, *args: Any, **options: Any) -> Self:
        """An object with the options of a model folder. Options without an effect are not refused."""
        made = cls.__new__(cls, *args, **options)
        made.offered = frozenset(options)
        made.__init__(*args, **options)  # type: ignore[misc]
        return made

    @classmethod
    def option_names(cls) -> list[str]:
        """The names of all options."""
        return [field.name for field in dataclasses.fields(cls) if field.init]  # type: ignore[arg-type]

    @classmethod
    def _require_names(cls, args: tuple[Any, ...]) -> None:
        """Refuse options that were given without their name."""
        fields = [field for field in dataclasses.fields(cls) if field.init]  # type: ignore[arg-type]
        without = args[sum(not field.kw_only for field in fields) :]
        if without:
            named = [field.name for field in fields if field.kw_only]
            own = [name for name in cls.__annotations__ if name in named] or named
            hints = typing.get_type_hints(cls)
            example = next((name for name in own if _matches(without[0], hints[name])), own[0])
            raise AleatorError(
                f"{cls.__name__} was given {without[0]!r} without the name of an option",
                f"name the option, such as {cls.__name__}({example}={without[0]!r})",
            )

    def __post_init__(self) -> None:
        """Check the options. Subclasses call this first."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse unknown attributes. Options of what is fitted act or are refused, by `change`."""
        kind = type(self)
        option = kind.__dataclass_fields__.get(name)  # type: ignore[attr-defined]
        known = option is not None or name in ("given", "offered") or any(name in vars(each) for each in kind.__mro__)
        if not known:
            raise unknown_name(f"attribute of {kind.__name__}", name, kind.option_names())
        if option is not None and option.init and self.is_fitted:
            value = self.change(name, value)
        object.__setattr__(self, name, value)

    @property
    def is_fitted(self) -> bool:
        """Whether a change of an option comes too late."""
        return False

    def change(self, option: str, value: Any) -> Any:
        """The new value of an option of what is fitted, which must act at once. Others are refused."""
        if value != getattr(self, option):
            kind = type(self).__name__
            told = f"option {option} of {kind} has no effect once it is fitted"
            raise AleatorError(told, f"make a new {kind} with {option}={value!r} and fit it")
        return value

    def unused(self) -> Mapping[str, str]:
        """Options that have no effect, given the other options. The values are the reasons."""
        return {}

    def refuse_unused(self) -> None:
        """Refuse an option that was given and has no effect."""
        for name, reason in self.unused().items():
            told = f"option {name} of {type(self).__name__} has no effect {reason}"
            require(not self.insists_on(name), told, "leave it out, or change the other option")

    def insists_on(self, name: str) -> bool:
        """Whether somebody asked for this option, rather than that `with_defaults` or a model folder gave it."""
        return name in self.given and name not in self.offered

    def options(self) -> dict[str, Any]:
        """Every keyword option that has an effect, with its value."""
        fields = [field for field in dataclasses.fields(self) if field.init and field.kw_only]  # type: ignore[arg-type]
        unused = self.unused()
        return {field.name: getattr(self, field.name) for field in fields if field.name not in unused}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every option that has an effect, by name, as scikit-learn's estimators give theirs.

        `sklearn.base.clone(model)` makes the same object anew, unfitted.

        Args:
            deep: Whether to add the options of options, such as `model__dim` of an AUR.

        Returns:
            The options as they were given, or their defaults. What a fit chose is not among them.
        """
        found = self.params()
        for name, value in list(found.items()):
            if deep and isinstance(value, Configurable):
                found |= {f"{name}__{own}": nested for own, nested in value.get_params().items()}
        return found

    def params(self) -> dict[str, Any]:
        """The options for `get_params`, without those of options."""
        unused = self.unused()
        return {name: getattr(self, name) for name in self.option_names() if name not in unused}

    def __sklearn_clone__(self) -> Self:
        """An unfitted object with the options that this one was given. `clone` of scikit-learn calls it."""
        given = {name: _clone(value) for name, value in self.given.items()}
        made = type(self).__new__(type(self), **given)
        made.offered = self.offered
        made.__init__(**given)  # type: ignore[misc]
        return made

    def to_manifest(self) -> dict[str, Any]:
        """The class name and the options. `Registry.build` makes the object from them again."""
        return {"kind": type(self).__name__, "options": self.options()}

    def with_defaults(self, **defaults: Any) -> Self:
        """A copy that takes `defaults` for its options that were not given. Names of no option are ignored."""
        offered = {name: defaults[name] for name in self.option_names() if name in defaults and name not in self.given}
        hints = typing.get_type_hints(type(self)) if offered else {}
        for name, value in offered.items():
            check_type(type(self).__name__, name, value, hints[name])
        made = copy.copy(self)
        made.given = {**offered, **self.given}
        made.offered = self.offered | offered.keys()
        for name, value in made.given.items():
            object.__setattr__(made, name, value)  # it may be fitted
        made.__post_init__()
        return made

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.given.items())
        return f"{type(self).__name__}({shown})"


def _clone(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_clone(each) for each in value)
    return value.__sklearn_clone__() if isinstance(value, Configurable) else value


def check_type(owner: str, name: str, value: Any, hint: Any) -> None:
    if not _matches(value, hint):
        raise AleatorError(f"option {name} of {owner} is {reprlib.repr(value)}", f"it takes {_words(hint)}")
    most = {int: 2**63, float: 2.0**128}.get(type(value))  # what int64 and float32 hold; NaN is not below it either
    fits = most is None or abs(value) < most
    require(fits, f"option {name} of {owner} is {reprlib.repr(value)}", "give a finite number of a usual size")


def _words(hint: Any) -> str:
    """A type as a person would say it.

    >>> _words(float | typing.Literal["auto"])
    "float or 'auto'"
    """
    if typing.get_origin(hint) is typing.Literal:
        return " or ".join(map(repr, typing.get_args(hint)))
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(_words(arg) for arg in typing.get_args(hint))
    if hint is type(None):
        return "nothing"
    return hint.__name__ if isinstance(hint, type) else str(hint)


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
    """A range of numbers to search."""

    low: float
    high: float
    log: bool = False  # search on a logarithmic scale
    whole: bool = False  # integers only


@dataclass(frozen=True)
class Among:
    """A list of values to search."""

    values: tuple[Any, ...]

    def __init__(self, *values: Any) -> None:
        object.__setattr__(self, "values", values)


Ranges = dict[str, Between | Among]
T = TypeVar("T", bound=Configurable)


class Registry(Generic[T]):
    """Classes by the name that a person types, and by the class name that a model folder holds.

    The `unnamed` classes have only the class name.
    """

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
        """An object from what `Configurable.to_manifest` returned."""
        return self.by_class(manifest["kind"]).restored(**manifest["options"])
