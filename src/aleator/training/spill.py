"""Spill: copies of tensors that wait on disk, where memory is short."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Sequence

import torch
from torch import Tensor

from aleator.batches import pieces
from aleator.errors import AleatorError

_BYTES = 1 << 26  # to copy at a time


class Spill:
    """Copies of tensors in temporary files without a name, which end with the process. They are mapped into memory."""

    def __init__(self, like: Sequence[Tensor]) -> None:
        self._maps = [_room(tensor.nbytes) for tensor in like]
        self.tensors = [
            torch.frombuffer(room, dtype=tensor.dtype, count=tensor.numel()).view(tensor.shape)
            for room, tensor in zip(self._maps, like, strict=True)
        ]
        self.keep(like)

    def keep(self, tensors: Sequence[Tensor]) -> None:
        """Copy tensors into the files."""
        self._copy(self.tensors, tensors)

    def restore(self, tensors: Sequence[Tensor]) -> None:
        """Copy what is kept back."""
        self._copy(tensors, self.tensors)

    @torch.no_grad()
    def _copy(self, into: Sequence[Tensor], of: Sequence[Tensor]) -> None:
        for room, target, source in zip(self._maps, into, of, strict=True):
            for rows, values in zip(_pieces(target), _pieces(source), strict=True):
                rows.copy_(values)
                if hasattr(mmap, "MADV_DONTNEED"):  # the content stays in the file, and the memory is free again
                    room.madvise(mmap.MADV_DONTNEED)


def _pieces(tensor: Tensor) -> tuple[Tensor, ...]:
    return pieces(tensor, max(_BYTES * len(tensor) // tensor.nbytes, 1))


def _room(n_bytes: int) -> mmap.mmap:
    """A mapped file of that size, all of which is there: a full disk would otherwise end the process later on."""
    folder = tempfile.gettempdir()
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            else:
                file.write(bytes(n_bytes))
                file.flush()
            return mmap.mmap(file.fileno(), n_bytes)
    except OSError as error:
        problem = f"the best weights so far need {n_bytes / 2**30:.1f} GiB in '{folder}' ({error.strerror or error})"
        raise AleatorError(problem, "free some space there, or set TMPDIR to a folder on another disk") from None
