"""Cornac: a fitted model. Its training set has the ids."""

from __future__ import annotations

from typing import Any

import numpy as np

from aleator.errors import AleatorError

_DOT = "dot product"  # so begins what Cornac calls an inner product


def from_cornac(model: Any) -> tuple[Any, Any, Any]:
    """Its vectors if scores are inner products of them, and else a function; with the ids of users and items.

    The vectors leave out what is the same for all items of a user, so the order of the items stays.
    """
    if getattr(model, "uid_map", None) is None:
        raise AleatorError(f"the {type(model).__name__} of Cornac is not fitted", "call its fit first")
    users, items = list(model.uid_map), list(model.iid_map)
    if hasattr(model, "get_user_vectors") and str(model.get_vector_measure()).startswith(_DOT):
        x, y = model.get_user_vectors(), model.get_item_vectors()
        return (x[list(model.uid_map.values())], y[list(model.iid_map.values())]), users, items
    columns = list(model.iid_map.values())

    def function(asked: Any) -> Any:
        return np.stack([np.asarray(model.score(model.uid_map[user]))[columns] for user in asked])

    return function, users, items
