"""The file of tensors: aligned, read by safetensors as any other, mapped privately, and told apart by checksums."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from aleator import checkpoint
from aleator.checkpoint.tensors import checksum, map_tensors, write_tensors

EVERY = {
    "bool": torch.tensor([True, False, True]),
    "bytes": torch.arange(7, dtype=torch.uint8),
    "empty": torch.zeros(0, 3),
    "floats": torch.rand(5, 3).T,
    "half": torch.rand(3).half(),
    "bfloat": torch.rand(3).bfloat16(),
    "double": torch.rand(17, dtype=torch.float64),
    "long": torch.arange(9),
    "unsigned": torch.tensor([2**64 - 1, 1], dtype=torch.uint64),
    "number": torch.tensor(3.5),
}


def written(path: Path, tensors: dict[str, Tensor]) -> Path:
    with path.open("wb") as file:
        write_tensors(file, tensors)
    return path


def test_safetensors_reads_it_as_any_other_file(tmp_path: Path) -> None:
    path = written(tmp_path / "x.safetensors", EVERY)
    for found in (load_file(path), map_tensors(path)):
        for name, tensor in EVERY.items():
            assert found[name].dtype == tensor.dtype
            assert torch.equal(found[name], tensor)
    assert map_tensors(path).keys() == EVERY.keys()


def test_every_tensor_begins_at_a_multiple_of_64_bytes(tmp_path: Path) -> None:
    """Whatever the lengths of the names and of the tensors before it."""
    for length in range(1, 40):
        tensors = {"n" * length: torch.rand(length, dtype=torch.float64), "z": torch.rand(9), "é": torch.rand(3).half()}
        path = written(tmp_path / "x.safetensors", tensors)
        found = load_file(path)
        assert {found[name].data_ptr() % 64 for name in tensors} == {0}


def test_the_same_tensors_give_the_same_file() -> None:
    one, other = io.BytesIO(), io.BytesIO()
    write_tensors(one, EVERY)
    write_tensors(other, dict(reversed(EVERY.items())))
    assert one.getvalue() == other.getvalue()


def test_tensors_of_earlier_files_are_copied_to_where_they_are_aligned(tmp_path: Path) -> None:
    save_file({"a": torch.rand(3), "b": torch.rand(5)}, tmp_path / "x.safetensors")
    found = map_tensors(tmp_path / "x.safetensors")
    assert {tensor.data_ptr() % 64 for tensor in found.values()} == {0}


def test_what_is_written_into_a_mapped_tensor_stays_in_the_process(tmp_path: Path) -> None:
    path = written(tmp_path / "x.safetensors", {"a": torch.zeros(1000)})
    before = path.read_bytes()
    mapped, again = map_tensors(path)["a"], map_tensors(path)["a"]
    mapped += 1
    assert path.read_bytes() == before
    assert again.count_nonzero() == 0


def test_a_checksum_is_of_type_shape_and_content() -> None:
    x = torch.arange(6, dtype=torch.float32)
    others = [x.double(), x.view(2, 3), x.view(3, 2), x.view(torch.int32), x + 1, x[:5], x.flip(0)]
    assert len({checksum(tensor) for tensor in (x, *others)}) == 1 + len(others)
    assert checksum(x.view(2, 3).T) == checksum(x.view(2, 3).T.contiguous())
    assert checksum(x.clone().requires_grad_()) == checksum(x) == checkpoint.checksum(x)
    assert checksum(x) == hashlib.sha256(b"F32 [6] " + x.numpy().tobytes()).hexdigest()  # folders hold it: it stays


@pytest.mark.parametrize("name", list(EVERY))
def test_every_flipped_bit_changes_the_checksum(name: str) -> None:
    tensor = EVERY[name].contiguous()
    for bit in range(8 * tensor.nbytes):
        flipped = tensor.clone().reshape(-1)
        flipped.view(torch.uint8)[bit // 8] ^= 1 << bit % 8
        assert checksum(flipped.view(tensor.shape)) != checksum(tensor)
