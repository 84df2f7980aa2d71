"""Recipe: conventions of an experiment that belong together, such as the part that choices are made on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from aleator.data.interactions import Interactions
from aleator.data.splits import Split
from aleator.data.tail import DEFAULT_TAIL, Tail
from aleator.errors import require, unknown_name
from aleator.words import Empty, RecipeName

FINE_LAMS = tuple(round(0.02 * step, 2) for step in range(51))
PAPER_LAMS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True)
class Recipe:
    """Conventions that hold in all parts of an experiment. `RECIPES` holds the known recipes.

    - "ours": our options, chosen on validation
    - "test": our options, chosen on the test part, with the tail and the policy of the released program. It stands
      beside published figures that were chosen so.
    - "paper": what the paper's released program does, with its options

    Who asks a recipe:

    - `Recommender` and `AUR`: for the values of options that were not given (`paper_options`)
    - `Model.fit` and `AUR.fit`: for the pairs to fit on and to choose on (`divide`), and whether to refit
    - `Recommender.hold_out`: how many users are evaluated while something trains (`checks_everyone`)
    - `AUR.fit`: for the lams to choose from, and for the tail
    - `evaluate`: for the tail, and for `empty`
    - `tune`: for the ranges to search in (`paper_options`), and what to choose on
    - reports, the command line and the studies: for the warning
    """

    name: RecipeName
    title: str  # its name in tables
    paper_options: bool  # whether options that were not given have the values of the paper's released program
    paper_tail: bool  # whether the tail is the released program's cut, for a dataset that has one
    chosen_on: Literal["validation", "test"]  # the part that epochs and lam are chosen on
    refits: bool  # whether the final model is fitted on train and validation together
    checks_everyone: bool  # whether all users are evaluated while something trains, or a sample of them
    lams: tuple[float, ...]  # the values that lam is chosen from
    empty: Empty  # what `evaluate` does with a user without a relevant item

    @property
    def on_test(self) -> bool:
        """Whether choices are made on the test part, so that test figures are optimistic."""
        return self.chosen_on == "test"

    @property
    def warning(self) -> str:
        """The warning to print beside every figure of this recipe. It is empty if choices are not made on test."""
        return f" [recipe {self.name}: chosen on the test part]" if self.on_test else ""

    def divide(self, split: Split, valid: float, seed: int) -> tuple[Interactions, Interactions]:
        """The pairs to fit on, and the held-out pairs to choose on.

        If a split has no validation part, the share `valid` of its training pairs is held out.
        """
        if self.on_test:
            told = f"recipe {self.name} chooses on the test part and there is none"
            require(len(split.test) > 0, told, "give a Split")
            return split.everything, split.test
        carved = split.carve(valid, seed)
        return carved.train, carved.valid

    def tail(self, split: Split) -> Tail:
        """The tail of a split: the default, or the cut of the released program."""
        return split.paper_tail if self.paper_tail and split.paper_tail is not None else DEFAULT_TAIL


RECIPES: dict[str, Recipe] = {
    "ours": Recipe(
        name="ours",
        title="ours",
        paper_options=False,
        paper_tail=False,
        chosen_on="validation",
        refits=True,
        checks_everyone=False,
        lams=FINE_LAMS,
        empty="skip",
    ),
    "test": Recipe(
        name="test",
        title="test (ours, chosen on test)",
        paper_options=False,
        paper_tail=True,
        chosen_on="test",
        refits=False,
        checks_everyone=True,
        lams=FINE_LAMS,
        empty="zero",
    ),
    "paper": Recipe(
        name="paper",
        title="paper",
        paper_options=True,
        paper_tail=True,
        chosen_on="test",
        refits=False,
        checks_everyone=True,
        lams=PAPER_LAMS,
        empty="zero",
    ),
}


def recipe_of(name: str) -> Recipe:
    """The recipe of that name.

    >>> recipe_of("paper").chosen_on
    'test'
    """
    if name not in RECIPES:
        raise unknown_name("recipe", name, RECIPES)
    return RECIPES[name]
