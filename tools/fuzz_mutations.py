"""How fuzz.py makes a new case of an old one: damages of bytes, of lines, of JSON, and of what is inside of containers.

A container has checksums or lengths that a damaged byte breaks. So its content is taken out, changed, and packed again.
Every function gets the content of a file and a generator, and is a function of both alone.
"""

from __future__ import annotations

import copy
import gzip
import io
import json
import random
import sqlite3
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

Mutation = Callable[[bytes, random.Random], bytes]
MOST = 1 << 16  # bytes of a case

WORDS = [
    b"", b'"', b'""', b'","', b"\n", b"\r\n", b"\r", b"\n\n", b"\t", b",", b";", b"::", b"|", b" ", b"\0", b"\x01",
    b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\xed\xa0\x80", b"\xf0\x9f\x92\xa9", "\u2028".encode(), b"\x1f\x8b",
    b"\x85", b"NaN", b"nan", b"inf", b"-inf", b"1e999", b"-0", b"0", b"-1", b"007", b"1.0", b"1.5", b"1e3", b"0x10",
    b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809", b"18446744073709551616", b"9" * 400,
    b"1e-320", b"1_000",
    "\u0663".encode(), b"true", b"False", b"null", b"None", b"2020-01-01", b"0000-00-00", b"99999-01-01", b"2020-13-45",
    b"2020-01-01T00:00:00+99:99", b"1677-09-21", b"-290308-01-01", b"../../etc/passwd", b"s3://a/b", b"~", b"%d", b"{}",
    b"[]",
    b"user_id", b"item_id", b"rating", b"weight", b"timestamp", b"title", b"user_id:token", b"item_id_list:token_seq",
    b"a" * 300, b"(1,2)", b"'x'", b"#", b"//", b"=1+1",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 3, 10**6, 2**31, 1 << 62, 1 << 64, 10**30, 0.0, 0.5, -0.5, 1e-320, 1e308, float("nan"),
    float("inf"), "", "x", "cuda:7", "\ud800", "../../x", "9" * 5000, "1", "nan", [], [[]], [0], ["x"], [[1, 2]], {},
    {"x": 1}, {"kind": "MF", "options": {}}, 2**53 + 0.5,
]  # fmt: skip
INTEGERS = [
    0,
    1,
    2,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    1 << 20,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
]


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Bytes that are changed, cut, repeated or moved, with no look at what they are."""
    made = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 4, 16))):
        at = draw.randrange(len(made) + 1)
        end = min(len(made), at + draw.choice((1, 2, 4, 8, 40, 400)))
        match draw.randrange(9):
            case 0 if at < len(made):
                made[at] ^= 1 << draw.randrange(8)
            case 1 if at < len(made):
                made[at] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
            case 2:
                del made[at:end]
            case 3:
                made[at:at] = made[at:end] * draw.choice((1, 1, 2, 20))
            case 4:
                made[at:at] = draw.choice(WORDS)
            case 5:
                made[at:end] = draw.choice(WORDS)
            case 6:
                size = draw.choice((2, 4, 8))
                number = draw.choice(INTEGERS) % (1 << 8 * size)
                made[at : at + size] = number.to_bytes(size, draw.choice(("little", "big")))
            case 7:
                other = draw.randrange(len(made) + 1)
                made[at:end] = made[other : other + end - at]
            case _:
                del made[at:]
    return bytes(made[:MOST])


def other_lines(content: bytes, draw: random.Random) -> bytes:
    """Lines and cells of a text that are replaced, dropped, repeated or swapped."""
    mark = max((b",", b"\t", b";", b"::", b"|", b" "), key=content.count)
    end = b"\r\n" if b"\r\n" in content else b"\n"
    lines = [line.split(mark) for line in content.split(end)]
    for _ in range(draw.choice((1, 1, 2, 5))):
        row = draw.randrange(len(lines)) if draw.random() < 0.7 else 0
        cells = lines[row]
        cell = draw.randrange(len(cells))
        match draw.randrange(8):
            case 0 | 1 | 2:
                cells[cell] = draw.choice(WORDS)
            case 3:
                cells.insert(cell, draw.choice(WORDS))
            case 4 if len(cells) > 1:
                del cells[cell]
            case 5:
                lines.insert(row, list(draw.choice(lines)))
            case 6 if len(lines) > 1:
                del lines[row]
            case _:
                word = draw.choice(WORDS)
                for line in lines:  # a whole column
                    if cell < len(line):
                        line[cell] = word
    if draw.random() < 0.05:
        end = draw.choice((b"\r", b"\n", b"\r\n", b"\n\n", b"\0"))
    if draw.random() < 0.05:
        mark = draw.choice((b",", b"\t", b";", b"::", b"|", b" ", b"\x01"))
    return end.join(mark.join(line) for line in lines)[:MOST]


def text(content: bytes, draw: random.Random) -> bytes:
    """A text with other lines or with damaged bytes, or in another encoding."""
    made = damaged(content, draw) if draw.random() < 0.35 else other_lines(content, draw)
    if draw.random() < 0.03:
        with suppress(UnicodeError):
            made = made.decode().encode(draw.choice(("utf-16", "utf-32", "utf-16-be", "cp1252", "utf-8-sig")))
    return made


def packed_text(content: bytes, draw: random.Random) -> bytes:
    """What is in a gzip file, changed and packed again; sometimes packed twice, or as a bomb."""
    if draw.random() < 0.3:
        return damaged(content, draw)
    with suppress(OSError, EOFError, zlib.error):
        inside = text(gzip.decompress(content), draw)
        if draw.random() < 0.01:
            inside += b"\n" * draw.choice((1 << 20, 1 << 22)) + b"7,7," * (1 << 18)
        made = gzip.compress(inside, 1, mtime=0)
        return gzip.compress(made, 1, mtime=0) if draw.random() < 0.03 else made
    return damaged(content, draw)


def archive(content: bytes, draw: random.Random) -> bytes:
    """What is in a zip file, changed and packed again with right checksums."""
    if draw.random() < 0.3:
        return damaged(content, draw)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            parts = [(name, packed.read(name)) for name in packed.namelist()]
    except Exception:
        return damaged(content, draw)
    if not parts:
        return damaged(content, draw)
    place = draw.randrange(len(parts))
    name, inside = parts[place]
    match draw.randrange(8):
        case 0:
            del parts[place]
        case 1:
            parts[place] = (
                draw.choice(("user.npy", "train_user.npy", "x", "a_b", "../x.npy", "shape.npy", "data.npy")),
                inside,
            )
        case 2:
            parts[place] = (name, draw.choice(parts)[1])
        case 3:
            parts.append((name, damaged(inside, draw)))
        case _:
            parts[place] = (name, array(inside, draw) if inside[:1] == b"\x93" else text(inside, draw))
    made = io.BytesIO()
    how = draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))
    with zipfile.ZipFile(made, "w", how) as packed:
        for name, inside in parts:
            packed.writestr(zipfile.ZipInfo(name), inside, how)
    return made.getvalue()


TYPES = [
    "<i8",
    "<i4",
    ">i8",
    "|i1",
    "<u8",
    "<f8",
    "<f4",
    "<f2",
    "<c16",
    "|b1",
    "<U3",
    "|S5",
    "<M8[us]",
    "<M8[D]",
    "<m8[s]",
    "|V4",
    "|O",
    "<i0",
    "<U0",
    "<f16",
]
SHAPES = [
    (),
    (0,),
    (1,),
    (3,),
    (12,),
    (3, 4),
    (4, 3),
    (2, 2, 3),
    (1 << 40,),
    (1 << 62, 4),
    (-1,),
    (0, 1 << 40),
    (12, 0),
    (1,) * 40,
]


def array(content: bytes, draw: random.Random) -> bytes:
    """An array of numpy with another header of the right length, or with other bytes."""
    if draw.random() < 0.4 or content[:6] != b"\x93NUMPY" or len(content) < 12:
        return damaged(content, draw)
    size = int.from_bytes(content[8:10], "little")
    header, inside = content[10 : 10 + size], content[10 + size :]
    match draw.randrange(6):
        case 0:
            header = damaged(header, draw)
        case 1:
            told = {"descr": draw.choice(TYPES), "fortran_order": draw.random() < 0.3, "shape": draw.choice(SHAPES)}
            header = repr(told).encode()
        case 2:
            header = header.replace(b"(", draw.choice((b"(1,", b"(0,", b"(", b"((", b"[", b"(-", b"(9" * 50)), 1)
        case 3:
            at = header.find(b"'descr': ") + 9
            header = (
                header[:at]
                + draw.choice(
                    (
                        repr(draw.choice(TYPES)).encode(),
                        b"[('a', '<i8')]",
                        b"()",
                        b"1" * 300,
                        b"'O'",
                        b"[" * 60,
                        b"None",
                    )
                )
                + header[at + 5 :]
            )
        case 4:
            inside = b"".join(
                draw.choice((draw.randbytes(8), b"\0" * 8, b"\xff" * 8, b"\0" * 6 + b"\xf8\x7f", b"\x01" + b"\0" * 7))
                for _ in range(len(inside) // 8)
            )
        case _:
            inside = inside * draw.choice((0, 2, 3))
    header = header.rstrip(b"\n") + b"\n"
    return content[:8] + (len(header) % (1 << 16)).to_bytes(2, "little") + header + inside[:MOST]


def document(content: bytes, draw: random.Random) -> bytes:
    """A value of a JSON document replaced, taken away or moved; of several lines, one of them."""
    if draw.random() < 0.25:
        return damaged(content, draw)
    lines = content.splitlines() if content.count(b"\n{") > 0 else [content]
    place = draw.randrange(len(lines))
    try:
        value = json.loads(lines[place])
    except (ValueError, RecursionError):
        return damaged(content, draw)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        value = edited(value, draw)
    with suppress(RecursionError):
        lines[place] = json.dumps(value).encode()
    if draw.random() < 0.01:
        lines[place] = draw.choice((b"[" * 30_000, b'{"a":' * 5_000, b"9" * 6_000, b"null", b"[]", b"3", b'"x"'))
    return b"\n".join(lines) + (b"\n" if len(lines) > 1 else b"")


def edited(value: Any, draw: random.Random) -> Any:
    """A value of JSON with one of its values replaced, taken away or moved."""
    places = list(paths(value))
    if not places:
        return copy.deepcopy(draw.choice(VALUES))
    path = draw.choice(places)
    made = copy.deepcopy(value)
    inside = made
    for key in path[:-1]:
        inside = inside[key]
    match draw.randrange(6):
        case 0:
            del inside[path[-1]]
        case 1:
            inside[path[-1]] = copy.deepcopy(_at(value, draw.choice(places)))
        case 2 if isinstance(inside, dict):
            inside[draw.choice(("x", "", "kind", "options", "\ud800"))] = inside.pop(path[-1])
        case 3 if isinstance(inside[path[-1]], (int, float)):
            inside[path[-1]] = draw.choice(
                (inside[path[-1]] + 1, -inside[path[-1]], inside[path[-1]] * 10**6, str(inside[path[-1]]))
            )
        case _:
            inside[path[-1]] = copy.deepcopy(draw.choice(VALUES))
    return made


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every value. Of a long list, the first few stand for all."""
    if path:
        yield path
    keys: list[Any] = (
        list(value) if isinstance(value, dict) else list(range(min(len(value), 4))) if isinstance(value, list) else []
    )
    for key in keys:
        yield from paths(value[key], (*path, key))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def tensors(content: bytes, draw: random.Random) -> bytes:
    """A file of safetensors with another header of the right length, or with other bytes."""
    size = int.from_bytes(content[:8], "little")
    if draw.random() < 0.3 or not 0 < size <= len(content) - 8:
        return damaged(content, draw)
    header, inside = content[8 : 8 + size], content[8 + size :]
    if draw.random() < 0.3:
        inside = damaged(inside, draw)
        inside = inside[: len(content) - 8 - size].ljust(len(content) - 8 - size, b"\0")
    elif draw.random() < 0.5:
        for old in (b'"F32"', b'"I64"', b'"F64"', b'"U8"', b'"I32"', b'"BOOL"'):
            if old in header and draw.random() < 0.5:
                header = header.replace(
                    old,
                    draw.choice(
                        (b'"F16"', b'"BF16"', b'"F64"', b'"I64"', b'"I32"', b'"F32"', b'"BOOL"', b'"F8_E4M3"', b'"U16"')
                    ),
                    1,
                )
    else:
        header = document(header, draw)
    return len(header).to_bytes(8, "little") + header + inside


def database(content: bytes, draw: random.Random) -> bytes:
    """A database of SQLite with other values in a few cells, with rows or a table less, or with damaged bytes."""
    if draw.random() < 0.25:
        return damaged(content, draw) if draw.random() < 0.5 else _damaged_page(content, draw)
    held = sqlite3.connect(":memory:")
    try:
        held.deserialize(content)
        names = [row[0] for row in held.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for _ in range(draw.choice((1, 1, 2, 5))):
            table = draw.choice(names)
            columns = [row[1] for row in held.execute(f'PRAGMA table_info("{table}")')]
            rows = [row[0] for row in held.execute(f'SELECT rowid FROM "{table}"')]
            if not rows:
                continue
            row, column = draw.choice(rows), draw.choice(columns)
            values = [
                None,
                0,
                -1,
                1,
                2**40,
                0.5,
                "",
                "x",
                "NaN",
                "{}",
                "[]",
                '"x"',
                "null",
                "[" * 5000,
                b"\xff",
                1e308,
                "COMPLETE",
                "RUNNING",
            ]
            with suppress(sqlite3.Error):
                match draw.randrange(8):
                    case 0:
                        held.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (row,))
                    case 1:
                        held.execute(f'DROP TABLE "{table}"')
                        names.remove(table)
                    case _:
                        held.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', (draw.choice(values), row))
            if not names:
                break
        held.commit()
        return bytes(held.serialize())
    except (sqlite3.Error, UnicodeError):
        return damaged(content, draw)
    finally:
        held.close()


def _damaged_page(content: bytes, draw: random.Random) -> bytes:
    """Some bytes of a large file changed in place."""
    made = bytearray(content)
    for _ in range(draw.choice((1, 4, 30))):
        made[draw.randrange(len(made))] = draw.randrange(256)
    return bytes(made)


def mutation_for(name: str) -> Mutation:
    """What fits a file, by the ending of its name."""
    ending = name.rpartition(".")[2]
    kinds: dict[str, Mutation] = {
        "gz": packed_text,
        "npz": archive,
        "zip": archive,
        "npy": array,
        "json": document,
        "jsonl": document,
        "safetensors": tensors,
        "db": database,
        "parquet": damaged,
        "onnx": damaged,
        "bin": damaged,
    }
    return kinds.get(ending, text)
