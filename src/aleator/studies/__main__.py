"""Measure studies on a machine without the command line's libraries: `python -m aleator.studies default --help`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from aleator.errors import AleatorError
from aleator.recipe import RECIPES
from aleator.studies.reproduce import reproduce

parser = argparse.ArgumentParser(prog="python -m aleator.studies", description=__doc__)
parser.add_argument("study", nargs="+", help="names of studies")
parser.add_argument("--dataset", action="append", default=[], help="a dataset; repeatable")
parser.add_argument("--method", action="append", default=[], help="only this method; repeatable")
parser.add_argument("--recipe", choices=tuple(RECIPES), help="by default all where the paper has figures")
parser.add_argument("--seeds", type=int, default=1, help="how many seeds")
parser.add_argument("--first-seed", type=int, default=0, help="the first seed")
parser.add_argument("--out", type=Path, default=Path("results"), help="folder of records")
parser.add_argument("--data-root", type=Path, help="folder with dataset archives or raw files")
parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
parser.add_argument("--quick", action="store_true", help="train briefly, to try things out")
parser.add_argument("--dry", action="store_true", help="say which cells have no record, and measure none")
parser.add_argument("--again", action="store_true", help="measure again what has a record")


def measure(words: Sequence[str] | None = None, say: Callable[[str], None] = print) -> list[str]:
    """Do what a command line says, by default that of this process. Returns the cells that failed, with the reason."""
    wanted = vars(parser.parse_args(words))
    names, datasets, methods = (wanted.pop(name) for name in ("study", "dataset", "method"))
    return reproduce(names, datasets, methods=methods, say=say, **wanted)


if __name__ == "__main__":
    try:
        failed = measure()
    except AleatorError as error:
        raise SystemExit(f"error: {error}") from None
    if failed:
        raise SystemExit("\n".join(["These could not be measured:", *failed]))
