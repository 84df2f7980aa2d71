"""What every recommender is: fit, score, recommend, save, load."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy
import torch
from torch import Tensor

from aleator import checkpoint
from aleator.batches import Histories, Users
from aleator.data.frames import to_frame
from aleator.data.interactions import Interactions
from aleator.data.splits import Split
from aleator.data.tail import DEFAULT_TAIL
from aleator.data.vocabulary import check_ids
from aleator.device import budget, resolve_device
from aleator.errors import AleatorError, require
from aleator.evaluation.held_out import HeldOut
from aleator.options import Configurable
from aleator.ranking.rerank import Missing, rerank
from aleator.ranking.top import best, blocks
from aleator.recipe import DEFAULT_RECIPE, Recipe, RecipeName, recipe_of
from aleator.training.loop import Log
from aleator.version import __version__

if TYPE_CHECKING:
    from aleator.models.cache import ModelCache

Who = Sequence[Any] | Mapping[Any, Sequence[Any]] | Users  # ids, histories of new users by name, or a batch


@dataclass(kw_only=True, eq=False, repr=False)
class Recommender(Configurable, ABC):
    """Anything that scores users against items. Ids are external at this edge and dense inside."""

    device: str = "auto"
    seed: int = 0
    recipe: RecipeName = (
        DEFAULT_RECIPE  # "paper": the released program's options, and its choices made on the test part
    )
    valid: float = 0.1  # share of train that is held out for validation, where a split has no validation part
    refit: bool = True  # whether to fit again on train and validation together once the choices are made

    data: Interactions | None = field(default=None, init=False)  # what it was fitted on
    log: Log | None = field(default=None, init=False)  # of its training, where it trains in epochs
    notes: list[str] = field(default_factory=list, init=False)  # what a person should know about the fit
    _uploaded: tuple[Interactions, Histories] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        require(self.seed >= 0, f"seed is {self.seed}", "give a seed of at least 0")
        require(0 < self.valid < 1, f"valid is {self.valid}", "give a share between 0 and 1")
        if self.conventions.paper_options:
            for name, value in self.paper.items():
                setattr(self, name, self.given.get(name, value))
        self.refuse_unused()

    @property
    def conventions(self) -> Recipe:
        """The conventions that the option `recipe` names."""
        return recipe_of(self.recipe)

    @abstractmethod
    def fit(self, data: Split | Interactions, *, cache: ModelCache | None = None) -> Self:
        """Fit on a split, whose test part is not touched, or on bare interactions.

        A `cache` keeps what models learned, for several fits on the same pairs.
        """

    @abstractmethod
    def score_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        """[B, n_items], or [B, len(items)] for the dense ids `items`."""

    @abstractmethod
    def pack(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What was learned, as JSON and tensors."""

    @abstractmethod
    def unpack(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """The inverse of `pack`."""

    def hold_out(
        self, fitted: Interactions, held: Interactions, *, tail: Tensor | None = None, times: int = 1
    ) -> HeldOut:
        """Held-out pairs that choices are made on: of all users, or of `times` as many as the device can watch."""
        most = None if self.conventions.checks_everyone else times * budget(self.torch_device).monitored_users
        return HeldOut(fitted, held, self.torch_device, tail=tail, most_users=most, seed=self.seed)

    @property
    def torch_device(self) -> torch.device:
        return resolve_device(self.device)

    @property
    def fitted(self) -> Interactions:
        """The interactions it was fitted on."""
        if self.data is None:
            raise AleatorError(f"this {type(self).__name__} is not fitted", "call fit first")
        return self.data

    @property
    def histories(self) -> Histories:
        """The training interactions on the device, uploaded once."""
        if self._uploaded is None or self._uploaded[0] is not self.fitted:
            self._uploaded = self.fitted, Histories(self.fitted.csr, self.torch_device)
        return self._uploaded[1]

    def users(self, who: Who) -> Users:
        """A batch from external ids, or from {name: [item ids]} for users who are only a history."""
        if isinstance(who, Users):
            return who
        require(isinstance(who, Iterable) and not isinstance(who, str), f"users is {who!r}", "give a list of ids")
        if not isinstance(who, Mapping):
            return self.histories.batch(torch.from_numpy(check_ids(self.fitted.users, list(who), "user")))
        histories = []
        for name, items in who.items():
            require(not isinstance(items, str), f"the history of {name!r} is {items!r}", "give a list of item ids")
            dense = self.fitted.items.encode(list(items))
            require(
                bool((dense >= 0).any()),
                f"none of the {len(dense)} items in the history of {name!r} is known",
                "give at least one item id that the model was trained on",
            )
            histories.append(np.unique(dense[dense >= 0]))
        made = Histories.of_lists(histories, self.fitted.n_items, self.torch_device)
        return made.batch(torch.arange(len(histories)), known=False)

    def score(self, users: Who, items: Sequence[Any] | None = None) -> Tensor:
        """Scores of users against all items or those named, [n_users, n_items]."""
        columns = None if items is None else self._items(items)
        with torch.no_grad():
            return self.score_block(self.users(users), columns)

    def recommend(
        self,
        users: Who,
        k: int = 20,
        *,
        filter_seen: bool = True,
        allow: Sequence[Any] | None = None,
        deny: Sequence[Any] | None = None,
        untrained: bool = False,
        memory: int | None = None,
    ) -> Any:
        """The k best items of each user, as a frame: user_id, item_id, rank, score, popularity, tail (and more in AUR).

        `allow` and `deny` are lists of item ids. Items without a training interaction are left out unless `untrained`.
        Fewer than k rows come back where fewer candidates are left. Memory stays within `memory` bytes.
        """
        n_items = self.fitted.n_items
        require(
            type(k) is not bool and isinstance(k, (int, np.integer)) and k >= 1,
            f"k is {k!r}",
            "give a whole number of at least 1",
        )
        require(k <= n_items, f"k is {k} but there are {n_items} items", f"give a k of at most {n_items}")
        if isinstance(users, Iterator):
            users = list(users)
        candidates = self._candidates(allow, deny, untrained)
        whole = self.users(users)
        names = self._names(users) if isinstance(users, Users) else list(users)
        size, chunk = blocks(len(whole), n_items, self.torch_device, memory)
        columns: dict[str, list[Any]] = {}
        for first in range(0, max(len(whole), 1), size):  # once for nobody, for the columns
            block = whole.part(first, min(first + size, len(whole)))
            with torch.no_grad():
                values, items = self.top(
                    block, k, seen=block if filter_seen else None, candidates=[candidates], chunk=chunk
                )[0]
                parts = {"score": values} | self.explain(block, items)
            place, rank = (items >= 0).nonzero(as_tuple=True)
            rows = {
                "user_id": [names[first + p] for p in place.tolist()],
                "item_id": self.fitted.items.decode(items[place, rank].cpu().numpy()).tolist(),
                "rank": (rank + 1).tolist(),
            }
            rows |= {name: value[place, rank].tolist() for name, value in parts.items()}
            for name, values in rows.items():
                columns.setdefault(name, []).extend(values)
        if self.fitted.titles is not None:
            shown = self.fitted.titles[self.fitted.items.encode(columns["item_id"])]
            columns["title"] = shown.astype(object).tolist()
        return to_frame(columns, self.fitted.frame)

    def rerank(self, candidates: Any, k: int | None = None, *, missing: Missing = "error") -> Any:
        """The rows of a frame of candidates (user_id, item_id, ...) by this recommender's own scores, at most k a user.

        Users stay in the order in which they come. The same kind of frame comes back, with rank, score and what else
        `recommend` tells of a pair; a column of such a name that was given is not used, and kept as given_score and so
        on. Users and items that are not known are an error; `missing="drop"` leaves them out, and a warning counts them.
        """
        return rerank(self, candidates, k, missing)

    def top(
        self,
        users: Users,
        k: int,
        *,
        seen: Users | None,
        candidates: Sequence[Tensor | None] = (None,),
        chunk: int | None = None,
    ) -> list[tuple[Tensor, Tensor]]:
        """The k best items of each set of candidates, as `ranking.best` gives them."""
        return best(self.score_block, users, k, self.fitted.n_items, seen=seen, candidates=candidates, chunk=chunk)

    @property
    def tail_mask(self) -> Tensor:
        """[n_items] which items are tail."""
        return torch.from_numpy(DEFAULT_TAIL.mask(self.fitted.popularity)).to(self.torch_device)

    def explain(self, users: Users, items: Tensor) -> dict[str, Tensor]:
        """What is told of each recommended item ([B, k] dense ids, -1 for none): [B, k] a column."""
        popularity = torch.from_numpy(self.fitted.popularity).to(items.device)
        return {"popularity": popularity[items], "tail": self.tail_mask[items]}

    def _names(self, users: Users) -> list[Any]:
        known = self.fitted.users.decode(users.index.clamp_min(0).cpu().numpy()).tolist()
        return [name if index >= 0 else None for name, index in zip(known, users.index.tolist(), strict=True)]

    def without_history(self, scores: Tensor, users: Users, items: Tensor | None) -> Tensor:
        """`scores` [B, n], where whoever has no history gets each item's share of the users: all that is known."""
        empty = users.size == 0
        if users.trained or not bool(empty.any()):
            return scores
        share = torch.from_numpy(self.fitted.popularity / self.fitted.n_users).to(scores)
        return torch.where(empty[:, None], share if items is None else share[items], scores)

    def _items(self, items: Sequence[Any]) -> Tensor:
        return torch.from_numpy(check_ids(self.fitted.items, list(items), "item")).to(self.torch_device)

    def _candidates(self, allow: Sequence[Any] | None, deny: Sequence[Any] | None, untrained: bool) -> Tensor | None:
        trained = torch.from_numpy(self.fitted.popularity > 0).to(self.torch_device)
        mask = torch.ones_like(trained) if untrained else trained
        if allow is not None:
            allowed = torch.zeros_like(mask)
            allowed[self._items(allow)] = True
            mask = mask & allowed
        if deny is not None and len(deny):
            mask = mask.clone()
            mask[self._items(deny)] = False
        return None if bool(mask.all()) else mask

    def save(self, folder: checkpoint.Path_) -> None:
        """Write a folder that `load` reads: safetensors and a JSON manifest, whole or not at all."""
        about, tensors = checkpoint.pack_data(self.fitted)
        learned, more = self.pack()
        versions = {
            "aleator": __version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "torch": torch.__version__,
        }
        manifest = {
            "kind": type(self).__name__,
            "options": self.options(),
            "learned": learned,
            "data": about,
            "versions": versions,
        }
        checkpoint.write(folder, manifest, tensors | more)

    @classmethod
    def load(cls, folder: checkpoint.Path_, device: str = "auto") -> Self:
        """Read what `save` wrote."""
        manifest, tensors = checkpoint.read(folder)
        require(
            manifest.get("kind") == cls.__name__,
            f"'{folder}' holds a {manifest.get('kind')}, not a {cls.__name__}",
            "load it with the class that saved it, or with aleator.load_model",
        )
        try:
            made = cls.restore(manifest["options"] | {"device": device})
            made.data = checkpoint.unpack_data(manifest["data"], tensors)
            if made.data.fingerprint != manifest["data"]["fingerprint"]:
                raise RuntimeError("its two files do not belong together")
            # copied, since products of memory-mapped tensors differ in the last bit where these lie askew
            learned = {n: v.to(made.torch_device, copy=True) for n, v in tensors.items() if not n.startswith("data.")}
            made.unpack(manifest["learned"], learned)
        except torch.OutOfMemoryError:
            raise
        except (KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
            raise checkpoint.damaged(folder, error) from None
        return made

    @classmethod
    def restore(cls, options: dict[str, Any]) -> Self:
        """Built from the options of a manifest."""
        return cls.restored(**options)


def as_split(data: Split | Interactions) -> Split:
    """A split as it is; bare interactions as a split without a test part."""
    if isinstance(data, Split):
        return data
    require(
        isinstance(data, Interactions),
        f"a {type(data).__name__} cannot be fitted on",
        "give a Split or Interactions, such as al.read or al.load_dataset returns",
    )
    require(data.n_users > 1, "the data has one user only", "give the interactions of several users")
    nothing = data.take(np.zeros(len(data), bool))
    return Split(data, nothing, nothing, valid_by="user_time" if data.in_time() is not None else "random")
