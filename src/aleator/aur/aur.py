"""AUR: a model, an uncertainty estimator on top of it, and the blend of both. Read this file first.

fit        The model learns the expectation r and is frozen. The estimator learns the log-variance s of each label. (With
           joint training both then go on together.) lam is chosen on held-out pairs. Both are fitted again on all
           training pairs.
score      lam * r + (1 - lam) * sigma, with sigma = sqrt(exp(s) / K) and K = 1 / beta
recommend  the k highest scores among what a user has not seen
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
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
from aleator.ranking.scan import Scan, available
from aleator.recipe import PAPER_LAMS
from aleator.recommender import Recommender, Who, as_split
from aleator.training.loop import Log
from aleator.training.stop import Stop
from aleator.uncertainty.base import Estimator, Expectation
from aleator.uncertainty.objective import Objective

_SCANNED = 4096  # items of a catalogue from which on it is scanned


@dataclass(kw_only=True, eq=False, repr=False)
class AUR(Recommender):
    """Aleatoric uncertainty-aware recommendation (Wang et al., 2023). Its score is a blend on the label's scale.

    An AUR works on a copy of the `model` that it is given: yours stays as it was, and the fitted one is `aur.model`.

    `alpha` weighs the observed pairs when the estimator is trained: a higher one lifts the tail. `lam` is the knob
    between expectation (1, safe) and uncertainty (0, exploratory). "auto" chooses it on validation by `select`.

    `residuals` says which expectations of observed pairs the estimator is trained on. "in-sample" takes the model's own.
    The others take those of a model that did not see the pair: "loo" in closed form where there is one, "cross-fit" by
    fitting the model again without parts of the pairs.

    `joint=Joint(...)` then trains both together (AUR-J). `recipe="paper"` is the protocol of the paper's released
    program, which chooses epochs and lam on the test part. It serves only to compare with published numbers.
    """

    model: Model = field(kw_only=False)
    estimator: Estimator = field(default_factory=lambda: estimators.FactorEstimator())
    alpha: float = 1.0
    beta: float = 0.01
    gamma: float = 0.001
    floor: float = 0.01  # added to e^s in the loss: it bounds the weight of pairs that are fitted perfectly
    lam: float | Literal["auto"] = "auto"
    select: Select = "balanced"
    tail: Tail = DEFAULT_TAIL
    residuals: Literal["in-sample", "loo", "cross-fit"] = "in-sample"
    joint: Joint | None = None

    objective: Objective = field(init=False)
    lam_used: float = field(init=False)  # the lam that scores are blended at
    curve: list[dict[str, float]] = field(default_factory=list, init=False)  # what lam was chosen from
    tail_rule: Tail = field(init=False)  # of the recipe, or the option `tail`
    tail_items: Tensor = field(init=False)  # [n_items] which items are tail by that rule
    _scan: Scan | None = field(default=None, init=False)  # the item factors prepared for `top`

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
        self.objective = Objective(self.alpha, self.beta, self.gamma, self.floor)
        if self.joint is not None:
            check_joint(self.model, self.objective)
            require(self.residuals == "in-sample", "joint training has no residuals", "drop joint or residuals")
        self.device = self._one_device()
        shared: dict[str, Any] = {name: self.given[name] for name in ("seed", "recipe") if name in self.given}
        if self.device != "auto":
            shared["device"] = self.device
        paper = self.estimator.paper if self.conventions.paper_options else {}
        self.model = self.model.with_defaults(**shared)
        self.estimator = self.estimator.with_defaults(**shared, **paper)
        self.lam_used = 1.0 if self.lam == "auto" else self.lam

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
        split, recipe = as_split(data), self.conventions
        notes = self._check_frozen(split)
        if self.joint is not None:
            cache = None  # joint training needs what only a fit leaves, and writes over it
        self.tail_rule = recipe.tail(split, self.tail)
        self.tail_items = torch.from_numpy(self.tail_rule.mask(split.everything.popularity))
        fitted, held = recipe.parts(split, self.valid, self.seed)
        few = self.hold_out(fitted, held, tail=self.tail_items)
        many = self.hold_out(fitted, held, tail=self.tail_items, times=4)
        self._fit_parts(fitted, few, cache)
        choice = choose_lam(many, self.parts, recipe.lams, self.select)
        self.curve = choice.curve
        self.lam_used = choice.lam if self.lam == "auto" else self.lam
        if recipe.refits and self.refit:
            self._refit(split.everything, cache)
        self.notes = self.model.notes + notes
        return self

    def _fit_parts(self, fitted: Interactions, held_out: HeldOut, cache: ModelCache | None) -> None:
        """The model, the estimator, and both jointly if asked for, each with early stopping on the held-out pairs."""

        def recall_by_uncertainty() -> float:
            """Recall@20 by the uncertainty alone: a blend would start at the bare model's and hide the learning."""
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
        self.model.fit_or_recall(cache, fitted, held_out)
        self.estimator.learn(self.histories, self._frozen(), self.objective, Stop(recall_by_uncertainty))
        if self.joint is not None:
            self.log = self._learn_jointly(Stop(recall_by_blends))

    def _refit(self, data: Interactions, cache: ModelCache | None) -> None:
        """The same on all training pairs, for as many epochs as validation chose."""
        self.data = data
        logs = self.model.log, self.estimator.log
        self.model.fit_or_recall(cache, data, epochs=_epochs(self.model.log))
        self.estimator.learn(self.histories, self._frozen(), self.objective, Stop(epochs=_epochs(self.estimator.log)))
        self.model.log, self.estimator.log = logs
        if self.log is not None and self.log.best_epoch:
            self._learn_jointly(Stop(epochs=self.log.best_epoch))

    def _frozen(self) -> Expectation:
        """The expectations whose residuals the estimator learns."""
        return self.model if self.residuals == "in-sample" else OutOfSample(self.model, self.residuals == "cross-fit")

    def _learn_jointly(self, stop: Stop) -> Log:
        assert self.joint is not None
        return learn_jointly(
            self.joint, self.model, self.estimator, self.objective, self.histories, stop, seed=self.seed
        )

    def _check_frozen(self, split: Split) -> list[str]:
        """A grafted model that was fitted on the held-out pairs too would look better on them than it is."""
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
        """Expectation and uncertainty, [B, n_items] or [B, len(items)] each."""
        sigma = uncertainty(self.estimator.log_variance(users, items), self.objective.k)
        return self.model.score_block(users, items), sigma

    def score_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        return self.without_history(blend(*self.parts(users, items), self.lam_used), users, items)

    def expectation(self, users: Who, items: Sequence[Any] | None = None) -> Tensor:
        """r of users against all items or those named, [n_users, n_items]."""
        return self.model.score(self.users(users), items)

    def uncertainty(self, users: Who, items: Sequence[Any] | None = None) -> Tensor:
        """sigma of users against all items or those named. Where it is high, a missing label is probably wrong."""
        with torch.no_grad():
            s = self.estimator.log_variance(self.users(users), None if items is None else self._items(items))
        return uncertainty(s, self.objective.k)

    def recommend(self, users: Who, k: int = 20, *, lam: float | None = None, **options: Any) -> Any:
        """As `Recommender.recommend`, with the expectation and the uncertainty of each item, at this `lam`."""
        if lam is None:
            return super().recommend(users, k, **options)
        return self.at(lam).recommend(users, k, **options)

    def rerank(self, candidates: Any, k: int | None = None, *, lam: float | None = None, **options: Any) -> Any:
        """As `Recommender.rerank`, with the expectation and the uncertainty of each pair, at this `lam`."""
        if lam is None:
            return super().rerank(candidates, k, **options)
        return self.at(lam).rerank(candidates, k, **options)

    def at(self, lam: float) -> Self:
        """The same AUR at another lam. It shares all tensors, and this one keeps its lam."""
        _ = self.histories  # uploaded once, not once a call
        turned = copy.copy(self)
        turned.set_lam(lam)
        return turned

    def set_lam(self, lam: float) -> None:
        """Turn the knob of a fitted AUR: 1 is the expectation alone, 0 the uncertainty alone."""
        _check_lam(lam, auto=False)
        self.lam_used = float(lam)

    def top(
        self,
        users: Users,
        k: int,
        *,
        seen: Users | None,
        candidates: Sequence[Tensor | None] = (None,),
        chunk: int | None = None,
    ) -> list[tuple[Tensor, Tensor]]:
        """As every recommender's. On a CPU it skips most of a large catalogue by bounds."""
        scanned = self._scanned(users)
        if scanned is None:
            return super().top(users, k, seen=seen, candidates=candidates, chunk=chunk)
        scan, factors = scanned
        return scan.top(factors, self.lam_used, k, seen, candidates)

    def explain(self, users: Users, items: Tensor) -> dict[str, Tensor]:
        scanned = self._scanned(users)
        if scanned is None:
            shown, at = torch.unique(items.clamp_min(0), return_inverse=True)
            r, sigma = (part.gather(1, at) for part in self.parts(users, shown))
        else:
            scan, factors = scanned
            row = torch.arange(len(users)).repeat_interleave(items.shape[1])
            r, sigma = (part.view(items.shape) for part in scan.parts(factors, row, items.clamp_min(0).flatten()))
        return {"expectation": r, "uncertainty": sigma} | super().explain(users, items)

    def _scanned(self, users: Users) -> tuple[Scan, tuple[Tensor, Tensor]] | None:
        """The scan of the item factors, made once for each fit, and the factors of the users; None where it is no use.

        It takes a large catalogue on a CPU, expectations and log-variances that are inner products, and users with a
        history.
        """
        if self.torch_device.type != "cpu" or self.fitted.n_items < _SCANNED or not available():
            return None
        if bool((users.size == 0).any()):
            return None
        of_model, of_estimator = self.model.factors(users), self.estimator.factors(users)
        if of_model is None or of_estimator is None:
            return None
        (x, y), (p, q) = of_model, of_estimator
        if self._scan is None or not self._scan.is_of(y, q):
            self._scan = Scan(y, q, self.objective.k)
        return self._scan, (x, p)

    @property
    def tail_mask(self) -> Tensor:
        return self.tail_items.to(self.torch_device)

    # Saving and loading

    def options(self) -> dict[str, Any]:
        return super().options() | {
            "tail": str(self.tail),
            "joint": None if self.joint is None else self.joint.to_dict(),
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


def _epochs(log: Log | None) -> int | None:
    """How long to refit what trained in epochs."""
    return None if log is None else log.epochs


def _check_lam(lam: float | str, auto: bool = True) -> None:
    if not (auto and lam == "auto") and not (isinstance(lam, (int, float)) and 0 <= lam <= 1):
        raise AleatorError(f"lam is {lam}", "give a lam between 0 (uncertainty alone) and 1 (expectation alone)")
