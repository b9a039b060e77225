"""The review in a real browser: light, dark, narrow, on paper, by keyboard, without scripts, for those who do not see it, and hostile.

With GPUPROV_SCREENSHOTS=FOLDER the pictures and the pages of paper are kept there.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from provision.cli import main
from provision.report import html
from provision.review import against, bundle, page
from provision.review.content import content
from provision.review.tree import Review

from ..report.chromium import Chromium, installed  # noqa: TID252 - the tests have no root package
from ..report.examples import CASES  # noqa: TID252 - the tests have no root package
from .examples import EVERYTHING, HOSTILE, SHIPPED, changed, hostile, review
from .samples import POLICY, WAIVED, small

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not installed(), reason="no Chromium here (apt-get install chromium, then: pytest -m browser)"),
]
AXE = Path(__file__).parent.parent / "data" / "axe" / "axe.min.js"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium.started(tmp_path_factory.mktemp("chromium")) as started:
        yield started


def show(browser: Chromium, folder: Path, found: Review, **how: bool | int) -> Path:
    path = folder / "review.html"
    path.write_text(page.render(found) + "\n", encoding="utf-8")
    browser.see(**how)  # type: ignore[arg-type] # width is a number, the rest are not
    browser.open(path)
    return path


def keep(name: str, content: bytes) -> None:
    if folder := os.environ.get("GPUPROV_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / name).write_bytes(content)


def everything(folder: Path) -> Review:
    return content(*changed(folder, *EVERYTHING))


def violations(browser: Chromium) -> list[str]:
    """What axe-core finds against WCAG and its own best practices, each with the elements."""
    # Through the debugger: the page's own policy admits no script but ours.
    browser.run(AXE.read_text(encoding="utf-8"))
    found: dict[str, Any] = browser.run(
        "axe.run(document, {resultTypes: ['violations']}).then((r) => ({v: r.violations, n: r.passes.length}))"
    )
    assert found["n"] > 15, "axe looked at the page"
    return [f"{v['id']}: {', '.join(str(node['target']) for node in v['nodes'][:5])}" for v in found["v"]]


@pytest.mark.parametrize("name", SHIPPED)
def test_nothing_is_requested_and_nothing_complained_of(browser: Chromium, tmp_path: Path, name: str) -> None:
    show(browser, tmp_path, review(name))
    assert [url for url in browser.requests if not url.startswith("file://")] == []
    assert browser.complaints == []
    assert browser.run("document.scripts.length") == 1


@pytest.mark.parametrize("width", [360, 1280])
def test_what_changed_is_a_page_for_everybody(browser: Chromium, tmp_path: Path, width: int) -> None:
    path = tmp_path / "changes.html"
    path.write_text(page.changes("what changed", against.shifts(review(), everything(tmp_path))), encoding="utf-8")
    browser.see(width=width)
    browser.open(path)
    assert browser.complaints == []
    assert violations(browser) == []
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_does_nothing(browser: Chromium, tmp_path: Path, kind: str) -> None:
    show(browser, tmp_path, content(*hostile(HOSTILE[kind])), width=360)
    assert [url for url in browser.requests if not url.startswith("file://")] == []
    assert browser.complaints == []
    assert "it ran" not in browser.run("document.title")
    assert browser.run("document.scripts.length") == 1
    assert browser.run("document.documentElement.scrollWidth") <= 360
    browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert browser.run("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_the_page_fits_its_window_in_both_colours(browser: Chromium, tmp_path: Path, width: int, dark: bool) -> None:  # noqa: FBT001
    for name, found in {"t4-train": review(), "v100-train": review("v100-train"), "everything": everything(tmp_path)}.items():
        show(browser, tmp_path, found, width=width, dark=dark)
        assert browser.run("document.documentElement.scrollWidth") <= width, name
        red, green, blue = map(int, re.findall(r"\d+", browser.run("getComputedStyle(document.body).backgroundColor"))[:3])
        assert (max(red, green, blue) < 60) == dark
        keep(f"review-{name}-{width}-{'dark' if dark else 'light'}.png", browser.picture())


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_axe_finds_nothing_on_the_review(browser: Chromium, tmp_path: Path, width: int, dark: bool) -> None:  # noqa: FBT001
    for found in (review(), everything(tmp_path)):
        show(browser, tmp_path, found, width=width, dark=dark)
        browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        assert violations(browser) == []


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_axe_finds_nothing_on_the_report(browser: Chromium, tmp_path: Path, case: Any) -> None:
    path = tmp_path / "report.html"
    path.write_text(html.render(*case) + "\n", encoding="utf-8")
    for dark in (False, True):
        browser.see(dark=dark)
        browser.open(path)
        assert violations(browser) == []


def test_axe_would_find_something(browser: Chromium, tmp_path: Path) -> None:
    show(browser, tmp_path, review())
    browser.run("document.querySelector('.note input').parentElement.replaceWith(document.querySelector('.note input'))")
    assert any(found.startswith("label") for found in violations(browser))


def test_without_scripts_everything_is_there_and_nothing_that_does_not_work(browser: Chromium, tmp_path: Path) -> None:
    found = review()
    show(browser, tmp_path, found, script=False)
    try:
        tree = browser.ask("Accessibility.getFullAXTree")["nodes"]
    finally:
        browser.see()
    names = [str(node.get("name", {}).get("value", "")) for node in tree if not node.get("ignored")]
    seen = " ".join(names)
    for words in (found.purpose, "Every local user may read the GPU's performance counters", "/etc/modprobe.d/gpuprov-counters.conf"):
        assert words in seen
    assert "Save as JSON" not in names


def test_by_keyboard_alone(browser: Chromium, tmp_path: Path) -> None:
    show(browser, tmp_path, review())
    browser.press("Tab")
    assert browser.run("document.activeElement.className") == "skip"
    assert browser.run("document.activeElement.getBoundingClientRect().left") >= 0
    browser.press("Enter")
    assert browser.run("location.hash") == "#verdict"
    browser.press("Tab")
    assert browser.run("document.activeElement.closest('details').dataset.risk") == "counters-open"
    assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    browser.press("Enter")
    assert browser.run("document.activeElement.closest('details').open") is False
    browser.press("Enter")
    browser.press("Tab")
    browser.press("Enter")
    assert re.fullmatch(r"#line-\d+", browser.run("location.hash"))
    assert "counters: all-users" in browser.run("document.querySelector(':target').textContent")


def test_the_answers_are_exported(browser: Chromium, tmp_path: Path) -> None:
    found = review()
    show(browser, tmp_path, found)
    saved = (
        "(kind) => new Promise((done) => {"
        " const make = URL.createObjectURL;"
        " URL.createObjectURL = (blob) => { blob.text().then(done); return make.call(URL, blob); };"
        " HTMLAnchorElement.prototype.click = function () { window.savedAs = this.download; };"
        " document.querySelector(`[data-export=${kind}]`).click(); URL.createObjectURL = make; })"
    )
    assert browser.run("document.getElementById('answered').textContent") == f"{len(found.questions)} of {len(found.questions)} still open"
    browser.run("document.querySelector('[name=risks][value=no]').click()")
    browser.run("document.querySelector('[name=risks-note]').value = 'counters: <b>group</b>, please'")
    browser.run("document.querySelector('[name=reviewer]').value = 'ISA'")
    answers = json.loads(browser.run(f"({saved})('json')"))
    assert browser.run("window.savedAs") == "t4-train-answers.json"
    assert (answers["profile_sha256"], answers["lock_sha256"]) == (found.profile_sha256, found.lock_sha256)
    assert answers["reviewer"] == "ISA"
    by_id = {each["id"]: each for each in answers["answers"]}
    assert set(by_id) == {question.id for question in found.questions}
    assert (by_id["risks"]["answer"], by_id["risks"]["note"]) == ("no", "counters: <b>group</b>, please")
    assert by_id["price"]["answer"] is None
    text = browser.run(f"({saved})('text')")
    assert "[no] Each risk above is acceptable" in text
    assert "[open] The price" in text
    assert browser.complaints == []


def test_on_paper_it_is_a4_with_everything_unfolded(browser: Chromium, tmp_path: Path) -> None:
    found = review()
    show(browser, tmp_path, found, dark=True)
    written = browser.paper()
    keep("review.pdf", written)
    boxes = {tuple(float(n) for n in box.split()) for box in re.findall(rb"/MediaBox ?\[([^\]]+)\]", written)}
    assert boxes
    assert all(abs(right - 595) < 2 and abs(top - 842) < 2 for _, _, right, top in boxes), boxes
    browser.ask("Emulation.setDeviceMetricsOverride", width=695, height=980, deviceScaleFactor=1, mobile=False)
    browser.ask("Emulation.setEmulatedMedia", media="print")
    try:
        assert browser.run("document.documentElement.scrollWidth") <= 695
        assert browser.run("getComputedStyle(document.querySelector('nav')).display") == "none"
        assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    finally:
        browser.ask("Emulation.setEmulatedMedia", media="")


@pytest.mark.skipif(not shutil.which("pdftotext"), reason="no pdftotext here (apt-get install poppler-utils)")
def test_paper_has_what_is_folded_on_the_screen(browser: Chromium, tmp_path: Path) -> None:
    found = review()
    path = show(browser, tmp_path, found, script=False)
    try:
        (tmp_path / "review.pdf").write_bytes(browser.paper())
    finally:
        browser.see()
        browser.open(path)
    done = subprocess.run(["pdftotext", "-layout", str(tmp_path / "review.pdf"), "-"], capture_output=True, text=True, check=True)
    text = re.sub(r"\s+", "", done.stdout)
    for wheel in (w for e in found.environments for w in e.wheels):
        assert all(digest in text for digest in wheel.hashes), wheel.name
    for call in found.calls:
        assert call.action in text
    assert "OnCalendar" in text


def certified(folder: Path) -> Path:
    """The certificate of a recorded host that fails much, as `accept` writes it."""
    path = folder / "t4.bundle"
    bundle.write(path, small(POLICY, WAIVED))
    given = Path(__file__).parents[1] / "data" / "facts" / "h200-perf.json"
    page_of = folder / "certificate.html"
    with contextlib.suppress(SystemExit):
        main(["verify", "--facts", str(given), "--bundle", str(path), "--evidence", str(folder / "e.json"), "--skip", "tmux"])
    with contextlib.suppress(SystemExit):
        main(["accept", str(folder / "e.json"), "--bundle", str(path), "-o", str(page_of)])
    return page_of


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_the_certificate_fits_asks_nobody_and_axe_finds_nothing(browser: Chromium, tmp_path: Path, width: int, dark: bool) -> None:  # noqa: FBT001
    path = certified(tmp_path)
    browser.see(width=width, dark=dark)
    browser.open(path)
    assert [url for url in browser.requests if not url.startswith("file://")] == []
    assert browser.complaints == []
    assert browser.run("document.scripts.length") == 0
    assert browser.run("document.documentElement.scrollWidth") <= width
    keep(f"certificate-{width}-{'dark' if dark else 'light'}.png", browser.picture())
    assert violations(browser) == []


@pytest.mark.skipif(not shutil.which("pdftotext"), reason="no pdftotext here (apt-get install poppler-utils)")
def test_the_certificate_is_whole_on_paper(browser: Chromium, tmp_path: Path) -> None:
    browser.open(certified(tmp_path))
    printed = browser.paper()
    keep("certificate.pdf", printed)
    (tmp_path / "certificate.pdf").write_bytes(printed)
    text = subprocess.run(
        ["pdftotext", "-layout", str(tmp_path / "certificate.pdf"), "-"], capture_output=True, text=True, check=True
    ).stdout
    assert text.index("Fails") < text.index("Passes")
    assert bundle.read(tmp_path / "t4.bundle").digest in re.sub(r"\s", "", text)
