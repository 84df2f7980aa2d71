"""Seconds and peak memory from a parquet file to columns and CSR, against a plain read of the same file.

    python benchmarks/loading.py [--rows 100000000] [--users 1000000] [--items 200000] [--json FILE]

load    al.read of the file, then .csr
plain   polars.read_parquet of the three columns and nothing else; this is the reference

Each job runs in its own process, so that its peak memory is its own. The file is written into the temporary folder (about
11 bytes per row) and deleted afterwards.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

GROUP = 1 << 20  # rows in a row group


def write(path: Path, rows: int, users: int, items: int) -> None:
    """Write random pairs. A few users and items have many rows, some pairs repeat, and times are in no order."""
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
    """Read the file with `al.read` and make the CSR matrix."""
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
    """Read the columns with polars and nothing else."""
    import polars as pl

    before, start = peak(), time.perf_counter()
    table = pl.read_parquet(path, columns=["user", "item", "timestamp"])
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "peak": peak(), "before": before, "held": int(table.estimated_size())}


def peak() -> int:
    """The largest resident set of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def alone(job: Callable[..., Any], *args: Any) -> Any:
    """Run a job in a fresh process. Returns its result."""
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

    import polars as pl  # only now: what this process holds would count in the peak of the jobs
    from common import MB, Row, show

    ours, reference = jobs["load"], jobs["plain"]
    against = "polars.read_parquet alone"
    rows = [
        Row("read, clean and CSR", ours["seconds"], reference["seconds"], against),
        Row("peak memory", ours["peak"] / MB, reference["peak"] / MB, against, "MB"),
        Row("held at the end", ours["held"] / MB, reference["held"] / MB, against, "MB"),
    ]
    data = {"rows": args.rows, "file_megabytes": size / MB} | {name: ours[name] for name in ("pairs", "users", "items")}
    show("loading", rows, args.json, data=data, notes="; ".join(ours["notes"]), polars_threads=pl.thread_pool_size())


if __name__ == "__main__":
    main()
