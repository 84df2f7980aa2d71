"""Ranks: the processes that fit one model together, what they send each other, and how many bytes that is.

Every rank runs the same program on the same data. torchrun or SLURM starts them, and the first fit joins them into one
group. A process that nobody started as one of several is alone: then nothing here does anything.
"""

from __future__ import annotations

import atexit
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from aleator.errors import AleatorError, require
from aleator.progress import quiet

TIMEOUT = "ALEATOR_TIMEOUT"  # names the seconds that a rank waits for the others, in the environment
_PATIENCE = 1800.0  # seconds, if the environment names none
_NUMBERS = 1 << 22  # of a table that are sent at a time when it is collected


@dataclass(eq=False)
class Ranks:
    """The group of ranks that this process belongs to, and its number there."""

    rank: int = 0
    size: int = 1
    local: int = 1  # ranks on this machine
    sent: float = 0.0  # bytes that a rank has sent so far, the mean over ranks, where sums go round in a ring

    def sum(self, *tensors: Tensor) -> None:
        """Replace each tensor by its sum over the ranks. All of them together cross the network once."""
        if self.size == 1:
            return
        alone = len(tensors) == 1 and tensors[0].is_contiguous()
        flat = tensors[0] if alone else torch.cat([tensor.reshape(-1) for tensor in tensors])
        with _answered():
            dist.all_reduce(flat)
        self.sent += 2 * (self.size - 1) / self.size * flat.nbytes
        if not alone:
            for tensor, part in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):  # type: ignore[no-untyped-call]
                tensor.copy_(part.view_as(tensor))

    def any(self, holds: bool) -> bool:
        """Whether that holds on any rank. Every rank has to ask."""
        if self.size == 1:
            return holds
        held = torch.tensor([holds], dtype=torch.float32)
        self.sum(held)
        return bool(held > 0)

    def broadcast(self, *tensors: Tensor) -> None:
        """Replace each tensor by that of the first rank."""
        for tensor in tensors if self.size > 1 else ():
            self._from(0, tensor)

    def gather(self, own: Tensor, rows: Sequence[int]) -> list[Tensor]:
        """The tensors of all ranks. They are alike, except that rank number r has rows[r] rows."""
        if self.size == 1:
            return [own]
        found = [own.contiguous() if r == self.rank else own.new_empty((n, *own.shape[1:])) for r, n in enumerate(rows)]
        for rank, tensor in enumerate(found):
            self._from(rank, tensor)
        return found

    def _from(self, rank: int, tensor: Tensor) -> None:
        same = tensor.detach().contiguous()
        if same.numel():
            with _answered():
                dist.broadcast(same, rank)
            self.sent += (self.size - 1) / self.size * same.nbytes
        if same.data_ptr() != tensor.data_ptr():
            tensor.detach().copy_(same)

    def collect(self, own: Tensor, into: Tensor | None, rows: Sequence[int]) -> None:
        """Write the tables of all ranks into one on the first rank, `into`, some rows at a time. Others give None.

        Rank number r has rows[r] rows. Other ranks need no memory for it, and the first one needs only what `into` takes.
        """
        some = max(_NUMBERS // max(own[0].numel(), 1), 1)
        before = 0
        for rank, n in enumerate(rows):
            for start in range(0, n, some):
                end = min(start + some, n)
                if into is not None:
                    target = into[before + start : before + end]
                    target.copy_(own[start:end] if rank == 0 else self._received(rank, target))
                elif rank == self.rank:
                    with _answered():
                        dist.send(own[start:end].detach().cpu().contiguous(), 0)
            before += n

    def _received(self, rank: int, like: Tensor) -> Tensor:
        found = torch.empty_like(like, device="cpu")
        with _answered():
            dist.recv(found, rank)
        return found

    def wait(self) -> None:
        """Wait until every rank has come here."""
        self.any(False)


ALONE = Ranks()
_joined: Ranks | None = None


def here() -> Ranks:
    """The ranks that this process has joined, or the process alone."""
    return _joined or ALONE


def join() -> Ranks:
    """Join the ranks that torchrun or SLURM has started, once in a process. A group that the program made is taken."""
    global _joined
    if _joined is not None:
        return _joined
    if dist.is_available() and dist.is_initialized():
        if dist.get_world_size() > 1:
            _joined = _take(Ranks(dist.get_rank(), dist.get_world_size(), _local(os.environ)))
        return here()
    place = _place(os.environ)
    if place is None:
        return ALONE
    require(
        dist.is_available() and dist.is_gloo_available(),
        "this PyTorch has no torch.distributed",
        "install one that has it, or start one process",
    )
    _connect(place)
    _joined = _take(Ranks(place.rank, place.size, place.local))
    return _joined


def require_alone(what: str) -> None:
    """Refuse something that several ranks cannot do together."""
    place = _place(os.environ)
    told = f"{what} runs in one process, and {place.size if place else here().size} were started together"
    require(place is None and here().size == 1, told, "start one process")


class _Place(NamedTuple):
    """What the environment says about a process."""

    rank: int
    size: int
    number: int  # among the ranks on this machine
    local: int


def _place(environment: Mapping[str, str]) -> _Place | None:
    """The place that torchrun or srun gave this process. None if it is no part of a group.

    srun also starts processes that know nothing of each other. It is a group if the script says where to meet.
    """
    torchrun = "RANK", "WORLD_SIZE", "LOCAL_RANK"
    slurm = "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"
    for names in (torchrun, slurm):
        if all(name in environment for name in (*names[:2], "MASTER_ADDR", "MASTER_PORT")):
            try:
                rank, size, number = (int(environment.get(name, 0)) for name in names)
            except ValueError:
                told = f"{' or '.join(names)} in the environment is not a number"
                raise AleatorError(told, "start the processes by torchrun or srun") from None
            return _Place(rank, size, number, _local(environment)) if size > 1 else None
    return None


def _local(environment: Mapping[str, str]) -> int:
    """The number of ranks on this machine, as far as the environment says it."""
    told = environment.get("LOCAL_WORLD_SIZE") or environment.get("SLURM_STEP_TASKS_PER_NODE") or "1"
    first = re.match(r"\d+", told)
    return int(first[0]) if first else 1


def _connect(place: _Place) -> None:
    """Make the group: by nccl between GPUs if each rank has one of its own, by gloo otherwise."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    backend = "cpu:gloo,cuda:nccl" if gpus >= place.local and dist.is_nccl_available() else "gloo"
    if gpus:
        torch.cuda.set_device(place.number % gpus)
    try:
        seconds = float(os.environ.get(TIMEOUT, _PATIENCE))
        dist.init_process_group(backend, rank=place.rank, world_size=place.size, timeout=timedelta(seconds=seconds))
    except (RuntimeError, ValueError, OverflowError) as error:
        reason = str(error).partition("\n")[0][:120]
        raise AleatorError(
            f"the {place.size} processes did not find each other ({reason})",
            f"check MASTER_ADDR and MASTER_PORT, {TIMEOUT}, and that all of them run",
        ) from None
    atexit.register(_leave)


def _take(ranks: Ranks) -> Ranks:
    if ranks.rank:
        quiet()  # the first rank shows the progress of all
    return ranks


def _leave() -> None:
    with suppress(Exception):  # of a group that came apart
        dist.destroy_process_group()


@contextmanager
def _answered() -> Iterator[None]:
    """Inside, a connection that breaks or an answer that does not come becomes an `AleatorError`."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError:
        raise AleatorError(
            f"another of the {dist.get_world_size()} processes ended or did not answer",
            "see what it said, and start the same command again, which goes on from the checkpoint if there is one",
        ) from None
