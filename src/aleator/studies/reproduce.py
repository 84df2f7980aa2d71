"""Run studies: each dataset, recipe and seed in turn, all studies on the same fitted methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile

from aleator.data import catalog
from aleator.data.opening import open_split
from aleator.data.splits import Split
from aleator.errors import AleatorError, require, unknown_name
from aleator.recipe import recipe_of
from aleator.recommender import as_split
from aleator.studies.published import published
from aleator.studies.study import Study, run
from aleator.studies.workbench import Workbench
from aleator.studies.worlds import WORLDS, open_world
from aleator.words import RecipeName

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
BEYOND = (
    "needs_model",
    "strong",
    "leaderboard",
    "corrections",
    "mislabelled",
    "front",
    "drift",
    "popularity_shift",
    "default",
    "newcomers",
    "reliability",
    "confidence",
    "grafts",
    "update",
    "similar",
)
NAMES = (*PAPER, "beyond")
DATASETS = ("yelp2018", "amazon-book", "adressa", "ml-10m", "amazon-book-kgat", "ml-100k", "coat", *WORLDS)
RECIPES: tuple[RecipeName, ...] = ("paper", "test", "ours")  # in the order in which they are run and shown


def studies(*names: str) -> list[Study]:
    """The studies of these names; all of them for "all". A part of `beyond` is a study too."""
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
    recipe: RecipeName | None = None,
    seeds: int = 1,
    first_seed: int = 0,
    out: Path = Path("results"),
    quick: bool = False,
    again: bool = False,
    dry: bool = False,
    device: str = "auto",
    data_root: Path | None = None,
    say: Callable[[str], None] = print,
) -> list[str]:
    """Measure what is missing in `out`, or say what that is, with `dry`. Returns the cells that failed, with the reason.

    Without methods, each study measures all of its methods. Without datasets, all that are at hand are used. Without a
    recipe, all are used where the paper has figures for the dataset, and ours elsewhere. Recipe paper, which is slow, is
    then for the studies that the released program can make.
    """
    wanted = studies(*names)
    require(seeds >= 1, f"seeds is {seeds}", "give at least 1")
    require(first_seed >= 0, f"first_seed is {first_seed}", "give at least 0")
    probe(out)
    chosen = list(datasets) or _at_hand(data_root, say)
    splits = {name: None if name in WORLDS else open_split(name, data_root) for name in chosen}
    failed: list[str] = []
    for dataset, split in splits.items():
        for used in [recipe] if recipe else recipes_for(label(dataset)):
            for seed in range(first_seed, first_seed + seeds):
                bench = open_bench(dataset, split, recipe=used, seed=seed, device=device, quick=quick)
                _check_methods(methods, wanted, bench)
                for study in wanted:
                    asked = recipe is not None or used != "paper" or study.released
                    if asked and (not seed or study.seeds):
                        failed += run(study, bench, out, again=again, dry=dry, say=say, methods=methods)[1]
    return failed


def open_bench(
    dataset: str, split: Split | None, *, recipe: RecipeName, seed: int, device: str, quick: bool
) -> Workbench:
    """The workbench of a dataset. It is a simulated world where there is no split."""
    world = open_world(dataset, seed, quick=quick) if split is None else None
    data = as_split(world.interactions) if world is not None else split
    assert data is not None
    return Workbench(label(dataset), data, recipe=recipe_of(recipe), seed=seed, device=device, quick=quick, world=world)


def recipes_for(dataset: str) -> Sequence[RecipeName]:
    """All recipes where the paper has figures for the dataset, and ours elsewhere."""
    return RECIPES if published("main", dataset) else ("ours",)


def _at_hand(data_root: Path | None, say: Callable[[str], None]) -> list[str]:
    """The datasets that can be opened here. It says which can and which cannot."""
    found = {*catalog.at_hand(data_root), *WORLDS}
    chosen = [name for name in DATASETS if name in found]
    missing = ", ".join(name for name in DATASETS if name not in found) or "none"
    say(f"datasets at hand: {', '.join(chosen)}; not at hand: {missing}")
    return chosen


def _check_methods(methods: Sequence[str], wanted: Sequence[Study], bench: Workbench) -> None:
    """Refuse a method that no study measures."""
    measured = sorted({method.name for study in wanted for method in study.cells(bench)})
    for wish in methods:
        require(wish in measured, f"no study given here measures {wish}", f"they measure {', '.join(measured)}")


def label(dataset: str) -> str:
    """The name of a dataset in records. A file or folder never has the name of a known dataset."""
    if dataset in DATASETS or dataset in catalog.names():
        return dataset
    stem = Path(dataset).stem
    return f"{stem}-files" if stem in DATASETS or stem in catalog.names() else stem


def probe(out: Path) -> None:
    """Refuse a folder that cannot be written into, before anything is measured."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise AleatorError(f"'{out}' cannot be written into ({error.strerror})", "give another folder") from None
