"""AdamW over the rows in use, against PyTorch's over everything."""

from __future__ import annotations

import pytest
import torch

from aleator.training.row_adam import RowAdam


def pull(rows: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """The gradient of a squared distance to a target of each row."""
    return rows - (1 + index[:, None].to(rows.dtype))


@pytest.mark.parametrize("weight_decay", [0.0, 0.5])
@pytest.mark.parametrize("n", [7, 2100])  # all at a time, or in several parts
def test_with_all_rows_in_use_it_is_adamw(weight_decay: float, n: int) -> None:
    start = torch.randn(n, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    mine, theirs, every = start.clone(), start.clone().requires_grad_(), torch.arange(n)
    ours = RowAdam([mine], lr=0.1, weight_decay=weight_decay)
    reference = torch.optim.AdamW([theirs], lr=0.1, weight_decay=weight_decay)
    for _ in range(20):
        rows, gradient = ours.rows(every)
        gradient.copy_(pull(rows, every))
        ours.step()
        theirs.grad = pull(theirs.detach(), every)
        reference.step()
    torch.testing.assert_close(mine, theirs.detach(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
def test_rows_that_were_out_of_use_catch_up_with_what_adamw_does_at_zero_gradients(weight_decay: float) -> None:
    """After the first steps, while bias corrections hardly change, to a part in a hundred of the way moved."""
    draw = torch.Generator().manual_seed(0)
    start = torch.randn(40, 3, generator=draw, dtype=torch.float64)
    mine, theirs = start.clone(), start.clone().requires_grad_()
    ours = RowAdam([mine], lr=0.01, weight_decay=weight_decay)
    reference = torch.optim.AdamW([theirs], lr=0.01, weight_decay=weight_decay)
    for step in range(400):
        index = torch.randperm(40, generator=draw)[: 40 if step < 100 else 4].sort().values
        rows, gradient = ours.rows(index)
        gradient.copy_(pull(rows, index))
        ours.step()
        theirs.grad = torch.zeros_like(theirs)
        theirs.grad[index] = pull(theirs.detach()[index], index)
        reference.step()
    ours.settle()
    moved = (theirs.detach() - start).norm()
    assert float((mine - theirs.detach()).norm() / moved) < 0.01


def test_rows_out_of_use_are_not_touched_until_they_are_read() -> None:
    start = torch.ones(5, 2)
    mine = start.clone()
    ours = RowAdam([mine], lr=0.1, weight_decay=0.5)
    for index in (torch.tensor([0, 1]), torch.tensor([2])):
        _, gradient = ours.rows(index)
        gradient.fill_(1.0)
        ours.step()
    assert torch.equal(mine[3:], start[3:])
    ours.settle()
    torch.testing.assert_close(mine[3:], start[3:] * 0.95**2)  # the weights decayed twice; nothing else moved them
