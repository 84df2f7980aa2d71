"""The one error that a person can cause. It says what is wrong and what to do."""

from __future__ import annotations

import difflib
import importlib.util
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_LONGEST = 3000  # bytes of a message


class AleatorError(Exception):
    """A mistake in the input or in an option.

    The message says in one sentence what is wrong and in one what to do. Any other exception is a bug in Aleator.

    Args:
        problem: What is wrong, without a full stop.
        remedy: What to do, without a full stop.

    Example:
        >>> str(AleatorError("k is 0", "give a k of at least 1"))
        'k is 0; give a k of at least 1.'
    """

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem = problem
        self.remedy = remedy
        told = f"{problem}; {remedy}.".encode(errors="backslashreplace")  # a lone surrogate cannot be printed
        if len(told) > _LONGEST:  # a file may hold a name of any length
            told = told[: _LONGEST // 2] + b" ... " + told[-_LONGEST // 2 :]
        super().__init__(told.decode(errors="ignore"))

    def __reduce__(self) -> tuple[type[AleatorError], tuple[str, str]]:
        return AleatorError, (self.problem, self.remedy)  # so that it comes whole out of another process


def require(holds: bool, problem: str, remedy: str) -> None:
    """Raise an `AleatorError` unless `holds`."""
    if not holds:
        raise AleatorError(problem, remedy)


def require_seed(seed: object) -> None:
    """Raise an `AleatorError` unless that is the seed of random draws, for numpy and for PyTorch."""
    whole = hasattr(seed, "__index__") and 0 <= int(seed.__index__()) < 1 << 63
    require(whole, f"seed is {seed!r}", "give a seed from 0 to 2^63 - 1")


def need(module: str, purpose: str, package: str | None = None) -> None:
    """Raise an `AleatorError` unless the library `module` is installed.

    `purpose` says what needs it. `package` is what to install, if that has another name.
    """
    if importlib.util.find_spec(module) is None:
        raise AleatorError(f"{purpose} needs the library {module}", f"install {package or module}")


def unknown_name(kind: str, name: str, known: Iterable[str]) -> AleatorError:
    """The error for a name that is not among `known`. It suggests the nearest known name.

    >>> unknown_name("option", "alhpa", ["alpha", "beta"]).remedy
    "did you mean 'alpha'? Known: alpha, beta"
    """
    names = sorted(known)
    listed = ", ".join(names)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    remedy = f"did you mean '{near[0]}'? Known: {listed}" if near else f"known: {listed}"
    return AleatorError(f"unknown {kind} '{name:.200}'", remedy)


def unreadable(path: str | os.PathLike[str], format: str, error: BaseException) -> AleatorError:
    """The error for a file that is not in the `format` it was read as. It quotes the start of what the reader said."""
    reason = str(error).partition("\n")[0] or type(error).__name__
    if len(reason) > 120:
        reason = f"{reason[:120]}..."
    separated = format in ("csv", "tsv")
    remedy = (
        "check the file, or give its separator with sep= (--sep)" if separated else "check the file or give its format"
    )
    return AleatorError(f"'{path}' cannot be read as {format} ({reason})", remedy)


@contextmanager
def parsing(path: str | os.PathLike[str], format: str) -> Iterator[None]:
    """Inside, whatever a library raises about a damaged file becomes an `AleatorError`. Call nothing else inside."""
    try:
        yield
    except AleatorError:
        raise
    except Exception as error:
        raise unreadable(path, format, error) from None
