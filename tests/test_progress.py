"""Progress is bars of one display on a terminal, and elsewhere a plain line every few seconds."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import aleator as al
from aleator import progress
from aleator.data.simulate import simulate


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_inside_another_is_a_line_of_the_same_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Terminal())
    with progress.progress("trials", 3) as outer:
        display = progress._display
        assert display is not None
        with progress.progress("epochs", 5) as inner:
            inner.advance(2, loss=0.5)
            assert [(t.description, t.completed) for t in display.tasks] == [("trials", 0), ("epochs", 2)]
        outer.advance(1)
        assert [(t.description, t.completed) for t in display.tasks] == [("trials", 1)]
    assert progress._display is None


def test_an_error_leaves_no_display_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Terminal())
    with pytest.raises(KeyError), progress.progress("trials", 3), progress.progress("epochs", 5):
        raise KeyError
    assert progress._display is None


class Clock:
    """Time as a test tells it, in seconds."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "_clock", made)
    return made


def test_elsewhere_a_line_every_few_seconds_says_what_is_done(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress("FISM", 200) as bar:
        for epoch in range(1, 13):
            clock.now += 1
            bar.advance(1, loss=1 / epoch, metric=0.25)
    assert capsys.readouterr().err == (
        "[0:05] FISM 5/200, loss 0.2, metric 0.25\n[0:10] FISM 10/200, loss 0.1, metric 0.25\n"
    )


def test_work_inside_other_work_shares_its_line(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress("fitting AUR", None):
        for name in ("FISM", "MF"):
            with progress.progress(name, 8) as inner:
                clock.now += 4
                inner.advance(2)
        clock.now += 60
        progress.beat()  # from inside a long step that has no progress of its own
    progress.beat()
    assert capsys.readouterr().err == "[0:08] fitting AUR: MF 2/8\n[1:08] fitting AUR\n"


def test_work_of_a_few_seconds_says_nothing_however_often_it_is_done(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(5):
        with progress.progress("evaluating", 3) as bar:
            clock.now += 3
            bar.advance(3)
    with pytest.raises(KeyError), progress.progress("evaluating", 3):
        raise KeyError
    with progress.progress("evaluating", 3) as bar:  # an error left nothing behind
        clock.now += 3
        bar.advance(3)
    assert capsys.readouterr().err == ""


def test_quiet_is_quiet(clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_quiet", False)
    progress.quiet()
    with progress.progress("FISM", 200) as bar:
        clock.now += 60
        bar.advance(1)
        progress.beat()
    assert capsys.readouterr().err == ""


def test_pieces_have_progress_if_there_are_several(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    for size in (1, 3):
        for _ in progress.each("lists", range(size)):
            clock.now += 6
    assert capsys.readouterr().err == "[0:06] lists 1/3\n[0:12] lists 2/3\n[0:18] lists 3/3\n"


def test_all_long_work_of_a_fit_shows_life(
    clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each look at the clock takes a minute, so a line is printed wherever work reports."""
    data = simulate(n_users=40, n_items=20, per_user=40, seed=0).interactions
    al.write(data, tmp_path / "pairs.csv")

    def minute() -> float:
        clock.now += 60
        return clock.now

    monkeypatch.setattr(progress, "_clock", minute)
    data = al.read(tmp_path / "pairs.csv")
    split = data.split(valid=0.1, test=0.2, seed=0)
    estimator = al.FactorEstimator(dim=4, max_epochs=2)
    aur = al.AUR(contenders=[al.MF(dim=4), al.EASE(), al.FISM(dim=4, max_epochs=2)], estimator=estimator).fit(split)
    al.evaluate(aur, split)
    aur.recommend(data.users.ids.tolist(), k=3, memory=10_000)
    lines = capsys.readouterr().err.splitlines()
    works = {line.partition("] ")[2] for line in lines}
    for work in (
        "reading pairs.csv",
        "fitting AUR: l2 of MF: l2 0.003: MF by ALS 1/8",
        "fitting AUR: MF by ALS 15/15",
        "fitting AUR: l2 of EASE 1, metric ",
        "fitting AUR: EASE: similarities ",
        "fitting AUR: FISM 2/2, loss ",
        "fitting AUR: race over 3 epochs 0/15: MF, residuals in-sample, unobserved constant, init spectral",
        "fitting AUR: choosing lam",
        "fitting AUR: refit: ",
        "evaluating",
        "recommending 1/",
    ):
        assert any(shown.startswith(work) for shown in works), work
