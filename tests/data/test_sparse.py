"""Sparse matrices of scipy are read, and what could lead scipy into other memory is refused."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from aleator.data.sparse import read_sparse
from aleator.errors import AleatorError


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_what_scipy_wrote_is_read(form: str, tmp_path: Path) -> None:
    matrix = sp.random(5, 7, 0.4, format=form, random_state=0)
    sp.save_npz(tmp_path / "m.npz", matrix)
    assert abs(read_sparse(tmp_path / "m.npz") - matrix).max() == 0


def changed(matrix: Any, path: Path, **arrays: Any) -> Path:
    """The file of a matrix, with other arrays."""
    sp.save_npz(path, matrix)
    with np.load(path) as archive:
        np.savez(path, **dict(archive) | arrays)
    return path


@pytest.mark.parametrize(
    ("form", "arrays"),
    [
        ("csr", {"indices": np.array([0, 1, 2**30], np.int32)}),
        ("csr", {"indices": np.array([0, -1, 2], np.int32)}),
        ("csc", {"indptr": np.array([0, 2**30, 1, 3], np.int32)}),
        ("csc", {"indptr": np.array([0, 1, 2, 2**30], np.int32)}),
        ("coo", {"row": np.array([0, 1, 2**30], np.int32)}),
    ],
)
def test_indices_outside_of_the_matrix_are_refused(form: str, arrays: Any, tmp_path: Path) -> None:
    file = changed(sp.eye(3, format=form), tmp_path / "m.npz", **arrays)
    with pytest.raises(AleatorError, match="cannot be read as a matrix"):
        read_sparse(file)


@pytest.mark.parametrize("form", ["bsr", "dia"])
def test_forms_whose_indices_scipy_does_not_check_are_refused(form: str, tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "m.npz", sp.eye(3, format=form))
    with pytest.raises(AleatorError, match=f"in the form {form}; write it again with scipy.sparse.save_npz, as csr"):
        read_sparse(tmp_path / "m.npz")


def test_an_archive_that_is_shorter_than_it_claims(tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "good.npz", sp.eye(3, format="csr"))
    with zipfile.ZipFile(tmp_path / "good.npz") as good, zipfile.ZipFile(tmp_path / "bad.npz", "w") as bad:
        for part in good.namelist():
            if part != "data.npy":
                bad.writestr(part, good.read(part))
        with bad.open("data.npy", "w") as file:
            about = {"descr": "<f4", "fortran_order": False, "shape": (10**13,)}
            np.lib.format.write_array_header_1_0(file, about)
    with pytest.raises(AleatorError, match=r"claims .* values for data.npy"):
        read_sparse(tmp_path / "bad.npz")


def test_a_matrix_of_more_rows_than_bytes(tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "m.npz", sp.coo_matrix(([1.0], ([0], [0])), (10**12, 10**12)))
    with pytest.raises(AleatorError, match="claims a matrix"):
        read_sparse(tmp_path / "m.npz")


def test_garbage(tmp_path: Path) -> None:
    (tmp_path / "m.npz").write_bytes(b"garbage" * 10)
    with pytest.raises(AleatorError, match="is not a numpy archive"):
        read_sparse(tmp_path / "m.npz")
