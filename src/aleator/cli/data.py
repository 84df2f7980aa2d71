"""aleator data: describe, split, convert."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from aleator.cli.options import DATA_ROOT, DATASET, JSON, MIN_RATING, TAIL, show_json
from aleator.data import catalog
from aleator.data.formats import write
from aleator.data.interactions import Interactions
from aleator.data.opening import open_dataset, open_file
from aleator.data.splits import By, Split
from aleator.data.tail import Tail
from aleator.errors import AleatorError, require

app = typer.Typer(help="Look at, split and convert interactions.", no_args_is_help=True)
K_CORE = Annotated[int | None, typer.Option(help="Keep users and items with at least this many interactions.")]


@app.command()
def describe(
    dataset: DATASET,
    data_root: DATA_ROOT = None,
    tail: TAIL = None,
    min_rating: MIN_RATING = None,
    k_core: K_CORE = None,
    json: JSON = False,
) -> None:
    """Counts of users, items and pairs, as the files give them, and what is tail."""
    opened = open_dataset(dataset, data_root, min_rating=min_rating, k_core=k_core)
    about = described(opened, Tail.parse(tail) if tail else Tail.mass(0.5))
    if json:
        show_json(about)
        return
    for name in ("users", "items", "train", "valid", "test"):
        print(f"{name:<8}{about[name]:>12,}")
    print(f"tail    {about['tail']['text']}")
    for note in about["notes"]:
        print(f"note    {note}")
    if dataset in catalog.names():
        entry = catalog.dataset(dataset)
        print(f"cite    {entry.citation}\nterms   {entry.terms}")


def described(opened: Split | Interactions, tail: Tail) -> dict[str, Any]:
    """What `describe --json` prints."""
    everything = opened.everything if isinstance(opened, Split) else opened
    if isinstance(opened, Split):
        counts = opened.counts or {p: len(getattr(opened, p)) for p in ("train", "valid", "test")}
        notes = dict.fromkeys((*opened.train.notes, *opened.valid.notes, *opened.test.notes))
    else:
        counts, notes = {"train": len(opened), "valid": 0, "test": 0}, dict.fromkeys(opened.notes)
    popularity = everything.popularity
    mask = tail.mask(popularity)
    about = {
        "rule": str(tail),
        "cut": tail.cut(popularity),
        "items": float(mask.mean()),
        "interactions": float(popularity[mask].sum() / popularity.sum()),
        "text": tail.describe(popularity),
    }
    return {"users": everything.n_users, "items": everything.n_items, **counts, "tail": about, "notes": list(notes)}


@app.command()
def split(
    dataset: DATASET,
    out: Annotated[Path, typer.Option(help="Folder for train, valid and test files.")],
    by: Annotated[By, typer.Option(help="How the test and validation parts are taken.")] = "random",
    valid: Annotated[float, typer.Option(help="Share of all pairs for validation.")] = 0.1,
    test: Annotated[float, typer.Option(help="Share of all pairs for the test.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    format: Annotated[str, typer.Option(help="csv, tsv, parquet, inter or npz.")] = "parquet",
    min_rating: MIN_RATING = None,
    k_core: K_CORE = None,
    json: JSON = False,
) -> None:
    """Split a file of interactions into train, validation and test files."""
    made = open_file(dataset, min_rating=min_rating, k_core=k_core).split(valid=valid, test=test, by=by, seed=seed)
    require(not out.exists() or (out.is_dir() and not any(out.iterdir())), f"'{out}' is not empty", "give a new folder")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AleatorError(f"the folder '{out}' cannot be made ({error})", "give another place") from None
    written = {}
    for part in ("train", "valid", "test"):
        if len(getattr(made, part)):
            write(getattr(made, part), out / f"{part}.{format}")
            written[part] = len(getattr(made, part))
    if json:
        show_json({"out": str(out), **written})
    else:
        print(f"{out}: " + ", ".join(f"{part} {count:,}" for part, count in written.items()) + " pairs")


@app.command()
def convert(
    source: Annotated[str, typer.Argument(help="A file of interactions.")],
    target: Annotated[Path, typer.Argument(help="A name ending in csv, tsv, parquet, inter or npz.")],
    min_rating: MIN_RATING = None,
    k_core: K_CORE = None,
    json: JSON = False,
) -> None:
    """Convert a file of interactions to another format."""
    opened = open_file(source, min_rating=min_rating, k_core=k_core)
    write(opened, target)
    if json:
        show_json({"out": str(target), "pairs": len(opened), "notes": list(opened.notes)})
    else:
        print(f"{target}: {len(opened):,} pairs" + "".join(f"\nnote: {note}" for note in opened.notes))
