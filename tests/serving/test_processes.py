"""The service as processes: workers that die, models that are replaced, clients that are slow, and the end."""

from __future__ import annotations

import json
import os
import shutil
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
from aleator.serving import Client, ServiceError, serving

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


def test_a_worker_that_is_killed_is_replaced(folder: Path) -> None:
    with started(folder, "--quiet") as (address, _, log):
        (first,) = until(lambda: named(log, "worker"))
        os.kill(first["worker"], signal.SIGKILL)
        until(lambda: len(named(log, "worker")) == 2)
        with Client(address) as client:
            assert client.ask("GET", "/ready")["status"] == "ready"
            text = metric(address, "aleator_worker_exits_total")
        assert text == 1
        assert named(log, "worker_exit")[0]["code"] == -signal.SIGKILL


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


def test_workers_end_with_their_supervisor(folder: Path) -> None:
    with started(folder, "--quiet") as (_, process, log):
        (worker,) = until(lambda: named(log, "worker"))
        process.kill()
        until(lambda: not alive(worker["worker"]))


def test_the_evaluation_comes_when_it_is_done(folder: Path, data: al.Split, tmp_path: Path) -> None:
    for name in ("train", "valid", "test"):
        al.write(getattr(data, name), tmp_path / f"{name}.parquet")
    with serving(folder, "--data", str(tmp_path), "--quiet") as address, Client(address) as client:
        told = until(lambda: client.model()["evaluation"])
        expected = al.evaluate(al.load_model(folder, device="cpu"), data)
        assert told["protocols"]["overall"]["recall@20"] == pytest.approx(expected.mean("overall", "recall@20"))
        assert client.model()["has_test"]


# Clients that are slow, or speak no HTTP


def exchange(address: str, *parts: bytes) -> bytes:
    """Send some bytes and read until the service closes the connection."""
    to = urlsplit(address)
    with socket.create_connection((to.hostname, to.port), timeout=LONGEST) as made:
        for part in parts:
            made.sendall(part)
        return b"".join(iter(lambda: made.recv(1 << 16), b""))


HEAD = b"POST /recommend HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("sent", "status", "reason"),
    [
        (b"", 408, b"too_slow"),
        (b"GET /health HTTP/1.1\r\nHost: ", 408, b"too_slow"),
        (HEAD + b"Content-Length: 100\r\n\r\n{", 408, b"too_slow"),
        (b"GET /health HTTP/1.1\r\nX: " + b"x" * 70_000, 431, b"head_too_large"),
        (b"this is no HTTP\r\n\r\n", 400, b"bad_request"),
        (HEAD + b"Content-Length: 10000000000\r\n\r\n", 413, b"too_large"),
        (HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n", 400, b"bad_request"),
    ],
)
def test_a_client_that_is_slow_or_wrong_is_told_and_let_go(
    address: str, sent: bytes, status: int, reason: bytes
) -> None:
    answer = exchange(address, sent)
    assert answer.startswith(b"HTTP/1.1 %d" % status), answer[:300]
    assert b'"reason":"%s"' % reason in answer
    assert b"content-security-policy" in answer


def test_a_large_body_gets_its_answer_although_it_is_not_kept(address: str) -> None:
    body = b'{"users": [' + b"1," * 1_000_000 + b"1]}"
    answer = exchange(address, HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert answer.startswith(b"HTTP/1.1 413")


def test_more_connections_than_allowed_are_told_to_come_again(folder: Path, tmp_path: Path) -> None:
    program = f"""
import socket, sys
from pathlib import Path
from aleator.serving import Settings
from aleator.serving.serve import serve
serve(Path({str(folder)!r}), Settings(connections=2, log_requests=False), port=0, told=lambda a: print(a, flush=True))
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        to = urlsplit(address)
        held = [socket.create_connection((to.hostname, to.port)) for _ in range(2)]
        for each in held:  # an answer says that the connection is counted
            each.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert each.recv(1 << 12).startswith(b"HTTP/1.1 200")
        answer = exchange(address, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 429")
        assert b"retry-after" in answer
        for each in held:
            each.close()
    finally:
        process.terminate()
        process.wait(LONGEST)
        if process.stdout is not None:
            process.stdout.close()


# The client, and the command


def test_the_client_gives_what_the_service_answers(address: str, model: al.AUR) -> None:
    user = model.fitted.users.ids.tolist()[0]
    items = model.fitted.items.ids[:3]
    with Client(address) as client:
        (listed,) = client.recommend([user], k=4, lam=0.3)
        assert [item["item_id"] for item in listed["items"]] == model.recommend([user], 4, lam=0.3)["item_id"].to_list()
        (new,) = client.recommend({"me": items})
        assert new["user"] == "me"
        (scores,) = client.score([user], items)
        assert scores["scores"] == pytest.approx(model.score([user], items.tolist())[0].tolist(), abs=1e-4)
        assert len(client.similar(items, k=2)) == 3
        assert [each["item_id"] for each in client.explain(user, items)] == items.tolist()
        assert client.explain(items.tolist(), items)[0]["contributions"]
        assert client.user(user)["user_id"] == user
        assert client.find_items("item 7 ")[0]["item_id"] == "item 7 ☃"
        assert client.model()["name"] == "shop"
        with pytest.raises(ServiceError) as refused:
            client.recommend(["nobody"])
    error = refused.value
    assert (error.status, error.reason, error.retry_after) == (404, "unknown_user", None)
    assert str(error).startswith("the user 'nobody' is not known to this model; give a user of the training data, ")


def test_the_client_says_when_nobody_answers() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(al.AleatorError, match="does not answer"), Client(f"http://127.0.0.1:{port}") as client:
        client.model()
    with pytest.raises(al.AleatorError, match="no address"):
        Client("127.0.0.1:8000")


def test_tokens_come_from_a_file(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("first-token\nsecond-token\n")
    with serving(folder, "--token-file", str(tmp_path / "tokens"), "--quiet") as address:
        with Client(address, token="second-token") as client:
            assert client.model()["name"] == "shop"
        with pytest.raises(ServiceError, match="needs a token"), Client(address) as client:
            client.model()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--port", "99999999"), "cannot listen"),
        (("--workers", "0"), "workers is 0"),
        (("--max-k", "0"), "k is 0"),
        (("--token-file", "/nowhere"), "cannot be read"),
        (("--data", "nothing"), "neither a name in the catalogue nor a file"),
    ],
)
def test_a_wrong_option_is_an_error_before_anything_is_served(
    folder: Path, options: tuple[str, ...], told: str
) -> None:
    with pytest.raises(al.AleatorError, match=told), serving(folder, *options):
        pass


def test_a_damaged_folder_is_not_served(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "m")
    (tmp_path / "m" / "manifest.json").write_text("{}")
    with pytest.raises(al.AleatorError, match="damaged"), serving(tmp_path / "m"):
        pass
