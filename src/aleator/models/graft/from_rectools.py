"""RecTools: a fitted model with the Dataset that it was fitted on. The dataset has the ids."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from aleator.errors import AleatorError
from aleator.models.graft.base import lowest_for_none

_DOT = "dot"  # what RecTools calls an inner product


def from_rectools(model: Any, dataset: Any) -> tuple[Any, Any, Any]:
    """Its vectors if scores are inner products of them, and else a function; with the ids of users and items."""
    if dataset is None:
        raise AleatorError(
            f"a {type(model).__name__} of RecTools has no ids", "give it with its dataset: (model, dataset)"
        )
    if not model.is_fitted:
        raise AleatorError(f"the {type(model).__name__} of RecTools is not fitted", "call its fit first")
    users, items = dataset.user_id_map.external_ids, dataset.item_id_map.external_ids
    if getattr(model, "u2i_dist", None) == _DOT:
        takes = inspect.signature(model.get_vectors).parameters  # of LightFM: the dataset, for its features
        return model.get_vectors(*[dataset] * ("dataset" in takes)), users, items
    column = {item: place for place, item in enumerate(items)}

    def function(asked: Any) -> Any:
        row = {user: place for place, user in enumerate(asked)}
        listed = model.recommend(asked, dataset, k=len(items), filter_viewed=False, on_unsupported_targets="ignore")
        scores = np.full((len(asked), len(items)), np.nan, np.float32)
        scores[listed["user_id"].map(row), listed["item_id"].map(column)] = listed["score"]
        return lowest_for_none(scores)

    return function, users, items
