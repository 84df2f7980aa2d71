"""A connection that waits for its client, but not for ever.

uvicorn limits neither how long a client takes to send a request, nor how large its headers are, nor how long it takes to
read an answer. Here each has a limit, and so has the number of connections.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from typing import Any

from pydantic_core import to_json
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from aleator.serving.counters import Counters
from aleator.serving.errors import Refused
from aleator.serving.guard import HEADERS, extra_headers
from aleator.serving.settings import Settings

_AHEAD = 16  # requests that a client may send on one connection before it reads their answers


def patient(settings: Settings, counters: Counters) -> type[asyncio.Protocol]:
    """The protocol of a service, as `uvicorn.Config(http=)` takes it."""

    class Patient(HttpToolsProtocol):
        _deadline: asyncio.TimerHandle | None = None
        _reading: asyncio.TimerHandle | None = None  # looks whether the client still reads
        _in_head = True  # whether the headers of a request are awaited or being read
        _head = 0  # their bytes so far

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > settings.connections:
                counters.event("connections_refused")
                self._end(Refused("busy", f"There are {settings.connections:,} connections", "Ask again in a second"))
            self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            if self._reading is not None:
                self._reading.cancel()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._in_head:
                self._head += len(data)
                if self._deadline is None:
                    self._wait()
            if self.transport.is_closing():
                return
            super().data_received(data)
            if self._in_head and self._head > settings.head_bytes:
                told = f"The headers have more than {settings.head_bytes:,} bytes"
                self._end(Refused("head_too_large", told, "Send fewer or shorter ones"))

        def on_message_begin(self) -> None:
            self._in_head = True
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            if len(self.pipeline) >= _AHEAD:  # else 50 bytes of a request become kilobytes here, without an end
                raise ValueError("requests are sent without reading answers")  # the parser stops at an exception
            self._in_head, self._head = False, 0
            self._stop_waiting()  # the guard awaits the body
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._in_head = True
            super().on_message_complete()

        def send_400_response(self, msg: str) -> None:
            self._end(
                Refused("bad_request", "This is no valid HTTP, or too much of it at once", "Read answers as they come")
            )

        def pause_writing(self) -> None:
            """The client reads more slowly than answers come."""
            super().pause_writing()
            self._look(self.transport.get_write_buffer_size())

        def resume_writing(self) -> None:
            if self._reading is not None:
                self._reading.cancel()
            super().resume_writing()

        def _look(self, left: int) -> None:
            """Look again after a while whether anything was read of the bytes that are left."""
            self._reading = self.loop.call_later(settings.patience, self._still_reads, left)

        def _still_reads(self, before: int) -> None:
            left = self.transport.get_write_buffer_size()
            if left < before:
                self._look(left)
            else:
                self._cut()

        def timeout_keep_alive_handler(self) -> None:
            if self.transport.get_write_buffer_size():  # nobody reads the last answer
                self._cut()
            else:
                super().timeout_keep_alive_handler()

        def _wait(self) -> None:
            """Begin to wait for the headers of a request."""
            self._deadline = self.loop.call_later(settings.patience, self._too_slow)

        def _stop_waiting(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _too_slow(self) -> None:
            if self.transport.get_write_buffer_size():
                self._cut()
            else:
                counters.event("too_slow")
                told = f"No request arrived within {settings.patience:g} seconds"
                self._end(Refused("too_slow", told, "Send it at once"))

        def _cut(self) -> None:
            """Close without waiting for the client, and drop what it has not read, in the system's buffers too."""
            counters.event("too_slow")
            number = os.dup(self.transport.get_extra_info("socket").fileno())
            with socket.socket(fileno=number) as same:
                same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()

        def _end(self, refused: Refused) -> None:
            """Answer with an error and close."""
            body = to_json(refused.body())
            about = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
            headers = [*about, (b"connection", b"close"), *HEADERS, *extra_headers(refused)]
            lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
            self.transport.write(STATUS_LINE[refused.status] + lines + b"\r\n" + body)
            self.transport.close()

    return Patient
