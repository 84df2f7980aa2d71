"""AUR: a model, an uncertainty estimator on top of it, and the blend of both. Read this file first.

fit        The model learns the expectation r. It is then frozen, and the estimator learns the log-variance s of each
           label. If several models or several ways to train the estimator are open, a race on held-out pairs decides
           (race.py). With joint training, both parts then train together (joint.py). lam is chosen on held-out pairs
           (choice.py). Both parts are fitted again on all training pairs.
score      lam * r / c_r + (1 - lam) * s / c_s, with the spreads c of both parts, divided by popularity^discount
           (ranking/blend.py). If r and s are inner products, so is the score.
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
from aleator.aur.blended import Blended, Setting
from aleator.aur.choice import Choice, choose_discount, choose_lam
from aleator.aur.confidence import Confidence, fit_confidence
from aleator.aur.joint import Joint, check_joint, learn_jointly
from aleator.aur.label_scale import LabelScale, fit_label_scale
from aleator.aur.prior import choose_prior, scarcity, share_of_users
from aleator.aur.race import Result, decide, open_discounts, settings
from aleator.aur.residuals import Residuals, Unobserved
from aleator.batches import Histories, Users
from aleator.checkpoint.checks import fit, typed
from aleator.data.interactions import Interactions
from aleator.data.splits import Split
from aleator.data.tail import DEFAULT_TAIL, Tail
from aleator.device import resolve_device
from aleator.errors import AleatorError, require
from aleator.evaluation.held_out import HeldOut
from aleator.models.base import Model
from aleator.models.cache import ModelCache
from aleator.models.calibration import Map
from aleator.options import Among, Between, Ranges
from aleator.progress import progress
from aleator.ranking.blend import Blending, Spreads, blend, discounts, uncertainty
from aleator.ranking.contributions import Contributions
from aleator.ranking.derived import Derived
from aleator.ranking.listed import listed
from aleator.ranking.vectors import Factors
from aleator.ranks import here
from aleator.recommender import Place, Recommender, Who
from aleator.training.loop import Log, epochs_of
from aleator.training.slices import Slice
from aleator.training.stop import Stop
from aleator.training.update import Update
from aleator.training.watch import Watcher, ended_by, phase
from aleator.uncertainty.base import Estimator
from aleator.uncertainty.objective import Objective
from aleator.words import Select


@dataclass(kw_only=True, eq=False, repr=False)
class AUR(Recommender):
    """Aleatoric uncertainty-aware recommendation (Wang et al., 2023).

    A model estimates the expectation r of each label, and an estimator its log-variance s. The score of a pair is
    lam * r / c_r + (1 - lam) * s / c_s, where c is the spread of a part among the items of a user. A high uncertainty
    raises an item, since its zero may be wrong. `lam` is the knob: 1 is the expectation alone (safe), 0 the
    uncertainty alone (exploratory). The score is divided by popularity^`discount`, which has nothing to do with
    uncertainty: both parts follow popularity more than the items that people take next do. "auto" chooses lam and the
    discount together on the validation part, by `select` (`choose_lam`).

    Popularity counts for a user of whom little is known: `prior` * (1 / n - 1 / 20) times the share of all users who took
    the item is added to r, for a user with n < 20 history items. "auto" chooses it on the validation part too, with
    histories that are cut (`choose_prior`). If you give lam, the discount and the prior are 0 unless you give them too.

    Without a `model`, AUR fits each of the `contenders` and keeps the one whose blend is best on the validation part. An
    AUR works on a copy of the model that it is given. Your model stays as it was, and the fitted one is `aur.model`.

    `residuals` says which expectations the observed pairs have in the estimator's loss. "in-sample" takes those of the
    model, as the paper does. "loo" and "cross-fit" take those of a model that did not see the pair: "loo" leaves it out
    in closed form, if the model has one, and "cross-fit" fits the model again without parts of the pairs. `unobserved`
    says which ones the others have: the model's, as in the paper, or a constant. Options that are "auto" are decided by
    a race on the validation part. `aur.race` holds what was compared, and `aur.setting` what won.

    `blend="sigma"` is the paper's blend, lam * r + (1 - lam) * sigma with sigma = sqrt(exp(s) / K). `joint=Joint(...)`
    then trains the model and the estimator together (AUR-J). `recipe="paper"` is the protocol of the paper's released
    program, which chooses epochs and lam on the test part. Use it only to compare with published numbers.
    """

    model: Model = field(default=None, kw_only=False)  # type: ignore[assignment]  # of the expectation, such as `al.MF()`
    contenders: Sequence[Model] = ()  # models to compare if none is given; by default FISM and MF
    estimator: Estimator = field(default_factory=lambda: estimators.FactorEstimator())  # estimates the uncertainty
    alpha: float = 1.0  # weight of the observed pairs in the estimator's loss; a higher alpha may lift the tail
    beta: float = 0.01  # weight of the log-variance in the loss; K = 1 / beta is the scale of the variance
    gamma: float = 0.01  # weight of the squared log-variance in the loss
    floor: float = 0.01  # added to e^s in the loss; it bounds the weight of a pair that is fitted perfectly
    blend: Blending = "linear"  # linear in the log-variance, or in the uncertainty "sigma" as in the paper
    lam: float | Literal["auto"] = "auto"  # share of the expectation in the blend; "auto" chooses it on validation
    discount: float | Literal["auto"] = "auto"  # power of popularity that scores are divided by; "auto" with lam
    prior: float | Literal["auto"] = "auto"  # weight of popularity for users with short histories
    select: Select = "balanced"  # what "auto" chooses by: the most tail recall among the best blends, or the best one
    tail: Tail = DEFAULT_TAIL  # which items are tail items
    residuals: Residuals | Literal["auto"] = "auto"  # r of observed pairs in the estimator's loss
    unobserved: Unobserved | Literal["auto"] = "auto"  # r of unobserved pairs in the estimator's loss
    joint: Joint | None = None  # options of joint training (AUR-J); None for no joint training

    setting: Setting = field(init=False)  # how the estimator was trained
    spreads: Spreads | None = field(default=None, init=False)  # of expectation and log-variance, for the linear blend
    label_scale: LabelScale | None = field(default=None, init=False)  # from the log-variance to the uncertainty
    lam_used: float = field(init=False)  # the lam of the blend
    discount_used: float = field(init=False)  # the power of popularity that scores are divided by
    prior_used: float = field(init=False)  # the weight of popularity for users with short histories
    choice: Choice | None = field(default=None, init=False)  # the held-out figures of each lam
    chance: Confidence | None = field(default=None, init=False)  # from rank and score to the confidence, at its lam
    race: list[Result] = field(default_factory=list, init=False)  # what was compared, the winner first
    left_out: list[str] = field(default_factory=list, init=False)  # notes on models that could not be fitted
    tail_rule: Tail = field(init=False)  # that of the recipe, or the option `tail`
    tail_items: Tensor = field(init=False)  # [n_items] which items are tail by that rule
    _untrained: Estimator = field(init=False)  # the estimator with its options as they were given
    _items_of_both: Derived[Tensor] = field(default_factory=lambda: Derived(_joined), init=False)  # item factors

    paper: ClassVar[dict[str, Any]] = {
        "floor": 1e-3,
        "gamma": 1e-3,
        "blend": "sigma",
        "discount": 0.0,
        "prior": 0.0,
        "residuals": "in-sample",
        "unobserved": "model",
    }
    ranges: ClassVar[Ranges] = {
        "alpha": Between(1.0, 5.0, log=True),
        "gamma": Between(1e-4, 1e-1, log=True),
    }
    paper_ranges: ClassVar[Ranges] = {"alpha": Among(1.0, 2.0, 3.0, 4.0, 5.0), "gamma": Among(1e-3, 1e-2)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model is None:
            self.contenders = tuple(self.contenders) or (models.FISM(), models.MF())
        for model in self.entrants:
            self._check_model(model)
        require(
            self.alpha > 0 and self.beta > 0 and self.gamma >= 0 and self.floor >= 0,
            "alpha or beta is not above 0, or gamma or floor is below 0",
            "give a positive alpha and beta, and a gamma and a floor of at least 0",
        )
        _check_lam(self.lam)
        _check_discount(self.discount)
        _check_prior(self.prior, self.blend)
        if self.joint is not None:
            self._check_joint()
        self.device = self._one_device()
        shared: dict[str, Any] = {name: self.given[name] for name in ("seed", "recipe") if name in self.given}
        if self.device != "auto":
            shared["device"] = self.device
        paper = self.estimator.paper if self.conventions.paper_options else {}
        if self.contenders:
            self.contenders = tuple(model.with_defaults(**shared) for model in self.contenders)
        else:
            self.model = self.model.with_defaults(**shared)
        self.estimator = self._untrained = self.estimator.with_defaults(**shared, **paper)
        self._reset_knobs()

    @property
    def entrants(self) -> Sequence[Model]:
        """The models that a fit compares."""
        return self.contenders or (self.model,)

    def _check_model(self, model: Model) -> None:
        kind = type(model).__name__
        told = f"the model is the class {model.__name__}" if isinstance(model, type) else f"the model is a {kind}"
        require(
            isinstance(model, Model), told, "give a Model, such as al.MF(), or al.graft(model) of another library's"
        )
        for name in ("valid", "refit"):
            told = f"the option {name} of {kind} has no effect under AUR"
            require(not model.insists_on(name), told, f"give {name} to AUR")
        theirs = model.given.get("recipe", self.recipe)
        require(
            theirs == self.recipe, f"{kind} has recipe {theirs} and AUR {self.recipe}", "give the recipe to AUR alone"
        )

    def _check_joint(self) -> None:
        require(not self.contenders, "joint training takes one model", "give a model")
        shard = self.estimator.options().get("shard", "none")
        require(shard == "none", "joint training takes the rows of all items", 'give the estimator shard="none"')
        check_joint(self.model, self.floor)
        require(
            self.residuals in ("auto", "in-sample") and self.unobserved in ("auto", "model"),
            "joint training takes the expectations of the model",
            "drop joint, or residuals and unobserved",
        )

    def unused(self) -> Mapping[str, str]:
        chosen = {} if self.lam == "auto" else {"select": "with a lam that is given"}
        named = {} if self.model is None else {"contenders": "with a model that is given"}
        return {**super().unused(), **chosen, **named}

    def _one_device(self) -> str:
        """The device that was given, to AUR or to a part of it."""
        parts = (self, *self.entrants, self.estimator)
        named = [part.given["device"] for part in parts if "device" in part.given]
        require(
            len({resolve_device(name) for name in named}) <= 1,
            "the model and the estimator are on different devices",
            "give the device to AUR alone",
        )
        return named[0] if named else self.device

    @property
    def objective(self) -> Objective:
        """The objective that the estimator is trained by."""
        return Objective(self.alpha, self.beta, self.gamma, self.floor)

    # Fitting

    def fit(
        self,
        data: Split | Interactions,
        *,
        callback: Watcher | None = None,
        cache: ModelCache | None = None,
        checkpoint: Place | None = None,
        resume: bool = True,
    ) -> Self:
        """Fit the model, then the estimator, and choose lam.

        All choices are made on the validation part: numbers of epochs, what a race decides, and lam. The share `valid` of
        train is held out if there is none. With `refit`, both parts are then fitted again on train and validation
        together. The test part is not used, except that recipe "paper" makes its choices on it.

        Args:
            data: A split, or interactions without a split.
            callback: A function that is called with an `Epoch` after each epoch of each training. Its exception ends the
                fit.
            cache: Keeps what models learned, for several fits on the same pairs. Joint training does not use it.
            checkpoint: As in `Model.fit`.
            resume: As in `Model.fit`.

        Returns:
            The fitted AUR itself. `lam_used` is its lam, `choice` says why, and `race` holds what was compared.
        """
        return super().fit(data, callback=callback, cache=cache, checkpoint=checkpoint, resume=resume)

    def fit_split(self, split: Split, cache: ModelCache | None) -> None:
        recipe = self.conventions
        self._untrained.require_memory(split.everything.n_items, self.torch_device, checked=True)
        notes = self._check_frozen(split)
        own_tail = self.insists_on("tail") or not recipe.paper_tail
        self.tail_rule = self.tail if own_tail else recipe.tail(split)
        self.tail_items = torch.from_numpy(self.tail_rule.mask(split.everything.popularity))
        fitted, held = recipe.divide(split, self.valid, self.seed)
        few = self.hold_out(fitted, held, tail=self.tail_items)
        many = self.hold_out(fitted, held, tail=self.tail_items, times=4)
        self.data, self.log, self.label_scale, self.chance = fitted, None, None, None
        self._reset_knobs()
        won = self._compete(fitted, few, cache)
        if self.joint is not None:
            self.log = self._learn_jointly(won, Stop(lambda: self._progress_of_both(won, few)))
        with progress("choosing lam", None):
            self._choose_knobs(won, few, many)
        if not recipe.paper_options:
            self.label_scale = fit_label_scale(won.raw, self.histories, many.held, self.seed)
            self.chance = fit_confidence(self.score_block, many)
        if recipe.refits and self.refit:
            with phase("refit"):
                self._refit(won, split.everything, cache)
        self.spreads = won.spreads
        self.notes = self.model.notes + notes + self.left_out + ([] if self.spreads is None else self.spreads.notes())

    def _compete(self, fitted: Interactions, held_out: HeldOut, cache: ModelCache | None) -> Blended:
        """Fit the entrants, let them race if there are several settings, and train the estimator of the winner.

        Of several entrants, one that cannot be fitted is left out, such as EASE if memory is short.
        """
        entries, self.left_out = list[Blended](), list[str]()
        for entrant in self.entrants:
            model = copy.copy(entrant)
            try:
                self._fit_model(model, cache, fitted, held_out)
            except AleatorError as error:
                if len(self.left_out) + 1 == len(self.entrants) or ended_by(error) or here().size > 1:
                    raise  # of several processes, the others have not left it out
                self.left_out.append(f"{type(model).__name__} was left out: {error.problem}")
            else:
                entries += self._entries(model, held_out)
        won, self.race = decide(entries, held_out, self.select)
        self.model, self.estimator, self.setting = won.model, won.estimator, won.setting
        return won

    def _fit_model(
        self,
        model: Model,
        cache: ModelCache | None,
        data: Interactions,
        held_out: HeldOut | None = None,
        epochs: int | None = None,
    ) -> None:
        """Fit a model, or take what it learned from the cache or the journal."""
        if self.joint is None:
            model.fit_cached(cache, data, held_out, epochs)
        else:  # joint training writes over tensors, and needs parameters that a cache does not hold
            model.fit_pairs(data, held_out, epochs)

    def _reset_knobs(self) -> None:
        """The knobs as they were given."""
        self.lam_used = 1.0 if self.lam == "auto" else self.lam
        self.discount_used = 0.0 if self.discount == "auto" else self.discount
        self.prior_used = 0.0 if self.prior == "auto" else self.prior

    @property
    def _chooses_discount(self) -> bool:
        return self.discount == self.lam == "auto"

    def _choose_knobs(self, won: Blended, few: HeldOut, many: HeldOut) -> None:
        """Choose the discount, lam and the prior on held-out pairs of few or of many users, as far as they are open."""
        if self._chooses_discount:
            self.discount_used = choose_discount(few, won.parts, self.select)
        self.choice = choose_lam(many, won.parts, self.conventions.lams, self.discount_used, self.select)
        if self.lam == "auto":
            self.lam_used, self.discount_used = self.choice.lam, self.choice.discount
        self.spreads = won.spreads
        if self.prior == self.lam == "auto" and self.spreads is not None and not self.model.frozen:
            self.prior_used = choose_prior(self.score_block, self.spreads.shares[0], few, self.seed)

    def _entries(self, model: Model, held_out: HeldOut) -> list[Blended]:
        """The blends of a fitted model with the settings that options leave open, the simplest first."""
        if self.joint is not None:
            found = settings("in-sample", "model", self._untrained)
        else:
            found = settings(self.residuals, self.unobserved, self._untrained)
        powers = open_discounts(model.score_block, held_out) if self._chooses_discount else [self.discount_used]
        return [
            Blended(
                model,
                self._untrained.with_defaults(**dict(setting.options)),
                setting,
                self.objective,
                self.blend,
                discounts=powers,
            )
            for setting in found
        ]

    def _refit(self, won: Blended, data: Interactions, cache: ModelCache | None) -> None:
        """Fit the parts again on all training pairs, for the numbers of epochs that validation chose."""
        self.data = data
        logs = self.model.log, self.estimator.log
        self._fit_model(self.model, cache, data, epochs=epochs_of(self.model.log))
        won.learn(Stop(epochs=epochs_of(self.estimator.log)))
        self.model.log, self.estimator.log = logs
        if self.log is not None and self.log.best_epoch:
            self._learn_jointly(won, Stop(epochs=self.log.best_epoch))

    @property
    def goes_on(self) -> bool:
        return True

    def take_in(self, update: Update) -> None:
        require(self.joint is None, "an AUR that was trained jointly cannot be updated", "fit it again on all pairs")
        before, log = self.histories, self.estimator.log
        self.model, self.estimator = self.model._apart(), copy.copy(self.estimator)
        self.model.take_in(update)
        self.data = update.growth.after
        self.tail_items = torch.from_numpy(self.tail_rule.mask(self.data.popularity))
        self.estimator.expand(update.n_items, before, self.model.histories)
        won = self.blended
        won.go_on(Stop(epochs=update.due(log)))
        self.estimator.log, self.spreads = log, won.spreads

    def _progress_of_both(self, won: Blended, held_out: HeldOut) -> float:
        """What early stopping of joint training watches: the best Recall@20 of a few blends."""
        with torch.no_grad():
            self.model.publish()
        won.measure_spreads()
        return float(won.measure(held_out).recall.mean(1).max())

    def _learn_jointly(self, won: Blended, stop: Stop) -> Log:
        assert self.joint is not None
        log = learn_jointly(self.joint, won.model, won.estimator, won.objective, self.histories, stop, seed=self.seed)
        won.measure_spreads()
        return log

    def _check_frozen(self, split: Split) -> list[str]:
        """Refuse to choose lam for a grafted model on pairs that it may have been fitted on. Returns notes.

        Such a model looks better on these pairs than it is.
        """
        if not any(model.frozen for model in self.entrants) or self.conventions.on_test or len(split.valid):
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
        return self.model.score_block(users, items), self._sigma(self.estimator.log_variance(users, items))

    def _sigma(self, s: Tensor) -> Tensor:
        """The uncertainty, from the log-variance."""
        return uncertainty(s, 1 / self.beta) if self.label_scale is None else self.label_scale(s)

    @property
    def blended(self) -> Blended:
        """The two parts and their blend."""
        return Blended(self.model, self.estimator, self.setting, self.objective, self.blend, self.spreads)

    def score_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        scores = blend(*self.blended.parts(users, items), self.lam_used)
        popularity = self.histories.popularity
        scores *= discounts(popularity if items is None else popularity[items], self.discount_used)
        if self.prior_used and self.spreads is not None:
            share = share_of_users(self.histories) * (self.prior_used * self.spreads.shares[0])
            scores += scarcity(users) * (share if items is None else share[items])
        return self.without_history(scores, users, items)

    def factors(self, users: Users) -> tuple[Tensor, Tensor] | None:
        """[B, dim] and [n_items, dim], whose inner products are the scores. lam is on the side of the users alone."""
        return self._both(self.model.factors(users), users)

    def user_factors(self, users: Users) -> Tensor | None:
        x, of_estimator = self.model.user_factors(users), self.estimator.factors(users)
        if x is None or of_estimator is None or self.spreads is None:
            return None
        return self._by_user(x, of_estimator[0], users, self.spreads)

    def low_rank(self, rank: int) -> Factors | None:
        found = self.model.low_rank(rank)
        return None if found is None or self.spreads is None else lambda users: self._both(found(users), users)

    def _both(self, of_model: tuple[Tensor, Tensor] | None, users: Users) -> tuple[Tensor, Tensor] | None:
        """The factors of the blend, from those of the model. None if there are none."""
        of_estimator = self.estimator.factors(users)
        if of_model is None or of_estimator is None or self.spreads is None:
            return None
        (x, y), (p, q) = of_model, of_estimator
        by_item = self._items_of_both(y, q, *self.spreads.shares, self.histories, self.discount_used)
        return self._by_user(x, p, users, self.spreads), by_item

    def _by_user(self, x: Tensor, p: Tensor, users: Users, spreads: Spreads) -> Tensor:
        """[B, dim] the users' side of the blend, which lam is part of, and the weight of the prior."""
        weight = scarcity(users) * (self.prior_used * spreads.shares[0])
        return torch.cat([self.lam_used * x, (1 - self.lam_used) * p, weight], 1)

    def contributions(self, users: Users, items: Tensor) -> Contributions:
        of_r, of_s = self.model.terms(users, items), self.estimator.terms(users, items)
        r = torch.zeros_like(of_s.values) if of_r is None else of_r.values
        parts = {"expectation": torch.full_like(r, torch.nan) if of_r is None else r, "uncertainty": of_s.values}
        if self.blend == "linear":
            added = blend(*self.blended.scaled(r, of_s.values), self.lam_used)
        else:  # the difference that taking the terms away makes
            s = listed(self.estimator.log_variance, self.estimator.factors(users), users, items)[users.row]
            whole, less = (self.blended.scaled(r, each)[1] for each in (s, s - of_s.values))
            added = blend(r, whole - less, self.lam_used)
        discount = discounts(self.histories.popularity[items], self.discount_used)[users.row]
        # joint training moves factors of users away from those that follow from a history
        exact = self.blend == "linear" and self.joint is None and of_s.exact and (of_r is None or of_r.exact)
        return Contributions(parts, added * discount, exact)

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
        """The uncertainty sigma of users against items. Where it is high, a zero may be wrong.

        Args:
            users: User ids, or {name: [item ids]} for newcomers.
            items: Item ids. By default all items, in the order of `fitted.items`.

        Returns:
            A tensor [n_users, n_items]: the standard deviation of the label about the expectation, at most 0.5. Under
                recipe "paper" it is the paper's sqrt(exp(s) / K), which has no bound.
        """
        with torch.no_grad():
            s = self.estimator.log_variance(self.users(users), None if items is None else self._items(items))
        return self._sigma(s)

    def recommend(self, users: Who, k: int = 20, *, lam: float | None = None, **options: Any) -> Any:
        """The k best items of each user, with the expectation and the uncertainty of each.

        Args:
            users: User ids, or {name: [item ids]} for newcomers. A history is enough: nothing is trained again.
            k: Items per user. A user with fewer candidates gets fewer rows.
            lam: The knob for this call: 1 is the expectation alone, 0 the uncertainty alone. By default `lam_used`.
            **options: `filter_seen=False` keeps the items of a user's own history. `allow` is a list of item ids: only
                these are candidates. `deny` is a list of item ids to leave out. Both may be
                {user: [item ids]}. `where` filters by attributes of the items, such as {"genre": "Drama"} or
                {"year": (1990, 1999)}. `untrained=True` keeps items without a training interaction.
                `explain=3` adds the columns expectation_from and uncertainty_from: lists of the at most 3 items of the
                user's history that add most to each. If there are titles, they stand in columns that end in _titles.
                `memory` is the number of bytes that blocks of scores may take.

        Returns:
            A frame with the columns user_id, item_id, rank (from 1), score, confidence, expectation, uncertainty,
                popularity (training interactions of the item), tail (whether it is a tail item), and title if the data
                has titles. It is the kind of frame that the data came in, and polars by default. `confidence` is the
                probability that the item is among the next 10 items that the user takes, for the first 50 ranks. It is
                NaN at another lam than the chosen one, and if `allow`, `deny` or another option changes the ranks.
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

    def without_prior(self) -> Self:
        turned = self.at(self.lam_used)
        turned.prior_used = 0.0
        return turned

    def set_lam(self, lam: float) -> None:
        """Turn the knob of a fitted AUR. Nothing is trained again.

        Args:
            lam: 1 is the expectation alone, 0 the uncertainty alone.
        """
        _check_lam(lam, auto=False)
        if lam != self.lam_used:
            self.chance = None  # it was learned at another lam
        self.lam_used = float(lam)

    def change(self, option: str, value: Any) -> Any:
        if option == "lam":
            self.set_lam(value)
        return value if option in ("lam", "model", "estimator") else super().change(option, value)

    def beside_item(self, users: Users, items: Tensor) -> dict[str, Tensor]:
        s = listed(self.estimator.log_variance, self.estimator.factors(users), users, items)
        parts = {"expectation": self.model.score_listed(users, items), "uncertainty": self._sigma(s)}
        return parts | super().beside_item(users, items)

    def beside_score(self, users: Users, scores: Tensor, whole: bool) -> dict[str, Tensor]:
        if self.chance is None or not whole:
            return {"confidence": torch.full_like(scores, torch.nan)}
        return {"confidence": self.chance(scores).masked_fill(users.size[:, None] == 0, torch.nan)}

    @property
    def tail_mask(self) -> Tensor:
        return self.tail_items.to(self.torch_device)

    # Saving and loading

    @property
    def slices(self) -> Mapping[str, Slice]:
        of_model = {} if self.model is None else self.model.slices  # without a fit
        return {**of_model, **{f"estimator.{name}": own for name, own in self.estimator.slices.items()}}

    def options(self) -> dict[str, Any]:
        return super().options() | {
            "tail": str(self.tail),
            "joint": None if self.joint is None else asdict(self.joint),
            "estimator": self.estimator.to_manifest(),
            "model": self.model.to_manifest(),
        }

    def asked_for(self) -> dict[str, Any]:
        parts = {"estimator": self._untrained.to_manifest(), "contenders": [m.to_manifest() for m in self.entrants]}
        return super().options() | {"tail": str(self.tail), "joint": self.joint and asdict(self.joint)} | parts

    def params(self) -> dict[str, Any]:
        found = super().params()
        return found | ({"model": None, "contenders": self.contenders} if self.contenders else {})

    def __sklearn_clone__(self) -> Self:
        made = copy.copy(self)
        if not self.contenders:  # the model may have been given without a name
            made.given = {"model": self.model, **self.given}
        return super(AUR, made).__sklearn_clone__()

    def __repr__(self) -> str:
        named = [] if self.contenders else [repr(self.model)]
        return f"AUR({', '.join(named + [f'{n}={v!r}' for n, v in self.given.items() if n != 'model'])})"

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
            "discount": self.discount_used,
            "prior": self.prior_used,
            "choice": None if self.choice is None else self.choice.to_dict(),
            "chance": None if self.chance is None else self.chance.to_dict(),
            "race": [asdict(result) for result in self.race],
            "setting": asdict(self.setting),
            "spreads": None if self.spreads is None else asdict(self.spreads),
            "notes": self.notes,
            "tail": str(self.tail_rule),
            "model": learned,
            "estimator": None if self.estimator.log is None else self.estimator.log.to_dict(),
            "joint": None if self.log is None else self.log.to_dict(),
        }
        tensors = tensors | {"tail": self.tail_items} | ({} if self.label_scale is None else self.label_scale.tensors())
        return mine, tensors | {f"estimator.{name}": value for name, value in self.estimator.tensors().items()}

    def unpack(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        def kept(name: str, hint: Any) -> Any:
            return typed(hint, learned[name], name)

        self.lam_used, self.discount_used, self.prior_used = (
            kept(name, float) for name in ("lam", "discount", "prior")
        )
        _check_lam(self.lam_used, auto=False)
        _check_discount(self.discount_used)
        _check_prior(self.prior_used, self.blend)
        self.tail_rule = Tail.parse(kept("tail", str))
        self.choice, self.race = kept("choice", Choice | None), kept("race", list[Result])
        chance = learned.get("chance")  # older folders have none
        self.chance = None if chance is None else Confidence.restore(chance)
        self.setting, self.spreads = kept("setting", Setting), kept("spreads", Spreads | None)
        if (self.spreads is None) != (self.blend == "sigma"):
            raise ValueError("the linear blend has spreads, and the other has none")
        has_scale = "scale.x" in tensors
        self.label_scale = LabelScale(Map.restore(tensors["scale.x"], tensors["scale.y"])) if has_scale else None
        fit(tensors, {"tail": "[n_items] bool"}, n_items=self.fitted.n_items)
        self.tail_items = tensors["tail"]
        self.model.data = self.data
        self.model.unpack(learned["model"], tensors)
        self.estimator.log, self.log = kept("estimator", Log | None), kept("joint", Log | None)
        mine = {name.removeprefix("estimator."): v for name, v in tensors.items() if name.startswith("estimator.")}
        fit(mine, self.estimator.learned, n_items=self.fitted.n_items)
        self.estimator.set_tensors(mine)
        self.notes = kept("notes", list[str])


def _joined(y: Tensor, q: Tensor, of_r: float, of_s: float, histories: Histories, discount: float) -> Tensor:
    """The item factors of both parts side by side, and those of the prior."""
    both = torch.cat([y * of_r, q * of_s], 1).mul_(discounts(histories.popularity, discount)[:, None])
    return torch.cat([both, share_of_users(histories)[:, None]], 1)


def _check_lam(lam: float | str, auto: bool = True) -> None:
    if not (auto and lam == "auto") and not (isinstance(lam, (int, float)) and 0 <= lam <= 1):
        raise AleatorError(f"lam is {lam}", "give a lam between 0 (uncertainty alone) and 1 (expectation alone)")


def _check_discount(discount: float | str) -> None:
    if discount != "auto" and not (isinstance(discount, (int, float)) and 0 <= discount <= 1):
        raise AleatorError(f"discount is {discount}", "give a power of popularity from 0 (no discount) to 1")


def _check_prior(prior: float | str, blending: Blending) -> None:
    if prior != "auto" and not (
        isinstance(prior, (int, float)) and (prior == 0 or (prior > 0 and blending == "linear"))
    ):
        told = 'give a weight of at least 0, and blend="linear" if it is above 0'
        raise AleatorError(f"prior is {prior} and blend {blending!r}", told)
