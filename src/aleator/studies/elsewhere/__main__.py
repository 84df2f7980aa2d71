"""Fit models of other libraries for the study of grafts, and hand them over as files to a machine without the libraries.

Name the folder in $ALEATOR_FITTED where the study runs: `python -m aleator.studies grafts --dataset yelp2018`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from aleator.data.opening import open_split
from aleator.studies.beyond.grafts import cell
from aleator.studies.elsewhere import LIBRARIES
from aleator.studies.methods import settings_of, wanted
from aleator.studies.reproduce import open_bench

parser = argparse.ArgumentParser(prog="python -m aleator.studies.elsewhere", description=__doc__)
parser.add_argument("name", nargs="+", choices=tuple(LIBRARIES), help="names of models")
parser.add_argument("--dataset", required=True, help="a dataset, as studies take it")
parser.add_argument("--seed", type=int, default=0, help="the seed")
parser.add_argument("--out", type=Path, required=True, help="folder of the files")
parser.add_argument("--data-root", type=Path, help="folder with dataset archives or raw files")
parser.add_argument("--quick", action="store_true", help="with the options of a quick study")


def hand_over(
    name: str, dataset: str, seed: int, out: Path, data_root: Path | None = None, quick: bool = False
) -> Path:
    """Fit a model as the study does under recipe ours, and write its file. Returns the path."""
    split = open_split(dataset, data_root)
    bench = open_bench(dataset, split, recipe="ours", seed=seed, device="cpu", quick=quick)
    method = cell(name)
    settings = settings_of(method, bench.dataset, bench.recipe, quick=quick)
    return wanted(method, bench.split_for(method), settings, recipe=bench.recipe, seed=seed).hand_over(out)


if __name__ == "__main__":
    given = vars(parser.parse_args())
    for name in given.pop("name"):
        start = time.perf_counter()
        print(f"{name}: {hand_over(name, **given)} ({time.perf_counter() - start:.0f} s)", flush=True)
