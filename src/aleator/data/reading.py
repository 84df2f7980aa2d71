"""How values are written in a source of interactions, and what to do with missing ones."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from aleator.data.arrays import Array
from aleator.errors import AleatorError, need, require, unknown_name

Missing = Literal["error", "drop"]


@dataclass(frozen=True)
class Reading:
    """Options of `read` that say how values are written.

    Attributes:
        sep: Separator of the columns of a text file. None finds it.
        encoding: Encoding of a text file.
        decimal: Decimal mark of numbers that are texts: "." or ",".
        dates: Formats of dates that are texts. Without one, dates are ISO dates.
        missing: "error" refuses missing values. "drop" drops their rows.
    """

    sep: str | None = None
    encoding: str = "utf-8"
    decimal: str = "."
    dates: tuple[str, ...] = ()
    missing: Missing = "error"

    @classmethod
    def of(
        cls, sep: str | None, encoding: str, decimal: str, dates: str | Sequence[str] | None, missing: str
    ) -> Reading:
        """Check the options as a person gives them."""
        sep = {"\\t": "\t", "tab": "\t"}.get(sep, sep) if sep is not None else None  # a shell does not write tabs
        require(sep != "", "sep is empty", "give a separator such as ';', or leave it out")
        require(decimal in (".", ","), f"decimal is {decimal!r}", "give '.' or ','")
        if missing not in get_args(Missing):
            raise unknown_name("value of missing", str(missing), get_args(Missing))
        try:
            codecs.lookup(encoding)
        except LookupError:
            raise AleatorError(f"unknown encoding '{encoding}'", "give one such as utf-8, latin-1 or cp1252") from None
        formats = (dates,) if isinstance(dates, str) else tuple(dates or ())
        require(all("%" in form for form in formats), f"dates is {dates!r}", "give a format such as '%d.%m.%Y %H:%M'")
        return cls(sep, encoding, decimal, formats, missing)  # type: ignore[arg-type]

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
