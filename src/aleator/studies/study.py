"""Study: the cells of one table or figure, how a cell is measured, and how the records are shown."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

import torch

from aleator.errors import AleatorError
from aleator.locks import locked
from aleator.studies import records
from aleator.studies.memory import peak
from aleator.studies.methods import Method
from aleator.studies.records import Header, Measured, Origin, Record
from aleator.studies.report.tables import Block
from aleator.studies.workbench import Workbench, fits_kept_in


@dataclass(frozen=True)
class Study:
    """Each cell is a method (its name, and options beyond the tuned ones), measured on every dataset and seed.

    `measure` gives what the record of a cell has beyond its header, above all metrics. `show` turns the records of one
    dataset and recipe, all seeds together, into tables and figures.
    """

    name: str
    title: str
    question: str
    cells: Callable[[Workbench], Sequence[Method]]
    measure: Callable[[Workbench, Method], Measured]
    show: Callable[[Sequence[Record]], Sequence[Block]]
    part: str = ""  # studies of one name share a file; their parts tell them apart
    applies: Callable[[Workbench], bool] = lambda bench: bench.world is None
    plain: bool = False  # whether methods have default options, and not those found for the dataset
    seeds: bool = True  # whether more than the first seed is measured
    released: bool = False  # whether the paper's released program makes it, so that recipe paper measures it unasked
    order: Sequence[str] = ()  # of the methods in tables; others follow in the order of their first measurement

    def file(self, out: Path, dataset: str) -> Path:
        """The file of its records."""
        return out / self.name / f"{dataset}.jsonl"

    def rows(self, out: Path, dataset: str) -> list[Record]:
        """Its records, the latest of each cell, in their order. Quick ones count only where all are quick."""
        rows = [
            row for row in records.latest(records.read(self.file(out, dataset))) if row.get("part", "") == self.part
        ]
        rows.sort(key=lambda row: self.order.index(row["method"]) if row["method"] in self.order else len(self.order))
        return [row for row in rows if "quick" not in row] or rows


def run(
    study: Study,
    bench: Workbench,
    out: Path,
    *,
    again: bool = False,
    dry: bool = False,
    say: Callable[[str], None] = print,
    methods: Sequence[str] = (),
) -> tuple[list[Record], list[str]]:
    """Measure the cells that have no record yet (or all, with `again`), and add one line to the file for each.

    `methods` limits the cells to these. With `dry` it says which cells it would measure, and measures none. Returns the
    new records, and the cells that failed with the reason.
    """
    if not study.applies(bench):
        return [], []
    if study.plain:
        bench = bench.untuned
    file = study.file(out, bench.dataset)
    done = set() if again else {records.made_of(row) for row in records.read(file)}
    made: list[Record] = []
    failed: list[str] = []
    cells = [method for method in study.cells(bench) if not methods or method.name in methods]
    for number, method in enumerate(cells, 1):
        head = header(study, bench, method)
        if records.made_of(head) in done:
            continue
        name = f"{study.name} {study.part}".strip()
        part = f"seed {bench.seed} ({number} of {len(cells)})"
        where = f"{name} {bench.dataset} {bench.recipe.name} {part} {method.key}"
        if dry:
            say(where)
            continue
        try:
            with one_writer(file, head) as mine:
                if mine and (again or records.made_of(head) not in map(records.made_of, records.read(file))):
                    with fits_kept_in(place_of(file, head, ".fit")):
                        made.append(measured(study, bench, method, head))
                    records.append(file, made[-1])
                else:
                    say(f"{where}: another process measures it, or just has")
                    continue
        except (AleatorError, torch.OutOfMemoryError, MemoryError) as error:
            rmtree(place_of(file, head, ".fit"), ignore_errors=True)  # it would fail again: only killed fits go on
            failed.append(f"{where}: {error}")
            say(f"failed: {failed[-1]}")
            continue
        say(f"{where}: {_short(made[-1])}")
    return made, failed


@contextmanager
def one_writer(file: Path, head: Header) -> Iterator[bool]:
    """Inside, no other process measures the cell. The value is False if one does, and then this one must not."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with locked(place_of(file, head, ".lock")) as mine:
        yield mine


def place_of(file: Path, head: Header, ending: str) -> Path:
    """A path beside the file of records that belongs to one cell."""
    cell = hashlib.sha256(records.made_of(head).encode()).hexdigest()[:16]
    return file.with_name(f".{file.stem}-{cell}{ending}")


def header(study: Study, bench: Workbench, method: Method) -> Header:
    """Which cell a record is about."""
    told = bench.conventions()
    found: Header = {
        "study": study.name,
        "dataset": bench.dataset,
        "data": told["data"],
        "recipe": told["recipe"],
        "tail": told["tail"],
        "empty": told["empty"],
        "method": method.name,
        "seed": bench.seed,
        "tuned": bench.tuned(method),
    }
    if study.part:
        found["part"] = study.part
    if method.settings:
        found["settings"] = dict(method.settings)
    if bench.quick:
        found["quick"] = True
    return found


def measured(study: Study, bench: Workbench, method: Method, head: Header) -> Record:
    """The whole record of a cell."""
    start = time.perf_counter()
    with peak(bench.device) as memory:
        found = study.measure(bench, method)
    elapsed = round(time.perf_counter() - start, 2)
    origin: Origin = {
        "seconds": round(bench.seconds.get(method.key, elapsed), 2),
        "seconds_here": elapsed,
        "peak_memory": memory.bytes,
        "machine": records.machine(bench.device),
        "versions": records.versions(),
        "command": records.command(),
    }
    return {**head, **found, **origin}


def _short(row: Record) -> str:
    """The first few figures, for a person who waits."""
    metrics = row["metrics"]
    figures = [(p, m, v) for p in metrics for m, v in metrics[p].items() if isinstance(v, float)]
    wanted = [f for f in figures if f[1] in ("recall@20", "recall@50")][:4] or figures[:4]
    return ", ".join(f"{p.replace('_', ' ')} {m} {v:.4g}" for p, m, v in wanted) + f" ({row['seconds_here']:.0f} s)"
