"""Study: the cells of one table or figure, how one is measured, and how the results are shown."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aleator.studies import record
from aleator.studies.bench import Bench
from aleator.studies.blocks import Block
from aleator.studies.methods import Method

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

    def file(self, out: Path, dataset: str) -> Path:
        """Where its records stand."""
        return out / self.name / f"{dataset}.jsonl"

    def rows(self, out: Path, dataset: str) -> list[Row]:
        """Its records, the latest of each cell, in the order of their first appearance."""
        found = {key(row): row for row in record.read(self.file(out, dataset))}
        return [row for row in found.values() if row.get("part", "") == self.part]


def key(row: Row) -> str:
    """What tells a cell from any other of its file."""
    parts = (row.get(name) for name in ("part", "recipe", "method", "seed"))
    return json.dumps([*(part or 0 for part in parts), row.get("settings") or {}], sort_keys=True)


def run(study: Study, bench: Bench, out: Path, again: bool = False, say: Callable[[str], None] = print) -> list[Row]:
    """Measure the cells that have no record yet (or all of them), one line of `out` each. What was measured."""
    if not study.applies(bench):
        return []
    done = set() if again else {key(row) for row in study.rows(out, bench.dataset)}
    made = []
    for method in study.cells(bench):
        row: Row = {"study": study.name, "dataset": bench.dataset, **bench.conventions()}
        row |= {"part": study.part} if study.part else {}
        row |= {"method": method.name, "seed": bench.seed}
        row |= {"settings": dict(method.settings)} if method.settings else {}
        if key(row) in done:
            continue
        start = time.perf_counter()
        with record.peak(bench.device) as memory:
            row |= study.measure(bench, method)
        row.setdefault("seconds", round(time.perf_counter() - start, 2))
        row |= {"peak_memory": memory.bytes, "machine": record.machine(), "versions": record.versions()}
        row["command"] = record.command()
        record.append(study.file(out, bench.dataset), row)
        made.append(row)
        say(f"{study.name} {bench.dataset} {bench.recipe} seed {bench.seed} {method.key}: {_short(row)}")
    return made


def _short(row: Row) -> str:
    """The first few figures, for whoever waits."""
    metrics = row["metrics"]
    figures = [(p, m, v) for p in metrics for m, v in metrics[p].items() if isinstance(v, float)]
    wanted = [f for f in figures if f[1] in ("recall@20", "recall@50")][:4] or figures[:4]
    return ", ".join(f"{p.replace('_', ' ')} {m} {v:.4g}" for p, m, v in wanted) + f" ({row['seconds']:.0f} s)"
