"""What fuzz.py attacks: each reader, the ways to call it, and files to begin with.

A case is the content of one file of a folder; a way reads that folder. To read means to use what was read as well: most
ways go on to the first thing that a person does with it.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import json
import os
import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

import aleator as al
from aleator import checkpoint
from aleator.aur.build import build, parse_settings
from aleator.batch.folder import JOURNAL
from aleator.batch.listed import listed
from aleator.batch.users import Roll, Table
from aleator.data.formats import read_titles
from aleator.data.interactions import Interactions
from aleator.data.sparse import read_sparse
from aleator.export.manifest import is_export
from aleator.models import MODELS
from aleator.models.graft.files import read_array, read_factors, read_ids, read_scores
from aleator.recommender import Recommender
from aleator.studies import records
from aleator.studies.report import report
from aleator.training import journal, whole
from aleator.tuning.search import Search
from aleator.uncertainty import ESTIMATORS
from aleator.uncertainty.products import LABEL

Read = Callable[[Path], object]  # from the folder of a case


@dataclass(frozen=True)
class Way:
    """One way to call a reader."""

    file: str  # of the folder, which a case is written to
    read: Read
    seeds: Callable[[], Sequence[bytes]]
    made: Callable[[Path], object] = lambda folder: None  # writes the other files, before each case


# Tables

CSV = b'user_id,item_id,rating,timestamp\nann,7,5,100\nann,9,3.5,101\nbob,7,1,102\n"c, d",11,4,2020-01-01\n'
CSVS = [
    CSV,
    b"user,item\n1,2\n3,4\n1,4\n",
    b"userId;movieId;rating;timestamp\n1;10;3,5;01.12.2010 08:26\n2;11;4,0;02.12.2010 09:00\n",
    b"\xef\xbb\xbfuser_id|item_id|weight\r\n007|a|1\r\n008|b|2.5\r\n",
    b"uid::sid::stars\nx::y::1\nz::y::2\n",
    "user_id,item_id,date\nJosé,Ω,2020-01-01\nann,Ω,2021-02-03T04:05:06\n".encode(),
    b"user_id,item_id,count\n1,1,3\n1,1,4\n2,3,\n",
    b'user_id,item_id\n"a\nb",1\n"c""d",2\n',
]
TSVS = [text.replace(b",", b"\t") for text in CSVS[:2]]
INTER = b"user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
INTER += b"1\t10\t5.0\t881250949\n2\t10\t3.0\t881250950\n2\t11\t1\t8\n"
DATA = b"196\t242\t3\t881250949\n186\t302\t3\t891717742\n22\t377\t1\t878887116\n"
DAT = DATA.replace(b"\t", b"::")
TRAIN = b"0 1 2 3\n1 2\n2 0 4\n3\n"
TITLES = [
    b'item_id,title\n1,Toy Story (1995)\n2,"Run, Lola"\n3,\n',
    b"movieId,title,genres\n1,Toy Story,Animation|Comedy\n3,Heat,Crime\n",
]
ATTRIBUTES = [
    b"item_id,genre,year,new\n1,Drama|War,1994,true\n2,Drama,2001,false\n3,,,\n",
    b"id,price,code\n1,1.5,007\n2,2e3,008\n1,-3,9\n",
]


def columns(n: int = 12) -> dict[str, Any]:
    """Columns of many types, with the usual names of some."""
    draw = np.random.default_rng(n)
    return {"user_id": draw.integers(0, 5, n), "item_id": draw.integers(0, 9, n), "rating": draw.random(n) * 5}


def as_parquet(frame: Any, **options: Any) -> bytes:
    made = io.BytesIO()
    frame.write_parquet(made, **options)
    return made.getvalue()


@cache
def parquets() -> list[bytes]:
    """Tables of interactions with columns of every kind of type."""
    n, base = 12, columns()
    texts = [f"u{n % 4}" for n in base["user_id"]]
    frames = [
        pl.DataFrame(base),
        pl.DataFrame(
            {
                "user": texts,
                "item": pl.Series(texts, dtype=pl.Categorical),
                "time": pl.Series(range(n)).cast(pl.Datetime("ms")),
            }
        ),
        pl.DataFrame(
            {"user": base["user_id"].astype("u8"), "item": base["item_id"].astype("i1"), "weight": [1.5, None] * 6}
        ),
        pl.DataFrame({"user": base["user_id"], "item": base["item_id"], "date": pl.Series(range(n)).cast(pl.Date)}),
        pl.DataFrame({"user": [[1]] * n, "item": [b"x"] * n, "time": pl.Series(range(n)).cast(pl.Duration("us"))}),
        pl.DataFrame(
            {
                "user": base["user_id"] * 0.5,
                "item": pl.Series([1] * n, dtype=pl.Decimal(9, 2)),
                "time": ["2020-01-01"] * n,
            }
        ),
        pl.DataFrame({"user": [True, False] * 6, "item": pl.Series(range(n)).cast(pl.Time), "x": [{"a": 1}] * n}),
    ]
    return [as_parquet(frame, compression=how) for frame in frames for how in ("uncompressed", "zstd", "snappy")]


@cache
def archives() -> list[bytes]:
    """npz files of columns, of parts and with odd types."""
    made = []
    base = columns()
    parts = {f"{part}_{side}": base[f"{side}_id"] for part in ("train", "test") for side in ("user", "item")}
    odd = {
        "user": np.array(["a", "bb\0", "c"]),
        "item": np.array([1.0, 2.0, np.inf]),
        "time": np.array(["2020", "2021", "NaT"], "M8[D]"),
    }
    for arrays in (base, parts, odd, {"user": np.arange(6).reshape(2, 3), "item": np.arange(3)}):
        for write in (np.savez, np.savez_compressed):
            file = io.BytesIO()
            write(file, **arrays)
            made.append(file.getvalue())
    return made


def used(data: Interactions | al.Split) -> None:
    """What every user of interactions asks for first."""
    if isinstance(data, al.Split):
        used(data.train)
        data = data.test if len(data.test) else data.train  # nobody may have liked what the test part holds
    _ = data.csr, data.popularity, data.fingerprint, data.identity, repr(data), data.users.decode(data.user[:5])
    assert len(data) == len(data.item) > 0
    assert 0 <= data.item.min() <= data.item.max() < data.n_items
    assert data.time is None or len(data.time) == len(data)
    with suppress(al.AleatorError):
        data.split(by="user_time" if data.time is not None else "random")


def reading(file: str, **options: Any) -> Read:
    return lambda folder: used(al.read(folder / file, **options))


def written(file: str, ending: str) -> Read:
    """Reads, writes to a file of its own, and reads that: the ids stay the same as texts."""

    def read(folder: Path) -> None:
        data = al.read(folder / file)
        target = folder / f"written.{ending}"
        al.write(data, target)
        again = al.read(target)
        for one, other in ((data.users, again.users), (data.items, again.items)):
            assert sorted(map(str, one.ids.tolist())) == sorted(map(str, other.ids.tolist())), "ids changed on writing"

    return read


def interactions_ways(file: str, seeds: Callable[[], Sequence[bytes]], **more: dict[str, Any]) -> dict[str, Way]:
    every: dict[str, dict[str, Any]] = {
        "plain": {},
        "rated": {"min_rating": 3, "k_core": 1},
        "dropped": {"missing": "drop"},
        **more,
    }
    return {name: Way(file, reading(file, **options), seeds) for name, options in every.items()}


def packed(*texts: bytes) -> list[bytes]:
    return [gzip.compress(text, mtime=0) for text in texts]


def base_data() -> Interactions:
    return al.read({"user": [1, 1, 2, 3], "item": [1, 2, 3, 1]})


def text_data() -> Interactions:
    return al.read({"user": ["a", "a", "b", "c"], "item": ["1", "x", "3", "1"]})


def titled(folder: Path, name: str, **options: Any) -> None:
    for data in (base_data(), text_data()):
        made = data.with_titles(read_titles(folder / name))
        assert made.titles is not None
        made.titles.tolist()


def attributed(folder: Path, name: str) -> None:
    data = base_data().with_attributes(folder / name)
    for attribute in data.attributes.values():
        assert len(attribute.item) == len(attribute.values)
        attribute.matching("it", attribute.values.tolist()[0], data.n_items)
        with suppress(al.AleatorError):
            attribute.matching("it", attribute.parse("it", "1..2"), data.n_items)
    data.clean(k_core=1)


def users_read(folder: Path, name: str) -> None:
    for data in (base_data(), text_data()):
        table = Table.of(folder / name, None, data.users)
        roll = Roll(table)
        with suppress(al.AleatorError):
            for part in table.parts(2):
                roll.call(part.to_series(0))


def listed_read(folder: Path, name: str) -> None:
    for data in (base_data(), text_data()):
        for list_name in ("allow", "deny"):
            found, _ = listed(folder / name, list_name, data.users, data.items)
            found.for_recommend(data.users.ids.tolist()[:2], data.items)
            _ = found.fingerprint


# Grafts


def grafted(model: Any, **given: Any) -> None:
    """Graft, match with data, and ask for scores."""
    made = al.graft(model, **given)
    with suppress(al.AleatorError):
        made.fit(base_data())
        made.score([1, 2])


def npys() -> list[bytes]:
    made = []
    for array in (
        np.eye(3, dtype="f4"),
        np.arange(12.0).reshape(3, 4),
        np.arange(6),
        np.asfortranarray(np.ones((3, 2), "f2")),
        np.array(["a", "b", "c"]),
    ):
        file = io.BytesIO()
        np.save(file, array)
        made.append(file.getvalue())
    return made


def safetensor_seeds() -> list[bytes]:
    eye, ids = np.eye(3, dtype="f4"), np.array([1, 2, 3])
    return [
        save({"factors": eye, "ids": ids}),
        save({"x": eye.astype("f8")}),
        save({"a": eye, "factors": eye[:2]}),
        save({"a": ids}),
    ]


def factor_parquets() -> list[bytes]:
    frames = [
        pl.DataFrame({"id": [1, 2, 3], "features": [[1.0, 0.5, 0.0], [0.0, 1.0, 0.5], [2.0, 2.0, 1.0]]}),
        pl.DataFrame({"id": ["a", "b"], "features": [[1, 2, 0], [3, 4, 0]]}),
        pl.DataFrame(
            {"id": [1, 2], "features": pl.Series([[1.0, 2.0, 0.0], [3.0, 4.0, 0.0]], dtype=pl.Array(pl.Float32, 3))}
        ),
        pl.DataFrame({"id": [1, None], "features": [[1.0, None], [3.0]]}),
    ]
    return [as_parquet(frame, compression=how) for frame in frames for how in ("uncompressed", "snappy")]


def similarity_seeds() -> list[bytes]:
    made = []
    dense = np.array([[0, 1, 0.5], [1, 0, 0], [0.5, 0, 0]], "f4")
    for kind in (sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.dia_matrix, sp.bsr_matrix):
        for squeeze in (True, False):
            file = io.BytesIO()
            sp.save_npz(file, kind(dense), compressed=squeeze)
            made.append(file.getvalue())
    return made


def score_seeds() -> list[bytes]:
    return [b"user_id,item_id,score\n1,1,0.5\n1,2,0.25\n2,3,1\n", b"user_id,item_id,score\na,1,1e3\nb,x,-1\n"]


def score_parquets() -> list[bytes]:
    return [
        as_parquet(pl.DataFrame({"user_id": [1, 1, 2], "item_id": ["1", "2", "3"], "score": scores}))
        for scores in ([0.5, 1.0, 2.0], [1, 2, None])
    ]


ONNX = bytes.fromhex(  # scores are the rows of a table: Gather(w, u)
    "08083a7b0a110a01770a017512017322064761746865721201672a3b0804080310014201774a3000000000abaaaa3dabaa2a3e0000803eabaaaa3e5555d53e"
    "0000003f5555153fabaa2a3f0000403f5555553fabaa6a3f5a100a0175120b0a09080712050a0312016e62140a0173120f0a0d080112090a0312016e0a0208"
    "0342040a00100d"
)


def make_spark(folder: Path) -> None:
    for name in ("userFactors", "itemFactors"):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "part-0.snappy.parquet").write_bytes(factor_parquets()[0])


def make_side(folder: Path, content: bytes, name: str) -> None:
    (folder / name).write_bytes(content)


def pair(file: str, other: str) -> Read:
    return lambda folder: grafted((folder / file, folder / other))


# Folders of models

SHAPES: dict[str, Callable[[], Recommender]] = {
    "aur": lambda: al.AUR(
        al.MF(dim=4, iterations=2, l2=0.1),
        estimator=al.FactorEstimator(dim=4, max_epochs=2),
        residuals="in-sample",
    ),
    "mlp": lambda: al.AUR(
        al.FISM(dim=4, max_epochs=2),
        estimator=al.MLPEstimator(hidden=4, max_epochs=2),
        unobserved="constant",
        residuals="in-sample",
    ),
    "itemknn": lambda: al.ItemKNN(neighbours=5),
    "multvae": lambda: al.MultVAE(hidden=8, dim=4, max_epochs=2, calibrate="isotonic", dropout=0.0),
}  # fmt: skip


@cache
def world() -> al.Split:
    data = al.simulate(n_users=30, n_items=20, per_user=40, seed=0).interactions
    data = al.read({"user": [f"u{n}" for n in data.user], "item": data.item, "weight": 1.0 + data.item % 3})
    data = data.with_titles({n: f"t{n}" for n in range(20)})
    data = data.with_attributes({"item": list(range(20)), "genre": ["a|b", "c"] * 10, "year": list(range(20))})
    return data.split(valid=0.1, test=0.1, seed=0)


@cache
def fitted(kind: str) -> Recommender:
    return SHAPES[kind]().fit(world())


@cache
def saved(kind: str) -> dict[str, bytes]:
    """The files of a saved model."""
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        fitted(kind).save(Path(place) / "m")
        return {file.name: file.read_bytes() for file in (Path(place) / "m").iterdir()}


def put(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def loaded(folder: Path) -> None:
    """Load a folder, and ask the model for lists."""
    model = al.load_model(folder / "m", device="cpu")
    with suppress(al.AleatorError):
        data = model.fitted
        model.recommend(data.users.decode([0]).tolist(), k=3)
        model.score({"new": data.items.decode([0]).tolist()})


def sealed_manifest(folder: Path) -> None:
    """The same where a manifest that was changed has the right checksum."""
    path = folder / "m" / "manifest.json"
    with suppress(ValueError, RecursionError, TypeError, UnicodeError):
        manifest = json.loads(path.read_bytes())
        if isinstance(manifest, dict):
            path.write_text(json.dumps(checkpoint.sealed(manifest)))
    loaded(folder)


def sealed_tensors(kind: str, folder: Path) -> None:
    """The same where tensors that were changed have the right checksums."""
    from aleator.checkpoint.tensors import checksum, map_tensors

    name = next(name for name in saved(kind) if name.startswith("tensors"))
    manifest = json.loads(saved(kind)["manifest.json"])
    with suppress(Exception):
        found = map_tensors(folder / "m" / name)
        manifest["tensors"]["checksums"] = {name: checksum(tensor) for name, tensor in found.items()}
        (folder / "m" / "manifest.json").write_text(json.dumps(checkpoint.sealed(manifest)))
    loaded(folder)


def model_ways() -> dict[str, Way]:
    ways = {}
    for kind in SHAPES:
        tensors = partial(_named_tensors, kind)
        make = partial(_make_model, kind)
        ways[f"{kind} manifest"] = Way("m/manifest.json", loaded, partial(_of_saved, kind, "manifest.json"), make)
        ways[f"{kind} manifest, sealed"] = Way(
            "m/manifest.json", sealed_manifest, partial(_of_saved, kind, "manifest.json"), make
        )
        ways[f"{kind} tensors"] = Way("m/" + tensors(), loaded, partial(_of_saved, kind, "tensors"), make)
        ways[f"{kind} tensors, sealed"] = Way(
            "m/" + tensors(), partial(sealed_tensors, kind), partial(_of_saved, kind, "tensors"), make
        )
    return ways


def _named_tensors(kind: str) -> str:
    return next(name for name in saved(kind) if name.startswith("tensors"))


def _of_saved(kind: str, name: str) -> list[bytes]:
    return [content for file, content in saved(kind).items() if file.startswith(name)]


def _make_model(kind: str, folder: Path) -> None:
    put(folder / "m", saved(kind))


# Checkpoints of a fit, batches, exports, trials, records


class Ended(Exception):
    """Ends a fit where its checkpoint is wanted."""


@cache
def unfinished() -> dict[str, bytes]:
    """The files of a checkpoint of a fit that was ended in the training of its estimator."""
    import tempfile

    count = 0

    def ends(told: Any) -> None:
        nonlocal count
        count += told.stage == LABEL
        if count > 3:
            raise Ended

    with tempfile.TemporaryDirectory() as place:
        with mock.patch.multiple(journal, EVERY=0.0, SHARE=1e9), suppress(Ended):
            fit_with(Path(place) / "fit", ends)
        return {file.name: file.read_bytes() for file in (Path(place) / "fit").iterdir() if file.is_file()}


def fit_with(folder: Path, callback: Any = None) -> None:
    made = al.AUR(
        al.FISM(dim=2, max_epochs=3),
        estimator=al.FactorEstimator(dim=2, max_epochs=5, patience=9),
        unobserved="constant",
        residuals="in-sample",
        discount=0.0,
        prior=0.0,
        refit=False,
    )
    made.fit(world(), checkpoint=folder, callback=callback)


def resumed(name: str, folder: Path) -> None:
    """Give the changed file the checksum of its content in its name, and go on with the fit."""
    put(folder / "fit", {file: content for file, content in unfinished().items() if file != name})
    content = (folder / "case.safetensors").read_bytes()
    stem = name.rpartition("-")[0]
    (folder / "fit" / f"{stem}-{hashlib.sha256(content).hexdigest()[:32]}{whole.ENDING}").write_bytes(content)
    try:
        fit_with(folder / "fit")
    finally:
        shutil.rmtree(folder / "fit", ignore_errors=True)


def resumed_about(folder: Path) -> None:
    put(folder / "fit", {file: content for file, content in unfinished().items() if file != "about.json"})
    shutil.copy(folder / "about.json", folder / "fit" / "about.json")
    try:
        fit_with(folder / "fit")
    finally:
        shutil.rmtree(folder / "fit", ignore_errors=True)


def checkpoint_ways() -> dict[str, Way]:
    files = sorted(name for name in unfinished() if name.endswith(whole.ENDING))
    ways = {"about": Way("about.json", resumed_about, lambda: [unfinished()["about.json"]])}
    for number, name in enumerate(files):
        ways[f"file {number}"] = Way("case.safetensors", partial(resumed, name), partial(_unfinished_file, name))
    return ways


def _unfinished_file(name: str) -> list[bytes]:
    return [unfinished()[name]]


@cache
def batch_files() -> dict[str, bytes]:
    """The folder of a finished batch."""
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        recommended(Path(place) / "b")
        return {file.name: file.read_bytes() for file in (Path(place) / "b").iterdir()}


def recommended(folder: Path) -> None:
    users = pl.DataFrame({"user_id": fitted("aur").fitted.users.ids.tolist()[:9]})
    al.recommend_batch(fitted("aur"), users, folder, k=2, per_part=4)


def make_batch(folder: Path) -> None:
    shutil.rmtree(folder / "b", ignore_errors=True)
    put(folder / "b", batch_files())


def exported(folder: Path) -> None:
    is_export(folder / "e")
    al.check_export(folder / "e", fitted("aur"))


@cache
def export_files() -> dict[str, bytes]:
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        al.export(fitted("aur"), Path(place) / "e", "parquet")
        return {file.name: file.read_bytes() for file in (Path(place) / "e").iterdir() if file.is_file()}


@cache
def pairs_on_disk() -> dict[str, bytes]:
    """A parquet file, and the files that `al.read(on_disk=)` makes of it."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        pl.DataFrame(columns(30)).write_parquet(place / "s.parquet")
        os.utime(place / "s.parquet", (0, 0))
        maps = al.read(place / "s.parquet", on_disk=place / "c", duplicates="sum").on_disk
        assert maps is not None
        _ = maps.by_item
        return {str(file.relative_to(place)): file.read_bytes() for file in place.rglob("*") if file.is_file()}


def lay_pairs(folder: Path) -> None:
    for name, content in pairs_on_disk().items():
        put((folder / name).parent, {Path(name).name: content})
    os.utime(folder / "s.parquet", (0, 0))


def read_on_disk(seal: bool, folder: Path) -> None:
    """Find the files again and use them. With `seal` their checksums are right, as those of an attacker are."""
    for part in (folder / "c", folder / "c" / "by-item") if seal else ():
        facts = json.loads((part / "manifest.json").read_text())
        for name, about in facts["files"].items():
            content = (part / name).read_bytes()
            about |= {"bytes": len(content), "crc32": zlib.crc32(content)}
        (part / "manifest.json").write_text(json.dumps(facts))
    data = al.read(folder / "s.parquet", on_disk=folder / "c", duplicates="sum")
    assert data.on_disk is not None
    with suppress(al.AleatorError):
        al.MF(dim=2, l2=0.1, iterations=1).fit_pairs(data)
        _ = data.csr.sum(), data.popularity


def pretended(_: Search, options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "recall@20": 0.1 + 0.001 * len(repr(options)),
        "tail_recall@50": 0.5,
        "epochs": 3,
        "lam": 0.5,
        "setting": {"residuals": "in-sample"},
    }


def tuned(folder: Path) -> None:
    """Go on with a study for one more trial, which takes no time."""
    with mock.patch.object(Search, "measure", pretended):
        al.tune(world(), "mf", trials=4, study=folder / "study.db", only="uncertainty").to_toml()


@cache
def study_seed() -> list[bytes]:
    import tempfile

    with tempfile.TemporaryDirectory() as place, mock.patch.object(Search, "measure", pretended):
        al.tune(world(), "mf", trials=3, study=Path(place) / "study.db", only="uncertainty")
        return [(Path(place) / "study.db").read_bytes()]


def reported(study: str, folder: Path) -> None:
    """Read records, and make the tables and figures of a report of them."""
    for row in records.latest(records.read(folder / "r" / study / "case.jsonl")):
        records.made_of(row)
    for shown, _, _, rows in report.sections(folder / "r"):
        report.shown_of(shown, rows, folder)
    plt.close("all")


def record_seed(study: str) -> list[bytes]:
    """Real records of the repository: the first short one of each part."""
    lines: dict[Any, bytes] = {}
    for file in sorted((Path(__file__).parents[1] / "results" / study).glob("*.jsonl")):
        for line in file.read_bytes().splitlines(keepends=True):
            if len(line) < 10_000:
                lines.setdefault(json.loads(line).get("part"), line)
    return list(lines.values())


# Options

OWNERS = [*MODELS.classes.values(), *ESTIMATORS.classes.values()]
OPTIONS = sorted(
    {name for owner in OWNERS for name in owner.option_names()} | {f"model.{n}" for n in al.MF.option_names()}
)
NAMES = [
    *OPTIONS,
    *al.AUR.option_names(),
    *(f"estimator.{n}" for n in al.FactorEstimator.option_names()),
    "joint",
    "joint.lr",
    "model",
]
TOML = [
    b'alpha = 2.0\nlam = 0.5\nselect = "overall"\n[model]\ndim = 8\nl2 = 0.1\n[estimator]\nlr = 0.01\nmax_epochs = 3\n',
    b"seed = 3\njoint = true\n[joint]\nlr = 0.1\n",
    b'tail = "mass:0.5"\nresiduals = "in-sample"\nmodel.dim = 16\nrefit = false\n',
]


def built(given_settings: dict[str, Any], **made: Any) -> None:
    for model, estimator, uncertainty in (
        ("mf", "factor", True),
        ("lightgcn", "mlp", True),
        (None, None, True),
        ("ease", None, False),
    ):
        with suppress(al.AleatorError):
            found = build(
                model, given_settings, with_uncertainty=uncertainty, recipe="ours", estimator=estimator, **made
            )
            repr(found)
            found.get_params()
            found.asked_for()


def configured(folder: Path) -> None:
    built(parse_settings(folder / "run.toml", None))


def set_words(folder: Path) -> None:
    """Lines as the texts of --set. A shell gives arguments without NUL, and bytes that are no UTF-8 as surrogates."""
    words = (folder / "set.txt").read_bytes().replace(b"\0", b"").decode(errors="surrogateescape").split("\n")
    built(parse_settings(None, [word for word in words if word]))


def odd_values() -> st.SearchStrategy[Any]:
    """Values that a program may give where an option is asked for."""
    plain = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=8)
        | st.sampled_from(["cpu", "cuda:9", "auto", "ours"])
    )
    return st.recursive(
        plain,
        lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=4), inside, max_size=3),
        max_leaves=4,
    )


@given(st.dictionaries(st.sampled_from(NAMES), odd_values(), max_size=4))
@settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
def odd_options(found: dict[str, Any]) -> None:
    nested: dict[str, Any] = {}
    for name, value in found.items():
        owner, _, last = name.rpartition(".")
        inside = nested.setdefault(owner, {}) if owner else nested
        if isinstance(inside, dict):
            inside[last] = value
    built(nested)


# What programs give


def cells() -> st.SearchStrategy[list[Any]]:
    one = st.one_of(
        st.integers(-3, 9),
        st.integers(),
        st.floats(),
        st.text(max_size=4),
        st.none(),
        st.booleans(),
        st.dates(),
        st.binary(max_size=3),
        st.just("2020-01-01"),
    )
    same = st.one_of(
        *(
            st.lists(kind, min_size=3, max_size=3)
            for kind in (st.integers(0, 5), st.floats(), st.text(max_size=3), st.integers())
        )
    )
    return same | st.lists(one, max_size=4)


@given(
    st.dictionaries(st.sampled_from(["user", "item", "rating", "weight", "time", "title", "x"]), cells(), min_size=2),
    st.sampled_from(["dict", "array", "polars", "pandas"]),
    st.sampled_from(["error", "drop"]),
    st.sampled_from(["first", "sum"]),
)
@settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
def odd_columns(found: dict[str, list[Any]], kind: str, missing: Any, duplicates: Any) -> None:
    source: Any = found
    try:
        if kind == "array":
            source = {name: np.array(column) for name, column in found.items()}
        elif kind != "dict":
            import pandas as pd

            source = pl.DataFrame(found, strict=False) if kind == "polars" else pd.DataFrame(found)
    except (ValueError, TypeError, OverflowError, pl.exceptions.PolarsError):
        return  # no such frame
    used(al.read(source, missing=missing, duplicates=duplicates))


@given(
    odd_values(),
    odd_values(),
    st.dictionaries(
        st.sampled_from(["lam", "allow", "deny", "where", "explain", "filter_seen", "untrained"]),
        odd_values(),
        max_size=2,
    ),
)
@settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
def odd_requests(users: Any, k: Any, options: dict[str, Any]) -> None:
    model = fitted("aur")
    for who in (users, ["u1", users], {"new": users}, ["u1"]):
        for many in (k, 3):
            with suppress(al.AleatorError):
                model.recommend(who, k=many, **options)
        with suppress(al.AleatorError):
            model.score(who)


@given(odd_values(), odd_values())
@settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
def odd_histories(items: Any, k: Any) -> None:
    for kind in ("aur", "itemknn"):
        model = fitted(kind)
        for history in (items, [items], [3, items]):
            with suppress(al.AleatorError):
                model.recommend({"new": history}, k=2)
        for item in (items, [items], [3, items]):
            with suppress(al.AleatorError):
                model.score(["u1"], item)
            with suppress(al.AleatorError):
                model.similar_items(item, k=k)


def from_bytes(test: Any) -> Read:
    """A test of hypothesis, whose choices are the bytes of a case."""
    return lambda folder: test.hypothesis.fuzz_one_input((folder / "case.bin").read_bytes())


def noise() -> list[bytes]:
    draw = np.random.default_rng(0)
    return [draw.integers(0, 256, size, np.uint8).tobytes() for size in (30, 80, 200, 600)] + [bytes(200), b"\1" * 200]


def of_hypothesis(test: Any) -> Way:
    return Way("case.bin", from_bytes(test), noise)


# The catalogue

CATALOGUE: dict[str, tuple[str, dict[str, bytes]]] = {
    "ml-100k official": (
        "ml-100k",
        {"ua.base": DATA, "ua.test": b"196\t377\t1\t9\n", "u.item": b"242|Kolya (1996)|24-Jan-1997\n377|Heavyweights\n"},
    ),
    "ml-100k of RecBole": (
        "ml-100k",
        {
            "ml-100k.inter": INTER + b"".join(b"1\t%d\t3\t%d\n" % (n, n) for n in range(20, 40)),
            "ml-100k.item": b"item_id:token\tmovie_title:token\trelease_year:token\tclass:token\n10\tHeat\t1995\tA\n",
        },
    ),
    "ml-1m": (
        "ml-1m",
        {
            "ratings.dat": b"".join(b"1::%d::3::%d\n" % (n, n) for n in range(20, 40)),
            "movies.dat": b"20::Heat (1995)::Crime\n",
        },
    ),
    "coat": ("coat", {"train.ascii": b"0 5 4\n4 0 1\n", "test.ascii": b"5 0 0\n0 4 0\n"}),
    "adjacency": ("gowalla", {"train.txt": TRAIN, "test.txt": b"0 4\n1 3\n"}),
}  # fmt: skip


def make_source(name: str, folder: Path) -> None:
    dataset, files = CATALOGUE[name]
    put(folder / dataset, files)


def from_catalogue(name: str, folder: Path) -> None:
    with mock.patch.dict(os.environ, {"XDG_CACHE_HOME": str(folder / "none"), "ALEATOR_DATA": ""}):
        used(al.load_dataset(CATALOGUE[name][0], folder, download=False))


def catalogue_ways() -> dict[str, Way]:
    ways = {}
    for name, (dataset, files) in CATALOGUE.items():
        for file, content in files.items():
            ways[f"{name}: {file}"] = Way(
                f"{dataset}/{file}", partial(from_catalogue, name), partial(list, [content]), partial(make_source, name)
            )
    ways["archive"] = Way("gowalla.npz", _archive, _archive_seed)
    return ways


def _archive_seed() -> list[bytes]:
    file = io.BytesIO()
    pairs = {"train_user": [0, 0, 1, 2], "train_item": [1, 2, 2, 0], "test_user": [0, 1], "test_item": [3, 1]}
    arrays: dict[str, Any] = {name: np.array(column) for name, column in pairs.items()}
    np.savez(file, **arrays)
    return [file.getvalue()]


def _archive(folder: Path) -> None:
    with mock.patch.dict(os.environ, {"XDG_CACHE_HOME": str(folder / "none"), "ALEATOR_DATA": ""}):
        used(al.load_dataset("gowalla", folder, download=False))


def csv_ways() -> dict[str, Way]:
    ways = interactions_ways(
        "case.csv",
        lambda: CSVS,
        weighted={"weight": "rating", "duplicates": "sum"},
        european={"sep": ";", "decimal": ",", "dates": ("%d.%m.%Y %H:%M", "%d.%m.%Y")},
        latin={"encoding": "latin-1"},
    )
    wide = partial(reading, "case.csv", encoding="utf-16")
    ways["wide"] = Way("case.csv", wide(), lambda: [text.decode(errors="replace").encode("utf-16") for text in CSVS])
    ways["written as csv"] = Way("case.csv", written("case.csv", "csv"), lambda: CSVS)
    ways["written as npz"] = Way("case.csv", written("case.csv", "npz"), lambda: CSVS)
    ways["written as parquet"] = Way("case.csv", written("case.csv", "parquet"), lambda: CSVS)
    return ways


def table_ways(read: Callable[[Path, str], object], texts: list[bytes], frame: Any) -> dict[str, Way]:
    """A reader of tables, from csv, tsv, csv.gz and parquet."""
    endings: dict[str, Callable[[], list[bytes]]] = {
        "csv": lambda: texts,
        "tsv": lambda: [text.replace(b",", b"\t") for text in texts],
        "csv.gz": lambda: packed(*texts),
        "parquet": lambda: [as_parquet(frame), as_parquet(frame, compression="uncompressed")],
    }
    return {
        ending: Way(f"case.{ending}", partial(_read_as, read, f"case.{ending}"), seeds)
        for ending, seeds in endings.items()
    }


def _read_as(read: Callable[[Path, str], object], name: str, folder: Path) -> None:
    read(folder, name)


SLOW = {"checkpoints of fits": 40, "trials": 40}  # how many times as long as elsewhere a case takes


def readers() -> dict[str, Callable[[], dict[str, Way]]]:
    """Every reader by its name. Its ways are made in the process that attacks it: they may fit models."""
    found: dict[str, Callable[[], dict[str, Way]]] = {
        "csv": csv_ways,
        "tsv": lambda: interactions_ways("case.tsv", lambda: TSVS),
        "csv.gz": lambda: interactions_ways("case.csv.gz", lambda: packed(*CSVS), latin={"encoding": "latin-1"}),
        "inter": lambda: interactions_ways("case.inter", lambda: [INTER]),
        "u.data": lambda: interactions_ways("u.data", lambda: [DATA]),
        "ratings.dat": lambda: interactions_ways("ratings.dat", lambda: [DAT]),
        "train.txt": lambda: {
            "plain": Way("train.txt", reading("train.txt"), lambda: [TRAIN]),
            "packed": Way("train.txt.gz", reading("train.txt.gz"), lambda: packed(TRAIN)),
        },
        "parquet": lambda: interactions_ways("case.parquet", parquets),
        "npz": lambda: interactions_ways("case.npz", archives),
        "titles": lambda: table_ways(titled, TITLES, pl.DataFrame({"item_id": [1, 2], "title": ["a", "b"]})),
        "attributes": lambda: table_ways(
            attributed, ATTRIBUTES, pl.DataFrame({"item_id": [1, 2], "g": [["a"], ["b", "c"]], "y": [1.5, None]})
        ),
        "users": lambda: table_ways(
            users_read,
            [b"user_id,name\n1,Ann\n2,Bob\n9,\n", b"user\na\nb\n"],
            pl.DataFrame({"user_id": [1, 2], "x": ["a", "b"]}),
        ),
        "allow and deny": lambda: table_ways(
            listed_read,
            [b"item_id\n1\n3\n", b"user_id,item_id\n1,1\na,x\n2,3\n"],
            pl.DataFrame({"user": [1, 2], "item": [1, 3]}),
        ),
        "npy factors": lambda: {
            "pair": Way("x.npy", pair("x.npy", "y.npy"), npys, partial(make_side, content=npys()[0], name="y.npy")),
            "array": Way("x.npy", lambda folder: read_array(folder / "x.npy", ndim=1), npys),
        },
        "safetensors factors": lambda: {
            "pair": Way(
                "x.safetensors",
                pair("x.safetensors", "y.npy"),
                safetensor_seeds,
                partial(make_side, content=npys()[0], name="y.npy"),
            ),
        },
        "parquet factors": lambda: {
            "file": Way("x.parquet", lambda folder: read_factors(folder / "x.parquet"), factor_parquets),
            "pair": Way(
                "x.parquet",
                pair("x.parquet", "y.npy"),
                factor_parquets,
                partial(make_side, content=npys()[0], name="y.npy"),
            ),
        },
        "Spark folders": lambda: {
            f"{side}Factors": Way(
                f"als/{side}Factors/part-0.snappy.parquet",
                lambda folder: grafted(folder / "als"),
                factor_parquets,
                lambda folder: make_spark(_new(folder / "als")),
            )
            for side in ("user", "item")
        },
        "item-item npz": lambda: {
            "read": Way("m.npz", lambda folder: read_sparse(folder / "m.npz"), similarity_seeds),
            "graft": Way("m.npz", lambda folder: grafted(folder / "m.npz"), similarity_seeds),
        },
        "tables of scores": lambda: {
            "csv": Way("s.csv", lambda folder: grafted(folder / "s.csv"), score_seeds),
            "parquet": Way("s.parquet", lambda folder: grafted(folder / "s.parquet"), score_parquets),
            "frame": Way("s.csv", lambda folder: read_scores(folder / "s.csv"), score_seeds),
        },
        "ids": lambda: {
            ending: Way(f"ids.{ending}", partial(_read_ids, f"ids.{ending}"), seeds)
            for ending, seeds in {
                "txt": lambda: [b"1\n2\n3\n", b"a\nb\nc\n"],
                "npy": npys,
                "parquet": lambda: score_parquets(),
            }.items()
        },
        "checkpoints of fits": checkpoint_ways,
        "journals of batches": lambda: {
            "journal": Way(
                "b/_journal.jsonl",
                lambda folder: recommended(folder / "b"),
                lambda: [batch_files()[JOURNAL]],
                make_batch,
            )
        },
        "export manifests": lambda: {
            "manifest": Way(
                "e/manifest.json",
                exported,
                lambda: [export_files()["manifest.json"]],
                lambda folder: put(folder / "e", export_files()),
            )
        },
        "pairs on disk": lambda: {
            name.replace("/", " "): Way(
                name,
                partial(read_on_disk, not name.endswith(".json")),
                lambda name=name: [pairs_on_disk()[name]],  # type: ignore[misc]
                lay_pairs,
            )
            for name in sorted(pairs_on_disk())
            if name != "s.parquet"
        },
        "records": lambda: {
            study: Way(f"r/{study}/case.jsonl", partial(reported, study), partial(record_seed, study))
            for study in (
                "main",
                "alpha",
                "beyond",
                "calibration",
                "case",
                "correlation",
                "theorem",
                "variants",
                "worst_case",
            )
        },
        "model folders": model_ways,
        "config files": lambda: {"toml": Way("run.toml", configured, lambda: TOML)},
        "set words": lambda: {
            "words": Way(
                "set.txt",
                set_words,
                lambda: [
                    b"\n".join(f"{name}=1".encode() for name in NAMES[n : n + 3]) for n in range(0, len(NAMES), 3)
                ],
            )
        },
        "options": lambda: {"values": of_hypothesis(odd_options)},
        "columns and frames": lambda: {"columns": of_hypothesis(odd_columns)},
        "requests": lambda: {"recommend": of_hypothesis(odd_requests), "histories": of_hypothesis(odd_histories)},
        "files of the catalogue": catalogue_ways,
    }
    if importlib.util.find_spec("onnxruntime"):
        found["ONNX"] = lambda: {"graft": Way("net.onnx", lambda folder: grafted(folder / "net.onnx"), lambda: [ONNX])}
    if importlib.util.find_spec("optuna"):
        found["trials"] = lambda: {"study": Way("study.db", tuned, study_seed)}
    return found


def _new(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def _read_ids(name: str, folder: Path) -> None:
    grafted((np.eye(3), np.eye(3)), users=read_ids(folder / name))
