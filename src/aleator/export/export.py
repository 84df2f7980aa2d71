"""export: the vectors of a fitted model as files or as an index, in a folder that is complete or not there."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, get_args

from aleator.errors import AleatorError, need, require, unknown_name
from aleator.export.manifest import Index, is_export, write_manifest
from aleator.words import Target

if TYPE_CHECKING:
    from aleator.checkpoint import Path_
    from aleator.export.items import Items
    from aleator.recommender import Recommender


class Writer(Protocol):
    """What the file of a target has."""

    LIBRARY: str  # the module that it needs
    PACKAGE: str  # what to install for that

    def write(self, folder: Path, items: Items) -> Index:
        """Write the items into a folder."""


def export(
    model: Recommender,
    out: Path_,
    to: Target = "parquet",
    *,
    lam: float | None = None,
    rank: int | None = None,
    users: bool = True,
) -> dict[str, Any]:
    """Write the vectors of a fitted model to a folder, as files or as an index of nearest neighbours.

    The inner product of a user's and an item's vector is the score. The folder holds the trained items with their ids,
    popularity, tail and titles, the vectors of all users, and manifest.json. The manifest has the fingerprint of the
    model, and says what a client has to do. If the export fails, an older one in the folder stays as it was.

    Args:
        model: A fitted recommender that has vectors; see `vectors`.
        out: Where to write. It must be new or empty, or hold an export, which is replaced.
        to: "parquet" or "npy" for files, or an index: "faiss" (exact), "usearch" (HNSW, approximate), "lancedb" (a table
            that is scanned, exact) or "qdrant" (its local mode, exact).
        lam: The knob of the users' vectors, of an AUR. By default `lam_used`. It changes nothing about the items.
        rank: For models with an item-item matrix alone: the dimensions of an approximation; see `vectors`.
        users: Whether to write the users' vectors.

    Returns:
        The manifest.
    """
    from aleator import checkpoint
    from aleator.aur import AUR
    from aleator.export import to_npy, to_parquet
    from aleator.export.items import items_of, users_of
    from aleator.recommender import Recommender

    kind = type(model).__name__
    require(
        isinstance(model, Recommender), f"the model is a {kind}", "give a fitted one, such as al.load_model returns"
    )
    if to not in get_args(Target):
        raise unknown_name("target", str(to), get_args(Target))
    require(
        users or lam is None, "lam was given without users", "leave lam out: it is part of the users' vectors alone"
    )
    writer: Writer = import_module(f"aleator.export.to_{to}")
    need(writer.LIBRARY, f"an export to {to}", writer.PACKAGE)
    checkpoint.check_folder(out, "an export", is_export)
    turned = model if lam is None else model.at(lam)
    found = turned.vectors([], rank=rank)
    items, n_users = items_of(turned, found), model.fitted.n_users if users else 0
    about = {
        "to": to,
        "model": kind,
        "fingerprint": model.fingerprint,
        "dim": items.dim,
        "items": len(items),
        "columns": list(items.columns),
        "users": n_users,
        "lam": turned.lam_used if users and isinstance(turned, AUR) else None,
        "rank": None if rank is None else int(rank),
        "recall": found.recall,
    }
    try:
        with checkpoint.replacing(Path(out)) as folder:
            index = writer.write(folder, items)
            client = _for_clients(about)
            if users:
                write_users = to_npy.write_users if to == "npy" else to_parquet.write_users
                client.insert(0, write_users(folder, users_of(turned, items.dim, rank), n_users))
            return write_manifest(folder, index, about, client)
    except OSError as error:
        raise AleatorError(f"the export to '{out}' failed ({error})", "make room there or give another place") from None


def _for_clients(about: dict[str, Any]) -> list[str]:
    """What every client has to do."""
    rank = "" if about["rank"] is None else f", rank={about['rank']}"
    told = [
        "rank items by their inner product with the vector of a user, the highest first: no cosine, nothing normalised",
        "leave out what the user has taken already",
        f"a newcomer's vector is model.user_vector(history{rank})",
        "a user without a history has 1 in the last place and 0 elsewhere, and gets the popular items",
        "when the model is fitted again, export again: al.check_export(folder, model) compares the fingerprints",
    ]
    if about["lam"] is not None:
        told.append(f"the users' vectors are at lam {about['lam']:g}; another lam changes them, and not the items")
    return told
