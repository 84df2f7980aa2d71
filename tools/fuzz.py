"""Fuzz every reader: files that are damaged or odd, options and requests that nobody would write.

    python tools/fuzz.py [--cases 1000] [--reader NAME ...] [--seed 0] [--json FILE] [--keep FOLDER]
    python tools/fuzz.py --guided [--cases 1000] ...
    python tools/fuzz.py --replay FILE --reader NAME --way WAY

A case must load, or end in an AleatorError. What else may come out is counted as an escape: another exception, an error
whose message is too long or cannot be printed, code that is run or a program that is started, a pickle, a file written
elsewhere, more memory than the limit of the readers (512 MiB, or 200 times the case), or a case that takes 20 seconds of
the processor, or waits for 300. The cases of a reader run one after the other in a forked process, so that one takes
milliseconds. A process that dies or hangs is replaced.

Cases are made from small files of each kind (fuzz_targets.py) by mutations that know the kind (fuzz_mutations.py). Case
number i is the same in each run of a seed. With --guided, atheris makes them, with the same mutations and its own, and
keeps those that reach new code of aleator: `pip install atheris` first.

--cases is the number for each reader; those whose cases take long (a fit, a study) get a fortieth of it. --keep saves the
cases that escape, --replay runs one of them and shows the traceback.
It ends with 1 if anything escaped.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzz_mutations import mutation_for

if TYPE_CHECKING:
    from fuzz_targets import Way

LONGEST = 20  # seconds of the processor that a case may take
PATIENCE = 300  # seconds that it may take with all its waiting
BROKEN = 3  # the exit code where an error is that of this tool
BATCH = 4000  # cases of a process
ROOM = 4 << 30  # bytes of address space that a process may take beside what it has at first
SLACK = 64 << 20  # bytes that a case may take beside the limit: code that is loaded for the first time
SCRATCH = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # no case waits for a disk there
WRITABLE = (tempfile.gettempdir(), "/dev/", "/proc/")  # beginnings of paths that a case may write to
CODE = (
    "pickle.find_class",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "subprocess.Popen",
    "socket.connect",
    "exec",
)
MAKERS = (
    "typing.py",
    "dataclasses.py",
    "collections/__init__.py",
    "functools.py",
    "inspect.py",
    "langhelpers.py",
)  # they evaluate annotations


@dataclass
class Summary:
    """What came out of the cases of a reader."""

    cases: int = 0
    loaded: int = 0
    refused: int = 0
    escapes: Counter[str] = field(default_factory=Counter)  # by what came out
    slowest: float = 0.0  # seconds of the processor
    peak: int = 0  # bytes beside what the process had before
    seconds: float = 0.0

    def add(self, verdict: str, seconds: float, peak: int) -> None:
        self.cases += 1
        self.loaded += verdict == "loaded"
        self.refused += verdict == "refused"
        if verdict not in ("loaded", "refused"):
            self.escapes[verdict] += 1
        self.slowest, self.peak = max(self.slowest, seconds), max(self.peak, peak)

    def told(self) -> dict[str, Any]:
        return {
            **vars(self),
            "escapes": self.escapes.total(),
            "what": dict(self.escapes),
            "seconds": round(self.seconds, 1),
        }


class Judge:
    """Runs the cases of a reader, each in the folder of its way."""

    def __init__(self, ways: dict[str, Way], place: Path, keep: Path | None) -> None:
        self.ways, self.place, self.keep = ways, place, keep
        self.names = list(ways)
        self.seeds = [list(way.seeds()) for way in ways.values()]
        self.ran: list[str] | None = None  # what the case ran or wrote that it must not; None between cases
        self.libc = ctypes.CDLL(None)
        self.libc.mallopt(-3, 1 << 16)  # blocks of 64 kB and more go back to the system at once, so that peaks are seen
        for number, (name, way) in enumerate(ways.items()):  # modules that are loaded late are loaded now
            loaded, reason = 0, None
            for content in self.seeds[number]:
                try:
                    self.read(number, way, content)
                    loaded += 1
                except Exception as error:
                    reason = error
            if not loaded:
                raise RuntimeError(f"{name}: none of its files loads") from reason
        self.clear = os.open("/proc/self/clear_refs", os.O_WRONLY)
        self.status = os.open("/proc/self/status", os.O_RDONLY)
        sys.addaudithook(self.heard)
        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + ROOM, resource.RLIM_INFINITY))

    def resident(self, name: bytes) -> int:
        """Bytes of memory of this process: now (VmRSS), or at its peak (VmHWM)."""
        told = os.pread(self.status, 1 << 13, 0)
        return int(told[told.index(name) :].split(None, 2)[1]) << 10

    def heard(self, event: str, args: tuple[Any, ...]) -> None:
        if self.ran is None:
            return
        if event == "open":
            path, mode, flags = args
            writes = (isinstance(mode, str) and set(mode) & set("wax+")) or (isinstance(flags, int) and flags & 3)
            name = os.fsdecode(path) if isinstance(path, (str, bytes)) else ""
            if writes and name and not name.startswith(WRITABLE):
                self.ran.append(f"wrote {name}")
        elif event in CODE:
            made, asked_by = getattr(args[0], "co_filename", "") if args else "", sys._getframe(1).f_code.co_filename
            known = made.endswith(".py") or asked_by.endswith(
                MAKERS
            )  # a module that is imported late, a type that is made
            if event != "exec" or not known:
                self.ran.append(f"{event} in {asked_by}")

    def read(self, number: int, way: Way, content: bytes) -> None:
        folder = self.place / str(number)
        folder.mkdir(exist_ok=True)
        way.made(folder)
        (folder / way.file).parent.mkdir(parents=True, exist_ok=True)
        (folder / way.file).write_bytes(content)
        way.read(folder)

    def judge(self, number: int, content: bytes) -> tuple[str, float, int]:
        """The verdict on a case, the seconds of the processor and the bytes of memory that it took at most."""
        name = self.names[number]
        os.pwrite(self.clear, b"5", 0)  # the peak begins anew
        before, start = self.resident(b"VmRSS"), time.process_time()
        verdict, message, self.ran = "loaded", "", []
        try:
            self.read(number, self.ways[name], content)
        except BaseException as error:  # a panic of polars is no Exception
            verdict, message = _verdict(error), "".join(traceback.format_exception(error))[-3000:]
        seconds = time.process_time() - start
        peak = self.resident(b"VmHWM") - before
        ran, self.ran = self.ran, None
        verdict = f"RAN {ran[0]}" if ran else verdict
        if peak > max(1 << 29, 200 * len(content)) + SLACK:
            verdict = f"MEMORY ({verdict})"
        if peak > 1 << 26:
            self.libc.malloc_trim(0)
        if verdict not in ("loaded", "refused") and self.keep is not None:
            self.save(name, content, verdict, message)
        return verdict, seconds, peak

    def save(self, name: str, content: bytes, verdict: str, message: str) -> None:
        assert self.keep is not None
        told = hashlib.sha256(verdict.encode()).hexdigest()[:8]
        target = self.keep / f"{name.replace('/', '_')}-{told}"
        if not target.exists():
            target.write_bytes(content)
            target.with_name(target.name + ".txt").write_text(f"{verdict}\n{message}\n", errors="backslashreplace")


def _verdict(error: BaseException) -> str:
    from aleator.errors import AleatorError

    if isinstance(error, AleatorError):
        told = str(error)
        try:
            told.encode()
        except UnicodeEncodeError:
            return f"A MESSAGE THAT CANNOT BE PRINTED {_where(error)}"
        return "refused" if len(told) < 4000 else f"A LONG MESSAGE {_where(error)}"
    return f"{type(error).__name__} {_where(error)}"


def _where(error: BaseException) -> str:
    """The innermost line of aleator that an error went through, and the file that it came out of."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [
        frame for frame in frames if "aleator" in frame.filename and "site-packages" not in frame.filename
    ] or frames
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"


def forked(job: Callable[[Any], None], log: Path) -> tuple[int, Any]:
    """Start a job in a forked process, whose messages go to a file. Returns its number, and what it writes."""
    source, sink = os.pipe()
    child = os.fork()
    if not child:
        code = BROKEN
        try:
            os.close(source)
            with open(log, "ab") as messages:
                os.dup2(messages.fileno(), 1)
                os.dup2(messages.fileno(), 2)
            with open(sink, "w") as told:
                job(told)
            code = 0
        except BaseException:
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(code)
    os.close(sink)
    return child, open(source)


def quiet_judge(reader: str, place: Path, keep: Path | None) -> Judge:
    from fuzz_targets import readers

    warnings.simplefilter("ignore")
    return Judge(readers()[reader](), place, keep)


def blindly(reader: str, first: int, end: int, seed: int, place: Path, keep: Path | None, told: Any) -> None:
    """The cases from `first` up to `end`, each made of one file by one or a few mutations."""
    judge = quiet_judge(reader, place, keep)
    for number in range(first, end):
        way, content = made_case(judge, reader, number, seed)
        signal.setitimer(signal.ITIMER_PROF, LONGEST)
        signal.alarm(PATIENCE)
        tell(told, judge.judge(way, content))


def made_case(judge: Judge, reader: str, number: int, seed: int) -> tuple[int, bytes]:
    draw = random.Random(f"{seed} {reader} {number}")
    way = number % len(judge.names)
    content = draw.choice(judge.seeds[way])
    change = mutation_for(judge.ways[judge.names[way]].file)
    for _ in range(draw.choice((1, 1, 2, 3))):
        content = change(content, draw)
    return way, content


def tell(told: Any, outcome: tuple[str, float, int]) -> None:
    told.write(json.dumps(outcome) + "\n")
    told.flush()


def guided(reader: str, first: int, end: int, seed: int, place: Path, keep: Path | None, told: Any) -> None:
    """As many cases, made by atheris. The first byte of a case is its way."""
    import atheris

    judge = quiet_judge(reader, place, keep)
    corpus = place / "corpus"
    corpus.mkdir(exist_ok=True)
    for way, seeds in enumerate(judge.seeds):
        for number, content in enumerate(seeds):
            (corpus / f"{way}-{number}").write_bytes(bytes([way]) + content)

    def once(data: bytes) -> None:
        if data:
            tell(told, judge.judge(data[0] % len(judge.names), data[1:]))

    def change(data: bytes, most: int, number: int) -> bytes:
        draw = random.Random(number)
        way = draw.randrange(len(judge.names)) if not data or draw.random() < 0.02 else data[0] % len(judge.names)
        content = data[1:] or draw.choice(judge.seeds[way])
        if draw.random() < 0.4:
            content = atheris.Mutate(content, most - 1)
        else:
            content = mutation_for(judge.ways[judge.names[way]].file)(content, draw)
        return (bytes([way]) + content)[:most]

    options = [
        f"-runs={end - first}",
        f"-seed={seed + first + 1}",
        f"-timeout={PATIENCE}",
        "-rss_limit_mb=0",
        "-max_len=300000",
    ]
    words = ["fuzz", *options, "-len_control=0", f"-artifact_prefix={place}/", str(corpus)]
    atheris.Setup(words, once, custom_mutator=change)
    atheris.Fuzz()


def attack(reader: str, cases: int, seed: int, keep: Path | None, job: Any = blindly) -> Summary:
    """Run the cases of a reader."""
    found, start = Summary(), time.perf_counter()
    own = None if keep is None else keep / reader
    if own is not None:
        own.mkdir(parents=True, exist_ok=True)
    while found.cases < cases:
        first = found.cases
        with tempfile.TemporaryDirectory(dir=SCRATCH) as name:
            place = Path(name)
            end = min(first + BATCH, cases) if job is blindly else cases
            child, pipe = forked(partial(job, reader, first, end, seed, place, own), place / "log")
            with pipe:
                for line in pipe:
                    found.add(*json.loads(line))
            _, status = os.waitpid(child, 0)
            code = os.waitstatus_to_exitcode(status)
            if code == BROKEN:
                raise RuntimeError(f"{reader}: {(place / 'log').read_text(errors='replace')[-3000:]}")
            if code and found.cases < end:
                ended = "HUNG" if code in (-signal.SIGPROF, -signal.SIGALRM, 70) else f"DIED ({code})"
                found.add(ended, 0.0, 0)
                if own is not None:
                    keep_dead(reader, found.cases - 1, seed, place, own)
    found.seconds = time.perf_counter() - start
    return found


def keep_dead(reader: str, number: int, seed: int, place: Path, own: Path) -> None:
    """Save the case that ended its process: the one that atheris saved, or the one of this number, made once more."""
    shutil.copy(place / "log", own / f"ended-{number}.txt")
    artifacts = [file for kind in ("crash", "timeout", "oom") for file in place.glob(f"{kind}-*")]
    for file in artifacts:
        shutil.copy(file, own / f"ended-{number}-{file.name}")
    if artifacts:
        return

    def make(told: Any) -> None:
        judge = quiet_judge(reader, place, None)
        way, content = made_case(judge, reader, number, seed)
        (own / f"{judge.names[way].replace('/', '_')}-ended-{number}").write_bytes(content)

    child, pipe = forked(make, place / "log")
    pipe.close()
    os.waitpid(child, 0)


def show(found: dict[str, Summary]) -> Iterator[str]:
    """The table of readers."""
    names = "".join(f"{name:>9}" for name in ("cases", "loaded", "refused", "escapes"))
    yield f"{'reader':26}{names}{'slowest s':>11}{'peak MiB':>10}{'wall s':>9}"
    for reader, own in found.items():
        yield (
            f"{reader:26}{own.cases:9,}{own.loaded:9,}{own.refused:9,}{own.escapes.total():9,}{own.slowest:11.2f}"
            f"{own.peak / (1 << 20):10.0f}{own.seconds:9.0f}"
        )
    total = [
        sum(column)
        for column in zip(*((o.cases, o.loaded, o.refused, o.escapes.total()) for o in found.values()), strict=True)
    ]
    slowest, peak = max(own.slowest for own in found.values()), max(own.peak for own in found.values())
    yield f"{'all':26}" + "".join(f"{n:9,}" for n in total) + f"{slowest:11.2f}{peak / (1 << 20):10.0f}"


def replay(reader: str, way: str, content: bytes) -> None:
    """Run one case in this process, and let its exception out."""
    from fuzz_targets import readers

    chosen = readers()[reader]()[way]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        chosen.made(folder)
        (folder / chosen.file).parent.mkdir(parents=True, exist_ok=True)
        (folder / chosen.file).write_bytes(content)
        chosen.read(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--reader", action="append", default=[])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--guided", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--replay", type=Path)
    parser.add_argument("--way", default="")
    args = parser.parse_args()
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    if args.guided:
        import atheris

        with atheris.instrument_imports(include=["aleator"]):
            import fuzz_targets
    else:
        import fuzz_targets
    import torch

    torch.set_num_threads(1)
    if args.replay:
        replay(args.reader[0], args.way, args.replay.read_bytes())
        return
    known = fuzz_targets.readers()
    for name in args.reader:
        if name not in known:
            parser.error(f"no reader {name!r}; known: {', '.join(known)}")
    found: dict[str, Summary] = {}
    for reader in args.reader or known:
        cases = max(args.cases // fuzz_targets.SLOW.get(reader, 1), 1)
        found[reader] = attack(reader, cases, args.seed, args.keep, guided if args.guided else blindly)
        print(*list(show({reader: found[reader]}))[1:2], sep="\n", flush=True)
        for what, times in found[reader].escapes.most_common():
            print(f"    {times} x {what}", flush=True)
        if args.json:
            args.json.write_text(json.dumps({name: own.told() for name, own in found.items()}, indent=1) + "\n")
    print(*show(found), sep="\n")
    sys.exit(any(own.escapes for own in found.values()))


if __name__ == "__main__":
    main()
