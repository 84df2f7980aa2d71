"""Memory and seconds of fits from pairs on disk, in a world that is written by pieces and never held as a whole.

    python benchmarks/on_disk.py [--pairs 100_000_000 --users 1_000_000 --items 100_000] [--folder FOLDER] [--json FILE]

world      write the rows of a simulated world to a folder of parquet files
read       `al.read(folder, on_disk=cache)`
mf         fit MF by ALS with a given l2
fism-aur   hold out a validation part, fit FISM and the estimator, and choose lam, without a refit
memory     the same two fits at --small-pairs pairs, in memory and from disk: whether their scores have the same bits

Each job runs in a fresh process. "ours" is its peak of anonymous memory (RssAnon, read every few milliseconds), and the
reference is what it takes for its own tables with their gradients and the state of the optimiser. "beside" is the
difference, less what a process takes that only imports. "resident" also counts pages of mapped files, which the system
takes back when it needs them. A user has a taste for one group of items, and popularity falls as a power of the rank.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import MB, Row, peak_memory, show
from numpy.typing import NDArray

import aleator as al

JOBS = ("world", "read", "mf", "fism-aur", "memory")
GROUPS, OWN = 50, 0.7  # groups of items, and the share of a user's rows that are in the own group
ROWS = 1 << 21  # rows of a file
Ids = NDArray[np.int64]


class Anonymous(threading.Thread):
    """The peak of the anonymous memory of this process, in bytes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self.ended = 0, threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.005):
            self.see()

    def see(self) -> None:
        """Read the present memory."""
        lines = Path("/proc/self/status").read_text().splitlines()
        self.peak = max(self.peak, *(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon")))


@contextmanager
def watched(told: dict[str, Any]) -> Iterator[None]:
    """Inside, seconds and peak anonymous memory are measured. They are told at the end."""
    anonymous, start = Anonymous(), time.perf_counter()
    anonymous.start()
    yield
    told["seconds"] = time.perf_counter() - start
    anonymous.ended.set()
    anonymous.see()
    told["anonymous"] = anonymous.peak


def drawn(users: int, items: int, pairs: int, seed: int = 0) -> Iterator[tuple[Ids, Ids]]:
    """So many rows of a simulated world, a part at a time: users, and items. Some pairs occur twice."""
    rng = np.random.default_rng(seed)
    active = np.cumsum(rng.lognormal(sigma=0.7, size=users))
    of_group, of_all = (np.cumsum((np.arange(n) + 10.0) ** -0.8) for n in (items // GROUPS, items))
    for first in range(0, pairs, ROWS):
        n = min(ROWS, pairs - first)
        user = np.searchsorted(active, rng.random(n) * active[-1]).clip(max=users - 1)
        own = np.searchsorted(of_group, rng.random(n) * of_group[-1]) * GROUPS + user % GROUPS
        any_item = np.searchsorted(of_all, rng.random(n) * of_all[-1])
        yield user, np.where(rng.random(n) < OWN, own, any_item).clip(max=items - 1)


def write_world(folder: Path, users: int, items: int, pairs: int) -> None:
    """Write the rows of a simulated world. A pair that occurs twice is dropped when it is read."""
    import polars as pl

    folder.mkdir(parents=True)
    for number, (user, item) in enumerate(drawn(users, items, pairs)):
        rows = pl.DataFrame({"user_id": user, "item_id": item})
        rows.write_parquet(folder / f"part-{number:05}.parquet", row_group_size=1 << 18)


def mf(args: argparse.Namespace) -> al.MF:
    return al.MF(dim=args.dim, l2=0.003, iterations=args.iterations, device="cpu")


def fism_aur(args: argparse.Namespace) -> al.AUR:
    model = al.FISM(dim=args.dim, max_epochs=args.epochs)
    estimator = al.FactorEstimator(dim=args.dim, init="spectral", max_epochs=args.epochs)
    given: dict[str, Any] = {"residuals": "in-sample", "unobserved": "constant", "discount": 0.0, "prior": 0.0}
    return al.AUR(model, estimator=estimator, refit=False, device="cpu", **given)


FITS: dict[str, Callable[[argparse.Namespace], Any]] = {"mf": mf, "fism-aur": fism_aur}


def tables(job: str, users: int, items: int, dim: int) -> int:
    """Bytes of the tables that a fit trains, with their gradients and the state of the optimiser.

    ALS holds the tables before and after a half of an iteration. AdamW has gradients, two moments and the best weights so
    far; the estimator also a second gradient. FISM's tables stay while the estimator trains.
    """
    if job == "mf":
        return 4 * dim * 2 * (users + items)
    return 4 * dim * 2 * items * (6 + 1)


def nothing() -> dict[str, Any]:
    """What importing takes."""
    told: dict[str, Any] = {}
    with watched(told):
        pass
    return told


def work(job: str, folder: str, options: dict[str, Any]) -> dict[str, Any]:
    """Do one job in this process."""
    args, place, told = argparse.Namespace(**options), Path(folder), dict[str, Any]()
    torch.set_num_threads(args.threads)
    with watched(told):
        if job == "world":
            write_world(place / "world", args.users, args.items, args.pairs)
        elif job == "memory":
            told["equal"] = as_in_memory(place, args)
        else:
            data = al.read(place / "world", on_disk=place / "cache")
            told |= {"users": data.n_users, "items": data.n_items, "pairs": len(data)}
            if job in FITS:
                FITS[job](args).fit(data)
                told["tables"] = tables(job, data.n_users, data.n_items, args.dim)
    return told


def as_in_memory(place: Path, args: argparse.Namespace) -> dict[str, bool]:
    """Whether fits from disk have the bits of those from memory, in a smaller world."""
    share = args.small_pairs / args.pairs
    users, items = max(int(args.users * share), 200), max(int(args.items * share**0.5), GROUPS * 4)
    write_world(place / "small", users, items, args.small_pairs)
    import polars as pl

    rows = pl.read_parquet(place / "small" / "*.parquet")
    both = al.read(rows), al.read(place / "small", on_disk=place / "small-cache")
    found = {}
    for name, make in FITS.items():
        with torch.no_grad():
            fitted = [make(args).fit(data) for data in both]
            scores = [model.score_block(model.histories.batch(torch.arange(200))) for model in fitted]
        found[name] = bool(torch.equal(*scores))
    return found


def row_of(job: str, told: dict[str, Any], resident: float, base: float) -> Row:
    """A line of the table."""
    own = told.get("tables", 0) / MB
    more = {"beside": told["anonymous"] / MB - own - base, "resident": resident, "seconds": told["seconds"]}
    return Row(job, told["anonymous"] / MB, own or None, "its own tables" if own else "", "MB", more)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--items", type=int, default=5_000)
    parser.add_argument("--pairs", type=int, default=1_000_000, help="rows of the world; repeated pairs are dropped")
    parser.add_argument("--small-pairs", type=int, default=200_000, help="rows of the world that is held in memory too")
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--iterations", type=int, default=5, help="of ALS")
    parser.add_argument("--epochs", type=int, default=3, help="most epochs of FISM and of the estimator")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=JOBS, help="all by default; earlier ones are needed")
    parser.add_argument("--folder", type=Path, help="keep the world and the pairs here; a later run goes on from there")
    parser.add_argument("--json", type=Path, help="append the figures to this file as one line of JSON")
    args = parser.parse_args()
    options = {name: value for name, value in vars(args).items() if name not in ("folder", "json", "jobs")}
    rows, about = list[Row](), dict[str, Any]()
    with tempfile.TemporaryDirectory() as temporary:
        place = temporary if args.folder is None else str(args.folder)
        base = peak_memory(nothing).result["anonymous"] / MB
        for job in args.jobs:
            if job == "world" and (Path(place) / "world").exists():
                continue
            peak = peak_memory(work, job=job, folder=place, options=options)
            about |= {name: peak.result[name] for name in ("users", "items", "pairs") if name in peak.result}
            rows.append(row_of(job, peak.result, peak.megabytes, base))
            if "equal" in peak.result:
                about["same bits as in memory"] = json.dumps(peak.result["equal"])
    show("on_disk", rows, args.json, world=about, import_anonymous_megabytes=base)


if __name__ == "__main__":
    main()
