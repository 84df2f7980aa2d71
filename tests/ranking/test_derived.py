"""What is derived from tensors is made once, and again when they change."""

from __future__ import annotations

import pickle

import torch
from torch import Tensor

from aleator.ranking.derived import Derived


def test_it_is_made_again_for_other_tensors_other_numbers_and_after_a_change() -> None:
    made = []

    def scaled(table: Tensor, by: float) -> Tensor:
        made.append(by)
        return by * table

    derived, table = Derived(scaled), torch.ones(3, 2)
    first = derived(table, 2.0)
    assert derived(table, 2.0) is first
    assert derived(table[:], 2.0) is first  # another view of the same memory
    assert len(made) == 1
    assert derived(table, 3.0)[0, 0] == 3
    assert derived(table[:2], 3.0).shape == (2, 2)
    assert derived(torch.zeros(3, 2), 3.0)[0, 0] == 0
    table.add_(1)
    assert derived(table, 3.0)[0, 0] == 6
    table.add_(1)
    assert derived(table, 3.0)[0, 0] == 9


def test_a_tensor_in_the_memory_of_an_old_one_is_another() -> None:
    derived = Derived(lambda table: float(table[0]))
    for value in range(50):
        assert derived(torch.full((1000,), float(value))) == value


def test_it_is_made_again_in_another_process_where_other_tensors_may_lie_in_the_same_place() -> None:
    derived, table = Derived(torch.neg), torch.ones(3)
    assert derived(table)[0] == -1
    other = pickle.loads(pickle.dumps(derived))
    with torch.no_grad():
        table.data.fill_(5)  # what derived cannot see stands for another process, whose memory it does not know
    assert derived(table)[0] == -1
    assert other(table)[0] == -5
