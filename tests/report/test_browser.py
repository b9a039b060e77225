"""The page in a real browser: light, dark, narrow, on paper, by keyboard, without scripts, and against what a hostile host says.

With GPUPROV_SCREENSHOTS=FOLDER the pictures and the pages of paper are kept there.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from provision.report import html
from provision.report.chart import Chart, charts
from provision.verify.finding import Report

from .chromium import Chromium, installed
from .examples import CASES, CLEAN, HOSTILE, MEASURED, ONE, UNKNOWN

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not installed(), reason="no Chromium here (apt-get install chromium, then: pytest -m browser)"),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium.started(tmp_path_factory.mktemp("chromium")) as started:
        yield started


def show(browser: Chromium, folder: Path, *reports: Report, drawn: Sequence[Chart] = (), **how: bool | int) -> None:
    path = folder / "report.html"
    path.write_text(html.render(*reports, charts=drawn) + "\n", encoding="utf-8")
    browser.see(**how)  # type: ignore[arg-type] # width is a number, the rest are not
    browser.open(path)


def keep(name: str, content: bytes) -> None:
    if folder := os.environ.get("GPUPROV_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / name).write_bytes(content)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_nothing_is_requested_and_nothing_complained_of(browser: Chromium, tmp_path: Path, case: tuple[Report, ...]) -> None:
    show(browser, tmp_path, *case, drawn=charts(MEASURED))
    assert [url for url in browser.requests if not url.startswith("file://")] == []
    assert browser.complaints == []
    assert browser.run("document.scripts.length") == 1


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_the_page_fits_its_window_in_both_colours(browser: Chromium, tmp_path: Path, width: int, dark: bool) -> None:  # noqa: FBT001
    for name, case in {"one": (ONE,), "three": (ONE, CLEAN, UNKNOWN), "fleet": CASES["a fleet"], "hostile": (HOSTILE, ONE)}.items():
        show(browser, tmp_path, *case, drawn=charts(MEASURED), width=width, dark=dark)
        assert browser.run("document.documentElement.scrollWidth") <= width, name
        red, green, blue = map(int, re.findall(r"\d+", browser.run("getComputedStyle(document.body).backgroundColor"))[:3])
        assert (max(red, green, blue) < 60) == dark
        keep(f"{name}-{width}-{'dark' if dark else 'light'}.png", browser.picture())


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_roofline_is_drawn_named_and_readable(browser: Chromium, tmp_path: Path, dark: bool) -> None:  # noqa: FBT001
    show(browser, tmp_path, ONE, drawn=charts(MEASURED), dark=dark)
    box = "document.querySelector('svg.roofline').getBoundingClientRect()"
    assert browser.run(f"{box}.width") > 600
    assert browser.run(f"[...document.querySelectorAll('svg.roofline .point')].every((p) => p.getBoundingClientRect().right < {box}.right)")
    assert browser.run("document.querySelectorAll('svg.roofline .point').length") == 4
    visible = {name: browser.run(f"getComputedStyle(document.querySelector('svg.roofline {name}')).stroke") for name in (".used", ".grid")}
    assert len({*visible.values(), browser.run("getComputedStyle(document.querySelector('svg.roofline')).backgroundColor")}) == 3
    nodes = browser.ask("Accessibility.getFullAXTree")["nodes"]
    pictures = [node["name"]["value"] for node in nodes if node.get("role", {}).get("value") == "image"]
    assert [name for name in pictures if name.startswith("Roofline of H200 SXM") and "Measured points: 4" in name]
    assert len(browser.run("document.querySelector('table.points tbody').innerText").splitlines()) == 4
    assert [url for url in browser.requests if not url.startswith("file://")] == []


def test_without_scripts_everything_is_there_and_nothing_that_does_not_work(browser: Chromium, tmp_path: Path) -> None:
    show(browser, tmp_path, ONE, script=False)
    try:
        tree = browser.ask("Accessibility.getFullAXTree")["nodes"]
    finally:
        browser.see()
    visible = " ".join(str(node.get("name", {}).get("value", "")) for node in tree if not node.get("ignored"))
    for words in ("host-a does NOT match profile t4-train", "expected fail", "observed unknown", ONE.notes[0], "check-waived"):
        assert words in visible
    assert "searchbox" not in {node.get("role", {}).get("value") for node in tree if not node.get("ignored")}


def test_by_keyboard_alone(browser: Chromium, tmp_path: Path) -> None:
    show(browser, tmp_path, ONE)
    browser.press("Tab")
    assert browser.run("document.activeElement.className") == "skip"
    assert browser.run("document.activeElement.getBoundingClientRect().left") >= 0
    assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    browser.press("Enter")
    assert browser.run("location.hash") == "#verdict"
    focused = "document.activeElement.closest('details')?.dataset.outcome"
    browser.press("j")
    assert browser.run(focused) == "fail"
    browser.press("Enter")
    assert browser.run("document.activeElement.closest('details').open") is False
    browser.press("j")
    assert browser.run(focused) == "unknown"
    browser.press("k")
    browser.press("k")
    assert browser.run(focused) == "waived"


def test_the_filter_hides_rows_by_outcome_and_by_words(browser: Chromium, tmp_path: Path) -> None:
    show(browser, tmp_path, ONE)
    rows = (
        "[...document.querySelectorAll('table.checks tbody tr')].filter((row) => row.checkVisibility()).map((row) => row.dataset.outcome)"
    )
    assert len(browser.run(rows)) == len(ONE.findings)
    browser.run("document.querySelector('[data-toggle=pass]').click()")
    assert "pass" not in browser.run(rows)
    assert browser.run("document.querySelector('[data-toggle=pass]').getAttribute('aria-pressed')") == "false"
    browser.press("/")
    for key in "role fail":
        browser.press(key)
    assert browser.run(rows) == ["fail"]
    assert browser.run("document.getElementById('shown').textContent") == f"1 of {len(ONE.findings)} shown"
    browser.press("Escape")
    assert len(browser.run(rows)) == len(ONE.findings) - 1


def test_a_link_to_a_host_unfolds_its_checks(browser: Chromium, tmp_path: Path) -> None:
    show(browser, tmp_path, *CASES["a fleet"])
    assert browser.run("document.getElementById('host-7').open") is False
    browser.run("document.querySelector('a[href=\"#host-7\"]').click()")
    browser.run("new Promise((done) => setTimeout(done, 100))")
    assert browser.run("document.getElementById('host-7').open") is True


def test_on_paper_it_is_a4_with_nothing_cut_off_at_the_side(browser: Chromium, tmp_path: Path) -> None:
    for name, case in {"one": (ONE,), "fleet": CASES["a fleet"]}.items():
        show(browser, tmp_path, *case, drawn=charts(MEASURED), dark=True)
        pdf = browser.paper()
        keep(f"{name}.pdf", pdf)
        assert pdf.startswith(b"%PDF-")
        boxes = {tuple(float(n) for n in box.split()) for box in re.findall(rb"/MediaBox ?\[([^\]]+)\]", pdf)}
        assert all(abs(right - 595) < 2 and abs(top - 842) < 2 for _, _, right, top in boxes), boxes
        # The width of A4 less the margins, in CSS pixels.
        browser.ask("Emulation.setDeviceMetricsOverride", width=695, height=980, deviceScaleFactor=1, mobile=False)
        browser.ask("Emulation.setEmulatedMedia", media="print")
        try:
            assert browser.run("document.documentElement.scrollWidth") <= 695, name
            assert browser.run("getComputedStyle(document.querySelector('nav')).display") == "none"
            light = "getComputedStyle(document.body).backgroundColor"
            assert browser.run(light) == "rgb(255, 255, 255)", "paper is white, whatever the screen is"
        finally:
            browser.ask("Emulation.setEmulatedMedia", media="")
