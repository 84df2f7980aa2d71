"""The one training loop: batches of users, early stopping, and the best weights at the end.

A step needs no round trip between the host and the device. The host knows the sizes of the histories and cuts the
batches by them. The device adds up the loss, and the host reads it once an epoch. A training that runs in a journal saves
its state after a step every few seconds (journal.py).

Several ranks take the same steps on the same batches, so that all of them have the same parameters. Each takes some of
the users of a batch, and the gradients are summed. Or each has the parameters of some of the items (slices.py). An
optimiser other than AdamW takes each step as a whole on every rank.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from aleator.batches import Histories, Users, pieces
from aleator.checkpoint.checks import Figure, typed
from aleator.checkpoint.manifest import without_nan
from aleator.device import in_smaller_blocks
from aleator.errors import require
from aleator.progress import note
from aleator.ranks import here
from aleator.training.journal import Step, step, taking
from aleator.training.slices import Shard
from aleator.training.spill import Spill
from aleator.training.stop import Stop
from aleator.training.watch import stage
from aleator.training.whole import Content

Loss = Callable[[Users, torch.Generator], Tensor]
"""The loss of a batch, summed over its users. The generator is for what is drawn at random.

It has an autograd graph. Or it has none, and has written gradients by hand: those of its mean over the users.
"""


class Optimizer(Protocol):
    """An optimiser, as the loop uses it."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients."""

    def step(self) -> Any:
        """Move the parameters by their gradients."""

    def settle(self) -> None:
        """Apply all updates that were deferred. The loop calls this before parameters are read."""

    def tensors(self) -> dict[str, Tensor]:
        """All that it knows beside the parameters, by name."""

    def set_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Take over what `tensors` returned."""


class AdamW:
    """AdamW (Loshchilov and Hutter, 2019), which defers no updates. A parameter without a gradient stays as it is.

    The arithmetic is PyTorch's fused function. Its class `torch.optim.AdamW` imports the compiler of PyTorch when it is
    made, which takes seconds. An instance also tells who keeps what follows from a parameter that it moved.
    """

    def __init__(self, parameters: Sequence[Tensor], *, lr: float, weight_decay: float = 0.0) -> None:
        self.parameters, self.lr, self.weight_decay = list(parameters), lr, weight_decay
        self.state: list[dict[str, Tensor]] = [{} for _ in self.parameters]

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self.parameters:
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.zero_()

    @torch.no_grad()
    def step(self) -> None:
        moved = [i for i, parameter in enumerate(self.parameters) if parameter.grad is not None]
        for i in moved:
            self.state[i] = self.state[i] or _unmoved(self.parameters[i])
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        parameters = [self.parameters[i] for i in moved]
        first, second, steps = ([self.state[i][name] for i in moved] for name in ("exp_avg", "exp_avg_sq", "step"))
        adamw(
            parameters,
            gradients,
            first,
            second,
            [],
            steps,
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self.lr,
            weight_decay=self.weight_decay,
            eps=1e-8,
            maximize=False,
        )
        torch.autograd.graph.increment_version(parameters)  # the fused kernels do not

    def settle(self) -> None:
        """Do nothing: no updates are deferred."""

    def tensors(self) -> dict[str, Tensor]:
        return {f"{i}.{name}": value for i, state in enumerate(self.state) for name, value in state.items()}

    def set_tensors(self, tensors: dict[str, Tensor]) -> None:
        for key, value in tensors.items():
            i, name = key.split(".")
            self.state[int(i)][name] = value.to(self.parameters[int(i)].device)


def _unmoved(parameter: Tensor) -> dict[str, Tensor]:
    """What AdamW knows of a parameter before its first step."""
    moments = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
    return {"step": torch.zeros((), device=parameter.device)} | moments


@dataclass
class Log:
    """The log of a training."""

    best_epoch: int = 0
    rows: list[dict[str, Figure]] = field(default_factory=list)  # epoch, loss, and the metric if it was checked
    seconds: list[float] = field(default_factory=list, compare=False)  # time of each epoch without its check; not saved

    def to_dict(self) -> dict[str, Any]:
        return {"best_epoch": self.best_epoch, "rows": self.rows}


def epochs_of(log: Log | None) -> int | None:
    """How many epochs a refit takes, at least one. None for what does not train in epochs."""
    return None if log is None else max(log.best_epoch, 1)


@dataclass(kw_only=True)
class Loop:
    """The options of a training: Adam(W) over batches of users, with early stopping."""

    max_epochs: int
    batch_size: int  # users
    lr: float
    device: torch.device
    weight_decay: float = 0.0
    patience: int = 10  # training stops after so many checks without a better metric
    check_every: int = 1  # epochs between two checks
    tolerance: float = 0.0  # keep the last epoch whose metric is within this share of the best
    exact: bool = False  # whether a GPU multiplies matrices in float32, instead of TF32
    clip: float | None = None  # the largest norm of a gradient
    spill: bool = False  # whether the best weights so far wait on disk
    from_start: bool = False  # whether the parameters before training may be the best, as epoch 0
    seed: int = 0
    shard: Shard = "none"  # whether the parameters and the loss are those of some of the items
    label: str = "training"  # the name in progress and messages

    def minimise(
        self,
        loss: Loss,
        parameters: Sequence[Tensor],
        histories: Histories,
        stop: Stop,
        optimizer: Optimizer | None = None,
    ) -> Log:
        """Minimise `loss` in the parameters, in place, over all users with a history. AdamW is the default optimiser.

        `loss` is a sum over the users of a batch, as `Loss` says.
        """
        by_users = optimizer is None and self.shard == "none"
        optimizer = optimizer or AdamW(parameters, lr=self.lr, weight_decay=self.weight_decay)
        last = self.max_epochs if stop.epochs is None else stop.epochs
        with step(self.label, training=True) as kept:
            found = kept.found()
            if found is None:
                if by_users:
                    here().broadcast(*parameters)  # ranks on unlike machines may have drawn other last bits
                run = _Run(self, loss, parameters, histories, stop, optimizer, by_users)
                state = kept.state()
                if state is not None:
                    with taking():
                        run.restore(*state)
                self._finish(run, stop, last, kept)
                kept.finish(run.log.to_dict(), _numbered("p", parameters))
                return run.log
            facts, tensors = found
            with taking():
                _copy(_numbered("p", parameters), tensors)
                return typed(Log, without_nan(facts), "the log")  # type: ignore[no-any-return]

    def _finish(self, run: _Run, stop: Stop, last: int, kept: Step) -> None:
        """Take the epochs that are left, and restore the best weights."""
        with stage(self.label, last, run.epoch - 1) as told:
            while run.epoch <= last and run.best.stale < self.patience:
                row = {"epoch": run.epoch, "loss": run.finish_epoch(kept)}
                if not math.isfinite(row["loss"]):
                    diverged = f"{self.label} diverged: the loss is {row['loss']} in epoch {run.epoch}"
                    require(run.best.epoch > 0, diverged, f"try a learning rate below {self.lr:g}")
                    note(f"{diverged}; it ends with the weights of epoch {run.best.epoch}, the best so far")
                    break
                if stop.metric is not None and (run.epoch % self.check_every == 0 or run.epoch == last):
                    run.optimizer.settle()
                    row["metric"] = stop.metric()
                    run.best.see(run.epoch, row["metric"])
                run.log.rows.append(row)
                run.epoch += 1
                told.advance(row["loss"], row.get("metric"))
        run.optimizer.settle()
        run.log.best_epoch = last if stop.metric is None else run.best.restore()


class _Run:
    """A training that is running: all that it needs to go on as if it had never stopped."""

    def __init__(
        self,
        loop: Loop,
        loss: Loss,
        parameters: Sequence[Tensor],
        histories: Histories,
        stop: Stop,
        optimizer: Optimizer,
        by_users: bool,
    ) -> None:
        self.loop, self.loss, self.parameters, self.optimizer = loop, loss, parameters, optimizer
        self.ranks, self.by_users = here(), by_users  # whether the ranks share out the users of a batch
        self.batches, self.draws = _Batches(histories, loop), torch.Generator(loop.device).manual_seed(loop.seed)
        self.best, self.log = _Best(loop, parameters, stop), Log()
        self.epoch, self.steps = 1, 0  # the epoch that is running, and its steps so far
        self.total = torch.zeros((), dtype=torch.float64, device=loop.device)  # the loss of these steps

    def finish_epoch(self, kept: Step) -> float:
        """Take a step for each batch that is left in the epoch. Returns the mean loss over users."""
        start = time.perf_counter()
        for users in self.batches.after(self.steps):
            self._step(users)
            self.steps += 1
            if self._saves(kept):
                kept.save(*self.state())
        if self.loop.shard == "items":
            self.ranks.sum(self.total)
        found = float(self.total) / max(len(self.batches.who), 1)
        self.steps, self.total = 0, torch.zeros_like(self.total)
        self.log.seconds.append(time.perf_counter() - start)
        return found

    def _saves(self, kept: Step) -> bool:
        """Whether to save the state now, on all ranks or on none."""
        if self.ranks.size == 1:
            return kept.due and self._finite()
        return kept.keeps and self.ranks.any(kept.due) and not self.ranks.any(not self._finite())

    def _finite(self) -> bool:
        return math.isfinite(self.total)

    def _step(self, users: Users) -> None:
        loop, optimizer = self.loop, self.optimizer
        with products(loop.exact, loop.device):
            mean = self._slopes(users).detach()
        if self.by_users:
            mean = mean.to(self.parameters[0].dtype)  # one tensor holds it and the gradients
            self.ranks.sum(mean, *(p.grad for p in self.parameters if p.grad is not None))
        if loop.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters, loop.clip)
        optimizer.step()
        self.total += mean * len(users)

    @in_smaller_blocks
    def _slopes(self, users: Users) -> Tensor:
        """The mean loss of a batch, or this rank's part of it. Its gradients are in the parameters."""
        self.optimizer.zero_grad(set_to_none=True)
        part, share = self._part(users)
        mean = self.loss(part, self.draws) / len(part)
        if share != 1:
            mean = mean * share
        if mean.requires_grad:
            mean.backward()  # type: ignore[no-untyped-call]
        elif share != 1:
            for parameter in self.parameters:
                if parameter.grad is not None:
                    parameter.grad.mul_(share)
        return mean

    def _part(self, users: Users) -> tuple[Users, float]:
        """The users of a batch that this rank takes, and their share.

        A rank without any takes one user with the share 0: it has to draw the same random numbers as the others.
        """
        n, ranks = len(users), self.ranks
        if not self.by_users or ranks.size == 1:
            return users, 1
        first, last = ranks.rank * n // ranks.size, (ranks.rank + 1) * n // ranks.size
        return (users.part(first, last), (last - first) / n) if last > first else (users.part(0, 1), 0)

    def state(self) -> Content:
        """Facts for JSON, and tensors by name."""
        best = self.best
        facts = {
            "epoch": self.epoch,
            "steps": self.steps,
            "best": [best.epoch, best.metric, best.stale],
            "rows": self.log.rows,
            "seconds": self.log.seconds,
        }
        of_optimizer = {f"o.{name}": value for name, value in self.optimizer.tensors().items()}
        return facts, self._own() | of_optimizer | {"order": self.batches.before, "draws": self.draws.get_state()}

    def _own(self) -> dict[str, Tensor]:
        return _numbered("p", self.parameters) | _numbered("b", self.best.weights) | {"total": self.total}

    def restore(self, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Take over what `state` returned."""
        self.epoch, self.steps = typed(int, facts["epoch"], "epoch"), typed(int, facts["steps"], "steps")
        epoch, metric, stale = facts["best"]
        self.best.epoch, self.best.stale = typed(int, epoch, "best"), typed(int, stale, "stale")
        self.best.metric = metric if metric == -math.inf else typed(float, metric, "metric")
        log = typed(Log, without_nan({"rows": facts["rows"], "seconds": facts["seconds"]}), "the log")
        self.log.rows, self.log.seconds = log.rows, log.seconds
        if min(self.epoch, self.steps + 1) < 1:
            raise ValueError("it has no such epoch")
        _copy(self._own(), tensors)
        self.optimizer.set_tensors({n.removeprefix("o."): v for n, v in tensors.items() if n.startswith("o.")})
        self.batches.order.set_state(tensors["order"])
        self.draws.set_state(tensors["draws"])


def _numbered(name: str, tensors: Sequence[Tensor]) -> dict[str, Tensor]:
    return {f"{name}.{i}": tensor for i, tensor in enumerate(tensors)}


@torch.no_grad()
def _copy(into: dict[str, Tensor], values: dict[str, Tensor]) -> None:
    """Write values into tensors that are in use, so that these keep their place in memory."""
    for name, tensor in into.items():
        tensor.copy_(values[name])


class _Batches:
    """All users with a history, in random batches of equal size, in another order each time."""

    def __init__(self, histories: Histories, loop: Loop) -> None:
        self.histories, self.order = histories, torch.Generator().manual_seed(loop.seed)
        self.who = (histories.host_size > 0).nonzero().squeeze(1)
        # Batches have equal sizes: a small last batch would take a step as long as the others, from a few users.
        self.size = math.ceil(len(self.who) / max(math.ceil(len(self.who) / loop.batch_size), 1))

        self.before = self.order.get_state()  # of the order, before the epoch that is running

    def after(self, steps: int) -> Iterator[Users]:
        """The batches of an epoch after its first `steps`."""
        self.before = self.order.get_state()
        shuffled = self.who[torch.randperm(len(self.who), generator=self.order)]
        return (self.histories.batch(i, trained=True) for i in islice(pieces(shuffled, self.size), steps, None))


class _Best:
    """The best weights so far, and how many checks ago the metric last rose (`stale`)."""

    def __init__(self, loop: Loop, parameters: Sequence[Tensor], stop: Stop) -> None:
        self.parameters, self.tolerance = parameters, loop.tolerance
        self.epoch, self.metric, self.stale = 0, -math.inf, 0
        kept = [] if stop.metric is None else parameters
        self.spill = Spill(kept) if loop.spill else None
        self.weights = [p.detach().clone() for p in kept] if self.spill is None else self.spill.tensors
        if stop.metric is not None and loop.from_start:
            self.metric = stop.metric()

    def see(self, epoch: int, metric: float) -> None:
        """Keep the weights of this epoch if they are the best, or within the tolerance of the best."""
        better = metric > self.metric
        self.metric = max(self.metric, metric)
        self.stale = 0 if better else self.stale + 1
        if better or (self.tolerance and metric >= (1 - self.tolerance) * self.metric):
            self.epoch = epoch
            if self.spill is not None:
                self.spill.keep(self.parameters)
                return
            for kept, now in zip(self.weights, self.parameters, strict=True):
                kept.copy_(now.detach())

    @torch.no_grad()
    def restore(self) -> int:
        """Write the best weights back into the parameters. Returns their epoch."""
        if self.spill is not None:
            self.spill.restore(self.parameters)
            return self.epoch
        for now, kept in zip(self.parameters, self.weights, strict=True):
            now.copy_(kept)
        return self.epoch


@contextmanager
def trainable(parameters: Sequence[Tensor]) -> Iterator[None]:
    """Inside, autograd tracks the parameters. Afterwards they are plain tensors without gradients."""
    for parameter in parameters:
        parameter.requires_grad_()
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(False).grad = None


@contextmanager
def products(exact: bool, device: torch.device) -> Iterator[None]:
    """Inside, a GPU multiplies matrices in float32 if `exact`, else in TF32."""
    before = torch.get_float32_matmul_precision()
    if device.type == "cuda":
        torch.set_float32_matmul_precision("highest" if exact else "high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
