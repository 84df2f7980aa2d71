"""Draw flame graphs, one above the other, from the collapsed stacks of a profiler.

    py-spy record --format raw -o before.txt -- python calls.py        (and after.txt, with other sources)
    python tools/flame.py before.txt after.txt --root one_user --out docs/figures/recommend_one.png

A box is a function, and its width is the share of the samples in which it ran. What it called stands below it. Only what
`--root` called is drawn. A line of a file of stacks is "function (file:line);function (file:line) samples".
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

NARROW, LABELLED = 0.003, 0.02  # shares below which a box is not drawn, or has no name
DEEPEST = 12  # levels below the root that are drawn
COLOURS = {"aleator/ranking": "#f4a582", "aleator": "#fddbc7", "": "#d1e5f0"}  # by the beginning of a place


@dataclass
class Box:
    """A function, the samples in which it ran, and what it called."""

    samples: int = 0
    called: dict[str, Box] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """Levels of boxes below this one."""
        return 1 + max((box.depth for box in self.called.values()), default=-1)


def stacks(lines: Iterable[str], root: str) -> Box:
    """The boxes below the first function named `root` in each stack, without the numbers of lines.

    >>> stacks(["main (a.py:1);top (b.py:2);mm (c.py:3) 5", "top (b.py:9) 2", "idle (d.py:1) 9"], "top").samples
    7
    """
    whole = Box()
    for line in lines:
        path, _, count = line.rpartition(" ")
        names = [re.sub(r":\d+\)$", ")", name) for name in path.split(";")]
        first = next((place for place, name in enumerate(names) if _function(name) == root), None)
        if first is None:
            continue
        box = whole
        box.samples += int(count)
        for name in names[first + 1 : first + 1 + DEEPEST]:
            box = box.called.setdefault(name, Box())
            box.samples += int(count)
    return whole


def _function(name: str) -> str:
    """The name of a function, without its class and place."""
    return name.partition(" ")[0].rpartition(".")[2]


def draw(files: list[Path], root: str, out: Path) -> None:
    import matplotlib.pyplot as plt

    wholes = [stacks(file.read_text().splitlines(), root) for file in files]
    depths = [whole.depth for whole in wholes]
    figure, axes = plt.subplots(
        len(files), 1, figsize=(11, 0.26 * sum(depths) + 0.7 * len(files)), height_ratios=depths, squeeze=False
    )
    for file, whole, (axis,) in zip(files, wholes, axes, strict=True):
        _boxes(axis, whole, 0.0, 0, whole.samples)
        axis.set(xlim=(0, 1), ylim=(whole.depth, 0), title=f"{root}, {file.stem}")
        axis.axis("off")
    figure.tight_layout()
    figure.savefig(out, dpi=90)


def _boxes(axis, box: Box, left: float, level: int, samples: int) -> None:  # type: ignore[no-untyped-def]
    for name, own in sorted(box.called.items()):
        share = own.samples / samples
        if share >= NARROW:
            colour = next(colour for begin, colour in COLOURS.items() if f"({begin}" in name)
            axis.barh(level + 0.5, share, 0.92, left, color=colour, edgecolor="white", linewidth=0.5)
            if share >= LABELLED:
                shown = _function(name)[: int(share * 150)]
                axis.text(left + share / 2, level + 0.5, shown, ha="center", va="center", fontsize=7)
            _boxes(axis, own, left, level + 1, samples)
        left += share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", help="collapsed stacks; the name of a file is its title")
    parser.add_argument("--root", required=True, help="the function whose time is shown")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    draw(args.files, args.root, args.out)


if __name__ == "__main__":
    main()
