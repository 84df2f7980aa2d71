"""A function that scores users, such as a call to a service."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from aleator.batches import Users
from aleator.errors import AleatorError, require
from aleator.models.graft.base import Grafted, numbers
from aleator.training.stop import Stop


@dataclass(kw_only=True, eq=False, repr=False)
class GraftedFunction(Grafted):
    """r_ui from a function of user ids, calibrated to the label's scale (Zadrozny and Elkan, 2002).

    The function is not saved. After loading, give it again with `attach`.
    """

    function: Callable[[Any], Any] | None = field(default=None, init=False)
    columns: Tensor = field(init=False)  # [n_items] the function's column of each item, -1 for none
    width: int = field(default=0, init=False)  # number of columns of the function
    last: tuple[Tensor, Tensor] | None = field(default=None, init=False)  # the last batch, and its scores

    learned: ClassVar[Mapping[str, str]] = {"known": "[n_users] bool", "columns": "[n_items] int64"}
    facts: ClassVar[tuple[str, ...]] = (*Grafted.facts, "width")
    scores_histories: ClassVar[bool] = False
    strangers: ClassVar[str] = "are unknown to the model and get each item's share of the users"

    def attach(self, function: Callable[[Any], Any]) -> None:
        """Give a loaded graft its function again. It must have the same users and items, in the same order."""
        self.function, self.last = function, None

    def learn(self, stop: Stop) -> None:
        self.attach(self.open_source())
        self.width = self.fitted.n_items if self.item_ids is None else len(self.item_ids)
        _, columns = self.places(self.fitted.n_users if self.user_ids is None else len(self.user_ids), self.width)
        self.columns = torch.from_numpy(columns).to(self.torch_device)

    def raw_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        last = self.last
        if last is None or last[0] is not users.index:  # an estimator asks for the columns of a batch part by part
            last = self.last = users.index, self._whole(users)
        return last[1].clone() if items is None else last[1][:, items]

    def _whole(self, users: Users) -> Tensor:
        """Scores of all items, [B, n_items]. An item that the function does not have gets the user's lowest score."""
        scores = torch.zeros((len(users), len(self.columns)), device=self.columns.device)
        asked = ((users.index >= 0) & self.known[users.index]).nonzero().squeeze(1)
        if len(asked):
            found = self._called(users.index[asked]).to(scores)
            scores[asked] = torch.where(self.columns < 0, found.amin(1, keepdim=True), found[:, self.columns])
        return scores

    def _called(self, index: Tensor) -> Tensor:
        """[n, width] what the function returns for the users `index` (dense ids)."""
        if self.function is None:
            raise AleatorError("a grafted function is not saved", "give it again with the model's attach")
        found = numbers(self.function(self.fitted.users.decode(index.cpu().numpy())), "scores of the function")
        require(
            found.shape == (len(index), self.width),
            f"the function gave scores of shape {tuple(found.shape)} for {len(index)} users and {self.width} items",
            "give items=, the item ids of its columns in their order",
        )
        return found

    def set_tensors(self, tensors: dict[str, Tensor]) -> None:
        super().set_tensors(tensors)
        if not -1 <= int(self.columns.min()) <= int(self.columns.max()) < self.width:
            raise ValueError("columns are not among those of the function")

    def pack(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        warnings.warn(
            "the grafted function is not saved: give it again after loading, with the model's attach", stacklevel=2
        )
        return super().pack()
