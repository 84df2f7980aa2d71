"""The tables of docs/scale.md: measured points beside the formulas, and the plan for data that no one machine takes.

`tools/update.py` writes them, and draws the pictures of scale_figures.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import formulas as by
from scale_points import (
    EPOCH,
    ITERATION,
    LISTS,
    MB,
    OF_MODEL,
    STEPS,
    Rate,
    Records,
    memory,
    network,
    rates,
    shares,
    starts,
    times,
)

GB, TB, HOUR = 1e9, 1e12, 3600.0
USERS, ITEMS, PAIRS = 10**8, 10**7, 10**10  # the data of the plan
OF_FISM = 256  # dimensions of the plan's model
DIMS = (256, 1024)  # of the plan's estimator
H200 = 141 * GB  # memory of a GPU
GPUS = (8, 16, 64)
LINKS = {"NVLink, 450 GB/s": 450 * GB, "400 Gb/s": 50 * GB, "10 Gb/s": 1.25 * GB}  # one way, by their makers
TAKEN_BY_FISM = 10  # times its tables: 9 as measured without a check, and the best weights


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
        size, formula, rest = (
            f"{v / MB:,.0f}" for v in (point.measured, point.formula, point.measured - point.formula)
        )
        head = {"optimizer": point.job, "where": point.where, "tables": point.what}
        lines.append(head | {"measured, MB": size, "by formula, MB": formula, "difference, MB": rest})
    return lines


def _share_lines(records: Records) -> list[dict[str, str]]:
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for point in shares(records):
        what, processes = point.what.split(", processes: ")
        line = lines.setdefault((point.job, what), {"job": point.job, "tables": what})
        line[f"{processes} process{'es' * (processes != '1')}"] = f"{point.measured / MB:,.0f} MB, {point.ratio:.1f} x"
    return list(lines.values())


def _network_lines(records: Records) -> list[dict[str, str]]:
    return [
        {
            "job": point.job,
            "users x dim": point.what,
            "sent, bytes": f"{point.measured:,.0f}",
            "formula, bytes": f"{point.formula:,.0f}",
            "ratio": f"{point.ratio:.3f}",
        }
        for point in [*(point for point, _, _ in network(records)), *starts(records)]
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
    """Bytes in the unit that suits them.

    >>> _size(1.17e8), _size(5.2e9), _size(1.26e11), _size(3.5e12)
    ('117 MB', '5.2 GB', '126 GB', '3.5 TB')
    """
    if value < GB:
        return f"{value / GB * 1000:,.0f} MB"
    if value >= TB:
        return f"{value / TB:,.1f} TB"
    return f"{value / GB:,.0f} GB" if value >= 10 * GB else f"{value / GB:.1f} GB"


def _time(value: float) -> str:
    """Seconds in the unit that suits them.

    >>> _time(0.0031), _time(3.2), _time(600.0), _time(7200.0), _time(8.64e5)
    ('3.1 ms', '3.2 s', '10 min', '2 h', '10 days')
    """
    for most, unit, name in ((0.5, 1e-3, "ms"), (120, 1, "s"), (2 * HOUR, 60, "min"), (48 * HOUR, HOUR, "h")):
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
    found = {f"a step of the estimator, dim {dim:,}": [_step(users, dim, gpus) for gpus in GPUS] for dim in DIMS}
    found[f"an epoch of FISM, dim {OF_FISM}"] = [by.step_by_items(users, OF_FISM, gpus) * steps for gpus in GPUS]
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
