"""The site in a real browser: it asks nobody, is readable on a phone, in both colours, by keyboard, and its search works from a folder.

With GPUPROV_SCREENSHOTS=FOLDER the pictures are kept there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import sample
from tests.report.chromium import Chromium, installed
from tests.site.built import ROOT
from tests.waiting import until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not installed(), reason="no Chromium here (apt-get install chromium, then: pytest -m browser)"),
]
AXE = ROOT / "tests" / "data" / "axe" / "axe.min.js"
# A page of each kind; the other tests look at all of them.
KINDS = {
    "start": "index.html",
    "tutorial": "tutorial.html",
    "key": "reference/profile.html#gpu-counters",
    "check": "reference/checks.html#counters",
    "error": "reference/errors.html#quota-exceeded",
    "command": "reference/commands.html#gpuprov-up",
}
CUT = "[...document.querySelectorAll('.md-typeset pre')].filter((e) => !e.closest('.drawing') && e.scrollWidth > e.clientWidth + 1).length"
TYPED = "document.querySelector('.md-search__input')"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium.started(tmp_path_factory.mktemp("chromium")) as started:
        yield started


def pages(site: Path) -> list[str]:
    return sorted(str(path.relative_to(site)) for path in site.rglob("*.html"))


def keep(name: str, content: bytes) -> None:
    if folder := os.environ.get("GPUPROV_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / name).write_bytes(content)


def elsewhere(browser: Chromium, address: str) -> list[str]:
    """What was requested of anybody but the site itself."""
    return [url for url in browser.requests if not url.startswith((f"{address}/", "data:", "file://"))]


def violations(browser: Chromium) -> list[str]:
    """What axe-core finds against WCAG and its own best practices, each with the elements."""
    browser.run(AXE.read_text(encoding="utf-8"))
    look = "axe.run(document, {resultTypes: ['violations']}).then((r) => r.passes.length > 20 && [r.violations])"
    (found,) = until(lambda: browser.run(look))  # a busy machine may not have drawn the whole page yet, and axe looks at what is there
    return [f"{each['id']}: {', '.join(node['html'][:100] for node in each['nodes'][:5])}" for each in found]


@pytest.mark.matrix
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (360, True)], ids=["wide-light", "narrow-dark"])
def test_no_page_asks_another_host_and_each_fits_its_window_and_axe_finds_nothing(
    browser: Chromium,
    site: Path,
    address: str,
    width: int,
    dark: bool,  # noqa: FBT001
) -> None:
    wrong: dict[str, object] = {}
    for page in sample.part(pages(site)):
        browser.see(width=width, dark=dark)
        browser.open(f"{address}/{page}")
        found = [*elsewhere(browser, address), *browser.complaints]
        found += ["wider than the window"] * (browser.run("document.documentElement.scrollWidth") > width)
        red, green, blue = map(int, re.findall(r"\d+", browser.run("getComputedStyle(document.body).backgroundColor"))[:3])
        found += ["code is cut"] * browser.run(CUT)
        found += ["the wrong colours"] * ((max(red, green, blue) < 80) != dark)
        found += violations(browser)
        if found:
            wrong[page] = found
    assert wrong == {}


@pytest.mark.parametrize(("width", "dark"), [(1200, True), (360, False)], ids=["wide-dark", "narrow-light"])
def test_a_page_of_each_kind_the_other_way_round(browser: Chromium, address: str, width: int, dark: bool) -> None:  # noqa: FBT001
    for page in KINDS.values():
        browser.see(width=width, dark=dark)
        browser.open(f"{address}/{page}")
        assert violations(browser) == [], page
        assert browser.run("document.documentElement.scrollWidth") <= width, page


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pictures_of_each_kind(browser: Chromium, address: str, dark: bool) -> None:  # noqa: FBT001
    """The place that an address names is in the window, below the header."""
    for name, page in KINDS.items():
        browser.see(dark=dark)
        browser.open(f"{address}/{page}")
        anchor = page.partition("#")[2]
        if anchor:
            top = browser.run(f"document.getElementById('{anchor}').getBoundingClientRect().top")
            assert 0 <= top < 900, page
        picture = browser.picture(whole=False)
        assert len(picture) > 10_000
        keep(f"{name}-{'dark' if dark else 'light'}.png", picture)


def test_code_can_be_copied_and_of_what_is_shown_the_commands_alone(browser: Chromium, address: str) -> None:
    browser.see()
    browser.open(f"{address}/tutorial.html")
    assert browser.run("document.querySelectorAll('.md-typeset pre').length") == browser.run(
        "[...document.querySelectorAll('.md-typeset pre')].filter((e) => e.querySelector('[data-clipboard-target]')).length"
    )
    # What the theme's button does with the text before it takes it.
    taken = browser.run(
        "[...document.querySelectorAll('.md-typeset pre > code')].map((e) => { e.setAttribute('data-md-copying', '');"
        " const text = e.innerText; e.removeAttribute('data-md-copying'); return text; }).join('\\n')"
    )
    assert "gpuprov profile check t4-train" in taken
    assert re.findall(r"^\$ |error\[", taken, re.MULTILINE) == []


def test_the_start_page_sells_what_the_readme_says_and_the_left_column_is_short(browser: Chromium, address: str) -> None:
    browser.see(width=1280)
    browser.open(f"{address}/using/several-machines.html")
    shown = "[...document.querySelectorAll('.md-sidebar--primary a')].filter((e) => e.offsetParent).length"
    assert 5 < browser.run(shown) < 25
    browser.open(f"{address}/index.html")
    said = browser.run("document.body.innerText")
    assert all(words in said for words in ("Somebody on your team", "uv tool install", "gpuprov up mine", "gpuprov 0."))
    assert browser.run("getComputedStyle(document.querySelector('h1')).fontWeight") == "700"


def test_what_would_be_wrong_is_found(browser: Chromium, address: str) -> None:
    browser.see()
    browser.open(f"{address}/index.html")
    wrong = "<img src='http://192.0.2.1/x.png'><p style='width:2000px'>x</p>"
    browser.run(f'document.querySelector("article").insertAdjacentHTML("beforeend", "{wrong}")')
    browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert elsewhere(browser, address) == ["http://192.0.2.1/x.png"]
    assert any(each.startswith("image-alt") for each in violations(browser))
    assert browser.run("document.documentElement.scrollWidth") > 1200


@pytest.mark.parametrize("how", ["server", "folder"])
@pytest.mark.parametrize("word", ["quota-exceeded", "counters", "deadline_h"])
def test_search_works_offline(browser: Chromium, site: Path, address: str, how: str, word: str) -> None:
    browser.see()
    browser.open(f"{address}/index.html" if how == "server" else site / "index.html")
    browser.run(f"{TYPED}.focus()")
    for key in word:
        browser.press(key)
    # A worker reads the index and answers each key in turn, so the first results may be those of a part of the word.
    shown = browser.run(
        "new Promise((done) => { const look = () => {"
        " const shown = [...document.querySelectorAll('.md-search-result__item')].map((each) => each.textContent).join(' ');"
        f" if (shown.includes('{word}') || performance.now() > until) done(shown); else requestAnimationFrame(look); }};"
        " const until = performance.now() + 30000; look(); })"
    )
    assert word in shown
    assert elsewhere(browser, address) == []


def test_the_built_files_name_no_other_host_to_load_from(site: Path) -> None:
    """Links lead elsewhere; scripts, styles, pictures and fonts do not."""
    loads = re.compile(r"<(?:script|img|source|iframe|link)\b[^>]*?(?:src|srcset|href)=[\"']?((?:https?:)?//[^\"'\s>]+)")
    wrong = {page: loads.findall((site / page).read_text()) for page in pages(site)}
    assert {page: found for page, found in wrong.items() if found} == {}
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert re.findall(r"url\([\"']?(?:https?:)?//[^)]+|@import", styles) == []


def test_by_keyboard_the_first_stop_leads_to_the_content(browser: Chromium, address: str) -> None:
    browser.see()
    browser.open(f"{address}/tutorial.html")
    browser.press("Tab")
    assert browser.run("document.activeElement.className").startswith("md-skip")
    browser.press("Enter")
    assert browser.run("location.hash").startswith("#tutorial")
