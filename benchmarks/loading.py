"""A parquet file of interactions to columns and CSR: seconds and peak memory, against a plain read of the same file.

    python benchmarks/loading.py [--rows 100000000] [--users 1000000] [--items 200000] [--json FILE]

load    al.read of the file, then .csr
plain   polars.read_parquet of the three columns and nothing else: the reference

Each job has a process of its own, so that its peak is its own. The file is written under the temporary folder (about
11 bytes a row) and deleted afterwards.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

GROUP = 1 << 20  # rows of a row group


def write(path: Path, rows: int, users: int, items: int) -> None:
    """Random pairs where few users and items have many rows, some of them more than once, and times in no order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    names = ["user", "item", "timestamp"]
    with pq.ParquetWriter(path, pa.schema([(name, pa.int64()) for name in names]), compression="zstd") as file:
        for start in range(0, rows, GROUP):
            n = min(GROUP, rows - start)
            user = (users * rng.random(n) ** 1.5).astype(np.int64)
            item = (items * rng.random(n) ** 2).astype(np.int64)
            time = rng.integers(1_500_000_000, 1_600_000_000, n)
            file.write_table(pa.table([user, item, time], names))


def load(path: Path) -> dict[str, Any]:
    """What is measured."""
    import aleator as al

    before, start = peak(), time.perf_counter()
    data = al.read(path)
    read = time.perf_counter() - start
    csr = data.csr
    seconds = time.perf_counter() - start
    arrays = [data.user, data.item, data.time, csr.indptr, csr.indices, csr.data]
    held = sum(a.nbytes for a in arrays if a is not None)
    about = {"read_seconds": read, "pairs": len(data), "users": data.n_users, "items": data.n_items}
    return {"seconds": seconds, "peak": peak(), "before": before, "held": held, **about, "notes": list(data.notes)}


def plain(path: Path) -> dict[str, Any]:
    """The reference."""
    import polars as pl

    before, start = peak(), time.perf_counter()
    table = pl.read_parquet(path, columns=["user", "item", "timestamp"])
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "peak": peak(), "before": before, "held": int(table.estimated_size())}


def peak() -> int:
    """Bytes of the largest resident set of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def alone(job: Callable[..., Any], *args: Any) -> Any:
    """The result of a job in a fresh process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(job, *args).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=200_000)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "interactions.parquet"
        alone(write, path, args.rows, args.users, args.items)
        size = path.stat().st_size
        jobs = {job.__name__: alone(job, path) for job in (load, plain)}

    import polars as pl  # only now: what this process holds counts in the peak of those it starts

    from aleator.studies import record

    ours, reference = jobs["load"], jobs["plain"]
    machine = record.machine() | {"polars_threads": pl.thread_pool_size()}
    versions = record.versions() | {"polars": pl.__version__}
    print(f"{args.rows:,} rows in {size / 2**30:.2f} GiB; {machine}; {versions}")
    print(f"{ours['pairs']:,} pairs, {ours['users']:,} users, {ours['items']:,} items; {'; '.join(ours['notes'])}")
    print(f"{'job':<8}{'seconds':>9}{'peak (GiB)':>12}{'held (GiB)':>12}{'peak / held':>13}")
    for name, job in jobs.items():
        peaks = f"{job['peak'] / 2**30:>12.2f}{job['held'] / 2**30:>12.2f}{job['peak'] / job['held']:>13.2f}"
        print(f"{name:<8}{job['seconds']:>9.1f}{peaks}")
    print(f"{'ratio':<8}{ours['seconds'] / reference['seconds']:>9.1f}{ours['peak'] / reference['peak']:>12.2f}")
    if args.json:
        about = {"rows": args.rows, "machine": machine, "versions": versions, "command": record.command()}
        args.json.write_text(json.dumps({"jobs": jobs, **about}, indent=1))


if __name__ == "__main__":
    main()
