"""Downloading one file: resumed where it was cut, checked, and put in place only when it is whole."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from aleator.errors import AleatorError, unknown_name
from aleator.progress import Bar
from aleator.progress import progress as progress_bar

ATTEMPTS = 4  # connections for one file before giving up; each goes on where the last one was cut
TIMEOUT = 30.0  # seconds without a byte
CHUNK = 1 << 16  # bytes
BY_HAND = "check the network, or fetch the file by hand and give its folder as the data root"


def fetch(
    url: str,
    target: str | os.PathLike[str],
    *,
    checksum: str | None = None,
    size: int | None = None,
    progress: bool = True,
) -> Path:
    """Download `url` to `target` and return its path.

    `checksum` is "md5:...", "sha256:..." or "git:..." (a git blob id), `size` the length in bytes. What has arrived
    lies in `target`.part: a later call goes on from there. `target` itself is either absent, what it was, or whole.
    """
    target = Path(target)
    part = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for _ in range(ATTEMPTS):
            if _receive(url, part, progress):
                break
        else:
            got = part.stat().st_size
            raise AleatorError(f"the connection for '{url}' was cut after {got:,} bytes", "run it again to go on there")
        _verify(part, url, checksum, size)
        os.replace(part, target)
    except OSError as error:  # of the disk: those of the network were turned into an AleatorError
        raise AleatorError(
            f"'{target}' cannot be written ({error.strerror or error})", "free some space or choose another folder"
        ) from error
    return target


def digest(path: Path, kind: str) -> str:
    """The hexadecimal digest of a file: `kind` is md5, sha256 or git (the id of a git blob of this content)."""
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
    """Append to `part` what one connection brings; whether the file is whole now."""
    start = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "aleator", "Accept-Encoding": "identity"}  # ranges and checksums are of the plain bytes
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == 416 and start:  # nothing follows what we have: it is whole, or not of this file
            whole = error.headers.get("Content-Range", "").rpartition("/")[2]
            if whole == str(start):
                return True
            part.unlink()
            return _receive(url, part, progress)
        raise AleatorError(f"'{url}' answers {error.code} ({error.reason})", BY_HAND) from error
    except (OSError, http.client.HTTPException) as error:  # URLError is an OSError
        raise AleatorError(f"'{url}' cannot be reached ({getattr(error, 'reason', error)})", BY_HAND) from error
    with response:
        if response.status != 206:  # the server does not resume: it sends the file from its beginning
            start = 0
        length = response.headers.get("Content-Length")
        total = None if length is None else start + int(length)
        label = url.rpartition("/")[2]
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
    return total is None or part.stat().st_size == total  # a cut connection may also just end


def _bar(label: str, total: int | None, progress: bool) -> AbstractContextManager[Bar]:
    return progress_bar(label, total) if progress else nullcontext(Bar())


def _verify(part: Path, url: str, checksum: str | None, size: int | None) -> None:
    """Raise, and delete `part`, unless it has the size and the checksum that are known of the file."""
    got = part.stat().st_size
    wrong = f"{got:,} bytes instead of {size:,}" if size is not None and got != size else None
    if wrong is None and checksum is not None:
        kind, _, expected = checksum.partition(":")
        found = digest(part, kind)
        wrong = f"{kind} {found} instead of {expected}" if found != expected else None
    if wrong is not None:
        part.unlink()
        raise AleatorError(
            f"'{url}' is not the file that was expected ({wrong})", "try again, or fetch the file by hand and check it"
        )
