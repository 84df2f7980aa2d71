"""Figures, bytes and memory of fits on several processes, which torchrun starts on this machine.

    python benchmarks/ranks.py [--dataset ml-100k --data-root FOLDER] [--processes 1 2 4] [--epochs 3] [--json FILE]

multvae     MultVAE without held-out pairs, the users of a batch shared out
lightgcn    LightGCN, likewise; each process propagates the whole graph
fism        FISM with shard="items", each process with the rows of some items
estimator   FactorEstimator with shard="items" on MF by ALS, blended at lam 0.5

Each job trains for a fixed number of epochs, with the same seed and the same batches of all users. "ours" is the time of
the training and the reference that of one process. On a machine with fewer cores than processes it says little. "off" is
the largest difference of recall@20, ndcg@20 and tail recall@50 to one process. Bytes are those that a process sends in a
step, the mean over steps after the first epoch and over processes: as they are counted, by the formula of
docs/distributed.md, and on the sockets (`ss`, on Linux). "before" is what it sent before the first step, in MB. "tables"
are the MB of the tables on a process, and "grown" how far its resident memory rose above that before the training, at
its peak. "whole" is the largest resident memory in all, with PyTorch and the data. Both are the largest of all processes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from common import MB, Row, arguments, assemble, describe, open_data, show, timed
from torch import Tensor

import aleator as al
from aleator.ranks import here, join
from aleator.recommender import Recommender
from aleator.training.stop import Stop
from aleator.training.watch import Epoch, watching
from aleator.uncertainty.products import LABEL

JOBS = ("multvae", "lightgcn", "fism", "estimator")
STAGES = {"multvae": "MultVAE", "lightgcn": "LightGCN", "fism": "FISM", "estimator": LABEL}
METRICS = {
    "recall@20": ("overall", "recall@20"),
    "ndcg@20": ("overall", "ndcg@20"),
    "tail": ("tail_absolute", "recall@50"),
}
NUMBER = 4  # bytes
EVERY = 0.005  # seconds between two looks at the memory


@dataclass
class Sent:
    """What this process has sent after each epoch of a stage: as it is counted, and on its sockets."""

    stage: str
    start: float = field(default_factory=lambda: here().sent)
    counted: list[float] = field(default_factory=list)
    sockets: list[int | None] = field(default_factory=list)

    def __call__(self, epoch: Epoch) -> None:
        if epoch.stage == self.stage:
            self.counted.append(here().sent)
            self.sockets.append(on_sockets())

    def told(self, steps: int) -> dict[str, Any]:
        """Bytes of a step after the first epoch, and those before the first step. `steps` are those of an epoch."""
        later = (len(self.counted) - 1) * steps
        first, last = self.sockets[0], self.sockets[-1]
        counted = (self.counted[-1] - self.counted[0]) / later
        return {
            "counted": counted,
            "sockets": None if first is None or last is None else (last - first) / later,
            "before": self.counted[0] - self.start - counted * steps,
        }


def on_sockets() -> int | None:
    """Bytes that this process has sent over TCP so far. None where `ss` is not there to tell."""
    if shutil.which("ss") is None:
        return None
    told = subprocess.run(["ss", "-tinpH"], capture_output=True, text=True, check=False).stdout
    mine = re.findall(rf"pid={os.getpid()},[^\n]*\n([^\n]*)", told)
    return sum(int(found[1]) for line in mine if (found := re.search(r"bytes_sent:(\d+)", line)))


class Memory:
    """The resident memory of this process in MB, at the start of the block and at its peak. NaN without /proc."""

    def __init__(self) -> None:
        self.start = self.peak = self._now()
        self._ended = threading.Event()
        self._watching = threading.Thread(target=self._watch)

    @staticmethod
    def _now() -> float:
        try:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
        except OSError:
            return float("nan")
        return pages * os.sysconf("SC_PAGE_SIZE") / MB

    def _watch(self) -> None:
        while not self._ended.wait(EVERY):
            self.peak = max(self.peak, self._now())

    def __enter__(self) -> Self:
        self._watching.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._watching.join()
        self.peak = max(self.peak, self._now())


@dataclass
class Training:
    """A job: what trains, what was trained, and the users of a batch."""

    train: Callable[[], object]
    trained: Callable[[], Recommender]
    tables: Callable[[], list[Tensor]]
    batch: int


def training(job: str, args: argparse.Namespace, split: al.Split) -> Training:
    """A job on the training pairs of some data."""
    if job == "estimator":
        mf = al.MF(dim=args.dim, device="cpu", l2=0.003)
        mf.fit_pairs(split.train)
        estimator = al.FactorEstimator(dim=args.estimator_dim, shard="items", device="cpu")
        size = mf.histories.batch_size(estimator.schedule(True, mf.fitted.n_items, mf.torch_device).steps)

        return Training(
            lambda: estimator.learn(mf.histories, mf, al.AUR(mf).objective, Stop(epochs=args.epochs)),
            lambda: assemble(mf, estimator, tensors=estimator.tensors()),
            estimator.parameters,
            size,
        )
    models: dict[str, Callable[[], al.MultVAE | al.LightGCN | al.FISM]] = {
        "multvae": lambda: al.MultVAE(hidden=args.hidden, dim=args.hidden // 2, device="cpu"),
        "lightgcn": lambda: al.LightGCN(dim=args.dim, device="cpu"),
        "fism": lambda: al.FISM(dim=args.estimator_dim, shard="items", device="cpu"),
    }
    model = models[job]()
    model.data = split.train
    return Training(
        lambda: model.fit_pairs(split.train, epochs=args.epochs),
        lambda: model,
        model.parameters,
        model.histories.batch_size(model.steps),
    )


def warm_up() -> None:
    """Train something small, so that the libraries are loaded before memory is measured."""
    small = al.simulate(n_users=40, n_items=30, seed=0).interactions
    for model in (al.FISM(dim=2, device="cpu"), al.MultVAE(hidden=2, dim=2, device="cpu")):
        model.fit_pairs(small, epochs=1)


def work(job: str, args: argparse.Namespace) -> dict[str, Any]:
    """Train one job in this process, and tell its figures."""
    split = open_data(args)
    warm_up()
    made = training(job, args, split)
    users = int((split.train.csr.getnnz(1) > 0).sum())
    steps = -(-users // made.batch)
    with Memory() as memory, watching(sent := Sent(STAGES[job])):
        seconds, _ = timed(made.train)
    numbers = sum(table.numel() for table in made.tables())
    ranks = here()
    handed = 2 * users / steps * args.estimator_dim if job in ("fism", "estimator") else numbers + 1
    report = al.evaluate(made.trained(), split, k=(20, 50))
    return {
        "seconds": seconds,
        "formula": 2 * (ranks.size - 1) / ranks.size * NUMBER * handed,
        "tables": numbers * NUMBER / MB,
        "grown": memory.peak - memory.start,
        "peak": memory.peak,
        "metrics": {name: report.mean(*where) for name, where in METRICS.items()},
        "dataset": describe(split, args.dataset),
        **sent.told(steps),
    }


def together(job: str, size: int, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Do a job in so many processes of torchrun."""
    with tempfile.TemporaryDirectory() as folder:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(size)]
        words = [__file__, *sys.argv[1:], "--job", job, "--folder", folder]
        loopback = "lo" if sys.platform == "linux" else "lo0"
        environment = {"GLOO_SOCKET_IFNAME": loopback, "OMP_NUM_THREADS": "1"} | os.environ
        if subprocess.run([*torchrun, *words], env=environment, check=False).returncode:
            sys.exit(f"{job} on {size} processes failed")
        return [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(size)]


def row(job: str, size: int, found: list[dict[str, Any]], alone: dict[str, Any] | None) -> Row:
    """The line of a job. `alone` is what one process found, if that was measured."""
    mean: Callable[[str], float] = lambda name: sum(each[name] for each in found) / size  # noqa: E731
    most: Callable[[str], float] = lambda name: max(each[name] for each in found)  # noqa: E731
    off = None
    if alone is not None:
        off = max(abs(each["metrics"][name] - alone["metrics"][name]) for each in found for name in METRICS)
    sockets = None if found[0]["sockets"] is None else mean("sockets")
    more = {
        **found[0]["metrics"],
        "off": None if off is None else f"{off:.0e}",
        "bytes": mean("counted"),
        "formula": mean("formula"),
        "sockets": sockets,
        "before": mean("before") / MB,
        "tables": most("tables"),
        "grown": most("grown"),
        "whole": most("peak"),
    }
    return Row(f"{job}, {size}", most("seconds"), None if alone is None else alone["seconds"], "one process", more=more)


def main() -> None:
    parser = arguments(__doc__, users=2000, items=1000)
    parser.add_argument(
        "--processes", type=int, nargs="+", default=[1, 2, 4], help="how many processes; 1 2 4 by default"
    )
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=JOBS, help="jobs to measure; all by default")
    parser.add_argument("--epochs", type=int, default=3, help="epochs of each training, at least 2")
    parser.add_argument("--estimator-dim", type=int, default=256, help="dimensions of the estimator and of FISM")
    parser.add_argument("--hidden", type=int, default=256, help="units of MultVAE")
    for name, kind in (("--job", str), ("--folder", Path)):
        parser.add_argument(name, type=kind, help=argparse.SUPPRESS)  # of one of the processes
    args = parser.parse_args()
    if args.epochs < 2 or min(args.processes) < 1:
        parser.error("give at least 2 epochs and 1 process")
    if args.job is not None:
        rank = join().rank
        (args.folder / f"{rank}.json").write_text(json.dumps(work(args.job, args)))
        return
    rows, dataset = list[Row](), {}
    for job in args.jobs:
        alone = None
        for size in sorted(args.processes):
            found = together(job, size, args)
            alone = found[0] if size == 1 else alone
            rows.append(row(job, size, found, alone))
            dataset = found[0]["dataset"]
    show("ranks", rows, args.json, dataset=dataset)


if __name__ == "__main__":
    main()
