"""Markdown of a review: the page's twin, in which nothing that a profile says is markup."""

import pytest
from markdown_it import MarkdownIt

from provision.review import markdown
from provision.review.content import content

from .examples import HOSTILE, hostile


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


def test_what_no_filter_marks_is_prose() -> None:
    """A value that somebody forgets to escape is inert all the same, and so is what a filter of Jinja made of it."""
    jinja = markdown.template("review.md").environment
    hostile_text = "<b>x</b> [a](b) | `c`\n*d*"
    for source in ("{{ text }}", "{{ text|upper|lower }}", "{% macro m(t) %}{{ t }}{% endmacro %}{{ m(text) }}", "{{ text or 'x' }}"):
        assert jinja.from_string(source).render(text=hostile_text) == r"\<b\>x\</b\> \[a\](b) \| `c` \*d\*"


def test_a_block_cannot_be_closed_from_within() -> None:
    block = markdown.template("review.md").environment.filters["block"](["````", "# heading", "`````"])
    assert block.splitlines()[0] == "``````text"
    assert [token.type for token in MarkdownIt("commonmark").parse(block)] == ["fence"]
