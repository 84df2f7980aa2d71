"""A fit and an update are the same, whatever a program has switched in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pytest
import torch

import aleator as al


@contextmanager
def default_dtype() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


SWITCHES = [
    pytest.param(torch.no_grad, id="no_grad"),
    pytest.param(torch.inference_mode, id="inference_mode"),
    pytest.param(partial(torch.autocast, "cpu", torch.bfloat16), id="autocast"),
    pytest.param(default_dtype, id="default dtype"),
    pytest.param(partial(torch.device, "meta"), id="default device"),
]


def made() -> al.AUR:
    """A model and an estimator that autograd trains."""
    model = al.MultVAE(dim=4, hidden=8, dropout=0.5, max_epochs=2)
    return al.AUR(model, estimator=al.MLPEstimator(hidden=4, max_epochs=2), lam=0.5, refit=False)


@pytest.fixture(scope="module")
def parts() -> tuple[al.Interactions, al.Interactions]:
    data = al.simulate(n_users=40, n_items=30, per_user=40, seed=0).interactions
    new = al.Interactions.of([*data.users.ids[:3].tolist(), 1000], data.items.ids[:4].tolist())
    return data, new


@pytest.fixture(scope="module")
def usual(parts: tuple[al.Interactions, al.Interactions]) -> tuple[torch.Tensor, torch.Tensor]:
    fitted = made().fit(parts[0])
    return fitted.score([0, 1]), fitted.update(parts[1]).score([0, 1])


@pytest.mark.parametrize("switch", SWITCHES)
def test_what_pytorch_was_switched_to_changes_no_fit_and_no_update(
    switch: Callable[[], AbstractContextManager[None]],
    parts: tuple[al.Interactions, al.Interactions],
    usual: tuple[torch.Tensor, torch.Tensor],
    tmp_path: Path,
) -> None:
    with switch():
        before = torch.empty(0).dtype, torch.is_grad_enabled(), torch.get_default_device()
        fitted = made().fit(parts[0])
        fitted.save(tmp_path / "model")
        loaded = al.load_model(tmp_path / "model", device="cpu")
        updated = [each.update(parts[1]) for each in (fitted, loaded)]
        assert (torch.empty(0).dtype, torch.is_grad_enabled(), torch.get_default_device()) == before
    again = loaded.update(parts[1])  # what a load left can be trained outside as well
    assert torch.equal(fitted.score([0, 1]), usual[0])
    assert all(torch.equal(each.score([0, 1]), usual[1]) for each in (*updated, again))
