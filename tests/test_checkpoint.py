"""Folders on disk: written whole or not at all, and never taken for what they are not."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from aleator import checkpoint
from aleator.data.interactions import Interactions
from aleator.errors import AleatorError

OLD, NEW = {"model.x": torch.zeros(3)}, {"model.x": torch.ones(5)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A saved model."""
    checkpoint.write(tmp_path / "model", {"kind": "Old"}, OLD)
    return tmp_path / "model"


def assert_old_model_alone(folder: Path) -> None:
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    manifest, tensors = checkpoint.read(folder)
    assert manifest["kind"] == "Old"
    assert torch.equal(tensors["model.x"], OLD["model.x"])


def test_what_was_written_is_read(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "er" / "model"
    tensors = {"a": torch.arange(6).reshape(2, 3).T, "b": torch.rand(4, requires_grad=True)}
    checkpoint.write(str(target), {"kind": "Thing", "learned": {"x": 1.5}}, tensors)
    manifest, read = checkpoint.read(target)
    assert manifest == {"format": checkpoint.FORMAT, "kind": "Thing", "learned": {"x": 1.5}}
    assert {name: value.tolist() for name, value in read.items()} == {n: v.tolist() for n, v in tensors.items()}
    assert sorted(path.name for path in target.iterdir()) == ["manifest.json", "tensors.safetensors"]
    assert [path.name for path in target.parent.iterdir()] == ["model"]


def test_an_earlier_model_is_replaced_whole(folder: Path) -> None:
    checkpoint.write(folder, {"kind": "New"}, NEW)
    assert checkpoint.read(folder)[0]["kind"] == "New"
    assert checkpoint.read(folder)[1]["model.x"].shape == (5,)
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    checkpoint.write(tmp_path / "model", {"kind": "New"}, NEW)
    assert checkpoint.read_manifest(tmp_path / "model")["kind"] == "New"


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("where", ["save_file", "write_text", "rename", "second rename"])
def test_whatever_interrupts_a_save_leaves_the_old_model_and_nothing_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, where: str
) -> None:
    left = [2 if where == "second rename" else 1]

    def failing(real: Any) -> Any:
        def fail(*given: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise error
            return real(*given, **options)

        return fail

    if where == "save_file":
        monkeypatch.setattr(checkpoint, "save_file", failing(save_file))
    elif where == "write_text":
        monkeypatch.setattr(Path, "write_text", failing(Path.write_text))
    else:
        monkeypatch.setattr(Path, "rename", failing(Path.rename))
    with pytest.raises(KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else AleatorError) as caught:
        checkpoint.write(folder, {"kind": "New"}, NEW)
    monkeypatch.undo()
    if isinstance(caught.value, AleatorError):
        assert "No space left" in str(caught.value)
    assert_old_model_alone(folder)


def test_a_disk_that_fills_up_while_the_tensors_are_written_leaves_the_old_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(tensors: Any, path: Path) -> None:
        Path(path).write_bytes(b"half a file")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", half)
    with pytest.raises(AleatorError, match=r"could not be saved.*make room"):
        checkpoint.write(folder, {"kind": "New"}, NEW)
    assert_old_model_alone(folder)


def test_a_first_save_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", fail)
    with pytest.raises(AleatorError):
        checkpoint.write(tmp_path / "model", {"kind": "New"}, NEW)
    assert list(tmp_path.iterdir()) == []


def test_a_manifest_that_is_not_json_writes_nothing(folder: Path) -> None:
    with pytest.raises(TypeError):
        checkpoint.write(folder, {"kind": object()}, NEW)
    assert_old_model_alone(folder)


def test_a_place_that_is_not_ours_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    for name in ("file", "full"):
        with pytest.raises(AleatorError, match="not a model folder"):
            checkpoint.write(tmp_path / name, {"kind": "New"}, NEW)
    assert (tmp_path / "file").read_text() == (tmp_path / "full" / "notes.txt").read_text() == "mine"


def test_a_foreign_folder_that_happens_to_have_a_manifest_is_not_written_over(tmp_path: Path) -> None:
    """Browser extensions, web apps and others have a manifest.json too."""
    extension = tmp_path / "extension"
    extension.mkdir()
    (extension / "manifest.json").write_text('{"manifest_version": 3, "name": "mine"}')
    (extension / "background.js").write_text("mine")
    with pytest.raises(AleatorError, match="not a model folder"):
        checkpoint.write(extension, {"kind": "New"}, NEW)
    assert (extension / "background.js").read_text() == "mine"


def test_a_parent_that_is_a_file_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(AleatorError, match="nothing can be written"):
        checkpoint.write(tmp_path / "file" / "model", {"kind": "New"}, NEW)


def damage_truncated(folder: Path) -> None:
    tensors = folder / "tensors.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-3])


def damage_header(folder: Path) -> None:
    (folder / "tensors.safetensors").write_bytes(b"\xff" * 40)


def damage_empty(folder: Path) -> None:
    (folder / "tensors.safetensors").write_bytes(b"")


def damage_missing(folder: Path) -> None:
    (folder / "tensors.safetensors").unlink()


def damage_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text((folder / "manifest.json").read_text()[:-5])


def damage_list(folder: Path) -> None:
    (folder / "manifest.json").write_text("[1, 2]")


def damage_foreign(folder: Path) -> None:
    (folder / "manifest.json").write_text('{"manifest_version": 3}')


def damage_bytes(folder: Path) -> None:
    (folder / "manifest.json").write_bytes(b"\xff\xfe\x00")


def damage_format(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"format": 99}))


def damage_gone(folder: Path) -> None:
    (folder / "manifest.json").unlink()


@pytest.mark.parametrize(
    "damage",
    [
        damage_truncated,
        damage_header,
        damage_empty,
        damage_missing,
        damage_manifest,
        damage_list,
        damage_foreign,
        damage_bytes,
        damage_format,
        damage_gone,
    ],
)
def test_a_damaged_or_foreign_folder_is_refused(folder: Path, damage: Any) -> None:
    damage(folder)
    with pytest.raises(AleatorError, match=r"damaged or foreign|not a model folder|format"):
        checkpoint.read(folder)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AleatorError, match="not a model folder"):
        checkpoint.read(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("user", "item"),
    [
        (["b", "a", "a", "ünïcode ☃"], ["x", "", "y y", "x\ny"]),
        ([3, 1, 1, 2**40], [-5, 7, 0, 9]),
        (np.array([3, 1, 1, 7], np.uint64), [1.5, 2.5, 3.0, 1.5]),
    ],
)
def test_interactions_come_back_with_their_ids_weights_and_titles(user: Any, item: Any) -> None:
    data = Interactions.of(user, item, weight=[1.0, 2.0, 0.5, 1.5], frame="pandas")
    data = data.with_titles({data.items.decode([0])[0]: "Ein Film", data.items.decode([1])[0]: ""})
    about, tensors = checkpoint.pack_data(data)
    back = checkpoint.unpack_data(json.loads(json.dumps(about)), tensors)
    assert back.fingerprint == data.fingerprint == about["fingerprint"]
    assert (back.csr != data.csr).nnz == 0
    assert back.users == data.users
    assert back.items == data.items
    assert back.users.ids.dtype == data.users.ids.dtype
    assert back.titles is not None
    assert data.titles is not None
    assert back.titles.tolist() == data.titles.tolist()
    assert back.frame == "pandas"


def test_unweighted_interactions_stay_unweighted() -> None:
    about, tensors = checkpoint.pack_data(Interactions.of([1, 2], [3, 4]))
    back = checkpoint.unpack_data(about, tensors)
    assert back.weight is None
    assert back.titles is None
