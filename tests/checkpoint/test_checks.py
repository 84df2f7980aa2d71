"""What is checked before it is used: the types of a manifest, the shapes of tensors, rows of sparse matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest
import torch

from aleator.checkpoint.checks import finite, fit, fit_rows, typed


@dataclass(frozen=True)
class Inner:
    x: float
    name: Literal["a", "b"] = "a"


@dataclass(frozen=True)
class Outer:
    inner: Inner
    several: list[Inner]
    knots: tuple[tuple[float, float], ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    maybe: int | None = None


def test_a_dataclass_comes_back_from_json() -> None:
    kept = {
        "inner": {"x": 1},
        "several": [{"x": 2.5, "name": "b"}],
        "knots": [[0, 1], [2, 3.5]],
        "options": [["k", [1]]],
    }
    expected = Outer(Inner(1), [Inner(2.5, "b")], ((0, 1), (2, 3.5)), (("k", [1]),))
    assert typed(Outer, kept, "x") == expected
    assert typed(Outer | None, None, "x") is None
    assert typed(Outer | None, kept, "x") == expected


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (float, "1"),
        (float, True),
        (float, None),
        (float, float("nan")),
        (float, float("inf")),
        (float, 10**400),
        (int, 1.0),
        (int, True),
        (int, 1 << 63),
        (bool, 1),
        (str, 5),
        (str, None),
        (list[float], {"a": 1.0}),
        (list[float], [1.0, "x"]),
        (dict[str, float], [1.0]),
        (dict[str, float], {"a": "x"}),
        (tuple[float, float], [1.0]),
        (tuple[float, ...], "ab"),
        (Literal["a", "b"], "c"),
        (Literal["a", "b"], ["a"]),
        (int | None, "x"),
        (Inner, [1]),
        (Inner, {}),
        (Inner, {"x": 1, "y": 2}),
        (Inner, {"x": 1, "name": "c"}),
        (Inner | None, 5),
    ],
)
def test_what_is_of_another_type_is_refused(hint: Any, value: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        typed(hint, value, "x")


def test_tensors_fit_if_the_sizes_agree() -> None:
    tensors = {"w": torch.zeros(5, 3), "q": torch.zeros(5, 4), "g": torch.zeros(4, 6), "known": torch.zeros(5).bool()}
    shapes = {"w": "[n_items, dim]", "q": "[n_items, dim + 1]", "g": "[dim + 1, dim + dim]", "known": "[n_items] bool"}
    fit(tensors, shapes, n_items=5)


@pytest.mark.parametrize(
    ("tensor", "shape"),
    [
        (torch.zeros(4, 3), "[n_items, dim]"),
        (torch.zeros(5), "[n_items, dim]"),
        (torch.zeros(5, 3).double(), "[n_items, dim]"),
        (torch.zeros(5, 3), "[n_items, dim] int64"),
        (torch.zeros(5, 4), "[n_items, n_items]"),
        (torch.zeros(5, 3), "[n_items, dim + dim]"),
        (torch.zeros(5, 0), "[n_items, dim + 1]"),
    ],
)
def test_a_tensor_of_another_shape_or_type_is_refused(tensor: torch.Tensor, shape: str) -> None:
    with pytest.raises(ValueError, match="w is "):
        fit({"w": tensor}, {"w": shape}, n_items=5)


def test_sizes_that_are_named_twice_must_be_the_same() -> None:
    with pytest.raises(ValueError, match="q is"):
        fit({"w": torch.zeros(5, 3), "q": torch.zeros(5, 4)}, {"w": "[n, dim]", "q": "[n, dim]"})
    with pytest.raises(KeyError):
        fit({}, {"w": "[n]"})


@pytest.mark.parametrize(
    ("start", "column"),
    [
        ([0, 2, 1, 3], [0, 1, 2]),  # a row ends before it begins
        ([1, 2, 2, 3], [0, 1, 2]),
        ([0, 1, 2, 4], [0, 1, 2]),
        ([0, 1, 2, 2], [0, 1, 2]),
        ([0, 1, 2, 3], [0, 1, 9]),
        ([0, 1, 2, 3], [0, -1, 2]),
        ([0, 1 << 62, 1 << 62, 3], [0, 1, 2]),
    ],
)
def test_rows_that_do_not_follow_each_other_are_refused(start: list[int], column: list[int]) -> None:
    fit_rows(torch.tensor([0, 1, 1, 3]), torch.tensor([0, 1, 2]), 9)
    fit_rows(torch.tensor([0, 0]), torch.tensor([], dtype=torch.int64), 9)
    with pytest.raises(ValueError, match="sparse matrix"):
        fit_rows(torch.tensor(start), torch.tensor(column), 9)


def test_numbers_that_are_not_finite_are_refused() -> None:
    finite({"a": torch.rand(3), "b": torch.zeros(0), "c": torch.arange(3), "d": torch.ones(2, dtype=torch.bfloat16)})
    for bad in (torch.nan, torch.inf, -torch.inf):
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
            with pytest.raises(ValueError, match="b has numbers"):
                finite({"a": torch.rand(3), "b": torch.tensor([1.0, bad, 2.0], dtype=dtype)})
