"""Print the commands that make the records of results/, one piece a line: the whole of `aleator reproduce all`.

    python tools/pieces.py --out mine | xargs -P 12 -I{} sh -c "{}"

A piece is some studies on one dataset, one recipe and one seed, with methods that share a fit. Pieces do not wait for
each other, and cells that have a record are passed over. So any number may run at a time, and a run that was cut off goes
on where it stopped. The first lines are the pieces that take longest. `--only WORD` prints those that contain the word,
and `--missing` those that have a cell without a record. It opens the datasets for that.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

FLOORS = "Random Popularity"
FITTED = "main variants calibration worst_case correlation"  # studies of the paper's three models, which share fits
MODELS = {  # methods that are measured on one fit of a model
    "MF": ("MF MF-AUR MF-AUR-M UE " + FLOORS, "MF-AUR-J"),
    "LGCN": ("LGCN LGCN-AUR LGCN-AUR-M", "LGCN-AUR-J"),
    "VAE": ("VAE VAE-AUR VAE-AUR-M", "VAE-AUR-J"),
}
RIVALS = ("MF MF-AUR IPS ExpoMF PMF " + FLOORS, "MACR", "PopBias")  # against popularity bias; the last two take long
SHIFTED = ("MF MF-AUR IPS FISM AUR " + FLOORS, "MACR", "PopBias")
STRONG = "EASE EASE-AUR ItemKNN ItemKNN-AUR GraphFilter GraphFilter-AUR FISM FISM-AUR AUR " + FLOORS
PAPER = ("MF MF-AUR " + FLOORS, "LGCN LGCN-AUR", "VAE VAE-AUR")
LARGE = ("yelp2018", "ml-10m", "amazon-book-kgat", "adressa")
ALL = ("",)  # every method, in one piece
WORLDS = ("world-mild", "world-middle", "world-strong")


@dataclass(frozen=True)
class Pieces:
    """Studies on datasets, one piece for each seed and each group of methods."""

    studies: str
    datasets: Sequence[str]
    groups: Sequence[str] = ALL
    seeds: int = 3
    recipe: str = "ours"

    def lines(self) -> Iterator[str]:
        for dataset in self.datasets:
            for seed in range(self.seeds):
                for group in self.groups:
                    methods = "".join(f" --method {name}" for name in group.split())
                    about = f"--dataset {dataset}{methods} --recipe {self.recipe} --first-seed {seed}"
                    yield f"python -m aleator.studies {self.studies} {about}"


PLAN = (
    Pieces("main", ("yelp2018",), PAPER[:1], seeds=1, recipe="paper"),
    Pieces("main", ("adressa",), PAPER, recipe="paper"),
    Pieces(FITTED, ("yelp2018",), [group for both in MODELS.values() for group in both]),
    Pieces("default needs_model", LARGE),
    Pieces("popularity_shift", ("yelp2018", "ml-10m"), SHIFTED),
    Pieces("debias", ("yelp2018", "adressa"), RIVALS),
    Pieces("leaderboard", ("yelp2018",)),
    Pieces("alpha", ("yelp2018", "adressa")),
    Pieces("fairness", ("yelp2018",), ("MF MF-AUR " + FLOORS, "MF-BPR"), seeds=1),
    Pieces("confidence", ("yelp2018",)),
    Pieces("update", ("yelp2018", "adressa")),
    Pieces("strong", LARGE, (STRONG,)),
    Pieces("corrections", ("yelp2018", "adressa")),
    Pieces(FITTED, ("adressa",), [group for both in MODELS.values() for group in both]),
    Pieces("newcomers reliability", ("yelp2018",)),
    Pieces("case theorem", ("yelp2018",), seeds=1),
    Pieces("main", ("ml-10m", "amazon-book-kgat")),
    Pieces("main", ("yelp2018", "adressa"), PAPER, recipe="test"),
    Pieces(FITTED, ("ml-100k",), [group for both in MODELS.values() for group in both], seeds=5),
    Pieces("debias strong drift corrections alpha", ("ml-100k",), seeds=5),
    Pieces("default needs_model", ("ml-100k",), seeds=5),
    Pieces("newcomers reliability confidence update similar", ("ml-100k",)),
    Pieces("fairness front case theorem", ("ml-100k",), seeds=1),
    Pieces("mislabelled", WORLDS, seeds=5),
    Pieces("default", WORLDS),
    Pieces("main mislabelled", ("coat",), seeds=5),
    Pieces("front", ("yelp2018",), ("MF MF-AUR " + FLOORS,), seeds=1),
    Pieces("grafts", ("yelp2018", "ml-10m"), seeds=1),
    Pieces("time", ("yelp2018",), seeds=1),  # seconds of an epoch: run it when nothing else runs
)


def lines(plan: Sequence[Pieces] = PLAN) -> list[str]:
    """The command of each piece."""
    return [line for pieces in plan for line in pieces.lines()]


def is_made(line: str) -> bool:
    """Whether all cells of a piece have a record."""
    from aleator.errors import AleatorError
    from aleator.studies.__main__ import measure

    lacking: list[str] = []
    try:
        measure([*shlex.split(line)[3:], "--dry"], lacking.append)
    except AleatorError as error:
        raise SystemExit(f"--missing cannot tell what this piece lacks: {line}\nerror: {error}") from None
    return not lacking


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", help="folder of records; by default the `results` of the working directory")
    parser.add_argument("--only", action="append", default=[], help="print the pieces that contain this; repeatable")
    parser.add_argument("--missing", action="store_true", help="leave out the pieces whose cells all have records")
    wanted = parser.parse_args()
    for line in lines():
        whole = line + (f" --out {wanted.out}" if wanted.out else "")
        if all(word in line for word in wanted.only) and not (wanted.missing and is_made(whole)):
            print(whole, flush=True)
