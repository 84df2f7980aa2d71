"""Engine: what runs the pieces of a work, such as the parts of a batch. It is this process, or Ray.

A work is an object that is called with a piece. Whoever has a work makes the pieces one by one, and takes the results as
they come. So only the pieces that are running are in memory, and a search can make its next piece from earlier results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, Protocol, TypeVar, get_args

from aleator.errors import AleatorError, need, require, unknown_name

EngineName = Literal["process", "ray"]
Ask = Callable[[Any], Any]  # a question of a piece that is running, to whoever takes the results; returns the answer
P = TypeVar("P")
R = TypeVar("R")
Work = Callable[[P, Ask], R]  # what is done with each piece; it may ask on the way


def silence(question: Any) -> Any:
    """The answer to a work that asks nothing."""


class Engine(Protocol):
    """What runs the pieces of a work."""

    def run(
        self,
        work: Work[P, R],
        pieces: Iterable[P | None],
        *,
        answer: Ask = silence,
        lost: Callable[[AleatorError], R] | None = None,
    ) -> Iterator[tuple[P, R]]:
        """Each piece with its result, as they come to their end. A new piece is taken when there is room for it.

        Args:
            work: What is done with each piece.
            pieces: The pieces. None says that there is none before another result was taken.
            answer: Answers what a work asks.
            lost: The result of a piece that lost its worker again and again. By default that is an error.
        """


class OneProcess:
    """This process, which runs one piece after the other."""

    def run(
        self,
        work: Work[P, R],
        pieces: Iterable[P | None],
        *,
        answer: Ask = silence,
        lost: Callable[[AleatorError], R] | None = None,
    ) -> Iterator[tuple[P, R]]:
        """Each piece with its result; see `Engine.run`."""
        for piece in pieces:
            assert piece is not None  # the results of all earlier ones were taken
            yield piece, work(piece, answer)


def check_engine(name: EngineName, workers: int | None, device: str) -> None:
    """Refuse an engine that cannot be started. `device` is where the work computes."""
    if name not in get_args(EngineName):
        raise unknown_name("engine", str(name), get_args(EngineName))
    if name == "process":
        told = "leave workers out, or take engine ray"
        require(workers is None, "workers are of engine ray, and engine process has none", told)
        return
    whole = workers is None or (type(workers) is int and workers >= 1)
    require(whole, f"workers is {workers!r}", "give a whole number of at least 1")
    told = "take device cpu, or engine process"
    require(not device.startswith("cuda"), "the workers of engine ray compute on the CPU", told)
    need("ray", "engine ray", "aleator[ray]")


@contextmanager
def started(name: EngineName, workers: int | None) -> Iterator[Engine]:
    """An engine that `check_engine` has let through, while the `with` block runs."""
    if name == "process":
        yield OneProcess()
        return
    from aleator.engines.on_ray import on_ray

    with on_ray(workers) as engine:
        yield engine
