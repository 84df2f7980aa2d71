"""Counters that all processes of the service share: each writes into a row of its own, and anybody sums the rows.

They lie in memory that is shared by a fork, so a worker that is killed loses no count, and its successor goes on with
its row.
"""

from __future__ import annotations

import mmap
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

ROUTES = (
    "/health",
    "/ready",
    "/metrics",
    "/model",
    "/recommend",
    "/score",
    "/similar",
    "/explain",
    "/map",
    "/users",
    "/users/{user}",
    "/items",
    "/openapi.json",
    "/",
    "/page/{name}",
    "other",
)
STATUSES = (200, 400, 401, 404, 405, 408, 413, 415, 422, 429, 431, 500, 503, 0)  # 0: the client left, or another one
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
EVENTS = ("batches", "batch_users", "model_loads", "model_failures", "worker_exits", "too_slow", "connections_refused")
_SIZES = (len(ROUTES) * len(STATUSES), len(ROUTES) * (len(BOUNDS) + 1), len(ROUTES), len(EVENTS))
CONTENT_TYPE = CONTENT_TYPE_LATEST


class Counters:
    """A row of counters for each of `rows` processes. Row 0 is the supervisor's."""

    def __init__(self, rows: int) -> None:
        width = sum(_SIZES)
        self.memory = mmap.mmap(-1, rows * width * 8)
        self.table: NDArray[np.float64] = np.frombuffer(self.memory, np.float64).reshape(rows, width)
        self.own = self.parts(self.table[0])

    def take_row(self, row: int) -> None:
        """Count in this row from now on."""
        self.own = self.parts(self.table[row])

    @staticmethod
    def parts(row: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Requests by route and status, by route and duration, seconds by route, and events, of a row."""
        ends = np.cumsum([0, *_SIZES]).tolist()
        cut = [row[first:last] for first, last in pairwise(ends)]
        return [cut[0].reshape(len(ROUTES), -1), cut[1].reshape(len(ROUTES), -1), cut[2], cut[3]]

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        place = ROUTES.index(route) if route in ROUTES else len(ROUTES) - 1
        statuses, durations, sums, _ = self.own
        statuses[place, STATUSES.index(status) if status in STATUSES else len(STATUSES) - 1] += 1
        durations[place, bisect_left(BOUNDS, seconds)] += 1
        sums[place] += seconds

    def event(self, name: str, n: float = 1) -> None:
        """Count an event."""
        self.own[3][EVENTS.index(name)] += n

    def text(self, fingerprint: str) -> bytes:
        """All counters, summed over all processes, as Prometheus reads them."""
        registry = CollectorRegistry()
        registry.register(_Summed(self.parts(self.table.sum(0)), fingerprint))
        return generate_latest(registry)


class _Summed(Collector):
    """The sums as metrics."""

    def __init__(self, parts: list[NDArray[np.float64]], fingerprint: str) -> None:
        self.parts, self.fingerprint = parts, fingerprint

    def collect(self) -> Iterator[Metric]:
        statuses, durations, sums, events = self.parts
        requests = CounterMetricFamily("aleator_requests", "Answered requests.", labels=["route", "status"])
        took = HistogramMetricFamily("aleator_request_seconds", "Seconds to the end of an answer.", labels=["route"])
        for place, route in enumerate(ROUTES):
            for column in np.flatnonzero(statuses[place]).tolist():
                requests.add_metric([route, str(STATUSES[column])], statuses[place, column])
            if durations[place].any():
                upto = np.cumsum(durations[place]).tolist()
                buckets = [(str(bound), n) for bound, n in zip((*BOUNDS, "+Inf"), upto, strict=True)]
                took.add_metric([route], buckets, sums[place])
        yield requests
        yield took
        for name, value in zip(EVENTS, events.tolist(), strict=True):
            yield CounterMetricFamily(f"aleator_{name}", f"Number of {name.replace('_', ' ')}.", value=value)
        info = GaugeMetricFamily("aleator_model_info", "The model that this worker serves.", labels=["fingerprint"])
        info.add_metric([self.fingerprint], 1)
        yield info
