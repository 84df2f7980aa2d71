"""A short path: a few values of a penalty are tried on held-out pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

_STEPS = (2.0, 1.0, 0.5)  # binary logarithms of the factors between neighbouring values, one round each
_GAIN = 0.01  # a value is better if it gains more than this share; less is noise
_EQUAL = 0.002  # values within this share of the best are equally good
_MOST = 16  # values on a path


@dataclass
class Path:
    """The values that were tried, in this order, and how each was judged. Higher is better."""

    best: float
    tried: dict[float, float]


def short_path(judge: Callable[[float], float], start: float) -> Path:
    """Try values of a penalty from `start` on, and find the best if there is one peak.

    The path goes by a factor of 4, in the direction that improves, as long as that improves. It then tries the
    neighbours of the best value by a factor of 2, and at last those by the root of 2. It ends earlier if both neighbours
    of the best value are about as good. A gain of up to 1 % counts as none, so that noise does not lead the path away.
    Of all values within 0.2 % of the best, the largest is taken: a stronger penalty is the simpler model.
    """
    tried: dict[float, float] = {}  # by the binary logarithm of the value over `start`
    best = 0.0

    def improves(place: float) -> bool:
        nonlocal best
        if place in tried or len(tried) >= _MOST:
            return False
        tried[place] = judge(start * 2**place)
        if not tried[place] > (1 + _GAIN) * tried[best]:
            return False
        best = place
        return True

    improves(best)
    for step in _STEPS:
        while improves(best + step) or improves(best - step):
            pass
        beside = [tried.get(best + way, 0.0) for way in (-step, step)]
        if min(beside) >= (1 - _GAIN) * tried[best]:
            break
    high = (1 - _EQUAL) * max(tried.values())
    largest = max((place for place, found in tried.items() if found >= high), default=best)
    return Path(start * 2**largest, {start * 2**place: found for place, found in tried.items()})
