"""Ask an application without a network."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from aleator.serving.guard import Guard

JSON = {"content-type": "application/json"}


class Got(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def reason(self) -> str:
        return str(self.json["error"]["reason"])


async def ask(
    app: Guard, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, query: str = ""
) -> Got:
    """What the application answers. A body that is not bytes is sent as JSON."""
    sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    given = JSON if headers is None else headers
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "scheme": "http",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }
    messages: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": sent, "more_body": False}

    async def send(message: Any) -> None:
        messages.append(message)

    await app(scope, receive, send)
    start = messages[0]
    found = {name.decode(): value.decode() for name, value in start["headers"]}
    return Got(start["status"], found, b"".join(message.get("body", b"") for message in messages[1:]))
