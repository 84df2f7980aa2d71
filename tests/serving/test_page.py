"""The explorer page in a real browser, on a real service: what people do there, and what they then read.

What the page shows is held against what the library answers. Waiting is for conditions, never for a time.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import aleator as al
from aleator.data.formats import write

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("selenium", reason="needs selenium, of the extra dev")

from selenium.webdriver import Chrome, ChromeOptions, ChromeService, Keys

from aleator.serving import serving
from tests.serving.explorer import WIDE, Page, Row

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
HOSTILE = '<img src=x onerror="document.title=1"> & <b>Bobby</b>'  # a title
TOKEN = "a-token-of-the-tests"
USER, OTHER = 3, 20
NARROW = (360, 740)

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="needs Chromium: apt-get install chromium chromium-driver"
)


class Served(NamedTuple):
    """A model, and where it is served."""

    model: al.AUR
    address: str

    def titles(self, who: Any, lam: float) -> list[str]:
        """The titles of a list, as the library has it."""
        titles: list[str] = self.model.recommend(who, k=10, lam=lam)["title"].to_list()
        return titles


@pytest.fixture(scope="module")
def films() -> al.Split:
    """Pairs with titles, one of which is hostile."""
    data = al.simulate(n_users=120, n_items=100, per_user=160, skew=0.9, seed=0).interactions
    titles = {item: f"Film {item} ({1900 + item})" for item in range(100)} | {int(data.popularity.argmax()): HOSTILE}
    return data.with_titles(titles).split(valid=0.1, test=0.2, seed=0)


@pytest.fixture(scope="module")
def aur(small_aur: Callable[..., al.AUR], films: al.Split) -> al.AUR:
    """It chooses a lam below 1 and knows the confidence of its lists, so that the page shows all that it can."""
    made = small_aur().fit(films)
    assert made.lam_used < 1
    assert made.chance is not None
    return made


@pytest.fixture(scope="module")
def served(aur: al.AUR, films: al.Split, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The AUR, served with its test part."""
    place = tmp_path_factory.mktemp("served")
    aur.save(place / "films")
    (place / "data").mkdir()
    for name, part in (("train", films.train), ("valid", films.valid), ("test", films.test)):
        assert part is not None
        write(part, place / "data" / f"{name}.parquet")
    with serving(place / "films", "--data", str(place / "data"), "--quiet") as address:
        yield Served(aur, address)


@pytest.fixture(scope="module")
def bare() -> al.MF:
    """A model without uncertainty, and without titles."""
    data = al.simulate(n_users=60, n_items=40, per_user=80, seed=0).interactions
    return al.MF(dim=4, iterations=3, l2=0.001).fit(data)


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    """A page in headless Chromium."""
    options = ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=ChromeService(DRIVER))
    driver.set_script_timeout(60)
    yield Page(driver)
    driver.quit()


@pytest.fixture
def page(browser: Page) -> Page:
    """The browser at the width of a desk. Nothing moves for show, so that what is read stays where it is."""
    browser.look(prefers_reduced_motion="reduce")
    assert browser.complaints is not None  # those of earlier tests are forgotten
    return browser


@pytest.fixture(scope="module")
def axe() -> str:
    """The source of axe-core, which finds what is hard to use without sight, a mouse or sharp eyes."""
    place = os.environ.get("AXE_CORE")
    if place is None:
        pytest.skip("needs axe-core: `npm pack axe-core`, and AXE_CORE names the unpacked folder")
    return (Path(place) / "axe.min.js").read_text()


def moved(rows: list[Row], ranks: dict[str, int]) -> list[str]:
    """What stands beside the items of the blend, from their ranks by expectation alone."""
    told = []
    for row in rows:
        before = ranks[row.title]
        steps = abs(before - row.rank)
        where = f"{steps} rank{'' if steps == 1 else 's'} {'higher' if before > row.rank else 'lower'}"
        told.append(f"came in from rank {before}" if before > 10 else where if steps else "same rank")
    return told


# What the lists hold


def test_both_lists_are_those_of_the_library(page: Page, served: Served) -> None:
    page.open(served.address)
    page.user(USER)
    lam = served.model.lam_used
    assert page.lam == pytest.approx(lam)
    for name, at in (("expectation", 1.0), ("blend", lam)):
        frame = served.model.recommend([USER], k=10, lam=at)
        rows = page.rows(name)
        assert [row.title for row in rows] == frame["title"].to_list()
        assert [row.rank for row in rows] == list(range(1, 11))
        assert [row.popularity for row in rows] == frame["popularity"].to_list()
        for part in ("expectation", "uncertainty"):
            assert [getattr(row, part) for row in rows] == pytest.approx(frame[part].to_list(), abs=6e-4)
    assert not page.complaints  # nothing that the security policy forbids, either


def test_what_moved_and_what_is_marked(page: Page, served: Served, films: al.Split) -> None:
    titles, test = films.everything.titles, films.test
    assert titles is not None
    taken = {user: {titles[item] for item in test.item[test.user == user]} for user in range(120)}
    user = next(user for user, later in taken.items() if later & set(served.titles([user], 0.1)))
    page.open(served.address, f"#user={user}&lam=0.10")
    whole = served.model.recommend([user], k=100, lam=1)
    left, right = page.rows("expectation"), page.rows("blend")
    assert [row.move for row in right] == moved(right, dict(zip(whole["title"], whole["rank"], strict=True)))
    stays = set(page.titles("blend"))
    assert [row.move for row in left] == ["" if row.title in stays else "not in the blend" for row in left]
    tail = dict(zip(whole["title"], whole["tail"], strict=True))
    found = set()
    for row in left + right:
        assert ("tail" in row.marks) == tail[row.title]
        assert ("taken later" in row.marks) == (row.title in taken[user])
        found |= set(row.marks)
    assert found == {"tail", "taken later"}
    fresh = len(stays - {row.title for row in left})
    assert f"exchanges {fresh} of 10 items" in page.text("#summary")


def test_the_knob_ranks_anew_and_the_address_keeps_the_view(page: Page, served: Served) -> None:
    page.open(served.address, f"#user={USER}&lam=0.90")
    for lam in (0.85, 0.4, 0.0, 1.0):
        page.turn(lam)
        assert page.titles("blend") == served.titles([USER], lam)
        assert page.titles("expectation") == served.titles([USER], 1.0)
        assert page.view == {"user": str(USER), "lam": f"{lam:.2f}", "k": "10"}
    assert page.text("#summary").startswith("Both lists are the same")
    page.find("#chosen").click()
    page.wait(lambda: page.settled)
    lam = served.model.lam_used
    assert page.titles("blend") == served.titles([USER], lam)
    page.open(served.address, f"#user={OTHER}&lam=0.20")
    assert page.titles("blend") == served.titles([OTHER], 0.2)


def test_a_late_answer_does_not_replace_a_newer_one(page: Page, served: Served) -> None:
    """The answer at lam 0.30 is held back until the one at 0.20 is shown."""
    page.open(served.address, f"#user={USER}&lam=0.40")
    page.run("""
        const ask = window.fetch;
        window.fetch = async (path, asked) => {
          const answer = await ask(path, { ...asked, signal: undefined });
          if (asked.body && JSON.parse(asked.body).lam === 0.3) await new Promise((free) => { window.free = free; });
          return answer;
        };
    """)
    page.find("#lam").send_keys(Keys.ARROW_RIGHT * 10)
    page.wait(lambda: page.run("return window.free !== undefined"))
    page.turn(0.2)
    assert page.titles("blend") == served.titles([USER], 0.2)
    assert page.titles("blend") != served.titles([USER], 0.3)
    page.driver.execute_async_script("window.free(); setTimeout(arguments[0], 0)")
    assert page.titles("blend") == served.titles([USER], 0.2)


def test_somebody_new_types_a_history(page: Page, served: Served) -> None:
    page.open(served.address, "#user=3&lam=0.50")
    page.find("#tab-history").click()
    page.wait(lambda: "Add an item" in page.text("#list-blend"))
    page.pick("item", "Film 7 (1907)")
    page.pick("item", "Film 12 (1912)")
    assert page.titles("expectation") == served.titles({"you": [7, 12]}, 1.0)
    assert page.titles("blend") == served.titles({"you": [7, 12]}, 0.5)
    assert page.view["history"] == "7,12"
    page.find('[aria-label="Remove Film 7 (1907)"]').click()
    page.wait(lambda: page.settled and page.view["history"] == "12")
    assert page.titles("blend") == served.titles({"you": [12]}, 0.5)
    page.open(served.address, "#history=1,12&lam=0.50")  # somebody else opens the address
    assert "Film 1 (1901)" in page.text("#history")
    assert page.titles("blend") == served.titles({"you": [1, 12]}, 0.5)
    page.open(served.address, "#history=12,999&lam=0.50")
    assert "does not know 1 of them" in page.text("#history")
    assert page.titles("blend") == served.titles({"you": [12]}, 0.5)


def test_why_shows_what_the_history_adds(page: Page, served: Served) -> None:
    page.open(served.address, f"#user={USER}&lam=0.50")
    page.find("#list-blend .row:nth-child(2) .title").click()
    page.wait(lambda: page.driver.find_elements("css selector", "#list-blend .why-part.s"))
    item = served.model.recommend([USER], k=2, lam=0.5)["item_id"][1]
    why = served.model.explain([USER], [item], n=None)
    for part, column in (("r", "adds_to_expectation"), ("s", "adds_to_uncertainty")):
        best = why.filter(why[column] > 0).sort(column, descending=True).head(4)
        shown = [from_.text for from_ in page.driver.find_elements("css selector", f".why-part.{part} .from")]
        assert shown == best["history_title"].to_list()
    assert shown  # the uncertainty has reasons


def test_the_model_is_shown_with_its_figures(page: Page, served: Served, aur: al.AUR, films: al.Split) -> None:
    page.open(served.address)
    assert "AUR on MF" in page.text(".about")
    page.wait(lambda: page.driver.find_elements("css selector", "#evaluation td"))  # measured after the start
    report = al.evaluate(aur, films)
    shown = [row.text.split() for row in page.driver.find_elements("css selector", "#evaluation tbody tr")]
    for name, *means in shown:
        expected = [report.mean(protocol, name.lower()) for protocol in ("overall", "tail_absolute", "tail_relative")]
        assert [float(mean) for mean in means] == pytest.approx(expected, abs=1e-4)
    assert {"Recall@20", "NDCG@20", "Recall@50"} <= {name for name, *_ in shown}
    assert page.find("#curve svg").get_attribute("role") == "img"
    assert f"chosen: lam {aur.lam_used:.2f}" in page.text("#curve")
    dots = page.run('return document.querySelectorAll("#map .dot").length')
    assert dots > 50
    assert page.run('return document.querySelectorAll("#map .lit-both, #map .lit-r, #map .lit-s").length') >= 10


# Who uses it, and on what


def test_everything_works_by_keyboard(page: Page, served: Served) -> None:
    """From the first Tab: a user, the knob, a title; the focus can be seen all the way."""
    page.open(served.address, f"#user={USER}&lam=0.50")
    page.run("document.body.focus()")
    focused = "return document.activeElement.id || document.activeElement.className"
    seen = """
        const look = getComputedStyle(document.activeElement);
        return look.outlineStyle !== "none" && parseFloat(look.outlineWidth) >= 2;
    """

    def go(to: str) -> None:
        for _ in range(40):
            page.keys(Keys.TAB)
            assert page.run(seen), page.run(focused)
            if page.run(focused) == to:
                return
        raise AssertionError(f"Tab never comes to {to}")

    page.keys(Keys.TAB)
    assert page.run(focused) == "skip"
    go("user")
    page.keys(str(OTHER))
    page.options("user")
    page.keys(Keys.ARROW_DOWN, Keys.ARROW_UP, Keys.ENTER)
    page.wait(lambda: page.settled and page.view["user"] == str(OTHER))
    go("lam")
    page.keys(Keys.ARROW_RIGHT * 5)
    page.wait(lambda: page.settled and page.lam == 0.45)
    assert page.titles("blend") == served.titles([OTHER], 0.45)
    go("title")
    page.keys(Keys.ENTER)
    page.wait(lambda: page.driver.find_elements("css selector", "#list-expectation .why-part"))
    assert page.run("return document.activeElement.getAttribute('aria-expanded')") == "true"
    page.keys(Keys.SPACE)
    assert page.run("return document.activeElement.getAttribute('aria-expanded')") == "false"


def test_a_narrow_screen_shows_one_list_and_needs_no_scrolling_sideways(page: Page, served: Served) -> None:
    page.look(NARROW, prefers_reduced_motion="reduce")
    page.open(served.address, f"#user={USER}&lam=0.50")
    width = "return document.documentElement.scrollWidth"
    assert page.run(width) <= NARROW[0]
    assert page.find("#list-blend").is_displayed()
    assert not page.find("#list-expectation").is_displayed()
    page.find("[data-show=expectation]").click()
    assert page.find("#list-expectation").is_displayed()
    assert not page.find("#list-blend").is_displayed()
    page.find("#list-expectation .title").click()
    page.wait(lambda: page.driver.find_elements("css selector", ".why-part"))
    assert page.run(width) <= NARROW[0]
    page.find("#tab-history").click()
    page.search("item", "film")
    assert page.run(width) <= NARROW[0]


def test_a_dark_screen_stays_dark(page: Page, served: Served) -> None:
    page.look(WIDE, prefers_color_scheme="dark", prefers_reduced_motion="reduce")
    page.open(served.address)
    light = """
        const light = (color) => color.match(/[\\d.]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 765;
        return [...document.querySelectorAll("body, .who, .results, .card, input[type=text], select")]
          .map((element) => light(getComputedStyle(element).backgroundColor));
    """
    assert max(page.run(light)) < 0.25


@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (NARROW, "dark")], ids=["wide", "narrow"])
def test_axe_finds_nothing_serious(page: Page, served: Served, axe: str, size: tuple[int, int], scheme: str) -> None:
    page.look(size, prefers_color_scheme=scheme, prefers_reduced_motion="reduce")
    page.open(served.address, f"#user={USER}&lam=0.50")
    for title in page.driver.find_elements("css selector", ".row:nth-child(1) .title"):
        if title.is_displayed():
            title.click()
    for details in page.driver.find_elements("css selector", "summary"):
        details.click()
    page.wait(lambda: page.driver.find_elements("css selector", ".why-part"))
    assert page.axe(axe) == []
    page.find("#tab-history").click()
    page.search("item", "film")
    assert page.axe(axe) == []
    page.open(served.address, "#user=nobody")
    assert page.axe(axe) == []


# What can go wrong


def test_hostile_titles_are_shown_as_text(page: Page, served: Served) -> None:
    newcomer = next(u for u in range(120) if HOSTILE in served.titles([u], 1.0))
    page.open(served.address, f"#user={newcomer}")
    assert HOSTILE in page.titles("expectation")
    page.find("#tab-history").click()
    page.pick("item", HOSTILE)
    assert HOSTILE in page.text("#history")
    page.find("#list-blend .title").click()
    page.wait(lambda: page.driver.find_elements("css selector", "#list-blend .why-part"))
    assert page.run('return document.querySelectorAll("main img, .title b, .chip b, .from b").length') == 0
    assert page.driver.title == "Aleator explorer"


def test_an_unknown_user_is_told_and_shows_no_other_list(page: Page, served: Served) -> None:
    page.open(served.address, f"#user={USER}")
    page.run("location.hash = '#user=999'")
    page.wait(lambda: page.find("#banner").is_displayed())
    assert "999" in page.text("#banner")
    assert page.rows("expectation") == page.rows("blend") == []
    page.user(USER)
    assert not page.find("#banner").is_displayed()
    assert page.titles("expectation") == served.titles([USER], 1.0)
    page.search("user", "nobody")
    assert "No user nobody" in page.text("#user-options")


def test_a_service_that_asks_for_a_token_takes_up_a_bare_model_goes_and_comes_back(
    page: Page, aur: al.AUR, bare: al.MF, tmp_path: Path
) -> None:
    aur.save(tmp_path / "model")
    (tmp_path / "tokens").write_text(TOKEN)
    options = "--token-file", str(tmp_path / "tokens"), "--quiet"
    with serving(tmp_path / "model", *options) as address:
        page.driver.get(f"{address}/#user={USER}&lam=0.50")
        page.wait(lambda: page.find("#token").is_displayed())
        page.keys("not the token", Keys.ENTER)
        page.wait(lambda: "does not accept" in page.text("#token-error"))
        page.keys(TOKEN, Keys.ENTER)
        page.wait(lambda: page.settled and page.rows("blend"))
        assert page.titles("blend") == Served(aur, address).titles([USER], 0.5)
        assert TOKEN not in page.driver.current_url
        assert page.run("return localStorage.length + sessionStorage.length + document.cookie.length") == 0

        bare.save(tmp_path / "model")
        page.wait(lambda: another_model(page))
        page.find("#notice-close").click()
        page.user(USER)
        ids = [f"Item {item}" for item in bare.recommend([USER], k=10)["item_id"]]  # it has no titles
        assert page.titles("expectation") == ids
        assert {row.uncertainty for row in page.rows("expectation")} == {None}
        assert not any(page.find(hidden).is_displayed() for hidden in ("#lam", "#list-blend", "#curve-part", "#links"))
    page.find("#another").click()
    page.wait(lambda: "does not answer" in page.text("#banner"))
    assert page.titles("expectation") == ids
    assert "from before" in page.text("#banner")
    with serving(tmp_path / "model", *options, "--port", address.rpartition(":")[2]):
        page.wait(lambda: not page.find("#banner").is_displayed())  # it tries again by itself
        page.user(OTHER)
        assert page.titles("expectation") == [f"Item {item}" for item in bare.recommend([OTHER], k=10)["item_id"]]


def another_model(page: Page) -> bool:
    """Whether the page has found that the model was replaced. If not, it is asked for other lists."""
    if not page.find("#notice").is_displayed():
        if page.settled:
            page.find("#another").click()
        return False
    return "another model" in page.text("#notice")
