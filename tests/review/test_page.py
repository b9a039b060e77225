"""The forms of a review: page, Markdown, JSON and terminal; the same content, and nothing that a profile says is obeyed by any of them."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from markdown_it import MarkdownIt

from provision.cli import cli
from provision.cli.review import _show
from provision.profile import load, lockfile
from provision.review import bundle, markdown, page
from provision.review.content import content

from .examples import EVERYTHING, HOSTILE, SHIPPED, changed, hostile, review, shipped

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
        assert all(link.startswith("#") and link[1:] in ids for link in links)
        assert {tag for tag, _ in parsed.found} >= {"main", "header", "nav", "footer", "h1"}
        assert not [a for _, attributes in parsed.found for a in attributes if a.startswith("on") or a in {"src", "style"}]


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
def test_hostile_text_is_text_in_markdown(kind: str) -> None:
    text = markdown.render(content(*hostile(HOSTILE[kind])))
    assert all(c.isprintable() or c == "\n" for c in text)
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens = [token for block in parser.parse(text) for token in [block, *(block.children or [])]]
    assert not [t for t in tokens if t.type in {"html_block", "html_inline", "image", "link_open"}]
    calm = parser.parse(markdown.render(content(*hostile("calm"))))
    headings = [sum(t.type == "heading_open" for t in found) for found in (tokens, calm)]
    assert headings[0] == headings[1]
    rows = [sum(t.type == "tr_open" for t in found) for found in (tokens, calm)]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_is_text_on_a_terminal(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    _show(content(*hostile(HOSTILE[kind])))
    said = capsys.readouterr().out
    assert all(c.isprintable() or c == "\n" for c in said), "not even our own colours, where nobody sees them"


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_is_text_in_json(kind: str) -> None:
    found = content(*hostile(HOSTILE[kind]))
    assert json.loads(bundle.canonical(found.as_dict()))["purpose"] == HOSTILE[kind]


@pytest.mark.parametrize("kind", ["html", "attribute", "markdown", "jinja", "shell", "hebrew"])
def test_through_the_front_door(tmp_path: Path, kind: str) -> None:
    """What the model lets in as free text comes out of the bundle as it went in."""
    document = yaml.safe_load(load.find("t4-train").read_text())
    document["purpose"], document["owner"]["name"] = HOSTILE[kind], HOSTILE[kind]
    path = tmp_path / "wild.yml"
    path.write_text(yaml.safe_dump(document, allow_unicode=True))
    done = CliRunner().invoke(cli, ["review", str(path), "-o", str(tmp_path / "wild.bundle.zip")])
    assert done.exit_code == 0, done.output
    read = bundle.read(tmp_path / "wild.bundle.zip")
    assert read.profile.purpose == HOSTILE[kind]
    assert not [tag for tag, _ in Parsed(read.files["review.html"].decode()).found if tag in {"img", "iframe", "object"}]


def test_a_bundle_is_the_same_as_folder_and_as_file_and_each_time(tmp_path: Path) -> None:
    digests = []
    for name in ("a.bundle", "b.bundle.zip", "c.bundle.zip"):
        done = CliRunner().invoke(cli, ["review", "t4-train", "-o", str(tmp_path / name), "--json"])
        assert done.exit_code == 0, done.output
        digests.append(json.loads(done.stdout)["sha256"])
    assert len(set(digests)) == 1
    assert (tmp_path / "b.bundle.zip").read_bytes() == (tmp_path / "c.bundle.zip").read_bytes()
    read = bundle.read(tmp_path / "a.bundle")
    assert set(read.files) == {"profile.yml", "lock.yml", "review.html", "review.md", "review.json"}
    assert read.files["profile.yml"] == shipped("t4-train")[2]
    assert lockfile.parse(read.files["lock.yml"].decode(), "lock.yml") == shipped("t4-train")[1]


def test_against_a_bundle_a_lock_and_a_profile(tmp_path: Path) -> None:
    run = CliRunner().invoke
    old = str(tmp_path / "old.bundle")
    assert run(cli, ["review", "t4-train", "-o", old]).exit_code == 0
    path = tmp_path / "t4-train.yml"
    path.write_text(load.find("t4-train").read_text().replace("deadline_h: 12", "deadline_h: 24"))
    done = run(cli, ["review", str(path), "--against", old])
    assert done.exit_code == 0
    assert "+ deadline: 12 h → 24 h" in done.stdout
    assert "100% dearer" in done.stdout
    assert not list(tmp_path.glob("t4-train.bundle*"))
    assert "nothing changed" in run(cli, ["review", "t4-train", "--against", old]).stdout
    assert "deadline: 24 h → 12 h" in run(cli, ["review", "t4-train", "--against", str(path)]).stdout
    lock = load.find("v100-train").with_name("v100-train.lock.yml")
    shifts = json.loads(run(cli, ["review", "t4-train", "--against", str(lock), "--json"]).stdout)["changes"]
    assert {"subject": "software", "direction": "other", "text": "driver.branch: 580 → 595", "means": ""} in shifts


def test_a_changed_bundle_is_refused_as_the_old_one(tmp_path: Path) -> None:
    old = tmp_path / "old.bundle"
    assert CliRunner().invoke(cli, ["review", "t4-train", "-o", str(old)]).exit_code == 0
    (old / "review.json").write_bytes((old / "review.json").read_bytes().replace(b"medium", b"low", 1))
    done = CliRunner().invoke(cli, ["review", "t4-train", "--against", str(old)])
    assert "review.json" in str(done.exception)


def test_the_organisations_rules_are_judged_and_travel_along(tmp_path: Path) -> None:
    rules, out = tmp_path / "rules.yml", tmp_path / "t4.bundle"
    told = {}
    for name, hours in (("strict", 6), ("kind", 24)):
        rules.write_text(f"schema: 1\nname: isa-rules\nmax_deadline_h: {hours}\n")
        done = CliRunner().invoke(cli, ["review", "t4-train", "-o", str(out), "--policy", str(rules), "--json"])
        assert done.exit_code == 0, done.output
        told[name] = json.loads(done.stdout)["review"]
        assert bundle.read(out).files["policy.yml"] == rules.read_bytes()
    [broken] = [risk for risk in told["strict"]["risks"] if risk["id"] == "against-rules"]
    assert (broken["severity"], broken["key"]) == ("high", "limits.deadline_h")
    assert "deadline_h: 12" in told["strict"]["text"][broken["line"] - 1]
    assert told["strict"]["risks"][0] == broken
    assert "The rules are kept" in [gain["title"] for gain in told["kind"]["gains"]]
    assert told["kind"]["rules_sha256"] == bundle.read(out).statement.policy.sha256  # type: ignore[union-attr] # there is one
