"""The one error a person can cause: what is wrong, and what to do about it."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Iterable


class AleatorError(Exception):
    """A mistake in the input or the setting, in one sentence, with one sentence on the way out.

    >>> str(AleatorError("k is 0", "give a k of at least 1"))
    'k is 0; give a k of at least 1.'
    """

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem, self.remedy = problem, remedy
        super().__init__(f"{problem}; {remedy}.")


def require(holds: bool, problem: str, remedy: str) -> None:
    """Raise an `AleatorError` unless `holds`."""
    if not holds:
        raise AleatorError(problem, remedy)


def need(module: str, purpose: str) -> None:
    """Raise an `AleatorError` unless a library that only `purpose` needs is installed."""
    if importlib.util.find_spec(module) is None:
        raise AleatorError(f"{purpose} needs the library {module}", f"install {module}")


def unknown_name(kind: str, name: str, known: Iterable[str]) -> AleatorError:
    """The error for a name that is not among `known`, with the nearest known one.

    >>> unknown_name("option", "alhpa", ["alpha", "beta"]).remedy
    "did you mean 'alpha'? Known: alpha, beta"
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    guess = f"did you mean '{near[0]}'? " if near else ""
    return AleatorError(f"unknown {kind} '{name}'", f"{guess}{'K' if guess else 'k'}nown: {', '.join(names)}")
