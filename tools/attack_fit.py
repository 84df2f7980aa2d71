"""Kill a fit with SIGKILL again and again, and compare what it ends with to an undisturbed one.

    python tools/attack_fit.py adressa --kills 50

The fit is `aleator fit DATASET` in a process of its own, a fork of one that has the imports behind it. A kill falls
after a random number of changes of the files that the fit writes (its checkpoints, and at the end the model), which may
be none, and then a random part of a random pause between two changes of the undisturbed fit. So some kills are in the
middle of a write, and others in the middle of what nothing is written of, such as the reading of the data. The same
command then goes on. After the last kill it runs to its end. The figures are printed as JSON. The exit code is 1 if any
file differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

PROGRAM = """
import os, sys
import torch
from aleator.cli import main
from aleator.training import journal
torch.set_num_threads(1)  # a fork must not come after OpenMP has made threads
journal.EVERY, journal.SHARE = float(sys.argv.pop(1)), float(sys.argv.pop(1))
while sys.stdin.readline():
    child = os.fork()
    if child == 0:
        sys.stdout = open(os.devnull, "w")
        main()
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""


def names(folder: Path, model: Path) -> set[str]:
    """The files that a fit writes: those that it keeps, and those of the model."""
    found = set()
    for place in (Path(f"{model}.fit"), *folder.glob(f".{model.name}.*"), model):
        try:
            found |= {str(path) for path in place.iterdir()}
        except OSError:  # it is not there, or no longer
            continue
    return found


class Fits:
    """Fits in processes of their own, one after the other."""

    def __init__(self, options: argparse.Namespace, model: Path) -> None:
        self.model, self.errors = model, model.with_suffix(".err")
        words = ["fit", options.dataset, "--model", options.model, "--seed", "0", "--out", str(model), "--quiet"]
        words += [word for setting in options.set for word in ("--set", setting)]
        if options.max_epochs:
            words += ["--max-epochs", str(options.max_epochs)]
        python = [sys.executable, "-c", PROGRAM, str(options.every), str(options.share)]
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [*python, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )

    def start(self) -> int:
        """Start a fit. Returns its process."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self._line())

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def watch(self, child: int, changes: int | None) -> list[float]:
        """Wait until the files have changed so many times, or to the end. Returns the pauses before the changes."""
        seen, pauses, last = names(self.model.parent, self.model), list[float](), time.perf_counter()
        while alive(child) and (changes is None or len(pauses) < changes):
            now = names(self.model.parent, self.model)
            for _ in now ^ seen:
                pauses.append(time.perf_counter() - last)
                last = time.perf_counter()
            seen = now
            time.sleep(0.005)
        return pauses

    def end(self) -> bool:
        """Wait for the end of the fit. Returns whether it was killed."""
        status = int(self._line())
        if status not in (0, signal.SIGKILL):
            raise SystemExit(f"the fit failed with status {status}:\n{self.errors.read_text()}")
        return status != 0


def alive(child: int) -> bool:
    """Whether a process has not ended."""
    try:
        os.kill(child, 0)
    except ProcessLookupError:
        return False
    return True


def digests(model: Path) -> dict[str, str]:
    """The hash of each file of a model."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(model.iterdir())}


def attack(options: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Fit once without kills and once with them. Returns the figures."""
    draw, start = random.Random(options.seed), time.perf_counter()
    fits = Fits(options, folder / "whole")
    pauses = fits.watch(fits.start(), None)
    fits.end()
    print(f"undisturbed: {time.perf_counter() - start:.0f} s, {len(pauses)} changes", file=sys.stderr, flush=True)
    undisturbed, start = time.perf_counter() - start, time.perf_counter()
    killed, ended_early = 0, 0
    fits = Fits(options, folder / "killed")
    while killed < options.kills:
        child = fits.start()
        fits.watch(child, draw.randint(0, max(2 * len(pauses) // options.kills, 1)))
        time.sleep(draw.uniform(0, draw.choice(pauses)))
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        if fits.end():
            killed += 1
            print(f"kill {killed}", file=sys.stderr, flush=True)
        else:
            ended_early += 1
    fits.start()
    fits.end()
    told = fits.errors.read_text()
    left = [path.name for path in folder.iterdir() if path.stem not in ("whole", "killed") or path.suffix == ".fit"]
    return {
        "kills": killed,
        "resumed": told.count("goes on from"),
        "ended_before_the_last_kill": ended_early,
        "damaged_checkpoints": told.count("is damaged"),
        "changes_of_files": len(pauses),
        "longest_pause": round(max(pauses), 1),
        "seconds_undisturbed": round(undisturbed, 1),
        "seconds_killed": round(time.perf_counter() - start, 1),
        "left_over": left,
        "identical": digests(folder / "killed") == digests(folder / "whole"),
    }


def main() -> None:
    """Attack as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--model", default="mf")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--max-epochs", type=int)
    parser.add_argument("--every", type=float, default=1.0, help="Seconds between two checkpoints.")
    parser.add_argument("--share", type=float, default=0.5, help="Largest share of the time for checkpoints.")
    parser.add_argument("--seed", type=int, default=0, help="Seed of the kills.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = attack(options, Path(folder))
    print(json.dumps(found, indent=1))
    sys.exit(not found["identical"])


if __name__ == "__main__":
    main()
