"""recommend_batch: from a table of users to a folder of lists, in bounded memory, and resumed after an interruption."""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np

from aleator.batch.folder import AGAIN, Folder, Written, check, held, written
from aleator.batch.job import COUNTS, Job
from aleator.batch.listed import listed
from aleator.batch.users import ROWS, USER, Roll, Table
from aleator.data.arrays import Array
from aleator.data.attributes import Where
from aleator.engines.engine import Ask, Engine, EngineName, check_engine, started
from aleator.errors import AleatorError, require, unknown_name
from aleator.paths import as_path
from aleator.progress import Bar, progress
from aleator.ranking.contributions import check_count
from aleator.ranking.lists import check_k
from aleator.recommender import Recommender
from aleator.version import __version__
from aleator.words import PER_PART, Format, Unknown

if TYPE_CHECKING:
    import polars as pl


def recommend_batch(
    model: Recommender,
    users: Any,
    out: str | os.PathLike[str],
    *,
    k: int = 20,
    lam: float | None = None,
    user: str | None = None,
    history: str | None = None,
    unknown: Unknown = "error",
    filter_seen: bool = True,
    allow: Any = None,
    deny: Any = None,
    where: Where | None = None,
    untrained: bool = False,
    explain: int | None = None,
    per_part: int = PER_PART,
    format: Format = "parquet",
    engine: EngineName = "process",
    workers: int | None = None,
) -> dict[str, Any]:
    """The k best items of each user of a table, written to a folder of files.

    Users are read, ranked and written a part at a time. So the memory does not grow with their number. A part appears
    in the folder when it is whole. After an interruption, the same call goes on behind the finished parts. It refuses a
    folder that holds the lists of another model, of other users, or with other options.

    The rows are those of `recommend`. Then come the other columns of the users. The folder also gets `_journal.jsonl`,
    with a line for each finished part, and at the end `_SUCCESS`, a JSON file with what this function returns.

    Args:
        model: A fitted recommender.
        users: A parquet, csv or tsv file, a folder of parquet files, a frame, or an iterable of frames (give the same
            ones to go on after an interruption). Each user stands in one row.
        out: The folder to write. It must be new or empty, or hold the same batch.
        k: Items per user. A user with fewer candidates gets fewer rows.
        lam: The knob: 1 is the expectation alone, 0 the uncertainty alone. By default that of the model.
        user: Name of the column of users. By default it is found by its usual names.
        history: Name of a column with the histories of users whom the model does not know: lists of item ids, or texts
            with a space between them. They are served by it. Known users keep the history of the model.
        unknown: What to do with users whom neither the model nor a history knows. "error" refuses them, before anything
            is written if the users can be read twice. "drop" leaves them out. "popular" gives them what is popular, as
            `recommend` does for users without a history. They are counted in each case.
        filter_seen: Leave out the items of a user's own history.
        allow: Items that may be listed: item ids, {user: [item ids]}, or a file with a column of items. With a column of
            users too, each user has a list of their own; who has none gets no rows.
        deny: Items that must not be listed, in the same forms.
        where: Filters by attributes of the items, as `recommend` takes them.
        untrained: Keep items without a training interaction as candidates.
        explain: Add lists of so many items of each user's history that add most, as `recommend` does. Files are parquet.
        per_part: Users in a part.
        format: "parquet" or "csv".
        engine: What makes the parts: this "process" one after the other, or the workers of "ray" side by side. The parts
            are the same, and one engine goes on where the other was interrupted. The model must be on the CPU for Ray.
        workers: Workers of Ray, which share its cores out. By default one for each core.

    Returns:
        Counts of users, parts and rows, and the options. `unknown` counts the users whom the model does not know:
            `by_history` of them were served by their history, `left_out` got no list. `short` counts the lists with less
            than k rows.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> import aleator as al
        >>> import polars as pl
        >>> model = al.EASE().fit(al.simulate(n_users=50, n_items=30).interactions)
        >>> with TemporaryDirectory() as folder:
        ...     told = recommend_batch(model, pl.DataFrame({"user_id": [3, 1], "segment": ["a", "b"]}), folder, k=2)
        ...     pl.read_parquet(f"{folder}/part-*.parquet")["user_id", "rank", "segment"].rows()
        [(3, 1, 'a'), (3, 2, 'a'), (1, 1, 'b'), (1, 2, 'b')]
        >>> told["users"], told["rows"]
        (2, 4)
    """
    require(type(per_part) is int and per_part >= 1, f"per_part is {per_part!r}", "give a whole number of at least 1")
    if format not in get_args(Format):
        raise unknown_name("format", str(format), get_args(Format))
    check_engine(engine, workers, model.torch_device.type)
    data, path = model.fitted, as_path(out)
    check_k(k, data.n_items)
    check_count(explain, "explain")
    require(explain is None or format == "parquet", "a csv file holds no lists of reasons", "write parquet")
    check(path)
    turned = model if lam is None else model.at(lam)
    table = Table.of(users, user, data.users)
    given = {name: value for name, value in (("allow", allow), ("deny", deny)) if value is not None}
    read = {name: listed(value, name, data.users, data.items) for name, value in given.items()}
    lists, notes = {n: own for n, (own, _) in read.items()}, [note for _, told in read.values() for note in told]
    options: dict[str, Any] = {"filter_seen": filter_seen, "unknown": unknown, "history": history, "explain": explain}
    job = Job.of(turned, k, lists, where, untrained, **options)
    start, total = time.perf_counter(), _survey(table, job) if table.again else None
    batch = {
        "model": turned.fingerprint,
        "users": total,
        "k": k,
        "lam": getattr(turned, "lam_used", None),
        **options,
        **{name: lists[name].fingerprint if name in lists else None for name in ("allow", "deny")},
        "where": _plain(where),
        "untrained": untrained,
        "candidates": None if job.mask is None else _digest(job.mask.cpu().numpy().tobytes()),
        "per_part": per_part,
        "format": format,
    }
    with (
        held(path, batch, {"digest": str, **dict.fromkeys(COUNTS, int)}) as folder,
        started(engine, workers) as runs,
        progress("recommending", total) as bar,
    ):
        resumed = len(folder.finished)
        _write(job, _Parts(table, folder, bar, per_part, format), runs)
        counts = sum((Counter({n: about[n] for n in COUNTS}) for about in folder.finished.values()), Counter())
        told = {**batch, **{name: counts[name] for name in COUNTS}, "parts": len(folder.finished)}
        folder.finish({"aleator": __version__, **told})
    seconds = round(time.perf_counter() - start, 2)
    return {"out": str(out), **told, "resumed": resumed, "seconds": seconds, "notes": notes}


def _survey(table: Table, job: Job) -> int:
    """The number of users of a table. Refuses it before anything is written, if it must be refused."""
    roll, total, strangers, example = Roll(table), 0, 0, None
    for frame in table.parts(ROWS):
        found = job.strangers(frame, roll.call(frame[USER]))
        total += len(frame)
        strangers += len(found)
        example = found[0] if example is None and len(found) else example
    require(total > 0, f"{table.where} has no rows", "give at least one user")
    job.refuse(strangers, example)
    return total


class Part(NamedTuple):
    """A part that is to be made."""

    name: str
    frame: pl.DataFrame  # its users
    dense: Array  # their dense ids, -1 for unknown ones
    digest: str  # of the frame


@dataclass(frozen=True)
class Writer:
    """Makes a part, in whatever process."""

    job: Job
    folder: Path
    format: Format

    def __call__(self, part: Part, ask: Ask) -> tuple[Written, dict[str, int]]:
        """What was written, and counts of users and rows."""
        lists, counts = self.job.lists(part.frame, part.dense)
        return written(self.folder, part.name, partial(_save, lists, self.format)), counts


@dataclass
class _Parts:
    """The parts of a table that are not finished. The others are compared with the table on the way."""

    table: Table
    folder: Folder
    bar: Bar
    per_part: int
    format: Format
    count: int = field(default=0, init=False)  # of all parts so far

    def __iter__(self) -> Iterator[Part]:
        roll = Roll(self.table)
        for frame in self.table.parts(self.per_part):
            part = Part(
                f"part-{self.count:05}.{self.format}",
                frame,
                roll.call(frame[USER]),
                _digest(frame.write_ndjson().encode()),
            )
            self.count += 1
            earlier = self.folder.finished.get(part.name)
            if earlier is None:
                yield part
                continue
            problem = f"{part.name} in '{self.folder.path}' is of other users than {self.table.where} has now"
            require(earlier["digest"] == part.digest, problem, AGAIN)
            self.bar.advance(len(frame))


def _write(job: Job, parts: _Parts, engine: Engine) -> None:
    """Write the parts that are not finished."""
    folder, table = parts.folder, parts.table
    for part, (made, counts) in engine.run(Writer(job, folder.path.absolute(), parts.format), parts):
        folder.take(part.name, made, {"digest": part.digest, **counts})
        parts.bar.advance(len(part.frame))
    more = len(folder.finished) - parts.count
    require(more == 0, f"'{folder.path}' has {more} parts more than {table.where} has users for", AGAIN)


def _save(lists: pl.DataFrame, format: Format, path: Path) -> None:
    import polars as pl

    try:
        lists.write_parquet(path) if format == "parquet" else lists.write_csv(path)
    except pl.exceptions.PolarsError as error:
        raise AleatorError(f"a part cannot be written as {format} ({error})", "write the other format") from None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """Filters as JSON holds them."""
    if isinstance(value, Mapping):
        return {str(name): _plain(own) for name, own in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_plain(own) for own in (sorted(value) if isinstance(value, (set, frozenset)) else value)]
    return value.item() if isinstance(value, np.generic) else value
