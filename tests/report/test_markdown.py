"""Markdown, read by the parser that rich brings."""

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from provision.report import markdown
from provision.verify.finding import Report

from .examples import CASES, CLEAN, EMPTY, HOSTILE, ONE, UNKNOWN

READER = MarkdownIt("commonmark").enable("table")


def tokens(text: str) -> list[Token]:
    return [token for block in READER.parse(text) for token in (block, *(block.children or []))]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_nothing_becomes_html_a_link_or_a_picture_and_tables_keep_their_shape(case: tuple[Report, ...]) -> None:
    read = tokens(markdown.render(*case))
    kinds = {token.type for token in read}
    assert not kinds & {"html_inline", "html_block", "link_open", "image", "fence", "code_block", "entity"}
    rows = sum(token.type == "tr_open" for token in read)
    cells = sum(token.type in {"td_open", "th_open"} for token in read)
    findings = sum(len(report.findings) for report in case)
    headings = sum(bool(report.findings) for report in case)
    if len(case) == 1:
        assert (rows, cells) == (findings + headings, 3 * (findings + headings))
    else:
        beside = rows - findings - headings
        assert beside != 1
        assert cells == 3 * (findings + headings) + beside * (len(case) + 1)


def test_what_does_not_pass_has_details_and_needs_no_colour() -> None:
    text = markdown.render(ONE)
    assert "| **✗ fail** | `check-fail` | `observed fail` |" in text
    assert "| ✓ pass | `check-pass` | `observed pass` |" in text
    assert "- **✗ fail** `check-fail`: what fail proves\n  - expected: `expected fail`\n" in text
    assert "  - hint: do `gpuprov apply host-a --role fail` now\n" in text
    assert text.index("**✗ fail** `check-fail`:") < text.index("**? unknown** `check-unknown`:") < text.index("**! warn** `check-warn`:")
    assert "> **GPU part excused by --without-gpu\\: 1 check was not proven**" in text


def test_several_hosts_begin_with_what_does_not_pass_everywhere() -> None:
    lines = markdown.render(ONE, CLEAN, UNKNOWN).split("\n")
    assert lines[0] == "# gpuprov: 3 hosts, 3 pass, 1 fail, 1 warn, 1 waived, 2 unknown, 1 not-applicable"
    assert lines[2] == "| not everywhere | `host-a` | `host-b` | `host-c` |"
    assert "| `check-unknown` | **? unknown** | not checked | **? unknown** |" in lines


def test_no_name_issue_or_address_in_a_hostile_text_is_called() -> None:
    words = [token.content for token in tokens(markdown.render(HOSTILE)) if token.type == "text"]
    assert not [content for content in words if "@" in content or "#" in content or "://" in content]


def test_a_host_without_checks_says_so() -> None:
    assert "none was made" in markdown.render(EMPTY)
