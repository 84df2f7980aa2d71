"""aleator tune: search for good options on the validation part."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import aleator as al
from aleator.cli.options import (
    CONFIG,
    DATA_ROOT,
    DATASET,
    ENGINE,
    JSON,
    QUIET,
    RECIPE,
    SET,
    WORKERS,
    engine_options,
    show_json,
    show_table,
)
from aleator.cli.reading import reads
from aleator.errors import require
from aleator.words import DEFAULT_RECIPE, Only, RecipeName, Select

if TYPE_CHECKING:
    from aleator.tuning import Tuned

SHOWN = 5  # trials in the table beside the defaults


@reads
def tune(
    dataset: DATASET,
    model: Annotated[str, typer.Option(help="The model of the expectation.")] = "mf",
    uncertainty: Annotated[bool, typer.Option(help="Search with the uncertainty estimator beside the model.")] = True,
    estimator: Annotated[str, typer.Option(help="The uncertainty estimator: factor, or mlp (AUR-M).")] = "factor",
    only: Annotated[
        Only | None, typer.Option(help="Search only the options of the model, or only those of the uncertainty.")
    ] = None,
    select: Annotated[
        Select | None,
        typer.Option(help="What to search for with uncertainty: overall (Recall@20, the default) or balanced."),
    ] = None,
    trials: Annotated[int, typer.Option(help="Number of trials, including those that the study has already.")] = 30,
    timeout: Annotated[float | None, typer.Option(help="Start no new trial after this many seconds.")] = None,
    study: Annotated[
        Path | None,
        typer.Option(help="File of all trials. An existing one is continued. By default tune-DATASET-MODEL.db."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="TOML file for the best options. By default beside the study.")
    ] = None,
    data_root: DATA_ROOT = None,
    seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 0,
    device: Annotated[str | None, typer.Option(help="Device: auto, cpu or cuda.")] = None,
    engine: ENGINE = None,
    workers: WORKERS = None,
    max_epochs: Annotated[
        int | None, typer.Option(help="Largest number of epochs of each part that is trained in epochs.")
    ] = None,
    recipe: RECIPE = DEFAULT_RECIPE,
    set: SET = None,
    config: CONFIG = None,
    quiet: QUIET = False,
    json: JSON = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Search for good options on the validation part. Options given with --set or --config stay fixed.

    The test part is never used. With recipe paper, the search goes over the paper's grid around the paper's options.
    """
    from aleator.aur.build import parse_settings
    from aleator.data.opening import open_dataset

    study = study or Path(f"tune-{Path(dataset).stem}-{_kind(model, uncertainty, estimator, recipe)}.db")
    out = out or study.with_suffix(".toml")
    _check_places(study, out)
    try:
        found = al.tune(
            open_dataset(dataset, data_root, **reading),
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
            **engine_options(engine, workers),
        )
    except (KeyboardInterrupt, SystemExit):
        print(f"the trials so far are in {study}; the same command continues it", file=sys.stderr)
        raise
    command = _fit_command(dataset, model, uncertainty, estimator, recipe, seed, max_epochs, out)
    score = f"{found.metric} {found.value:.4f} on validation"
    out.write_text(found.to_toml(f"{score}, by aleator tune; use it with\n{command}"))
    plot = _draw(found, study.with_suffix(".png"))
    if json:
        files = {"study": str(study), "out": str(out), "plot": plot and str(plot)}
        show_json({**files, **_about(found)})
        return
    _show(found)
    print(f"\nThe options are in {out}.")
    if plot:
        print(f"A figure of the importance of each option is in {plot}.")
    print(f"The test part was not used. Continue with: {command}")


def _kind(model: str, uncertainty: bool, estimator: str, recipe: RecipeName) -> str:
    """What is searched, as a part of a file name."""
    words = [model]
    if uncertainty:
        words += ["aur", estimator]
    if recipe != DEFAULT_RECIPE:
        words.append(recipe)
    return "-".join(words)


def _check_places(study: Path, out: Path) -> None:
    """Raise an error, before the search starts, if the results cannot be written."""
    distinct = len({study, out, study.with_suffix(".png")}) == 3
    require(distinct, f"the results would overwrite '{study}'", "give it a name that ends in .db")
    for file in (study, out):
        writable = os.access(file.parent, os.W_OK) and not file.is_dir()
        require(writable, f"'{file}' cannot be written", "give another place")


def _about(found: Tuned) -> dict[str, Any]:
    return {
        "metric": found.metric,
        "value": found.value,
        "default": found.default,
        "options": found.options,
        "importance": found.importance,
        "trials": found.trials,
    }


def _fit_command(
    dataset: str,
    model: str,
    uncertainty: bool,
    estimator: str,
    recipe: RecipeName,
    seed: int,
    max_epochs: int | None,
    out: Path,
) -> str:
    """The command that fits with the options that were found."""
    words = ["aleator", "fit", dataset, "--model", model]
    if not uncertainty:
        words.append("--no-uncertainty")
    elif estimator != "factor":
        words += ["--estimator", estimator]
    if recipe != DEFAULT_RECIPE:
        words += ["--recipe", recipe]
    if seed:
        words += ["--seed", str(seed)]
    if max_epochs is not None:
        words += ["--max-epochs", str(max_epochs)]
    return shlex.join([*words, "--config", str(out), "--out", "model"])


def _draw(found: Tuned, file: Path) -> Path | None:
    """Draw the importance of the options into `file`. Returns None if the importance is not known."""
    if not found.importance:
        return None
    from aleator.studies.report import figures

    n_trials = sum(row["state"] == "complete" for row in found.trials)
    figures.importance(found.importance, found.metric, n_trials).savefig(file, dpi=160)
    return file


def _show(found: Tuned) -> None:
    """Print the default options and the best trials side by side, and the importance of the options."""
    from aleator.tuning.trials import ENOUGH

    states = Counter(row["state"].replace("running", "running or killed") for row in found.trials)
    print(f"{len(found.trials)} trials: " + ", ".join(f"{n} {state}" for state, n in states.items()))
    _show_trials([row for row in found.trials if row["state"] == "complete"])
    print(f"\n{found.metric} {found.value:.4f} on validation, where it was chosen; ", end="")
    if found.default:
        gain = 100 * (found.value / found.default - 1)
        print(f"{found.default:.4f} with the default options ({gain:+.1f} %)")
    else:
        print("not known with the default options")
    if found.importance:
        shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in found.importance.items())
        print(f"importance: {shares}")
    else:
        print(f"importance: not known; it needs {ENOUGH} complete trials, two options and scikit-learn")


def _show_trials(complete: list[dict[str, Any]]) -> None:
    from aleator.tuning.search import FIGURES

    defaults = [row for row in complete if row["default"]]
    best = [row for row in complete if not row["default"]][:SHOWN]
    shown = defaults + best
    header = ["", *("defaults" if row["default"] else f"trial {row['trial']}" for row in shown)]
    lines = []
    for name in (*FIGURES, "lam", "epochs", "seconds"):
        if any(row.get(name) is not None for row in shown):
            lines.append([name, *(_short(row.get(name)) for row in shown)])
    for name in shown[-1]["options"]:
        lines.append([name, *(_short(row["options"][name]) for row in shown)])
    show_table(header, lines)


def _short(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
