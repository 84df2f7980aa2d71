"""How values are written in a source of interactions, what to do with missing ones, and how far a file may expand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from aleator.data.arrays import Array
from aleator.errors import need, require, unknown_name
from aleator.words import Missing


@dataclass(frozen=True)
class Reading:
    """Options of `read` that say how values are written.

    Attributes:
        sep: Separator of the columns of a text file. None finds it.
        encoding: Encoding of a text file.
        decimal: Decimal mark of numbers that are texts: "." or ",".
        dates: Formats of dates that are texts. Without one, dates are ISO dates.
        missing: "error" refuses missing values. "drop" drops their rows.
        max_bytes: Bytes of memory that a file may expand to. None depends on its size (`Limit.of`).
    """

    sep: str | None = None
    encoding: str = "utf-8"
    decimal: str = "."
    dates: tuple[str, ...] = ()
    missing: Missing = "error"
    max_bytes: int | None = None

    @classmethod
    def of(
        cls,
        sep: str | None,
        encoding: str,
        decimal: str,
        dates: str | Sequence[str] | None,
        missing: str,
        max_bytes: int | None = None,
    ) -> Reading:
        """Check the options as a person gives them."""
        sep = {"\\t": "\t", "tab": "\t"}.get(sep, sep) if isinstance(sep, str) else sep  # a shell does not write tabs
        separates = sep is None or (isinstance(sep, str) and sep.isascii() and sep not in ("", "\n", "\r", '"', "\0"))
        require(separates, f"sep is {sep!r}", "give a separator such as ';', or leave it out")
        require(decimal in (".", ","), f"decimal is {decimal!r}", "give '.' or ','")
        if missing not in get_args(Missing):
            raise unknown_name("value of missing", str(missing), get_args(Missing))
        require(_is_encoding(encoding), f"unknown encoding {encoding!r}", "give one such as utf-8, latin-1 or cp1252")
        formats = (dates,) if isinstance(dates, str) else tuple(dates) if isinstance(dates, Sequence) else dates
        written = formats is None or (isinstance(formats, tuple) and all(map(_is_format, formats)))
        require(written, f"dates is {dates!r}", "give a format such as '%d.%m.%Y %H:%M'")
        counts = max_bytes is None or (isinstance(max_bytes, int) and type(max_bytes) is not bool and max_bytes >= 1)
        require(counts, f"max_bytes is {max_bytes!r}", "give a number of bytes of at least 1")
        return cls(sep, encoding, decimal, formats or (), missing, max_bytes)  # type: ignore[arg-type]

    def require_no_text(self, where: str) -> None:
        """Raise an error if an option of text files was given for something else."""
        require(self.sep is None, f"sep was given, but {where} has no separator", "leave out sep")
        require(self.encoding == "utf-8", f"encoding was given, but {where} has none", "leave out encoding")

    def numbers(self, texts: Array) -> Array | None:
        """Texts with decimal commas as texts with decimal points. None if one has a point."""
        if self.decimal == ".":
            return texts
        column = texts.astype(np.dtypes.StringDType())
        if len(column) and int(np.strings.find(column, ".").max()) >= 0:  # 1.234 is 1234 to those who write 0,5
            return None
        return np.strings.replace(column, ",", ".")

    def moments(self, texts: Array) -> Array | None:
        """Texts as dates, by the first of the formats that fits each of them. None if none fits one of them."""
        need("polars", "a format of dates")
        import polars as pl

        column = pl.Series(texts.astype(object), dtype=pl.String)
        found = [column.str.to_datetime(form, strict=False, time_unit="us", time_zone="UTC") for form in self.dates]
        dates = pl.select(pl.coalesce(found)).to_series()
        return None if dates.null_count() else dates.dt.timestamp("us").to_numpy().astype("datetime64[us]")


def _is_encoding(name: Any) -> bool:
    """Whether that is an encoding of texts. Python also knows codecs of bytes, such as hex."""
    try:
        return bool("a".encode(name))
    except (LookupError, ValueError, TypeError):
        return False


def _is_format(form: Any) -> bool:
    return isinstance(form, str) and "%" in form and form.isprintable()
