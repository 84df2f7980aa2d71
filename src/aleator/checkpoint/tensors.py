"""The file of tensors: safetensors in which every tensor begins at a multiple of 64 bytes.

So a mapped tensor is aligned as one that PyTorch allocates, and products with it are the same to the last bit. All
processes that map a file share its memory. A mapping is private: what a process writes into a tensor stays its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import torch
from safetensors import safe_open
from torch import Tensor

from aleator.checkpoint.manifest import regular

_ALIGNED = 64  # bytes
_FILL = "_fill."  # names of the zeros between tensors: safetensors allows no gaps
_MOST = 10_000  # tensors of a file
_DTYPES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.uint16: "U16",
    torch.uint32: "U32",
    torch.uint64: "U64",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.int32: "I32",
    torch.int64: "I64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
}


def checksum(tensor: Tensor) -> str:
    """The SHA-256 of the type, the shape and the content of a tensor.

    Processors of the last years have instructions for it, and it is then faster than BLAKE2 and MD5.
    """
    digest = hashlib.sha256(f"{_DTYPES[tensor.dtype]} {list(tensor.shape)} ".encode())
    digest.update(_content(tensor))
    return digest.hexdigest()


def write_tensors(file: BinaryIO, tensors: Mapping[str, Tensor]) -> None:
    """Write a file of tensors, sorted by name."""
    header, end = {}, 0
    for name, tensor in sorted(tensors.items()):
        start, end = end, end + tensor.nbytes
        header[name] = {"dtype": _DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
        short = -end % _ALIGNED
        if short:
            start, end = end, end + short
            header[f"{_FILL}{start}"] = {"dtype": "U8", "shape": [short], "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNED)
    file.write(len(text).to_bytes(8, "little") + text)
    for _, tensor in sorted(tensors.items()):
        file.write(_content(tensor))
        file.write(bytes(-tensor.nbytes % _ALIGNED))


def map_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file, mapped into memory. Those that are not aligned, in earlier formats, are copied."""
    regular(path)
    with safe_open(path, "pt") as file:
        names = [name for name in file.keys() if not name.startswith(_FILL)]  # noqa: SIM118
        if len(names) > _MOST:
            raise ValueError(f"it has {len(names):,} tensors")
        found = {name: file.get_tensor(name) for name in names}
    foreign = next((name for name, tensor in found.items() if tensor.dtype not in _DTYPES), None)
    if foreign is not None:
        raise ValueError(f"{foreign} is of type {found[foreign].dtype}")
    return {name: t.clone() if t.data_ptr() % _ALIGNED else t for name, t in found.items()}


def _content(tensor: Tensor) -> memoryview:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
