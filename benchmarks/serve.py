"""Requests per second and latency of the service, against a bare numpy scoring service on the same HTTP stack.

    python benchmarks/serve.py --model FOLDER [--connections 64] [--seconds 60] [--workers 2] [--json FILE]

requests    lists of 20 items for random known users, one user a request, over connections that stay open, per second
p50, p99    milliseconds to the answer
replaced    p99 while the folder is replaced by a model at another lam: it is loaded and warmed beside, and workers change
memory      proportional set size (Pss) of all processes, with one worker and with four

The bare service is FastAPI and uvicorn as well, with as many workers, which share its vectors by a fork. For each request
it multiplies the vector of the user with those of all items, leaves out what the user has seen, and takes the best items
with argpartition. It gives ids and scores alone; the service also gives expectation, uncertainty, confidence, popularity
and tail. wrk makes the load where it is installed, and a client in Python elsewhere: `load` says which. Load, service and
reference share the cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
from common import Row, show

import aleator as al
from aleator.recommender import Recommender
from aleator.serving import serving
from folders import make

_ASKED = 2000  # users who are asked for, in random order
_LUA = """
local bodies = {}
for line in io.lines(BODIES) do bodies[#bodies + 1] = line end
math.randomseed(0)
request = function()
  return wrk.format("POST", "/recommend", {["Content-Type"] = "application/json"}, bodies[math.random(#bodies)])
end
done = function(summary, latency, requests)
  local e = summary.errors
  io.stderr:write(string.format('{"requests": %d, "seconds": %f, "p50": %f, "p99": %f, "errors": %d}',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1000, latency:percentile(99) / 1000,
    e.connect + e.read + e.write + e.status + e.timeout))
end
"""


class Load(NamedTuple):
    """What a load measured."""

    requests: int
    seconds: float
    p50: float  # milliseconds
    p99: float
    errors: int

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


def load(address: str, bodies: list[str], connections: int, seconds: float) -> Load:
    """Ask over so many connections at a time, for so many seconds."""
    if shutil.which("wrk") is None:
        return asyncio.run(by_python(address, bodies, connections, seconds))
    with tempfile.TemporaryDirectory() as place:
        script, lines = Path(place) / "load.lua", Path(place) / "bodies"
        lines.write_text("\n".join(bodies) + "\n")
        script.write_text(_LUA.replace("BODIES", json.dumps(str(lines))))
        words = [
            "wrk",
            "-t1",
            f"-c{connections}",
            f"-d{max(round(seconds), 1)}s",
            "--timeout",
            "30s",
            "-s",
            str(script),
            address,
        ]
        ran = subprocess.run(words, capture_output=True, text=True, check=True)
    return Load(**json.loads(ran.stderr[ran.stderr.index("{") :]))


async def by_python(address: str, bodies: list[str], connections: int, seconds: float) -> Load:
    """The same load from Python."""
    parts, end = urlsplit(address), time.monotonic() + seconds
    took: list[float] = []
    errors = 0

    async def ask_on(rng: random.Random) -> None:
        nonlocal errors
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        while time.monotonic() < end:
            body = rng.choice(bodies).encode()
            start = time.monotonic()
            writer.write(
                b"POST /recommend HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                % (len(body), body)
            )
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
            await reader.readexactly(int(length.partition(b":")[2]))
            took.append(1000 * (time.monotonic() - start))
            errors += not head.startswith(b"HTTP/1.1 200")
            if b"connection: close" in head.lower():
                writer.close()
                reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.close()

    await asyncio.gather(*(ask_on(random.Random(n)) for n in range(connections)))
    return Load(len(took), seconds, float(np.percentile(took, 50)), float(np.percentile(took, 99)), errors)


# The reference


@contextmanager
def bare(model: Recommender, workers: int) -> Iterator[str]:
    """A bare scoring service, in forked processes."""
    vectors, data = model.vectors(), model.fitted
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(1024)
    children = []
    for _ in range(workers):
        child = os.fork()
        if not child:
            try:
                _answer(vectors, data, listening)
            finally:
                os._exit(0)
        children.append(child)
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    listening.close()
    yield address
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _answer(vectors: Any, data: al.Interactions, listening: socket.socket) -> None:
    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel

    class Asked(BaseModel):
        users: list[int | str]
        k: int = 20

    app = FastAPI()
    place = {user: row for row, user in enumerate(np.asarray(vectors.user_ids).tolist())}
    items = np.asarray(vectors.item_ids).tolist()
    untrained, by_item = ~vectors.trained, vectors.item_vectors.T

    async def recommend(asked: Asked) -> dict[str, Any]:
        lists = []
        for user in asked.users:
            row = place[user]
            scores = vectors.user_vectors[row] @ by_item
            scores[untrained] = -np.inf
            scores[data.csr.indices[data.csr.indptr[row] : data.csr.indptr[row + 1]]] = -np.inf
            best = np.argpartition(-scores, asked.k)[: asked.k]
            best = best[np.argsort(-scores[best])]
            lists.append({"user": user, "items": [{"item_id": items[i], "score": float(scores[i])} for i in best]})
        return {"lists": lists}

    recommend.__annotations__["asked"] = Asked  # a class of this function, which a text could not name
    app.post("/recommend")(recommend)
    uvicorn.Server(uvicorn.Config(app, loop="uvloop", http="httptools", log_level="error", access_log=False)).run(
        [listening]
    )


def check(model: Recommender, address: str, user: Any, k: int) -> None:
    """Stop if the reference answers something else than the library."""
    from aleator.serving import Client

    with Client(address) as client:
        (found,) = client.ask("POST", "/recommend", {"users": [user], "k": k})["lists"]
    expected = model.recommend([user], k)["score"].to_numpy()
    if not np.allclose(expected, [item["score"] for item in found["items"]], rtol=1e-3, atol=1e-3):
        raise SystemExit("the lists of the bare service are not those of the library")


# Measuring


def megabytes(pid: int) -> float:
    """Memory of a process and its children: what is shared counts once."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    total = 0
    for each in (str(pid), *children):
        text = Path(f"/proc/{each}/smaps_rollup").read_text()
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return total / 1024


def child() -> int:
    """The process that was started last."""
    return int(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="folder of a fitted AUR; by default random tensors")
    parser.add_argument("--megabytes", type=int, default=50, help="of random tensors")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60, help="of each load")
    parser.add_argument("--workers", type=int, default=2, help="of both services")
    parser.add_argument("--k", type=int, default=20)
    parser.add_argument("--json", type=Path, help="append the figures to this file as one line of JSON")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "model"
        model = al.load_model(args.model, "cpu") if args.model else make(args.megabytes)
        if not isinstance(model, al.AUR):
            raise SystemExit("the model is no AUR")
        model.save(folder)
        measure(folder, al.load_model(folder, "cpu"), args)


def measure(folder: Path, model: Any, args: argparse.Namespace) -> None:
    data = model.fitted
    known = np.flatnonzero(np.diff(data.csr.indptr))
    some = np.random.default_rng(0).permutation(known)[:_ASKED]
    bodies = [json.dumps({"users": [user], "k": args.k}) for user in data.users.decode(some).tolist()]
    user = json.loads(bodies[0])["users"][0]
    memory = {}
    for workers in (1, 4):
        with serving(folder, "--quiet", "--workers", str(workers)) as address:
            load(address, bodies, args.connections, min(args.seconds, 5))
            memory[workers] = megabytes(child())
    with serving(folder, "--quiet", "--workers", str(args.workers)) as address:
        load(address, bodies, args.connections, min(args.seconds, 3))
        ours = load(address, bodies, args.connections, args.seconds)
        other = threading.Timer(1, lambda: model.at(0.3).save(folder))
        other.start()
        change = load(address, bodies, args.connections, args.seconds)
        other.join()
    with bare(model, args.workers) as address:
        check(model, address, user, args.k)
        load(address, bodies, args.connections, min(args.seconds, 3))
        theirs = load(address, bodies, args.connections, args.seconds)
    errors = {"errors": ours.errors, "theirs": theirs.errors}
    rows = [
        Row("lists per second", ours.rate, theirs.rate, "bare numpy", "1/s", more=errors),
        Row("p50", ours.p50, theirs.p50, "bare numpy", "ms"),
        Row("p99", ours.p99, theirs.p99, "bare numpy", "ms"),
        Row("p99", ours.p99, ours.p50, "our p50", "ms"),
        Row("p99 while the model is replaced", change.p99, ours.p99, "our p99", "ms", more={"errors": change.errors}),
        Row("memory, 1 worker", memory[1], None, "", "MB"),
        Row("memory, 4 workers", memory[4], memory[1], "1 worker", "MB"),
    ]
    about = {"users": data.n_users, "items": data.n_items, "dim": model.vectors([user]).user_vectors.shape[1]}
    name = "wrk" if shutil.which("wrk") else "a client in Python"
    show("serve", rows, args.json, model=str(args.model or "random"), data=about, load=name)


if __name__ == "__main__":
    main()
