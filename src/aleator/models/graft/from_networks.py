"""Networks that score users: a torch module, or an ONNX file. They take row numbers of users, [n] int64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from aleator.data.files import require_file
from aleator.data.vocabulary import Vocabulary
from aleator.errors import AleatorError, need, parsing, require


def from_module(module: torch.nn.Module, users: Any) -> Any:
    """A function of user ids that calls the module with the rows of the users. It returns scores, [n, n_items]."""
    rows_of = _rows(users)

    def function(asked: Any) -> Any:
        trains = module.training
        place = next(iter([*module.parameters(), *module.buffers()]), torch.empty(0)).device
        with torch.no_grad():
            found = module.eval()(torch.from_numpy(rows_of(asked)).to(place))
        module.train(trains)
        return found

    return function


def from_onnx(path: Path, users: Any) -> Any:
    """The same for an ONNX file. Custom operators and files beside it are not loaded."""
    require_file(path)
    need("onnxruntime", "an ONNX file")
    import onnxruntime

    with parsing(path, "ONNX"):
        session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    inputs = session.get_inputs()
    fits = len(inputs) == 1 and inputs[0].type == "tensor(int64)"
    require(fits, f"'{path}' does not take one tensor of int64", "export it with row numbers of users as its input")
    rows_of = _rows(users)
    return lambda asked: session.run(None, {inputs[0].name: rows_of(asked)})[0]


def _rows(users: Any) -> Any:
    """A function from user ids to row numbers. Without the ids of the rows, ids are row numbers."""
    if users is not None:
        known, dense = Vocabulary.of(users, "user")
        return lambda asked: dense.argsort()[known.encode(asked)]

    def whole(asked: Any) -> Any:
        made = np.asarray(asked)
        if made.dtype.kind not in "iu":
            raise AleatorError("user ids are no row numbers", "give users=, the user ids of the rows in their order")
        return made.astype(np.int64)

    return whole
