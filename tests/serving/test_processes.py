"""The service as processes: workers that die, models that are replaced, clients that are slow, and the end."""

from __future__ import annotations

import errno
import io
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import aleator as al
from aleator.serving import Client, logs, serving

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it looks at /proc")
LONGEST = 60.0


@contextmanager
def started(folder: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[str], list[dict[str, Any]]]]:
    """A service with its process and its log so far."""
    program = "from aleator_command import main; main()"
    command = [sys.executable, "-c", program, "serve", str(folder), "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    log: list[dict[str, Any]] = []

    def read() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("{"):
                log.append(json.loads(line))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process, log
    finally:
        process.terminate()
        process.wait(LONGEST)
        reader.join()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def until(happens: Callable[[], Any]) -> Any:
    """Wait until something is so."""
    last = time.monotonic() + LONGEST
    while time.monotonic() < last:
        found = happens()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen")


def named(log: list[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    return [line for line in log if line["event"] == event]


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_a_worker_that_is_killed_is_replaced_and_workers_end_with_their_supervisor(folder: Path) -> None:
    with started(folder, "--quiet") as (address, process, log):
        (first,) = until(lambda: named(log, "worker"))
        os.kill(first["worker"], signal.SIGKILL)
        second = until(lambda: named(log, "worker")[1:])[0]["worker"]
        with Client(address) as client:
            assert client.ask("GET", "/ready")["status"] == "ready"
        assert metric(address, "aleator_worker_exits_total") == 1
        assert named(log, "worker_exit")[0]["code"] == -signal.SIGKILL
        process.kill()
        until(lambda: not alive(second))


def test_on_a_full_disk_the_old_model_answers_on_and_the_new_one_is_taken_up_later(
    folder: Path, model: al.AUR, data: al.Split, attack: Any, tmp_path: Path
) -> None:
    place = tmp_path / "m"
    model.save(place)
    newer = attack.small_model(data, lam=0.2, seed=1)
    with started(place, "--quiet") as (address, process, log), Client(address) as client:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        newer.save(place)
        assert until(lambda: named(log, "model_refused"))[0]["serving"] == model.fingerprint
        assert client.ask("GET", "/model")["fingerprint"] == model.fingerprint
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        newer.save(place)
        until(lambda: client.ask("GET", "/model")["fingerprint"] == newer.fingerprint)


def test_a_log_that_cannot_be_written_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    full = Full()
    monkeypatch.setattr(sys, "stderr", full)
    logs.event("started")
    assert "started" in full.getvalue()


def metric(address: str, name: str) -> float:
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname, parts.port)) as made:
        made.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        text = b"".join(iter(lambda: made.recv(1 << 16), b"")).decode()
    return float(next(line for line in text.splitlines() if line.startswith(f"{name} ")).split()[1])


def test_a_new_model_is_taken_up_while_requests_come_and_a_damaged_one_is_not(
    folder: Path, model: al.AUR, data: al.Split, attack: Any, tmp_path: Path
) -> None:
    place = tmp_path / "m"
    model.save(place)
    newer = attack.small_model(data, lam=0.2, seed=1)
    models = {each.fingerprint: each for each in (model, newer)}
    seen: list[str] = []
    wrong: list[Any] = []
    done = threading.Event()
    user = model.fitted.users.ids.tolist()[5]
    body = {"users": [user], "k": 5}

    def ask_on() -> None:
        with Client(address) as client:
            while not done.is_set():
                try:
                    answer = client.ask("POST", "/recommend", body)
                except al.AleatorError as error:
                    wrong.append(error)
                    continue
                seen.append(answer["fingerprint"])
                told = attack.wrong(models[answer["fingerprint"]], "recommend", body, answer)
                if told is not None:
                    wrong.append(told)

    with started(place, "--quiet") as (address, _, log):
        clients = [threading.Thread(target=ask_on) for _ in range(3)]
        for client in clients:
            client.start()
        until(lambda: len(seen) > 20)
        newer.save(place)
        until(lambda: newer.fingerprint in seen)
        old = named(log, "worker")[0]["worker"]
        until(lambda: not alive(old))
        tensors = next(place.glob("*.safetensors"))
        tensors.write_bytes(tensors.read_bytes()[:-64] + b"\0" * 64)
        until(lambda: named(log, "model_refused"))
        count = len(seen)
        until(lambda: len(seen) > count + 20)
        done.set()
        for client in clients:
            client.join()
        assert metric(address, "aleator_model_failures_total") == 1
        assert metric(address, "aleator_model_loads_total") == 2
    assert wrong == []
    assert list(dict.fromkeys(seen)) == [model.fingerprint, newer.fingerprint]
    assert "damaged" in named(log, "model_refused")[0]["message"]


def test_sigterm_lets_a_request_finish_and_leaves_no_process(folder: Path, model: al.AUR) -> None:
    with started(folder, "--quiet", "--workers", "2") as (address, process, log):
        workers = [
            line["worker"] for line in until(lambda: named(log, "worker") if len(named(log, "worker")) == 2 else [])
        ]
        parts = urlsplit(address)
        body = json.dumps({"users": model.fitted.users.ids.tolist()[:50], "explain": 3}).encode()
        with socket.create_connection((parts.hostname, parts.port)) as made:
            head = (
                b"POST /recommend HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            )
            made.sendall(head % len(body) + body[:-1])
            until(lambda: metric(address, "aleator_worker_exits_total") == 0)  # the request has begun somewhere
            process.terminate()
            made.sendall(body[-1:])
            text = b"".join(iter(lambda: made.recv(1 << 16), b""))
        assert text.startswith(b"HTTP/1.1 200"), text[:300]
        process.wait(LONGEST)
        assert process.returncode == 0
        assert not any(map(alive, workers))


def test_the_evaluation_comes_when_it_is_done(folder: Path, data: al.Split, tmp_path: Path) -> None:
    for name in ("train", "valid", "test"):
        al.write(getattr(data, name), tmp_path / f"{name}.parquet")
    with serving(folder, "--data", str(tmp_path), "--quiet") as address, Client(address) as client:
        told = until(lambda: client.model()["evaluation"])
        expected = al.evaluate(al.load_model(folder, device="cpu"), data)
        assert told["protocols"]["overall"]["recall@20"] == pytest.approx(expected.mean("overall", "recall@20"))
        assert client.model()["has_test"]
