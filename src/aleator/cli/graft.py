"""aleator graft: the uncertainty on top of a recommender that was fitted elsewhere, from files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

import aleator as al
from aleator.cli.options import DATA_ROOT, JSON, SET, set_quiet, show_json
from aleator.cli.reading import reads
from aleator.errors import require

_LAM = 0.5  # without a validation part to choose it on


@reads
def graft(
    *,
    interactions: Annotated[
        str, typer.Option(help="A file of interactions, a folder made by `aleator data split`, or a catalogue name.")
    ],
    out: Annotated[Path, typer.Option(help="Folder to save the model in.")],
    factors: Annotated[
        tuple[Path, Path] | None,
        typer.Option(help="Files of user factors and item factors: .npy, .safetensors, or .parquet (id, features)."),
    ] = None,
    spark: Annotated[Path | None, typer.Option(help="A folder that ALSModel.save of Spark wrote.")] = None,
    similarities: Annotated[Path | None, typer.Option(help="An item-item matrix of scipy.sparse.save_npz.")] = None,
    scores: Annotated[Path | None, typer.Option(help="A table of candidates: user_id, item_id, score.")] = None,
    users: Annotated[
        Path | None, typer.Option(help="Ids of the users in the order of the rows: .npy, .parquet, or text.")
    ] = None,
    items: Annotated[Path | None, typer.Option(help="Ids of the items in the order of the rows.")] = None,
    lam: Annotated[float | None, typer.Option(help="The knob. By default it is chosen on the validation part.")] = None,
    check: Annotated[bool, typer.Option(help="Refuse scores that do not follow the histories of their users.")] = True,
    data_root: DATA_ROOT = None,
    set: SET = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.", callback=set_quiet)] = False,
    json: JSON = False,
    reading: dict[str, Any],
) -> None:
    """Put the uncertainty on top of a recommender that was fitted elsewhere, and save both as a model folder."""
    from aleator.aur.build import parse_settings
    from aleator.checkpoint import check_target
    from aleator.data.opening import open_dataset
    from aleator.models.graft.files import TABLES

    given = [source for source in (factors, spark, similarities, scores) if source is not None]
    require(
        len(given) == 1, f"{len(given)} sources were given", "give one of --factors, --spark, --similarities, --scores"
    )
    require(spark is None or spark.is_dir(), f"there is no folder '{spark}'", "check the path")
    for path, endings in ((similarities, (".npz",)), (scores, TABLES)):
        fits = path is None or path.suffix in endings
        require(
            fits, f"'{path}' does not end in {' or '.join(endings)}", "check the path, or give it by another option"
        )
    check_target(out)
    settings = parse_settings(None, set)
    of_model, of_estimator = settings.pop("model", {}), settings.pop("estimator", {})
    made = al.graft(given[0], users=users, items=items, **{"check": check, **of_model})
    data = open_dataset(interactions, data_root, **reading)
    notes = [*(data.train if isinstance(data, al.Split) else data).notes]
    chosen: dict[str, Any] = {} if lam is None else {"lam": lam}
    if lam is None and "lam" not in settings and not (isinstance(data, al.Split) and len(data.valid)):
        chosen["lam"] = _LAM
        notes.append(f"lam is {_LAM:g}: there is no validation part to choose it on; give --lam or a folder with one")
    start = time.perf_counter()
    aur = al.AUR(made, **{"estimator": al.FactorEstimator(**of_estimator), **settings, **chosen}).fit(data)
    aur.save(out)
    told: dict[str, Any] = {
        "out": str(out),
        "model": type(aur.model).__name__,
        "lam": aur.lam_used,
        "pairs": len(aur.fitted),
        "seconds": round(time.perf_counter() - start, 2),
        "reconciled": getattr(aur.model, "reconciled", {}),
        "notes": [*notes, *aur.notes],
    }
    if json:
        show_json(told)
        return
    for note in told["notes"]:
        print(f"note: {note}")
    print(f"AUR on {told['model']} fitted on {told['pairs']:,} pairs, lam {aur.lam_used:g}; saved in {out}")
