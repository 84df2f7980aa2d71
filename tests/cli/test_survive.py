"""A fit that is killed: the same command goes on, and the model has the same bits. These kills are real ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import aleator
from tests.cli.conftest import SMALL, Run

# A fit that is killed once the n-th file of its journal is written, for each n of the arguments. One process imports the
# library, and each fit is a fork of it.
ATTACK = """
import os, signal, sys
import torch
from aleator.cli import main
from aleator.training import journal, whole
torch.set_num_threads(1)
journal.EVERY, journal.SHARE, write = 0.0, 1e9, whole.write
words = sys.argv[2:]

def killing(left):
    def written(*given):
        nonlocal left
        path = write(*given)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return path
    return written

for kill in [*map(int, sys.argv[1].split(",")), 0]:
    child = os.fork()
    if child == 0:
        whole.write, sys.argv = killing(kill), ["aleator", *words]
        main()
    print(os.waitpid(child, 0)[1], flush=True)
"""
NUMBERS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def python(program: str, *words: object) -> subprocess.CompletedProcess[str]:
    paths = [str(Path(aleator.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, **dict.fromkeys(NUMBERS, "1"), "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-c", program, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def contents(model: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in model.iterdir()}


def test_real_kills_leave_the_same_model(ratings: Path, tmp_path: Path) -> None:
    words = ["fit", ratings, *SMALL, "--seed", "0", "--out"]
    whole = python(ATTACK, "1000", *words, tmp_path / "whole")
    assert whole.stdout.splitlines()[-1] == "0", whole.stderr
    kills = [3, 17, 5, 1, 30, 11]
    killed = python(ATTACK, ",".join(map(str, kills)), *words, tmp_path / "killed")
    lines = [line for line in killed.stdout.splitlines() if line.isdigit()]
    assert lines == [str(int(signal.SIGKILL))] * len(kills) + ["0"], killed.stderr
    assert killed.stderr.count("the fit goes on from") == len(kills)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    assert {path.name for path in tmp_path.iterdir()} == {"whole", "killed"}


STOPPED = """
import os, signal, sys
from aleator.training import watch
from aleator.cli import main
advance = watch.Stage.advance
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have switched it off

def advanced(stage, *loss, **figures):
    advance(stage, *loss, **figures)
    if stage.epoch == 2 and stage.name == "uncertainty estimator":
        os.kill(os.getpid(), {number})

watch.Stage.advance = advanced
main()
"""


def test_sigterm_and_ctrl_c_end_with_their_codes_and_one_sentence(ratings: Path, tmp_path: Path) -> None:
    words = ["fit", ratings, *SMALL, "--out", tmp_path / "m"]
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        ended = python(STOPPED.format(number=int(number)), *words)
        assert ended.returncode == code, ended.stderr
        assert "the fit so far is kept in" in ended.stderr
        assert "Traceback" not in ended.stderr
        assert list((tmp_path / "m.fit").glob("*state*"))


def test_a_signal_during_the_imports_ends_the_program() -> None:
    program = """
import builtins, os, signal, sys
from aleator_command import main
real = builtins.__import__
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have switched it off

def importing(name, *rest):
    if name.startswith("torch"):
        os.kill(os.getpid(), {number})
    return real(name, *rest)

builtins.__import__ = importing
sys.argv = ["aleator", "similar", "model", "--items", "1"]
main()
"""
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        ended = python(program.format(number=int(number)))
        assert (ended.returncode, ended.stderr) == (code, "interrupted before the command began\n")


def test_an_unfinished_fit_of_other_options_is_refused_until_it_is_to_start_anew(
    ratings: Path, tmp_path: Path, run: Run
) -> None:
    words = ["fit", ratings, *SMALL, "--out", tmp_path / "m"]
    python(STOPPED.format(number=int(signal.SIGTERM)), *words)
    refused = run(*words, "--set", "alpha=2")
    assert refused.code == 2
    assert "holds an unfinished fit with other" in refused.err
    assert "options" in refused.err
    done: Any = run(*words, "--set", "alpha=2", "--no-resume", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["out"] == str(tmp_path / "m")
    assert not (tmp_path / "m.fit").exists()
