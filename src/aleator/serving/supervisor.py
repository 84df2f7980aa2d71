"""The supervisor: it loads models and forks workers, and answers nobody itself.

Workers are forked after the model was loaded and used. So they share its tensors, which are mapped from the file, and
all that was computed from them, such as the lists' 8-bit tables. A worker that dies is forked anew in a moment.

When the folder changes, the supervisor loads the new model and forks new workers, while the old ones answer. Only when
the new ones listen are the old ones told to leave. All of them accept from one listening socket, so no connection is
refused meanwhile. A new model that cannot be loaded changes nothing.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from aleator.data.splits import Split
from aleator.errors import AleatorError
from aleator.evaluation.protocols import evaluate
from aleator.progress import quiet
from aleator.serving import logs
from aleator.serving.counters import Counters
from aleator.serving.served import Served
from aleator.serving.settings import Settings
from aleator.serving.worker import LEAVE, work

_LOOK = 0.5  # seconds between two looks at the folder
_START = 60.0  # seconds that a worker has to begin
_PAUSE = 30.0  # seconds before a folder that could not be loaded is tried again unchanged
_STOPS = (signal.SIGTERM, signal.SIGINT)


@dataclass
class Worker:
    """A process that answers."""

    pid: int
    row: int  # of the counters
    born: float
    leaving: bool = False


class Supervisor:
    """Serves a folder from several processes."""

    def __init__(
        self, folder: Path, settings: Settings, listening: socket.socket, workers: int, split: Split | None = None
    ) -> None:
        self.folder, self.settings, self.listening, self.n, self.split = folder, settings, listening, workers, split
        self.counters = Counters(2 + 4 * workers)  # rows for workers that leave while others begin
        self.workers: dict[int, Worker] = {}
        self.evaluator: int | None = None
        self.served = Served.load(folder, settings, split)
        self.stamp, self.tried = _stamp(folder), time.monotonic()
        self.alive = os.pipe()
        self.signals = os.pipe()

    def run(self, told: Callable[[], None]) -> None:
        """Serve until SIGTERM or Ctrl-C. `told` is called once the workers listen."""
        quiet()
        with tempfile.TemporaryDirectory(prefix="aleator-serve-") as place, self._catching():
            self.place = Path(place)
            self.listening.listen(1024)
            self._loaded()
            told()
            while not self._stopped(_LOOK):
                self._reap()
                self._keep_up()
                self._look()
            self._end()

    # Signals

    @contextmanager
    def _catching(self) -> Iterator[None]:
        """Inside, signals are bytes in a pipe."""
        for end in self.signals:
            os.set_blocking(end, False)
        before = {number: signal.signal(number, lambda *_: None) for number in (*_STOPS, signal.SIGCHLD)}
        wakeup = signal.set_wakeup_fd(self.signals[1], warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stopped(self, seconds: float) -> bool:
        """Wait for a signal, for so many seconds at most. Returns whether it says to stop."""
        select.select([self.signals[0]], [], [], seconds)
        with suppress(BlockingIOError):
            return any(number in _STOPS for number in os.read(self.signals[0], 64))
        return False

    # Workers

    def _loaded(self) -> None:
        """Begin to serve the model that was loaded: fork workers, then the evaluation."""
        self.counters.event("model_loads")
        logs.event("serving", fingerprint=self.served.fingerprint, workers=self.n)
        gc.collect()
        gc.freeze()  # the collector of a worker would write into pages that all of them share
        for _ in range(self.n):
            self._fork_worker()
        if self.split is not None:
            self._fork_evaluation(self.split)

    @property
    def _evaluation(self) -> Path:
        return self.place / f"evaluation-{self.served.fingerprint}.json"

    def _fork_worker(self) -> None:
        """Fork a worker and wait until it listens."""
        taken = {worker.row for worker in self.workers.values()}
        last = len(self.counters.table) - 1  # which is shared if models are replaced faster than workers leave
        row = next((row for row in range(1, last) if row not in taken), last)
        source, sink = os.pipe()

        def job() -> None:
            os.close(source)
            self.counters.take_row(row)
            work(
                self.served,
                self.settings,
                self.counters,
                self.listening,
                evaluation=self._evaluation,
                ready=sink,
                alive=self.alive[0],
            )

        pid = self._fork(job)
        os.close(sink)
        self.workers[pid] = Worker(pid, row, time.monotonic())
        began = bool(select.select([source], [], [], _START)[0]) and os.read(source, 1) == b"1"
        os.close(source)
        logs.event("worker", "info" if began else "error", worker=pid, began=began)

    def _fork_evaluation(self, split: Split) -> None:
        """Evaluate the model in a process of its own, which yields to the workers."""

        def job() -> None:
            os.nice(10)
            try:
                report = evaluate(self.served.model, split)
            except AleatorError as error:
                logs.event("no_evaluation", "warning", message=str(error))
                return
            told = report.to_dict()
            about, lists = told.pop("about"), told.pop("lists")
            name = split.name or "test part"
            text = json.dumps({"data": name, "users": about["users"], "protocols": told, "lists": lists})
            part = self._evaluation.with_suffix(".part")
            part.write_text(text)
            part.replace(self._evaluation)
            logs.event("evaluated", fingerprint=self.served.fingerprint)

        self._kill(self.evaluator)
        self.evaluator = self._fork(job)

    def _fork(self, job: Callable[[], None]) -> int:
        """Run a job in a forked process. Returns its id."""
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (*_STOPS, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            for end in (*self.signals, self.alive[1]):
                os.close(end)
            job()
            code = 0
        except BaseException as error:
            logs.bug(error)
        finally:
            os._exit(code)

    def _reap(self) -> None:
        """Take leave of processes that ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid == self.evaluator:
                self.evaluator = None
            worker = self.workers.pop(pid, None)
            if worker is not None and not worker.leaving:
                self.counters.event("worker_exits")
                logs.event("worker_exit", "error", worker=pid, code=os.waitstatus_to_exitcode(status))

    def _keep_up(self) -> None:
        """Fork workers in the place of those that died. One that died at once is not replaced at once."""
        staying = [worker for worker in self.workers.values() if not worker.leaving]
        if len(staying) < self.n:
            self._fork_worker()

    # Models

    def _look(self) -> None:
        """Take up a new model if there is one."""
        stamp = _stamp(self.folder)
        failed = self.tried < 0
        if stamp == self.stamp and not (failed and time.monotonic() + self.tried > _PAUSE):
            return
        self.stamp = stamp
        start = time.monotonic()
        try:
            served = Served.load(self.folder, self.settings, self.split)
        except Exception as error:
            self.tried = -time.monotonic()
            self.counters.event("model_failures")
            message = str(error) if isinstance(error, AleatorError) else type(error).__name__
            logs.event("model_refused", "error", message=message, serving=self.served.fingerprint)
            return
        self.tried = time.monotonic()
        before = list(self.workers.values())
        gc.unfreeze()
        self.served = served
        logs.event("model_loaded", fingerprint=served.fingerprint, seconds=round(time.monotonic() - start, 2))
        self._loaded()
        for worker in before:
            worker.leaving = True
            with suppress(ProcessLookupError):
                os.kill(worker.pid, LEAVE)

    # The end

    def _end(self) -> None:
        """Let all workers answer what they have begun, and end."""
        logs.event("stopping")
        self.listening.close()
        for pid in self.workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        last = time.monotonic() + self.settings.seconds + 5
        while self.workers and time.monotonic() < last:
            for worker in self.workers.values():
                worker.leaving = True
            self._stopped(0.1)
            self._reap()
        for left in (*self.workers, self.evaluator):
            self._kill(left)
        logs.event("stopped")

    def _kill(self, pid: int | None) -> None:
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _stamp(folder: Path) -> tuple[tuple[str, int, int, int], ...]:
    """What changes when a folder is replaced: names, sizes, times and places of its files."""
    found = []
    with suppress(OSError):
        for file in os.scandir(folder):
            about = file.stat()
            found.append((file.name, about.st_size, about.st_mtime_ns, about.st_ino))
    return tuple(sorted(found))
