"""Connections: clients that are slow, or speak no HTTP; the client of the library; options that are wrong."""

from __future__ import annotations

import json
import select
import shutil
import socket
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import aleator as al
from aleator.cli.serve import VARIABLE
from aleator.cli.serve import _tokens as tokens_of
from aleator.serving import Client, ServiceError
from aleator.serving.served import Served
from tests.cli.conftest import Run
from tests.serving.conftest import SETTINGS, listening

LONGEST = 60

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


def test_more_connections_than_allowed_are_told_to_come_again(served: Served) -> None:
    with listening(served, replace(SETTINGS, connections=2)) as address:
        to = urlsplit(address)
        held = [socket.create_connection((to.hostname, to.port)) for _ in range(2)]
        for each in held:  # an answer says that the connection is counted
            each.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert each.recv(1 << 12).startswith(b"HTTP/1.1 200")
        answer = exchange(address)
        for each in held:
            each.close()
    assert answer.startswith(b"HTTP/1.1 429")
    assert b"retry-after" in answer


def test_a_client_that_reads_no_answer_is_let_go(served: Served) -> None:
    """The answer is larger than what fits between both ends."""
    item = served.data.items.ids.tolist()[0]
    body = json.dumps({"histories": {f"name {i}": [item] for i in range(256)}, "k": served.data.n_items}).encode()
    with listening(served, replace(SETTINGS, patience=0.3)) as address, socket.socket() as made:
        to = urlsplit(address)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.connect((to.hostname, to.port))
        made.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        cut_off = select.poll()
        cut_off.register(made, 0)
        ((_, happened),) = cut_off.poll(1000 * LONGEST)
    assert happened & (select.POLLHUP | select.POLLERR)


def test_requests_that_pile_up_on_a_connection_end_it(address: str) -> None:
    few, many = (b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * n for n in (10, 1000))
    last = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert exchange(address, few + last).count(b"HTTP/1.1 200") == 11
    assert b"bad_request" in exchange(address, many)


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


def test_tokens_come_from_a_file_or_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tokens").write_text("first-token\nsecond-token\n")
    assert tokens_of(tmp_path / "tokens") == ("first-token", "second-token")
    monkeypatch.setenv(VARIABLE, "third-token")
    assert tokens_of(None) == ("third-token",)
    monkeypatch.delenv(VARIABLE)
    assert tokens_of(None) == ()


def test_the_client_sends_its_token(served: Served) -> None:
    with listening(served, replace(SETTINGS, tokens=("a-token",))) as address:
        with Client(address, token="a-token") as client:
            assert client.model()["name"] == "shop"
        with pytest.raises(ServiceError, match="needs a token"), Client(address) as client:
            client.model()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--port", "99999999"), "port is 99999999"),
        (("--host", "no.such.host.invalid"), "cannot listen"),
        (("--workers", "0"), "workers is 0"),
        (("--max-k", "0"), "k is 0"),
        (("--token-file", "/nowhere"), "cannot be read"),
        (("--data", "nothing"), "neither a name in the catalogue nor a file"),
    ],
)
def test_a_wrong_option_is_an_error_before_anything_is_served(
    run: Run, folder: Path, options: tuple[str, ...], told: str
) -> None:
    ran = run("serve", folder, *options)
    assert ran.code == 2
    assert told in ran.err


def test_a_damaged_folder_is_not_served(run: Run, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "m")
    (tmp_path / "m" / "manifest.json").write_text("{}")
    ran = run("serve", tmp_path / "m", "--port", "0")
    assert (ran.code, "damaged" in ran.err) == (2, True)
