"""Text files as tables of texts: their encoding, their separator and their header."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from aleator.data.limits import Limit, is_packed, is_utf8, require_unpacked, unpacked
from aleator.data.reading import Reading
from aleator.errors import AleatorError, need, require, unreadable

if TYPE_CHECKING:
    import polars as pl

SEPARATOR = {"csv": ",", "tsv": "\t", "inter": "\t", "u.data": "\t", "ratings.dat": "::"}
WITHOUT_HEADER = ("u.data", "ratings.dat")
CANDIDATES = (",", ";", "\t", "|", "::")
SAMPLE = 1 << 16  # bytes of a file that show its separator
HEADER = 1 << 20  # bytes that the first line may have
BOM = b"\xef\xbb\xbf"
COLUMNS = 10_000  # columns that a table may have: polars takes a kilobyte for each, and ends the process without memory


def read_text(path: Path, format: str, reading: Reading) -> pl.DataFrame:
    """The rows of a text file. All columns are texts; without a header they are column_1, column_2 and so on."""
    with reading_file(path, format):
        import polars as pl

        limit = Limit.of(path, reading.max_bytes)
        plain = is_utf8(reading.encoding) and not is_packed(path)
        content = None if plain else unpacked(limit, reading.encoding)
        start = _start(path) if content is None else content[: HEADER + 1]
        separator = reading.sep or (_separator(start, format) if format in ("csv", "tsv") else SEPARATOR[format])
        n_columns = _count_columns(start, separator, path)
        if content is not None:
            limit.check(len(content), content.count(b"\n") * n_columns)
        source = literal(path) if content is None else content
        has_header = format not in WITHOUT_HEADER
        if len(separator) > 1:
            return _split_lines(source, separator, has_header)
        table = pl.read_csv(source, separator=separator, has_header=has_header, infer_schema=False, glob=False)
        if any("\ufffd" in name for name in table.columns):  # polars replaces wrong bytes of a header
            raise UnicodeError
        # RecBole's atomic files: the header gives name:type
        return table.rename(lambda name: name.partition(":")[0]) if format == "inter" else table


def literal(path: Path) -> str:
    """The name of a file as polars takes it literally, beside glob=False: no home folder (~) and no URL (s3://)."""
    name = str(path.absolute())
    try:
        name.encode()
    except UnicodeEncodeError:
        raise AleatorError(f"the name of {str(path)!a} is no valid UTF-8", "rename the file") from None
    return name


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEADER + 1)


def _count_columns(start: bytes, separator: str, path: Path) -> int:
    """The number of columns, or more: separators in quotes count too."""
    require_unpacked(start, path)
    whole = rb'(?:[^"\n]+|"[^"]*"?)*' if len(separator) == 1 else rb"[^\n]*"  # a newline in quotes ends no line
    line = re.compile(whole).match(start.removeprefix(BOM).lstrip(b"\r\n "))[0]  # type: ignore[index]
    require(len(line) <= HEADER, f"the first line of '{path}' is longer than {HEADER:,} bytes", "check the file")
    columns = 1 + line.count(separator.encode())
    require(columns <= COLUMNS, f"'{path}' has {columns:,} columns", f"give a file of at most {COLUMNS:,} columns")
    return columns


def _split_lines(source: str | bytes, separator: str, has_header: bool) -> pl.DataFrame:
    """The same where the separator has several characters. polars takes one, so the lines are read whole and split."""
    import polars as pl

    lines = pl.read_csv(
        source, separator="\x01", has_header=False, infer_schema=False, quote_char=None, glob=False
    ).to_series()
    first = (lines[0] or "").split(separator)
    names = first if has_header else [f"column_{n}" for n in range(1, len(first) + 1)]
    split = lines[int(has_header) :].str.splitn(separator, len(first)).struct.unnest()
    return split.rename(dict(zip(split.columns, names, strict=True)))


def separator_of(path: Path, format: str) -> str:
    """The separator of a file that is read line by line."""
    with open_bytes(path) as file:
        return _separator(file.read(SAMPLE), format)


def _separator(start: bytes, format: str) -> str:
    """The separator that occurs in the first lines, equally often in each. The usual one of the format comes first."""
    sample = start[:SAMPLE].decode(errors="replace")
    lines = re.sub(r'"[^"]*"', "", sample).splitlines()
    lines = [line for line in lines[:20] if line][: 10 if len(lines) > 1 else 1]
    usual = SEPARATOR[format]
    counts = {mark: {line.count(mark) for line in lines} for mark in CANDIDATES}
    plain = {mark: max(found) for mark, found in counts.items() if len(found) == 1 and max(found) > 0}
    return usual if usual in plain or not plain else max(plain, key=plain.__getitem__)


def open_bytes(path: Path) -> IO[bytes]:
    """A file, or what a .gz file holds."""
    return gzip.open(path) if is_packed(path) else path.open("rb")  # type: ignore[return-value]


@contextmanager
def reading_file(path: Path, format: str) -> Iterator[None]:
    """Turn any error of polars about a file into an `AleatorError`."""
    need("polars", "reading and writing tables")
    import polars as pl

    try:
        yield
    except (
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        UnicodeError,
        OSError,
        EOFError,
        zlib.error,
    ) as error:
        if isinstance(error, UnicodeError) or "utf-8" in str(error):
            problem = f"'{path}' cannot be read as {format}, since its bytes do not fit the encoding"
            raise AleatorError(problem, "give encoding=, such as 'latin-1' (--encoding in a shell)") from None
        raise unreadable(path, format, error) from None
