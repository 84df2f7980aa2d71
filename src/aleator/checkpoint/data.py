"""Interactions as tensors, for a folder: histories, ids, titles and attributes."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from aleator.checkpoint.checks import fit, fit_rows, typed
from aleator.data.attributes import Attribute
from aleator.data.interactions import Array, Interactions
from aleator.data.vocabulary import Vocabulary
from aleator.errors import AleatorError

_AT_A_TIME = 1 << 14  # texts that are Python objects at a time: each then takes five times as much memory


@dataclass(frozen=True)
class About:
    """What a manifest says of the interactions."""

    users: int
    items: int
    pairs: int
    fingerprint: str
    frame: Literal["pandas", "polars", "pyarrow"] | None = None
    attributes: list[str] = field(default_factory=list)  # their names; folders of older versions have none


def pack_data(data: Interactions) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Interactions as a dict for JSON and as tensors: histories, ids, titles and attributes, which serving needs."""
    tensors = {
        "data.indptr": torch.from_numpy(data.csr.indptr.astype(np.int64)),
        "data.item": torch.from_numpy(data.csr.indices.astype(np.int32, copy=False)),
        **_pack_ids("data.users", data.users.ids),
        **_pack_ids("data.items", data.items.ids),
    }
    if data.weight is not None:
        tensors["data.weight"] = torch.from_numpy(data.csr.data.astype(np.float32, copy=False))
    if data.titles is not None:
        tensors |= _pack_ids("data.titles", data.titles)
    for number, attribute in enumerate(data.attributes.values()):
        tensors[f"data.attribute.{number}.item"] = torch.from_numpy(attribute.item)
        tensors |= _pack_ids(f"data.attribute.{number}", attribute.values)
    about = {
        "users": data.n_users,
        "items": data.n_items,
        "pairs": len(data),
        "fingerprint": data.fingerprint,
        "frame": data.frame,
        "attributes": list(data.attributes),
    }
    return about, tensors


def unpack_data(about: dict[str, Any], tensors: dict[str, Tensor]) -> Interactions:
    """The interactions that `pack_data` packed, with their rows in the order of the ids.

    What does not fit raises a ValueError. The tensors may be mapped files: what is made of them takes little more memory.
    """
    said: About = typed(About, about, "data")
    weighted, titled = "data.weight" in tensors, "data.titles" in tensors or "data.titles.text" in tensors
    shapes = {"data.indptr": "[n_users + 1] int64", "data.item": "[n_pairs] int32"}
    shapes |= {"data.weight": "[n_pairs]"} if weighted else {}
    fit(tensors, shapes, n_users=said.users, n_pairs=said.pairs)
    fit_rows(tensors["data.indptr"], tensors["data.item"], said.items)
    start, item = tensors["data.indptr"].numpy(), tensors["data.item"].numpy()
    weight = tensors["data.weight"].numpy() if weighted else None
    _require_each_once(start, item)
    right = weight is None or bool(((weight > 0) & (weight < np.inf)).all())
    _require(right, "a weight is not positive and finite")
    users, items = _unpack_ids("data.users", said.users, tensors), _unpack_ids("data.items", said.items, tensors)
    _require(_are_ids(users) and _are_ids(items), "an id occurs twice, or is no id")
    made = Interactions(
        np.repeat(np.arange(said.users, dtype=np.int32), np.diff(start)),
        item,
        Vocabulary(users),
        Vocabulary(items),
        weight=weight,
        titles=_unpack_ids("data.titles", said.items, tensors) if titled else None,
        frame=said.frame,
        attributes={
            name: _unpack_attribute(f"data.attribute.{number}", said.items, tensors)
            for number, name in enumerate(said.attributes)
        },
    )
    values = np.ones(said.pairs, np.float32) if weight is None else weight
    object.__setattr__(made, "csr", sp.csr_matrix((values, item, start), (said.users, said.items)))  # it is at hand
    return made


def _unpack_attribute(name: str, n_items: int, tensors: dict[str, Tensor]) -> Attribute:
    """The values of an attribute. Their items ascend."""
    item = tensors[f"{name}.item"]
    fit(tensors, {f"{name}.item": "[n] int32"})
    inside = not len(item) or 0 <= int(item.min()) <= int(item.max()) < n_items
    _require(inside and bool((item[1:] >= item[:-1]).all()), f"the items of {name} do not fit")
    return Attribute(item.numpy(), _unpack_ids(name, len(item), tensors))


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise ValueError(problem)


def _require_each_once(start: Array, item: Array) -> None:
    """The items of each history must ascend."""
    rises = item[1:] > item[:-1]
    first = start[(start > 0) & (start < len(item))] - 1  # the places before the first item of a history
    rises[first] = True
    _require(bool(rises.all()), "the items of a history are not in order")


def _are_ids(ids: Array) -> bool:
    """Whether these are texts, integers or finite numbers, each once."""
    of_kind = ids.dtype.kind in "Tiu" or (ids.dtype.kind == "f" and bool(np.isfinite(ids).all()))
    in_order = bool((ids[1:] > ids[:-1]).all())  # those of an update follow the others, out of order
    return of_kind and (in_order or len(np.unique(ids)) == len(ids))


def _pack_ids(name: str, ids: Array) -> dict[str, Tensor]:
    if ids.dtype.kind != "T":
        try:
            return {name: torch.from_numpy(ids)}
        except TypeError:
            raise AleatorError(f"ids of type {ids.dtype} cannot be saved", "make the ids integers or strings") from None
    texts = [text.encode() for text in ids.tolist()]
    ends = np.cumsum([len(text) for text in texts])
    joined = np.frombuffer(b"".join(texts), np.uint8).copy()
    return {f"{name}.text": torch.from_numpy(joined), f"{name}.end": torch.from_numpy(ends.astype(np.int64))}


def _unpack_ids(name: str, n: int, tensors: dict[str, Tensor]) -> Array:
    if name in tensors:
        _require(tensors[name].shape == (n,), f"{name} has not {n} ids")
        return tensors[name].numpy()
    fit(tensors, {f"{name}.text": "[bytes] uint8", f"{name}.end": "[n] int64"}, n=n)
    joined, ends = tensors[f"{name}.text"].numpy().data, tensors[f"{name}.end"]
    starts = torch.cat([ends.new_zeros(1), ends])
    fit_rows(starts, tensors[f"{name}.text"], 256)
    ids = np.empty(n, np.dtypes.StringDType())
    for first in range(0, n, _AT_A_TIME):
        edges = starts[first : first + _AT_A_TIME + 1].tolist()
        ids[first : first + _AT_A_TIME] = [bytes(joined[a:b]).decode() for a, b in pairwise(edges)]
    return ids
