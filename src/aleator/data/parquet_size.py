"""How much memory a parquet file takes, by its own headers. polars has no limit, and ends the process without memory.

The file's footer says where the columns are, and each page of a column says how large it is once it is unpacked. Both
are in the compact protocol of Thrift.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Collection
from typing import Any

from aleator.data.limits import Limit
from aleator.errors import parsing

MAGIC = b"PAR1"
DEPTH = 16  # of structs in structs; the format needs 6
Struct = dict[int, Any]  # value by the number of its field

# Numbers of fields, from parquet.thrift
N_ROWS, ROW_GROUPS = 3, 4  # of the footer
COLUMNS = 1  # of a row group
ABOUT = 3  # of a column
NAME, N_VALUES, PACKED, DATA_AT, DICTIONARY_AT = 3, 5, 7, 9, 11  # of what is told about a column
SIZE, PACKED_SIZE, PAGES = 2, 3, (5, 7, 8)  # of a page's header; three kinds of pages say how many values they have


def check_parquet(limit: Limit, names: Collection[str] | None = None, *, in_groups: bool = False) -> None:
    """Refuse a file whose columns of these names, or all columns, are larger than the limit.

    With `in_groups` the limit holds for each row group alone, for who reads one after the other.
    """
    with (
        parsing(limit.path, "parquet"),
        limit.path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        _check(content, limit, names, in_groups)


def _check(content: mmap.mmap, limit: Limit, names: Collection[str] | None, in_groups: bool) -> None:
    end = len(content) - 8
    if content[-4:] != MAGIC or content[:4] != MAGIC:
        raise ValueError("it does not begin and end as parquet does")
    start = end - int.from_bytes(content[end : end + 4], "little")
    if start < len(MAGIC):
        raise ValueError("its footer is larger than the file")
    footer = Thrift(content, start, end).struct()
    n_bytes = n_values = 0
    for group in footer[ROW_GROUPS]:
        if in_groups:
            n_bytes = n_values = 0
        for column in group.get(COLUMNS, []):
            about = column[ABOUT]
            if names is None or about[NAME][0].decode() in names:
                of_pages, values = _pages(content, about, start)
                n_bytes, n_values = n_bytes + of_pages, n_values + max(values, about[N_VALUES])
                limit.check(n_bytes, n_values)
    limit.check(n_bytes, n_values if in_groups else max(n_values, footer[N_ROWS]))


def _pages(content: mmap.mmap, about: Struct, end: int) -> tuple[int, int]:
    """The bytes of all pages of a column once they are unpacked, and the number of their values."""
    at = about[DATA_AT]
    if 0 < about.get(DICTIONARY_AT, 0) < at:
        at = about[DICTIONARY_AT]
    last, n_bytes, n_values = at + about[PACKED], 0, 0
    if not 0 < at <= last <= end:
        raise ValueError("a column is not where the footer says")
    while at < last:
        reader = Thrift(content, at, last)
        header = reader.struct()
        values = [header[kind][1] for kind in PAGES if kind in header]
        if min(header[SIZE], header[PACKED_SIZE], *values) < 0:
            raise ValueError("a page has a negative size")
        at = reader.at + header[PACKED_SIZE]
        n_bytes += header[SIZE]
        n_values += max(values, default=0)
    return n_bytes, n_values


class Thrift:
    """A reader of structs in the compact protocol. It reads from `at` to `end`, and keeps no more than is there."""

    def __init__(self, content: mmap.mmap, at: int, end: int) -> None:
        self.content, self.at, self.end = content, at, end

    def byte(self) -> int:
        if self.at >= self.end:
            raise ValueError("a header is cut short")
        self.at += 1
        return self.content[self.at - 1]

    def varint(self) -> int:
        """An unsigned number, seven bits in each byte."""
        number = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise ValueError("a number of a header is too long")

    def integer(self) -> int:
        """A signed number: 0, -1, 1, -2, 2 and so on."""
        number = self.varint()
        return (number >> 1) ^ -(number & 1)

    def binary(self) -> bytes:
        size = self.varint()
        self.at += size
        if self.at > self.end:
            raise ValueError("a text of a header is cut short")
        return self.content[self.at - size : self.at]

    def struct(self, depth: int = 0) -> Struct:
        found: Struct = {}
        field = 0
        while head := self.byte():
            field = field + (head >> 4) if head >> 4 else self.integer()
            kind = head & 15
            found[field] = kind == 1 if kind in (1, 2) else self.value(kind, depth)
        return found

    def value(self, kind: int, depth: int) -> Any:
        """A value of that kind, as an element of a list has it."""
        if depth > DEPTH:
            raise ValueError("a header is nested too deeply")
        simple: dict[int, Callable[[], Any]] = {
            1: self.byte,
            2: self.byte,
            3: self.byte,
            4: self.integer,
            5: self.integer,
            6: self.integer,
            7: lambda: [self.byte() for _ in range(8)],
            8: self.binary,
        }
        if kind in simple:
            return simple[kind]()
        if kind in (9, 10):
            head = self.byte()
            size = head >> 4 if head >> 4 < 15 else self.varint()
            return [self.value(head & 15, depth + 1) for _ in range(size)]
        if kind == 12:
            return self.struct(depth + 1)
        raise ValueError(f"a header has a value of the unknown kind {kind}")
