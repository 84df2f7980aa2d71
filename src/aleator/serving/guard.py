"""Guard: what every request passes on its way in, and every answer on its way out.

In: the token, the type and the size of the body, and the time that its client takes to send it. Out: headers that keep a
browser from doing anything else with an answer, a line in the log and the counters. No exception passes it.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from pydantic_core import to_json

from aleator.serving import logs
from aleator.serving.counters import Counters
from aleator.serving.errors import REASONS, Refused
from aleator.serving.settings import Settings

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
_DROPPED = 16  # times the limit of a body are read and dropped before the connection is closed
_TAKE_JSON = ("/recommend", "/score", "/similar", "/explain", "/map")
_OPEN = ("/health", "/ready", "/", "/page/")  # without a token: they hold nothing of the model


class Guard:
    """The outermost layer of the service."""

    def __init__(self, app: App, settings: Settings, counters: Counters, leaving: Callable[[], bool]) -> None:
        self.app, self.settings, self.counters = app, settings, counters
        self.tokens = [token.encode() for token in settings.tokens]
        self.leaving = leaving  # whether each connection is closed after its next answer

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *HEADERS]
                if self.leaving():
                    message["headers"].append((b"connection", b"close"))
            await send(message)

        try:
            self._admit(scope)
            body = await self._body(scope, receive)
            await self.app(scope, _replay(body, receive), answer)
        except Refused as refused:
            await refuse(refused, answer)
        except _Left:
            pass
        except Exception as error:
            logs.bug(error, route=route_of(scope))
            if not status:
                await refuse(bug(), answer)
        finally:
            self._count(scope, status, time.perf_counter() - start)

    def _admit(self, scope: Message) -> None:
        """Refuse whoever has no token, and a body that is no JSON."""
        path = scope["path"]
        headers = dict(scope["headers"])
        open_to_all = path in _OPEN or path.startswith("/page/")
        if self.tokens and not open_to_all:
            scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not given:
                raise Refused("no_token", "This service needs a token", "Send it as Authorization: Bearer TOKEN")
            right = [hmac.compare_digest(given.strip(), token) for token in self.tokens]  # all, to take equally long
            if not any(right):
                raise Refused("wrong_token", "The token is not one of this service", "Ask who runs it for one")
        if scope["method"] == "POST" and path in _TAKE_JSON:
            kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
            if kind != b"application/json":
                told = "The body is not declared as JSON"
                raise Refused("wrong_content_type", told, "Send it with Content-Type: application/json")

    async def _body(self, scope: Message, receive: Receive) -> bytes:
        """The whole body, within its limits of size and time."""
        most = self.settings.body_bytes
        large = Refused("too_large", f"A request may have {most:,} bytes", "Ask for less at a time")
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if len(declared) > 18 or int(declared) > _DROPPED * most:
            raise large
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.settings.patience):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _Left
                    size += len(message.get("body", b""))
                    if size <= most:
                        parts.append(message.get("body", b""))
                    last = not message.get("more_body", False)
                    # a client reads no answer while it sends: what is too large is dropped as it comes
                    if size > _DROPPED * most or (last and size > most):
                        raise large
                    if last:
                        return b"".join(parts)
        except TimeoutError:
            told = f"The request did not arrive within {self.settings.patience:g} seconds"
            raise Refused("too_slow", told, "Send it at once") from None

    def _count(self, scope: Message, status: int, seconds: float) -> None:
        route = route_of(scope)
        self.counters.request(route, status, seconds)
        if self.settings.log_requests:
            logs.event("request", method=scope["method"], route=route, status=status, ms=round(1000 * seconds, 2))


class _Left(Exception):
    """The client has gone."""


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives a body that was read already."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def route_of(scope: Message) -> str:
    """The route of a request as it is declared: the path itself may hold an id."""
    route = getattr(scope.get("route"), "path", "other")
    return str(route).replace(":path", "")


def bug() -> Refused:
    """What a client is told after an exception that nobody expected."""
    return Refused("bug", "The service failed on this request", "This is a bug: the log has its place")


async def refuse(refused: Refused, send: Send) -> None:
    """Answer with an error."""
    body = to_json(refused.body())
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if refused.reason in ("too_large", "too_slow"):
        headers.append((b"connection", b"close"))  # what it still sends is not read
    headers += extra_headers(refused)
    await send({"type": "http.response.start", "status": REASONS[refused.reason], "headers": headers})
    await send({"type": "http.response.body", "body": body})


def extra_headers(refused: Refused) -> list[tuple[bytes, bytes]]:
    """Headers that belong to a reason."""
    if refused.reason in ("busy", "not_ready"):
        return [(b"retry-after", b"1")]
    if refused.status == 401:
        return [(b"www-authenticate", b"Bearer")]
    return []
