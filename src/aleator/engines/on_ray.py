"""Ray as an engine: each piece is a task, and a task whose worker is lost is run again.

The tasks write, or return, results of their own. Ray Data is not used: whoever has the work cuts the pieces, so that they
are the same with every engine, and an interrupted work goes on with either of them.

A work goes into Ray's object store once. Each machine has one copy there, and its workers map the arrays and tensors of
that copy into their memory. So they share a model, also one that was changed after it was loaded, and its folder need
not be visible to all machines.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import socket
import sys
import threading
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aleator import progress, threads
from aleator.engines.engine import Ask, P, R, Work, silence
from aleator.errors import AleatorError, require

AGAIN = 3  # how often a piece is run again whose worker was lost
_END = object()
_PATIENCE = 10.0  # seconds to wait for a cluster
_UNSET = "check RAY_ADDRESS, or unset it to run on this machine"
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # it reports nothing to anybody
    "RAY_DEDUP_LOGS_SKIP_REGEX": "^",  # it prints no line of a lost worker into our output
}
_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # without other machines, it listens on 127.0.0.1 alone


class Ray:
    """Workers of Ray, each of which has some cores and as many threads."""

    def __init__(self, ray: Any, workers: int, cores: int) -> None:
        self.ray = ray
        self.workers = workers
        self.cores = cores  # of a worker

    def run(
        self,
        work: Work[P, R],
        pieces: Iterable[P | None],
        *,
        answer: Ask = silence,
        lost: Callable[[AleatorError], R] | None = None,
    ) -> Iterator[tuple[P, R]]:
        """Each piece with its result; see `Engine.run`. At most `workers` pieces are running."""
        source, more, running = iter(pieces), True, dict[Any, P]()
        held, task = self._put(work), self.ray.remote(_run).options(num_cpus=self.cores, max_retries=AGAIN)
        post: Any = None if answer is silence else self._post()
        questions = [] if post is None else [post.questions.remote()]
        try:
            while True:
                while more and len(running) < self.workers:
                    piece: Any = next(source, _END)
                    more = piece is not _END
                    if not more or piece is None:
                        break
                    running[task.remote([held, self.ray.put(piece), post], self.cores)] = piece
                if not running:
                    return
                (ready,), _ = self.ray.wait([*running, *questions], num_returns=1)
                if ready in running:
                    yield running.pop(ready), self._result(ready, lost)
                    continue
                for number, question in self.ray.get(ready):
                    post.answer.remote(number, answer(question))
                questions = [post.questions.remote()]
        finally:
            for left in running:
                self.ray.cancel(left, force=True)
            if post is not None:
                self.ray.kill(post)

    def _put(self, work: Any) -> Any:
        """The work in the object store."""
        from ray.util import deregister_serializer, register_serializer

        register_serializer(Tensor, serializer=_packed, deserializer=_unpacked)
        try:
            return self.ray.put(work)
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            reason = str(error).strip().partition("\n")[0]
            problem = f"this model cannot be handed to the workers of engine ray ({reason:.200})"
            raise AleatorError(problem, "take engine process") from None
        finally:
            deregister_serializer(Tensor)

    def _post(self) -> Any:
        options: dict[str, Any] = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1}
        return self.ray.remote(_Post).options(**options).remote()

    def _result(self, ready: Any, lost: Callable[[AleatorError], R] | None) -> R:
        """The result of a piece. An exception of the work comes out as it was raised."""
        from ray.exceptions import RayError, RayTaskError

        try:
            made: R = self.ray.get(ready)
            return made
        except RayTaskError as error:
            cause = error.cause
            if not isinstance(cause, Exception):
                raise
            raise cause from error  # which tells where the worker raised it
        except RayError as error:
            reason = (str(error).strip() or type(error).__name__).partition("\n")[0]
            told = f"a worker was lost {AGAIN + 1} times at the same piece of the work ({reason:.200})"
            problem = AleatorError(told, "take fewer workers if the memory is short, or engine process")
            if lost is None:
                raise problem from None
            return lost(problem)


@contextmanager
def on_ray(workers: int | None) -> Iterator[Ray]:
    """The engine, on the Ray that this process uses already, on the cluster that RAY_ADDRESS names, or on its own.

    Its own Ray runs on this machine as long as the `with` block does. Without `workers`, there is one for each core.
    """
    address = os.environ.get("RAY_ADDRESS")
    ray = library(address)
    own = not ray.is_initialized()
    if own:
        start(ray, address)
    try:
        cores = int(ray.cluster_resources().get("CPU", 0))
        largest = max((int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]), default=0)
        wanted = max(cores, 1) if workers is None else workers
        told = f"give at most {cores} workers" if cores else "give it cores"
        require(wanted <= cores, f"{wanted} workers are wanted, and Ray has {cores} cores", told)
        yield Ray(ray, wanted, min(cores // wanted, largest))
    finally:
        if own:
            ray.shutdown()


def library(address: str | None) -> Any:
    """Ray, as a module. It reads some settings when it is imported, so they are made before."""
    here = not address or address.startswith(("127.", "localhost:"))
    for name, value in (_QUIET | (_LOOPBACK if here else {})).items():
        os.environ.setdefault(name, value)
    import ray

    return ray


def start(ray: Any, address: str | None, cores: int | None = None) -> None:
    """Start Ray, or connect to a cluster. It must not print, and must not take over how SIGTERM ends the process."""
    options: dict[str, Any] = {"address": address}
    if address:
        _reach(address)
    else:
        options = {"address": "local", "num_cpus": cores or _cores(), "include_dashboard": False}
    before = signal.getsignal(signal.SIGTERM)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            ray.init(**options, log_to_driver=False, logging_level=logging.CRITICAL)
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        remedy = _UNSET if address else "take engine process"
        where = f"at '{address}'" if address else "on this machine"
        raise AleatorError(f"Ray cannot be used {where} ({reason:.200})", remedy) from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _reach(address: str) -> None:
    """Refuse a cluster that does not answer. Ray would try for minutes."""
    told = "give RAY_ADDRESS as HOST:PORT, on a machine of the cluster"
    require("://" not in address, f"'{address}' is the address of a client of Ray", told)
    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        return  # such as auto: Ray knows where to look, or says what is wrong
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise AleatorError(f"no Ray answers at '{address}' ({error})", _UNSET) from None


def _cores() -> int | None:
    """The cores that this process may use. None where the system does not say, and Ray counts them all."""
    return threads.cores() if sys.platform == "linux" else None


# What runs in a worker

_held: dict[str, Any] = {}  # the work of the last piece, by its name in the object store


def _run(references: list[Any], cores: int) -> Any:
    """The result of a piece. The work is taken from the object store once for all pieces of this worker.

    `references` are those of the work, of the piece and of where questions are sent. They come in a list, since Ray would
    put what they stand for in the place of bare ones: each time, and before polars has its limit.
    """
    import ray

    held, piece, post = references
    os.environ.setdefault("POLARS_MAX_THREADS", str(cores))  # it reads that when it is imported
    torch.set_num_threads(cores)
    progress.quiet()
    if held.hex() not in _held:
        _held.clear()
        _held[held.hex()] = ray.get(held)
    return _held[held.hex()](ray.get(piece), silence if post is None else partial(_ask, post))


def _ask(post: Any, question: Any) -> Any:
    import ray

    return ray.get(post.ask.remote(uuid.uuid4().hex, question))


class _Post:
    """Where the questions of workers wait for their answers. It may be lost: what was under way is sent again."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.come = asyncio.Event()
        self.answers: dict[str, asyncio.Future[Any]] = {}

    async def ask(self, number: str, question: Any) -> Any:
        """For a worker: the answer, once it is there."""
        self.asked.append((number, question))
        self.come.set()
        try:
            return await self._place(number)
        finally:
            del self.answers[number]

    async def questions(self) -> list[tuple[str, Any]]:
        """For whoever answers: the questions, once there are some."""
        await self.come.wait()
        self.come.clear()
        asked, self.asked = self.asked, []
        return asked

    async def answer(self, number: str, value: Any) -> None:
        """For whoever answers."""
        if not self._place(number).done():
            self._place(number).set_result(value)

    def _place(self, number: str) -> asyncio.Future[Any]:
        return self.answers.setdefault(number, asyncio.get_running_loop().create_future())


def _packed(tensor: Tensor) -> Any:
    """A tensor as an array, which the workers of a machine share, or as what makes it where numpy has no such array."""
    try:
        return tensor.detach().numpy()
    except (TypeError, RuntimeError):  # bfloat16, sparse
        return tensor.__reduce_ex__(pickle.HIGHEST_PROTOCOL)  # type: ignore[no-untyped-call]


def _unpacked(packed: Any) -> Tensor:
    if isinstance(packed, np.ndarray):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nobody may write into what is shared, and scoring does not
            return torch.from_numpy(packed)
    make, given = packed[:2]
    made: Tensor = make(*given)
    return made
