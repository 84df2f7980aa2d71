"""Run studies: each dataset, recipe and seed in turn, all studies on the same fitted methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile

from aleator.data import catalog
from aleator.data.opening import open_split
from aleator.errors import AleatorError, require, unknown_name
from aleator.recommender import Recipe, as_split
from aleator.studies.published import published
from aleator.studies.study import Study, run
from aleator.studies.workbench import Bench
from aleator.studies.worlds import WORLDS, open_world

# a study is a module with a STUDY; the parts of `beyond` share a file of records
PAPER = {
    "main": "main",
    "debias": "debias",
    "variants": "variants",
    "fairness": "fairness",
    "alpha": "alpha",
    "calibration": "calibration",
    "worst_case": "worst_case",
    "time": "timing",
    "correlation": "correlation",
    "case": "case",
    "theorem": "theorem",
}
BEYOND = ("strong", "corrections", "mislabelled", "front", "drift")
NAMES = (*PAPER, "beyond")
DATASETS = ("yelp2018", "amazon-book", "adressa", "ml-10m", "amazon-book-kgat", "ml-100k", "coat", *WORLDS)


def studies(*names: str) -> list[Study]:
    """The studies of these names, of which a part of `beyond` is one too; all of them for "all"."""
    found: dict[str, None] = {}
    for name in (*NAMES, *names) if "all" in names else names:
        if name == "all":
            continue
        if name in PAPER:
            found[f"paper.{PAPER[name]}"] = None
        elif name == "beyond" or name in BEYOND:
            found |= dict.fromkeys(f"beyond.{part}" for part in BEYOND if name in ("beyond", part))
        else:
            raise unknown_name("study", name, [*NAMES, *BEYOND, "all"])
    return [import_module(f"aleator.studies.{module}").STUDY for module in found]


def reproduce(
    names: Sequence[str],
    datasets: Sequence[str] = (),
    *,
    methods: Sequence[str] = (),
    recipe: Recipe | None = None,
    seeds: int = 1,
    first_seed: int = 0,
    out: Path = Path("results"),
    quick: bool = False,
    again: bool = False,
    device: str = "auto",
    data_root: Path | None = None,
    say: Callable[[str], None] = print,
) -> list[str]:
    """Measure what is missing in `out`; the cells that failed, with the reason.

    Without methods all of each study; without datasets all that are at hand; without a recipe both where the paper has
    figures for the dataset, else ours.
    """
    wanted = studies(*names)
    require(seeds >= 1, f"seeds is {seeds}", "give at least 1")
    require(first_seed >= 0, f"first_seed is {first_seed}", "give at least 0")
    probe(out)
    found = {*catalog.at_hand(data_root), *WORLDS}
    chosen = list(datasets) or [name for name in DATASETS if name in found]
    if not datasets:
        missing = ", ".join(name for name in DATASETS if name not in found) or "none"
        say(f"datasets at hand: {', '.join(chosen)}; not at hand: {missing}")
    splits = {name: None if name in WORLDS else open_split(name, data_root) for name in chosen}
    failed: list[str] = []
    for dataset, split in splits.items():
        name = label(dataset)
        both: list[Recipe] = ["paper", "ours"] if published("main", name) else ["ours"]
        for used in [recipe] if recipe else both:
            for seed in range(first_seed, first_seed + seeds):
                world = open_world(dataset, seed, quick=quick) if split is None else None
                data = split if world is None else as_split(world.interactions)
                assert data is not None
                bench = Bench(name, data, used, seed, device, quick, world)
                measured = sorted({method.name for study in wanted for method in study.cells(bench)})
                for wish in methods:
                    others = ", ".join(measured)
                    require(wish in measured, f"no study given here measures {wish}", f"they measure {others}")
                for study in wanted:
                    if not seed or study.seeds:
                        failed += run(study, bench, out, again, say, methods)[1]
    return failed


def label(dataset: str) -> str:
    """The name of a dataset in records: a file or folder never goes by the name of another dataset."""
    if dataset in DATASETS or dataset in catalog.names():
        return dataset
    stem = Path(dataset).stem
    return f"{stem}-files" if stem in DATASETS or stem in catalog.names() else stem


def probe(out: Path) -> None:
    """Refuse a folder that cannot be written into before anything is measured."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise AleatorError(f"'{out}' cannot be written into ({error.strerror})", "give another folder") from None
