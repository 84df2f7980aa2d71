"""The folder of a batch: what is finished stays, what is not finished goes, and one run has it at a time."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from aleator.batch.folder import Folder, held
from aleator.errors import AleatorError

BATCH = {"k": 3, "users": 9}


def write(text: str) -> Any:
    return lambda path: path.write_text(text)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"_journal.jsonl"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two of its parts are finished."""
    with held(tmp_path / "deep" / "out", BATCH) as made:
        for n in range(2):
            made.add(f"part-0000{n}.csv", write(f"part {n}"), {"users": n})
    return tmp_path / "deep" / "out"


def test_finished_parts_are_known_to_the_next_run(folder: Path) -> None:
    with held(folder, BATCH) as again:
        assert {name: about["users"] for name, about in again.finished.items()} == {
            "part-00000.csv": 0,
            "part-00001.csv": 1,
        }
        again.finish({"all": "done"})
    assert names(folder) == {"part-00000.csv", "part-00001.csv", "_SUCCESS"}


def test_what_a_killed_run_left_is_removed(folder: Path) -> None:
    for name in (".part-00002.csv.tmp", "part-00002.csv", "._SUCCESS.tmp"):
        (folder / name).write_text("half")
    (folder / "notes.txt").write_text("mine")
    with (folder / "_journal.jsonl").open("ab") as journal:
        journal.write(b'{"part": "part-00002.csv", "by')
    with held(folder, BATCH) as again:
        assert sorted(again.finished) == ["part-00000.csv", "part-00001.csv"]
        assert names(folder) == {"part-00000.csv", "part-00001.csv", "notes.txt"}
        again.add("part-00002.csv", write("whole"), {})
    with held(folder, BATCH) as again:
        assert len(again.finished) == 3


def test_a_folder_that_is_not_complete_any_more_does_not_say_so(folder: Path) -> None:
    with held(folder, BATCH) as made:
        made.finish({})
    (folder / "part-00001.csv").write_text("cut")
    with held(folder, BATCH) as made:
        assert "_SUCCESS" not in names(folder)
        assert list(made.finished) == ["part-00000.csv"]


def test_another_batch_is_refused_while_a_part_is_finished(folder: Path) -> None:
    with (
        pytest.raises(AleatorError, match="holds a batch with another k and lam"),
        held(folder, {**BATCH, "k": 4, "lam": 1}),
    ):
        pass
    assert names(folder) == {"part-00000.csv", "part-00001.csv"}
    for path in folder.glob("part-*"):
        path.unlink()
    with held(folder, {"k": 4}) as made:
        assert made.finished == {}


def test_a_second_run_is_refused_until_the_first_ends(folder: Path) -> None:
    with held(folder, BATCH), pytest.raises(AleatorError, match="another run is writing to"), held(folder, BATCH):
        pass
    with held(folder, BATCH):
        pass


def test_a_damaged_journal_is_refused(folder: Path) -> None:
    (folder / "_journal.jsonl").write_text("what\n")
    with pytest.raises(AleatorError, match=r"_journal.jsonl' is damaged"), held(folder, BATCH):
        pass


def test_a_disk_that_is_full_is_told_and_a_later_run_goes_on(folder: Path) -> None:
    def full(path: Path) -> None:
        path.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    def run(made: Folder) -> None:
        made.add("part-00002.csv", full, {})

    with pytest.raises(AleatorError, match=r"No space left.*run it again to go on"), held(folder, BATCH) as made:
        run(made)
    with held(folder, BATCH) as made:
        assert len(made.finished) == 2
        assert names(folder) == {"part-00000.csv", "part-00001.csv"}


def test_a_place_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(AleatorError, match="cannot be written"), held(tmp_path / "file" / "out", BATCH):
        pass
