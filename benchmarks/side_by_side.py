"""Seconds of `aleator fit` alone, and of several such commands at once on the same cores.

    python benchmarks/side_by_side.py [--dataset ml-100k --data-root FOLDER] [--at-once 2 4] [--json FILE]

Each command is a fresh process with no variable for threads set. The seconds are those that the command prints, of the
slowest one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from common import Row, arguments, describe, open_data, show

import aleator as al

THREADS = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "MKL_NUM_THREADS")
FIT = [sys.executable, "-c", "from aleator.cli import main; main()", "fit"]


def slowest(n: int, dataset: str, folder: Path, options: list[str]) -> float:
    """Start n fits at once. Returns the seconds of the slowest one."""
    environment = {name: value for name, value in os.environ.items() if name not in THREADS}
    commands = [[*FIT, dataset, "--out", str(folder / f"{n}-{i}"), "--json", *options] for i in range(n)]
    started = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for command in commands]
    printed = [process.communicate()[0] for process in started]
    return max(float(json.loads(text)["seconds"]) for text in printed)


def main() -> None:
    parser = arguments(__doc__, users=2000, items=1500)
    parser.add_argument("--at-once", type=int, nargs="+", default=[2, 4], help="how many fits run at once")
    parser.add_argument("--model", default="mf")
    parser.add_argument("--max-epochs", type=int, help="most epochs of every part")
    args = parser.parse_args()
    split = open_data(args)
    with tempfile.TemporaryDirectory() as name:
        folder, dataset = Path(name), args.dataset
        if dataset == "simulated":
            dataset = str(folder / "ratings.csv")
            al.write(split.everything, dataset)
        options = ["--model", args.model, "--device", args.device]
        options += [] if args.data_root is None else ["--data-root", str(args.data_root)]
        options += [] if args.max_epochs is None else ["--max-epochs", str(args.max_epochs)]
        alone = min(slowest(1, dataset, folder, options) for _ in range(args.repeats))
        rows = [Row(f"{args.model}-AUR alone", alone)]
        rows += [Row(f"{n} at once", slowest(n, dataset, folder, options), alone, "one alone") for n in args.at_once]
    show("side_by_side", rows, args.json, dataset=describe(split, args.dataset))


if __name__ == "__main__":
    main()
