"""What a device has: free memory, and whether it is fast at bfloat16."""

from __future__ import annotations

import os
from functools import cache

import torch

from aleator.errors import AleatorError, require


def free_memory(device: torch.device) -> int:
    """Bytes that can still be taken."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + unused
    try:
        with open("/proc/meminfo") as lines:
            return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 1 << 62


def require_memory(needed: int, device: torch.device, what: str) -> None:
    """An error where `what` needs more than there is, with how much."""
    have = free_memory(device)
    require(
        needed <= have,
        f"{what} needs {needed / 2**30:.1f} GiB and {have / 2**30:.1f} GiB are free on {device}",
        "take a smaller dim, or a device with more memory",
    )


@cache
def fast_bfloat16() -> bool:
    """Whether this CPU multiplies bfloat16 natively; elsewhere it is slower than float32."""
    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(bool(getattr(torch.cpu, name, bool)()) for name in names)


def resolve_device(name: str) -> torch.device:
    """ "auto" is the GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
        if device.type not in ("cpu", "cuda"):
            raise RuntimeError
    except (RuntimeError, AssertionError):
        raise AleatorError(f"there is no device '{name}' here", "use device auto or cpu") from None
    return device
