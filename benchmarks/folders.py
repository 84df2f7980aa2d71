"""Seconds to save and load a model folder, what its checksums cost, and the memory of processes that share it.

    python benchmarks/folders.py [--megabytes 200] [--workers 4] [--repeats 5] [--json FILE]

save        write the folder, against writing as many bytes to a file and waiting until they are on the disk
load        load it and compare all tensors with their checksums, against verify=False
verify      the comparison alone, against reading as many bytes from a file
HASH        other hashes over as many bytes, against SHA-256, which the checksums are
memory      what a worker adds to the memory of the machine when several have loaded the folder and used it, against the
            size of the folder

The model is an AUR of the given size with random tensors. The folder is in the temporary folder and in the page cache.
Memory is the proportional set size (Pss) of the workers, without what they take before they load.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import tempfile
import zlib
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from common import MB, Row, seconds, show

import aleator as al
from aleator import checkpoint
from aleator.aur.blended import Setting
from aleator.models.factors import FactorTable
from aleator.ranking.blend import Spreads

_DIM = 256
HASHES: dict[str, Callable[[Any], Any]] = {
    "blake2b": lambda content: hashlib.blake2b(content).digest(),
    "md5": lambda content: hashlib.md5(content).digest(),
    "crc32": zlib.crc32,
}


def make(megabytes: int) -> al.AUR:
    """An AUR whose four tables of factors take so much memory together. Nothing in it is learned."""
    rows = megabytes * MB // (4 * _DIM * 5)
    data = al.simulate(n_users=2 * rows, n_items=rows, per_user=10, seed=0).interactions
    draw = torch.Generator().manual_seed(0)
    tables = [torch.randn(n, _DIM, generator=draw) for n in (data.n_users, data.n_items, data.n_items, data.n_items)]
    made = al.AUR(al.MF(dim=_DIM), estimator=al.FactorEstimator(dim=_DIM), lam=0.5, device="cpu")
    made.data = made.model.data = data
    made.model.table = FactorTable(*tables[:2])
    made.estimator.set_tensors({"z": tables[2], "q": tables[3]})
    made.setting, made.spreads = Setting("in-sample", "constant"), Spreads(1.0, 1.0)
    made.tail_rule, made.tail_items = made.tail, torch.from_numpy(made.tail.mask(data.popularity))
    return made


def verify(folder: Path) -> None:
    """Compare the tensors of a folder with their checksums."""
    manifest, tensors = checkpoint.read(folder, verify=False)
    assert all(checkpoint.checksum(tensors[name]) == told for name, told in manifest["tensors"]["checksums"].items())


def write_plainly(path: Path, content: bytes) -> None:
    """Write a file and wait until it is on the disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def work(folder: str, pipe: Any) -> None:
    """Load the folder, use the model, tell when that is done, and stay until told to go. Then tell the memory."""
    before = proportional()
    model = al.load_model(folder, device="cpu", verify=False)
    assert isinstance(model, al.AUR)
    touched = [float(t.sum()) for t in (*model.model.tensors().values(), *model.estimator.tensors().values())]
    pipe.send(len(touched))
    pipe.recv()
    pipe.send(proportional() - before)
    pipe.recv()


def proportional() -> int:
    """Bytes of memory of this process, where a page that several share counts in parts."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def memory_of(workers: int, folder: Path) -> float:
    """Mean bytes that each of several workers takes for the model, all at the same time."""
    context = get_context("spawn")
    ends = [context.Pipe() for _ in range(workers)]
    started = [context.Process(target=work, args=(str(folder), theirs)) for _, theirs in ends]
    for worker in started:
        worker.start()
    ours = [our for our, _ in ends]
    _ = [pipe.recv() for pipe in ours]  # all have loaded
    for pipe in ours:
        pipe.send("measure")
    found = [pipe.recv() for pipe in ours]
    for pipe, worker in zip(ours, started, strict=True):
        pipe.send("go")
        worker.join()
    return float(sum(found)) / workers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=200, help="size of the model")
    parser.add_argument("--workers", type=int, default=4, help="processes that load the folder")
    parser.add_argument("--repeats", type=int, default=5, help="number of runs; the fastest counts")
    parser.add_argument("--json", type=Path, help="append the figures to this file as one line of JSON")
    args = parser.parse_args()
    model = make(args.megabytes)
    with tempfile.TemporaryDirectory() as place:
        folder, plain = Path(place) / "model", Path(place) / "plain"
        model.save(folder)
        content = max(folder.iterdir(), key=lambda path: path.stat().st_size).read_bytes()
        save = seconds(lambda: model.save(folder), args.repeats)
        write = seconds(lambda: write_plainly(plain, content), args.repeats)
        load, bare = (
            seconds(partial(al.load_model, folder, "cpu", verified), args.repeats) for verified in (True, False)
        )
        check, read = seconds(lambda: verify(folder), args.repeats), seconds(plain.read_bytes, args.repeats)
        sha256 = seconds(lambda: hashlib.sha256(content).digest(), args.repeats)
        rows = [
            Row("save", save, write, "a plain file"),
            Row("load", load, bare, "verify=False"),
            Row("verify", check, read, "reading"),
        ]
        for name, run in HASHES.items():
            rows.append(Row(name, seconds(partial(run, content), args.repeats), sha256, "SHA-256"))
        size = sum(path.stat().st_size for path in folder.iterdir()) / MB
        for workers in sorted({1, args.workers}):
            each = memory_of(workers, folder) / MB
            rows.append(Row(f"memory, {workers} at once", each, size, "the folder", "MB"))
    data = model.fitted
    sizes = {"users": data.n_users, "items": data.n_items, "pairs": len(data), "dim": _DIM, "megabytes": round(size)}
    show("folders", rows, args.json, model=sizes)


if __name__ == "__main__":
    main()
