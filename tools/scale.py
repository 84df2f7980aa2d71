"""Scale: what was measured beside the formulas of formulas.py, and the plan for data that no one machine takes.

`tools/update.py` writes the tables and pictures into docs/scale.md. Points come from the records of results/performance.
"""

from __future__ import annotations

import argparse
import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import formulas as by
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter
from scipy.optimize import least_squares

from aleator.studies.report.figures import COLOURS, INK, MARKERS, WIDTH, legend, styled

Record = Mapping[str, Any]
Records = Mapping[str, Sequence[Record]]  # by benchmark and machine, such as "epochs h200"
MB, GB, TB, HOUR = 1 << 20, 1e9, 1e12, 3600.0
USERS, ITEMS, PAIRS = 10**8, 10**7, 10**10  # the data of the plan
OF_FISM = 256  # dimensions of the plan's model
DIMS = (256, 1024)  # of the plan's estimator
H200 = 141 * GB  # memory of a GPU
GPUS = (8, 16, 64)
LINKS = {"NVLink, 450 GB/s": 450 * GB, "400 Gb/s": 50 * GB, "10 Gb/s": 1.25 * GB}  # one way, by their makers
STEPS = {"fism": 16, "all": 12, "sampled": 24}  # of an epoch, where they are not limited by the size of a batch
TAKEN_BY_FISM = 10  # times its tables: 9 as measured without a check, and the best weights
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
    pairs = zip(words, words[1:], strict=False)
    return argparse.Namespace(**{a[2:].replace("-", "_"): b for a, b in pairs if a.startswith("--")})


def _of(records: Records, benchmark: str) -> Iterator[tuple[str, Record]]:
    """The records of a benchmark, and where each was measured."""
    for name, found in records.items():
        if name.split()[0] == benchmark:
            for record in found:
                yield "H200" if "H200" in record["machine"]["device"] else "2 cores", record


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
            users, items, pairs = size = _size_of(smallest | {point["axis"]: point["size"]})
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


# Tables


def tables(records: Records) -> dict[str, str]:
    """What belongs between each pair of markers of docs/scale.md."""
    return {
        "memory": _table(_memory_lines(records)),
        "shares": _table(_share_lines(records)),
        "network": _table(_network_lines(records)),
        "rates": _table(_rate_lines(records)),
        "plan memory": _table(_plan_of_memory()),
        "plan disk": _table(_plan_of_disk()),
        "plan host": _table(_plan_of_host()),
        "plan network": _table(_plan_of_network()),
        "plan time": _table(_plan_of_time(rates(times(records)))),
    }


def _table(lines: Sequence[Mapping[str, str]]) -> str:
    names = list(dict.fromkeys(name for line in lines for name in line))
    table = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    return "\n".join([*table, *(f"| {' | '.join(line.get(name, '') for name in names)} |" for line in lines)])


def _memory_lines(records: Records) -> list[dict[str, str]]:
    lines = []
    for point in sorted(memory(records), key=lambda each: each.formula, reverse=True):
        size, formula, rest = (f"{v / MB:,.0f}" for v in (point.measured, point.formula, point.measured - point.formula))
        head = {"optimizer": point.job, "where": point.where, "tables": point.what}
        lines.append(head | {"measured, MB": size, "by formula, MB": formula, "difference, MB": rest})
    return lines


def _share_lines(records: Records) -> list[dict[str, str]]:
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for point in shares(records):
        what, processes = point.what.split(", processes: ")
        line = lines.setdefault((point.job, what), {"job": point.job, "tables": what})
        line[f"{processes} processes"] = f"{point.measured / MB:,.0f} MB, {point.ratio:.1f} x"
    return list(lines.values())


def _network_lines(records: Records) -> list[dict[str, str]]:
    return [
        {
            "job": point.job,
            "batch": point.what,
            "sent, bytes": f"{point.measured:,.0f}",
            "formula, bytes": f"{point.formula:,.0f}",
            "ratio": f"{point.ratio:.3f}",
        }
        for point, _, _ in network(records)
    ]


def _rate_lines(records: Records) -> list[dict[str, str]]:
    found, lines = times(records), []
    for (job, where), rate in sorted(rates(found).items()):
        own = [each for each in found if (each.job, each.where) == (job, where)]
        off = [each.seconds / rate.seconds(each.operations, each.moved) for each in own]
        least, most = (pick(each.operations for each in own) for pick in (min, max))
        line = {"job": job, "where": where, "points": str(len(own)), "operations": f"{_power(least)} to {_power(most)}"}
        line["operations a second"] = _power(1 / rate.of_operation) if rate.of_operation else ""
        line["numbers moved, or users, a second"] = _power(1 / rate.of_moved) if rate.of_moved else ""
        lines.append(line | {"measured / fitted": f"{min(off):.2g} to {max(off):.2g}"})
    return lines


def _power(value: float) -> str:
    """A number with two digits and a power of ten.

    >>> _power(23456.0)
    '2.3e4'
    """
    digits, power = f"{value:.1e}".split("e")
    return f"{digits}e{int(power)}"


def _size(value: float) -> str:
    """Bytes in GB, or in TB from 1,000 GB on.

    >>> _size(5.2e9), _size(1.26e11), _size(3.5e12)
    ('5.2 GB', '126 GB', '3.5 TB')
    """
    if value >= TB:
        return f"{value / TB:,.1f} TB"
    return f"{value / GB:,.0f} GB" if value >= 10 * GB else f"{value / GB:.1f} GB"


def _time(value: float) -> str:
    """Seconds in the unit that suits them.

    >>> _time(3.2), _time(600.0), _time(7200.0), _time(8.64e5)
    ('3.2 s', '10 min', '2 h', '10 days')
    """
    for most, unit, name in ((120, 1, "s"), (2 * HOUR, 60, "min"), (48 * HOUR, HOUR, "h")):
        if value < most:
            return f"{value / unit:.2g} {name}" if value < 10 * unit else f"{value / unit:,.0f} {name}"
    return f"{value / 24 / HOUR:,.0f} days"


# The plan


def on_one_gpu(dim: int, optimizer: str, gpus: int) -> dict[str, float]:
    """Bytes of each part of the plan on one of so many GPUs."""
    sampled = by.sampled(ITEMS, "cuda")
    of_training = by.adam(ITEMS, dim, gpus) if optimizer == "adam" else by.lean(ITEMS, dim, sampled, gpus)
    return {
        "FISM in training": TAKEN_BY_FISM * by.tables(ITEMS, OF_FISM, gpus),
        "FISM's tables": by.tables(ITEMS, OF_FISM, gpus),
        "estimator in training": of_training,
        "spectral start": by.tables(ITEMS, dim, gpus) + by.start_on_gpu(USERS, PAIRS, dim, gpus),
        "pairs": by.pairs_on_gpu(PAIRS),
    }


def _plan_of_memory() -> list[dict[str, str]]:
    lines = []
    for dim in DIMS:
        for optimizer in ("adam", "lean"):
            for gpus in GPUS:
                parts = on_one_gpu(dim, optimizer, gpus)
                without = max(parts["FISM in training"], parts["FISM's tables"] + parts["estimator in training"])
                line = {"H200s": str(gpus), "estimator": f"{dim:,}, {optimizer}"}
                line |= {name: _size(size) for name, size in parts.items()}
                lines.append(line | {"most of the tables at a time": _size(without)})
    return lines


def _plan_of_disk() -> list[dict[str, str]]:
    found = {
        "the pairs, by user": by.on_disk(USERS, PAIRS),
        "the same in two parts, for validation": by.on_disk(USERS, PAIRS) + by.user_places(USERS),
        "files of the sort, while it reads": 2 * by.NUMBER * PAIRS,
        "the pairs by item, for MF": by.by_item_on_disk(ITEMS, PAIRS),
        "best weights of a lean estimator, dim 1,024": by.tables(ITEMS, DIMS[-1]),
        "a saved model, FISM 256 + estimator 1,024": by.saved(USERS, PAIRS)
        + by.tables(ITEMS, OF_FISM)
        + by.tables(ITEMS, DIMS[-1]),
    }
    return [{"what": what, "bytes": _size(size)} for what, size in found.items()]


def _plan_of_host() -> list[dict[str, str]]:
    found = {f"MF by ALS asks for, dim {dim}": ("every process", by.als(USERS, ITEMS, dim)) for dim in (64, 128, 256)}
    for processes in GPUS:
        training = max(
            TAKEN_BY_FISM * by.tables(ITEMS, OF_FISM, processes),
            by.tables(ITEMS, OF_FISM, processes) + by.adam(ITEMS, DIMS[-1], processes),
        )
        found[f"FISM 256 and estimator 1,024, AdamW, {processes} processes"] = ("each process", training)
    found |= {
        "what `evaluate` copies of the pairs": ("every process", by.checked_by_evaluate(PAIRS)),
        "a loaded model's pairs": ("every process", by.loaded(PAIRS)),
        "user ids that are integers": ("every process", by.PLACE * USERS),
    }
    return [{"what": what, "where": where, "memory": _size(size)} for what, (where, size) in found.items()]


def _plan_of_network() -> list[dict[str, str]]:
    users = by.batch(USERS, STEPS["sampled"])
    steps = math.ceil(USERS / users)
    ends = [by.step_by_users(2 * ITEMS * OF_FISM, gpus) * steps for gpus in GPUS]
    found = {f"an epoch of FISM, dim {OF_FISM}": [by.step_by_items(users, OF_FISM, gpus) * steps for gpus in GPUS]}
    for dim in DIMS:
        found[f"an epoch of the estimator, dim {dim:,}"] = [_step(users, dim, gpus) * steps for gpus in GPUS]
    for dim in DIMS:
        found[f"the spectral start, dim {dim:,}"] = [by.spectral(USERS, ITEMS, PAIRS, dim, gpus) for gpus in GPUS]
    for what, held in {"a check, 10,000 users": 10_000, "the choice of lam, 40,000 users": 40_000}.items():
        found[what] = [sum(by.gathered(held, ITEMS, dim, gpus) for dim in (OF_FISM, DIMS[-1])) for gpus in GPUS]
    found["an epoch of FISM, if users were shared out"] = ends
    return [
        {"what": what}
        | {f"{gpus} processes": _size(size) for gpus, size in zip(GPUS, sizes, strict=True)}
        | {f"{GPUS[0]}, by {name}": _time(sizes[0] / speed) for name, speed in LINKS.items()}
        for what, sizes in found.items()
    ]


def _step(users: float, dim: int, processes: int) -> float:
    """A step of the estimator beside a shared FISM."""
    pairs = users * PAIRS / USERS
    return by.step_by_items(users, dim, processes) + by.expectation_of_fism(users, pairs, OF_FISM, processes)


def _plan_of_time(measured: Mapping[tuple[str, str], Rate]) -> list[dict[str, str]]:
    """Hours by the rates that were measured. What was not measured on a machine is left out there."""
    lines = []

    def line(what: str, where: str, job: str, operations: float, moved: float = 0.0, *, shared: bool = True) -> None:
        rate = measured.get((job, where))
        if rate is not None:
            rows = "" if not moved else _time(moved * rate.of_moved) if rate.of_moved else "not measured"
            cells = {"products": _time(operations * rate.of_operation), "rows, or users": rows}
            for n in (1, *GPUS):
                known = shared or n == 1
                cells[f"on {n}"] = _time(rate.seconds(operations, moved) / n) if known else "the same"
            lines.append({"what": what, "where": where, "operations": _power(operations)} | cells)

    places = sorted({where for job, where in measured if job == EPOCH}, reverse=True)
    for where in places:
        on = by.sampled(ITEMS, "cuda" if where == "H200" else "cpu")
        for dim in DIMS:
            size = by.batch(USERS, STEPS["sampled"])
            moved = by.moved(by.rows_in_use(USERS, ITEMS, PAIRS, on, size), dim, math.ceil(USERS / size))
            line(f"{EPOCH}, dim {dim:,}, {on:,} sampled items", where, EPOCH, by.epoch(USERS, on, PAIRS, dim), moved)
    for where in sorted({where for job, where in measured if job == OF_MODEL}, reverse=True):
        steps = math.ceil(USERS / by.batch(USERS, STEPS["fism"]))
        line(f"{OF_MODEL}, dim {OF_FISM}", where, OF_MODEL, by.epoch_of_fism(USERS, ITEMS, PAIRS, OF_FISM, steps))
    for where in sorted({where for job, where in measured if job == ITERATION}, reverse=True):
        iteration = by.als_iteration(USERS, ITEMS, PAIRS, 128)
        line("MF by ALS, dim 128, 15 iterations", where, ITERATION, 15 * iteration, shared=False)
    for where in sorted({where for job, where in measured if job == LISTS}, reverse=True):
        for dim in DIMS:
            line(f"{LISTS}, dims {OF_FISM} + {dim:,}", where, LISTS, by.lists(USERS, ITEMS, OF_FISM + dim), USERS)
    return lines


# Pictures


@styled
def memory_figure(records: Records) -> Figure:
    """Memory of the estimator against items x dim, with the formulas as lines."""
    figure = Figure(figsize=(WIDTH, 4.2))
    axes = figure.subplots()
    found = [(point, _numbers(point.what)) for point in memory(records)]
    ends = [min(n for _, n in found) * 0.7, PLAN_NUMBERS]
    for colour, (name, times) in zip(COLOURS, {"adam": 48, "lean": 16}.items(), strict=False):
        label = {"adam": "AdamW", "lean": "lean, few rows in use"}[name]
        axes.plot(ends, [times * n / GB for n in ends], color=colour, label=f"{label}: {times} bytes x items x dim")
    for (name, where), (colour, marker) in _looks((p.job, p.where) for p, _ in found).items():
        own = [(n, p.measured / GB) for p, n in found if (p.job, p.where) == (name, where)]
        axes.plot(*zip(*own, strict=True), ls="", marker=marker, color=colour, mec=INK, ms=7, label=f"{name}, {where}")
    axes.axhline(H200 / GB, color=INK, lw=1, ls=":")
    axes.annotate("one H200", (ends[0], H200 / GB), (0, 4), textcoords="offset points", color=INK, size=9)
    _logarithmic(axes, "items x dim on a process", "GB")
    legend(figure, axes)
    return figure


PLAN_NUMBERS = ITEMS * DIMS[-1]


def _looks(keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, str]]:
    """A colour for each job and a marker for each machine."""
    seen = sorted(set(keys))
    jobs, places = (list(dict.fromkeys(key[i] for key in seen)) for i in (0, 1))
    return {key: (COLOURS[jobs.index(key[0])], MARKERS[places.index(key[1])]) for key in seen}


def _numbers(what: str) -> int:
    items, dim = what.replace(",", "").split(" items x ")
    return int(items) * int(dim)


def _logarithmic(axes: Axes, x: str, y: str) -> None:
    for axis, label in ((axes.xaxis, x), (axes.yaxis, y)):
        axis.set_label_text(label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
        axis.set_minor_formatter(NullFormatter())


def _short(value: float) -> str:
    """A short label for a tick.

    >>> _short(0.1), _short(1e4), _short(2e10)
    ('0.1', '10 k', '20 G')
    """
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g}"


@styled
def network_figure(records: Records) -> Figure:
    """Bytes that a process sends in a step against users x dim of a batch."""
    figure = Figure(figsize=(WIDTH, 4.2))
    axes = figure.subplots()
    found = network(records)
    plan = [by.batch(USERS, STEPS["sampled"]) * dim for dim in DIMS]
    ends = [min(n for _, _, n in found) * 0.7, max(plan) * 1.4]
    for processes, colour in zip((2, 4, GPUS[-1]), COLOURS, strict=False):
        line = [by.step_by_items(n, 1, processes) for n in ends]
        axes.plot(ends, line, color=colour, label=f"formula, {processes} processes")
        own = [(n, point.measured) for point, of, n in found if of == processes]
        if own:
            axes.plot(*zip(*own, strict=True), ls="", marker="o", color=colour, mec=INK, ms=7, label=f"on the sockets, {processes}")
    for n, dim in zip(plan, DIMS, strict=True):
        axes.axvline(n, color=INK, lw=1, ls=":")
        at = (n, by.step_by_items(ends[0], 1, 2))
        axes.annotate(f"the plan, dim {dim:,}", at, (-3, 0), textcoords="offset points", ha="right", rotation=90, size=9)
    _logarithmic(axes, "users of a batch x dim", "bytes a process sends in a step")
    legend(figure, axes)
    return figure


@styled
def seconds_figure(records: Records) -> Figure:
    """Measured seconds against those by formula, with the fitted rates. On the line, both are the same."""
    found = times(records)
    fitted = rates(found)
    jobs, places = (list(dict.fromkeys(getattr(each, name) for each in found)) for name in ("job", "where"))
    figure = Figure(figsize=(WIDTH * 1.6, 3.8))
    panels = figure.subplots(1, len(jobs))
    for panel, job in zip(panels, jobs, strict=True):
        for where, colour, marker in zip(places, COLOURS, MARKERS, strict=False):
            own = [each for each in found if (each.job, each.where) == (job, where)]
            if own:
                x = [fitted[job, where].seconds(each.operations, each.moved) for each in own]
                y = [each.seconds for each in own]
                panel.plot(x, y, ls="", marker=marker, color=colour, mec=INK, ms=6, label=where)
        low, high = panel.dataLim.min.min() * 0.6, panel.dataLim.max.max() * 1.6
        panel.plot([low, high], [low, high], color=INK, lw=1, ls="--")
        panel.set_title(job, loc="left")
        _logarithmic(panel, "seconds by formula", "")
    panels[0].set_ylabel("seconds measured")
    looks = {name: handle for panel in panels for handle, name in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(looks.values(), looks.keys(), loc="outside lower center", ncols=len(looks))
    return figure


FIGURES: dict[str, Callable[[Records], Figure]] = {
    "scale-memory": memory_figure,
    "scale-network": network_figure,
    "scale-seconds": seconds_figure,
}
