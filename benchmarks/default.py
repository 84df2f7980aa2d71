"""Seconds from the archive to a saved AUR in a fresh process, and what it costs that an AUR compares settings.

    python benchmarks/default.py [--dataset yelp2018 --data-root FOLDER] [--users 5000 --items 3000] [--json FILE]
        [--jobs fresh races]

fresh   MF-AUR and the default AUR on a dataset of the catalogue, in processes of their own. The first one may have no
        compiled kernels yet (cold), the next ones have them (warm). "ours" are the seconds from the archive to the saved
        model, and "process" is the wall time with the start of Python and the imports.
races   AURs that let settings race, each beside an AUR of the setting that won. Both choose lam, the discount and the
        prior on validation, and both refit. So the ratio is what the race costs. The default AUR compares two models as
        well. Its reference is the model that won, with its setting.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import Row, arguments, describe, open_data, show, timed

import aleator as al

RACES: dict[str, list[al.Model]] = {"MF-AUR": [al.MF()], "FISM-AUR": [al.FISM()], "default AUR": []}
FRESH = {"MF-AUR": "al.MF()", "default AUR": ""}  # what the AUR of a fresh process is given
_JOB = """
import sys, time, json
start = time.perf_counter()
import aleator as al
import torch
from aleator.data.opening import open_split
al.AUR, al.MF, al.FISM  # public names are imported when they are first used
loaded = time.perf_counter()
model = al.AUR(MODEL device=sys.argv[3]).fit(open_split(sys.argv[1], sys.argv[2] or None))
model.save(sys.argv[4])
print(json.dumps([loaded - start, time.perf_counter() - loaded]))
"""


def from_archive(name: str, args: Any, folder: Path) -> tuple[float, float, float]:
    """Seconds of a fresh process in all, of its imports, and from archive to model."""
    program = _JOB.replace("MODEL", f"{FRESH[name]}," if FRESH[name] else "")
    command = [sys.executable, "-c", program, args.dataset, str(args.data_root or ""), args.device, str(folder)]
    start = time.perf_counter()
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    wall = time.perf_counter() - start
    imports, job = json.loads(ran.stdout.splitlines()[-1])
    return wall, imports, job


def fresh(name: str, args: Any) -> list[Row]:
    """Seconds from archive to saved model in fresh processes: of the first, and the fastest of the next ones."""
    with tempfile.TemporaryDirectory() as folder:
        runs = [from_archive(name, args, Path(folder) / str(i)) for i in range(1 + args.repeats)]

    def row(which: str, wall: float, imports: float, job: float) -> Row:
        return Row(f"{name}, archive to model, {which}", job, more={"imports": imports, "process": wall})

    return [row("cold", *runs[0]), row("warm", *min(runs[1:], key=lambda run: run[2]))]


def alone(won: al.AUR, device: str) -> al.AUR:
    """An AUR of the model and the setting that won a race, with nothing left to compare."""
    setting: dict[str, Any] = {"residuals": won.setting.residuals, "unobserved": won.setting.unobserved}
    estimator = al.FactorEstimator(**dict(won.setting.options))
    return al.AUR(type(won.model)(), estimator=estimator, device=device, **setting)


def race(name: str, split: al.Split, device: str, repeats: int) -> Row:
    """Seconds of a fit with its race, and of a fit of what won."""
    raced = al.AUR(*copy.deepcopy(RACES[name]), device=device)
    seconds, _ = timed(lambda: raced.fit(split), repeats)
    reference, _ = timed(lambda: alone(raced, device).fit(split), repeats)
    more = {"compared": len(raced.race), "won": f"{type(raced.model).__name__}, {raced.setting}"}
    return Row(f"fit {name}", seconds, reference, against="the setting that won", more=more)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--jobs", nargs="+", choices=("fresh", "races"), default=["fresh", "races"])
    args = parser.parse_args()
    rows, split = list[Row](), open_data(args)
    if "fresh" in args.jobs and args.dataset != "simulated":
        rows += [row for name in FRESH for row in fresh(name, args)]
    if "races" in args.jobs:
        al.AUR(al.MF(), lam=0.5, device=args.device).fit(split)  # loads kernels
        rows += [race(name, split, args.device, args.repeats) for name in RACES]
    show("default", rows, args.json, dataset=describe(split, args.dataset))


if __name__ == "__main__":
    main()
