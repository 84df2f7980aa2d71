"""What a program can switch in PyTorch for all that follows. A fit and an update compute as usual."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

_KINDS = ("cpu", "cuda")


@contextmanager
def as_usual() -> Iterator[None]:
    """Inside, PyTorch has gradients and no autocast, and new tensors are of float32 and on the CPU, as by default.

    Without that, a fit inside `torch.no_grad()` would train nothing, and one under a default dtype would be another one.
    """
    dtype = torch.get_default_dtype()
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        for kind in _KINDS:
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        if dtype != torch.float32:  # it is one for all threads
            stack.callback(torch.set_default_dtype, dtype)
            torch.set_default_dtype(torch.float32)
        yield
