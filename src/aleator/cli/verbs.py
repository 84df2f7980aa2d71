"""aleator fit, update, evaluate, recommend and similar."""

from __future__ import annotations

import csv
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import aleator as al
from aleator.cli.batch import FORMAT, PER_PART, UNKNOWN, USER, show_batch
from aleator.cli.options import (
    CONFIG,
    DATA_ROOT,
    DATASET,
    ENGINE,
    JSON,
    QUIET,
    RECIPE,
    SET,
    TAIL,
    WORKERS,
    device_of,
    engine_options,
    set_quiet,
    show_json,
    show_table,
)
from aleator.cli.reading import reads
from aleator.errors import AleatorError, require
from aleator.words import DEFAULT_RECIPE, Duplicates, Empty, RecipeName

if TYPE_CHECKING:
    from aleator.data.vocabulary import Vocabulary
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

    While the fit runs, it is kept in OUT.fit. The same command goes on from there if it was interrupted. Processes that
    torchrun or SLURM starts with this command fit together, and the first one saves.
    """
    from aleator.aur.build import build, parse_settings
    from aleator.checkpoint import check_target
    from aleator.data.opening import open_dataset
    from aleator.ranks import join

    ranks = join()
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
    if ranks.rank:
        return
    seconds = time.perf_counter() - start
    read = opened.train if isinstance(opened, al.Split) else opened
    told = {"out": str(out), **_about_fit(recommender, seconds), "notes": [*read.notes, *recommender.notes]}
    if json:
        show_json(told)
        return
    for note in told["notes"]:
        print(f"note: {note}")
    if isinstance(recommender, al.AUR) and not quiet:
        print("\n".join(_explained(recommender)))
    name = f"AUR on {told['model']}" if uncertainty else told["model"]
    chosen = f", lam {told['lam']:g} after {told['epochs']} epochs" if "lam" in told else ""
    paper = recommender.conventions.warning
    print(f"{name} fitted on {told['pairs']:,} pairs in {told['seconds']:.1f} s{chosen}{paper}; saved in {out}")


def _about_fit(recommender: Recommender, seconds: float) -> dict[str, Any]:
    about: dict[str, Any] = {
        "model": type(recommender.model if isinstance(recommender, al.AUR) else recommender).__name__,
        "recipe": recommender.recipe,
        "pairs": len(recommender.fitted),
        "seconds": round(seconds, 2),
    }
    if isinstance(recommender, al.AUR):
        log, choice = recommender.estimator.log, recommender.choice
        about["lam"], about["discount"] = recommender.lam_used, recommender.discount_used
        about["prior"] = recommender.prior_used
        about["epochs"] = log.best_epoch if log else None
        about["setting"] = asdict(recommender.setting)
        about["race"] = [asdict(result) for result in recommender.race]
        about["choice"] = None if choice is None else choice.to_dict()
    return about


def _explained(aur: al.AUR) -> list[str]:
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
    engine: ENGINE = None,
    workers: WORKERS = None,
    quiet: QUIET = False,
    json: JSON = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Evaluate a saved model on the test part under the three protocols."""
    from aleator.data.opening import open_split

    recommender = al.load_model(folder, device_of(device, engine))
    if lam is not None:
        _with_uncertainty(recommender).set_lam(lam)
    opened = open_split(dataset, data_root, **reading)
    report = al.evaluate(
        recommender,
        opened,
        tail=al.Tail.parse(tail) if tail else None,
        k=k or (20, 50),
        empty=empty,
        recipe=recipe,
        **engine_options(engine, workers),
    )
    print(report.to_json() if json else report)


def _with_uncertainty(recommender: Recommender) -> al.AUR:
    if not isinstance(recommender, al.AUR):
        raise AleatorError("lam was given but the model has no uncertainty", "leave out --lam")
    return recommender


@reads
def update(
    folder: MODEL_FOLDER,
    new: Annotated[str, typer.Argument(help="A file of new interactions.")],
    out: Annotated[Path, typer.Option(help="Folder to save the updated model in. It may be the same one.")],
    epochs: Annotated[
        int | None,
        typer.Option(help="Epochs to train on for. By default those of the fit times the share of new pairs."),
    ] = None,
    duplicates: Annotated[
        Duplicates, typer.Option(help="Pairs that are known already: first leaves them, sum adds up their weights.")
    ] = "first",
    device: DEVICE = "auto",
    quiet: QUIET = False,
    json: JSON = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Take new interactions, users and items into a saved model, without a full fit."""
    from aleator.checkpoint import check_target
    from aleator.data.opening import open_file

    check_target(out)
    model = al.load_model(folder, device)
    data = open_file(new, **reading)
    start = time.perf_counter()
    updated = model.update(data, epochs=epochs, duplicates=duplicates)
    updated.save(out)
    before, after = model.fitted, updated.fitted
    told: dict[str, Any] = {
        "out": str(out),
        "pairs": len(after) - len(before),
        "users": after.n_users - before.n_users,
        "items": after.n_items - before.n_items,
        "known": len(data) - (len(after) - len(before)),
        "since_the_fit": updated.updated,
        "seconds": round(time.perf_counter() - start, 2),
        "notes": [*data.notes, *updated.notes],
    }
    if json:
        show_json(told)
        return
    for note in told["notes"]:
        print(f"note: {note}")
    new_ones = ", ".join(f"{told[name]:,} new {name}" for name in ("pairs", "users", "items"))
    print(f"{new_ones} taken in, {told['known']:,} pairs were known; {told['seconds']:.1f} s; saved in {out}")


def recommend(
    folder: MODEL_FOLDER,
    users: Annotated[
        str | None,
        typer.Option(
            help="Ids of known users, separated by commas, or a table of users: a parquet, csv or tsv file, or a folder "
            "of parquet files. A path that exists is a table. Quotation marks around an id hold its commas."
        ),
    ] = None,
    history: Annotated[
        str | None,
        typer.Option(
            help="Ids of the items of a new user, separated by commas. For a table of users: the column with the "
            "histories of users whom the model does not know."
        ),
    ] = None,
    k: Annotated[int, typer.Option(help="Number of items for each user.")] = 20,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the lists of a table of users. A batch in it is gone on with.")
    ] = None,
    lam: Annotated[float | None, typer.Option(help="1 is the expectation alone, 0 the uncertainty alone.")] = None,
    explain: Annotated[
        int | None,
        typer.Option(help="Name so many items of the history that add most to the expectation and to the uncertainty."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="Filter by an attribute of the items, such as genre=Drama or year=1990..1999. Repeatable."),
    ] = None,
    allow: Annotated[
        Path | None,
        typer.Option(help="File with the items that may be listed, or with users and items: a list for each user."),
    ] = None,
    deny: Annotated[Path | None, typer.Option(help="File with items that must not be listed, like --allow.")] = None,
    keep_seen: Annotated[bool, typer.Option("--keep-seen", help="Keep the items of a user's own history.")] = False,
    untrained: Annotated[bool, typer.Option("--untrained", help="Keep items without a training interaction.")] = False,
    user: USER = None,
    unknown: UNKNOWN = None,
    per_part: PER_PART = None,
    format: FORMAT = None,
    engine: ENGINE = None,
    workers: WORKERS = None,
    device: DEVICE = "auto",
    quiet: QUIET = False,
    json: JSON = False,
) -> None:
    """Recommend items to users of a saved model, to a new user with a history, or to all users of a table."""
    from aleator.batch.listed import listed
    from aleator.data.attributes import parse_where

    is_table = users is not None and (out is not None or Path(users).exists())
    one = is_table or (users is None) != (history is None)
    require(one, "exactly one of --users and --history is needed", "give ids of users or ids of items")
    of_table: dict[str, Any] = {"out": out, "user": user, "unknown": unknown, "per_part": per_part, "format": format}
    of_table = {name: value for name, value in of_table.items() if value is not None} | engine_options(engine, workers)
    if not is_table:
        name = next(iter(of_table), "").replace("_", "-")
        require(not of_table, f"--{name} goes with a table of users", "leave it out, or name a table with --users")
    else:
        told = f"name a folder with --out (for a user of that name, write '{users},')"
        require(out is not None, f"'{users}' is a table of users", told)
    recommender = al.load_model(folder, device_of(device, engine))
    data = recommender.fitted
    options: dict[str, Any] = {"filter_seen": not keep_seen, "untrained": untrained, "explain": explain}
    if lam is not None:
        options["lam"] = _with_uncertainty(recommender).at(lam).lam_used
    if where:
        options["where"] = parse_where(data.attributes, where)
    files: dict[str, Any] = {name: path for name, path in (("allow", allow), ("deny", deny)) if path is not None}
    if is_table:
        show_batch(al.recommend_batch(recommender, users, k=k, history=history, **options, **files, **of_table), json)
        return
    who: Any
    if users is not None:
        who = _ids(users, data.users)
    else:
        assert history is not None
        who = {"new": _ids(history, data.items)}
    for name, path in files.items():
        read, notes = listed(path, name, data.users, data.items)
        options[name] = read.for_recommend(list(who), data.items)
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
    found = recommender.recommend(who, k, **options)
    _show(found, json)


def _show(frame: Any, json: bool) -> None:
    """Print a frame."""
    import narwhals as nw
    from narwhals import selectors

    table = nw.from_native(frame, eager_only=True)
    if json:
        show_json(
            table.with_columns(selectors.by_dtype(nw.Float32, nw.Float64).fill_nan(None)).rows(named=True)
        )  # JSON has no NaN
    else:
        show_table(table.columns, table.rows())


def _ids(text: str, vocabulary: Vocabulary) -> list[Any]:
    """Ids that were typed with commas between them, in the type of the vocabulary. Quotation marks hold one together."""
    words = (word.strip() for row in csv.reader(text.splitlines(), skipinitialspace=True) for word in row)
    return [vocabulary.parse(word) for word in words if word]


def similar(
    folder: MODEL_FOLDER,
    items: Annotated[str, typer.Option(help="Ids of items, separated by commas.")],
    k: Annotated[int, typer.Option(help="Number of similar items for each.")] = 10,
    lam: Annotated[float | None, typer.Option(help="1 compares expectations alone, 0 uncertainties alone.")] = None,
    device: DEVICE = "auto",
    json: JSON = False,
) -> None:
    """List the items of a saved model whose scores go up and down together with those of an item."""
    recommender = al.load_model(folder, device)
    _show(recommender.similar_items(_ids(items, recommender.fitted.items), k, lam=lam), json)
