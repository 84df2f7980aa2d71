"""What every recommender is: fit, score, recommend, save, load."""

from __future__ import annotations

import copy
import os
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy
import torch
from numpy.typing import NDArray
from torch import Tensor

from aleator import checkpoint as folders
from aleator.batches import Histories, Users
from aleator.checkpoint.checks import finite, typed
from aleator.data.arrays import as_texts
from aleator.data.attributes import Where
from aleator.data.growth import grow
from aleator.data.interactions import Interactions
from aleator.data.splits import Split, nothing_of
from aleator.data.tail import DEFAULT_TAIL
from aleator.data.vocabulary import check_ids
from aleator.device import budget, resolve_device
from aleator.errors import AleatorError, require, require_seed, unknown_name
from aleator.evaluation.held_out import HeldOut
from aleator.options import Configurable
from aleator.progress import progress
from aleator.ranking.contributions import Contributions
from aleator.ranking.derived import Derived
from aleator.ranking.explained import explained
from aleator.ranking.listed import listed
from aleator.ranking.lists import FEW, Items, dense_items, lists
from aleator.ranking.rerank import Missing, rerank
from aleator.ranking.scan import Scan, available
from aleator.ranking.similar import similar
from aleator.ranking.top import best
from aleator.ranking.vectors import Factors, Vectors, user_vectors, vectors
from aleator.ranks import here, join
from aleator.recipe import Recipe, recipe_of
from aleator.training.journal import kept_in
from aleator.training.loop import Log
from aleator.training.slices import Slice, collected
from aleator.training.update import Update
from aleator.training.watch import Watcher, watching
from aleator.usual import as_usual
from aleator.version import __version__
from aleator.words import DEFAULT_RECIPE, Duplicates, RecipeName

if TYPE_CHECKING:
    from aleator.models.cache import ModelCache

_SCANNED, _SCANNED_FOR_FEW = 4096, 1024  # a catalogue of at least so many items is scanned, and for few users
_UPDATED = "updated since the fit"  # begins a note
Place = str | os.PathLike[str]  # a folder
Who = Sequence[Any] | Mapping[Any, Iterable[Any]] | Users  # ids, histories of new users by name, or a batch


@dataclass(kw_only=True, eq=False, repr=False)
class Recommender(Configurable, ABC):
    """Anything that scores users against items. Callers use external ids, and the code inside uses dense ids."""

    device: str = "auto"  # where to compute: "cpu", "cuda", or "auto" for the GPU if there is one
    seed: int = 0  # seed of all random draws
    recipe: RecipeName = (
        DEFAULT_RECIPE  # "test" chooses on the test part; "paper" also takes the released program's options
    )
    valid: float = 0.1  # share of train to hold out for validation if the split has no validation part
    refit: bool = True  # whether to fit again on train and validation together once the choices are made

    data: Interactions | None = field(default=None, init=False)  # the interactions it was fitted on
    log: Log | None = field(default=None, init=False)  # of the training, if it trains in epochs
    notes: list[str] = field(default_factory=list, init=False)  # what a person should know about the fit
    updated: dict[str, int] = field(default_factory=dict, init=False)  # pairs, users and items taken in since the fit
    _uploaded: tuple[Interactions, Histories] | None = field(default=None, init=False)  # the cache of `histories`
    _of_data: Derived[tuple[Tensor | None, Tensor]] = field(
        default_factory=lambda: Derived(_masks), init=False
    )  # `trained` and the tail, by default
    _scan: Derived[Scan] = field(default_factory=lambda: Derived(Scan), init=False)  # item factors prepared for `top`

    personalises: ClassVar[bool] = True  # whether scores follow the history; the contracts ask for it

    def __post_init__(self) -> None:
        require_seed(self.seed)
        require(0 < self.valid < 1, f"valid is {self.valid}", "give a share between 0 and 1")
        if self.conventions.paper_options:
            for name, value in self.paper.items():
                setattr(self, name, self.given.get(name, value))
        self.refuse_unused()

    @property
    def is_fitted(self) -> bool:
        return getattr(self, "data", None) is not None

    def unused(self) -> Mapping[str, str]:
        on_test = f"with recipe {self.recipe}, which chooses on the test part"
        return {"valid": on_test, "refit": on_test} if self.conventions.on_test else {}

    @property
    def conventions(self) -> Recipe:
        """The conventions that the option `recipe` names."""
        return recipe_of(self.recipe)

    def fit(
        self,
        data: Split | Interactions,
        *,
        callback: Watcher | None = None,
        cache: ModelCache | None = None,
        checkpoint: Place | None = None,
        resume: bool = True,
    ) -> Self:
        """Fit on a split or on bare interactions.

        Choices such as the number of epochs are made on the validation part. The share `valid` of train is held out if
        there is none. The test part is not used, except that the recipes "test" and "paper" make their choices on it.

        Args:
            data: A split, or interactions without a split.
            callback: A function that is called with an `Epoch` after each epoch of each training. Its exception ends the
                fit.
            cache: Keeps what models learned, for several fits on the same pairs.
            checkpoint: A folder that keeps the fit while it runs. After a crash, the same call goes on from there, and on
                the CPU it ends with the same bits. The folder is removed at the end.
            resume: Whether to go on from `checkpoint`. If not, what it holds is deleted.

        Returns:
            The fitted recommender itself.
        """
        split = as_split(data)
        join()
        keeping = nullcontext() if checkpoint is None else self.kept_in(checkpoint, split, resume)
        before = self.data
        try:
            with keeping, self._watched("fitting", callback):
                self.updated, self.notes = {}, []
                self.fit_split(split, cache)
        except BaseException:
            if self.data is not before:
                self.data = None  # what was learned so far is no fit
            raise
        return self

    def kept_in(self, folder: Place, data: Split | Interactions, resume: bool = True) -> AbstractContextManager[None]:
        """Inside, the fit on this data is kept in a folder: `fit(checkpoint=)`, for a fit and its `save` together."""
        split = as_split(data)
        join()
        data_of = [split.name, split.valid_by, *(part.identity for part in (split.train, split.valid, split.test))]
        options = [type(self).__name__, self.asked_for()]
        return kept_in(folder, {"data": data_of, "options": options, "device": str(self.torch_device)}, resume)

    def asked_for(self) -> dict[str, Any]:
        """The options, with those of the parts, as a dict for JSON."""
        return self.options()

    def update(
        self,
        new: Interactions,
        *,
        epochs: int | None = None,
        duplicates: Duplicates = "first",
        callback: Watcher | None = None,
    ) -> Self:
        """A copy that also knows new interactions, without a full fit.

        Histories, popularity and the tail follow the new pairs. New users and items are folded in, by least squares or
        by a map that is fitted to the known ones. Then what can train on does so for a few epochs. Models in closed
        form, such as EASE, are solved again. What was chosen stays: options, lam, the discount, the estimator's setting.

        This recommender stays as it is, so it can serve on until the copy takes its place, also if the update fails.

        Args:
            new: The new pairs, of known and of new users and items.
            epochs: How many epochs to train on for. By default those of the fit times the share of new pairs. Many small
                updates then train for as long as a large one. 0 trains nothing.
            duplicates: What a pair does that is known already. "first" leaves it as it is. "sum" adds up the weights.
            callback: As in `fit`.

        Returns:
            The updated copy. `updated` counts what it took in since the fit.
        """
        kind = type(new).__name__
        interactions = isinstance(new, Interactions)
        require(interactions, f"the new pairs are a {kind}", "give Interactions, such as al.read returns")
        whole = epochs is None or (isinstance(epochs, int) and not isinstance(epochs, bool) and epochs >= 0)
        require(whole, f"epochs is {epochs!r}", "give a whole number of at least 0")
        update = Update(grow(self.fitted, new, duplicates), self.updated, epochs)
        told = f"epochs is {epochs}, but {type(self).__name__} does not train on from what it learned"
        require(epochs is None or self.goes_on, told, "leave epochs out")
        self._require_rows("an update")
        made = self._apart()
        with self._watched("updating", callback):
            made.take_in(update)
        made.updated = update.until
        told = ", ".join(f"{n:,} new {name}" for name, n in made.updated.items())
        made.notes = [note for note in made.notes if not note.startswith(_UPDATED)] + [f"{_UPDATED}: {told}"]
        return made

    def _apart(self) -> Self:
        """A copy that may learn: it shares tensors with this one until it does, and nothing that is kept for speed."""
        made = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Derived):
                setattr(made, name, Derived(value.make))
        return made

    @property
    def goes_on(self) -> bool:
        """Whether an update can train on from what was learned."""
        return False

    @abstractmethod
    def take_in(self, update: Update) -> None:
        """What `update` does. It must not write into tensors that were there before."""

    @contextmanager
    def _watched(self, doing: str, callback: Watcher | None) -> Iterator[None]:
        """Inside, trainings are shown, and the callback is told of their epochs."""
        function = callback is None or callable(callback)
        require(function, f"callback is {callback!r}", "give a function of one argument")
        with watching(callback), as_usual(), progress(f"{doing} {type(self).__name__}", None):
            yield

    @abstractmethod
    def fit_split(self, split: Split, cache: ModelCache | None) -> None:
        """What `fit` does."""

    @abstractmethod
    def score_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        """Scores of a batch, [B, n_items], or [B, len(items)] for the dense ids `items`."""

    def factors(self, users: Users) -> tuple[Tensor, Tensor] | None:
        """[B, dim] and [n_items, dim], whose inner products are the scores. None if there are none.

        They hold for users with a history. The second tensor is the same one in every call after a fit.
        """
        return None

    def user_factors(self, users: Users) -> Tensor | None:
        """[B, dim] the first tensor of `factors`, without the work that the second one may take."""
        return None

    def low_rank(self, rank: int) -> Factors | None:
        """A function like `factors`, whose inner products approximate the scores, from an SVD cut to `rank`.

        None if there is none.
        """
        return None

    @abstractmethod
    def contributions(self, users: Users, items: Tensor) -> Contributions:
        """What each item of each history adds to the scores of its user's own items (dense ids [B, k])."""

    @abstractmethod
    def pack(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What was learned, as a dict for JSON and as tensors by name."""

    @abstractmethod
    def unpack(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Take over what `pack` returned."""

    def hold_out(
        self, fitted: Interactions, held: Interactions, *, tail: Tensor | None = None, times: int = 1
    ) -> HeldOut:
        """The held-out pairs that choices are made on.

        They are those of all users if the recipe asks for that. Otherwise they are those of a sample: at most `times`
        the number of users that this kind of device evaluates during training. `tail` [n_items] marks the tail items.
        """
        most = None if self.conventions.checks_everyone else times * budget(self.torch_device).monitored_users
        return HeldOut(fitted, held, self.torch_device, tail=tail, most_users=most, seed=self.seed)

    @property
    def slices(self) -> Mapping[str, Slice]:
        """The tensors of `pack` that are shared out over several processes, by name. This one has some of their rows."""
        return {}

    def _require_rows(self, what: str) -> None:
        """Refuse what needs all rows of the tables."""
        told = f"{what} needs the whole model, and this one is shared out over {here().size} processes"
        require(not self.slices, told, "save it, and load it in one process")

    @property
    def torch_device(self) -> torch.device:
        """The device that the option `device` names."""
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
            self._uploaded = self.fitted, Histories.of(self.fitted, self.torch_device)
        return self._uploaded[1]

    @property
    def trained(self) -> Tensor | None:
        """[n_items] which items have a training interaction, the same tensor in every call. None if all have one."""
        return self._of_data(self.fitted, self.torch_device)[0]

    def users(self, who: Who) -> Users:
        """A batch of users.

        Args:
            who: User ids, or {name: [item ids]} for newcomers, who are only a history. A batch comes back as it is.
        """
        if isinstance(who, Users):
            return who
        _require_list(who if not isinstance(who, Mapping) else (), "users is")
        if not isinstance(who, Mapping):
            return self.histories.batch(torch.from_numpy(check_ids(self.fitted.users, list(who), "user")))
        texts = {isinstance(name, str) for name in who if name is not None}
        require(len(texts) < 2, "the names of the histories are texts and others", "make all of them texts")
        as_texts(np.array([name for name in who if isinstance(name, str)], object), "the names of the histories")
        histories = []
        for name, items in who.items():
            _require_list(items, f"the history of {name!r} is", "give a list of item ids")
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
        """Scores of users against items.

        Args:
            users: User ids, or {name: [item ids]} for newcomers. A history is enough: nothing is trained again.
            items: Item ids. By default all items, in the order of `fitted.items`.

        Returns:
            A tensor [n_users, n_items].
        """
        columns = None if items is None else self._items(items)
        with torch.no_grad():
            return self.score_block(self.users(users), columns)

    def score_listed(self, users: Users, items: Tensor) -> Tensor:
        """Scores of each user's own items, [B, k]. `items` are dense ids [B, k]; -1 stands for none."""
        factors = None if users.some_empty else self.factors(users)
        return listed(self.score_block, factors, users, items)

    def at(self, lam: float) -> Self:
        """A copy of a fitted `AUR` with another lam. Other recommenders have none, and refuse."""
        told = f"this {type(self).__name__} has no uncertainty, and so no lam"
        raise AleatorError(told, "leave lam out, or fit al.AUR")

    def vectors(self, users: Who | None = None, *, lam: float | None = None, rank: int | None = None) -> Vectors:
        """Vectors of users and items whose inner products are the scores.

        Any nearest-neighbour index or vector database can serve them. Models whose scores are not inner products have
        none, and refuse. Models with an item-item matrix (EASE, ItemKNN, GraphFilter) have an approximation of a given
        `rank`, by a truncated singular value decomposition. `Vectors.recall` says how close it is.

        Args:
            users: User ids, or {name: [item ids]} for newcomers. By default all users of the training data.
            lam: The knob of an AUR: 1 is the expectation alone, 0 the uncertainty alone. By default `lam_used`. It is
                part of the users' vectors alone: the vectors of the items are the same for each lam.
            rank: Dimensions of the approximation, for models with an item-item matrix alone.

        Returns:
            Ids and vectors of these users and of all items, and a mask of the trained items.
        """
        self._require_rows("making vectors")
        return vectors(self if lam is None else self.at(lam), users, rank)

    def user_vector(
        self, history: Iterable[Any], *, lam: float | None = None, rank: int | None = None
    ) -> NDArray[np.float32]:
        """The vector of a newcomer, to ask an index of the items' vectors with. Nothing is trained again.

        It is quick: the vectors of the items are neither made nor copied. (With `rank`, the first call computes the
        decomposition of the item-item matrix, and later ones keep it.)

        Args:
            history: Item ids. Unknown ones are left out. As in `recommend`, at least one must be known.
            lam: The knob of an AUR. By default `lam_used`.
            rank: For models with an item-item matrix alone: the rank that the items' vectors were made with.

        Returns:
            The vector, [dim], as `vectors` gives it for the same history.
        """
        self._require_rows("making vectors")
        of = self if lam is None else self.at(lam)
        (made,) = user_vectors(of, of.users({"newcomer": history}), rank)
        return made.reshape(-1)

    def recommend(
        self,
        users: Who,
        k: int = 20,
        *,
        filter_seen: bool = True,
        allow: Items | None = None,
        deny: Items | None = None,
        where: Where | None = None,
        untrained: bool = False,
        explain: int | None = None,
        memory: int | None = None,
        **unknown: Any,
    ) -> Any:
        """The k best items of each user.

        Args:
            users: User ids, or {name: [item ids]} for newcomers. A history is enough: nothing is trained again.
            k: Items per user. A user with fewer candidates gets fewer rows.
            filter_seen: Leave out the items of a user's own history.
            allow: Item ids. Only these are candidates. {user: [item ids]} gives each user a list of their own.
            deny: Item ids. These are not candidates. In {user: [item ids]}, users may be left out.
            where: Filters by attributes of the items, all of which must hold: {"genre": "Drama"} keeps the items with
                this value, {"genre": ["Drama", "War"]} those with any of them, and {"year": (1990, 1999)} those in this
                range of numbers. Both ends count, and None leaves one open. An item without a value is left out. There
                are no functions among the filters, so that a shell and a saved batch can say the same. Whoever needs
                one computes the items and gives them to `allow`.
            untrained: Keep items without a training interaction as candidates.
            explain: Add the column expectation_from: lists of at most so many items of the user's history, those that
                add most to the expectation (see `explain`). If there are titles, their titles stand in
                expectation_from_titles.
            memory: Bytes that blocks of scores may take. By default it depends on the device.
            **unknown: Any other option is refused.

        Returns:
            A frame with the columns user_id, item_id, rank (from 1), score, popularity (training interactions of the
                item), tail (whether it is a tail item), and title if the data has titles. It is the kind of frame that
                the data came in, and polars by default.
        """
        if "lam" in unknown:
            self.at(unknown["lam"])
        for name in unknown:
            known = ["filter_seen", "allow", "deny", "where", "untrained", "explain", "memory"]
            raise unknown_name("option of recommend", name, known)
        if isinstance(users, Iterator):
            users = list(users)
        return lists(
            self,
            users,
            k,
            filter_seen=filter_seen,
            allow=allow,
            deny=deny,
            where=where,
            untrained=untrained,
            explain=explain,
            memory=memory,
        )

    def explain(self, users: Who, items: Sequence[Any], n: int | None = 3, *, lam: float | None = None) -> Any:
        """Which items of a user's history the score of an item comes from: its expectation, and its uncertainty.

        An item that adds to the uncertainty raises the score as one that adds to the expectation does: it says that the
        zero of the pair may be wrong.

        A score that is a sum over the history has terms. They and `rest` add up to the score. The rest is what no item
        of the history accounts for, such as the prior of popularity. For other scores, a contribution is the score of
        the whole history less the score without that item, both as a newcomer's, and `exact` is false. A user without a
        history has no rows.

        Args:
            users: User ids, or {name: [item ids]} for newcomers.
            items: Item ids. Each is explained for each user.
            n: Items of the history to show for each pair, those that add most to the score. None shows all.
            lam: The knob for this call: 1 is the expectation alone, 0 the uncertainty alone. By default `lam_used`.

        Returns:
            A frame with the columns user_id, item_id, history_item, adds_to_expectation (on the scale of the label),
                adds_to_uncertainty (of an AUR, in units of the log-variance, which the uncertainty rises with),
                adds_to_score (both, in units of the score), share (adds_to_score divided by the sum of the sizes of all
                that is added to this score), rest, exact, and the titles title and history_title if the data has
                titles. A model whose expectation does not follow from a history has NaN in adds_to_expectation.
        """
        self._require_rows("an explanation")
        return explained(self if lam is None else self.at(lam), users, items, n)

    def similar_items(self, items: Any, k: int = 10, *, lam: float | None = None) -> Any:
        """The k most similar items of each item: those whose scores go up and down together.

        The similarity is the correlation of the scores of two items over users, at most 16,384 random ones. How popular
        an item is has no part in it, nor have the discount and the prior of popularity. Only trained items with a
        similarity above 0 are listed. All items in one call take about as long as one.

        Args:
            items: Item ids, or one item id.
            k: Items to list for each.
            lam: The knob for this call: 1 compares expectations alone, 0 uncertainties alone. By default `lam_used`.

        Returns:
            A frame with the columns item_id, rank (from 1), similar_item, similarity (at most 1), popularity (training
                interactions of the similar item), tail (whether it is a tail item), and the titles title and
                similar_title if the data has titles. An item without a training interaction has no rows.
        """
        self._require_rows("finding similar items")
        return similar(self if lam is None else self.at(lam), items, k)

    def rerank(self, candidates: Any, k: int | None = None, *, missing: Missing = "error") -> Any:
        """Sort candidates from elsewhere by this recommender's own scores, for each user.

        Args:
            candidates: A pandas, polars or arrow frame with the columns user_id and item_id. Other columns are kept.
            k: Rows to keep per user. By default all of them.
            missing: What to do with unknown users and items. "error" raises an error. "drop" leaves their rows out,
                and a warning says how many.

        Returns:
            The same kind of frame, with users in the order in which they came. It has new columns: rank, score,
                popularity and tail, as `recommend` returns them. An older column of such a name is not used. It is kept
                under another name, such as given_score.
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
        """The k best items of each set of candidates: values and dense ids, as `ranking.top.best` returns them.

        On a CPU, bounds skip most items of a large catalogue, if scores are inner products.
        """
        least = _SCANNED_FOR_FEW if len(users) <= FEW else _SCANNED
        scans = self.torch_device.type == "cpu" and self.fitted.n_items >= least and available()
        factors = self.factors(users) if scans and not users.some_empty else None
        if factors is not None:
            x, y = factors
            return self._scan(y).top(x, k, seen, candidates)
        return best(self.score_block, users, k, self.fitted.n_items, seen=seen, candidates=candidates, chunk=chunk)

    def without_prior(self) -> Self:
        """The same recommender without what popularity adds to the scores of users with short histories."""
        return self

    @property
    def tail_mask(self) -> Tensor:
        """[n_items] which items are tail."""
        return self._of_data(self.fitted, self.torch_device)[1]

    def beside_score(self, users: Users, scores: Tensor, whole: bool) -> dict[str, Tensor]:
        """Columns that follow from the scores [B, k] of lists, -inf for no item. `whole` lists rank all unseen items."""
        return {}

    def beside_item(self, users: Users, items: Tensor) -> dict[str, Tensor]:
        """The columns that stand beside a recommended item, [B, k] each. `items` are dense ids [B, k], -1 for none."""
        popularity = torch.from_numpy(self.fitted.popularity).to(items.device)
        return {"popularity": popularity[items], "tail": self.tail_mask[items]}

    def without_history(self, scores: Tensor, users: Users, items: Tensor | None) -> Tensor:
        """`scores` [B, n], where users without a history get the share of all users who took each item."""
        if not users.some_empty:
            return scores
        empty = users.size == 0
        share = torch.from_numpy(self.fitted.popularity / self.fitted.n_users).to(scores)
        return torch.where(empty[:, None], share if items is None else share[items], scores)

    def _items(self, items: Sequence[Any]) -> Tensor:
        return dense_items(self, items)

    @property
    def fingerprint(self) -> str:
        """A hash of what was learned: options, tensors, and the pairs and ids that it was fitted on.

        Saving and loading keep it, on any device. An AUR has the same one at every lam, since lam changes no vector of an
        item. Another fit has another one, unless it learned the same to the bit.
        """
        data = self.fitted.fingerprint
        self._require_rows("the fingerprint")
        learned, tensors = self.pack()
        about = {"kind": type(self).__name__, "options": self.options(), "learned": learned}
        return folders.fingerprint(about | {"data": data}, tensors)

    def save(self, folder: Place) -> None:
        """Save to a folder that `load` and `aleator.load_model` read: safetensors and a JSON manifest.

        The folder holds the training interactions too, which `recommend` needs. If saving fails, an older model in the
        folder stays as it was. Of several processes that were fitted together, the first one writes. It collects tables
        that are shared out, so every process has to call this.

        Args:
            folder: Where to save. It must be new or empty, or hold a model, which is replaced.
        """
        fitted = self.fitted
        learned, more = self.pack()
        try:
            finite(more)
        except ValueError as error:
            told = f"this {type(self).__name__} cannot be saved: {error}"
            raise AleatorError(told, "fit it again, with a lower learning rate or on other data") from None
        first = here().rank == 0
        with collected(more, self.slices, folders.check_target(folder) if first else None) as all_rows:
            if first:
                self._write(folder, fitted, learned, all_rows)

    def _write(self, folder: Place, fitted: Interactions, learned: dict[str, Any], more: dict[str, Tensor]) -> None:
        """Write what `pack` gave, with all rows, and the data."""
        about, tensors = folders.pack_data(fitted)
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
            "updated": self.updated,
        }
        folders.write(folder, manifest, tensors | more)

    @classmethod
    def load(cls, folder: Place, device: str = "auto", verify: bool = True) -> Self:
        """Load what `save` wrote. Loading runs no code.

        On a CPU, tensors are mapped into memory: all processes that load a folder share them. A folder is never
        rewritten in place, so a loaded recommender stays as it is when another one is saved there.

        Args:
            folder: The folder.
            device: Where to compute: "cpu", "cuda", or "auto" for the GPU if there is one.
            verify: Whether to compare all tensors with their checksums, and to look for numbers that are not finite. A
                worker can save that time if its parent has verified the folder.

        Returns:
            The fitted recommender.
        """
        return cls.restored_from(folder, *folders.read(folder, verify), device, verify)

    @classmethod
    def restored_from(
        cls, folder: Place, manifest: dict[str, Any], tensors: dict[str, Tensor], device: str, verify: bool
    ) -> Self:
        """The recommender of a manifest and tensors that `folders.read` returned for a folder."""
        require(
            manifest["kind"] == cls.__name__,
            f"'{folder}' holds a {manifest['kind']}, not a {cls.__name__}",
            "load it with the class that saved it, or with aleator.load_model",
        )
        try:
            made = cls.restore(manifest["options"] | {"device": device})
            made.data = folders.unpack_data(manifest["data"], tensors)
            if "tensors" not in manifest and made.data.fingerprint != manifest["data"]["fingerprint"]:
                raise ValueError("its two files do not belong together")  # it has no checksums, which would show it
            learned = {name: value for name, value in tensors.items() if not name.startswith("data.")}
            if verify:
                finite(learned)
            made.unpack(manifest["learned"], {n: v.to(made.torch_device) for n, v in learned.items()})
            made.updated = typed(dict[str, int], manifest.get("updated", {}), "updated")  # older folders have none
        except torch.OutOfMemoryError:
            raise
        except folders.UNREADABLE as error:
            raise folders.damaged(folder, error) from None
        return made

    @classmethod
    def restore(cls, options: dict[str, Any]) -> Self:
        """A recommender with the options of a manifest."""
        return cls.restored(**options)


def _masks(data: Interactions, device: torch.device) -> tuple[Tensor | None, Tensor]:
    """[n_items] which items have a training interaction, None if all have one, and which are tail items."""
    trained = torch.from_numpy(data.popularity > 0).to(device)
    tail = torch.from_numpy(DEFAULT_TAIL.mask(data.popularity)).to(device)
    return None if bool(trained.all()) else trained, tail


def _require_list(values: Any, told: str, remedy: str = "give a list of ids") -> None:
    """Refuse what is no list of ids, nor an array or another sequence of them. `told` says what it is instead."""
    if isinstance(values, (list, tuple)):
        return
    dimensions = getattr(values, "ndim", 1)
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes, Mapping)) or dimensions != 1:
        raise AleatorError(f"{told} {reprlib.repr(values)}", remedy)


def as_split(data: Split | Interactions) -> Split:
    """The data as a split. Bare interactions become a split without a validation and a test part."""
    if isinstance(data, Split):
        return data
    require(
        isinstance(data, Interactions),
        f"a recommender cannot be fitted on a {type(data).__name__}",
        "give a Split or Interactions, such as al.read or al.load_dataset returns",
    )
    require(data.n_users > 1, "the data has one user only", "give the interactions of several users")
    nothing = nothing_of(data)
    return Split(data, nothing, nothing, valid_by="user_time" if data.in_time() is not None else "random")
