"""Seconds from archive to the saved default AUR, and what it costs that an AUR compares settings of its estimator.

    python benchmarks/default.py [--dataset yelp2018 --data-root FOLDER] [--users 5000 --items 3000] [--json FILE]

On a dataset of the catalogue, the default AUR first runs in fresh processes. The first one has no compiled kernels yet
("cold"), the next one has them ("warm"). Measured are the wall time from the start of Python until the model is on disk,
and within it the seconds from archive to model.

Then AURs that let settings race are fitted, each beside an AUR of the setting that won. Both choose lam, the discount
and the prior on validation, and both refit. So the ratio is what the race costs. The default AUR compares two models as
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
_JOB = """
import sys, time, json
start = time.perf_counter()
import aleator as al
from aleator.data.opening import open_split
loaded = time.perf_counter()
model = al.AUR(device=sys.argv[3]).fit(open_split(sys.argv[1], sys.argv[2] or None))
model.save(sys.argv[4])
print(json.dumps([loaded - start, time.perf_counter() - loaded]))
"""


def from_archive(args: Any, folder: Path) -> tuple[float, float, float]:
    """Seconds of a fresh process in all, of its imports, and from archive to model."""
    command = [sys.executable, "-c", _JOB, args.dataset, str(args.data_root or ""), args.device, str(folder)]
    start = time.perf_counter()
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    wall = time.perf_counter() - start
    imports, job = json.loads(ran.stdout.splitlines()[-1])
    return wall, imports, job


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
    args = arguments(__doc__).parse_args()
    rows, split = list[Row](), open_data(args)
    if args.dataset != "simulated":
        with tempfile.TemporaryDirectory() as folder:
            for name in ("cold", "warm"):
                wall, imports, job = from_archive(args, Path(folder) / "model")
                more = {"of it imports": imports, "archive to model": job}
                rows.append(Row(f"default AUR, fresh process, {name}", wall, more=more))
    al.AUR(al.MF(), lam=0.5, device=args.device).fit(split)  # loads kernels
    rows += [race(name, split, args.device, args.repeats) for name in RACES]
    show("default", rows, args.json, dataset=describe(split, args.dataset))


if __name__ == "__main__":
    main()
