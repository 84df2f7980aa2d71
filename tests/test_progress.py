"""Progress bars are shown on a terminal only, and bars inside each other share one display."""

from __future__ import annotations

import io

import pytest

from aleator import progress


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


def test_elsewhere_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress("trials", 3) as bar:
        bar.advance(3)
    assert capsys.readouterr().err == ""
