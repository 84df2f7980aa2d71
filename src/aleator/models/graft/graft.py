"""graft: a model from a recommender that was fitted elsewhere. Its attributes and type say what kind it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp
from torch import Tensor
from torch.nn import Module

from aleator.data.arrays import flat
from aleator.data.frames import opened
from aleator.data.sparse import read_sparse
from aleator.data.vocabulary import Vocabulary
from aleator.errors import AleatorError, require
from aleator.models.graft.base import Grafted, numbers
from aleator.models.graft.factors import GraftedFactors
from aleator.models.graft.files import TABLES, read_factors, read_ids, read_scores, read_spark
from aleator.models.graft.from_cornac import from_cornac
from aleator.models.graft.from_lenskit import from_lenskit
from aleator.models.graft.from_networks import from_module, from_onnx
from aleator.models.graft.from_rectools import from_rectools
from aleator.models.graft.function import GraftedFunction
from aleator.models.graft.similarities import GraftedSimilarities
from aleator.models.graft.table import GraftedTable
from aleator.recommender import Recommender

GRAFTS = (GraftedFactors, GraftedFunction, GraftedSimilarities, GraftedTable)
_UNFITTED = "the model to be grafted is not fitted", "fit it first"
_TAKES = "give (user factors, item factors), an item-item matrix, a fitted model of implicit, a table or a function"


@runtime_checkable
class HasFactors(Protocol):
    """ALS, BPR and other factor models of implicit."""

    user_factors: Any
    item_factors: Any


@runtime_checkable
class HasSimilarity(Protocol):
    """Item-item recommenders of implicit."""

    similarity: Any


@runtime_checkable
class HasColumns(Protocol):
    """Frames."""

    columns: Any


def graft(model: Any, *, users: Any = None, items: Any = None, **options: Any) -> Grafted:
    """Make a model out of a recommender that was fitted elsewhere.

    The recommender is not trained again. `AUR(graft(...)).fit(split)` trains only the estimator on top of it.

    `model` is one of:

    - a pair (user factors, item factors), or a fitted model of implicit that has factors, such as ALS or BPR
    - an item-item matrix, dense or sparse, or a fitted item-item recommender of implicit; a score is a history times it
    - a frame of candidates with the columns user_id, item_id and score
    - a path, or a pair of them: factors (.npy, .safetensors, or .parquet with the columns id and features), a folder of
      Spark's ALS, an item-item matrix (.npz of scipy), or a table of scores (.csv, .tsv or .parquet)
    - a function that takes an array of user ids and returns their scores, [n, n_items]
    - a trained pipeline or ImplicitMFScorer of LensKit, or a fitted model of Cornac; their ids come with them
    - a pair (model, dataset) of RecTools; the dataset has the ids
    - a torch module, or the path of an ONNX file, that takes row numbers of users and returns their scores

    Args:
        model: The fitted recommender.
        users: External ids of its users, in the order of its rows. Without them, it must have as many users as the data,
            in the order of the data's ids. If the rows have ids 0, 1, ... of their own, as in Spark, these are
            the names of the numbers. A path names a file of ids: .npy, .parquet, or a text with an id on each line.
        items: External ids of its items, in the order of its rows (for a function, of its columns). Without them, it
            must have as many items as the data, in the order of the data's ids.
        **options: `calibrate` is the map of its scores onto the label's scale: "linear" (the default), "isotonic" or
            "none". `mu`, `seed` and `device` mean the same as in every model.

    Returns:
        A model that `al.AUR` takes. `fit` matches its ids with the data, and its `notes` say what did not match.

    Example:
        >>> graft((np.eye(3), np.ones((4, 3))), items=["a", "b", "c", "d"])
        GraftedFactors()
    """
    require(not isinstance(model, Recommender), "a model of aleator needs no graft", "give it to al.AUR as it is")
    if isinstance(model, type):
        raise AleatorError(f"{model.__name__} is a class", "give a fitted model of it")
    users, items = (read_ids(Path(ids)) if isinstance(ids, (str, Path)) else ids for ids in (users, items))
    model, own_users, own_items = _read(model, users)
    numbered = not callable(model)  # a function is asked by the ids of its library
    users, items = _named("user", own_users, users, numbered), _named("item", own_items, items, numbered)
    made: Grafted
    if (pair := _pair(model)) is not None:
        made, source = GraftedFactors(**options), _factors(*pair)
    elif isinstance(model, HasSimilarity) or sp.issparse(model) or isinstance(model, (np.ndarray, Tensor)):
        require(users is None, "users= was given with an item-item matrix", "leave it out")
        matrix = model.similarity if isinstance(model, HasSimilarity) else model
        made, source = GraftedSimilarities(**options), _similarities(matrix)
    elif callable(model):
        made, source = GraftedFunction(**options), model
    else:
        require(isinstance(model, HasColumns), f"a {type(model).__name__} cannot be grafted", _TAKES)
        require(users is None and items is None, "users= or items= was given with a table", "leave them out")
        made = GraftedTable(**options)
        source, users, items = _table(model)
    made.source = source
    made.user_ids, made.item_ids = (None if ids is None else flat(ids) for ids in (users, items))
    return made


def _read(model: Any, given_users: Any) -> tuple[Any, Any, Any]:
    """What a path, a pair of paths or a model of another library leads to, with the ids of users and items there.

    A library is known by the module of the class, so it is not imported.
    """
    pair = isinstance(model, (tuple, list)) and len(model) == 2
    library = type(model[0] if pair else model).__module__.partition(".")[0]
    if library == "rectools":
        return from_rectools(*model) if pair else from_rectools(model, None)
    if library in ("lenskit", "cornac"):
        return from_lenskit(model) if library == "lenskit" else from_cornac(model)
    if isinstance(model, Module):
        return from_module(model, given_users), None, None
    if pair and all(isinstance(side, (str, Path)) for side in model):
        (x, users), (y, items) = (read_factors(Path(side)) for side in model)
        return (x, y), users, items
    return _read_path(Path(model), given_users) if isinstance(model, (str, Path)) else (model, None, None)


def _read_path(path: Path, given_users: Any) -> tuple[Any, Any, Any]:
    """What a path leads to, with the ids of users and items there."""
    if path.suffix == ".onnx":
        return from_onnx(path, given_users), None, None
    if path.is_dir():
        (x, users), (y, items) = read_spark(path)
        return (x, y), users, items
    told = f"'{path}' cannot be grafted"
    require(
        path.suffix in (".npz", *TABLES),
        told,
        f"give two files of factors, a .npz matrix or a table ({', '.join(TABLES)})",
    )
    return (read_sparse if path.suffix == ".npz" else read_scores)(path), None, None


def _named(kind: str, own: Any, given: Any, numbered: bool) -> Any:
    """The ids of users or items (`kind`): `own` of the source, or those `given`.

    Where there are both, `own` must be `numbered`: places in the list of those given, as Spark's StringIndexer makes.
    """
    if own is None or given is None:
        return given if own is None else own
    own, given = flat(own), flat(given)
    require(
        numbered and own.dtype.kind in "iu" and own.min() >= 0 and own.max() < len(given),
        f"the {kind}s of the model have ids of their own, such as {own[:1].tolist()}, and {len(given)} others were given",
        f"leave out {kind}s=; only where its own ids are numbers from 0 on, {kind}s= may name each number",
    )
    return given[own]


def _pair(model: Any) -> tuple[Any, Any] | None:
    """The user and item factors of what was given, or None if it has none."""
    if isinstance(model, (tuple, list)):
        require(len(model) == 2, f"a {type(model).__name__} of {len(model)} cannot be grafted", _TAKES)
        return model[0], model[1]
    if isinstance(model, HasFactors):
        return model.user_factors, model.item_factors
    return None


def _factors(users: Any, items: Any) -> tuple[Tensor, Tensor]:
    """The factors as tensors, with as many dimensions each."""
    require(users is not None and items is not None, *_UNFITTED)
    x, y = numbers(users, "user factors").cpu(), numbers(items, "item factors").cpu()
    require(
        x.shape[1] == y.shape[1],
        f"the user factors have {x.shape[1]} dimensions and the item factors {y.shape[1]}",
        "give matrices of users by dimensions and of items by dimensions",
    )
    return x, y


def _similarities(given: Any) -> Any:
    """A copy of a square item-item matrix with a zero diagonal, so that an item adds nothing to its own score."""
    require(given is not None, *_UNFITTED)
    if sp.issparse(given):
        made = sp.csr_matrix(given, dtype=np.float32, copy=True)
        made.setdiag(0)
        made.eliminate_zeros()
        require(
            bool(np.isfinite(made.data).all()), "not all the similarities are finite", "check how they were computed"
        )
    else:
        made = numbers(given, "similarities").cpu()
        made.fill_diagonal_(0)
    rows, columns = made.shape
    require(rows == columns, f"the item-item matrix has {rows} rows and {columns} columns", "give a square matrix")
    return made


def _table(given: Any) -> tuple[sp.coo_matrix, Any, Any]:
    """The scores of a table of candidates, [users, items], and the ids of both."""
    frame = opened(given, "user_id", "item_id", "score")
    require(len(frame) > 0, "the table of candidates has no rows", "give at least one candidate")
    users, user = Vocabulary.of(frame["user_id"].to_numpy(), "user")
    items, item = Vocabulary.of(frame["item_id"].to_numpy(), "item")
    try:
        score = frame["score"].to_numpy().astype(np.float32)
    except (TypeError, ValueError):
        raise AleatorError("the score column of the table holds no numbers", "give numbers") from None
    require(bool(np.isfinite(score).all()), "a score of the table is missing or not finite", "drop those rows")
    cell = user.astype(np.int64) * len(items) + item
    order = np.argsort(cell, kind="stable")
    twice = order[1:][np.diff(cell[order]) == 0]
    require(
        not len(twice),
        f"{len(twice)} pairs are twice in the table, such as "
        f"{users.decode(user[twice[:1]]).tolist()} and {items.decode(item[twice[:1]]).tolist()}",
        "give each pair once",
    )
    return sp.coo_matrix((score, (user, item)), (len(users), len(items))), users.ids, items.ids
