"""Lanes: work waits in a line, and what goes together is computed in one call.

While a batch is computed, requests gather behind it. So a lone request never waits for company, and under load the
batches grow by themselves.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from aleator.serving.errors import Refused

Compute = Callable[[Sequence[Any]], Sequence[Any]]  # requests -> an answer or an exception for each


@dataclass(frozen=True, eq=False)
class Job:
    """A request that waits."""

    compute: Compute
    request: Any
    key: Hashable  # jobs with the same key are computed together; None stands alone
    weight: int
    done: asyncio.Future[Any]


class Lane:
    """One thread, and the jobs that wait for it. It belongs to one event loop.

    Args:
        waiting: Jobs that may wait. More are refused.
        at_once: Sum of the weights of a batch, unless a single job weighs more.
        seconds: How long a job may take, from its arrival.
        told: Is told the sum of the weights of each batch.
    """

    def __init__(self, waiting: int, at_once: int, seconds: float, told: Callable[[int], None]) -> None:
        self.waiting, self.at_once, self.seconds, self.told = waiting, at_once, seconds, told
        self.jobs: deque[Job] = deque()
        self.thread = ThreadPoolExecutor(1)
        self.busy = False

    async def run(self, compute: Compute, request: Any, key: Hashable = None, weight: int = 1) -> Any:
        """What `compute` answers to a request, alone or together with others of the same key."""
        if len(self.jobs) >= self.waiting:
            raise Refused("busy", f"{len(self.jobs):,} requests wait already", "Ask again in a second")
        job = Job(compute, request, key, weight, asyncio.get_running_loop().create_future())
        self.jobs.append(job)
        self._start()
        try:
            async with asyncio.timeout(self.seconds):
                return await job.done
        except TimeoutError:
            told = f"The answer was not there after {self.seconds:g} seconds"
            raise Refused("busy", told, "Ask again later, or for less") from None

    def _start(self) -> None:
        batch = [] if self.busy else self._take()
        if batch:
            self.busy = True
            self.told(sum(job.weight for job in batch))
            asyncio.get_running_loop().create_task(self._compute(batch))

    def _take(self) -> list[Job]:
        """The job that has waited longest, and those that go with it. Jobs that nobody waits for are left out."""
        while self.jobs and self.jobs[0].done.done():
            self.jobs.popleft()
        if not self.jobs:
            return []
        batch, weight, rest = [self.jobs.popleft()], 0, deque[Job]()
        weight = batch[0].weight
        for job in self.jobs:
            if job.done.done():
                continue
            if job.key is not None and job.key == batch[0].key and weight + job.weight <= self.at_once:
                batch.append(job)
                weight += job.weight
            else:
                rest.append(job)
        self.jobs = rest
        return batch

    async def _compute(self, batch: Sequence[Job]) -> None:
        requests = [job.request for job in batch]
        answers: Sequence[Any]
        try:
            answers = await asyncio.get_running_loop().run_in_executor(self.thread, batch[0].compute, requests)
        except Exception as error:
            answers = [error] * len(batch)
        self.busy = False
        self._start()
        for job, answer in zip(batch, answers, strict=True):
            if job.done.done():  # its client has left
                continue
            if isinstance(answer, Exception):
                job.done.set_exception(answer)
            else:
                job.done.set_result(answer)
