"""Copies that wait on disk come back as they were, and a full disk is told before the training."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest
import torch

from aleator.errors import AleatorError
from aleator.training import spill
from aleator.training.spill import Spill


def test_what_is_kept_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "_BYTES", 64)  # several pieces
    tables = [torch.randn(50, 3), torch.randn(7, 2).bfloat16()]
    kept = Spill(tables)
    first = [table.clone() for table in tables]
    for table in tables:
        table.add_(1)
    assert all(torch.equal(a, b) for a, b in zip(kept.tensors, first, strict=True))
    kept.keep(tables)
    second = [table.clone() for table in tables]
    for table in tables:
        table.zero_()
    kept.restore(tables)
    assert all(torch.equal(a, b) for a, b in zip(tables, second, strict=True))


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="this system does not reserve space")
def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(AleatorError, match=r"need 0.0 GiB in .*No space left on device.; free some space there"):
        Spill([torch.zeros(3)])
