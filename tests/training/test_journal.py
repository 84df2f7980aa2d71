"""The journal: a fit that was killed goes on with the same bits, and nothing of value is overwritten."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.errors import AleatorError
from aleator.locks import locked
from aleator.training import journal, whole
from aleator.training.journal import kept_in, recorded
from aleator.training.loop import AdamW, Log, Loop, Optimizer
from aleator.training.row_adam import RowAdam
from aleator.training.stop import Stop
from aleator.training.watch import Epoch, watching

CPU = torch.device("cpu")
ABOUT = {"data": "these pairs", "options": {"dim": 2}}


class Kill(BaseException):
    """Stands for a kill: nothing catches it."""


@pytest.fixture(autouse=True)
def _every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save after every step of a training."""
    monkeypatch.setattr(journal, "EVERY", 0.0)
    monkeypatch.setattr(journal, "SHARE", 1e9)


@pytest.fixture
def kill_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """`kill_at(n)` kills once the n-th file from now is written."""
    real = whole.write
    left = [0]

    def write(*given: Any) -> Path:
        path = real(*given)
        left[0] -= 1
        if left[0] == 0:
            raise Kill
        return path

    monkeypatch.setattr(whole, "write", write)
    return lambda n: left.__setitem__(0, n)


def train(rows: bool = False, seen: list[int] | None = None) -> tuple[Tensor, Tensor, Log]:
    """Two trainings, with random losses and early stopping. Returns what they end with."""
    histories = Histories.of_lists([[0], [1, 2], [2], [3], [0, 3]], 4, CPU)
    weights, logs = [], []
    for number in range(2):
        weight = torch.linspace(-1, 1, 8).reshape(4, 2).clone().requires_grad_(not rows)
        optimizer = RowAdam([weight], lr=0.1, weight_decay=0.1) if rows else AdamW([weight], lr=0.1)
        logs.append(fitted(weight, optimizer, histories, number, seen))
        weights.append(weight.detach())
    return weights[0], weights[1], logs[1]


def fitted(weight: Tensor, optimizer: Optimizer, histories: Histories, number: int, seen: list[int] | None) -> Log:
    def loss(users: Users, draw: torch.Generator) -> Tensor:
        target = torch.rand(2, generator=draw)
        if seen is not None:
            seen.append(number)
        if isinstance(optimizer, RowAdam):
            row, gradient = optimizer.rows(torch.unique(users.item))
            gradient.copy_(row - target)
            return (row - target).square().sum()
        return (weight - target).square().sum() * len(users)

    loop = Loop(max_epochs=7, batch_size=2, lr=0.1, device=CPU, patience=2, tolerance=0.01, label=f"number {number}")
    return loop.minimise(loss, [weight], histories, Stop(lambda: -float(weight.detach().norm())), optimizer)


def same(a: tuple[Tensor, Tensor, Log], b: tuple[Tensor, Tensor, Log]) -> bool:
    return torch.equal(a[0], b[0]) and torch.equal(a[1], b[1]) and a[2] == b[2]


@pytest.mark.parametrize("rows", [False, True], ids=["AdamW", "RowAdam"])
def test_killed_at_every_file_it_ends_with_the_same_bits(
    rows: bool, tmp_path: Path, kill_at: Callable[[int], None]
) -> None:
    whole_one, kills = train(rows), 0
    while True:
        kill_at(kills % 3 + 1)
        try:
            with kept_in(tmp_path / "fit", ABOUT):
                found = train(rows)
            break
        except Kill:
            kills += 1
            assert len(list((tmp_path / "fit").glob("*state*"))) <= journal.STATES + 1  # one more before older ones go
    assert kills > 10
    assert same(whole_one, found)
    assert not (tmp_path / "fit").exists()


def test_a_finished_training_is_not_run_again(tmp_path: Path) -> None:
    seen: list[int] = []
    unfinished(tmp_path)
    with kept_in(tmp_path, ABOUT):
        train(seen=seen)
    assert seen == []


def test_epochs_that_are_done_are_not_told_again(tmp_path: Path, kill_at: Callable[[int], None]) -> None:
    told: list[Epoch] = []
    kill_at(5)  # in the second epoch of three steps
    with watching(told.append):
        for _ in range(2):
            try:
                with kept_in(tmp_path, ABOUT):
                    train()
            except Kill:
                pass
    assert [each.epoch for each in told if each.stage == "number 0"][:4] == [1, 2, 3, 4]


def test_steps_inside_a_step_are_deleted_once_it_is_done(tmp_path: Path) -> None:
    def run(outcome: list[int]) -> None:
        recorded("outer", lambda: outcome.append(len(train()[2].rows)), lambda: ({"n": outcome[0]}, {}), taken)

    def taken(facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        again.append(facts["n"])

    first: list[int] = []
    again: list[int] = []
    unfinished(tmp_path, lambda: run(first))
    assert [path.name[:9] for path in tmp_path.glob("0*")] == ["0001-done"]
    with kept_in(tmp_path, ABOUT):
        run([])
    assert again == first


def test_a_damaged_state_is_passed_over_for_the_one_before(
    tmp_path: Path, kill_at: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    expected = train()
    kill_at(6)
    with pytest.raises(Kill), kept_in(tmp_path, ABOUT):
        train()
    newest = max(tmp_path.glob("*state*"))
    newest.write_bytes(newest.read_bytes()[:-1])
    with kept_in(tmp_path, ABOUT):
        assert same(expected, train())
    assert capsys.readouterr().err.count("is damaged, and is not used") == 1


Harm = Callable[[dict[str, Any], dict[str, Tensor]], None]
HARMS: dict[str, Harm] = {
    "a tensor is gone": lambda facts, tensors: tensors.__delitem__("p.0"),
    "a tensor has another shape": lambda facts, tensors: tensors.update({"p.0": torch.zeros(3)}),
    "no state of a generator": lambda facts, tensors: tensors.update(draws=torch.zeros(4)),
    "an epoch that is a text": lambda facts, tensors: facts.update(epoch="3"),
    "an epoch below 1": lambda facts, tensors: facts.update(epoch=-3),
    "a best that is short": lambda facts, tensors: facts.update(best=[1]),
    "rows that are texts": lambda facts, tensors: facts.update(rows=["x"]),
    "no rows": lambda facts, tensors: facts.__delitem__("rows"),
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS.keys())
def test_a_state_of_something_else_is_refused(harm: Harm, tmp_path: Path, kill_at: Callable[[int], None]) -> None:
    """Its checksum is right: somebody wrote it, or another version."""
    kill_at(5)
    with pytest.raises(Kill), kept_in(tmp_path, ABOUT):
        train()
    for path in sorted(tmp_path.glob("*state*")):
        content = whole.read(path)
        assert content is not None
        harm(content[0]["facts"], content[1])
        path.unlink()
        whole.write(tmp_path, path.name.rpartition("-")[0], *content)
    with pytest.raises(AleatorError, match=r"not one of this fit .*resume=False"), kept_in(tmp_path, ABOUT):
        train()
    with kept_in(tmp_path, ABOUT, resume=False):
        assert same(train(), train())


def test_files_that_no_fit_wrote_are_not_used(tmp_path: Path) -> None:
    """Tensors that claim more memory than the file has, and facts that are none."""
    ones = {"x": torch.ones(2, 2)}
    for told in (
        '{"facts": {}, "strides": {"x": [1099511627776, 1]}}',
        '{"facts": 3, "strides": {}}',
        "[]",
        "[" * 50_000,
    ):
        path = tmp_path / "0001-state-000001-x.safetensors"
        save_file(ones, path, {"told": told})
        named = tmp_path / f"0001-state-000001-{whole._checksum(path)}.safetensors"
        assert whole.read(path.replace(named)) is None
    save_file(ones, path)
    assert whole.read(path.replace(tmp_path / f"0001-{whole._checksum(path)}.safetensors")) is None


def test_a_full_disk_does_not_end_the_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*given: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    expected = train()
    monkeypatch.setattr(whole, "save_file", full)
    with kept_in(tmp_path, ABOUT):
        assert same(expected, train())
    assert capsys.readouterr().err.count("No space left on device") == 1  # told once


def unfinished(folder: Path, run: Callable[[], Any] = train) -> dict[str, bytes]:
    """A folder with a fit that was killed at its end."""

    def killed() -> None:
        with kept_in(folder, ABOUT):
            run()
            raise Kill

    with pytest.raises(Kill):
        killed()
    return contents(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_fit_of_other_options_is_refused_and_loses_nothing(tmp_path: Path) -> None:
    before = unfinished(tmp_path)
    with (
        pytest.raises(AleatorError, match=r"unfinished fit with other options; .*resume"),
        kept_in(tmp_path, {**ABOUT, "options": {"dim": 3}}),
    ):
        raise Kill
    assert contents(tmp_path) == before


def test_without_resume_it_starts_anew(tmp_path: Path) -> None:
    unfinished(tmp_path)
    seen: list[int] = []
    with kept_in(tmp_path, {**ABOUT, "options": {"dim": 3}}, resume=False):
        train(seen=seen)
    assert len(seen) > 10


def test_what_a_write_left_that_was_killed_is_cleaned_up(tmp_path: Path) -> None:
    """The library that writes the tensors has temporary files of its own."""
    unfinished(tmp_path)
    (tmp_path / whole.UNFINISHED).mkdir()
    (tmp_path / whole.UNFINISHED / ".tmpLCVsW9").write_bytes(b"half")
    with kept_in(tmp_path, ABOUT):
        assert not (tmp_path / whole.UNFINISHED).exists()
        train()


def test_two_fits_in_one_folder_are_refused(tmp_path: Path) -> None:
    with kept_in(tmp_path / "fit", ABOUT):
        with pytest.raises(AleatorError, match="another fit is running in"), kept_in(tmp_path / "fit", ABOUT):
            raise Kill
        train()


def test_a_folder_of_other_files_is_refused_and_keeps_them(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(AleatorError, match=r"such as 'thesis\.tex'"), kept_in(tmp_path, ABOUT):
        raise Kill
    assert contents(tmp_path) == {"thesis.tex": b"years of work"}


def test_what_several_processes_left_is_refused_or_deleted(tmp_path: Path) -> None:
    for rank in ("rank-0", "rank-1"):
        unfinished(tmp_path / rank)
        (tmp_path / rank / "lock").touch()
    before = contents(tmp_path / "rank-1")
    told = r"holds an unfinished fit of several processes; start as many, .*--no-resume"
    with pytest.raises(AleatorError, match=told), kept_in(tmp_path, ABOUT):
        raise Kill
    assert contents(tmp_path / "rank-1") == before
    with kept_in(tmp_path, ABOUT, resume=False):
        train()
    assert not list(tmp_path.glob("rank-*"))


def test_a_fit_of_several_processes_that_is_running_is_not_deleted(tmp_path: Path) -> None:
    unfinished(tmp_path / "rank-0")
    before = contents(tmp_path / "rank-0")
    with locked(tmp_path / "rank-0" / "lock") as free:
        assert free
        with pytest.raises(AleatorError, match="another fit is running"), kept_in(tmp_path, ABOUT, resume=False):
            raise Kill
    assert {name: held for name, held in contents(tmp_path / "rank-0").items() if name != "lock"} == before


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(AleatorError, match="checkpoints cannot be written to"), kept_in(place, ABOUT):
            raise Kill


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, None)])
def test_a_signal_ends_the_training_after_its_step_with_a_checkpoint(
    number: int, code: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    expected = train()
    monkeypatch.setattr(journal, "EVERY", 1e9)  # only the signal saves
    before = signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    request.addfinalizer(lambda: signal.signal(number, before))
    usual = signal.getsignal(number)
    told: list[Epoch] = []

    def watch(epoch: Epoch) -> None:
        told.append(epoch)
        if len(told) == 2:
            signal.raise_signal(number)

    with pytest.raises((KeyboardInterrupt, SystemExit)) as ended, watching(watch), kept_in(tmp_path, ABOUT):
        train()
    assert signal.getsignal(number) is usual
    assert len(told) == 2
    assert isinstance(ended.value, KeyboardInterrupt if code is None else SystemExit)
    assert code is None or ended.value.code == code  # type: ignore[union-attr]
    assert len(list(tmp_path.glob("*state*"))) == 1
    with kept_in(tmp_path, ABOUT):
        assert same(expected, train())


def test_a_program_keeps_its_own_handler(tmp_path: Path) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        with kept_in(tmp_path, ABOUT):
            signal.raise_signal(signal.SIGTERM)
            train()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]


def test_a_training_that_diverges_ends_with_its_best_weights(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a checked epoch before, it is an error."""
    weight = torch.ones(2, requires_grad=True)
    losses: Iterator[float] = iter([1.0, 1.0, float("nan")])

    def loss(users: Users, draw: torch.Generator) -> Tensor:
        return (weight * next(losses)).sum()

    loop = Loop(max_epochs=5, batch_size=9, lr=0.1, device=CPU)
    log = loop.minimise(loss, [weight], Histories.of_lists([[0]], 2, CPU), Stop(lambda: -float(weight.detach().sum())))
    assert log.best_epoch == 2
    assert bool(weight.isfinite().all())
    assert "diverged: the loss is nan in epoch 3; it ends with the weights of epoch 2" in capsys.readouterr().err
