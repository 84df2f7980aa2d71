"""Kill a fit with SIGKILL again and again, and compare what it ends with to an undisturbed one.

    python tools/attack_fit.py adressa --kills 50

The fit is `aleator fit DATASET` in a process of its own. A kill falls a random time after a random change of the files
that the fit writes: its checkpoints, and at the end the model. So many are in the middle of a write. The same command
then goes on. After the last kill it runs to its end. The figures are printed as JSON. The exit code is 1 if any file
differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = """
import sys
from aleator.training import journal
journal.EVERY, journal.SHARE = float(sys.argv.pop(1)), float(sys.argv.pop(1))
from aleator.cli import main
main()
"""
LONGEST_WAIT = 1.0  # seconds between a change of the files and the kill


def names(folder: Path, model: Path) -> set[str]:
    """The files that a fit writes: those that it keeps, and those of the model."""
    found = set()
    for place in (Path(f"{model}.fit"), *folder.glob(f".{model.name}.*"), model):
        try:
            found |= {str(path) for path in place.iterdir()}
        except OSError:  # it is not there, or no longer
            continue
    return found


class Fit:
    """A process that fits."""

    def __init__(self, options: argparse.Namespace, model: Path) -> None:
        self.model = model
        words = ["fit", options.dataset, "--model", options.model, "--seed", "0", "--out", str(model), "--quiet"]
        words += [word for setting in options.set for word in ("--set", setting)]
        if options.max_epochs:
            words += ["--max-epochs", str(options.max_epochs)]
        python = [sys.executable, "-c", PROGRAM, str(options.every), str(options.share)]
        self.process = subprocess.Popen([*python, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def watch(self, changes: int | None) -> int:
        """Wait until the files have changed so many times, or to the end. Returns how many changes there were."""
        seen, count = names(self.model.parent, self.model), 0
        while self.process.poll() is None and (changes is None or count < changes):
            now = names(self.model.parent, self.model)
            count, seen = count + len(now ^ seen), now
            time.sleep(0.002)
        return count

    def end(self) -> str:
        """Wait for the end. Returns what it wrote on stderr."""
        text = self.process.communicate()[1]
        if self.process.returncode not in (0, -signal.SIGKILL):
            raise SystemExit(f"the fit failed with {self.process.returncode}:\n{text}")
        return text


def digests(model: Path) -> dict[str, str]:
    """The hash of each file of a model."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(model.iterdir())}


def attack(options: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Fit once without kills and once with them. Returns the figures."""
    draw, start = random.Random(options.seed), time.perf_counter()
    whole = Fit(options, folder / "whole")
    changes = whole.watch(None)
    whole.end()
    undisturbed, start = time.perf_counter() - start, time.perf_counter()
    killed, resumed, damaged, ended_early = 0, 0, 0, 0
    model = folder / "killed"
    while True:
        fit = Fit(options, model)
        if killed < options.kills:
            fit.watch(draw.randint(1, max(2 * changes // options.kills, 1)))
            time.sleep(draw.uniform(0, LONGEST_WAIT) ** 2)
            fit.process.kill()
        text = fit.end()
        resumed += "goes on from" in text
        damaged += text.count("is damaged")
        if fit.process.returncode == 0:
            if killed == options.kills:
                break
            ended_early += 1
        else:
            killed += 1
            print(f"kill {killed}", file=sys.stderr, flush=True)
    left = [path.name for path in folder.iterdir() if path.name not in ("whole", "killed")]
    return {
        "kills": killed,
        "resumed": resumed,
        "ended_before_the_last_kill": ended_early,
        "damaged_checkpoints": damaged,
        "changes_of_files": changes,
        "seconds_undisturbed": round(undisturbed, 1),
        "seconds_killed": round(time.perf_counter() - start, 1),
        "left_over": left,
        "identical": digests(model) == digests(folder / "whole"),
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
