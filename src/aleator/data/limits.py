"""How far a file may expand. A few bytes can unpack to, or claim to be, more than fits into memory."""

from __future__ import annotations

import codecs
import gzip
import io
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from aleator.errors import AleatorError, require

FREE = 1 << 29  # bytes that every file may take
TIMES = 200  # a larger file may take so many times its size
COPIES = 4  # of each byte, while a file is read
VALUE = 48  # bytes that reading takes for each value beside these: its number, its place, an object
STEP = 1 << 20  # bytes to unpack at a time
GZIP = b"\x1f\x8b"
PACKED = {GZIP: "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\x78\x01": "zlib", b"\x78\x9c": "zlib", b"\x78\xda": "zlib"}


@dataclass(frozen=True)
class Limit:
    """The most memory that a file may take. What it claims is held against that before memory is taken."""

    path: Path
    most: int  # bytes

    @classmethod
    def of(cls, path: Path, max_bytes: int | None = None) -> Limit:
        """The limit of a file. None stands for 512 MiB, or 200 times the size of the file if that is more."""
        return cls(path, max(FREE, TIMES * path.stat().st_size) if max_bytes is None else max_bytes)

    def check(self, n_bytes: int, n_values: int = 0) -> None:
        """Refuse a file that has so many bytes and values, or more, once it is unpacked."""
        needed = COPIES * n_bytes + VALUE * n_values
        require(
            needed <= self.most,
            f"'{self.path}' has {self.path.stat().st_size:,} bytes, but takes {needed:,} bytes of memory or more, "
            f"and the limit is {self.most:,}",
            "if you trust the file, write it with less compression, or raise the limit of al.read with max_bytes= "
            "(--max-bytes in a shell)",
        )


def opened(path: Path) -> IO[bytes]:
    """The content of a file, unpacked if it is compressed by gzip, whatever its name says."""
    return gzip.open(path) if is_packed(path) else path.open("rb")  # type: ignore[return-value]


def is_packed(path: Path) -> bool:
    """Whether a file is compressed by gzip."""
    with path.open("rb") as file:
        return file.read(len(GZIP)) == GZIP


def unpacked(limit: Limit, encoding: str = "utf-8") -> bytes:
    """The content of a text file in UTF-8. It is refused as soon as it passes the limit."""
    decoder = None if is_utf8(encoding) else codecs.getincrementaldecoder(encoding)()
    content = io.BytesIO()
    with opened(limit.path) as file:
        while part := file.read(STEP):
            content.write(part if decoder is None else decoder.decode(part).encode())
            limit.check(content.tell())
    content.write(b"" if decoder is None else decoder.decode(b"", final=True).encode())
    return content.getvalue()


def is_utf8(encoding: str) -> bool:
    """Whether that is a name of UTF-8."""
    return codecs.lookup(encoding).name == "utf-8"


def require_unpacked(start: bytes, path: Path) -> None:
    """Refuse a text that is compressed twice, or not by gzip. polars would unpack it, and has no limit."""
    kind = next((kind for magic, kind in PACKED.items() if start.startswith(magic)), None)
    if kind is not None:
        how = "more than once" if kind == "gzip" else f"by {kind}"
        raise AleatorError(f"'{path}' is compressed {how}", "unpack it, or compress it once by gzip")
