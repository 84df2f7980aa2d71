"""AUR: a model, an uncertainty estimator on top of it, and the blend of both. Read this file first.

fit        The model learns the expectation r. It is then frozen, and the estimator learns the log-variance s of each
           label. With joint training, both then train together. lam is chosen on held-out pairs. Both are fitted again
           on all training pairs.
score      lam * r + (1 - lam) * sigma, with sigma = sqrt(exp(s) / K) and K = 1 / beta
recommend  The k items with the highest scores among those that a user has not seen.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from aleator import models
from aleator import uncertainty as estimators
from aleator.aur.choice import Select, choose_lam
from aleator.aur.joint import Joint, check_joint, learn_jointly
from aleator.aur.residuals import OutOfSample
from aleator.batches import Users
from aleator.data.interactions import Interactions
from aleator.data.splits import Split
from aleator.data.tail import DEFAULT_TAIL, Tail
from aleator.device import resolve_device
from aleator.errors import AleatorError, require
from aleator.evaluation.held_out import HeldOut
from aleator.models.base import Model
from aleator.models.cache import ModelCache
from aleator.options import Among, Between, Ranges
from aleator.ranking.blend import blend, uncertainty
from aleator.ranking.listed import listed
from aleator.recipe import PAPER_LAMS
from aleator.recommender import Recommender, Who, as_split
from aleator.training.loop import Log, epochs_of
from aleator.training.stop import Stop
from aleator.uncertainty.base import Estimator, Expectation
from aleator.uncertainty.objective import Objective


@dataclass(kw_only=True, eq=False, repr=False)
class AUR(Recommender):
    """Aleatoric uncertainty-aware recommendation (Wang et al., 2023).

    A model estimates the expectation r of each label, and an estimator its uncertainty sigma. The score of a pair is
    lam * r + (1 - lam) * sigma, on the scale of the label. A high uncertainty raises an item, since its zero is probably
    wrong. `lam` is the knob: 1 is the expectation alone (safe), 0 the uncertainty alone (exploratory). "auto" chooses
    lam on the validation part, by `select`.

    An AUR works on a copy of the `model` that it is given. Your model stays as it was, and the fitted one is
    `aur.model`.

    `select="balanced"` takes the lam with the best tail-absolute Recall@50, among those that gain overall (`choose_lam`).
    `select="overall"` takes the lam with the best Recall@20.

    `residuals` says which expectations of the observed pairs the estimator is trained on. "in-sample" takes those of the
    model itself. The other two take those of a model that did not see the pair. "loo" leaves the pair out in closed
    form, if the model has one. "cross-fit" fits the model again without parts of the pairs.

    `joint=Joint(...)` then trains the model and the estimator together (AUR-J). `recipe="paper"` is the protocol of the
    paper's released program, which chooses epochs and lam on the test part. Use it only to compare with published
    numbers.
    """

    model: Model = field(kw_only=False)  # the model of the expectation, such as `al.MF()`
    estimator: Estimator = field(default_factory=lambda: estimators.FactorEstimator())  # estimates the uncertainty
    alpha: float = 1.0  # weight of the observed pairs in the estimator's loss; a higher alpha lifts the tail
    beta: float = 0.01  # weight of the log-variance in the loss; K = 1 / beta is the scale of the variance
    gamma: float = 0.001  # weight of the squared log-variance in the loss
    floor: float = 0.01  # added to e^s in the loss; it bounds the weight of a pair that is fitted perfectly
    lam: float | Literal["auto"] = "auto"  # share of the expectation in the blend; "auto" chooses it on validation
    select: Select = (
        "balanced"  # what "auto" chooses lam by: tail recall among lams that gain overall, or overall recall
    )
    tail: Tail = DEFAULT_TAIL  # which items are tail items
    residuals: Literal["in-sample", "loo", "cross-fit"] = "in-sample"  # r of observed pairs, in or out of sample
    joint: Joint | None = None  # options of joint training (AUR-J); None for no joint training

    objective: Objective = field(init=False)
    lam_used: float = field(init=False)  # the lam of the blend
    curve: list[dict[str, float]] = field(default_factory=list, init=False)  # held-out Recalls by lam
    tail_rule: Tail = field(init=False)  # that of the recipe, or the option `tail`
    tail_items: Tensor = field(init=False)  # [n_items] which items are tail by that rule

    paper: ClassVar[dict[str, Any]] = {"floor": 1e-3}
    ranges: ClassVar[Ranges] = {
        "alpha": Between(1.0, 5.0, log=True),
        "gamma": Between(1e-4, 1e-1, log=True),
    }
    paper_ranges: ClassVar[Ranges] = {"alpha": Among(1.0, 2.0, 3.0, 4.0, 5.0), "gamma": Among(1e-3, 1e-2)}

    def __post_init__(self) -> None:
        super().__post_init__()
        kind = type(self.model).__name__
        require(isinstance(self.model, Model), f"the model is a {kind}", "give a Model, such as al.MF()")
        require(
            self.alpha > 0 and self.beta > 0 and self.gamma >= 0 and self.floor >= 0,
            "alpha or beta is not above 0, or gamma or floor is below 0",
            "give a positive alpha and beta, and a gamma and a floor of at least 0",
        )
        _check_lam(self.lam)
        for name in ("valid", "refit"):
            told = f"the option {name} of {kind} has no effect under AUR"
            require(not self.model.insists_on(name), told, f"give {name} to AUR")
        theirs = self.model.given.get("recipe", self.recipe)
        require(
            theirs == self.recipe, f"{kind} has recipe {theirs} and AUR {self.recipe}", "give the recipe to AUR alone"
        )
        self.objective = Objective(self.alpha, self.beta, self.gamma, self.floor)
        if self.joint is not None:
            check_joint(self.model, self.objective)
            require(
                self.residuals == "in-sample",
                "joint training has no residuals out of sample",
                "drop joint or residuals",
            )
        self.device = self._one_device()
        shared: dict[str, Any] = {name: self.given[name] for name in ("seed", "recipe") if name in self.given}
        if self.device != "auto":
            shared["device"] = self.device
        paper = self.estimator.paper if self.conventions.paper_options else {}
        self.model = self.model.with_defaults(**shared)
        self.estimator = self.estimator.with_defaults(**shared, **paper)
        self.lam_used = 1.0 if self.lam == "auto" else self.lam

    def unused(self) -> Mapping[str, str]:
        chosen = {} if self.lam == "auto" else {"select": "with a lam that is given"}
        return {**super().unused(), **chosen}

    def _one_device(self) -> str:
        """The device that was given, to AUR or to a part of it."""
        named = [part.given["device"] for part in (self, self.model, self.estimator) if "device" in part.given]
        require(
            len({resolve_device(name) for name in named}) <= 1,
            "the model and the estimator are on different devices",
            "give the device to AUR alone",
        )
        return named[0] if named else self.device

    # Fitting

    def fit(self, data: Split | Interactions, *, cache: ModelCache | None = None) -> Self:
        """Fit the model, then the estimator, and choose lam.

        The numbers of epochs and lam are chosen on the validation part. The share `valid` of train is held out if there
        is none. With `refit`, both are then fitted again on train and validation together. The test part is not used,
        except that recipe "paper" makes its choices on it.

        Args:
            data: A split, or interactions without a split.
            cache: Keeps what models learned, for several fits on the same pairs. Joint training does not use it.

        Returns:
            The fitted AUR itself. `lam_used` is its lam, and `curve` holds the Recalls that lam was chosen by.
        """
        split, recipe = as_split(data), self.conventions
        notes = self._check_frozen(split)
        if self.joint is not None:
            cache = None  # it writes over tensors, and needs parameters that a cache does not hold
        own_tail = self.insists_on("tail") or not recipe.paper_tail
        self.tail_rule = self.tail if own_tail else recipe.tail(split)
        self.tail_items = torch.from_numpy(self.tail_rule.mask(split.everything.popularity))
        fitted, held = recipe.divide(split, self.valid, self.seed)
        few = self.hold_out(fitted, held, tail=self.tail_items)
        many = self.hold_out(fitted, held, tail=self.tail_items, times=4)
        self._fit_both(fitted, few, cache)
        choice = choose_lam(many, self.parts, recipe.lams, self.select)
        self.curve = choice.curve
        self.lam_used = choice.lam if self.lam == "auto" else self.lam
        if recipe.refits and self.refit:
            self._refit(split.everything, cache)
        self.notes = self.model.notes + notes
        return self

    def _fit_both(self, fitted: Interactions, held_out: HeldOut, cache: ModelCache | None) -> None:
        """Fit the model, the estimator, and both jointly if asked for, with early stopping on the held-out pairs."""

        def recall_by_uncertainty() -> float:
            """Recall@20 by the uncertainty alone. A blend starts at the Recall of the bare model: it hides progress."""
            with torch.no_grad():
                overall, _ = held_out.recall(lambda users: [self.estimator.log_variance(users)])
            return float(overall.mean())

        def recall_by_blends() -> float:
            """The best Recall@20 of a few blends."""
            with torch.no_grad():
                self.model.publish()
                overall, _ = held_out.recall_of_blends(self.parts, PAPER_LAMS)
            return float(overall.mean(1).max())

        self.data = fitted
        self.model.fit_cached(cache, fitted, held_out)
        self.estimator.learn(self.histories, self._expectations(), self.objective, Stop(recall_by_uncertainty))
        if self.joint is not None:
            self.log = self._learn_jointly(Stop(recall_by_blends))

    def _refit(self, data: Interactions, cache: ModelCache | None) -> None:
        """Fit the parts again on all training pairs, for the numbers of epochs that validation chose."""
        self.data = data
        logs = self.model.log, self.estimator.log
        self.model.fit_cached(cache, data, epochs=epochs_of(self.model.log))
        again = Stop(epochs=epochs_of(self.estimator.log))
        self.estimator.learn(self.histories, self._expectations(), self.objective, again)
        self.model.log, self.estimator.log = logs
        if self.log is not None and self.log.best_epoch:
            self._learn_jointly(Stop(epochs=self.log.best_epoch))

    def _expectations(self) -> Expectation:
        """The expectations that the estimator is trained on."""
        return self.model if self.residuals == "in-sample" else OutOfSample(self.model, self.residuals == "cross-fit")

    def _learn_jointly(self, stop: Stop) -> Log:
        assert self.joint is not None
        return learn_jointly(
            self.joint, self.model, self.estimator, self.objective, self.histories, stop, seed=self.seed
        )

    def _check_frozen(self, split: Split) -> list[str]:
        """Refuse to choose lam for a grafted model on pairs that it may have been fitted on. Returns notes.

        Such a model looks better on these pairs than it is.
        """
        if not self.model.frozen or self.conventions.on_test or len(split.valid):
            return []
        require(
            self.lam != "auto",
            "lam cannot be chosen for a grafted model on pairs that it may have been fitted on",
            "split with a validation part (data.split(valid=0.1), or al.load_dataset(name).carve(0.1)), fit the "
            "recommender on split.train and give the whole split here; or give lam yourself, such as lam=0.5",
        )
        return ["graft: the estimator's epochs were chosen on pairs that the model may have been fitted on"]

    # Scores and lists

    def parts(self, users: Users, items: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Expectation and uncertainty of a batch, [B, n_items] or [B, len(items)] each."""
        sigma = uncertainty(self.estimator.log_variance(users, items), self.objective.k)
        return self.model.score_block(users, items), sigma

    def score_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        return self.without_history(blend(*self.parts(users, items), self.lam_used), users, items)

    def expectation(self, users: Who, items: Sequence[Any] | None = None) -> Tensor:
        """The expectation r of users against items: what the model alone predicts.

        Args:
            users: User ids, or {name: [item ids]} for newcomers.
            items: Item ids. By default all items, in the order of `fitted.items`.

        Returns:
            A tensor [n_users, n_items], on the scale of the label (0 to 1).
        """
        return self.model.score(self.users(users), items)

    def uncertainty(self, users: Who, items: Sequence[Any] | None = None) -> Tensor:
        """The uncertainty sigma of users against items. Where it is high, a zero is probably wrong.

        Args:
            users: User ids, or {name: [item ids]} for newcomers.
            items: Item ids. By default all items, in the order of `fitted.items`.

        Returns:
            A tensor [n_users, n_items], on the scale of the residual of the label.
        """
        with torch.no_grad():
            s = self.estimator.log_variance(self.users(users), None if items is None else self._items(items))
        return uncertainty(s, self.objective.k)

    def recommend(self, users: Who, k: int = 20, *, lam: float | None = None, **options: Any) -> Any:
        """The k best items of each user, with the expectation and the uncertainty of each.

        Args:
            users: User ids, or {name: [item ids]} for newcomers. A history is enough: nothing is trained again.
            k: Items per user. A user with fewer candidates gets fewer rows.
            lam: The knob for this call: 1 is the expectation alone, 0 the uncertainty alone. By default `lam_used`.
            **options: `filter_seen=False` keeps the items of a user's own history. `allow` is a list of item ids: only
                these are candidates. `deny` is a list of item ids to leave out. `untrained=True` keeps items without a
                training interaction. `memory` is the number of bytes that blocks of scores may take.

        Returns:
            A frame with the columns user_id, item_id, rank (from 1), score, expectation, uncertainty, popularity
                (training interactions of the item), tail (whether it is a tail item), and title if the data has titles.
                It is the kind of frame that the data came in, and polars by default.
        """
        if lam is None:
            return super().recommend(users, k, **options)
        return self.at(lam).recommend(users, k, **options)

    def rerank(self, candidates: Any, k: int | None = None, *, lam: float | None = None, **options: Any) -> Any:
        """Sort candidates from elsewhere by the scores of this AUR, for each user.

        Args:
            candidates: A pandas, polars or arrow frame with the columns user_id and item_id. Other columns are kept.
            k: Rows to keep per user. By default all of them.
            lam: The knob for this call: 1 is the expectation alone, 0 the uncertainty alone. By default `lam_used`.
            **options: `missing` says what to do with unknown users and items. "error" (the default) raises an error.
                "drop" leaves their rows out, and a warning says how many.

        Returns:
            The same kind of frame, with users in the order in which they came. It has new columns: rank, score,
                expectation, uncertainty, popularity and tail, as `recommend` returns them. An older column of such a
                name is not used. It is kept under another name, such as given_score.
        """
        if lam is None:
            return super().rerank(candidates, k, **options)
        return self.at(lam).rerank(candidates, k, **options)

    def at(self, lam: float) -> Self:
        """A copy of this fitted AUR with another lam. It shares all tensors with this one, which keeps its lam.

        Args:
            lam: 1 is the expectation alone, 0 the uncertainty alone.
        """
        _ = self.histories  # upload them once here, and not once in each copy
        turned = copy.copy(self)
        turned.set_lam(lam)
        return turned

    def set_lam(self, lam: float) -> None:
        """Turn the knob of a fitted AUR. Nothing is trained again.

        Args:
            lam: 1 is the expectation alone, 0 the uncertainty alone.
        """
        _check_lam(lam, auto=False)
        self.lam_used = float(lam)

    def explain(self, users: Users, items: Tensor) -> dict[str, Tensor]:
        s = listed(self.estimator.log_variance, self.estimator.factors(users), users, items)
        told = {
            "expectation": self.model.score_listed(users, items),
            "uncertainty": uncertainty(s, self.objective.k),
        }
        return told | super().explain(users, items)

    @property
    def tail_mask(self) -> Tensor:
        return self.tail_items.to(self.torch_device)

    # Saving and loading

    def options(self) -> dict[str, Any]:
        return super().options() | {
            "tail": str(self.tail),
            "joint": None if self.joint is None else asdict(self.joint),
            "estimator": self.estimator.to_manifest(),
            "model": self.model.to_manifest(),
        }

    def __repr__(self) -> str:
        return f"AUR({', '.join([repr(self.model), *[f'{n}={v!r}' for n, v in self.given.items() if n != 'model']])})"

    @classmethod
    def restore(cls, options: dict[str, Any]) -> Self:
        model, estimator = options.pop("model"), options.pop("estimator")
        tail, joint = options.pop("tail"), options.pop("joint")
        for part in (model, estimator):
            part["options"]["device"] = options["device"]
        return cls.restored(
            models.MODELS.build(model),
            estimator=estimators.ESTIMATORS.build(estimator),
            tail=Tail.parse(tail),
            joint=None if joint is None else Joint(**joint),
            **options,
        )

    def pack(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        learned, tensors = self.model.pack()
        mine = {
            "lam": self.lam_used,
            "curve": self.curve,
            "notes": self.notes,
            "tail": str(self.tail_rule),
            "model": learned,
            "estimator": None if self.estimator.log is None else self.estimator.log.to_dict(),
            "joint": None if self.log is None else self.log.to_dict(),
        }
        tensors = tensors | {"tail": self.tail_items}
        return mine, tensors | {f"estimator.{name}": value for name, value in self.estimator.tensors().items()}

    def unpack(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.lam_used, self.curve, self.tail_rule = learned["lam"], learned["curve"], Tail.parse(learned["tail"])
        self.tail_items = tensors["tail"]
        self.notes = learned["notes"]
        self.model.data = self.data
        self.model.unpack(learned["model"], tensors)
        self.estimator.log = None if learned["estimator"] is None else Log(**learned["estimator"])
        self.log = None if learned["joint"] is None else Log(**learned["joint"])
        mine = {name.removeprefix("estimator."): v for name, v in tensors.items() if name.startswith("estimator.")}
        self.estimator.set_tensors(mine)


def _check_lam(lam: float | str, auto: bool = True) -> None:
    if not (auto and lam == "auto") and not (isinstance(lam, (int, float)) and 0 <= lam <= 1):
        raise AleatorError(f"lam is {lam}", "give a lam between 0 (uncertainty alone) and 1 (expectation alone)")
