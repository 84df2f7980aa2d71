"""Downloading one file. A download that was cut is resumed, and only a whole, checked file gets its final name."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from contextlib import AbstractContextManager, nullcontext
from http.client import HTTPResponse
from pathlib import Path

from aleator.errors import AleatorError, unknown_name
from aleator.progress import Bar
from aleator.progress import progress as progress_bar

ATTEMPTS = 4  # connections for one file; each continues where the last one was cut
TIMEOUT = 30.0  # seconds without a byte
CHUNK = 1 << 16  # bytes
BY_HAND = "check the network, or download the file by hand and give its folder as the data root"


def fetch(
    url: str,
    target: str | os.PathLike[str],
    *,
    checksum: str | None = None,
    size: int | None = None,
    progress: bool = True,
) -> Path:
    """Download a file.

    What has arrived is kept in `target`.part, and a later call continues there. `target` itself is only replaced by a
    whole file with the right size and checksum.

    Args:
        url: Where the file is.
        target: Where to put it.
        checksum: "md5:...", "sha256:..." or "git:..." (a git blob id).
        size: Length in bytes.
        progress: Whether to show a progress bar.

    Returns:
        The path of the file.
    """
    target = Path(target)
    part = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if not any(_receive(url, part, progress) for _ in range(ATTEMPTS)):
            got = part.stat().st_size
            raise AleatorError(f"the connection for '{url}' was cut after {got:,} bytes", "run it again to continue")
        _verify(part, url, checksum, size)
        os.replace(part, target)
    except OSError as error:  # an error of the disk: those of the network have become an AleatorError
        raise AleatorError(
            f"'{target}' cannot be written ({error.strerror or error})", "free some space or choose another folder"
        ) from error
    return target


def digest(path: Path, kind: str) -> str:
    """The checksum of a file in hexadecimal. `kind` is md5, sha256 or git (the id of a git blob of this content)."""
    if kind not in ("md5", "sha256", "git"):
        raise unknown_name("checksum", kind, ["md5", "sha256", "git"])
    running = hashlib.new("sha1" if kind == "git" else kind, usedforsecurity=False)
    if kind == "git":
        running.update(b"blob %d\0" % path.stat().st_size)
    with path.open("rb") as content:
        while chunk := content.read(CHUNK):
            running.update(chunk)
    return running.hexdigest()


def _receive(url: str, part: Path, progress: bool) -> bool:
    """Append to `part` what one connection brings. Returns whether the file is whole now."""
    start = part.stat().st_size if part.exists() else 0
    try:
        response = _connect(url, start)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not start:
            raise AleatorError(f"'{url}' answers {error.code} ({error.reason})", BY_HAND) from error
        # the server has nothing after what we have: either that is the whole file, or it is part of another one
        whole = error.headers.get("Content-Range", "").rpartition("/")[2]
        if whole == str(start):
            return True
        part.unlink()
        return _receive(url, part, progress)
    except urllib.error.URLError as error:
        raise AleatorError(f"'{url}' cannot be reached ({error.reason})", BY_HAND) from error
    except (OSError, http.client.HTTPException) as error:
        raise AleatorError(f"'{url}' cannot be reached ({error})", BY_HAND) from error
    with response:
        if response.status != 206:  # the server does not resume, but sends the file from its beginning
            start = 0
        return _append(response, part, start, url.rpartition("/")[2], progress)


def _connect(url: str, start: int) -> HTTPResponse:
    headers = {"User-Agent": "aleator", "Accept-Encoding": "identity"}  # ranges and checksums are of the plain bytes
    if start:
        headers["Range"] = f"bytes={start}-"
    response: HTTPResponse = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    return response


def _append(response: HTTPResponse, part: Path, start: int, label: str, progress: bool) -> bool:
    """Write the body of a response to `part`, after its first `start` bytes. Returns whether the file is whole now."""
    length = response.headers.get("Content-Length")
    total = None if length is None else start + int(length)
    with part.open("ab" if start else "wb") as out, _bar(label, total, progress) as bar:
        bar.advance(start)
        while True:
            try:
                chunk = response.read(CHUNK)
            except (OSError, http.client.HTTPException):
                return False
            if not chunk:
                break
            out.write(chunk)
            bar.advance(len(chunk))
    return total is None or part.stat().st_size == total  # a cut connection may also end without an error


def _bar(label: str, total: int | None, progress: bool) -> AbstractContextManager[Bar]:
    return progress_bar(label, total) if progress else nullcontext(Bar())


def _verify(part: Path, url: str, checksum: str | None, size: int | None) -> None:
    """Raise an error, and delete `part`, unless it has the known size and checksum of the file."""
    wrong = _difference(part, checksum, size)
    if wrong is not None:
        part.unlink()
        raise AleatorError(
            f"'{url}' is not the file that was expected ({wrong})",
            "try again, or download the file by hand and check it",
        )


def _difference(part: Path, checksum: str | None, size: int | None) -> str | None:
    got = part.stat().st_size
    if size is not None and got != size:
        return f"{got:,} bytes instead of {size:,}"
    if checksum is not None:
        kind, _, expected = checksum.partition(":")
        found = digest(part, kind)
        if found != expected:
            return f"{kind} {found} instead of {expected}"
    return None
