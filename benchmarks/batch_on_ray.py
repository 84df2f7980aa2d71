"""A batch and a search on Ray with workers that are killed: each user and trial once, and the throughput of one process.

    python benchmarks/batch_on_ray.py [--users 1000000 --items 5000] [--k 50] [--kills 3] [--trials 12] [--json FILE]

It needs the extras ray and tune, and Linux, where it finds the workers. The world, the model and the commands are those
of `aleator bench batch`.

one process   `aleator recommend MODEL --users FILE --out FOLDER` in a fresh process, with a thread for each core
ray           the same with `--engine ray`, with a worker for each core; seconds are those of the command without imports
              and loading, and with the start of Ray
a worker      the largest resident set of a worker, and what of it no other process shares
killed        the batch on Ray while `--kills` workers are killed with SIGKILL, each at a random moment of its part
search        `aleator tune` on a part of the world, in one process and with one worker, which is killed in a random trial

The benchmark stops unless each user of the table has one list of each batch on Ray, in the order of the table, unless
each part equals that of the one process, and unless the killed search has the trials of the other one, each once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from common import MB, Row, arguments, show

import aleator as al
from batch import ALEATOR, check, make


def descendants(pid: int) -> Iterator[int]:
    """The processes that a process has started, and those that they have."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = status.read_text()
        except OSError:  # it has ended
            continue
        children.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(text.split()[0]))
    ahead = [pid]
    while ahead:
        found = children.get(ahead.pop(), [])
        yield from found
        ahead += found


def at_work(pid: int) -> list[int]:
    """The workers of Ray that are at a piece of the work of a process."""
    found = []
    for child in descendants(pid):
        try:
            title = Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            continue
        if title.startswith(b"ray::_run"):
            found.append(child)
    return found


def memory_of(pid: int) -> tuple[float, float]:
    """The resident set of a process, and what of it no other process shares, in MB. Nothing if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return 0.0, 0.0
    size = {line.split(":")[0]: int(line.split()[1]) * 1024 / MB for line in lines}
    return size["Rss"], size["Private_Clean"] + size["Private_Dirty"]


def watched(command: list[str]) -> tuple[dict[str, Any], list[float]]:
    """Run a batch on Ray. Returns what it printed, and the largest memory of a worker: all, and its own."""
    largest = [0.0, 0.0]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    while process.poll() is None:
        for worker in at_work(process.pid):
            largest = [max(pair) for pair in zip(largest, memory_of(worker), strict=True)]
        time.sleep(0.5)
    return told(process), largest


def between(out: Path) -> float:
    """Parts a second from the first part of a batch to its last: without what it takes to start."""
    moments = sorted(path.stat().st_mtime for path in out.glob("part-*"))
    return (len(moments) - 1) / max(moments[-1] - moments[0], 1e-9)


def told(process: subprocess.Popen[str]) -> dict[str, Any]:
    output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"a command ended with {process.returncode}")
    found: dict[str, Any] = json.loads(output)
    return found


def killed(command: list[str], out: Path, parts: int, kills: int, seconds_of_part: float) -> tuple[dict[str, Any], int]:
    """Run a batch on Ray, and kill a worker when random parts are finished, and a random moment later.

    Returns what it printed, and how many workers were killed.
    """
    rng, done = np.random.default_rng(0), 0
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for finished in np.sort(rng.choice(np.arange(1, max(parts - 2, 2)), min(kills, max(parts - 3, 1)), replace=False)):
        while process.poll() is None and len(list(out.glob("part-*"))) < finished:
            time.sleep(0.005)
        time.sleep(rng.uniform(0, seconds_of_part))
        done += kill_a_worker(process)
    return told(process), done


def kill_a_worker(process: subprocess.Popen[str]) -> int:
    """Kill a worker as soon as one is at work. Returns how many were killed: none if the process ends before."""
    while process.poll() is None:
        for worker in at_work(process.pid):
            try:
                os.kill(worker, signal.SIGKILL)
            except ProcessLookupError:
                continue
            return 1
        time.sleep(0.005)
    return 0


def search(folder: Path, data: Path, trials: int) -> dict[str, Any]:
    """Seconds of a search in one process and with one worker that is killed once. Stops unless they are the same."""
    words = [*ALEATOR, "tune", str(data), "--no-uncertainty", "--trials", str(trials), "--json", "--quiet"]

    def command(name: str, *more: str) -> list[str]:
        return [*words, "--study", str(folder / f"{name}.db"), *more]

    def rows(printed: dict[str, Any]) -> list[Any]:
        trial = sorted(printed["trials"], key=lambda row: row["trial"])
        return [(row["trial"], row["state"], row["options"], row.get("recall@20")) for row in trial]

    start = time.perf_counter()
    one = json.loads(subprocess.run(command("one"), stdout=subprocess.PIPE, text=True, check=True).stdout)
    middle = time.perf_counter()
    process = subprocess.Popen(command("ray", "--engine", "ray", "--workers", "1"), stdout=subprocess.PIPE, text=True)
    while process.poll() is None and not at_work(process.pid):
        time.sleep(0.01)
    time.sleep(np.random.default_rng(1).uniform(0, (middle - start) / 2))
    lost = kill_a_worker(process)
    ray = told(process)
    if [row[:3] for row in rows(one)] != [row[:3] for row in rows(ray)] or len(rows(ray)) != trials:
        raise SystemExit(f"the killed search has other trials:\n{rows(ray)}\nthan that of one process:\n{rows(one)}")
    figures = [abs(a[3] - b[3]) for a, b in zip(rows(one), rows(ray), strict=True)]
    found = {"one": middle - start, "ray": time.perf_counter() - middle}
    return {**found, "killed": lost, "trials": trials, "largest difference": max(figures)}


def main() -> None:
    parser = arguments(__doc__, users=1_000_000, items=5_000)
    parser.set_defaults(dim=32, per_user=50.0, device="cpu", few=1)
    parser.add_argument("--estimator-dim", type=int, default=64, help="dimensions of the estimator")
    parser.add_argument("--k", type=int, default=50)
    parser.add_argument("--per-part", type=int, default=10_000, help="users in a part")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--trials", type=int, default=12, help="of the search")
    parser.add_argument("--search-users", type=int, default=5_000, help="in the world of the search")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        world = make(folder, args)
        words = [*ALEATOR, "recommend", str(folder / "model"), "--k", str(args.k), "--json", "--quiet"]
        table = folder / "all.parquet"

        def command(out: str, *more: str) -> list[str]:
            files = ["--users", str(table), "--out", str(folder / out), "--per-part", str(args.per_part)]
            return [*words, *files, "--device", "cpu", *more]

        one = json.loads(subprocess.run(command("one"), stdout=subprocess.PIPE, text=True, check=True).stdout)
        ray, (whole, own) = watched(command("ray", "--engine", "ray"))
        again, kills = killed(
            command("killed", "--engine", "ray"),
            folder / "killed",
            ray["parts"],
            args.kills,
            ray["seconds"] / ray["parts"],
        )
        checked = check(table, folder / "ray", folder / "one", args.k)
        checked |= {f"{what}, killed": n for what, n in check(table, folder / "killed", folder / "one", args.k).items()}
        small = al.simulate(n_users=args.search_users, n_items=1_000, per_user=args.per_user, seed=0).interactions
        pairs = {"user": small.users.decode(small.user), "item": small.items.decode(small.item)}
        pl.DataFrame(pairs).write_parquet(folder / "pairs.parquet")
        searched = search(folder, folder / "pairs.parquet", args.trials)

        going = {out: between(folder / out) * args.per_part for out in ("one", "ray", "killed")}

    def of(job: str, out: str, found: dict[str, Any]) -> Row:
        more = {"users/s": args.users / found["seconds"], "users/s after the first part": going[out]}
        return Row(f"{job}, {args.users:,} users", found["seconds"], one["seconds"], "one process", more=more)

    rows = [
        of("one process", "one", one),
        of("ray", "ray", ray),
        of(f"ray, {kills} workers killed", "killed", again),
        Row("a worker, resident", whole, unit="MB"),
        Row("a worker, its own", own, unit="MB"),
        Row(f"search, one worker, {searched['killed']} killed", searched["ray"], searched["one"], "one process"),
    ]
    output = {"rows": ray["rows"], "parts": ray["parts"]}
    show("batch_on_ray", rows, args.json, data=world, output=output, checked=checked, search=searched)


if __name__ == "__main__":
    main()
