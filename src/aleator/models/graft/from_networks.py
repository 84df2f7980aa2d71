"""Networks that score users: a torch module, or an ONNX file. They take row numbers of users, [n] int64."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from aleator.data.arrays import Array
from aleator.data.files import require_file
from aleator.data.vocabulary import Vocabulary
from aleator.errors import AleatorError, need, require, unreadable


def from_module(module: torch.nn.Module, users: Any) -> Any:
    """A function of user ids that calls the module with the rows of the users. It returns scores, [n, n_items]."""
    rows_of = _rows(users)

    def call(rows: Array) -> Any:
        trains = module.training
        place = next(iter([*module.parameters(), *module.buffers()]), torch.empty(0)).device
        with torch.no_grad():
            found = module.eval()(torch.from_numpy(rows).to(place))
        module.train(trains)
        return found

    return lambda asked: _scores(f"the {type(module).__name__}", call, rows_of(asked))


def from_onnx(path: Path, users: Any) -> Any:
    """The same for an ONNX file. Custom operators and files beside it are not loaded."""
    require_file(path)
    need("onnxruntime", "an ONNX file")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # its errors are raised too
    with tempfile.TemporaryDirectory() as empty:  # onnxruntime would look for weights in the working directory
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", empty)
        try:
            session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime has errors of its own
            raise AleatorError(
                unreadable(path, "ONNX", error).problem,
                "write one file with standard operators and all weights in it, as torch.onnx.export(external_data=False)",
            ) from None
    inputs = session.get_inputs()
    fits = len(inputs) == 1 and inputs[0].type == "tensor(int64)"
    require(fits, f"'{path}' does not take one tensor of int64", "export it with row numbers of users as its input")
    rows_of = _rows(users)

    return lambda asked: _scores(f"'{path}'", lambda rows: session.run(None, {inputs[0].name: rows})[0], rows_of(asked))


def _scores(name: str, call: Callable[[Any], Any], rows: Array) -> Any:
    """What the network `name` gives for these rows."""
    try:
        return call(rows)
    except Exception as error:
        raise AleatorError(
            f"{name} gave no scores for {len(rows)} users ({(str(error).splitlines() or [''])[0][-120:]})",
            "check that it takes row numbers [n] of int64 for any n, and has a row for each user",
        ) from error


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
