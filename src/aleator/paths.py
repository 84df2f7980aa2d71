"""Paths as people give them."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

from aleator.errors import AleatorError

_IMPOSSIBLE = (errno.ENAMETOOLONG, errno.ELOOP)


def as_path(given: Any) -> Path:
    """The path that was given, whether or not anything is there. What can be no path is refused."""
    try:
        path = Path(given)
        os.lstat(path)
    except (TypeError, ValueError) as error:  # no text at all, or a NUL or a lone surrogate in it
        raise AleatorError(f"{given!r} is no path ({error})", "give the path of a file or folder") from None
    except OSError as error:
        if error.errno in _IMPOSSIBLE:
            raise AleatorError(
                f"'{given}' is no path ({error.strerror})", "give the path of a file or folder"
            ) from None
    return path
