"""What the benchmarks share: data, the timer, peak memory, other libraries, and one table with ratios."""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import scipy.sparse as sp
import torch
from torch import Tensor

import aleator as al
from aleator.aur.blended import Setting
from aleator.batches import pieces
from aleator.data.opening import open_split
from aleator.ranking.top import blocks
from aleator.recommender import Recommender
from aleator.studies import records as record
from aleator.training.stop import Stop

MB = 1 << 20
PEERS = {  # other libraries, and the packages that they come in
    **{name: name for name in ("implicit", "rectools", "cornac", "ranx", "usearch", "lancedb")},
    "faiss": "faiss-cpu",
    "qdrant_client": "qdrant-client",
}
# The peak memory of a process includes the memory that its parent held when it started the process. So each job is
# started by this small interpreter, which holds almost nothing.
_START = """
import json, resource, subprocess, sys
ran = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, text=True)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(json.dumps([ran.returncode, peak, ran.stdout]))
"""


@dataclass
class Row:
    """One line of the table: our figure and a reference that was measured in the same run."""

    job: str
    ours: float
    reference: float | None = None
    against: str = ""  # what the reference is
    unit: str = "s"
    more: dict[str, Any] = field(default_factory=dict)  # further columns

    @property
    def ratio(self) -> float | None:
        """Ours / reference. For seconds and bytes, a ratio below 1 is better."""
        return self.ours / self.reference if self.reference else None


def table(rows: Sequence[Row]) -> str:
    """The rows as text. Each key in the `more` of any row is a further column."""
    extra = list(dict.fromkeys(name for row in rows for name in row.more))
    lines = [["job", "unit", "ours", "reference", "ratio", "against", *extra]]
    for row in rows:
        numbers = [_short(value) for value in (row.ours, row.reference, row.ratio)]
        lines.append([row.job, row.unit, *numbers, row.against, *(_short(row.more.get(name)) for name in extra)])
    widths = [max(len(line[j]) for line in lines) for j in range(len(lines[0]))]
    texts = {0, 1, 5}
    return "\n".join(
        "  ".join(f"{cell:{'<' if j in texts else '>'}{widths[j]}}" for j, cell in enumerate(line)).rstrip()
        for line in lines
    )


def _short(value: Any) -> str:
    """A number with three significant digits and without an exponent.

    >>> _short(12345.6), _short(0.01234), _short(None)
    ('12,346', '0.0123', '')
    """
    if value is None:
        return ""
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def show(benchmark: str, rows: Sequence[Row], json_file: Path | None = None, **rest: Any) -> None:
    """Print the table with the machine and the versions. Append all of it to `json_file` as one line of JSON."""
    told = {
        "benchmark": benchmark,
        "rows": [asdict(row) | {"ratio": row.ratio} for row in rows],
        **rest,
        "machine": record.machine() | {"threads": torch.get_num_threads()},
        "versions": record.versions()
        | {package: metadata.version(package) for name, package in PEERS.items() if name in sys.modules},
        "command": record.command(),
    }
    for name in (*rest, "machine", "versions"):
        if isinstance(told[name], (str, int, float)):
            print(f"{name}: {told[name]}")
        elif isinstance(told[name], dict):
            print(f"{name}: " + ", ".join(f"{key} {value}" for key, value in told[name].items()))
    print(f"\n{table(rows)}\nratio = ours / reference, measured in the same run")
    if json_file is not None:
        record.append(json_file, told)


def arguments(doc: str | None, *, users: int = 5000, items: int = 3000, repeats: int = 1) -> argparse.ArgumentParser:
    """The options that all benchmarks on a dataset have. The sizes are the defaults of the simulated world."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="simulated", help="simulated, a catalogue name, or a folder of parts")
    parser.add_argument("--data-root", type=Path, help="folder with dataset archives (or set ALEATOR_DATA)")
    parser.add_argument("--users", type=int, default=users, help="in the simulated world")
    parser.add_argument("--items", type=int, default=items, help="in the simulated world")
    parser.add_argument(
        "--per-user", type=float, default=200, help="mean number of showings of a user in the simulated world"
    )
    parser.add_argument("--dim", type=int, default=128, help="dimensions of MF")
    parser.add_argument("--repeats", type=int, default=repeats, help="number of runs; the fastest counts")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--json", type=Path, help="append the figures to this file as one line of JSON")
    return parser


def open_data(args: argparse.Namespace) -> al.Split:
    """The simulated world or the dataset that the options ask for."""
    if args.dataset == "simulated":
        world = al.simulate(n_users=args.users, n_items=args.items, per_user=args.per_user, seed=0)
        return world.interactions.split(valid=0.0, test=0.2, seed=0)
    return open_split(args.dataset, args.data_root)


def describe(split: al.Split, name: str) -> dict[str, Any]:
    """Name and size of the data that was measured on, for `show`."""
    data = split.everything
    sizes = {"users": data.n_users, "items": data.n_items, "pairs": len(data), "test_pairs": len(split.test)}
    return {"name": name, **sizes}


def timed(job: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Seconds of the fastest run, and the result of the last one. Work that is queued on a GPU is waited for."""
    fastest, result = float("inf"), None
    for _ in range(repeats):
        _synchronise()
        start = time.perf_counter()
        result = job()
        _synchronise()
        fastest = min(fastest, time.perf_counter() - start)
    return fastest, result


def seconds(job: Callable[[], Any], repeats: int = 1) -> float:
    """Seconds of the fastest run."""
    return timed(job, repeats)[0]


def _synchronise() -> None:
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()


class Peak(NamedTuple):
    """Peak memory and result of a fresh process."""

    megabytes: float  # the largest resident set of the process
    result: Any  # what the function returned, or the standard output of the command


def peak_memory(job: Callable[..., Any] | Sequence[str], /, **options: Any) -> Peak:
    """Run a command or a function in a fresh process and measure its peak memory.

    A function must be at the top level of a script. Its options and its result go through JSON.
    """
    if callable(job):
        script = inspect.getsourcefile(job)
        command = [sys.executable, __file__, str(script), job.__name__, json.dumps(options)]
    else:
        command = list(job)
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _START, *command], stdout=subprocess.PIPE, text=True, check=True
    )
    code, peak, output = json.loads(ran.stdout)
    if code:
        raise SystemExit(f"{' '.join(command)} ended with {code}")
    return Peak(peak / MB, json.loads(output.splitlines()[-1]) if callable(job) else output)


@cache
def peer(name: str) -> ModuleType | None:
    """Another library, or None if it is not installed. A note says so once."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        missing = error.name or name
        because = "" if missing.partition(".")[0] == name else f" ({error})"
        print(f"{name} is not installed{because}: skipped (pip install 'aleator[bench]')")
        return None


def assemble(
    model: al.MF, estimator: al.FactorEstimator, *, epochs: int = 0, tensors: dict[str, Tensor] | None = None
) -> al.AUR:
    """An AUR on a fitted model with lam 0.5. Its estimator is trained for `epochs` epochs, or has these `tensors`."""
    made = al.AUR(model, estimator=estimator, lam=0.5, device=model.device)
    made.data, made.setting = model.fitted, Setting("in-sample", "model")
    blended = made.blended
    if tensors is None:
        blended.learn(Stop(epochs=epochs))
    else:
        made.estimator.set_tensors(tensors)
        blended.measure_spreads()
    made.spreads = blended.spreads
    return made


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread. implicit has its own threads and is very slow if BLAS has threads too."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):
        yield


def top_for_all(model: Recommender, k: int) -> tuple[Tensor, Tensor]:
    """Scores and dense ids of the k best unseen items of each user, [n_users, k] each, on the CPU."""
    n_users, n_items = model.fitted.n_users, model.fitted.n_items
    size, chunk = blocks(n_users, n_items, model.torch_device)
    found = []
    with torch.no_grad():
        for index in pieces(torch.arange(n_users), size):
            users = model.histories.batch(index)
            values, items = model.top(users, k, seen=users, chunk=chunk)[0]
            found.append((values.cpu(), items.cpu()))
    values, items = (torch.cat(parts) for parts in zip(*found, strict=True))
    return values, items


def brute_force(
    score: Callable[[Tensor], Tensor], seen: sp.csr_matrix, who: Tensor, k: int, block: int = 512
) -> tuple[Tensor, Tensor]:
    """The same as `top_for_all`, in the simplest way: score all items, mask the seen ones, call topk.

    Args:
        score: Gives the scores of a block of users as a new tensor [B, n_items].
        seen: Interactions, [n_users, n_items].
        who: Dense ids of the users to rank for.
        k: Number of items. If a user has fewer candidates, the item is -1.
        block: Number of users in a block.
    """
    found = []
    with torch.no_grad():
        for index in pieces(who, block):
            scores = score(index)
            row, item = seen[index.cpu().numpy()].nonzero()
            scores[torch.from_numpy(row).to(scores.device), torch.from_numpy(item).to(scores.device)] = -torch.inf
            values, items = scores.topk(min(k, scores.shape[1]))
            found.append((values.cpu(), items.masked_fill(values == -torch.inf, -1).cpu()))
    values, items = (torch.cat(parts) for parts in zip(*found, strict=True))
    return values, items


def _call(script: str, function: str, options: str) -> None:
    """Run a function of a script for `peak_memory`, in the fresh process."""
    sys.path.insert(0, str(Path(script).resolve().parent))
    print(json.dumps(getattr(importlib.import_module(Path(script).stem), function)(**json.loads(options))))


if __name__ == "__main__":
    _call(*sys.argv[1:])
