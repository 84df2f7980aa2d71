"""Text files as tables of texts: their encoding, their separator and their header."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from aleator.data.reading import Reading
from aleator.errors import AleatorError, need, unreadable

if TYPE_CHECKING:
    import polars as pl

SEPARATOR = {"csv": ",", "tsv": "\t", "inter": "\t", "u.data": "\t", "ratings.dat": "::"}
WITHOUT_HEADER = ("u.data", "ratings.dat")
CANDIDATES = (",", ";", "\t", "|", "::")
SAMPLE = 1 << 16  # bytes of a file that show its separator


def read_text(path: Path, format: str, reading: Reading) -> pl.DataFrame:
    """The rows of a text file. All columns are texts; without a header they are column_1, column_2 and so on."""
    with reading_file(path, format):
        import polars as pl

        separator = reading.sep or (
            separator_of(path, format, reading) if format in ("csv", "tsv") else SEPARATOR[format]
        )
        source = path if reading.encoding.lower() in ("utf-8", "utf8") else _decoded(path, reading.encoding)
        has_header = format not in WITHOUT_HEADER
        if len(separator) > 1:
            return _split_lines(source, separator, has_header)
        table = pl.read_csv(source, separator=separator, has_header=has_header, infer_schema=False)
        if any("\ufffd" in name for name in table.columns):  # polars replaces wrong bytes of a header
            raise UnicodeError
        # RecBole's atomic files: the header gives name:type
        return table.rename(lambda name: name.partition(":")[0]) if format == "inter" else table


def _split_lines(source: Path | bytes, separator: str, has_header: bool) -> pl.DataFrame:
    """The same where the separator has several characters. polars takes one, so the lines are read whole and split."""
    import polars as pl

    lines = pl.read_csv(source, separator="\x01", has_header=False, infer_schema=False, quote_char=None).to_series()
    first = lines[0].split(separator)
    names = first if has_header else [f"column_{n}" for n in range(1, len(first) + 1)]
    split = lines[int(has_header) :].str.splitn(separator, len(first)).struct.unnest()
    return split.rename(dict(zip(split.columns, names, strict=True)))


def separator_of(path: Path, format: str, reading: Reading) -> str:
    """The separator that occurs in the first lines, equally often in each. The usual one of the format comes first."""
    with open_bytes(path) as file:
        sample = file.read(SAMPLE).decode(reading.encoding, errors="replace")
    lines = re.sub(r'"[^"]*"', "", sample).splitlines()
    lines = [line for line in lines[:20] if line][: 10 if len(lines) > 1 else 1]
    usual = SEPARATOR[format]
    counts = {mark: {line.count(mark) for line in lines} for mark in CANDIDATES}
    plain = {mark: max(found) for mark, found in counts.items() if len(found) == 1 and max(found) > 0}
    return usual if usual in plain or not plain else max(plain, key=plain.__getitem__)


def _decoded(path: Path, encoding: str) -> bytes:
    with open_bytes(path) as file:
        return file.read().decode(encoding).encode()


def open_bytes(path: Path) -> IO[bytes]:
    """A file, or what a .gz file holds."""
    return gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb")  # type: ignore[return-value]


@contextmanager
def reading_file(path: Path, format: str) -> Iterator[None]:
    """Turn any error of polars about a file into an `AleatorError`."""
    need("polars", "reading and writing tables")
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, UnicodeError, OSError, EOFError) as error:
        if isinstance(error, UnicodeError) or "utf-8" in str(error):
            problem = f"'{path}' cannot be read as {format}, since its bytes do not fit the encoding"
            raise AleatorError(problem, "give encoding=, such as 'latin-1' (--encoding in a shell)") from None
        raise unreadable(path, format, error) from None
