"""The routes of the service. Each one checks its body by a schema, and hands it to a lane."""

from __future__ import annotations

import json
import mimetypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from aleator.errors import AleatorError
from aleator.serving import guard, schemas
from aleator.serving.counters import CONTENT_TYPE, Counters
from aleator.serving.errors import Refused
from aleator.serving.lanes import Lane
from aleator.serving.served import Answer, Served, options
from aleator.serving.settings import Settings
from aleator.version import __version__

PAGE = Path(__file__).parent / "page"
_REFUSED: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.Error, "description": text}
    for status, text in {
        400: "The body is no JSON.",
        401: "There is no token, or a wrong one.",
        404: "A user or an item is not known.",
        405: "The method is another one.",
        408: "The request came too slowly.",
        413: "The body is too large.",
        415: "The body is not declared as JSON.",
        422: "A value is not allowed.",
        429: "Too many requests wait. Ask again after the seconds in Retry-After.",
    }.items()
}
_BODY: dict[int | str, dict[str, Any]] = {
    status: _REFUSED[status] for status in (400, 401, 404, 405, 408, 413, 415, 422, 429)
}
_ASKED: dict[int | str, dict[str, Any]] = {status: _REFUSED[status] for status in (401, 404, 405, 422, 429)}
_ABOUT: dict[int | str, dict[str, Any]] = {status: _REFUSED[status] for status in (401, 405)}
_READY: dict[int | str, dict[str, Any]] = {
    503: {"model": schemas.Error, "description": "It does not serve, or not any more."}
}
_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {}}}, **_ABOUT}
Limit = Annotated[int, Query(ge=1, le=200)]
Text = Annotated[str, Query(max_length=200)]


class Service:
    """A served model with its lanes, in one worker."""

    def __init__(self, served: Served, settings: Settings, counters: Counters, evaluation: Path | None = None) -> None:
        self.served, self.settings, self.counters, self.evaluation = served, settings, counters, evaluation
        self.leaving = False  # whether other workers take over
        self.about = served.about()
        lane = settings.waiting, settings.users_at_once, settings.seconds
        self.lists = Lane(*lane, self._batch)
        self.rest = Lane(*lane, lambda weight: None)  # slower work, so that lists do not wait for it

    def _batch(self, weight: int) -> None:
        self.counters.event("batches")
        self.counters.event("batch_users", weight)

    async def recommend(self, body: schemas.Recommend) -> Answer:
        """Lists, computed together with those of other requests."""
        weight = len(body.users or body.histories or ())
        answer: Answer = await self.lists.run(self.served.recommend, body, options(body), weight)
        return answer

    async def slowly(self, answer: Callable[..., Answer], *asked: Any) -> Answer:
        """An answer that is computed alone."""

        def compute(requests: Sequence[Any]) -> list[Answer]:
            return [answer(*request) for request in requests]

        found: Answer = await self.rest.run(compute, asked)
        return found

    def evaluated(self) -> Any:
        """The figures of the evaluation, once they are there."""
        if self.evaluation is None or not self.evaluation.exists():
            return None
        return json.loads(self.evaluation.read_bytes())


def create_app(service: Service) -> guard.Guard:
    """The application of one worker."""
    app = FastAPI(
        title="Aleator",
        version=__version__,
        description="Recommendations with the expectation and the uncertainty of each.",
        docs_url=None,  # its page would need a CDN
        redoc_url=None,
        redirect_slashes=False,
    )
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(AleatorError, _by_library)
    app.add_exception_handler(Exception, _bug)
    _add_state(app, service)
    _add_answers(app, service)
    _add_search(app, service)
    _add_page(app)
    return guard.Guard(app, service.settings, service.counters, lambda: service.leaving)


def _json(answer: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """An answer as JSON, with null in the place of NaN."""
    return Response(to_json(answer, inf_nan_mode="null"), status, headers, "application/json")


def _add_state(app: FastAPI, service: Service) -> None:
    """Whether it runs, and what it serves."""

    @app.get("/health", response_model=schemas.Health, responses={405: _REFUSED[405]})
    async def health() -> Response:
        """Whether the process answers."""
        return _json({"status": "ok"})

    @app.get("/ready", response_model=schemas.Ready, responses=_READY | {405: _REFUSED[405]})
    async def ready() -> Response:
        """Whether a model is served, and which one."""
        if service.leaving:
            raise Refused("not_ready", "This worker is about to end", "Ask again: another one answers")
        return _json({"status": "ready", "fingerprint": service.served.fingerprint})

    @app.get("/metrics", response_class=Response, responses=_TEXT)
    async def metrics() -> Response:
        """Counters for Prometheus, of all workers together."""
        return Response(service.counters.text(service.served.fingerprint), media_type=CONTENT_TYPE)

    @app.get("/model", response_model=schemas.AboutModel, responses=_ABOUT)
    async def model() -> Response:
        """What is served, how lam was chosen, and how good it is on a test part."""
        return _json({**service.about, "evaluation": service.evaluated()})


def _add_answers(app: FastAPI, service: Service) -> None:
    """What the library is asked for."""

    @app.post("/recommend", response_model=schemas.Lists, responses=_BODY)
    async def recommend(body: schemas.Recommend) -> Response:
        """The best items of users, with the expectation and the uncertainty of each. A high uncertainty raises an item:
        its zero may be wrong."""
        return _json(await service.recommend(body))

    @app.post("/score", response_model=schemas.Scores, responses=_BODY)
    async def score(body: schemas.Score) -> Response:
        """Scores, expectations and uncertainties of items that you name."""
        return _json(await service.slowly(service.served.score, body))

    @app.post("/similar", response_model=schemas.SimilarLists, responses=_BODY)
    async def similar(body: schemas.Similar) -> Response:
        """Items whose scores go up and down with those of an item."""
        return _json(await service.slowly(service.served.similar, body))

    @app.post("/explain", response_model=schemas.Explained, responses=_BODY)
    async def explain(body: schemas.Explain) -> Response:
        """Which items of a history the expectation and the uncertainty of an item come from."""
        return _json(await service.slowly(service.served.explain, body))

    @app.post("/map", response_model=schemas.Points, responses=_BODY)
    async def map(body: schemas.Map) -> Response:
        """A sample of the catalogue as a user sees it. It always holds the best 20 by expectation and by the blend."""
        return _json(await service.slowly(service.served.map, body))


def _add_search(app: FastAPI, service: Service) -> None:
    """What the page looks up."""

    @app.get("/users", response_model=schemas.FoundUsers, responses=_ASKED)
    async def users(query: Text = "", limit: Limit = 20) -> Response:
        """Users whose id begins with a text, then those whose id holds it. Without a text, a sample."""
        return _json(await service.slowly(service.served.find_users, query, limit))

    @app.get("/users/{user:path}", response_model=schemas.UserHistory, responses=_ASKED)
    async def user(user: str) -> Response:
        """What a user took."""
        return _json(await service.slowly(service.served.user, user))

    @app.get("/items", response_model=schemas.FoundItems, responses=_ASKED)
    async def items(query: Text = "", limit: Limit = 20) -> Response:
        """Items whose title or id begins with a text, then those that hold it. Without a text, the popular ones."""
        return _json(await service.slowly(service.served.find_items, query, limit))


def _add_page(app: FastAPI) -> None:
    """The page. Its files are in memory, so that no path of a request reaches the disk."""
    files = {path.relative_to(PAGE).as_posix(): path.read_bytes() for path in PAGE.rglob("*") if path.is_file()}

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return _file(files, "index.html")

    @app.get("/page/{name:path}", include_in_schema=False)
    async def page(name: str) -> Response:
        return _file(files, name)


def _file(files: dict[str, bytes], name: str) -> Response:
    if name not in files:
        raise Refused("not_found", "There is no such file", "Begin at /")
    return Response(files[name], media_type=mimetypes.guess_type(name)[0] or "application/octet-stream")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    headers = {name.decode(): value.decode() for name, value in guard.extra_headers(error)}
    return _json(error.body(), error.status, headers)


async def _by_library(request: Request, error: Exception) -> Response:
    """What the library refuses, such as similar items of a model that does not personalise."""
    assert isinstance(error, AleatorError)
    return await _refused(request, Refused.by(error))


async def _bug(request: Request, error: Exception) -> Response:
    """What nobody expected. The guard logs it."""
    return await _refused(request, guard.bug())


async def _invalid(request: Request, error: Exception) -> Response:
    """A body or a query that does not fit its schema. What was sent is not repeated."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body")[:80]
    place = place.encode(errors="replace").decode()
    if first["type"] == "json_invalid":
        return await _refused(request, Refused("invalid_json", "The body is no valid JSON", "See /openapi.json"))
    told = f"{place or 'The body'}: {str(first['msg']).removeprefix('Value error, ')}"
    return await _refused(request, Refused("invalid", told, "See /openapi.json for what a request may hold"))


async def _http(request: Request, error: Exception) -> Response:
    """What the framework refuses: unknown paths, methods, and bodies that it cannot parse."""
    assert isinstance(error, HTTPException)
    known = {
        404: Refused("not_found", "There is nothing here", "See /openapi.json for what there is"),
        405: Refused("wrong_method", "This path takes another method", "See the header Allow"),
    }
    refused = known.get(error.status_code, Refused("invalid_json", "The body is no valid JSON", "See /openapi.json"))
    return _json(refused.body(), refused.status, dict(error.headers or {}))
