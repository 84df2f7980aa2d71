"""Measured points of docs/scale.md: what the records of results/performance say, beside the formulas of formulas.py."""

from __future__ import annotations

import argparse
import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import formulas as by
import numpy as np
from scipy.optimize import least_squares

Record = Mapping[str, Any]
Records = Mapping[str, Sequence[Record]]  # by benchmark and machine, such as "epochs h200"
MB = 1 << 20
STEPS = {"fism": 16, "all": 12, "sampled": 24}  # of an epoch, where they are not limited by the size of a batch
EPOCH, OF_MODEL = "epoch of the estimator", "epoch of FISM"
ITERATION, LISTS = "iteration of ALS", "lists of all users"
DEFAULT = {"dim": 1024, "mf": 256}  # dimensions that are in no record


@dataclass(frozen=True)
class Point:
    """A measured figure beside its formula, in bytes or seconds, and what it is a point of."""

    job: str
    where: str
    what: str
    measured: float
    formula: float

    @property
    def ratio(self) -> float:
        return self.measured / self.formula


def _options(record: Record) -> argparse.Namespace:
    """The options that the command of a record names, as texts."""
    words = shlex.split(record["command"])[1:]
    return argparse.Namespace(**{a[2:].replace("-", "_"): b for a, b in pairwise(words) if a.startswith("--")})


def _of(records: Records, benchmark: str) -> Iterator[tuple[str, Record]]:
    """The records of a benchmark, and where each was measured."""
    for name, found in records.items():
        if name.split()[0] == benchmark:
            for record in found:
                about = record["machine"]
                yield "H200" if "H200" in about["device"] else f"{about['cores']} cores", record


# Measured points


def memory(records: Records) -> list[Point]:
    """Peak memory of fits of an estimator with its own validation, against what the fit asks to be free."""
    found = []
    for where, record in _of(records, "huge"):
        world = record["world"]
        for row in record["rows"]:
            if "s an epoch" in row["more"]:
                size = row["ours"] if where == "H200" else row["more"]["anonymous"]
                what = f"{world['items']:,} items x {world['dim']:,}"
                needed = row["more"]["needed"] * MB
                found.append(Point(row["job"], where, what, size * MB, needed))
    return found


def shares(records: Records) -> list[Point]:
    """How far the memory of a process grew in training, against the tables of its share of the items."""
    found = []
    for where, record in _of(records, "ranks"):
        for row in record["rows"]:
            job, processes = row["job"].split(", ")
            if job in ("fism", "estimator"):
                items, dim = record["dataset"]["items"], int(_options(record).estimator_dim)
                tables = by.tables(items, dim, int(processes))
                what = f"{items:,} items x {dim:,}, processes: {processes}"
                found.append(Point(job, where, what, row["more"]["grown"] * MB, tables))
    return found


def network(records: Records) -> list[tuple[Point, int, float]]:
    """Bytes that a process sends in a step by items, with the processes, and with users x dim of a batch."""
    found = []
    for where, record in _of(records, "ranks"):
        for row in record["rows"]:
            job, processes = row["job"].split(", ")
            if job in ("fism", "estimator") and processes != "1":
                about, dim = record["dataset"], int(_options(record).estimator_dim)
                sampled = job == "estimator" and by.sampled(about["items"], "cpu") < about["items"]
                steps = STEPS["fism" if job == "fism" else "sampled" if sampled else "all"]
                users = about["users"] / math.ceil(about["users"] / by.batch(about["users"], steps))
                formula = by.step_by_items(users, dim, int(processes))
                sent = row["more"]["sockets"] or row["more"]["bytes"]
                what = f"{users:.0f} users x {dim:,}, processes: {processes}"
                found.append((Point(job, where, what, sent, formula), int(processes), users * dim))
    return found


def starts(records: Records) -> list[Point]:
    """Bytes that a process sends in the spectral start of a shared estimator."""
    found = []
    for where, record in _of(records, "ranks"):
        users, items, pairs = _size_of(record["dataset"])
        dim = int(_options(record).estimator_dim)
        for row in record["rows"]:
            job, processes = row["job"].split(", ")
            if job == "estimator" and processes != "1" and dim <= items // 4:
                formula = by.spectral(users, items, pairs, dim, int(processes))
                what = f"{users:,} users x {dim:,}, processes: {processes}"
                found.append(Point("spectral start", where, what, row["more"]["before"] * MB, formula))
    return found


@dataclass(frozen=True)
class Timed:
    """A measured time, with its operations and the numbers that an optimiser moves, or the users of lists."""

    job: str
    where: str
    seconds: float
    operations: float
    moved: float = 0.0  # where only the rows in use are moved; of lists, the users


@dataclass(frozen=True)
class Rate:
    """Seconds of an operation, and of a moved number or a user, fitted to measured times."""

    of_operation: float
    of_moved: float

    def seconds(self, operations: float, moved: float = 0.0) -> float:
        return operations * self.of_operation + moved * self.of_moved


def times(records: Records) -> list[Timed]:
    """Seconds of epochs, of iterations and of lists of all users."""
    return [*_epochs(records), *_growth(records), *_fism(records), *_lists(records)]


def _epoch(
    where: str, seconds: float, size: tuple[int, int, int], on: int, dim: int, of_model: int = 0, lean: bool = False
) -> Timed:
    """An epoch of the estimator on `on` items."""
    users, items, pairs = size
    plan = STEPS["sampled" if on < items else "all"]
    each = by.lean_batch(users, items, pairs, on, plan) if lean else by.batch(users, plan)
    rows = by.rows_in_use(users, items, pairs, on, each, lean=lean)
    moved = by.moved(rows, dim, math.ceil(users / each)) if rows < items else 0.0
    return Timed(EPOCH, where, seconds, by.epoch(users, on, pairs, dim, of_model), moved)


def _epochs(records: Records) -> Iterator[Timed]:
    for where, record in _of(records, "epochs"):
        size = users, items, pairs = _size_of(record["data"])
        for row in record["rows"]:
            if row["job"] == "estimator":
                yield _epoch(where, row["ours"], size, row["more"]["items"], DEFAULT["dim"])
            if row["job"] == "ALS iteration" and where != "H200":  # that one is of an older solver
                yield Timed(ITERATION, where, row["ours"], by.als_iteration(users, items, pairs, DEFAULT["mf"]))
    for where, record in _of(records, "huge"):
        size, given = _size_of(record["world"]), getattr(_options(record), "sampled_items", None)
        on = by.sampled(size[1], "cuda" if where == "H200" else "cpu") if given is None else int(given)
        for row in record["rows"]:
            if "s an epoch" in row["more"]:
                lean = row["job"] == "lean"
                yield _epoch(where, row["more"]["s an epoch"], size, on, record["world"]["dim"], lean=lean)


def _fism(records: Records) -> Iterator[Timed]:
    for where, record in _of(records, "ranks"):
        users, items, pairs = _size_of(record["dataset"])
        given = _options(record)
        steps = math.ceil(users / by.batch(users, STEPS["fism"]))
        operations = by.epoch_of_fism(users, items, pairs, int(given.estimator_dim), steps)
        for row in record["rows"]:
            if row["job"] == "fism, 1":
                yield Timed(OF_MODEL, where, row["ours"] / int(given.epochs), operations)


def _size_of(data: Mapping[str, int]) -> tuple[int, int, int]:
    return data["users"], data["items"], data["pairs"]


def _growth(records: Records) -> Iterator[Timed]:
    for where, record in _of(records, "growth"):
        smallest = record["smallest"]
        dim, sampled = smallest["dim"], smallest["sampled_items"]
        for point in record["points"]:
            size = users, items, _ = _size_of(smallest | {point["axis"]: point["size"]})
            if point["job"] == "epoch":
                yield _epoch(where, point["seconds"], size, min(sampled, items), dim, of_model=dim)
            elif point["job"] == "recommend":
                yield Timed(LISTS, where, point["seconds"], by.lists(users, items, 2 * dim), users)


def _lists(records: Records) -> Iterator[Timed]:
    for where, record in _of(records, "top_k"):
        users, items, _ = _size_of(record["data"])
        for row in record["rows"]:
            if row["job"].endswith("AUR") and row["against"] == "brute force":
                yield Timed(LISTS, where, row["ours"], by.lists(users, items, 128 + DEFAULT["dim"]), users)
    for where, record in _of(records, "quality"):
        users, items, _ = _size_of(record["dataset"])
        for row in record["rows"]:
            if row["job"].startswith("evaluate"):
                yield Timed(LISTS, where, row["ours"], by.lists(users, items, DEFAULT["mf"] + DEFAULT["dim"]), users)


def rates(found: Iterable[Timed]) -> dict[tuple[str, str], Rate]:
    """The rates of each job on each machine that fit best, by the logarithms of the seconds. One time tells one rate."""
    own: dict[tuple[str, str], list[Timed]] = {}
    for each in found:
        own.setdefault((each.job, each.where), []).append(each)
    return {key: _fitted(points) for key, points in own.items()}


def _fitted(points: Sequence[Timed]) -> Rate:
    terms = np.array([[each.operations / each.seconds, each.moved / each.seconds] for each in points])
    used = terms[:, : 1 + (len(points) > 1 and bool(terms[:, 1].any()))]
    start = -np.log(used.shape[1] * np.array([np.median(term[term > 0]) for term in used.T]))
    logs = least_squares(lambda log: np.log(used @ np.exp(log)), start, bounds=(start - 9, start + 9)).x
    return Rate(*np.exp(logs).tolist(), *[0.0] * (2 - len(logs)))
