"""Client: the service from a Python program, with the standard library alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

from aleator.errors import AleatorError, require

Ids = Any  # a list of ids, an array, or a column of a frame
Users = Ids | Mapping[str, Ids]  # ids of known users, or histories of newcomers by name


class ServiceError(AleatorError):
    """The service refused a request.

    Attributes:
        status: The HTTP status.
        reason: What programs can match, such as "unknown_user".
        retry_after: Seconds to wait before the next try, if the service is busy.
    """

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None) -> None:
        problem, _, remedy = message.removesuffix(".").partition(". ")
        super().__init__(*(text[:1].lower() + text[1:] for text in (problem, remedy)))
        self.status, self.reason, self.retry_after = status, reason, retry_after


class Client:
    """One connection to a service. It is not for several threads at a time.

    Args:
        address: Such as http://127.0.0.1:8000.
        token: A token, if the service asks for one.
        seconds: How long to wait for an answer.

    Example:
        with Client("http://127.0.0.1:8000") as client:
            lists = client.recommend([17, 42], k=10)
    """

    def __init__(self, address: str, *, token: str | None = None, seconds: float = 30.0) -> None:
        parts = urlsplit(address)
        known = parts.scheme in ("http", "https") and bool(parts.hostname)
        require(known, f"'{address}' is no address of a service", "give one such as http://127.0.0.1:8000")
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._connection = kind(str(parts.hostname), parts.port, timeout=seconds)
        self._base = parts.path.rstrip("/")
        self._headers = {"Content-Type": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"

    def recommend(self, users: Users, k: int | None = None, **options: Any) -> list[dict[str, Any]]:
        """Lists for user ids, or for {name: [item ids]}. Options are those of the service: lam, allow, deny, where,
        filter_seen and explain."""
        asked = _of(users) | ({} if k is None else {"k": k}) | options
        found: list[dict[str, Any]] = self.ask("POST", "/recommend", asked)["lists"]
        return found

    def score(self, users: Users, items: Ids, lam: float | None = None) -> list[dict[str, Any]]:
        """Scores, expectations and uncertainties of items for users."""
        found: list[dict[str, Any]] = self.ask("POST", "/score", _of(users) | {"items": _plain(items), "lam": lam})[
            "users"
        ]
        return found

    def similar(self, items: Ids, k: int | None = None, lam: float | None = None) -> list[dict[str, Any]]:
        """Items that are similar to each of some items."""
        found: list[dict[str, Any]] = self.ask("POST", "/similar", {"items": _plain(items), "k": k, "lam": lam})[
            "lists"
        ]
        return found

    def explain(self, user: Any, items: Ids, n: int = 3, lam: float | None = None) -> list[dict[str, Any]]:
        """What the history of a user, an id or a list of items, adds to the scores of items."""
        who = {"history": _plain(user)} if isinstance(user, (list, tuple)) else {"user": user}
        found: list[dict[str, Any]] = self.ask("POST", "/explain", who | {"items": _plain(items), "n": n, "lam": lam})[
            "items"
        ]
        return found

    def model(self) -> dict[str, Any]:
        """What is served."""
        found: dict[str, Any] = self.ask("GET", "/model")
        return found

    def user(self, user: Any) -> dict[str, Any]:
        """What a user took."""
        found: dict[str, Any] = self.ask("GET", f"/users/{quote(str(user), safe='')}")
        return found

    def find_items(self, query: str, limit: int = 20) -> list[dict[str, Any]]:
        """Items by a part of their title or id."""
        asked = urlencode({"query": query, "limit": limit})
        found: list[dict[str, Any]] = self.ask("GET", f"/items?{asked}")["items"]
        return found

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer to any request, from JSON. A connection that was closed meanwhile is opened again."""
        sent = None if body is None else json.dumps(body)
        for last in (False, True):
            try:
                self._connection.request(method, self._base + path, sent, self._headers)
                answer = self._connection.getresponse()
                text = answer.read()
                break
            except (HTTPException, OSError) as error:
                self._connection.close()
                if last or isinstance(error, TimeoutError):
                    told = f"the service at {self._connection.host} does not answer ({error})"
                    raise AleatorError(told, "check that it runs, and its address") from None
        try:
            found = json.loads(text)
        except ValueError:
            raise AleatorError(f"{path} answered with no JSON", "check that this is a service of aleator") from None
        if answer.status >= 400:
            problem, wait = found["error"], answer.headers.get("Retry-After")
            raise ServiceError(
                answer.status, problem["reason"], problem["message"], None if wait is None else float(wait)
            )
        return found

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _of(users: Users) -> dict[str, Any]:
    """Users or histories of a request."""
    if isinstance(users, Mapping):
        return {"histories": {name: _plain(items) for name, items in users.items()}}
    return {"users": _plain(users)}


def _plain(ids: Any) -> list[Any]:
    """Ids of a list, an array or a column of a frame, as JSON takes them."""
    listed: list[Any] = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    return listed
