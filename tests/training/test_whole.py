"""Files of tensors: whole, or not there, or known to be damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from aleator.training import whole


def written(folder: Path) -> Path:
    return whole.write(folder, "0001-done", {"rows": [{"loss": 0.1}]}, {"x": torch.arange(6.0), "n": torch.tensor(3)})


def test_it_reads_what_it_wrote_with_the_same_strides_in_aligned_memory(tmp_path: Path) -> None:
    tensors = {"x": torch.rand(5, 3).T, "n": torch.tensor(3), "none": torch.zeros(0, 4)}
    found = whole.read(whole.write(tmp_path, "0001-done", {"rows": [{"loss": 0.1}], "best": float("-inf")}, tensors))
    assert found is not None
    assert found[0] == {"rows": [{"loss": 0.1}], "best": float("-inf")}
    for name, value in tensors.items():
        assert torch.equal(found[1][name], value)
        assert found[1][name].stride() == value.stride()
        assert found[1][name].data_ptr() % 64 == 0


def test_every_flipped_bit_and_every_cut_is_found(tmp_path: Path) -> None:
    path = written(tmp_path)
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert whole.read(path) is None
        path.write_bytes(content[:place])
        assert whole.read(path) is None
    path.write_bytes(content)
    assert whole.read(path) is not None


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        whole.write(tmp_path / "nowhere", "0001-done", {}, {"x": torch.zeros(2)})
    assert not (tmp_path / "nowhere").exists()
