"""AUR: a model, an uncertainty estimator on top of it, and the blend of both. Read this file first.

fit        the model learns the expectation r; it is frozen; the estimator learns the log-variance s of each label
           (or both go on together: AUR-J); lam is chosen on held-out pairs; both are refitted on all training pairs
score      lam * r + (1 - lam) * sigma, with sigma = sqrt(exp(s) / K) and K = 1 / beta
recommend  the k highest scores among what a user has not seen
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from aleator import models
from aleator import uncertainty as estimators
from aleator.aur import choice as selection
from aleator.aur.joint import Joint
from aleator.aur.residuals import OutOfSample
from aleator.batches import Users
from aleator.data.interactions import Interactions
from aleator.data.splits import Split
from aleator.data.tail import Tail
from aleator.device import resolve_device
from aleator.errors import AleatorError, require
from aleator.evaluation.held_out import HeldOut
from aleator.models.base import Model
from aleator.options import Among, Between, Ranges
from aleator.ranking.blend import blend, uncertainty
from aleator.ranking.scan import Scan, available
from aleator.recommender import Recommender, Who, as_split
from aleator.training.loop import Log, Trainer
from aleator.uncertainty.base import Estimator, Expectation
from aleator.uncertainty.objective import Objective

_SCANNED = 4096  # items from which on a catalogue is scanned


@dataclass(kw_only=True, eq=False, repr=False)
class AUR(Recommender):
    """Aleatoric uncertainty-aware recommendation (Wang et al., 2023). Its score is a blend on the label's scale.

    `alpha` weighs the observed pairs when the estimator is trained: more of it lifts the tail. `lam` is the knob between
    expectation (1, safe) and uncertainty (0, exploratory); "auto" chooses it on validation by `select`.
    `residuals` other than "in-sample" trains the estimator on expectations of the observed pairs by a model that did not
    see them: "loo" in closed form where there is one, "cross-fit" by fitting the model again without parts of the pairs.
    `joint` goes on to train both together (AUR-J), with the weights of the estimator's stage or of the model's.
    `recipe="paper"` is the released program's protocol (epoch and lam chosen on the test part), for comparing with
    published numbers only.
    """

    model: Model = field(kw_only=False)
    estimator: Estimator = field(default_factory=lambda: estimators.FactorEstimator())
    alpha: float = 1.0
    beta: float = 0.01
    gamma: float = 0.001
    floor: float = (
        0.01  # added to e^s in the loss, so that pairs fitted perfectly do not rule it; 0 is the paper's text
    )
    lam: float | Literal["auto"] = "auto"
    select: selection.Select = "balanced"
    tail: Tail = field(default_factory=lambda: Tail.mass(0.5))
    residuals: Literal["in-sample", "loo", "cross-fit"] = "in-sample"
    joint: bool = False
    joint_weights: Literal["estimator", "model"] = "estimator"  # alpha and 1 on observed and other pairs, or 1 and mu
    joint_lr: float = 1e-3
    joint_clip: float = 1.0  # the largest norm of a gradient
    joint_epochs: int = 100  # the most of them

    log: Log | None = field(default=None, init=False)  # of the joint training

    paper: ClassVar[dict[str, Any]] = {"floor": 1e-3}
    ranges: ClassVar[Ranges] = {  # where `aleator tune` searches, beside those of the model and the estimator
        "alpha": Between(1.0, 5.0, log=True),
        "gamma": Between(1e-4, 1e-1, log=True),
    }
    paper_ranges: ClassVar[Ranges] = {"alpha": Among(1.0, 2.0, 3.0, 4.0, 5.0), "gamma": Among(1e-3, 1e-2)}

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            isinstance(self.model, Model),
            f"the model is a {type(self.model).__name__}",
            "give a Model, such as al.MF()",
        )
        require(
            self.alpha > 0 and self.beta > 0 and self.gamma >= 0 and self.floor >= 0,
            "alpha or beta is not above 0, or gamma or floor is below 0",
            "give a positive alpha and beta, and a gamma and a floor of at least 0",
        )
        require(
            min(self.joint_lr, self.joint_clip, self.joint_epochs) > 0,
            "an option of joint training is not positive",
            "give numbers above 0",
        )
        if self.joint:
            self._check_joint()
        _check_lam(self.lam)
        self.device = self._one_device()
        shared: dict[str, Any] = {n: self.given[n] for n in ("seed", "recipe") if n in self.given}
        if self.device != "auto":
            shared["device"] = self.device
        paper = self.estimator.paper if self.recipe == "paper" else {}
        self.model = self.model.with_defaults(**shared)
        self.estimator = self.estimator.with_defaults(**shared, **paper)
        self.objective = Objective(self.alpha, self.beta, self.gamma, self.floor)
        self.lam_used: float = 1.0 if self.lam == "auto" else self.lam
        self.curve: list[dict[str, float]] = []

    def _check_joint(self) -> None:
        kind = type(self.model).__name__
        require(self.model.trains_jointly, f"{kind} cannot be trained jointly", "use MF, LightGCN or MultVAE")
        require(self.model.calibrate == "none", f"{kind} is calibrated, which joint training undoes", "drop calibrate")
        require(self.floor > 0, "joint training without a floor diverges", "give a floor above 0")
        require(self.residuals == "in-sample", "joint training has no residuals", "drop joint or residuals")

    def _one_device(self) -> str:
        """The device that was given, to AUR or to a part of it."""
        named = [part.given["device"] for part in (self, self.model, self.estimator) if "device" in part.given]
        require(
            len({resolve_device(name) for name in named}) <= 1,
            "the model and the estimator are on different devices",
            "give the device to AUR alone",
        )
        return named[0] if named else self.device

    def fit(self, data: Split | Interactions) -> Self:
        split = as_split(data)
        told = self._check_frozen(split)
        fitted, held = self.choose_on(split)
        self.tail_rule = split.paper_tail if self.recipe == "paper" and split.paper_tail else self.tail
        tail = self.tail_items = torch.from_numpy(self.tail_rule.mask(split.everything.popularity))
        most = self.monitored_users
        some = HeldOut(fitted, held, self.torch_device, tail=tail, most_users=most, seed=self.seed)
        many = HeldOut(fitted, held, self.torch_device, tail=tail, most_users=most and 4 * most, seed=self.seed)

        def monitor() -> float:
            """Recall@20 by the uncertainty alone: any lam would start at the bare model's and hide the learning."""
            with torch.no_grad():
                overall, _ = some.recall(lambda users: [self.estimator.log_variance(users)])
            return float(overall.mean())

        def monitor_both() -> float:
            """The best Recall@20 of a few blends."""
            with torch.no_grad():
                overall, _ = some.recall_of_blends(self.parts, selection.PAPER)
            return float(overall.mean(1).max())

        self.data = fitted
        self.model.train(fitted, some)
        self.estimator.train(self.histories, self._frozen(), self.objective, monitor)
        if self.joint:
            self.log = self._train_jointly(monitor_both)
        fine = selection.PAPER if self.recipe == "paper" else selection.FINE
        choice = selection.choose(many, self.parts, fine, self.select)
        self.curve = choice.curve
        self.lam_used = choice.lam if self.lam == "auto" else self.lam
        if self.recipe == "ours" and self.refit:
            self._refit(split.everything)
        self.notes = self.model.notes + told
        return self

    def _check_frozen(self, split: Split) -> list[str]:
        """A model from elsewhere that was fitted on the held-out pairs too would look better there than it is."""
        if not self.model.frozen or self.recipe == "paper" or len(split.valid):
            return []
        require(
            self.lam != "auto",
            "lam cannot be chosen for a grafted model on pairs that it may have been fitted on",
            "split with a validation part (data.split(valid=0.1), or al.load_dataset(name).carve(0.1)), fit the recommender on "
            "split.train and give the whole split here; or give lam yourself, such as lam=0.5",
        )
        return ["graft: the estimator's epochs were chosen on pairs that the model may have been fitted on"]

    def _refit(self, data: Interactions) -> None:
        """The same on all training pairs, for as many epochs as validation chose."""
        self.data = data
        logs = self.model.log, self.estimator.log
        self.model.train(data, epochs=_epochs(self.model.log))
        self.estimator.train(self.histories, self._frozen(), self.objective, epochs=_epochs(self.estimator.log))
        self.model.log, self.estimator.log = logs
        if self.log is not None and self.log.best_epoch:
            self._train_jointly(epochs=self.log.best_epoch)

    def _frozen(self) -> Expectation:
        """What the estimator learns the residuals of."""
        return self.model if self.residuals == "in-sample" else OutOfSample(self.model, self.residuals == "cross-fit")

    def _train_jointly(self, check: Callable[[], float] | None = None, epochs: int | None = None) -> Log:
        weights = (self.alpha, 1.0) if self.joint_weights == "estimator" else (1.0, self.model.mu)
        trainer = Trainer(
            max_epochs=epochs or self.joint_epochs,
            batch_size=self.histories.batch_size(16),
            lr=self.joint_lr,
            device=self.torch_device,
            clip=self.joint_clip,
            from_start=check is not None,
            seed=self.seed,
            label="joint training",
        )
        return Joint(self.model, self.estimator, self.objective, *weights).train(self.histories, trainer, check)

    def parts(self, users: Users, items: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Expectation and uncertainty, [B, n_items] or [B, len(items)] each."""
        sigma = uncertainty(self.estimator.log_variance(users, items), self.objective.k)
        return self.model.score_block(users, items), sigma

    def score_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        return self.without_history(blend(*self.parts(users, items), self.lam_used), users, items)

    def expectation(self, users: Who, items: Sequence[Any] | None = None) -> Tensor:
        """r of users against all items or those named."""
        return self.model.score(self.users(users), items)

    def uncertainty(self, users: Who, items: Sequence[Any] | None = None) -> Tensor:
        """sigma of users against all items or those named. High: a missing label there is probably wrong."""
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
        """The same tensors at another lam: somebody else may be asking at this one meanwhile."""
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
        """As every recommender's; on a CPU most of a large catalogue is skipped by bounds."""
        scan = self._scan()
        if scan is None or bool((users.size == 0).any()):
            return super().top(users, k, seen=seen, candidates=candidates, chunk=chunk)
        factors = self.model.factors(users)[0], self.estimator.factors(users)[0]  # type: ignore[attr-defined]
        return scan.top(factors, self.lam_used, k, seen, candidates)

    def _scan(self) -> Scan | None:
        """The item factors prepared for `top`, once for each fit, where that is worth it."""
        if self.torch_device.type != "cpu" or self.fitted.n_items < _SCANNED or not available():
            return None
        if not (hasattr(self.model, "factors") and hasattr(self.estimator, "factors")) or self.model.map is not None:
            return None
        nobody = self.histories.batch(torch.arange(0))
        y, q = self.model.factors(nobody)[1], self.estimator.factors(nobody)[1]
        kept: Scan | None = getattr(self, "_prepared", None)
        if kept is None or kept.sides[0].table is not y or kept.sides[1].table is not q:
            kept = self._prepared = Scan(y, q, self.objective.k)
        return kept

    def explain(self, users: Users, items: Tensor) -> dict[str, Tensor]:
        scan = self._scan()
        if scan is None or bool((users.size == 0).any()):
            shown, at = torch.unique(items.clamp_min(0), return_inverse=True)
            r, sigma = (part.gather(1, at) for part in self.parts(users, shown))
        else:
            row = torch.arange(len(users)).repeat_interleave(items.shape[1])
            factors = self.model.factors(users)[0], self.estimator.factors(users)[0]  # type: ignore[attr-defined]
            r, sigma = (part.view(items.shape) for part in scan.parts(factors, row, items.clamp_min(0).flatten()))
        return {"expectation": r, "uncertainty": sigma} | super().explain(users, items)

    @property
    def tail_mask(self) -> Tensor:
        return self.tail_items.to(self.torch_device)

    def options(self) -> dict[str, Any]:
        return super().options() | {
            "tail": str(self.tail),
            "estimator": self.estimator.to_manifest(),
            "model": self.model.to_manifest(),
        }

    def __repr__(self) -> str:
        return f"AUR({', '.join([repr(self.model), *[f'{n}={v!r}' for n, v in self.given.items() if n != 'model']])})"

    @classmethod
    def restore(cls, options: dict[str, Any]) -> Self:
        model, estimator, tail = options.pop("model"), options.pop("estimator"), options.pop("tail")
        for part in (model, estimator):
            part["options"]["device"] = options["device"]
        return cls(
            models.MODELS.build(model),
            estimator=estimators.ESTIMATORS.build(estimator),
            tail=Tail.parse(tail),
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
    return max(log.best_epoch, 1) if log is not None else None


def _check_lam(lam: float | str, auto: bool = True) -> None:
    if not (auto and lam == "auto") and not (isinstance(lam, (int, float)) and 0 <= lam <= 1):
        raise AleatorError(f"lam is {lam}", "give a lam between 0 (uncertainty alone) and 1 (expectation alone)")
