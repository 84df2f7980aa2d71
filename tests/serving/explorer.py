"""The explorer page as a test sees it: what a person would do, and what they would read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

T = TypeVar("T")
LIMIT = 60.0  # seconds that a condition may take; none takes so long unless it never comes
WIDE = (1280, 900)


@dataclass(frozen=True)
class Row:
    """A row of a list, as it is read."""

    rank: int
    title: str
    expectation: float
    uncertainty: float | None
    popularity: int
    marks: tuple[str, ...]
    move: str


_ROWS = """
const text = (row, part) => row.querySelector(part)?.innerText ?? "";
const value = (row, part) => row.querySelector(part)?.lastChild.textContent ?? null;
return [...document.querySelectorAll(`#list-${arguments[0]} .row:not(.ghost)`)].map((row) => ({
  rank: Number(row.querySelector(".rank").textContent),
  title: row.querySelector(".title").textContent,
  expectation: value(row, ".bar.r"),
  uncertainty: value(row, ".bar.s"),
  popularity: Number(row.querySelector(".taken span").textContent.replace(/,/g, "")),
  marks: [...row.querySelectorAll(".tag")].map((tag) => tag.textContent),
  move: row.querySelector(".move .sr")?.textContent ?? "",
}));
"""


class Page:
    """The page in a browser."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    # The browser

    def open(self, address: str, view: str = "") -> None:
        """Open a view, and wait until its lists are there or cannot be."""
        self.driver.get("about:blank")  # so that a view of the same page is loaded anew
        self.driver.get(f"{address}/{view}")
        self.wait(lambda: self.settled)

    def look(self, size: tuple[int, int] = WIDE, **media: str) -> None:
        """Look at the page at a size, with media features such as prefers_color_scheme."""
        screen = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def wait(self, condition: Callable[[], T]) -> T:
        """What a condition gives once it is true."""
        return WebDriverWait(self.driver, LIMIT, 0.05).until(lambda driver: condition())

    def run(self, script: str, *values: Any) -> Any:
        return self.driver.execute_script(script, *values)

    @property
    def complaints(self) -> list[str]:
        """What the browser logged since it was asked last, such as an error, or what the security policy forbids."""
        return [entry["message"] for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]

    # What a person sees

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        return self.find(selector).text

    @property
    def settled(self) -> bool:
        """Whether nothing is under way."""
        return bool(self.run('return document.querySelector("#lists:not([aria-busy]) li:not(.ghost)") !== null'))

    def rows(self, name: str) -> list[Row]:
        """The rows of the list "expectation" or "blend"."""
        return [
            Row(
                rank=row["rank"],
                title=row["title"],
                expectation=float(row["expectation"]),
                uncertainty=None if row["uncertainty"] is None else float(row["uncertainty"]),
                popularity=row["popularity"],
                marks=tuple(row["marks"]),
                move=row["move"],
            )
            for row in self.run(_ROWS, name)
        ]

    def titles(self, name: str) -> list[str]:
        return [row.title for row in self.rows(name)]

    @property
    def lam(self) -> float:
        """Where the knob stands, as it is read."""
        return float(self.text("#lam-value"))

    @property
    def view(self) -> Mapping[str, str]:
        """What the address says."""
        parts = urlsplit(self.driver.current_url).fragment.split("&")
        return {name: unquote(value) for name, _, value in (part.partition("=") for part in parts)}

    # What a person does

    def keys(self, *keys: str) -> None:
        """Press keys where the focus is."""
        self.driver.switch_to.active_element.send_keys(*keys)

    def search(self, field: str, words: str) -> list[str]:
        """Type into a field with suggestions. Returns the suggestions for these words."""
        box = self.find(f"#{field}")
        box.click()
        self.keys(Keys.CONTROL, "a")
        self.keys(words)
        return self.options(field)

    def options(self, field: str) -> list[str]:
        """The suggestions under a field, once they are there."""
        some = f"#{field}:not([aria-busy]) + :not([hidden]) li"
        options = self.wait(lambda: self.driver.find_elements(By.CSS_SELECTOR, some))
        return [option.text.splitlines()[0] for option in options]

    def pick(self, field: str, words: str) -> None:
        """Search, and click on the suggestion that reads so."""
        place = self.search(field, words).index(words)
        self.find(f"#{field}-options li:nth-child({place + 1})").click()
        self.wait(lambda: self.settled)

    def user(self, user: Any) -> None:
        self.pick("user", str(user))

    def turn(self, lam: float) -> None:
        """Move the knob by its keys, and wait for the list."""
        self.run("arguments[0].focus()", self.find("#lam"))
        steps = round((self.lam - lam) * 100)  # the knob goes from lam 1 on the left to lam 0 on the right
        self.keys(*[Keys.ARROW_RIGHT if steps > 0 else Keys.ARROW_LEFT] * abs(steps))
        self.wait(lambda: self.settled)

    def axe(self, source: str) -> list[str]:
        """What axe-core finds serious or critical: the rule and the elements."""
        self.run(source)
        found = self.driver.execute_async_script("axe.run().then(arguments[0])")
        grave = [each for each in found["violations"] if each["impact"] in ("serious", "critical")]
        return [f"{each['id']}: {json.dumps([node['target'] for node in each['nodes']])}" for each in grave]
