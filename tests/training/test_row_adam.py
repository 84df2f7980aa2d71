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


def factored_adamw(start: torch.Tensor, gradients: list[torch.Tensor], lr: float, decay: float) -> torch.Tensor:
    """AdamW with factored second moments, as the definition reads, in float64."""
    p, m = start.clone(), torch.zeros_like(start)
    rows, columns = start.new_zeros(len(start), 1), start.new_zeros(1, start.shape[1])
    for step, g in enumerate(gradients, 1):
        m = 0.9 * m + 0.1 * g
        rows = 0.999 * rows + 0.001 * (g**2).mean(1, keepdim=True)
        columns = 0.999 * columns + 0.001 * (g**2).mean(0, keepdim=True)
        v = rows * columns / columns.mean()
        p = p * (1 - lr * decay) - lr * (m / (1 - 0.9**step)) / ((v / (1 - 0.999**step)).sqrt() + 1e-8)
    return p


@pytest.mark.parametrize("in_place", [True, False])
def test_lean_is_adamw_with_factored_second_moments(in_place: bool) -> None:
    draw = torch.Generator().manual_seed(0)
    start = torch.randn(2100, 4, generator=draw, dtype=torch.float64)
    gradients = [torch.randn(2100, 4, generator=draw, dtype=torch.float64) for _ in range(15)]
    mine, other = start.clone(), torch.zeros_like(start)
    ours = RowAdam([mine, other], lr=0.1, weight_decay=0.5, lean=True)
    for each in gradients:
        *tables, gradient, of_other = ours.rows(None if in_place else torch.arange(2100))
        assert (tables[0] is mine) == in_place
        gradient.copy_(each)
        of_other.zero_()
        ours.step()
    reference = factored_adamw(start, gradients, 0.1, 0.5)
    moved = (reference - start).norm()
    assert float((mine - reference).norm() / moved) < 0.01  # the first moments are rounded to bfloat16
    assert not bool(other.any())


def test_lean_rows_that_rested_catch_up() -> None:
    draw = torch.Generator().manual_seed(0)
    start = torch.randn(40, 3, generator=draw)
    tables = start.clone(), start.clone()
    resting, in_use = (RowAdam([table], lr=0.01, weight_decay=0.1, lean=True) for table in tables)
    for step in range(200):
        index = torch.randperm(40, generator=draw)[: 40 if step < 100 else 6].sort().values
        rows, gradient = resting.rows(index)
        gradient.copy_(pull(rows, index))
        resting.step()
        rows, gradient = in_use.rows(None)
        gradient.zero_()[index] = pull(rows[index], index)
        in_use.step()
    resting.settle()
    moved = (tables[1] - start).norm()
    # the columns see the rows in use alone, so the two only come close
    assert float((tables[0] - tables[1]).norm() / moved) < 0.1


def test_the_state_of_a_lean_optimizer_is_a_quarter() -> None:
    sizes = {}
    for lean in (False, True):
        made = RowAdam([torch.zeros(1000, 64), torch.zeros(1000, 64)], lr=0.1, lean=lean)
        sizes[lean] = sum(tensor.nbytes for tensor in made.tensors().values())
    assert sizes[True] < 0.27 * sizes[False]


def test_rows_after_all_rows_leave_the_others_alone() -> None:
    table = torch.zeros(6, 2)
    made = RowAdam([table], lr=0.1)
    for index in (None, torch.tensor([2, 3])):
        _, gradient = made.rows(index)
        gradient.fill_(1.0)
        made.step()
    before = table.clone()
    rows, _ = made.rows(torch.tensor([0, 1]))
    rows.fill_(7.0)  # a copy
    assert torch.equal(table[2:], before[2:])
    assert float(table.abs().max()) < 1


@pytest.mark.parametrize("lean", [False, True])
def test_it_goes_on_from_its_state_with_the_same_bits(lean: bool) -> None:
    draw = torch.Generator().manual_seed(0)
    start, steps = torch.randn(30, 3, generator=draw), [torch.randperm(30, generator=draw)[:9] for _ in range(10)]

    def train(table: torch.Tensor, made: RowAdam, some: list[torch.Tensor]) -> None:
        for index in some:
            rows, gradient = made.rows(index)
            gradient.copy_(pull(rows, index))
            made.step()

    whole, halves = start.clone(), start.clone()
    one, first = (RowAdam([table], lr=0.1, weight_decay=0.1, lean=lean) for table in (whole, halves))
    train(whole, one, steps)
    train(halves, first, steps[:5])
    second = RowAdam([halves], lr=0.1, weight_decay=0.1, lean=lean)
    second.set_tensors({name: tensor.clone() for name, tensor in first.tensors().items()})
    train(halves, second, steps[5:])
    assert torch.equal(whole, halves)
