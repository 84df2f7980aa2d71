"""aleator demo: MF, MF-AUR and the default AUR in a minute or two."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import aleator as al
from aleator.cli.options import DATA_ROOT, JSON, QUIET, SET, show_json
from aleator.errors import require

if TYPE_CHECKING:
    from aleator.demo import Demo

PAGE = "http://127.0.0.1:8000"  # where `aleator serve` listens


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report and the fitted model.")] = Path("aleator-demo"),
    data_root: DATA_ROOT = None,
    seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 0,
    set: SET = None,
    quiet: QUIET = False,
    json: JSON = False,
) -> None:
    """MF, MF-AUR and the default AUR on ML-100K: a table, a few users' lists, and an HTML report."""
    from aleator import demo as study
    from aleator.aur.build import build, parse_settings
    from aleator.checkpoint import check_target
    from aleator.recipe import recipe_of

    settings = parse_settings(None, set)
    bare = build("mf", {"model": settings.get("model", {})}, with_uncertainty=False, recipe="ours", seed=seed)
    mf_aur = build("mf", settings, with_uncertainty=True, recipe="ours", seed=seed)
    others = {name: value for name, value in settings.items() if name != "model"}
    aur = build(None, others, with_uncertainty=True, recipe="ours", seed=seed)
    assert isinstance(bare, al.Model)
    assert isinstance(mf_aur, al.AUR)
    assert isinstance(aur, al.AUR)
    chosen_on_test = recipe_of(aur.recipe).on_test
    require(not chosen_on_test, "the demo runs with recipe ours", "use fit and evaluate for other recipes")
    check_target(out / "model")
    split, note = study.open_world(data_root)
    if not json:
        sizes = f"{split.train.n_users:,} users, {split.train.n_items:,} items"
        print(f"{note}: {sizes}, {len(split.everything):,} training and {len(split.test):,} test pairs\n")
    made = study.run(split, bare, mf_aur, aur, note)
    aur.save(out / "model")
    page = out / "report.html"
    study.write_report(made, page)
    if json:
        compared = {name: comparison.to_dict() for name, comparison in made.comparisons.items()}
        told = {"data": note, "comparisons": compared, "default": type(aur.model).__name__, "lam": aur.lam_used}
        show_json(told | {"report": str(page), "model": str(out / "model")})
    else:
        show(made, out / "model", page, data_root)


def show(made: Demo, model: Path, page: Path, data_root: Path | None) -> None:
    """Print the lists of a few users, the table, what it shows, and where to go from here."""
    from aleator.demo import DEFAULT, MF

    for case in made.cases.shown:
        print(f"User {case.user}: the default finds {case.found!r} (popularity {case.popularity}) at rank {case.rank}.")
        print("  The user took it in the test part.")
        for name, listed in ((MF, case.before), (DEFAULT, case.after)):
            print(f"  {name:<8}" + "\n          ".join(f"{n:>2}. {line}" for n, line in enumerate(listed, 1)))
        print()
    print(f"{made.cases.told}\n")
    print(made.table(), *made.story(), sep="\n")
    print(f"\nThe report is {page.resolve()}")
    print(f"The model of the default is in {model}. Try:")
    print(f"aleator recommend {model} --users {made.aur.fitted.users.decode([0])[0]} --k 10")
    named = made.split.name is not None  # a simulated world is in no catalogue
    place = f" --data-root {data_root}" if named and data_root is not None else ""
    print(f"aleator serve {model}{f' --data {made.split.name}' if named else ''}{place}")
    print(f"and open {PAGE} in a browser, to turn the knob and see what it does to anybody's list.")
