"""aleator tune: search for good options."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from aleator.aur.build import parse_settings
from aleator.aur.choice import Select
from aleator.cli.options import CONFIG, DATA_ROOT, DATASET, JSON, MIN_RATING, QUIET, RECIPE, SET, show_json, show_table
from aleator.data.opening import open_dataset
from aleator.errors import require
from aleator.recipe import RecipeName
from aleator.tuning import search as tuning
from aleator.tuning.trials import ENOUGH

FIGURES = ("recall@20", "tail_recall@50", "lam", "epochs", "seconds")
SHOWN = 5  # trials in the table, beside the defaults


def tune(
    dataset: DATASET,
    model: Annotated[str, typer.Option(help="The model of the expectation.")] = "mf",
    uncertainty: Annotated[bool, typer.Option(help="Search with the uncertainty estimator on top of it.")] = True,
    estimator: Annotated[str, typer.Option(help="The uncertainty estimator: factor, or mlp (AUR-M).")] = "factor",
    only: Annotated[
        tuning.Only | None, typer.Option(help="Search the options of the model alone, or of the uncertainty alone.")
    ] = None,
    select: Annotated[
        Select | None, typer.Option(help="With uncertainty: overall (Recall@20, the default) or balanced (the tail).")
    ] = None,
    trials: Annotated[int, typer.Option(help="How many in all, with those that the study has already.")] = 30,
    timeout: Annotated[float | None, typer.Option(help="Begin no trial after so many seconds.")] = None,
    study: Annotated[
        Path | None, typer.Option(help="File of all trials; one that exists is continued. tune-DATASET-MODEL.db")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="TOML file for the best options; beside the study.")] = None,
    data_root: DATA_ROOT = None,
    seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 0,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda.")] = None,
    max_epochs: Annotated[int | None, typer.Option(help="Most epochs of every part that is trained in epochs.")] = None,
    min_rating: MIN_RATING = None,
    recipe: RECIPE = "ours",
    set: SET = None,
    config: CONFIG = None,
    quiet: QUIET = False,
    json: JSON = False,
) -> None:
    """Search for good options on the validation part; what is given with --set or --config is fixed.

    The test part is not looked at, with recipe paper neither: that searches the paper's grid around the paper's options.
    """
    name = f"{model}{f'-aur-{estimator}' if uncertainty else ''}{'-paper' if recipe == 'paper' else ''}"
    study = study or Path(f"tune-{Path(dataset).stem}-{name}.db")
    out = out or study.with_suffix(".toml")
    require(
        len({study, out, study.with_suffix(".png")}) == 3,
        f"'{study}' would be overwritten by what is found",
        "name it with the ending .db",
    )
    for file in (study, out):
        writable = os.access(file.parent, os.W_OK) and not file.is_dir()
        require(writable, f"'{file}' cannot be written", "give another place")
    try:
        found = tuning.tune(
            open_dataset(dataset, data_root, min_rating=min_rating),
            model,
            uncertainty=uncertainty,
            only=only,
            select=select,
            recipe=recipe,
            settings=parse_settings(config, set),
            trials=trials,
            timeout=timeout,
            study=study,
            estimator=estimator,
            seed=seed,
            device=device,
            max_epochs=max_epochs,
        )
    except KeyboardInterrupt:
        print(f"the trials so far are in {study}; the same command goes on with it", file=sys.stderr)
        raise
    again = _fit(dataset, model, uncertainty, estimator, recipe, seed, max_epochs, out)
    out.write_text(
        found.to_toml(f"{found.metric} {found.value:.4f} on validation, by aleator tune; use it with\n{again}")
    )
    plot = _draw(found, study.with_suffix(".png"))
    if json:
        told = {n: getattr(found, n) for n in ("metric", "value", "default", "options", "importance", "trials")}
        show_json({"study": str(study), "out": str(out), "plot": plot and str(plot), **told})
        return
    _show(found)
    print(f"\nThe options are in {out}" + (f", the importance of each is drawn in {plot}." if plot else "."))
    print(f"The test part was not looked at. Go on with: {again}")


def _fit(
    dataset: str,
    model: str,
    uncertainty: bool,
    estimator: str,
    recipe: RecipeName,
    seed: int,
    max_epochs: int | None,
    out: Path,
) -> str:
    """The command that fits with what was found."""
    words = ["aleator", "fit", dataset, "--model", model]
    words += ["--estimator", estimator] if uncertainty and estimator != "factor" else []
    words += [] if uncertainty else ["--no-uncertainty"]
    words += ["--recipe", recipe] if recipe != "ours" else []
    words += ["--seed", str(seed)] if seed else []
    words += ["--max-epochs", str(max_epochs)] if max_epochs is not None else []
    return shlex.join([*words, "--config", str(out), "--out", "model"])


def _draw(found: tuning.Tuned, file: Path) -> Path | None:
    if not found.importance:
        return None
    from aleator.studies.report import figures

    n_trials = sum(row["state"] == "complete" for row in found.trials)
    figures.importance(found.importance, found.metric, n_trials).savefig(file, dpi=160)
    return file


def _show(found: tuning.Tuned) -> None:
    """The defaults and the best trials side by side, and what made the difference."""
    states = Counter(row["state"].replace("running", "running or killed") for row in found.trials)
    print(f"{len(found.trials)} trials: " + ", ".join(f"{n} {state}" for state, n in states.items()))
    complete = [row for row in found.trials if row["state"] == "complete"]
    rows = [r for r in complete if r["default"]] + [r for r in complete if not r["default"]][:SHOWN]
    figures = [n for n in FIGURES if any(r.get(n) is not None for r in rows)]
    show_table(
        ["", *("defaults" if r["default"] else f"trial {r['trial']}" for r in rows)],
        [[n, *(_short(r.get(n)) for r in rows)] for n in figures]
        + [[n, *(_short(r["options"][n]) for r in rows)] for n in rows[-1]["options"]],
    )
    print(f"\n{found.metric} {found.value:.4f} on validation, where it was chosen; ", end="")
    if found.default:
        gain = f"{100 * (found.value / found.default - 1):+.1f} %"
        print(f"{found.default:.4f} with the default options ({gain})")
    else:
        print("nothing with the default options")
    if found.importance:
        print("importance: " + ", ".join(f"{n} {100 * v:.0f} %" for n, v in found.importance.items()))
    else:
        print(f"importance: it takes {ENOUGH} complete trials, two options and scikit-learn to tell")


def _short(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
