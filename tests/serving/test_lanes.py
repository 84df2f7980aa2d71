"""Lanes: who is computed with whom, and who is sent away."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from aleator.serving.errors import Refused
from aleator.serving.lanes import Lane

Batches = list[list[Any]]


class Work:
    """Computes when it is let, and remembers its batches."""

    def __init__(self) -> None:
        self.batches: Batches = []
        self.go = threading.Event()

    def __call__(self, requests: Sequence[Any]) -> list[Any]:
        self.batches.append(list(requests))
        assert self.go.wait(30)
        return [ValueError(request) if request == "wrong" else request * 2 for request in requests]


def played(
    play: Callable[[Lane, Work], Awaitable[Any]], *, waiting: int = 9, at_once: int = 4, seconds: float = 30
) -> Any:
    work = Work()

    async def play_it() -> Any:
        return await play(Lane(waiting, at_once, seconds, lambda weight: None), work)

    return asyncio.run(play_it())


async def started(work: Work, batches: int = 1) -> None:
    """Wait until the thread works on a batch."""
    while len(work.batches) < batches:
        await asyncio.sleep(0)


def test_what_waits_is_computed_together_if_it_has_the_same_key_and_is_not_too_much() -> None:
    async def play(lane: Lane, work: Work) -> tuple[list[Any], Batches]:
        jobs = [asyncio.create_task(lane.run(work, 0, "a"))]
        await started(work)
        for request, key, weight in ((1, "a", 1), (2, "b", 1), (3, "a", 2), (4, "a", 2), (5, None, 1), (6, None, 1)):
            jobs.append(asyncio.create_task(lane.run(work, request, key, weight)))
        await asyncio.sleep(0)
        work.go.set()
        return await asyncio.gather(*jobs), work.batches

    answers, batches = played(play)
    assert answers == [0, 2, 4, 6, 8, 10, 12]
    assert batches == [[0], [1, 3], [2], [4], [5], [6]]


def test_a_job_that_weighs_more_than_a_batch_is_computed_alone() -> None:
    async def play(lane: Lane, work: Work) -> Any:
        work.go.set()
        return await asyncio.gather(lane.run(work, 1, "a", 9), lane.run(work, 2, "a", 1))

    assert played(play) == [2, 4]


def test_an_exception_belongs_to_its_own_request() -> None:
    async def play(lane: Lane, work: Work) -> Any:
        first = asyncio.create_task(lane.run(work, "x", "a"))
        await started(work)
        rest = asyncio.gather(*(lane.run(work, each, "a") for each in ("wrong", "y")), return_exceptions=True)
        await asyncio.sleep(0)
        work.go.set()
        return await first, await rest

    first, (wrong, right) = played(play)
    assert (first, right) == ("xx", "yy")
    assert isinstance(wrong, ValueError)


def test_a_batch_that_fails_fails_for_all_of_it_and_the_lane_goes_on() -> None:
    def fails(requests: Sequence[Any]) -> list[Any]:
        raise ZeroDivisionError

    async def play(lane: Lane, work: Work) -> Any:
        work.go.set()
        found = await asyncio.gather(lane.run(fails, 1, "a"), lane.run(fails, 2, "a"), return_exceptions=True)
        return found, await lane.run(work, 3)

    found, after = played(play)
    assert [type(each) for each in found] == [ZeroDivisionError, ZeroDivisionError]
    assert after == 6


def test_a_full_lane_refuses_at_once() -> None:
    async def play(lane: Lane, work: Work) -> Any:
        running = asyncio.create_task(lane.run(work, 1))
        await started(work)
        waiting = [asyncio.create_task(lane.run(work, 2)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(Refused) as refused:
            await lane.run(work, 3)
        work.go.set()
        await asyncio.gather(running, *waiting)
        return refused.value

    refused = played(play, waiting=3)
    assert (refused.status, refused.reason) == (429, "busy")


def test_an_answer_that_takes_too_long_is_not_waited_for_and_what_nobody_awaits_is_not_computed() -> None:
    async def play(lane: Lane, work: Work) -> Any:
        found = await asyncio.gather(lane.run(work, 1), lane.run(work, 2), return_exceptions=True)
        work.go.set()
        return found, await lane.run(work, 3), work.batches

    found, after, batches = played(play, seconds=0.05)
    assert [error.reason for error in found] == ["busy", "busy"]
    assert after == 6
    assert batches == [[1], [3]]
