"""Run studies: each dataset, recipe and seed in turn, all studies on the same fitted methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from aleator.data import catalog
from aleator.errors import AleatorError, require, unknown_name
from aleator.recommender import Recipe, as_split
from aleator.settings import open_split
from aleator.studies.bench import Bench
from aleator.studies.published import published
from aleator.studies.study import Study, run
from aleator.studies.worlds import WORLDS, open_world

# a study is a module with a STUDY; those of one name share a file of records
MODULES = {
    "main": ("main",),
    "debias": ("debias",),
    "variants": ("variants",),
    "fairness": ("fairness",),
    "alpha": ("alpha",),
    "calibration": ("calibration",),
    "worst_case": ("worst_case",),
    "time": ("timing",),
    "correlation": ("correlation",),
    "case": ("case",),
    "theorem": ("theorem",),
    "beyond": ("strong", "corrections", "mislabelled", "front", "drift"),
}
DATASETS = ("yelp2018", "amazon-book", "adressa", "ml-10m", "amazon-book-kgat", "ml-100k", "coat", *WORLDS)


def studies(*names: str) -> list[Study]:
    """The studies of these names; all of them for "all"."""
    chosen = list(MODULES) if "all" in names else list(names)
    for name in chosen:
        if name not in MODULES:
            raise unknown_name("study", name, [*MODULES, "all"])
    return [import_module(f"aleator.studies.{module}").STUDY for name in chosen for module in MODULES[name]]


def reproduce(
    names: Sequence[str],
    datasets: Sequence[str] = (),
    *,
    recipe: Recipe | None = None,
    seeds: int = 1,
    out: Path = Path("results"),
    quick: bool = False,
    again: bool = False,
    device: str = "auto",
    data_root: Path | None = None,
    say: Callable[[str], None] = print,
) -> list[str]:
    """Measure what is missing in `out`; the cells that failed, with the reason.

    Without datasets all that are at hand; without a recipe both where the paper has figures for the dataset, else ours.
    """
    wanted = studies(*names)
    require(seeds >= 1, f"seeds is {seeds}", "give at least 1")
    found = {*catalog.at_hand(data_root), *WORLDS}
    failed = []
    for dataset in datasets or [name for name in DATASETS if name in found]:
        split = None if dataset in WORLDS else open_split(dataset, data_root)
        name = Path(dataset).stem
        both: list[Recipe] = ["paper", "ours"] if published("main", name) else ["ours"]
        for chosen in [recipe] if recipe else both:
            for seed in range(seeds):
                world = open_world(dataset, seed, quick=quick) if split is None else None
                data = split or as_split(world.interactions)  # type: ignore[union-attr]
                bench = Bench(name, data, chosen, seed, device, quick, world)
                for study in wanted:
                    if seed and not study.seeds:
                        continue
                    try:
                        run(study, bench, out, again, say)
                    except AleatorError as error:
                        failed.append(f"{study.name} {study.part} {name} {chosen} seed {seed}: {error}")
                        say(f"failed: {failed[-1]}")
    return failed
