"""Files to graft from: factors, an item-item matrix, a table of scores. They are untrusted, so nothing in them is run.

Sizes that a file claims are held against its true size before memory is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
from safetensors import safe_open

from aleator.data.archives import read_header
from aleator.data.arrays import Array, require_texts
from aleator.data.files import format_of, require_file
from aleator.data.limits import Limit
from aleator.data.parquet_size import check_parquet
from aleator.data.reading import Reading
from aleator.data.tables import read_table
from aleator.data.text import literal, reading_file
from aleator.errors import need, parsing, require

Named = tuple[Any, Array | None]  # a matrix, and the ids of its rows if the file has them
TABLES = (".csv", ".tsv", ".parquet")  # endings of tables of scores
_FACTORS = "give a .npy, .safetensors or .parquet file, or a folder of parquet files"


def read_factors(path: Path) -> Named:
    """A matrix of factors, and the ids of its rows if the file has them."""
    if path.is_dir():
        return _read_parquet(path)
    require_file(path)
    readers: dict[str, Callable[[Path], Named]] = {
        ".npy": lambda file: (read_array(file), None),
        ".safetensors": _read_safetensors,
        ".parquet": _read_parquet,
    }
    require(path.suffix in readers, f"'{path}' is no file of factors", _FACTORS)
    return readers[path.suffix](path)


def read_spark(folder: Path) -> tuple[Named, Named]:
    """User and item factors of a folder that ALSModel.save of Spark wrote."""
    for name in ("userFactors", "itemFactors"):
        require((folder / name).is_dir(), f"'{folder}' has no folder {name}", "give a folder that ALSModel.save wrote")
    return _read_parquet(folder / "userFactors"), _read_parquet(folder / "itemFactors")


def read_scores(path: Path) -> Any:
    """A table of candidates as a polars frame: user_id, item_id, score."""
    require_file(path)
    table = read_table(path, format_of(path), Reading())
    if path.suffix == ".parquet":
        return table
    need("polars", "a table of scores")
    import polars as pl

    columns = [
        _whole(table[name].to_list()) if name.endswith("_id") else table[name].to_list() for name in table.columns
    ]
    frame = pl.DataFrame(dict(zip(table.columns, columns, strict=True)))
    return frame.with_columns(pl.col("score").cast(pl.Float64, strict=False)) if "score" in frame.columns else frame


def read_ids(path: Path) -> Array:
    """The ids of rows: a .npy file, the first column of a parquet file, or a text file with an id on each line."""
    require_file(path)
    if path.suffix == ".npy":
        return read_array(path, ndim=1)
    if path.suffix == ".parquet":
        return cast(Array, read_table(path, "parquet", Reading()).to_series(0).to_numpy())
    with parsing(path, "a text of ids"):
        lines = path.read_text(encoding="utf-8").splitlines()
    return np.array(_whole(lines), object)


def _whole(texts: list[Any]) -> list[Any]:
    """Texts as integers of 64 bits if that changes none of them, as `al.read` does."""
    try:
        made = np.array([int(text) for text in texts], np.int64).tolist()
    except (TypeError, ValueError, OverflowError):
        return texts
    return made if [str(number) for number in made] == texts else texts


def read_array(path: Path, ndim: int = 2) -> Array:
    """An array of numpy. It is mapped, so that a file which is shorter than it claims is refused before it is read."""
    with parsing(path, "an array of numpy"):
        with open(path, "rb") as file:  # np.load would offer to unpickle what is something else
            shape, dtype = read_header(file)
        there = min(shape, default=1) >= 0 and dtype.itemsize > 0  # numpy divides by it
        require(there, f"'{path}' claims the shape {shape} of {dtype}", "write it with numpy.save")
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    require(
        isinstance(found, np.ndarray) and found.ndim == ndim,
        f"'{path}' holds no array of {ndim} dimensions",
        "write one with numpy.save",
    )
    require_texts([found], f"'{path}'")
    return np.array(found)


def _read_safetensors(path: Path) -> Named:
    """The tensor "factors", or the only matrix of the file. The tensor "ids" has the ids, if there is one."""
    with parsing(path, "safetensors"), safe_open(path, "numpy") as file:
        matrices = [name for name in file.keys() if len(file.get_slice(name).get_shape()) == 2]  # noqa: SIM118
        require(
            "factors" in matrices or len(matrices) == 1,
            f"'{path}' has {len(matrices)} matrices",
            'name the matrix "factors"',
        )
        ids = file.get_tensor("ids") if "ids" in file.keys() else None  # noqa: SIM118
        return file.get_tensor("factors" if "factors" in matrices else matrices[0]), ids


def _read_parquet(path: Path) -> Named:
    """The columns id and features of a parquet file, or of all parquet files in a folder."""
    need("polars", "a parquet file")
    import polars as pl

    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    require(bool(files), f"'{path}' has no parquet files", "check the path")
    for file in files:
        check_parquet(Limit.of(file), ("id", "features"))
    with reading_file(path, "parquet"):
        table = pl.scan_parquet([literal(file) for file in files], glob=False, hive_partitioning=False)
        kinds = table.collect_schema()
        fits = isinstance(kinds.get("features"), (pl.List, pl.Array)) and "id" in kinds
        require(fits, f"'{path}' has the columns {', '.join(kinds.names())}", "name them id and features (a list)")
        rows = int(table.select(pl.len()).collect().item())
        require(rows > 0, f"'{path}' has no rows", "give at least one")
        features = pl.col("features").cast(pl.List(pl.Float32))
        width = int(table.head(1).select(features.list.len()).collect().item() or 0)
        require(width > 0, f"the first row of '{path}' has no numbers", "give each row as many")
        read = table.select("id", features).collect()
    same = bool((read["features"].list.len() == width).fill_null(False).all()) and not read["id"].null_count()
    require(same, f"the rows of '{path}' have no id or not {width} numbers each", "give each row as many")
    flat = read["features"].explode().to_numpy()
    return flat.reshape(len(read), width), read["id"].to_numpy()
