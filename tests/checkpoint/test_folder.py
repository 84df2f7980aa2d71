"""Folders on disk: written whole or not at all, one writer at a time, and never taken for what they are not."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pytest
import torch
from safetensors.torch import save_file

from aleator import checkpoint
from aleator.checkpoint import folder as writing
from aleator.checkpoint.tensors import map_tensors
from aleator.errors import AleatorError
from tests.folders import as_of_format, files_of, manifest_of, put_manifest, tensors_of
from tests.forks import in_child

OLD, NEW = {"model.x": torch.zeros(3)}, {"model.x": torch.ones(5)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A saved model."""
    checkpoint.write(tmp_path / "model", {"kind": "Old"}, OLD)
    return tmp_path / "model"


def assert_old_model_alone(folder: Path) -> None:
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    assert sorted(files_of(folder)) == ["manifest.json", tensors_of(folder).name]
    manifest, tensors = checkpoint.read(folder)
    assert manifest["kind"] == "Old"
    assert torch.equal(tensors["model.x"], OLD["model.x"])


# Writing


def test_what_was_written_is_read(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "er" / "model"
    tensors = {"a": torch.arange(6).reshape(2, 3).T, "b": torch.rand(4, requires_grad=True)}
    checkpoint.write(str(target), {"kind": "Thing", "learned": {"x": 1.5}}, tensors)
    manifest, read = checkpoint.read(target)
    assert (manifest["format"], manifest["kind"]) == (checkpoint.FORMAT, "Thing")
    assert manifest["learned"] == {"x": 1.5}
    assert {name: value.tolist() for name, value in read.items()} == {n: v.tolist() for n, v in tensors.items()}
    assert sorted(files_of(target)) == ["manifest.json", manifest["tensors"]["file"]]
    assert [path.name for path in target.parent.iterdir()] == ["model"]


def test_an_earlier_model_is_replaced_whole(folder: Path) -> None:
    checkpoint.write(folder, {"kind": "New"}, NEW)
    assert checkpoint.read(folder)[0]["kind"] == "New"
    assert checkpoint.read(folder)[1]["model.x"].shape == (5,)
    assert sorted(files_of(folder)) == ["manifest.json", tensors_of(folder).name]


def test_a_model_of_an_earlier_format_is_replaced_too(folder: Path) -> None:
    as_of_format(folder, 4, manifest_of(folder))
    checkpoint.write(folder, {"kind": "New"}, NEW)
    assert checkpoint.read(folder)[0]["kind"] == "New"
    assert sorted(files_of(folder)) == ["manifest.json", tensors_of(folder).name]


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    checkpoint.write(tmp_path / "model", {"kind": "New"}, NEW)
    assert checkpoint.read_manifest(tmp_path / "model")["kind"] == "New"


def test_a_symlink_stays_one(folder: Path) -> None:
    link = folder.with_name("current")
    link.symlink_to(folder)
    checkpoint.write(link, {"kind": "New"}, NEW)
    assert link.is_symlink()
    assert checkpoint.read(folder)[0]["kind"] == checkpoint.read(link)[0]["kind"] == "New"
    dangling = folder.with_name("next")
    dangling.symlink_to(folder.with_name("elsewhere"))
    checkpoint.write(dangling, {"kind": "New"}, NEW)
    assert dangling.is_symlink()
    assert checkpoint.read(folder.with_name("elsewhere"))[0]["kind"] == "New"


def test_new_files_have_the_permissions_that_the_user_asks_for(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        checkpoint.write(tmp_path / "model", {"kind": "New"}, NEW)
    finally:
        os.umask(before)
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o750
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "model").iterdir()} == {0o640}


# What interrupts a writer

STEPS = ["write_tensors", "rename of the tensors", "fsync", "rename of the manifest"]


def fail_at(step: str, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `error` come out of a step of `write`."""
    renamed = Path.replace

    def fail(*_: Any) -> None:
        raise error

    def half(file: BinaryIO, tensors: Any) -> None:
        file.write(b"half a file")
        raise error

    def rename(path: Path, target: Path) -> Path:
        if ("manifest" in target.name) == ("manifest" in step):
            raise error
        return renamed(path, target)

    if step == "write_tensors":
        monkeypatch.setattr(writing, "write_tensors", half)
    elif step == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    else:
        monkeypatch.setattr(Path, "replace", rename)


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", STEPS)
def test_whatever_interrupts_a_save_leaves_the_old_model_and_nothing_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, step: str
) -> None:
    fail_at(step, error, monkeypatch)
    with pytest.raises(KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else AleatorError) as caught:
        checkpoint.write(folder, {"kind": "New"}, NEW)
    monkeypatch.undo()
    if isinstance(caught.value, AleatorError):
        assert "No space left" in str(caught.value)
        assert "make room" in str(caught.value)
    assert_old_model_alone(folder)


@pytest.mark.parametrize("step", STEPS)
def test_a_first_save_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    fail_at(step, OSError(errno.ENOSPC, "No space left on device"), monkeypatch)
    with pytest.raises(AleatorError):
        checkpoint.write(tmp_path / "model", {"kind": "New"}, NEW)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full_leaves_the_old_model(folder: Path) -> None:
    """The system itself refuses the bytes, as on a full disk."""
    before, (soft, hard) = files_of(folder), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(AleatorError, match=r"could not be saved.*too large.*make room"):
            checkpoint.write(folder, {"kind": "New"}, {"model.x": torch.ones(10_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert files_of(folder) == before


def test_a_manifest_that_is_not_json_writes_nothing(folder: Path) -> None:
    with pytest.raises(TypeError):
        checkpoint.write(folder, {"kind": object()}, NEW)
    assert_old_model_alone(folder)


def killed_before(step: int, target: Path) -> None:
    """Write a new model, and be killed before the file system is changed for the n-th time."""
    left = step

    def count(event: str, args: tuple[Any, ...]) -> None:
        nonlocal left
        if event in ("open", "os.rename", "os.remove", "os.mkdir") and str(target) in str(args[0]):
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    checkpoint.write(target, {"kind": "New"}, NEW)


def test_a_writer_that_is_killed_leaves_the_old_model_or_the_new_one(tmp_path: Path) -> None:
    """It is killed before each of its steps in turn. What it leaves is gone after the next save."""
    ended, kinds, target = signal.SIGKILL.value, list[str](), tmp_path / "model"
    while ended:
        shutil.rmtree(target, ignore_errors=True)
        checkpoint.write(target, {"kind": "Old"}, OLD)
        ended = in_child(partial(killed_before, len(kinds) + 1, target)).signal
        manifest, tensors = checkpoint.read(target)
        kinds.append(manifest["kind"])
        assert torch.equal(tensors["model.x"], (OLD if manifest["kind"] == "Old" else NEW)["model.x"])
        checkpoint.write(target, {"kind": "Old"}, OLD)
        assert_old_model_alone(target)
    assert kinds == sorted(kinds, reverse=True)  # Old at first, and New after the switch
    assert len(set(kinds)) == 2
    assert len(kinds) > 10


def test_what_a_first_writer_left_when_it_was_killed_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "tensors-0123456789abcdef.safetensors.part").write_bytes(b"half")
    (target / "tensors-0123456789abcdef.safetensors").write_bytes(b"whole, but without a manifest")
    with pytest.raises(AleatorError, match="not a model folder"):
        checkpoint.read(target)
    checkpoint.write(target, {"kind": "Old"}, OLD)
    assert_old_model_alone(target)


# Others write or read at the same time


def test_writers_take_turns_and_readers_see_one_of_the_models(folder: Path) -> None:
    """Four threads write at once, and this one reads. Locks hold between threads as between processes."""
    failed: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for _ in range(8):
                checkpoint.write(folder, {"kind": str(number)}, {"model.x": torch.full((1000,), number)})
        except BaseException as error:
            failed.append(error)

    checkpoint.write(folder, {"kind": "9"}, {"model.x": torch.full((1000,), 9)})
    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        manifest, tensors = checkpoint.read(folder)
        assert bool((tensors["model.x"] == int(manifest["kind"])).all())
    assert failed == []
    assert len(files_of(folder)) == 2


def test_a_writer_that_waits_too_long_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_PATIENCE", 0.0)

    def write_inside(file: BinaryIO, tensors: Any) -> None:
        with pytest.raises(AleatorError, match=r"another process has been writing.*save to another place"):
            checkpoint.write(folder, {"kind": "Newer"}, OLD)
        raise OSError("the outer one fails")

    monkeypatch.setattr(writing, "write_tensors", write_inside)
    with pytest.raises(AleatorError, match="the outer one fails"):
        checkpoint.write(folder, {"kind": "New"}, NEW)
    monkeypatch.undo()
    assert_old_model_alone(folder)


def test_a_folder_that_is_replaced_between_its_two_files_is_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(path: Path) -> dict[str, torch.Tensor]:
        monkeypatch.undo()
        checkpoint.write(folder, {"kind": "New"}, NEW)
        return map_tensors(path)

    monkeypatch.setattr(writing, "map_tensors", late)
    manifest, tensors = checkpoint.read(folder)
    assert manifest["kind"] == "New"
    assert torch.equal(tensors["model.x"], NEW["model.x"])


def test_a_model_that_was_loaded_stays_as_it_was_when_another_is_saved_there(folder: Path) -> None:
    tensors = checkpoint.read(folder)[1]
    checkpoint.write(folder, {"kind": "New"}, {"model.x": torch.ones(3)})
    assert torch.equal(tensors["model.x"], OLD["model.x"])


# Places where nothing is written


def test_a_place_that_is_not_ours_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    for name in ("file", "full"):
        with pytest.raises(AleatorError, match="not a model folder"):
            checkpoint.write(tmp_path / name, {"kind": "New"}, NEW)
    assert (tmp_path / "file").read_text() == (tmp_path / "full" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("manifest", ['{"manifest_version": 3, "name": "mine"}', "[" * 100_000, "3", "\udcff"])
def test_a_foreign_folder_that_happens_to_have_a_manifest_is_not_written_over(tmp_path: Path, manifest: str) -> None:
    """Browser extensions, web apps and others have a manifest.json too."""
    extension = tmp_path / "extension"
    extension.mkdir()
    (extension / "manifest.json").write_bytes(manifest.encode(errors="surrogateescape"))
    before = files_of(extension)
    with pytest.raises(AleatorError, match="not a model folder"):
        checkpoint.write(extension, {"kind": "New"}, NEW)
    assert files_of(extension) == before


def test_files_beside_a_model_are_not_ours(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(AleatorError, match="not a model folder"):
        checkpoint.write(folder, {"kind": "New"}, NEW)
    assert (folder / "notes.txt").read_text() == "mine"


def test_a_parent_that_is_a_file_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(AleatorError, match="nothing can be written"):
        checkpoint.write(tmp_path / "file" / "model", {"kind": "New"}, NEW)


@pytest.mark.skipif(os.getuid() != 0, reason="another user is needed, since the test itself may write anywhere")
def test_a_folder_without_permission_is_told_and_stays(folder: Path) -> None:
    for place in (folder, *folder.parents):
        place.chmod(place.stat().st_mode | 0o555)
    before = files_of(folder)

    def told(target: Path) -> str:
        os.setuid(65534)
        with pytest.raises(AleatorError) as caught:
            checkpoint.write(target, {"kind": "New"}, NEW)
        return str(caught.value)

    for target in (folder, folder.with_name("new")):
        assert "nothing can be written below" in in_child(partial(told, target)).result
    assert files_of(folder) == before


# Reading


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[content.index(b"\0\0\0\0" * 3) + 5] ^= 1  # in the tensor of zeros
    path.write_bytes(content)


def edit(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        manifest = manifest_of(path.parent)
        change(manifest)
        put_manifest(path.parent, manifest)

    return damage


def unsealed(path: Path) -> None:
    manifest = manifest_of(path.parent)
    (path.parent / "manifest.json").write_text(json.dumps(manifest | {"kind": "New"}))


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def fifo_manifest(path: Path) -> None:
    fifo(path.with_name("manifest.json"))


def loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def crowd(path: Path) -> None:
    path.unlink()
    save_file({f"t{n}": torch.zeros(0) for n in range(10_001)}, path)


@pytest.mark.parametrize(
    "damage",
    [
        cut,
        flip,
        lambda path: path.write_bytes(b"\xff" * 40),
        lambda path: path.write_bytes(b"\xff" * 7 + b"\x00" + b"{}"),  # a header of 2^56 bytes
        lambda path: path.write_bytes(b""),
        lambda path: path.unlink(),
        lambda path: cut(path.with_name("manifest.json")),
        lambda path: path.with_name("manifest.json").unlink(),
        unsealed,
        edit(lambda manifest: manifest.update(format=99)),
        edit(lambda manifest: manifest.update(format=4.0)),
        edit(lambda manifest: manifest.update(format=True)),
        edit(lambda manifest: manifest.update(kind=["Old"])),
        edit(lambda manifest: manifest.pop("kind")),
        edit(lambda manifest: manifest.pop("tensors")),
        edit(lambda manifest: manifest["tensors"].update(file="../model/manifest.json")),
        edit(lambda manifest: manifest["tensors"].update(checksums={})),
        edit(lambda manifest: manifest["tensors"]["checksums"].update(more="ab")),
        edit(lambda manifest: manifest["tensors"]["checksums"].update({"model.x": None})),
        fifo,
        fifo_manifest,
        loop,
        device,
        crowd,
    ],
)
def test_a_damaged_or_foreign_folder_is_refused(folder: Path, damage: Callable[[Path], None]) -> None:
    damage(tensors_of(folder))
    with pytest.raises(AleatorError, match=r"damaged or foreign|not a model folder|format"):
        checkpoint.read(folder)


def test_without_verification_only_the_content_of_tensors_is_taken_as_it_is(folder: Path) -> None:
    flip(tensors_of(folder))
    assert checkpoint.read(folder, verify=False)[1]["model.x"].count_nonzero() == 1
    unsealed(tensors_of(folder))
    with pytest.raises(AleatorError, match="its manifest was changed"):
        checkpoint.read(folder, verify=False)


@pytest.mark.parametrize("name", ["nothing", "no\0where", "x" * 3000])
def test_a_folder_that_is_not_there_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(AleatorError, match=r"not a model folder|is no path|cannot be looked up"):
        checkpoint.read(tmp_path / name)


def test_an_earlier_format_is_read_with_a_note(folder: Path) -> None:
    learned = {"learned": {"notes": ["mine"]}}
    as_of_format(folder, 4, manifest_of(folder) | learned)
    manifest, tensors = checkpoint.read(folder)
    assert manifest["learned"]["notes"][0] == "mine"
    assert "without checksums" in manifest["learned"]["notes"][1]
    assert torch.equal(tensors["model.x"], OLD["model.x"])
