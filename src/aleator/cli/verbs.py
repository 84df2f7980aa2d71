"""aleator fit, evaluate, recommend."""

from __future__ import annotations

import time
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
    MIN_RATING,
    QUIET,
    RECIPE,
    SET,
    TAIL,
    show_json,
    show_table,
)
from aleator.data.opening import open_dataset, open_split
from aleator.data.splits import Split
from aleator.data.tail import Tail
from aleator.errors import require
from aleator.evaluation.protocols import evaluate as run_evaluate
from aleator.recipe import Empty, RecipeName

MODEL_FOLDER = Annotated[Path, typer.Argument(help="A folder written by fit.")]
DEVICE = Annotated[str, typer.Option(help="auto, cpu or cuda.")]


def fit(
    dataset: DATASET,
    out: Annotated[Path, typer.Option(help="Folder to save the model in.")],
    model: Annotated[str, typer.Option(help="The model of the expectation.")] = "mf",
    uncertainty: Annotated[bool, typer.Option(help="Fit the uncertainty estimator on top of the model.")] = True,
    estimator: Annotated[str | None, typer.Option(help="The uncertainty estimator: factor, or mlp (AUR-M).")] = None,
    data_root: DATA_ROOT = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every random choice.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda.")] = None,
    max_epochs: Annotated[int | None, typer.Option(help="Most epochs of every part that is trained in epochs.")] = None,
    min_rating: MIN_RATING = None,
    recipe: RECIPE = "ours",
    set: SET = None,
    config: CONFIG = None,
    quiet: QUIET = False,
    json: JSON = False,
) -> None:
    """Fit a model, and the uncertainty estimator on top of it, and save both."""
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
    opened = open_dataset(dataset, data_root, min_rating=min_rating)
    start = time.perf_counter()
    recommender.fit(opened)
    recommender.save(out)
    told: dict[str, Any] = {
        "out": str(out),
        "model": model,
        "recipe": recommender.recipe,
        "pairs": len(recommender.fitted),
        "seconds": round(time.perf_counter() - start, 2),
    }
    if isinstance(recommender, AUR):
        told |= {
            "lam": recommender.lam_used,
            "epochs": recommender.estimator.log.best_epoch if recommender.estimator.log else None,
        }
    told["notes"] = [*(opened.train if isinstance(opened, Split) else opened).notes, *recommender.notes]
    if json:
        show_json(told)
        return
    for note in told["notes"]:
        print(f"note: {note}")
    name = f"{'AUR on ' if uncertainty else ''}{model}"
    chosen = f", lam {told['lam']:g} after {told['epochs']} epochs" if isinstance(recommender, AUR) else ""
    paper = " [recipe paper: chosen on the test part]" if recommender.recipe == "paper" else ""
    print(f"{name} fitted on {told['pairs']:,} pairs in {told['seconds']:.1f} s{chosen}{paper}; saved in {out}")


def evaluate(
    folder: MODEL_FOLDER,
    dataset: DATASET,
    data_root: DATA_ROOT = None,
    tail: TAIL = None,
    k: Annotated[list[int] | None, typer.Option(help="Cut-off; repeatable. 20 and 50 by default.")] = None,
    empty: Annotated[Empty | None, typer.Option(help="Users without a relevant item: skip or zero.")] = None,
    lam: Annotated[float | None, typer.Option(help="Blend at this lam instead of the chosen one.")] = None,
    recipe: Annotated[RecipeName | None, typer.Option(help="ours or paper; that of the model by default.")] = None,
    device: DEVICE = "auto",
    min_rating: MIN_RATING = None,
    quiet: QUIET = False,
    json: JSON = False,
) -> None:
    """Evaluate a saved model on the test part under the three protocols."""
    recommender = load_model(folder, device)
    if lam is not None:
        require(isinstance(recommender, AUR), "lam was given but the model has no uncertainty", "drop --lam")
        assert isinstance(recommender, AUR)
        recommender.set_lam(lam)
    opened = open_split(dataset, data_root, min_rating=min_rating)
    report = run_evaluate(
        recommender, opened, tail=Tail.parse(tail) if tail else None, k=k or (20, 50), empty=empty, recipe=recipe
    )
    print(report.to_json() if json else report)


def recommend(
    folder: MODEL_FOLDER,
    users: Annotated[str | None, typer.Option(help="User ids, separated by commas.")] = None,
    history: Annotated[str | None, typer.Option(help="Item ids of somebody new, separated by commas.")] = None,
    k: Annotated[int, typer.Option(help="Items a user.")] = 20,
    lam: Annotated[float | None, typer.Option(help="1 is the expectation alone, 0 the uncertainty alone.")] = None,
    device: DEVICE = "auto",
    json: JSON = False,
) -> None:
    """Recommend items to users of a saved model, or to somebody who is only a history."""
    require((users is None) != (history is None), "give either --users or --history", "name users by id or items by id")
    recommender = load_model(folder, device)
    if lam is not None:
        require(isinstance(recommender, AUR), "lam was given but the model has no uncertainty", "drop --lam")
    options: dict[str, Any] = {} if lam is None else {"lam": lam}
    data = recommender.fitted
    if users is not None:
        found = recommender.recommend([data.users.parse(u.strip()) for u in users.split(",")], k, **options)
    else:
        assert history is not None
        found = recommender.recommend({"new": [data.items.parse(i.strip()) for i in history.split(",")]}, k, **options)
    table = nw.from_native(found, eager_only=True)
    if json:
        show_json(table.rows(named=True))
        return
    show_table(table.columns, table.rows())
