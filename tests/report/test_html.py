"""The page as a file: self-contained, escaped, accessible in what can be read from the markup. What a browser makes of it: test_browser."""

import base64
import hashlib
import itertools
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest

from provision.report import html
from provision.report import json as json_format
from provision.report import text as text_format
from provision.report.base import GLYPHS
from provision.report.chart import charts
from provision.structs import replace
from provision.verify.finding import OUTCOMES, Report

from .examples import CASES, CLEAN, EMPTY, FINDINGS, HOSTILE, MEASURED, ONE, UNKNOWN

WARNED = Report("host-w", "t4-train", (FINDINGS[0], FINDINGS[OUTCOMES.index("warn")]))
VOID = {"meta", "input", "img", "link", "br", "hr"}
TEMPLATES = Path(html.__file__).parent / "templates"


class Page(HTMLParser):
    """Every element with its attributes, the words that are seen, and a failure where a tag is not closed in its turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.declared: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"an attribute of {tag} comes twice"
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in {"style", "script"}:
            self.words.append(data)

    def handle_decl(self, decl: str) -> None:
        self.declared.append(decl)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(params=list(CASES.values()), ids=list(CASES))
def page(request: pytest.FixtureRequest) -> Page:
    return Page(html.render(*request.param, charts=charts(MEASURED)))


def test_nothing_is_asked_of_anybody(page: Page) -> None:
    assert page.declared == ["doctype html"]
    for tag, attributes in page.elements:
        assert tag not in {"link", "iframe", "object", "embed", "base", "audio", "video", "source"}
        for name, value in attributes.items():
            assert not name.startswith("on"), f"{tag} has a handler in its markup"
            assert name != "style"
            if name in {"src", "href", "action", "srcset", "data", "poster", "xlink:href"}:
                assert value.startswith("#"), (tag, name, value)
    assert "@import" not in (TEMPLATES / "report.css").read_text()
    assert "url(" not in (TEMPLATES / "report.css").read_text()


def test_the_policy_admits_our_style_and_our_script_by_their_digests_and_nothing_else() -> None:
    text = html.render(ONE)
    digests = {}
    for tag in ("style", "script"):
        [inside] = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digests[tag] = f"'sha256-{base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()}'"
    policies = [m["content"] for m in Page(text).all("meta") if "http-equiv" in m]
    assert policies == [
        f"default-src 'none'; style-src {digests['style']}; script-src {digests['script']}; base-uri 'none'; form-action 'none'"
    ]
    # A policy counts from where it stands: nothing that it is about comes before it.
    assert [tag for tag, _ in Page(text).elements][:4] == ["html", "head", "meta", "meta"]


def test_what_holds_with_waivers_has_not_the_colour_of_what_holds() -> None:
    """On a host without a GPU, whose checks are waived, a green page would say that the GPU was proven."""
    waived = replace(CLEAN, findings=tuple(finding for finding in ONE.findings if finding.outcome in {"pass", "waived"}))
    for hosts in ((waived,), (CLEAN, waived)):
        text = html.render(*hosts)
        assert [a["class"] for a in Page(text).all("section") if a.get("id") == "verdict"] == ["verdict waived"]
        assert "<span>matches, with waivers</span></p>" in text
        assert json.loads(json_format.render(*hosts))["exit_code"] == 0


STRICT_CODES = [(ONE,), (CLEAN,), (UNKNOWN,), (WARNED,), (CLEAN, WARNED), (UNKNOWN, WARNED), (ONE, WARNED)]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("hosts", STRICT_CODES, ids=lambda hosts: "-".join(host.host for host in hosts))
def test_the_verdict_in_colour_in_a_word_and_in_the_title_is_that_of_the_exit_code(hosts: tuple[Report, ...], *, strict: bool) -> None:
    shown = {0: ("pass", "matches"), 1: ("fail", "does NOT match"), 3: ("unknown", "not proven")}
    codes = [
        1 if any(host.summary[o] for o in (("fail", "warn") if strict else ("fail",))) else 3 if host.summary["unknown"] else 0
        for host in hosts
    ]
    code = 1 if 1 in codes else 3 if 3 in codes else 0
    text = html.render(*hosts, strict=strict)
    page = Page(text)
    [verdict] = [a["class"] for a in page.all("section") if a.get("id") == "verdict"]
    assert verdict == f"verdict {shown[code][0]}"
    assert f"<span>{shown[code][1]}</span></p>" in text
    assert f"<title>{GLYPHS[shown[code][0]]} " in text  # type: ignore[index]
    machine = json.loads(json_format.render(*hosts, strict=strict))
    assert machine["exit_code"] == code
    assert [host["exit_code"] for host in machine.get("hosts", [machine])] == codes
    assert ("warnings count as failures (--strict)" in text_format.render(*hosts, strict=strict)) == (
        strict and any(host.summary["warn"] for host in hosts)
    )


def test_ids_are_unique_and_every_reference_has_its_target(page: Page) -> None:
    ids = Counter(a["id"] for _, a in page.elements if "id" in a)
    assert max(ids.values()) == 1
    for _, attributes in page.elements:
        assert set(attributes.get("aria-labelledby", "verdict").split()) <= set(ids)
        if attributes.get("href", "").startswith("#"):
            assert attributes["href"][1:] in ids


def test_tables_name_their_headers_and_headings_skip_no_level(page: Page) -> None:
    assert all(th.get("scope") in {"row", "col"} for th in page.all("th"))
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert not page.all("img")
    assert all(drawn["aria-labelledby"].split() for drawn in page.all("svg") if drawn.get("role") == "img")
    assert [h["lang"] for h in page.all("html")] == ["en"]


def test_the_skip_link_is_first_and_the_verdict_comes_before_everything(page: Page) -> None:
    body = page.elements[[tag for tag, _ in page.elements].index("body") + 1 :]
    assert body[0] == ("a", {"class": "skip", "href": "#verdict"})
    sections = [a["id"] for tag, a in page.elements if tag == "section" and "id" in a]
    assert sections == [s for s in ("verdict", "needs", "waived", "hosts", "matrix", "roofline", "checks") if s in sections]


def test_each_finding_unfolds_and_what_does_not_pass_is_unfolded() -> None:
    page = Page(html.render(ONE))
    details = page.all("details")
    assert len(details) == len(page.all("summary")) == len(ONE.findings) + 4
    assert {d["data-outcome"]: "open" in d for d in details if "data-outcome" in d} == {
        "fail": True,
        "unknown": True,
        "warn": True,
        "waived": False,
    }
    for words in ("expected fail", "observed fail", "do gpuprov apply host-a --role fail now", ONE.notes[0]):
        assert words in page.text


@pytest.mark.parametrize(
    ("hosts", "sentence"),
    [
        ((ONE,), "host-a does NOT match profile t4-train: 1 check fails, 1 check is unknown"),
        ((CLEAN,), "host-b matches profile t4-train"),
        ((UNKNOWN,), "host-c is not proven to match profile t4-train: 1 check is unknown"),
        ((EMPTY,), "No check was made, so nothing is proven"),
        ((CLEAN, CLEAN), "All 2 hosts match profile t4-train"),
        ((ONE, CLEAN, UNKNOWN), "1 of 3 hosts does NOT match profile t4-train; 1 is not proven to"),
        ((CLEAN, UNKNOWN), "1 of 2 hosts is not proven to match profile t4-train"),
        ((CLEAN, Report("x", "v100-train", CLEAN.findings)), "All 2 hosts match their profiles"),
    ],
)
def test_the_verdict_is_one_sentence(hosts: tuple[Report, ...], sentence: str) -> None:
    assert f'<h1 id="sentence"><bdi>{sentence}</bdi></h1>' in html.render(*hosts)


def test_an_outcome_is_a_word_and_a_glyph_and_never_colour_alone() -> None:
    text = html.render(ONE, CLEAN)
    for outcome in OUTCOMES:
        badge = re.search(rf'<span class="badge {outcome}"><span class="glyph" aria-hidden="true">(.)</span> {outcome}</span>', text)
        assert badge, outcome
    cells = re.findall(
        r'<td class="([a-z-]+)">(?:<span class="glyph" aria-hidden="true">.</span> )<span class="word">([a-z -]+)</span></td>', text
    )
    assert len(cells) == 2 * len(OUTCOMES)
    assert all(name == word or (name, word) == ("missing", "not checked") for name, word in cells)


def test_hostile_text_stays_text() -> None:
    text = html.render(HOSTILE, ONE)
    page = Page(text)
    assert len(page.all("script")) == len(page.all("style")) == 1
    assert not page.all("b")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "{{ 7*7 }}" in text
    assert "alert(1)" in page.text


def test_the_same_finding_on_several_hosts_is_told_once() -> None:
    fleet = CASES["a fleet"]
    issues = [d for d in Page(html.render(*fleet)).all("details") if "issue" in d.get("class", "")]
    assert len(issues) == 4
    assert "30 of 45 hosts" in html.render(*fleet)
    assert html.render(*fleet).count('<table class="matrix') == 3


def test_what_was_measured_is_laid_over_the_roofline_of_its_card_and_stands_in_a_table() -> None:
    assert 'id="roofline"' not in html.render(ONE)
    text = html.render(ONE, charts=charts(MEASURED))
    page = Page(text)
    [drawn] = [svg for svg in page.all("svg") if svg.get("role") == "img"]
    title, about = drawn["aria-labelledby"].split()
    assert re.search(rf'<title id="{title}">Roofline of H200 SXM with what was measured</title>', text)
    assert re.search(rf'<desc id="{about}">[^<]*Measured points: 4; they reach 79% to 88% of what the card could do there', text)
    assert len(page.all("circle")) == 2
    assert len([r for r in page.all("rect") if r.get("class") == "point"]) == 2
    # 783.73 of 989.5 TFLOPS in bf16, and 4244.6 of 4800 GB/s.
    assert "GPU 0 bf16 product: 783.7 TFLOPS 2731 783.7 989.5 79 %" in page.text
    assert "GPU 0 memory: 4244.6 GB/s 1 4.245 4.8 88 %" in page.text


def test_a_card_that_is_not_known_has_its_figures_and_no_roof() -> None:
    strange = replace(MEASURED[0], host="strange", card=None)
    page = Page(html.render(ONE, CLEAN, charts=charts([*MEASURED, strange])))
    assert len([svg for svg in page.all("svg") if svg.get("role") == "img"]) == 1
    assert "The catalog has no figures for this card" in page.text
    assert "strange GPU 0 bf16 product: 783.7 TFLOPS 2731 783.7 not known not known" in page.text


def luminance(colour: str) -> float:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("ground", [0, 1], ids=["light", "dark"])
def test_every_pair_of_colours_that_is_used_has_a_contrast_of_4_5(ground: int) -> None:
    block = re.findall(r":root \{(.*?)\}", (TEMPLATES / "report.css").read_text(), re.DOTALL)[ground]
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))
    pairs = [(front, back) for front in ("text", "quiet", "link") for back in ("ground", "raised")]
    for outcome in OUTCOMES:
        pairs += [(outcome, "ground"), (outcome, f"{outcome}-ground"), ("text", f"{outcome}-ground")]
        # The counts of all outcomes stand on the ground of the verdict.
        pairs += [(outcome, f"{verdict}-ground") for verdict in ("pass", "fail", "unknown", "waived")]
    low = {pair: round(contrast(colours[pair[0]], colours[pair[1]]), 2) for pair in pairs}
    assert {pair: ratio for pair, ratio in low.items() if ratio < 4.5} == {}
