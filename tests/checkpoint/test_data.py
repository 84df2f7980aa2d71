"""Interactions as tensors: they come back as they were, and what does not fit is refused before it is used."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from aleator import checkpoint
from aleator.data.interactions import Interactions


@pytest.mark.parametrize(
    ("user", "item"),
    [
        (["b", "a", "a", "ünïcode ☃"], ["x", "", "y y", "x\ny"]),
        ([3, 1, 1, 2**40], [-5, 7, 0, 9]),
        (np.array([3, 1, 1, 7], np.uint64), [1.5, 2.5, 3.0, 1.5]),
    ],
)
def test_interactions_come_back_with_their_ids_weights_and_titles(user: Any, item: Any) -> None:
    data = Interactions.of(user, item, weight=[1.0, 2.0, 0.5, 1.5], frame="pandas")
    data = data.with_titles({data.items.decode([0])[0]: "Ein Film", data.items.decode([1])[0]: ""})
    about, tensors = checkpoint.pack_data(data)
    back = checkpoint.unpack_data(json.loads(json.dumps(about)), tensors)
    assert back.fingerprint == data.fingerprint == about["fingerprint"]
    assert (back.csr != data.csr).nnz == 0
    assert back.users == data.users
    assert back.items == data.items
    assert back.users.ids.dtype == data.users.ids.dtype
    assert back.titles is not None
    assert data.titles is not None
    assert back.titles.tolist() == data.titles.tolist()
    assert back.frame == "pandas"


def test_unweighted_interactions_stay_unweighted() -> None:
    about, tensors = checkpoint.pack_data(Interactions.of([1, 2], [3, 4]))
    back = checkpoint.unpack_data(about, tensors)
    assert back.weight is None
    assert back.titles is None


def test_the_matrix_is_the_one_that_the_rows_give() -> None:
    """It is made of the saved rows, without sorting them again."""
    data = Interactions.of(["b", "a", "a", "c"], [3, 1, 2, 1], weight=[1.0, 2.0, 0.5, 1.5])
    back = checkpoint.unpack_data(*checkpoint.pack_data(data))
    again = Interactions(back.user, back.item, back.users, back.items, weight=back.weight).csr
    for part in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(back.csr, part), getattr(again, part))
        assert getattr(back.csr, part).dtype == getattr(again, part).dtype


def put(name: str, value: Any) -> Callable[[dict[str, Any], dict[str, Tensor]], None]:
    """A change of one tensor, or of what the manifest says."""

    def change(about: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        if name in about:
            about[name] = value
        else:
            assert name in tensors
            tensors[name] = torch.tensor(value, dtype=tensors[name].dtype)

    return change


@pytest.mark.parametrize(
    "change",
    [
        put("users", 2),
        put("users", "3"),
        put("items", 2),
        put("items", 4),
        put("items", -1),
        put("pairs", 5),
        put("frame", "excel"),
        put("fingerprint", None),
        put("data.indptr", [0, 1, 0, 4]),
        put("data.indptr", [0, 1, 1 << 60, 4]),
        put("data.indptr", [0, 1, 4]),
        put("data.item", [0, 1, 0, 3]),
        put("data.item", [0, 1, 0, -1]),
        put("data.item", [0, 0, 0, 2]),  # twice in the history of a user
        put("data.item", [0, 1, 0, 2]),  # not in order
        put("data.weight", [1.0, 0.0, 1.0, 1.0]),
        put("data.weight", [1.0, float("nan"), 1.0, 1.0]),
        put("data.weight", [1.0, float("inf"), 1.0, 1.0]),
        put("data.weight", [1.0, 1.0]),
        put("data.users.text", [97, 98, 0xFF]),
        put("data.users.text", [98, 98, 99]),  # one twice
        put("data.users.text", [97, 97, 99]),  # twice
        put("data.users.end", [1, 2, 4]),
        put("data.users.end", [1, 0, 3]),
        put("data.users.end", [-1, 2, 3]),
        put("data.users.end", [1, 3]),
        put("data.items", [5, 7, 7]),
        put("data.items", [7, 5, 5]),
        put("data.items", [5, 7]),
        put("data.titles.end", [1, 2]),
        lambda about, tensors: about.pop("users"),
        lambda about, tensors: about.update(more=1),
        lambda about, tensors: tensors.pop("data.indptr"),
        lambda about, tensors: tensors.pop("data.users.end"),
        lambda about, tensors: tensors.update({"data.item": tensors["data.item"].long()}),
        lambda about, tensors: tensors.update({"data.users.text": tensors["data.users.text"].view(3, 1)}),
        lambda about, tensors: tensors.update({"data.items": tensors["data.items"].bool()}),
    ],
)
def test_what_does_not_fit_is_refused(change: Callable[[dict[str, Any], dict[str, Tensor]], None]) -> None:
    data = Interactions.of(["a", "b", "b", "c"], [5, 7, 5, 9], weight=[1.0, 2.0, 0.5, 1.5])
    data = data.with_titles({5: "x", 7: "y", 9: "z"})
    about, tensors = checkpoint.pack_data(data)
    assert checkpoint.unpack_data(dict(about), dict(tensors)).fingerprint == data.fingerprint
    change(about, tensors)
    with pytest.raises((ValueError, KeyError, TypeError)):
        checkpoint.unpack_data(about, tensors)
