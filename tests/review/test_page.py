"""The forms of a review: page, Markdown, JSON and terminal; the same content, and nothing that a profile says is obeyed by any of them."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from provision import clouds
from provision.cli.review import _show
from provision.review import markdown, page
from provision.review.content import content

from .examples import EVERYTHING, HOSTILE, SHIPPED, changed, hostile, review

VOID = {"meta", "link", "br", "input", "rect", "img", "hr"}
ACTIVE = {"script", "style", "iframe", "object", "embed", "base", "link", "form", "img", "audio", "video", "svg"}


class Parsed(HTMLParser):
    """Elements, attributes, ids and what does not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))


def test_where_a_price_comes_from_is_a_link() -> None:
    (links,) = re.findall(r"<dt>Sources</dt><dd>(.*?)</dd>", page.render(review()))
    known = {source.url for source in clouds.sources().values()}
    found = re.findall(r'<a href="([^"]+)" rel="noopener">\1</a>', links)
    assert found
    assert set(found) <= known
    assert not re.search(r"https?://", re.sub(r"<a .*?</a>", "", links))


@pytest.mark.parametrize("name", SHIPPED)
def test_the_forms_are_the_same_each_time(name: str) -> None:
    assert page.render(review(name)) == page.render(review(name))
    assert markdown.render(review(name)) == markdown.render(review(name))


def test_the_page_is_whole_and_its_links_lead_somewhere(tmp_path: Path) -> None:
    for found in (review(), content(*changed(tmp_path, *EVERYTHING))):
        parsed = Parsed(page.render(found))
        ids = [attributes["id"] for _, attributes in parsed.found if "id" in attributes]
        assert len(ids) == len(set(ids))
        links = [attributes["href"] or "" for tag, attributes in parsed.found if tag == "a"]
        known = {source.url for source in clouds.sources().values()}
        assert all(link in known or (link.startswith("#") and link[1:] in ids) for link in links)
        assert {tag for tag, _ in parsed.found} >= {"main", "header", "nav", "footer", "h1"}
        assert not [a for _, attributes in parsed.found for a in attributes if a.startswith("on") or a in {"src", "style"}]


def policy_of(text: str) -> str:
    """The security policy that a page's own style and script allow."""
    digests = {}
    for tag in ("style", "script"):
        inside = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert text.count(f"<{tag}") == len(inside) == (1 if tag == "style" or inside else 0)
        digests[tag] = f"'sha256-{base64.b64encode(hashlib.sha256(inside[0].encode()).digest()).decode()}'" if inside else "'none'"
    return f"default-src 'none'; style-src {digests['style']}; script-src {digests['script']}; base-uri 'none'; form-action 'none'"


def policies(text: str) -> list[str | None]:
    """The policies that a page has, each before everything that it is about."""
    elements = Parsed(text).found
    assert [tag for tag, _ in elements][:4] == ["html", "head", "meta", "meta"]
    assert "http-equiv" in elements[3][1]
    return [attributes["content"] for tag, attributes in elements if tag == "meta" and "http-equiv" in attributes]


def test_the_policy_admits_our_style_and_our_script_by_their_digests_and_nothing_else() -> None:
    text = page.render(review())
    assert "<script>" in text
    assert policies(text) == [policy_of(text)]
    loaded = {"link", "iframe", "object", "embed", "base", "img", "audio", "video", "source"}
    assert not {tag for tag, _ in Parsed(text).found} & loaded
    assert not re.search(r"@import|url\(", text.partition("</style>")[0])


def test_the_page_begins_with_the_decision_then_the_risks() -> None:
    text = page.render(review())
    order = ["verdict", "risks", "exists", "price", "exposure", "software", "host", "undo", "proof", "permissions", "profile", "answer"]
    at = [text.index(f'<section id="{name}"' if name != "verdict" else 'id="verdict"') for name in order]
    assert at == sorted(at)


@pytest.mark.parametrize("name", SHIPPED)
def test_page_and_markdown_name_everything(name: str) -> None:
    found = review(name)
    shown = Parsed(page.render(found)).text
    twin = markdown.render(found)
    unescaped = re.sub(r"\\([\\`*_\[\]<>#|~&@:.$^])", r"\1", twin)
    for wheel in (w for e in found.environments for w in e.wheels):
        for text in (shown, twin):
            assert all(digest in text for digest in wheel.hashes)
    words = [p.name for p in found.packages] + [c.target for c in found.changes] + [d.network for d in found.doors]
    words += [c.check for c in found.controls] + [a for p in found.permissions for a in p.actions or ()]
    words += [r.url for r in found.repositories] + [found.profile_sha256, found.lock_sha256, found.owner_email]
    for word in words:
        assert word in shown, word
        assert word in unescaped, word
    for risk in found.risks:
        assert risk.title.replace("`", "") in shown
        assert f"{risk.severity}: " in twin
    for line in found.text:
        assert line.strip() in twin


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_is_text_on_the_page(kind: str) -> None:
    calm, wild = (Parsed(page.render(content(*hostile(text)))) for text in ("calm", HOSTILE[kind]))

    def active(parsed: Parsed) -> list[str]:
        return [tag for tag, _ in parsed.found if tag in ACTIVE]

    assert active(wild) == active(calm)
    assert not [a for _, attributes in wild.found for a in attributes if a.startswith("on") or a in {"src", "autofocus"}]
    text = page.render(content(*hostile(HOSTILE[kind])))
    assert all(c.isprintable() or c == "\n" for c in text)
    assert len(text) < 2_000_000
    if kind == "jinja":
        assert "{{ 7 * 6 }}" in text


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_is_text_on_a_terminal(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    _show(content(*hostile(HOSTILE[kind])))
    said = capsys.readouterr().out
    assert all(c.isprintable() or c == "\n" for c in said), "not even our own colours, where nobody sees them"


@pytest.mark.parametrize("name", ["workstation", "h100-train"])
def test_where_nothing_can_be_launched_no_form_says_that_a_price_is_accepted_unknown(name: str) -> None:
    for form in (markdown.render(review(name)), Parsed(page.render(review(name))).text):
        assert "nothing is launched" in form
        assert "not enforced" not in form
