"""A batch of a million users: seconds and peak memory, and the same killed at random moments and gone on with.

    python benchmarks/batch.py [--users 1000000 --items 5000] [--few 100000] [--k 50] [--kills 6] [--json FILE]

An AUR on MF is fitted on a simulated world and saved. Each batch is `aleator recommend MODEL --users FILE --out FOLDER`
in a fresh process, with a table of users in parquet that has a column of its own.

in memory     `recommend` for the first `--few` users in a fresh process, in one frame: the reference of the next line
few, all      the batch of these users, and of all; seconds are those of the command without imports and loading
peak memory   the largest resident set of these processes, against a process that loads the model and serves one user
killed        the batch of all users, killed with SIGKILL `--kills` times, at random moments, and run to its end; seconds
              are those of all processes together, with imports and loading, against one process that was not killed

The benchmark stops unless the killed batch names each user of the table in as many rows as asked for, in the order of the
table, and unless each of its parts equals that of the undisturbed one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from common import Peak, Row, arguments, peak_memory, show, timed

import aleator as al

ALEATOR = [sys.executable, "-c", "from aleator.cli import main; main()"]
SIGKILL = -9


def make(folder: Path, args: Any) -> dict[str, Any]:
    """A model with one setting, fitted for one epoch, and two tables of its users. Returns what the world is."""
    data = al.simulate(n_users=args.users, n_items=args.items, per_user=args.per_user, seed=0).interactions
    model = al.MF(dim=args.dim, l2=0.01, iterations=3)
    estimator = al.FactorEstimator(dim=args.estimator_dim, init=0.01, max_epochs=1)
    one: dict[str, Any] = {
        "residuals": "in-sample",
        "unobserved": "constant",
        "lam": 0.5,
        "discount": 0.0,
        "prior": 0.0,
    }
    al.AUR(model, estimator=estimator, refit=False, device=args.device, **one).fit(data).save(folder / "model")
    rng = np.random.default_rng(0)
    users = pl.DataFrame({"user_id": rng.permutation(args.users), "segment": rng.integers(0, 9, args.users)})
    users.write_parquet(folder / "all.parquet")
    users[: args.few].write_parquet(folder / "few.parquet")
    return {"users": data.n_users, "items": data.n_items, "pairs": len(data)}


def in_memory(model: str, users: str, k: int, device: str) -> float:
    """Seconds of `recommend` for all users of a table."""
    made, ids = al.load_model(model, device), pl.read_parquet(users)["user_id"].to_list()
    return timed(lambda: made.recommend(ids, k=k))[0]


def killed(command: list[str], out: Path, parts: int, kills: int, seconds_of_part: float) -> int:
    """Run a batch to its end, and kill it on the way: when random parts are finished, and a random moment later.

    Returns how many processes were killed before their end.
    """
    rng, done = np.random.default_rng(0), 0
    for finished in np.sort(rng.choice(parts - 1, kills, replace=False)):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while process.poll() is None and len(list(out.glob("part-*"))) < finished:
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 2 * seconds_of_part))
        process.kill()
        done += process.wait() == SIGKILL
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return done


def check(users: Path, disturbed: Path, undisturbed: Path, k: int) -> dict[str, int]:
    """Stop the benchmark unless each user has k rows, once, and all parts are those of the undisturbed batch."""
    names = sorted(path.name for path in undisturbed.glob("part-*"))
    if names != sorted(path.name for path in disturbed.glob("part-*")):
        raise SystemExit("the killed batch has other parts than the undisturbed one")
    listed = []
    for name in names:
        part = pl.read_parquet(disturbed / name)
        if not part.equals(pl.read_parquet(undisturbed / name)):
            raise SystemExit(f"{name} of the killed batch differs from that of the undisturbed one")
        listed.append(part["user_id"])
    ids = pl.read_parquet(users)["user_id"].to_numpy()
    if not np.array_equal(pl.concat(listed).to_numpy(), np.repeat(ids, k)):
        raise SystemExit("not every user has one list of the killed batch")
    return {"equal parts": len(names), "users with one list": len(ids)}


def main() -> None:
    parser = arguments(__doc__, users=1_000_000, items=5_000)
    parser.set_defaults(dim=32, per_user=50.0)
    parser.add_argument("--few", type=int, default=100_000, help="users of the smaller batch")
    parser.add_argument("--estimator-dim", type=int, default=64, help="dimensions of the estimator")
    parser.add_argument("--k", type=int, default=50)
    parser.add_argument("--per-part", type=int, default=10_000, help="users in a part")
    parser.add_argument("--kills", type=int, default=6)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        world = make(folder, args)
        words = [*ALEATOR, "recommend", str(folder / "model"), "--k", str(args.k), "--device", args.device, "--json"]

        def command(table: str, out: str) -> list[str]:
            files = ["--users", str(folder / f"{table}.parquet"), "--out", str(folder / out)]
            return [*words, *files, "--per-part", str(args.per_part), "--quiet"]

        one = peak_memory([*words, "--users", "0,"])
        table = str(folder / "few.parquet")
        memory: Peak = peak_memory(in_memory, model=str(folder / "model"), users=table, k=args.k, device=args.device)
        few, (whole, every) = peak_memory(command("few", "few")), timed(lambda: peak_memory(command("all", "all")))
        seconds = {"few": json.loads(few.result)["seconds"], "all": json.loads(every.result)["seconds"]}
        parts = json.loads(every.result)["parts"]
        again = command("all", "killed")
        lost, kills = timed(lambda: killed(again, folder / "killed", parts, args.kills, seconds["all"] / parts))
        checked = check(folder / "all.parquet", folder / "killed", folder / "all", args.k)
        size = sum(path.stat().st_size for path in (folder / "all").glob("part-*"))

    def of(job: str, n: int, ours: float, reference: float | None = None, against: str = "") -> Row:
        return Row(f"{job}, {n:,} users", ours, reference, against, more={"users/s": n / ours})

    rows = [
        of("in memory", args.few, memory.result),
        of("batch", args.few, seconds["few"], memory.result, "in memory"),
        of("batch", args.users, seconds["all"]),
        Row(f"batch, {args.users:,} users, killed {kills} times", lost, whole, "not killed"),
        Row("peak memory, one user", one.megabytes, unit="MB"),
        Row(f"peak memory, in memory, {args.few:,} users", memory.megabytes, one.megabytes, "one user", "MB"),
        Row(f"peak memory, batch, {args.few:,} users", few.megabytes, one.megabytes, "one user", "MB"),
        Row(f"peak memory, batch, {args.users:,} users", every.megabytes, few.megabytes, f"{args.few:,} users", "MB"),
    ]
    output = {"rows": args.users * args.k, "parts": parts, "bytes": size}
    show("batch", rows, args.json, data=world, output=output, checked=checked)


if __name__ == "__main__":
    main()
