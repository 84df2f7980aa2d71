"""Paths as people give them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from aleator.errors import AleatorError


def as_path(given: Any) -> Path:
    """The path that was given, whether or not anything is there.

    What can be no path is refused, and so is a path that the system does not look up: it is too long, goes in a circle,
    or lies in a folder that this user may not read.
    """
    try:
        path = Path(given)
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (TypeError, ValueError) as error:  # no text at all, or a NUL or a lone surrogate in it
        raise AleatorError(f"{given!r} is no path ({error})", "give the path of a file or folder") from None
    except OSError as error:
        raise AleatorError(f"'{given}' cannot be looked up ({error.strerror})", "give another path") from None
    return path
