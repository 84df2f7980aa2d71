"""Sparse matrices in the files of scipy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from aleator.data.archives import check_archive
from aleator.data.files import require_file
from aleator.data.limits import Limit
from aleator.errors import parsing, require

FORMATS = ("csr", "csc", "coo")  # those whose indices scipy checks as a whole


def read_sparse(path: Path) -> sp.csr_matrix:
    """A sparse matrix that scipy.sparse.save_npz wrote, checked before scipy follows its indices into other memory."""
    require_file(path)
    room = check_archive(Limit.of(path))
    remedy = "write it again with scipy.sparse.save_npz"
    with parsing(path, "a matrix of scipy.sparse.save_npz"):
        with np.load(path, allow_pickle=False) as archive:
            rows, columns = (int(n) for n in archive["shape"])
        told = f"'{path}' claims a matrix of [{rows}, {columns}] in {room:,} bytes"
        require(0 < max(rows, columns) <= room, told, remedy)
        found = sp.load_npz(path)
        require(found.format in FORMATS, f"'{path}' holds a matrix in the form {found.format}", f"{remedy}, as csr")
        if found.format != "coo":
            found.check_format(full_check=True)
        return sp.csr_matrix(found)
