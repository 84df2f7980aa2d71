"""aleator export: the vectors of a saved model, as files or as an index of nearest neighbours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import aleator as al
from aleator.cli.options import JSON, show_json
from aleator.cli.verbs import DEVICE, MODEL_FOLDER
from aleator.words import Target


def export(
    folder: MODEL_FOLDER,
    out: Annotated[Path, typer.Option(help="Folder to write to. An older export there is replaced.")],
    to: Annotated[Target, typer.Option(help="Files (parquet, npy), or an index of that library.")] = "parquet",
    lam: Annotated[
        float | None,
        typer.Option(help="The knob of the users' vectors: 1 is the expectation alone, 0 the uncertainty."),
    ] = None,
    rank: Annotated[
        int | None, typer.Option(help="For models with an item-item matrix: dimensions of an approximation.")
    ] = None,
    users: Annotated[bool, typer.Option(help="Write the users' vectors too.")] = True,
    device: DEVICE = "auto",
    json: JSON = False,
) -> None:
    """Write the vectors of a saved model as files, or as an index of nearest neighbours."""
    manifest = al.export(al.load_model(folder, device), out, to, lam=lam, rank=rank, users=users)
    if json:
        show_json(manifest)
        return
    for step in manifest["client"]:
        print(f"- {step}")
    if manifest["recall"] is not None:
        print(f"rank {rank} keeps {manifest['recall']:.1%} of the first 20 items of the exact lists")
    sizes = f"{manifest['items']:,} items and {manifest['users']:,} users as vectors of {manifest['dim']:,} numbers"
    print(f"{sizes} ({to}: {manifest['index']}); saved in {out}")
