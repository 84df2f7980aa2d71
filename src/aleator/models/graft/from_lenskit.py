"""LensKit (2025): a trained pipeline, or a trained ImplicitMFScorer."""

from __future__ import annotations

from typing import Any

import numpy as np

from aleator.errors import AleatorError
from aleator.models.graft.base import lowest_for_none


def from_lenskit(model: Any) -> tuple[Any, Any, Any]:
    """Factors of ImplicitMFScorer, or a function that runs a pipeline; with the ids of users and items.

    An item that the pipeline does not score gets the lowest score of the user. All are 0 if it scores none.
    """
    if type(model).__name__ == "ImplicitMFScorer":
        if getattr(model, "user_embeddings", None) is None:
            raise AleatorError("the ImplicitMFScorer has no user factors", "train it, with user_embeddings on")
        return (model.user_embeddings, model.item_embeddings), model.users.ids(), model.items.ids()
    if type(model).__name__ != "Pipeline":
        raise AleatorError(
            f"a {type(model).__name__} of LensKit cannot be grafted alone", "graft its trained topn_pipeline"
        )
    scorer = model.component("scorer")
    if getattr(scorer, "items", None) is None:
        raise AleatorError("the scorer of the pipeline is not trained", "call its train first")
    items = scorer.items.ids()

    def function(users: Any) -> Any:
        from lenskit import score

        found = np.stack([score(model, user, items).scores() for user in users]).astype(np.float32)
        return lowest_for_none(found)

    users = getattr(scorer, "users", None)
    return function, None if users is None else users.ids(), items
