"""Settings of the service: where it listens, who may ask, and how much anybody may ask for."""

from __future__ import annotations

from dataclasses import dataclass

from aleator.errors import require


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a service allows. All sizes are upper limits."""

    tokens: tuple[str, ...] = ()  # of whom it answers; empty answers everybody
    k: int = 500  # items of a list
    batch: int = 256  # users, or items to score or to explain, of a request
    history: int = 5000  # items of the history of a newcomer
    explained: int = 1000  # the same, where it is explained: for some models that takes its square
    points: int = 2000  # items of a map
    body_bytes: int = 1 << 20  # of a request
    head_bytes: int = 1 << 15  # of the first line and the headers of a request
    connections: int = 500  # of each worker
    waiting: int = 512  # requests that wait for their turn in each worker
    users_at_once: int = 64  # who are scored in one call
    log_requests: bool = True  # whether each request is a line of the log
    seconds: float = 15.0  # until an answer is there
    patience: float = 10.0  # seconds that a client has to send a request, and to take the answer

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name not in ("tokens", "log_requests"):
                require(value > 0, f"{name} is {value}", "give a number above 0")
        require(all(self.tokens), "a token is empty", "leave it out, or give one of at least 16 letters")
