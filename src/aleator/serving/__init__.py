"""The service: a model folder behind HTTP.

serve.py       `serve`, and `serving` for a program that wants a service beside it
supervisor.py  loads models and forks workers; takes up new models; keeps the number of workers
worker.py      one process that answers
protocol.py    a connection, with limits of time and size
guard.py       what every request passes: the token, the body, headers, the log, counters
app.py         the routes
schemas.py     what requests and answers hold
lanes.py       requests wait, and are computed together
served.py      the answers, from the library's own functions
held.py        the test part, to mark what users took later
settings.py    limits
counters.py    counters that all processes share
logs.py        events as JSON
errors.py      what a request is refused with
client.py      `Client`, for Python programs
page/          the page at /

Only serve.py, settings.py and client.py can be imported without the extra `serve`.
"""

from aleator.serving.client import Client, ServiceError
from aleator.serving.serve import serve, serving
from aleator.serving.settings import Settings

__all__ = ["Client", "ServiceError", "Settings", "serve", "serving"]
