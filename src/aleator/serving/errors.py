"""What a request is refused with: a code for programs, a reason that they can match, and a message for people."""

from __future__ import annotations

from typing import Any

from aleator.errors import AleatorError

Reason = str
REASONS: dict[Reason, int] = {
    "invalid_json": 400,
    "bad_request": 400,
    "no_token": 401,
    "wrong_token": 401,
    "unknown_user": 404,
    "unknown_item": 404,
    "not_found": 404,
    "wrong_method": 405,
    "too_slow": 408,
    "too_large": 413,
    "wrong_content_type": 415,
    "invalid": 422,
    "over_limit": 422,
    "unknown_history": 422,
    "no_uncertainty": 422,
    "refused": 422,
    "busy": 429,
    "head_too_large": 431,
    "bug": 500,
    "not_ready": 503,
}


class Refused(Exception):
    """A request that is not answered. The message has one sentence on what is wrong, and one on what to do."""

    def __init__(self, reason: Reason, problem: str, remedy: str) -> None:
        self.reason, self.status = reason, REASONS[reason]
        self.message = f"{problem}. {remedy}."
        super().__init__(reason)

    @classmethod
    def by(cls, error: AleatorError) -> Refused:
        """From an error of the library."""
        return cls("refused", *(text[:1].upper() + text[1:] for text in (error.problem, error.remedy)))

    def body(self) -> dict[str, Any]:
        """What the answer holds."""
        return {"error": {"reason": self.reason, "message": self.message}}
