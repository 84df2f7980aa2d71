"""Devices: which one is used, what it has, and how much work it is given at a time."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache, wraps
from typing import ParamSpec, TypeVar

import torch

from aleator import cgroups
from aleator.errors import AleatorError, require
from aleator.progress import note
from aleator.ranks import here

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Budget:
    """How much to compute at a time. Large blocks keep a GPU busy. Small blocks fit into the cache of a CPU."""

    score_bytes: int  # bytes of a block of scores and its copies, in ranking and evaluation
    monitored_users: int  # users who are evaluated while something trains
    loss_pairs: int  # pairs of a block of the estimator's loss
    sampled_items: int  # items to sample for a batch of the estimator; up to twice as many items, it takes all
    added_rows: int  # sums over histories that are computed at a time
    product_numbers: int  # numbers of an elementwise product
    least_squares_numbers: int  # numbers of the padded normal equations of a batch
    gram_numbers: int  # numbers of a block of the items' Gram matrix
    calibration_scores: int  # scores of a block, when a map onto the label's scale is fitted
    listed_pairs: int  # pairs of a batch, where work goes over all of them
    pmf_scores: int  # scores of a block of PMF's loss
    expomf_pairs: int  # pairs of a block whose exposure ExpoMF infers
    ease_copies: int  # copies of the item-item matrix that EASE holds while it inverts it
    dense_share: float  # an item-item matrix is stored dense from this share of nonzero entries on


_BLOCKS = (  # what is halved where memory runs out; the others change results, or are no sizes of blocks
    "score_bytes",
    "loss_pairs",
    "added_rows",
    "product_numbers",
    "least_squares_numbers",
    "gram_numbers",
    "calibration_scores",
    "pmf_scores",
    "expomf_pairs",
)
_HALVINGS = 8  # how often at most
_halved = 0  # how often in this process
_COPIES = 5  # of what is trained
_OWN = "start it anew (spawn) and load the model there, or load it with device cpu"
BUDGETS = {
    "cpu": Budget(
        score_bytes=256 << 20,
        monitored_users=4_000,
        loss_pairs=1 << 20,
        sampled_items=2048,
        added_rows=1 << 11,
        product_numbers=1 << 19,
        least_squares_numbers=1 << 20,
        gram_numbers=1 << 24,
        calibration_scores=1 << 23,
        listed_pairs=1 << 22,
        pmf_scores=1 << 21,
        expomf_pairs=1 << 20,
        ease_copies=3,
        dense_share=1 / 8,
    ),
    "cuda": Budget(
        score_bytes=4 << 30,
        monitored_users=10_000,
        loss_pairs=1 << 29,
        sampled_items=1 << 17,
        added_rows=1 << 30,
        product_numbers=1 << 26,
        least_squares_numbers=1 << 26,
        gram_numbers=1 << 28,
        calibration_scores=1 << 28,
        listed_pairs=1 << 32,
        pmf_scores=1 << 27,
        expomf_pairs=1 << 27,
        ease_copies=4,
        dense_share=1 / 256,
    ),
}


def budget(device: torch.device) -> Budget:
    """The budget for this kind of device. Its blocks are smaller once memory ran out."""
    whole = BUDGETS[device.type]
    if not _halved:
        return whole
    return Budget(**asdict(whole) | {name: halved(getattr(whole, name)) for name in _BLOCKS})


def halved(size: int) -> int:
    """The size of a block, halved as often as the memory of a GPU ran out."""
    return max(size >> _halved, 1)


def in_smaller_blocks(compute: Callable[P, R]) -> Callable[P, R]:
    """A function that computes again in blocks of half the size where the memory of a GPU runs out.

    Blocks stay small for the rest of the process. The function must not have changed anything when it is called again.
    """

    @wraps(compute)
    def tried(*args: P.args, **options: P.kwargs) -> R:
        while True:
            try:
                return compute(*args, **options)
            except torch.OutOfMemoryError:
                _halve()

    return tried


def _halve() -> None:
    global _halved
    if _halved == _HALVINGS:
        raise AleatorError("the memory of the GPU is too small", "take a smaller dim or batch_size, or device cpu")
    if here().size > 1:  # ranks with blocks of unlike sizes would wait for different things
        raise AleatorError("the memory of a GPU ran out", "start more processes, or take a smaller dim or batch_size")
    _halved += 1
    torch.cuda.empty_cache()
    note(f"the memory of the GPU ran out; it goes on in blocks of 1/{2**_halved} of the size")


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside, PyTorch computes in this thread alone.

    A small computation that is shared out waits for the slowest core. If another process keeps that core busy, it waits
    some 10 milliseconds, each time.
    """
    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def resolve_device(name: str) -> torch.device:
    """The device of that name. "auto" is the GPU if there is one, and the CPU otherwise."""
    if name == "cpu":  # asked for in every call
        return torch.device(name)
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        lost = device.type == "cuda" and getattr(torch.cuda, "_is_in_bad_fork", bool)()
        require(not lost, "a forked process cannot use the GPU that its parent has used", _OWN)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        raise _no_device(name) from None
    if device.type not in BUDGETS:
        raise _no_device(name)
    return device


def _no_device(name: str) -> AleatorError:
    return AleatorError(f"there is no device '{name}' on this machine", "use device auto or cpu")


def free_memory(device: torch.device) -> int:
    """Bytes of memory that are free on a device, within the limit of a container on the CPU.

    The ranks on a machine share out what is free there.
    """
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + unused
    try:
        with open("/proc/meminfo") as lines:
            free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        free = machine_memory()  # the system does not say how many are free
    within = cgroups.memory()
    return (min(free, within.free) if within else free) // here().local


def machine_memory() -> int:
    """Bytes of memory of the machine."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 62


def require_memory(needed: int, device: torch.device, what: str) -> None:
    """Refuse `what` if it needs more memory than is free. The message says how much it needs."""
    have = free_memory(device)
    require(
        needed <= have,
        f"{what} needs {needed / 2**30:.1f} GiB and {have / 2**30:.1f} GiB are free on {device}",
        "take a smaller dim, or a device with more memory",
    )


def require_tables(*shapes: Sequence[int], device: torch.device) -> None:
    """Refuse tables of float32 that do not fit in memory together with what trains them.

    Adam needs gradients, two moments and the best weights so far. Least squares need about as much.
    """
    told = " and ".join(" x ".join(f"{size:,}" for size in shape) for shape in shapes)
    require_memory(
        4 * _COPIES * sum(math.prod(shape) for shape in shapes), device, f"a training of tables of {told} numbers"
    )


@contextmanager
def allocating(what: str) -> Iterator[None]:
    """Inside, an allocation that fails on the CPU becomes an `AleatorError` about `what`. A GPU has its own error."""
    try:
        yield
    except (RuntimeError, MemoryError, ValueError, TypeError) as error:
        short = isinstance(error, MemoryError) or any(word in str(error) for word in ("allocate memory", "verflow"))
        if not short or isinstance(error, torch.OutOfMemoryError):
            raise
        raise AleatorError(f"{what} takes more memory than there is", "take a smaller dim or less data") from None


@cache
def fast_bfloat16() -> bool:
    """Whether this CPU multiplies bfloat16 natively. On others bfloat16 is slower than float32."""
    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(bool(getattr(torch.cpu, name, bool)()) for name in names)
