"""Attack the service: hostile requests, and faults while it answers. Every answer is compared with the library's.

    python tools/attack_service.py fuzz [--requests 10000]
    python tools/attack_service.py soak [--minutes 30] [--model FOLDER] [--workers 2]

fuzz     Random requests, right and wrong ones: bodies that are no JSON, values of wrong types and sizes, unknown ids,
         other methods, paths, headers and content types, bytes that are no HTTP. Each must get an answer below 500. An
         error must be one as the service describes it, and an answer must be that of the library.
soak     Mixed load while workers are killed, the model is replaced (also by a damaged one, and while no file can be
         written), clients send and read slowly or leave, and hostile requests come. Each answer must be that of the
         library, for the model whose fingerprint it has. It prints how many answers were compared, what failed after a
         fault, and the memory of all processes.

Both print what they counted, and end with 1 if anything came through. `--seed` gives other requests.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import socket
import string
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np

import aleator as al
from aleator.recommender import Recommender
from aleator.serving import serving

Body = dict[str, Any]
_REST = 2.0  # seconds without a request after which a client opens a new connection: the service closes it after 5
_CLOSE = (
    2e-4  # of scores and of what stands beside them, relative to their size: batches of other shapes round otherwise
)


def simulated(users: int = 200, items: int = 120, seed: int = 0) -> al.Split:
    """A split with texts as ids, titles and attributes."""
    plain = al.simulate(n_users=users, n_items=items, per_user=60, seed=seed).interactions
    data = al.Interactions.of([f"user/{u} <b>" for u in plain.user], [f"item {i} ☃" for i in plain.item])
    names = data.items.ids.tolist()
    data = data.with_titles({name: f"<script>{name}</script>" for name in names})
    genres = {"item": names, "genre": ["odd" if len(n) % 2 else "even" for n in names], "year": list(range(len(names)))}
    return data.with_attributes(genres).split(valid=0.1, test=0.2, seed=0)


def small_model(split: al.Split, lam: float = 0.6, seed: int = 0) -> al.AUR:
    """A model that is fitted in a moment."""
    model, estimator = al.MF(dim=8, l2=0.01, iterations=3), al.FactorEstimator(dim=16, max_epochs=3)
    made = al.AUR(model, estimator=estimator, lam=lam, seed=seed, residuals="in-sample", unobserved="constant")
    return made.fit(split)


# Right requests, and what the library answers


class Asker:
    """Random requests that a model can answer."""

    def __init__(self, model: Recommender, rng: random.Random) -> None:
        self.rng = rng
        data = model.fitted
        self.users, self.items = data.users.ids.tolist(), data.items.ids.tolist()
        self.attributes = sorted(data.attributes)
        self.has_lam = isinstance(model, al.AUR)

    def request(self) -> tuple[str, Body]:
        """A path and a body."""
        path = self.rng.choices(["recommend", "score", "explain", "similar"], [12, 3, 2, 1])[0]
        return path, getattr(self, path)()

    def recommend(self) -> Body:
        rng, n_items = self.rng, len(self.items)
        body = self.who(rng.choice([1, 1, 1, 2, 5]))
        if rng.random() < 0.7:
            body["k"] = rng.randint(1, min(n_items, 60))
        if rng.random() < 0.3:
            body["filter_seen"] = rng.random() < 0.5
        if rng.random() < 0.15:
            body["allow"] = self.some_items(rng.randint(1, 30))
        if rng.random() < 0.15:
            body["deny"] = self.some_items(rng.randint(0, 30))
        if self.attributes and rng.random() < 0.2:
            body["where"] = rng.choice(
                [{"genre": "odd"}, {"year": {"low": 10}}, {"genre": ["odd", "even"], "year": {"high": 90}}]
            )
        if rng.random() < 0.2:
            body["explain"] = rng.randint(1, 4)
        return body | self.lam()

    def score(self) -> Body:
        return self.who(self.rng.randint(1, 4)) | {"items": self.some_items(self.rng.randint(1, 9))} | self.lam()

    def similar(self) -> Body:
        return {"items": self.some_items(self.rng.randint(1, 3)), "k": self.rng.randint(1, 9)}

    def explain(self) -> Body:
        asked = self.who(1)
        one = {"user": asked["users"][0]} if "users" in asked else {"history": next(iter(asked["histories"].values()))}
        return one | {"items": self.some_items(self.rng.randint(1, 3)), "n": self.rng.randint(1, 4)} | self.lam()

    def who(self, n: int) -> Body:
        if self.rng.random() < 0.6:
            return {"users": self.rng.sample(self.users, n)}
        return {"histories": {f"name {i}": [*self.some_items(self.rng.randint(1, 12)), "unknown"] for i in range(n)}}

    def some_items(self, n: int) -> list[Any]:
        return self.rng.sample(self.items, min(n, len(self.items)))

    def lam(self) -> Body:
        return {"lam": self.rng.choice([0, 0.25, 0.6, 1.0])} if self.has_lam and self.rng.random() < 0.5 else {}


def wrong(model: Recommender, path: str, body: Body, answer: Any) -> str | None:
    """What is wrong with an answer, by the library. None if nothing is."""
    if "fingerprint" not in answer:
        return f"{path} was refused: {answer}"
    return _CHECKS[path](model, body, answer)


def _who(body: Body) -> Any:
    if "histories" in body:
        return body["histories"]
    if "history" in body:
        return {"": body["history"]}
    return body["users"] if "users" in body else [body["user"]]


def _options(body: Body, *names: str) -> dict[str, Any]:
    return {name: body[name] for name in names if name in body}


def wrong_lists(model: Recommender, body: Body, answer: Any) -> str | None:
    """Compare lists: the same items in the same order, but for items whose scores are equal up to rounding."""
    options = _options(body, "lam", "allow", "deny", "filter_seen", "explain")
    if "where" in body:
        options["where"] = {
            n: (v.get("low"), v.get("high")) if isinstance(v, Mapping) else v for n, v in body["where"].items()
        }
    k = body.get("k", min(20, model.fitted.n_items))
    rows = model.recommend(_who(body), k, **options).to_dicts()
    names = list(_who(body))
    if [each["user"] for each in answer["lists"]] != names:
        return "the lists are of other users"
    scores = model.score(_who(body)) if "lam" not in body else model.at(body["lam"]).score(_who(body))
    place = {id: i for i, id in enumerate(model.fitted.items.ids.tolist())}
    for row, each in enumerate(answer["lists"]):
        wanted = [line for line in rows if line["user_id"] == each["user"]]
        found = each["items"]
        if len(wanted) != len(found) or len({item["item_id"] for item in found}) != len(found):
            return f"a list has {len(found)} items and not {len(wanted)}"
        for right, item in zip(wanted, found, strict=True):
            if not _near(right["score"], item["score"]) or right["rank"] != item["rank"]:
                return f"the score {item['score']} is not {right['score']}"
            if right["item_id"] != item["item_id"]:
                if not _near(float(scores[row, place[item["item_id"]]]), right["score"]):
                    return f"{item['item_id']!r} is listed and not {right['item_id']!r}"
                continue
            for name, value in right.items():
                if name not in ("user_id", "score") and not _same(value, item[name]):
                    return f"{name} is {item[name]!r} and not {value!r}"
    return None


def wrong_scores(model: Recommender, body: Body, answer: Any) -> str | None:
    """Compare scores and both parts."""
    of = model.at(body["lam"]) if "lam" in body else model
    who, items = _who(body), body["items"]
    tables = {"scores": of.score(who, items)}
    if isinstance(of, al.AUR):
        tables |= {"expectations": of.expectation(who, items), "uncertainties": of.uncertainty(who, items)}
    for name, table in tables.items():
        found = np.array([each[name] for each in answer["users"]])
        if not np.allclose(table.numpy(), found, rtol=_CLOSE, atol=_CLOSE):
            return f"{name} differ"
    return None


def wrong_similar(model: Recommender, body: Body, answer: Any) -> str | None:
    """Compare similar items."""
    rows = model.similar_items(body["items"], body["k"]).to_dicts()
    for each in answer["lists"]:
        wanted = [line["similarity"] for line in rows if line["item_id"] == each["item_id"]]
        found = [item["similarity"] for item in each["items"]]
        if len(wanted) != len(found) or not np.allclose(wanted, found, rtol=1e-3, atol=1e-3):
            return f"the items similar to {each['item_id']!r} differ"
    return None


def wrong_reasons(model: Recommender, body: Body, answer: Any) -> str | None:
    """Compare contributions."""
    rows = model.explain(_who(body), body["items"], body["n"], **_options(body, "lam")).to_dicts()
    for each in answer["items"]:
        wanted = [line["adds_to_score"] for line in rows if line["item_id"] == each["item_id"]]
        found = [line["adds_to_score"] for line in each["contributions"]]
        if len(wanted) != len(found) or not np.allclose(wanted, found, rtol=1e-3, atol=1e-3):
            return f"the contributions to {each['item_id']!r} differ"
    return None


_CHECKS: dict[str, Callable[[Recommender, Body, Any], str | None]] = {
    "recommend": wrong_lists,
    "score": wrong_scores,
    "similar": wrong_similar,
    "explain": wrong_reasons,
}


def _near(a: float, b: float) -> bool:
    return abs(a - b) <= _CLOSE * max(abs(a), abs(b), 1)


def _same(right: Any, found: Any) -> bool:
    """Whether a value is that of the library. NaN is null in JSON."""
    if isinstance(right, float):
        return (found is None) if right != right else _near(right, found)
    return bool(right == found)


# Hostile requests

_STRANGE = [
    "",
    "\0",
    "🜁" * 50,
    "../../etc/passwd",
    "<script>alert(1)</script>",
    "%00",
    "a" * 5000,
    "\u202e",
    "' OR 1=1",
    "\udc80",
]
_NUMBERS = [0, -1, 1, 10**9, 10**18, 10**40, -(10**400), 1.5, 1e308, -0.0, float("nan"), float("inf")]
_PATHS = ["recommend", "score", "similar", "explain", "map"]
_GETS = ["health", "ready", "metrics", "model", "users", "items", "users/x", "", "page/index.html", "openapi.json"]


class Hostile:
    """Random requests that may be wrong in any way."""

    def __init__(self, asker: Asker, rng: random.Random) -> None:
        self.asker, self.rng = asker, rng

    def value(self, depth: int = 0) -> Any:
        """Any value of JSON, and some that are none."""
        rng = self.rng
        kinds: list[Callable[[], Any]] = [
            lambda: rng.choice(_NUMBERS),
            lambda: rng.choice(_STRANGE),
            lambda: rng.choice([None, True, False]),
            lambda: rng.choice(self.asker.users),
            lambda: rng.choice(self.asker.items),
        ]
        if depth < 3:
            kinds += [
                lambda: [self.value(depth + 1) for _ in range(rng.choice([0, 1, 3, 300]))],
                lambda: {str(self.value(3))[:300]: self.value(depth + 1) for _ in range(rng.choice([0, 1, 3]))},
            ]
        return rng.choice(kinds)()

    def body(self) -> bytes:
        """The bytes of a body."""
        rng = self.rng
        _, body = self.asker.request()
        for _ in range(rng.randint(1, 3)):  # a right one, with a few values that are not
            body[rng.choice([*body, "k", "lam", "users", "where", "histories", "nonsense", "limit", "user"])] = (
                self.value()
            )
        text = json.dumps(body).encode(errors="replace")
        how = rng.random()
        if how < 0.6:
            return text
        if how < 0.7:
            return text[: rng.randrange(len(text))]
        if how < 0.8:
            place = rng.randrange(len(text))
            return text[:place] + bytes([rng.randrange(256)]) + text[place + 1 :]
        if how < 0.85:
            return b"[" * rng.choice([10, 1000, 100_000])
        if how < 0.9:
            return rng.randbytes(rng.choice([0, 1, 100]))
        if how < 0.92:
            return b'{"users":[' + b"1," * rng.choice([10, 100_000]) + b"1]}"
        if how < 0.93:
            return b'{"histories":{"x":[' + b"1," * 1_000_000 + b"1]}}"
        return json.dumps(self.value()).encode(errors="replace")

    def request(self) -> tuple[str, str, bytes | None, dict[str, str]]:
        """A method, a path, a body and headers."""
        rng = self.rng
        method = rng.choices(["POST", "GET", "PUT", "HEAD", "OPTIONS", "DELETE", "BREW"], [60, 20, 2, 3, 2, 2, 1])[0]
        path = rng.choice(_PATHS if method == "POST" or rng.random() < 0.1 else _GETS)
        if rng.random() < 0.3 and method != "POST":
            strange = quote(rng.choice(_STRANGE).encode(errors="replace"))
            path = rng.choice(
                [f"{path}?query={strange}", f"users/{strange}", f"page/{strange}", f"{path}/{strange}", strange]
            )
            path += rng.choice(["", "&limit=0", "&limit=x", "?limit=99999999999999999999", "&limit=5&limit=7"])
        kinds = ["application/json"] * 9 + ["text/plain", "", "application/json; charset=utf-7", "multipart/form-data"]
        headers = {"Content-Type": rng.choice(kinds)}
        if rng.random() < 0.03:
            headers["X-Long"] = "x" * rng.choice([100, 20_000, 60_000])
        if rng.random() < 0.03:
            headers["Authorization"] = rng.choice(["Bearer x", "Basic eDp5", "\xff"])
        body = self.body() if method in ("POST", "PUT") or rng.random() < 0.05 else None
        return method, f"/{path}", body, headers

    def bytes(self) -> bytes:
        """Bytes that are hardly HTTP."""
        rng = self.rng
        text = "".join(rng.choices(string.printable, k=rng.randint(0, 60)))
        return rng.choice(
            [
                rng.randbytes(rng.randint(1, 200)),
                f"GET /{text} HTTP/1.1\r\n\r\n".encode(),
                b"GET / HTTP/9.9\r\n\r\n",
                f"POST /recommend HTTP/1.1\r\nContent-Length: {text[:5]}\r\n\r\n".encode(),
                b"POST /recommend HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                b"POST /map HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n",
                b"GET /\xff\xfe HTTP/1.1\r\n\r\n",
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                b"GET /health HTTP/1.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
                b"GET http://elsewhere/health HTTP/1.1\r\nHost: x\r\n\r\n",
                b"GET /health HTTP/1.1\r\n" * 3,
                b"CONNECT x:1 HTTP/1.1\r\n\r\n",
                b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
            ]
        )


@dataclass
class Counted:
    """What an attack counted."""

    statuses: Counter[int] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    compared: int = 0

    def show(self) -> None:
        print("statuses: " + ", ".join(f"{status} {n:,}" for status, n in sorted(self.statuses.items())))
        print("reasons: " + ", ".join(f"{reason} {n:,}" for reason, n in self.reasons.most_common()))
        print(f"answers compared with the library: {self.compared:,}")
        for told, n in self.wrong.most_common(20):
            print(f"CAME THROUGH {n:,}: {told}")


def raw(address: str, sent: bytes) -> bytes:
    """What comes back for some bytes."""
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as made:
        try:
            made.sendall(sent)
            made.shutdown(socket.SHUT_WR)
            found = b""
            while part := made.recv(1 << 16):
                found += part
        except ConnectionError:
            return b""
        return found


def _error_is_known(status: int, text: bytes, counted: Counted) -> str | None:
    """What is wrong with an error."""
    try:
        problem = json.loads(text)["error"]
        counted.reasons[problem["reason"]] += 1
        whole = isinstance(problem["message"], str) and set(problem) == {"reason", "message"}
    except (ValueError, KeyError, TypeError):
        whole = False
    if not whole:
        return f"an error {status} is not as described: {text[:200]!r}"
    return f"traceback in {text[:200]!r}" if b"Traceback" in text else None


def fuzz(address: str, model: Recommender, requests: int, seed: int) -> Counted:
    """Send random requests, and look at every answer."""
    rng, counted = random.Random(seed), Counted()
    asker = Asker(model, rng)
    hostile = Hostile(asker, rng)
    parts = urlsplit(address)
    connection = HTTPConnection(str(parts.hostname), parts.port, timeout=60)
    for number in range(requests):
        kind = rng.random()
        if kind < 0.04:
            found = raw(address, hostile.bytes())
            if found:
                counted.statuses[int(found.split(b" ", 2)[1])] += 1
            continue
        right = kind < 0.2
        method, path, sent, headers = hostile.request()
        if right:
            path, body = asker.request()
            method, sent, headers = "POST", json.dumps(body).encode(), {"Content-Type": "application/json"}
            path = f"/{path}"
        try:
            connection.request(method, path, sent, headers)
            answer = connection.getresponse()
            text, status = answer.read(), answer.status
        except (HTTPException, OSError, UnicodeError) as error:
            connection.close()
            connection = HTTPConnection(str(parts.hostname), parts.port, timeout=60)
            counted.reasons[f"connection closed ({type(error).__name__})"] += 1
            continue
        counted.statuses[status] += 1
        told = None
        if status >= 500:
            told = f"{status} for {method} {path[:100]} {(sent or b'')[:300]!r}: {text[:200]!r}"
        elif status >= 400 and method != "HEAD":
            told = _error_is_known(status, text, counted)
        elif status == 200 and right:
            told = wrong(model, path[1:], body, json.loads(text))
            counted.compared += 1
        if right and status != 200 and told is None:
            told = f"a right request got {status}: {body} {text!r}"
        if told is not None:
            counted.wrong[f"request {number}: {told}"] += 1
    connection.close()
    return counted


# A soak: mixed load, with faults


@dataclass
class Soak:
    """A service under mixed load, and what is known of it."""

    address: str
    pid: int
    folder: Path
    models: dict[str, Recommender]
    counted: Counted = field(default_factory=Counted)
    late: Counter[str] = field(default_factory=Counter)  # what failed a second and more after a fault
    soon: Counter[str] = field(default_factory=Counter)  # and within a second of one
    faults: Counter[str] = field(default_factory=Counter)
    fault_at: float = 0.0
    done: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    milliseconds: list[float] = field(default_factory=list)

    def connection(self) -> HTTPConnection:
        parts = urlsplit(self.address)
        return HTTPConnection(str(parts.hostname), parts.port, timeout=60)

    def fails(self, what: str, sent_at: float) -> None:
        """A request failed, which only a fault of the last second explains."""
        with self.lock:
            near = sent_at - 1 < self.fault_at < time.monotonic()
            (self.soon if near else self.late)[what] += 1

    def ask_on(self, seed: int) -> None:
        """Send right requests, one after the other. Every tenth answer is compared: the library takes as long."""
        rng = random.Random(seed)
        asker = Asker(next(iter(self.models.values())), rng)
        connection = self.connection()
        while not self.done.is_set():
            path, body = asker.request()
            start = time.monotonic()
            try:
                connection.request("POST", f"/{path}", json.dumps(body), {"Content-Type": "application/json"})
                answer = connection.getresponse()
                text, status = answer.read(), answer.status
            except (HTTPException, OSError) as error:
                connection.close()
                self.fails(type(error).__name__, start)
                continue
            with self.lock:
                self.counted.statuses[status] += 1
                self.milliseconds.append(1000 * (time.monotonic() - start))
            answered = time.monotonic()
            if status == 200:
                self.compare(path, body, json.loads(text), rng)
            elif status != 429:
                self.fails(f"{status} {text[:200]!r}", start)
            if time.monotonic() - answered > _REST:
                connection.close()

    def compare(self, path: str, body: Body, answer: Any, rng: random.Random) -> None:
        model = self.models.get(answer["fingerprint"])
        if model is None:
            told: str | None = "an answer has the fingerprint of no model"
        elif rng.random() < 0.1:
            told = wrong(model, path, body, answer)
            self.counted.compared += 1
        else:
            told = None
        if told is not None:
            with self.lock:
                self.counted.wrong[told] += 1

    def molest(self, seed: int) -> None:
        """Send hostile requests and bytes."""
        rng = random.Random(seed)
        hostile = Hostile(Asker(next(iter(self.models.values())), rng), rng)
        while not self.done.wait(0.05):
            start = time.monotonic()
            try:
                if rng.random() < 0.2:
                    raw(self.address, hostile.bytes())
                    continue
                connection = self.connection()
                method, path, sent, headers = hostile.request()
                connection.request(method, path, sent, headers)
                answer = connection.getresponse()
                text, status = answer.read(), answer.status
                connection.close()
            except (HTTPException, OSError, UnicodeError):
                continue  # who sends nonsense may be cut off
            with self.lock:
                self.counted.statuses[status] += 1
            if status >= 500:
                self.fails(f"{status} {method} {path[:80]} {text[:200]!r}", start)

    def dawdle(self, seed: int) -> None:
        """Open connections that send slowly, read nothing, or leave in the middle."""
        rng = random.Random(seed)
        parts = urlsplit(self.address)
        held: list[socket.socket] = []
        while not self.done.wait(0.1):
            try:
                made = socket.create_connection((parts.hostname, parts.port), timeout=5)
                made.sendall(
                    b"POST /recommend HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{"
                )
                held.append(made)
            except OSError:
                pass
            if len(held) > 40:
                held.pop(rng.randrange(len(held))).close()
        for made in held:
            made.close()

    def fault(self, name: str, act: Callable[[], None]) -> None:
        with self.lock:
            self.faults[name] += 1
            self.fault_at = time.monotonic()
        act()

    def workers(self) -> list[int]:
        """The processes of the service."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [int(pid) for pid in children]

    def kill_a_worker(self) -> None:
        for pid in self.workers()[:1]:
            os.kill(pid, signal.SIGKILL)

    def replace(self, rng: random.Random) -> None:
        rng.choice(list(self.models.values())).save(self.folder)

    def damage(self) -> None:
        """Write into the file of tensors, in place, and into a manifest."""
        for file in self.folder.glob("*.safetensors"):
            whole = file.read_bytes()
            file.write_bytes(whole[: len(whole) // 2])

    def fill_disk(self, rng: random.Random) -> None:
        """Let no process of the service write a file, as on a full disk, while the model is replaced."""
        self.limit_files(0)
        self.replace(rng)

    def free_disk(self, rng: random.Random) -> None:
        self.limit_files(resource.RLIM_INFINITY)
        self.replace(rng)

    def limit_files(self, size: int) -> None:
        for pid in [self.pid, *self.workers()]:
            with suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def megabytes(self) -> float:
        """Memory of all processes of the service, what they share counted once, without mapped files.

        Pages of files, such as PyTorch's code, count for less while other programs of the machine use them too.
        """
        total = 0.0
        for pid in [self.pid, *self.workers()]:
            try:
                text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            except (OSError, ProcessLookupError):
                continue
            total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss_Anon:")) / 1024
        return total


def soak(minutes: float, model: Path | None, workers: int, seed: int) -> int:
    """Answer for some minutes while everything goes wrong."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        folder, copies = Path(place) / "served", []
        if model is None:
            split = simulated()
            for number, lam in enumerate((0.6, 0.3)):
                small_model(split, lam, number).save(Path(place) / f"{number}")
                copies.append(al.load_model(Path(place) / f"{number}", device="cpu"))
        else:
            given = al.load_model(model, device="cpu")
            copies = [given]
        copies[0].save(folder)
        models = {each.fingerprint: each for each in copies}
        with service_of(folder, workers) as (address, pid):
            run = Soak(address, pid, folder, models)
            jobs = [(run.ask_on, 4), (run.molest, 1), (run.dawdle, 1)]
            threads = [
                threading.Thread(target=job, args=(seed + 100 * which + n,))
                for which, (job, count) in enumerate(jobs)
                for n in range(count)
            ]
            for thread in threads:
                thread.start()
            memory = faults(run, minutes, rng)
            run.done.set()
            for thread in threads:
                thread.join()
        run.counted.show()
        print(f"faults: {dict(run.faults)}")
        print(f"failed within a second of a fault: {dict(run.soon)}")
        print(f"FAILED LATER: {dict(run.late)}" if run.late else "failed later: none")
        print(
            f"milliseconds: p50 {np.percentile(run.milliseconds, 50):.1f}, p99 {np.percentile(run.milliseconds, 99):.1f}"
        )
        tenth = max(len(memory) // 10, 1)
        first, last = np.median(memory[:tenth]), np.median(memory[-tenth:])
        print(f"memory (Pss_Anon, MB): first tenth {first:.0f}, last tenth {last:.0f}, highest {max(memory):.0f}")
        return int(bool(run.late or run.counted.wrong))


def faults(run: Soak, minutes: float, rng: random.Random) -> list[float]:
    """Do harm every few seconds. Returns the memory over time."""
    end, memory = time.monotonic() + 60 * minutes, []
    while time.monotonic() < end:
        time.sleep(5)
        memory.append(run.megabytes())
        name = rng.choice(["kill", "replace", "damage", "full disk", "nothing"])
        if name == "kill":
            run.fault(name, run.kill_a_worker)
        elif name == "replace":
            run.fault(name, lambda: run.replace(rng))
        elif name == "damage":
            run.fault(name, run.damage)
            time.sleep(5)
            run.fault("repair", lambda: run.replace(rng))
        elif name == "full disk":
            run.fault(name, lambda: run.fill_disk(rng))
            time.sleep(5)
            run.fault("repair", lambda: run.free_disk(rng))
    return memory


@contextmanager
def service_of(folder: Path, workers: int) -> Iterator[tuple[str, int]]:
    """A service, with the id of its process."""
    before = set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
    with serving(folder, "--workers", str(workers), "--quiet", "--patience", "3") as address:
        (pid,) = set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()) - before
        yield address, int(pid)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    fuzzing, soaking = commands.add_parser("fuzz"), commands.add_parser("soak")
    fuzzing.add_argument("--requests", type=int, default=10_000)
    soaking.add_argument("--minutes", type=float, default=30)
    soaking.add_argument("--model", type=Path, help="folder of a model; by default two small ones take turns")
    soaking.add_argument("--workers", type=int, default=2)
    for command in (fuzzing, soaking):
        command.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.command == "soak":
        return soak(args.minutes, args.model, args.workers, args.seed)
    with tempfile.TemporaryDirectory() as place:
        small_model(simulated()).save(place)
        with serving(place, "--quiet", "--patience", "2") as address:
            counted = fuzz(address, al.load_model(place, device="cpu"), args.requests, args.seed)
    counted.show()
    return int(bool(counted.wrong))


if __name__ == "__main__":
    sys.exit(main())
