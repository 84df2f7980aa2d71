"""Seconds until `import aleator` and the help of the command line are there, beside `import torch` alone.

    python benchmarks/start.py [--repeats 11] [--json FILE]

Each figure is the median of fresh processes, from the start of Python to the end of the process. The jobs take turns.
Their first round is not counted: it brings files into the cache of the system, and compiles what was never imported.

first use       `import aleator` and one public name that needs PyTorch
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

from common import Row, show

REFERENCE = "import torch"
PROGRAM = "from aleator_command import main; main()"
JOBS = {
    REFERENCE: [REFERENCE],
    "import aleator": ["import aleator"],
    "first use": ["import aleator; aleator.AUR"],
    "aleator --help": [PROGRAM, "--help"],
    "aleator fit --help": [PROGRAM, "fit", "--help"],
}


def seconds_of(words: list[str]) -> float:
    """Seconds of a fresh process that runs a program with its arguments."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", *words], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=11, help="processes of each job; the median counts")
    parser.add_argument("--json", type=Path, help="append the figures to this file as one line of JSON")
    args = parser.parse_args()
    rounds = [{job: seconds_of(words) for job, words in JOBS.items()} for _ in range(args.repeats + 1)][1:]
    medians = {job: statistics.median(each[job] for each in rounds) for job in JOBS}
    rows = [Row(job, median, medians[REFERENCE], REFERENCE) for job, median in medians.items() if job != REFERENCE]
    show("start", rows, args.json, processes=args.repeats)


if __name__ == "__main__":
    main()
