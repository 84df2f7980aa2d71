"""A worker: one process that answers, forked from the supervisor after the model was loaded."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import uvicorn

from aleator.serving import logs
from aleator.serving.app import Service, create_app
from aleator.serving.counters import Counters
from aleator.serving.protocol import patient
from aleator.serving.served import Served
from aleator.serving.settings import Settings

KEEP_ALIVE = 5  # seconds that a connection may rest between two requests
LEAVE = signal.SIGUSR2  # tells a worker that its successors answer


class Server(uvicorn.Server):
    """uvicorn's server, which can also leave slowly.

    On SIGTERM it answers what runs, and closes connections that rest. On `LEAVE` it takes no new connection, answers
    those that it has, and asks each client to come back on another one. So nobody finds a connection closed that was
    open when the request was sent.
    """

    def __init__(self, config: uvicorn.Config, service: Service, ready: int, alive: int) -> None:
        super().__init__(config)
        self.service, self.ready, self.alive = service, ready, alive

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(LEAVE, self.leave)
        loop.add_reader(self.alive, self._orphaned)
        os.write(self.ready, b"1")
        os.close(self.ready)

    def leave(self) -> None:
        """Stop once every connection has had its answer, or has rested for too long."""
        self.service.leaving = True
        for server in self.servers:
            server.close()
        asyncio.get_running_loop().create_task(self._left())

    async def _left(self) -> None:
        for _ in range(20 * (KEEP_ALIVE + 1)):
            if not self.server_state.connections:
                break
            await asyncio.sleep(0.05)
        self.should_exit = True

    def _orphaned(self) -> None:
        """The supervisor is gone."""
        asyncio.get_running_loop().remove_reader(self.alive)
        self.should_exit = True
        logs.event("orphaned", "error")


def work(
    served: Served,
    settings: Settings,
    counters: Counters,
    listening: socket.socket,
    *,
    evaluation: Path | None,
    ready: int,
    alive: int,
) -> None:
    """Answer requests until a signal says to stop. `ready` is written to when it begins, `alive` ends with the parent."""
    logs.take_over()
    service = Service(served, settings, counters, evaluation)
    config = uvicorn.Config(
        create_app(service),
        http=patient(settings, counters),
        loop="uvloop",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=int(settings.seconds) + 1,
    )
    Server(config, service, ready, alive).run([listening])
