"""Fold-in of new items: rows by a linear map of the vectors of those who took them."""

from __future__ import annotations

import torch

from aleator.batches import Histories
from aleator.kernels.fold_in import linear_map, padded, with_new_items

CPU = torch.device("cpu")


def test_a_linear_map_is_found() -> None:
    draw = torch.Generator().manual_seed(0)
    made, true = torch.randn(20, 3, generator=draw), torch.randn(3, 5, generator=draw)
    torch.testing.assert_close(linear_map(made, made @ true).float(), true, rtol=1e-4, atol=1e-4)


def test_new_rows_follow_the_map_of_the_known_items() -> None:
    """Each row is a linear map of the summed vectors of its users over the root of their number, so the new ones are."""
    draw = torch.Generator().manual_seed(0)
    lists = [torch.randperm(12, generator=draw)[:5].sort().values.tolist() for _ in range(30)]
    vectors, true = torch.randn(30, 2, generator=draw), torch.randn(3, 4, generator=draw)

    def rows_of(histories: list[list[int]], n_items: int) -> torch.Tensor:
        found = []
        for item in range(n_items):
            theirs = vectors[[user for user, items in enumerate(histories) if item in items]]
            found.append(torch.cat([theirs.sum(0) / max(len(theirs), 1) ** 0.5, torch.ones(1)]) @ true)
        return torch.stack(found)

    before = [[item for item in items if item < 9] for items in lists]
    table = rows_of(before, 9)
    after = with_new_items(
        table,
        lambda users: vectors[users.index],
        Histories.of_lists(before, 9, CPU),
        Histories.of_lists(lists, 12, CPU),
    )
    assert torch.equal(after[:9], table)
    torch.testing.assert_close(after[9:], rows_of(lists, 12)[9:], rtol=1e-3, atol=1e-3)


def test_without_a_new_item_the_table_is_copied() -> None:
    table, histories = torch.randn(4, 2), Histories.of_lists([[0, 1], [2, 3]], 4, CPU)
    found = with_new_items(table, lambda users: table[:2], histories, histories)
    assert torch.equal(found, table)
    assert found.data_ptr() != table.data_ptr()
    assert padded(table, 4).data_ptr() != table.data_ptr()
    assert padded(table, 6)[4:].tolist() == [[0, 0], [0, 0]]
