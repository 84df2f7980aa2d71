"""Cell: what stands in one field of a table. `Shown` is a figure whose parts a page can align."""

from __future__ import annotations

from typing import Self

Cell = str | float | None
DASH = "\N{EN DASH}"  # for what is not known
UP, DOWN = "\N{BLACK UP-POINTING TRIANGLE}", "\N{BLACK DOWN-POINTING TRIANGLE}"


class Shown(str):
    """A figure as text, with the number to sort by and the parts to align: the number, a note such as ±0.01, a sign."""

    value: float
    parts: tuple[str, str, str]

    def __new__(cls, number: str, value: float, *, note: str = "", sign: str = "") -> Self:
        made = super().__new__(cls, " ".join(filter(None, (number, note, sign))))
        made.value, made.parts = float(value), (number, note, sign)
        return made


def number(value: float | None, form: str = "g", *, note: str = "") -> Cell:
    """A number in the given form; None stays None.

    >>> number(0.25, ".0%"), number(3), number(None)
    ('25%', '3', None)
    """
    return None if value is None else Shown(f"{value:{form}}", value, note=note)
