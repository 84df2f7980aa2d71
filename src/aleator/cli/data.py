"""aleator data: describe, split or convert interactions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import aleator as al
from aleator.cli.options import DATA_ROOT, DATASET, JSON, TAIL, show_json
from aleator.cli.reading import reads
from aleator.errors import AleatorError, require
from aleator.words import By

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

app = typer.Typer(help="Describe, split or convert interactions.", no_args_is_help=True)


@app.command()
@reads
def describe(
    dataset: DATASET,
    data_root: DATA_ROOT = None,
    tail: TAIL = None,
    json: JSON = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Show the numbers of users, items and pairs in the files, and which items are tail items."""
    from aleator.data import catalog
    from aleator.data.opening import open_dataset
    from aleator.data.tail import DEFAULT_TAIL

    opened = open_dataset(dataset, data_root, **reading)
    about = described(opened, al.Tail.parse(tail) if tail else DEFAULT_TAIL)
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


def described(opened: al.Split | al.Interactions, tail: al.Tail) -> dict[str, Any]:
    """What `describe --json` prints."""
    if isinstance(opened, al.Split):
        everything = opened.everything
        parts = _parts(opened)
        counts = opened.counts or {name: len(part) for name, part in parts.items()}
        notes = [note for part in parts.values() for note in part.notes]
    else:
        everything = opened
        counts = {"train": len(opened), "valid": 0, "test": 0}
        notes = list(opened.notes)
    return {
        "users": everything.n_users,
        "items": everything.n_items,
        **counts,
        "tail": _about_tail(tail, everything.popularity),
        "notes": list(dict.fromkeys(notes)),  # the parts of a split share some notes
    }


def _parts(split: al.Split) -> dict[str, al.Interactions]:
    return {"train": split.train, "valid": split.valid, "test": split.test}


def _about_tail(tail: al.Tail, popularity: NDArray[np.int64]) -> dict[str, Any]:
    mask = tail.mask(popularity)
    return {
        "rule": str(tail),
        "cut": tail.cut(popularity),
        "items": float(mask.mean()),
        "interactions": float(popularity[mask].sum() / popularity.sum()),
        "text": tail.describe(popularity),
    }


@app.command()
@reads
def split(
    dataset: DATASET,
    out: Annotated[Path, typer.Option(help="New folder for the train, valid and test files.")],
    by: Annotated[By, typer.Option(help="Which pairs are held out: random pairs, or the latest ones.")] = "random",
    valid: Annotated[float, typer.Option(help="Share of all pairs for validation.")] = 0.1,
    test: Annotated[float, typer.Option(help="Share of all pairs for the test.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Seed of the random draws.")] = 0,
    format: Annotated[str, typer.Option(help="Format of the files: csv, tsv, parquet, inter or npz.")] = "parquet",
    json: JSON = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Split a file of interactions into train, validation and test files."""
    from aleator.data.formats import check_place
    from aleator.data.opening import open_file

    check_place(out / f"train.{format}", folder_exists=False)
    free = not out.exists() or (out.is_dir() and not any(out.iterdir()))
    require(free, f"'{out}' is not empty", "give a new folder")
    opened = open_file(dataset, **reading)
    if reading.get("min_rating") is not None:
        opened = replace(opened, rating=None)  # the ratings have done their work
    made = opened.split(valid=valid, test=test, by=by, seed=seed)
    of_items = [name for name in ("titles", "attributes") if name in reading]
    notes = [*opened.notes, *(f"{name} are not written; give --{name} to fit" for name in of_items)]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AleatorError(f"the folder '{out}' cannot be made ({error})", "give another place") from None
    written = {}
    for name, part in _parts(made).items():
        if len(part):
            al.write(part, out / f"{name}.{format}")
            written[name] = len(part)
    if json:
        show_json({"out": str(out), **written, "notes": notes})
        return
    for note in notes:
        print(f"note: {note}")
    print(f"{out}: " + ", ".join(f"{name} {count:,}" for name, count in written.items()) + " pairs")


@app.command()
@reads
def convert(
    source: Annotated[str, typer.Argument(help="File of interactions.")],
    target: Annotated[Path, typer.Argument(help="File to write. It ends in csv, tsv, parquet, inter or npz.")],
    json: JSON = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Convert a file of interactions to another format."""
    from aleator.data.formats import check_place
    from aleator.data.opening import open_file

    check_place(target)
    opened = open_file(source, **reading)
    al.write(opened, target)
    if json:
        show_json({"out": str(target), "pairs": len(opened), "notes": list(opened.notes)})
    else:
        print(f"{target}: {len(opened):,} pairs")
        for note in opened.notes:
            print(f"note: {note}")
