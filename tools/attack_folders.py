"""Attack model folders: kill writers, damage files, and count what comes through.

    python tools/attack_folders.py kill [--kills 500]
    python tools/attack_folders.py damage [--cases 5000]

kill     A process saves two models in turn into one folder, and is killed at a random moment. It is started again until
         it was killed so many times. Meanwhile a reader loads the folder. Each load must give one of both models whole.
         After a kill nothing may be missing, and after the next save nothing may be left over.
damage   Copies of saved models are damaged and loaded: bits, ends and blocks of both files, every value of the manifest
         (with the old checksum and with the right one), and every tensor (with right checksums). Each case runs in a
         forked process. It must load as it was, or be refused by an AleatorError. With right checksums it may also be
         another model, which must answer. Peak memory is that of loading, against the size of the folder, or against
         1 MB if it was cut to less.

Both print what they counted and end with 1 if anything came through. `--seed` gives other cases.
"""

from __future__ import annotations

import argparse
import copy
import ctypes
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import aleator as al
from aleator import checkpoint
from aleator.recommender import Recommender

Answers = dict[str, Any]
MANIFEST = "manifest.json"
_LONGEST = 60  # seconds of a case
_LEAST = 1_000_000  # bytes that a peak is compared with at least: a folder may be cut to nothing


def simulated(users: int = 400, items: int = 300, per_user: int = 80) -> al.Interactions:
    """Interactions with texts as ids, weights and titles, so that a folder has every kind of tensor."""
    plain = al.simulate(n_users=users, n_items=items, per_user=per_user, seed=0).interactions
    names = [f"user {u:06}" for u in plain.user], [f"item {i:06} ☃" for i in plain.item]
    data = al.Interactions.of(*names, weight=1 + plain.item % 3)
    return data.with_titles({name: name.upper() for name in data.items.ids.tolist()})


def answers(model: Recommender) -> Answers:
    """What a model says: scores of users and of a newcomer, and lists."""
    data = model.fitted
    who = data.users.decode(range(0, data.n_users, max(data.n_users // 5, 1))).tolist()
    found: Answers = {"score": model.score(who), "kind": type(model).__name__, "notes": list(model.notes)}
    history = data.items.decode(data.popularity.argsort()[-3:]).tolist()
    found["newcomer"] = model.score({"someone": history})
    found["lists"] = model.recommend(who, k=10).rows()
    if isinstance(model, al.AUR):
        found["uncertainty"] = model.uncertainty(who)
    return found


def same(one: Answers, other: Answers) -> bool:
    """Whether two models say the same, to the bit."""
    return one.keys() == other.keys() and all(
        torch.equal(one[name], other[name]) if isinstance(one[name], Tensor) else repr(one[name]) == repr(other[name])
        for name in one
    )


# Kills


def attack_by_kills(kills: int, seed: int) -> int:
    """Kill a writer again and again beside a reader. Returns how often something went wrong."""
    draw = random.Random(seed)
    data = simulated()
    models = [al.EASE(l2=20.0, device="cpu").fit(data), al.MF(dim=300, iterations=1, l2=0.1, device="cpu").fit(data)]
    expected = [answers(model) for model in models]
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "model"
        models[0].save(folder)
        start = time.perf_counter()
        for model in models:
            model.save(folder)
        longest = 1.5 * (time.perf_counter() - start)
        reader, pipe = forked(lambda told: read_on(folder, expected, told))
        for number in range(kills):
            writer, _ = forked(lambda told: write_on(folder, models))
            time.sleep(longest * draw.random())
            os.kill(writer, signal.SIGKILL)
            os.waitpid(writer, 0)
            found["left by kills"] += len(list(folder.iterdir())) - 2
            found[judged(folder, expected)] += 1
            if draw.random() < 0.5:
                models[number % 2].save(folder)
                found["saves after a kill"] += 1
                found["LEFT OVER"] += len(list(folder.iterdir())) - 2 + len(list(Path(place).iterdir())) - 1
        os.kill(reader, signal.SIGTERM)
        read = Counter(json.loads(pipe.read()))
        os.waitpid(reader, 0)
    print(f"{kills} kills within {longest:.2f} s of the start of a writer; found after a kill:")
    print("\n".join(f"  {name:24}{count:8,}" for name, count in sorted(found.items())))
    print(f"a reader beside it, {sum(read.values()):,} loads:")
    print("\n".join(f"  {name:24}{count:8,}" for name, count in sorted(read.items())))
    return sum(count for name, count in (found + read).items() if name.isupper())


def write_on(folder: Path, models: Sequence[Recommender]) -> None:
    """Save one model after the other."""
    while True:
        for model in models:
            model.save(folder)


def read_on(folder: Path, expected: list[Answers], told: Any) -> None:
    """Load the folder until SIGTERM comes, then tell what was found."""
    found: Counter[str] = Counter()
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    while not ended:
        found[judged(folder, expected)] += 1
    told.write(json.dumps(found))


def judged(folder: Path, expected: list[Answers]) -> str:
    """Which model is in the folder."""
    try:
        found = answers(al.load_model(folder, device="cpu"))
    except Exception as error:
        print(f"  {type(error).__name__}: {error}", file=sys.stderr)
        return "MISSING"
    return next((f"model {found['kind']}" for one in expected if same(found, one)), "MIXED")


def forked(job: Callable[[Any], None]) -> tuple[int, Any]:
    """Start a job in a forked process. Returns its number, and what it writes."""
    source, sink = os.pipe()
    child = os.fork()
    if not child:
        with open(sink, "w") as told:
            job(told)
        os._exit(0)
    os.close(sink)
    return child, open(source)


# Damage


@dataclass(frozen=True)
class Case:
    """A damage to a folder, which is done to a copy of it."""

    kind: str
    harm: Callable[[Path], object]
    sealed: bool = False  # whether its checksums are right, so that it may be another model


def attack_by_damage(cases: int, seed: int) -> int:
    """Damage copies of folders in many ways and load them. Returns how often something went wrong."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    peaks: dict[str, float] = defaultdict(float)
    with tempfile.TemporaryDirectory() as place:
        folders = saved_models(Path(place))
        each = -(-cases // len(folders))
        for number, folder in enumerate(folders):
            plan = list(islice(planned(folder, random.Random(seed + number)), each))
            for case, (verdict, peak) in zip(plan, run(folder, plan), strict=True):
                found[case.kind][verdict] += 1
                peaks[case.kind] = max(peaks[case.kind], peak)
    verdicts = sorted({verdict for counts in found.values() for verdict in counts})
    print(f"{'damage':34}" + "".join(f"{verdict:>16}" for verdict in verdicts) + f"{'peak / folder':>16}")
    for kind, counts in found.items():
        numbers = "".join(f"{counts[verdict]:16,}" for verdict in verdicts)
        print(f"{kind:34}{numbers}{peaks[kind]:16.2f}")
    total: Counter[str] = sum(found.values(), Counter())
    numbers = "".join(f"{total[verdict]:16,}" for verdict in verdicts)
    print(f"{f'{total.total():,} cases':34}{numbers}{max(peaks.values()):16.2f}")
    return sum(count for verdict, count in total.items() if verdict.isupper()) + (max(peaks.values()) >= 4)


def saved_models(place: Path) -> list[Path]:
    """Folders of models of each way to store what was learned."""
    data = simulated(3000, 2000, 600)
    split = data.split(valid=0.1, test=0.1, seed=0)
    estimator = al.FactorEstimator(dim=256, max_epochs=2)
    made: dict[str, Recommender] = {
        "aur": al.AUR(al.MF(dim=128, iterations=2, l2=0.1), estimator=estimator, residuals="in-sample"),
        "mlp": al.AUR(
            al.FISM(dim=256, max_epochs=2),
            estimator=al.MLPEstimator(hidden=256, max_epochs=2),
            unobserved="constant",
            residuals="in-sample",
        ),
        "ease": al.EASE(l2=50.0),
        "itemknn": al.ItemKNN(neighbours=240),
        "multvae": al.MultVAE(hidden=256, dim=64, max_epochs=2, calibrate="isotonic"),
        "table": al.AUR(al.graft(listed(data)), estimator=estimator, lam=0.5),
    }
    for name, model in made.items():
        model.fit(split).save(place / name)
        size = sum(path.stat().st_size for path in (place / name).iterdir())
        print(f"{name}: {size / 1e6:.1f} MB")
    return [place / name for name in made]


def listed(data: al.Interactions) -> Any:
    """A table of candidates to graft: the observed pairs with scores, and some others."""
    import polars as pl

    draw = np.random.default_rng(0)
    cells = np.unique(draw.integers(0, data.n_users * data.n_items, 30 * data.n_users))
    cells = np.union1d(cells, data.user.astype(np.int64) * data.n_items + data.item)
    user, item = np.divmod(cells, data.n_items)
    score = draw.random(len(cells)) + np.asarray(data.csr[user, item]).ravel()
    ids = data.users.decode(user).tolist(), data.items.decode(item).tolist()
    return pl.DataFrame({"user_id": ids[0], "item_id": ids[1], "score": score})


def planned(folder: Path, draw: random.Random) -> Iterator[Case]:
    """Cases without end: rounds of a random edit of each place of the manifest and each tensor, amid damages of bytes."""
    edits = [*edits_of_manifest(folder), *edits_of_tensors(folder)]
    for cases in edits:
        draw.shuffle(cases)
    damages = damages_of_bytes(folder, draw)
    for case in (case for turn in zip_longest(*edits) for case in turn if case is not None):
        yield case
        yield next(damages)
    yield from damages


def damages_of_bytes(folder: Path, draw: random.Random) -> Iterator[Case]:
    """Damages of the two files without a look at what is in them. Every second one hits the manifest or a header."""
    tensors = next(folder.glob("tensors-*")).name
    header = 8 + int.from_bytes((folder / tensors).read_bytes()[:8], "little")
    whole = {MANIFEST: (folder / MANIFEST).stat().st_size, tensors: (folder / tensors).stat().st_size}
    places = [(MANIFEST, 0, whole[MANIFEST]), (tensors, 0, header), *[(tensors, header, whole[tensors])] * 2]
    while True:
        for name, low, high in places:
            part = "manifest" if name == MANIFEST else "header" if not low else "tensors"
            at = draw.randrange(low, high)
            yield Case(f"{part}: a bit", partial(flip, name, at, 1 << draw.randrange(8)))
            yield Case(f"{part}: a byte", partial(put, name, at, bytes([draw.randrange(256)])))
            yield Case(f"{part}: cut", partial(cut, name, at))
            yield Case(f"{part}: a block of zeros", partial(put, name, at, bytes(draw.randrange(1, 4096))))
            noise = draw.randbytes(draw.randrange(1, 4096))
            yield Case(f"{part}: a block of noise", partial(put, name, at, noise))
            yield Case(f"{part}: more at the end", partial(put, name, whole[name], noise))


def flip(name: str, at: int, bit: int, folder: Path) -> None:
    with (folder / name).open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ bit]))


def put(name: str, at: int, content: bytes, folder: Path) -> None:
    with (folder / name).open("r+b") as file:
        file.seek(at)
        file.write(content)


def cut(name: str, at: int, folder: Path) -> None:
    os.truncate(folder / name, at)


VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 3, 10**6, 1 << 62, 1 << 64, 10**30, 0.0, 0.5, -0.5, 1e-320, 1e308, "", "x", "cuda:7",
    "☃\ud800", [], [[]], [0], ["x"], [[1, 2]], {}, {"kind": "MF", "options": {}}, {"x": 1}, 2**53 + 0.5, "9" * 5000,
)  # fmt: skip
NO_JSON = ("NaN", "Infinity", "-Infinity", "1e999", "9" * 5000, "[" * 50_000, '{"a": 1, "a": 2}', "'x'", "")


def edits_of_manifest(folder: Path) -> list[list[Case]]:
    """For each place of the manifest: no value, no JSON, and each of many values, with right checksums and without."""
    bombs = ("{}," * 1_300_000, "[" * 4_000_000, '"' + "x" * 4_000_000 + '",', "0," * 2_000_000, "-1.5," * 190_000)
    cases = [[Case("manifest: a bomb", partial(bomb, text))] for text in bombs]
    for path in paths(json.loads((folder / MANIFEST).read_text())):
        values = [Case("manifest: a value, sealed", partial(edit, path, value, True), True) for value in VALUES]
        cases.append([*values, Case("manifest: no value, sealed", partial(edit, path, Ellipsis, True), True)])
        others = [Case("manifest: no JSON", partial(edit_text, path, text)) for text in NO_JSON]
        cases.append([*others, *(Case("manifest: a value", partial(edit, path, value, False)) for value in VALUES)])
    return cases


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every value. Of the items of a list, the first, the second and the last stand for all."""
    if path:
        yield path
    if isinstance(value, dict):
        inside: list[Any] = list(value)
    else:
        inside = sorted({0, 1, len(value) - 1} & set(range(len(value)))) if isinstance(value, list) else []
    for key in inside:
        yield from paths(value[key], (*path, key))


def edit(path: tuple[Any, ...], value: Any, seal: bool, folder: Path) -> None:
    """Put a value into the manifest. Ellipsis takes what is there away."""
    manifest = json.loads((folder / MANIFEST).read_text())
    changed = manifest
    for key in path[:-1]:
        changed = changed[key]
    if value is Ellipsis:
        del changed[path[-1]]
    else:
        changed[path[-1]] = copy.deepcopy(value)
    (folder / MANIFEST).write_text(json.dumps(checkpoint.sealed(manifest) if seal else manifest))


def edit_text(path: tuple[Any, ...], text: str, folder: Path) -> None:
    """Put a text that is no JSON in the place of a value."""
    edit(path, "HERE", False, folder)
    whole = (folder / MANIFEST).read_text()
    (folder / MANIFEST).write_text(whole.replace('"HERE"', text))


def bomb(text: str, folder: Path) -> None:
    """Put a value into the manifest that takes much more memory than its text."""
    whole = (folder / MANIFEST).read_text()
    (folder / MANIFEST).write_text(whole.replace("{", '{"more": [' + text + "0],", 1))


def edits_of_tensors(folder: Path) -> list[list[Case]]:
    """Each tensor in another shape, of another type or with other numbers, and right checksums."""
    _, tensors = checkpoint.read(folder)
    changes: dict[str, Callable[[Tensor], Tensor]] = {
        "gone": lambda t: t[:0],
        "a row less": lambda t: t[1:],
        "a row more": lambda t: torch.cat([t, t[-1:]]),
        "another shape": lambda t: t[None],
        "flat": lambda t: t.flatten()[:1].reshape(()),
        "double": lambda t: t.double(),
        "int64": lambda t: t.double().nan_to_num().long(),
        "int8": lambda t: t.to(torch.int8),
        "bool": lambda t: t.bool(),
        "bfloat16": lambda t: t.to(torch.bfloat16),
        "reversed": lambda t: t.flip(0),
        "zeros": torch.zeros_like,
        "ones": torch.ones_like,
        "lowest": lambda t: torch.full_like(t, low(t)),
        "highest": lambda t: torch.full_like(t, -1 - low(t) if not t.is_floating_point() else -low(t)),
        "NaN": lambda t: torch.full_like(t.float(), torch.nan).to(t.dtype),
        "infinite": lambda t: t.float().fill_(torch.inf) if t.is_floating_point() else t,
        "one is negative": lambda t: torch.cat([t[:1] * 0 - 1 if t.dtype != torch.bool else t[:1], t[1:]]),
    }
    return [
        [Case("tensors: one is missing, sealed", partial(drop_tensor, name), True)]
        + [
            Case(f"tensors: {kind}, sealed", partial(change_tensor, name, change), True)
            for kind, change in changes.items()
        ]
        for name in tensors
    ]


def low(tensor: Tensor) -> Any:
    kind = tensor.dtype
    return 0 if kind == torch.bool else (torch.finfo if kind.is_floating_point else torch.iinfo)(kind).min


def change_tensor(name: str, change: Callable[[Tensor], Tensor], folder: Path) -> None:
    manifest, tensors = checkpoint.read(folder)
    rewrite(folder, manifest, tensors | {name: change(tensors[name].clone())})


def drop_tensor(name: str, folder: Path) -> None:
    manifest, tensors = checkpoint.read(folder)
    rewrite(folder, manifest, {other: tensor for other, tensor in tensors.items() if other != name})


def rewrite(folder: Path, manifest: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    own = {name: value for name, value in manifest.items() if name not in ("tensors", "checksum", "format")}
    checkpoint.write(folder, own, tensors)


def run(folder: Path, plan: list[Case]) -> Iterator[tuple[str, float]]:
    """The verdict on each case, and its peak memory as a multiple of the folder. A process that dies is replaced."""
    at = 0
    while at < len(plan):
        child, pipe = forked(partial(judge_all, folder, plan[at : at + 250]))
        lines = pipe.read().splitlines()
        _, status = os.waitpid(child, 0)
        for line in lines:
            verdict, peak = json.loads(line)
            yield verdict, peak
        at += len(lines)
        if status:
            print(f"  {plan[at].kind} {plan[at].harm}: ended by {os.waitstatus_to_exitcode(status)}", file=sys.stderr)
            yield "DIED OR HUNG", 0.0
            at += 1


def judge_all(folder: Path, plan: list[Case], told: Any) -> None:
    """Judge cases one after the other, and tell of each."""
    warnings.simplefilter("ignore")
    libc = ctypes.CDLL(None)
    libc.mallopt(-3, 1 << 16)  # blocks of 64 kB and more go back to the system at once, so that peaks are seen
    expected = answers(al.load_model(folder, device="cpu"))
    for case in plan:
        signal.alarm(_LONGEST)
        with tempfile.TemporaryDirectory() as place:
            copied = shutil.copytree(folder, Path(place) / "model")
            case.harm(copied)
            size = sum(path.stat().st_size for path in copied.iterdir())
            libc.malloc_trim(0)
            verdict, peak = judge(case, copied, expected)
            if peak > size:  # it may have been code that was loaded for the first time
                libc.malloc_trim(0)
                peak = min(peak, judge(case, copied, expected)[1])
        told.write(json.dumps([verdict, peak / max(size, _LEAST)]) + "\n")
        told.flush()


def judge(case: Case, folder: Path, expected: Answers) -> tuple[str, int]:
    """Load a damaged folder, and ask it. Returns the verdict and the bytes that loading took at most."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = resident("VmRSS")
    model = None
    try:
        model = al.load_model(folder, device="cpu")
        verdict = ""
    except al.AleatorError as error:
        verdict = "refused" if len(str(error)) < 2000 else "LONG MESSAGE"
    except Exception as error:
        verdict = escaped(case, error)
    peak = resident("VmHWM") - before
    if model is not None:
        try:
            unchanged = same(answers(model), expected)
            verdict = "as it was" if unchanged else "another model" if case.sealed else "SILENTLY WRONG"
        except al.AleatorError:
            verdict = "refused" if case.sealed else "SILENTLY WRONG"
        except Exception as error:
            verdict = escaped(case, error)
    if verdict == "SILENTLY WRONG":
        print(f"  {case.kind} {case.harm}: another answer", file=sys.stderr)
    return verdict, peak


def escaped(case: Case, error: Exception) -> str:
    print(f"  {case.kind} {case.harm}: {type(error).__name__}: {error}", file=sys.stderr)
    return "OTHER EXCEPTION"


def resident(name: str) -> int:
    """Bytes of memory of this process: now (VmRSS), or at its peak (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attack", choices=["kill", "damage"])
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    wrong = attack_by_kills(args.kills, args.seed) if args.attack == "kill" else attack_by_damage(args.cases, args.seed)
    print(f"came through: {wrong}")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
