"""Study: the cells of one table or figure, how one is measured, and how the results are shown."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from aleator.errors import AleatorError
from aleator.studies import records as record
from aleator.studies.methods import Method
from aleator.studies.report.tables import Block
from aleator.studies.workbench import Bench

Row = dict[str, Any]


@dataclass(frozen=True)
class Study:
    """Each cell is a method (by its name, with options beyond the tuned ones), measured on every dataset and seed.

    `measure` gives what the record of a cell has beyond its key: metrics above all. `show` turns the records of one
    dataset and recipe, all seeds together, into tables and figures.
    """

    name: str
    title: str
    question: str
    cells: Callable[[Bench], Sequence[Method]]
    measure: Callable[[Bench, Method], Row]
    show: Callable[[Sequence[Row]], Sequence[Block]]
    part: str = ""  # studies of one name share a file, and are told apart by their part
    applies: Callable[[Bench], bool] = lambda bench: bench.world is None
    seeds: bool = True  # whether more than the first seed tells more
    order: Sequence[str] = ()  # of the methods where they are shown; else as they were first measured

    def file(self, out: Path, dataset: str) -> Path:
        """Where its records stand."""
        return out / self.name / f"{dataset}.jsonl"

    def rows(self, out: Path, dataset: str) -> list[Row]:
        """Its records, the latest of each cell, in their order; quick ones where all are."""
        found = {key(row): row for row in record.read(self.file(out, dataset))}
        rows = [row for row in found.values() if row.get("part", "") == self.part]
        rows.sort(key=lambda row: self.order.index(row["method"]) if row["method"] in self.order else len(self.order))
        return [row for row in rows if "quick" not in row] or rows


def key(row: Row) -> str:
    """What tells a cell from any other of its file."""
    parts = (row.get(name) for name in ("part", "recipe", "method", "seed", "quick"))
    return json.dumps([*(part or 0 for part in parts), row.get("settings") or {}], sort_keys=True)


def made_of(row: Row) -> str:
    """The cell, its data and its options: a record of all three is not made again."""
    return json.dumps([key(row), row.get("data"), row.get("tuned")], sort_keys=True)


def run(
    study: Study,
    bench: Bench,
    out: Path,
    again: bool = False,
    say: Callable[[str], None] = print,
    methods: Sequence[str] = (),
) -> tuple[list[Row], list[str]]:
    """Measure the cells that have no record yet (or all of them), one line of `out` each; of these `methods` if given.

    What was measured, and what could not be, with the reason.
    """
    if not study.applies(bench):
        return [], []
    file = study.file(out, bench.dataset)
    done = set() if again else {made_of(row) for row in record.read(file)}
    made: list[Row] = []
    failed: list[str] = []
    cells = [method for method in study.cells(bench) if not methods or method.name in methods]
    for number, method in enumerate(cells, 1):
        row: Row = {"study": study.name, "dataset": bench.dataset, **bench.conventions()}
        row |= {"part": study.part} if study.part else {}
        row |= {"method": method.name, "seed": bench.seed, "tuned": bench.tuned(method)}
        row |= {"settings": dict(method.settings)} if method.settings else {}
        row |= {"quick": True} if bench.quick else {}
        if made_of(row) in done:
            continue
        name = f"{study.name} {study.part}".strip()
        where = f"{name} {bench.dataset} {bench.recipe} seed {bench.seed} ({number} of {len(cells)}) {method.key}"
        start = time.perf_counter()
        try:
            with record.peak(bench.device) as memory:
                row |= study.measure(bench, method)
        except (AleatorError, torch.OutOfMemoryError, MemoryError) as error:
            failed.append(f"{where}: {error}")
            say(f"failed: {failed[-1]}")
            continue
        elapsed = round(time.perf_counter() - start, 2)
        row["seconds"] = round(bench.seconds.get(method.key, elapsed), 2)  # of the fit, also where that was before
        row |= {"seconds_here": elapsed, "peak_memory": memory.bytes, "machine": record.machine(bench.device)}
        row |= {"versions": record.versions(), "command": record.command()}
        record.append(file, row)
        made.append(row)
        say(f"{where}: {_short(row)}")
    return made, failed


def _short(row: Row) -> str:
    """The first few figures, for whoever waits."""
    metrics = row["metrics"]
    figures = [(p, m, v) for p in metrics for m, v in metrics[p].items() if isinstance(v, float)]
    wanted = [f for f in figures if f[1] in ("recall@20", "recall@50")][:4] or figures[:4]
    return ", ".join(f"{p.replace('_', ' ')} {m} {v:.4g}" for p, m, v in wanted) + f" ({row['seconds_here']:.0f} s)"
