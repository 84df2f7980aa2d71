"""What bad input gets: a code, a reason and a sentence, and never what somebody else asked."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from aleator.serving import logs
from aleator.serving.app import Service, create_app
from aleator.serving.counters import Counters
from aleator.serving.served import Served
from aleator.serving.settings import Settings
from tests.serving.asking import JSON, Got, ask
from tests.serving.conftest import SETTINGS

USER = "user/3 <b>"
SMALL = replace(SETTINGS, explained=5, k=50, batch=3, history=10, points=30, body_bytes=2000)


def get(served: Served, *asked: Any, settings: Settings = SMALL, **more: Any) -> Got:
    limited = Served(served.model, served.name, settings)
    return asyncio.run(ask(create_app(Service(limited, settings, Counters(1))), *asked, **more))


@pytest.mark.parametrize(
    ("path", "body", "status", "reason"),
    [
        ("recommend", b"{", 400, "invalid_json"),
        ("recommend", b"", 422, "invalid"),
        ("recommend", b"[" * 1900, 400, "invalid_json"),
        ("recommend", b'{"users":[' + b"1," * 1000 + b"1]}", 413, "too_large"),
        ("recommend", b"\xff\xfe", 400, "invalid_json"),
        ("recommend", [1], 422, "invalid"),
        ("recommend", {}, 422, "invalid"),
        ("recommend", {"users": []}, 422, "invalid"),
        ("recommend", {"users": [USER], "histories": {"x": ["item 1 ☃"]}}, 422, "invalid"),
        ("recommend", {"users": [USER], "colour": 1}, 422, "invalid"),
        ("recommend", {"users": [None]}, 422, "invalid"),
        ("recommend", {"users": [True]}, 422, "invalid"),
        ("recommend", {"users": ["nobody"]}, 404, "unknown_user"),
        ("recommend", {"users": [3]}, 404, "unknown_user"),
        ("recommend", {"users": [USER] * 4}, 422, "over_limit"),
        ("recommend", {"users": [USER], "k": 0}, 422, "invalid"),
        ("recommend", {"users": [USER], "k": 10**9}, 422, "over_limit"),
        ("recommend", {"users": [USER], "k": 10**30}, 422, "invalid"),
        ("recommend", {"users": [USER], "k": 2.5}, 422, "invalid"),
        ("recommend", {"users": [USER], "k": True}, 422, "invalid"),
        ("recommend", {"users": [USER], "lam": 2}, 422, "invalid"),
        ("recommend", {"users": [USER], "lam": "1"}, 422, "invalid"),
        ("recommend", b'{"users": ["user/3 <b>"], "lam": NaN}', 422, "invalid"),
        ("recommend", b'{"users": ["\\ud800"]}', 404, "unknown_user"),
        ("recommend", b'{"histories": {"\\ud800": ["item 1 \\u2603"]}}', 422, "invalid"),
        ("score", b'{"users": ["user/3 <b>"], "items": ["\\ud800"]}', 404, "unknown_item"),
        ("recommend", {"users": [USER], "explain": 51}, 422, "over_limit"),
        ("recommend", {"users": [USER], "allow": ["item 1 ☃", "?"]}, 404, "unknown_item"),
        ("recommend", {"users": [USER], "deny": ["?"] * 11}, 422, "over_limit"),
        ("recommend", {"users": [USER], "where": {"colour": "red"}}, 422, "refused"),
        ("recommend", {"users": [USER], "where": {"genre": {"low": 1}}}, 422, "refused"),
        ("recommend", {"users": [USER], "where": {"genre": None}}, 422, "invalid"),
        ("recommend", {"histories": {"x": []}}, 422, "unknown_history"),
        ("recommend", {"histories": {"x": ["?", 5]}}, 422, "unknown_history"),
        ("recommend", {"histories": {"x": ["item 1 ☃"] * 11}}, 422, "over_limit"),
        ("score", {"users": [USER], "items": ["?"]}, 404, "unknown_item"),
        ("score", {"users": [USER], "items": []}, 422, "invalid"),
        ("similar", {"items": ["?"]}, 404, "unknown_item"),
        ("explain", {"user": USER, "history": [], "items": ["item 1 ☃"]}, 422, "invalid"),
        ("explain", {"history": [], "items": ["item 1 ☃"]}, 422, "unknown_history"),
        ("recommend", {"histories": {"x": ["item 1 ☃"] * 6}, "explain": 1}, 422, "over_limit"),
        ("explain", {"history": ["item 1 ☃"] * 6, "items": ["item 1 ☃"]}, 422, "over_limit"),
        ("map", {"user": USER, "limit": 31}, 422, "over_limit"),
        ("map", {"user": "nobody"}, 404, "unknown_user"),
    ],
)
def test_a_wrong_body(served: Served, path: str, body: Any, status: int, reason: str) -> None:
    got = get(served, "POST", f"/{path}", body)
    assert (got.status, got.reason) == (status, reason), got.body
    message = got.json["error"]["message"]
    assert message.endswith(".")
    assert "Traceback" not in message


@pytest.mark.parametrize(
    ("method", "path", "query", "status", "reason"),
    [
        ("GET", "/nothing", "", 404, "not_found"),
        ("GET", "/users/nobody", "", 404, "unknown_user"),
        ("GET", "/users/", "", 404, "unknown_user"),
        ("GET", "/users", "limit=0", 422, "invalid"),
        ("GET", "/items", "limit=201", 422, "invalid"),
        ("GET", "/items", f"query={'x' * 201}", 422, "invalid"),
        ("GET", "/page/../app.py", "", 404, "not_found"),
        ("GET", "/page//etc/passwd", "", 404, "not_found"),
        ("GET", "/recommend", "", 405, "wrong_method"),
        ("DELETE", "/model", "", 405, "wrong_method"),
        ("POST", "/model", "", 405, "wrong_method"),
    ],
)
def test_a_wrong_path(served: Served, method: str, path: str, query: str, status: int, reason: str) -> None:
    got = get(served, method, path, query=query)
    assert (got.status, got.reason) == (status, reason)


@pytest.mark.parametrize("kind", ["text/plain", "", "application/x-www-form-urlencoded", "application/jsonp"])
def test_a_body_that_is_not_declared_as_json(served: Served, kind: str) -> None:
    got = get(served, "POST", "/recommend", {"users": [USER]}, headers={"content-type": kind})
    assert (got.status, got.reason) == (415, "wrong_content_type")


def test_a_filter_that_no_item_passes_gives_an_empty_list(served: Served) -> None:
    got = get(served, "POST", "/recommend", {"users": [USER], "allow": []})
    assert got.json["lists"] == [{"user": USER, "unknown_items": 0, "items": []}]


def test_a_user_whose_id_has_a_slash_is_found(served: Served) -> None:
    assert get(served, "GET", f"/users/{USER}").json["user_id"] == USER


# Tokens


@pytest.mark.parametrize(
    ("given", "status", "reason"),
    [
        (None, 401, "no_token"),
        ("Basic right", 401, "no_token"),
        ("Bearer ", 401, "no_token"),
        ("Bearer wrong", 401, "wrong_token"),
        ("Bearer right, other", 401, "wrong_token"),
        ("Bearer right", 200, ""),
        ("bearer other", 200, ""),
    ],
)
def test_tokens(served: Served, given: str | None, status: int, reason: str) -> None:
    settings = replace(SMALL, tokens=("right", "other"))
    headers = JSON | ({} if given is None else {"authorization": given})
    got = get(served, "POST", "/recommend", {"users": [USER]}, headers=headers, settings=settings)
    assert got.status == status
    if status == 401:
        assert got.reason == reason
        assert got.headers["www-authenticate"] == "Bearer"


def test_what_needs_no_token_holds_nothing_of_the_model(served: Served) -> None:
    settings = replace(SMALL, tokens=("right",))
    open_to_all = [
        path
        for path in ("/health", "/ready", "/", "/page/index.html")
        if get(served, "GET", path, settings=settings).status == 200
    ]
    closed = [
        path
        for path in ("/model", "/metrics", "/users", "/items", "/openapi.json")
        if get(served, "GET", path, settings=settings).status == 401
    ]
    assert (len(open_to_all), len(closed)) == (4, 5)


# What goes out


def test_every_answer_has_headers_that_bind_a_browser(served: Served) -> None:
    answers = [get(served, "GET", path) for path in ("/", "/model", "/nothing", "/users?limit=0")]
    answers.append(get(served, "POST", "/recommend", b"{"))
    for got in answers:
        assert got.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
        assert got.headers["x-content-type-options"] == "nosniff"
        assert got.headers["referrer-policy"] == "no-referrer"


def test_titles_and_ids_stay_what_they_are_inside_json(served: Served) -> None:
    """An answer is JSON, and is declared as that: no browser reads it as a page."""
    got = get(served, "POST", "/recommend", {"users": [USER], "k": 1})
    assert got.headers["content-type"] == "application/json"
    assert got.json["lists"][0]["items"][0]["title"].startswith("<script>")


def test_the_log_has_neither_ids_nor_histories(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    settings = replace(SMALL, log_requests=True)
    get(served, "POST", "/recommend", {"histories": {"my name": ["item 1 ☃", "a secret"]}}, settings=settings)
    get(served, "GET", f"/users/{USER}", settings=settings)
    get(served, "GET", "/items", query="query=secret", settings=settings)
    get(served, "POST", "/recommend", {"users": ["secret"]}, settings=settings)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["route"], line["status"]) for line in lines] == [
        ("/recommend", 200),
        ("/users/{user}", 200),
        ("/items", 200),
        ("/recommend", 404),
    ]
    for word in ("secret", "item 1", "user/3", "my name"):
        assert word not in json.dumps(lines)


def test_a_bug_is_told_without_its_text(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*asked: Any) -> None:
        raise ZeroDivisionError("the history of somebody")

    monkeypatch.setattr(Served, "recommend", fails)
    got = get(served, "POST", "/recommend", {"users": [USER]})
    assert (got.status, got.reason) == (500, "bug")
    line = json.loads(capsys.readouterr().err.splitlines()[0])
    assert (line["event"], line["kind"], line["route"]) == ("bug", "ZeroDivisionError", "/recommend")
    assert any(place.startswith("test_bad_input.py") for place in line["places"])
    assert "somebody" not in json.dumps(line) + got.body.decode()


def test_what_uvicorn_logs_is_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    import logging

    logger = logging.getLogger("uvicorn.test")
    logs.take_over()
    logger.warning("it is %s", "late")
    try:
        raise ValueError("an id")
    except ValueError:
        logger.exception("failed")
    for handler in logging.getLogger("uvicorn").handlers[:]:
        logging.getLogger("uvicorn").removeHandler(handler)
    late, failed = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (late["event"], late["message"]) == ("server", "it is late")
    assert (failed["event"], failed["kind"]) == ("bug", "ValueError")


def test_counters_are_summed_over_processes() -> None:
    counters = Counters(3)
    for row in (1, 2):
        counters.take_row(row)
        counters.request("/recommend", 200, 0.004)
        counters.request("/recommend", 429, 2.0)
        counters.request("/made/up", 418, 0.1)
        counters.event("batch_users", 5)
    text = counters.text("abc").decode()
    assert 'aleator_requests_total{route="/recommend",status="200"} 2.0' in text
    assert 'aleator_requests_total{route="other",status="0"} 2.0' in text
    assert 'aleator_request_seconds_bucket{le="0.005",route="/recommend"} 2.0' in text
    assert 'aleator_request_seconds_sum{route="/recommend"} 4.008' in text
    assert "aleator_batch_users_total 10.0" in text
    assert 'aleator_model_info{fingerprint="abc"} 1.0' in text
