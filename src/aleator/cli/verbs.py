"""aleator fit, evaluate and recommend."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import narwhals as nw
import typer

from aleator.aur import AUR
from aleator.aur.build import build, parse_settings
from aleator.aur.loading import load_model
from aleator.checkpoint import check_target
from aleator.cli.options import (
    CONFIG,
    DATA_ROOT,
    DATASET,
    JSON,
    QUIET,
    RECIPE,
    SET,
    TAIL,
    set_quiet,
    show_json,
    show_table,
)
from aleator.cli.reading import reads
from aleator.data.opening import open_dataset, open_split
from aleator.data.splits import Split
from aleator.data.tail import Tail
from aleator.data.vocabulary import Vocabulary
from aleator.errors import AleatorError, require
from aleator.evaluation.protocols import evaluate as run_evaluate
from aleator.recipe import DEFAULT_RECIPE, Empty, RecipeName
from aleator.recommender import Recommender

MODEL_FOLDER = Annotated[Path, typer.Argument(help="Folder of a saved model, written by fit.")]
DEVICE = Annotated[str, typer.Option(help="Device: auto, cpu or cuda.")]


@reads
def fit(
    dataset: DATASET,
    out: Annotated[Path, typer.Option(help="Folder to save the model in.")],
    model: Annotated[
        str | None,
        typer.Option(
            help="The model of the expectation. Without one, two are compared on validation; auto compares more."
        ),
    ] = None,
    uncertainty: Annotated[bool, typer.Option(help="Fit the uncertainty estimator beside the model.")] = True,
    estimator: Annotated[str | None, typer.Option(help="The uncertainty estimator: factor, or mlp (AUR-M).")] = None,
    data_root: DATA_ROOT = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every random choice.")] = None,
    device: Annotated[str | None, typer.Option(help="Device: auto, cpu or cuda.")] = None,
    max_epochs: Annotated[
        int | None, typer.Option(help="Largest number of epochs of each part that is trained in epochs.")
    ] = None,
    recipe: RECIPE = DEFAULT_RECIPE,
    set: SET = None,
    config: CONFIG = None,
    resume: Annotated[
        bool, typer.Option(help="Go on from OUT.fit, where an earlier call was interrupted. Or delete that.")
    ] = True,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Show no progress, and print the summary alone.", callback=set_quiet)
    ] = False,
    json: JSON = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Fit a model and the uncertainty estimator beside it, and save both.

    While the fit runs, it is kept in OUT.fit. The same command goes on from there if it was interrupted.
    """
    recommender = build(
        model,
        parse_settings(config, set),
        with_uncertainty=uncertainty,
        recipe=recipe,
        estimator=estimator,
        seed=seed,
        device=device,
        max_epochs=max_epochs,
    )
    check_target(out)
    opened = open_dataset(dataset, data_root, **reading)
    start = time.perf_counter()
    with recommender.kept_in(f"{out}.fit", opened, resume):  # beside the target, which may hold an older model
        recommender.fit(opened)
        recommender.save(out)
    seconds = time.perf_counter() - start
    read = opened.train if isinstance(opened, Split) else opened
    told = {"out": str(out), **_about_fit(recommender, seconds), "notes": [*read.notes, *recommender.notes]}
    if json:
        show_json(told)
        return
    for note in told["notes"]:
        print(f"note: {note}")
    if isinstance(recommender, AUR) and not quiet:
        print("\n".join(_explained(recommender)))
    name = f"AUR on {told['model']}" if uncertainty else told["model"]
    chosen = f", lam {told['lam']:g} after {told['epochs']} epochs" if "lam" in told else ""
    paper = recommender.conventions.warning
    print(f"{name} fitted on {told['pairs']:,} pairs in {told['seconds']:.1f} s{chosen}{paper}; saved in {out}")


def _about_fit(recommender: Recommender, seconds: float) -> dict[str, Any]:
    about: dict[str, Any] = {
        "model": type(recommender.model if isinstance(recommender, AUR) else recommender).__name__,
        "recipe": recommender.recipe,
        "pairs": len(recommender.fitted),
        "seconds": round(seconds, 2),
    }
    if isinstance(recommender, AUR):
        log, choice = recommender.estimator.log, recommender.choice
        about["lam"], about["discount"] = recommender.lam_used, recommender.discount_used
        about["prior"] = recommender.prior_used
        about["epochs"] = log.best_epoch if log else None
        about["setting"] = asdict(recommender.setting)
        about["race"] = [asdict(result) for result in recommender.race]
        about["choice"] = None if choice is None else choice.to_dict()
    return about


def _explained(aur: AUR) -> list[str]:
    """What was compared and what was chosen, for people."""
    where = aur.conventions.chosen_on
    lines = []
    if aur.race:
        lines += [f"compared on {where} (Recall@20, NDCG@20, tail Recall@50), the winner first:"]
        lines += [f"  {result}" for result in aur.race] + [""]
    if aur.choice is not None:
        lines += [str(aur.choice)]
        if aur.lam_used != aur.choice.lam:
            lines += [f"lam {aur.lam_used:g} was given, and is used instead"]
        if aur.prior_used:
            lines += [f"popularity counts for histories of less than 20 items, with the weight {aur.prior_used:g}"]
        lines += [""]
    return lines


@reads
def evaluate(
    folder: MODEL_FOLDER,
    dataset: DATASET,
    data_root: DATA_ROOT = None,
    tail: TAIL = None,
    k: Annotated[list[int] | None, typer.Option(help="Cut-off of the lists. Repeatable. 20 and 50 by default.")] = None,
    empty: Annotated[
        Empty | None, typer.Option(help="Users without a relevant item: skip them, or count them as zero.")
    ] = None,
    lam: Annotated[float | None, typer.Option(help="Use this lam instead of the chosen one.")] = None,
    recipe: Annotated[
        RecipeName | None, typer.Option(help="ours, test or paper. By default that of the model.")
    ] = None,
    device: DEVICE = "auto",
    quiet: QUIET = False,
    json: JSON = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Evaluate a saved model on the test part under the three protocols."""
    recommender = load_model(folder, device)
    if lam is not None:
        _with_uncertainty(recommender).set_lam(lam)
    opened = open_split(dataset, data_root, **reading)
    report = run_evaluate(
        recommender, opened, tail=Tail.parse(tail) if tail else None, k=k or (20, 50), empty=empty, recipe=recipe
    )
    print(report.to_json() if json else report)


def _with_uncertainty(recommender: Recommender) -> AUR:
    if not isinstance(recommender, AUR):
        raise AleatorError("lam was given but the model has no uncertainty", "leave out --lam")
    return recommender


def recommend(
    folder: MODEL_FOLDER,
    users: Annotated[str | None, typer.Option(help="Ids of known users, separated by commas.")] = None,
    history: Annotated[str | None, typer.Option(help="Ids of the items of a new user, separated by commas.")] = None,
    k: Annotated[int, typer.Option(help="Number of items for each user.")] = 20,
    lam: Annotated[float | None, typer.Option(help="1 is the expectation alone, 0 the uncertainty alone.")] = None,
    device: DEVICE = "auto",
    json: JSON = False,
) -> None:
    """Recommend items to users of a saved model, or to a new user with a history."""
    one = (users is None) != (history is None)
    require(one, "exactly one of --users and --history is needed", "give ids of users or ids of items")
    recommender = load_model(folder, device)
    options: dict[str, Any] = {}
    if lam is not None:
        _with_uncertainty(recommender)
        options["lam"] = lam
    data = recommender.fitted
    who: Any
    if users is not None:
        who = _ids(users, data.users)
    else:
        assert history is not None
        who = {"new": _ids(history, data.items)}
    found = recommender.recommend(who, k, **options)
    table = nw.from_native(found, eager_only=True)
    if json:
        show_json(table.rows(named=True))
        return
    show_table(table.columns, table.rows())


def _ids(text: str, vocabulary: Vocabulary) -> list[Any]:
    """Ids that were typed with commas between them, in the type of the vocabulary."""
    return [vocabulary.parse(word.strip()) for word in text.split(",")]
