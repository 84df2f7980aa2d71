"""Run a function in a forked child, as a pre-forking server does. A child that hangs is killed."""

from __future__ import annotations

import os
import pickle
import signal
import traceback
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

LONGEST = 60  # seconds


class Child(NamedTuple):
    """How a child ended."""

    signal: int  # that ended it; 0 if none did
    result: Any  # what the function returned; None if it did not return


def in_child(job: Callable[[], Any]) -> Child:
    """Fork, run `job` in the child, and wait for it. After `LONGEST` seconds the child gets SIGALRM, which ends it."""
    source, sink = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, where the process has threads
        child = os.fork()
    if not child:
        try:
            signal.alarm(LONGEST)
            with open(sink, "wb") as pipe:
                pickle.dump(job(), pipe)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(sink)
    with open(source, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code <= 0, "the child raised an exception"
    return Child(-code, pickle.loads(told) if code == 0 else None)
