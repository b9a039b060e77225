"""The certificate as page and Markdown: what a host or a waiver says is text and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from provision.review import bundle, certificate
from provision.review.accept import Certificate, CertifiedHost
from provision.structs import replace
from provision.verify.finding import Finding
from tests.review.desk import ONLY, Desk
from tests.review.examples import HOSTILE
from tests.review.samples import WAIVED, People, small
from tests.review.test_page import ACTIVE, Parsed, policies, policy_of

Call = Callable[..., tuple[int, str, str]]


def test_a_waiver_is_shown_with_its_owner_and_day_and_its_words_do_nothing(call: Call, tmp_path: Path) -> None:
    bundle.write(tmp_path / "t4.bundle", small(None, WAIVED))
    desk = Desk(call, tmp_path, tmp_path / "t4.bundle", People.make(tmp_path / "isa"))
    code, _, err = desk.verify("e", *ONLY, tool_gcc={"found": None})
    assert code == 0, err
    assert desk.accept("e")[0] == 0
    parsed = Parsed(desk.page)
    assert "isa@example.com" in parsed.text
    assert "an <b>old</b> | one `will` do" in parsed.text
    assert "2999-01-01" in parsed.text
    assert "<b>old" not in desk.page
    assert desk.accept("e", "--md")[0] == 0
    assert "<b>" not in MarkdownIt("commonmark").enable("table").render(desk.page)


def test_the_policy_admits_our_style_by_its_digest_and_no_script_at_all() -> None:
    text = certificate.html(Certificate("t4-train", "", "", 0, (), (), (), (), 0, 0, {}, "", "", ""))
    assert "<script" not in text
    assert "script-src 'none'" in policy_of(text)
    assert policies(text) == [policy_of(text)]


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_a_host_says_does_nothing_on_the_page(desk: Desk, kind: str) -> None:
    desk.verify(
        "e",
        *ONLY,
        tool_gcc={"found": {"path": "/usr/bin/gcc", "version": HOSTILE[kind]}},
        tool_tmux={"found": {"path": "x", "version": HOSTILE[kind]}},
    )
    assert desk.accept("e")[0] in {0, 1, 3}
    assert "gcc" in desk.page
    parsed = Parsed(desk.page)
    assert {tag for tag, _ in parsed.found} & ACTIVE == {"style"}
    assert not [a for _, attributes in parsed.found for a in attributes if a.startswith("on") or a in {"src", "style"}]
    assert all((a["href"] or "").startswith("#") for tag, a in parsed.found if tag == "a")
    assert "script-src &#39;none&#39;" in desk.page


@pytest.mark.parametrize(
    ("hosts", "verdict", "sentence"),
    [
        (("a",), 0, "a matches the profile t4-train"),
        (("a", "b"), 0, "a, b match the profile t4-train"),
        (("a",), 1, "a does NOT match the profile t4-train"),
        (("a", "b", "c"), 1, "a, b, c do NOT match the profile t4-train"),
        (("a", "b", "c", "d"), 1, "a, b, c and 1 more do NOT match the profile t4-train"),
        (("a",), 3, "a is not proven to match the profile t4-train"),
        (("a", "b", "c", "d", "e"), 1, "a, b, c and 2 more do NOT match the profile t4-train"),
        (("a", "b"), 3, "a, b are not proven to match the profile t4-train"),
    ],
)
def test_the_sentence_agrees_with_the_number_of_hosts(hosts: tuple[str, ...], verdict: int, sentence: str) -> None:
    empty: tuple[Finding, ...] = ()
    parts = tuple(
        CertifiedHost(name, "", verdict, empty, empty, empty, empty, (), empty, empty, (), again=True, digests={}) for name in hosts
    )
    made = Certificate("t4-train", "", "", verdict, parts, (), (), (), 0, 0, {}, "", "", "")
    assert made.sentence == sentence


def test_what_nobody_signed_is_not_green() -> None:
    host = CertifiedHost(
        "a", "", 0, (), (), (), (Finding("gcc", "", "pass", "", ""),), (), (), (), (), again=True, digests={"facts": "0", "report": "0"}
    )
    unsigned = Certificate("t4-train", "", "", 0, (host,), (), (), (), 0, 0, {}, "", "", "")
    signed = replace(unsigned, counted=1)
    assert (unsigned.word, signed.word) == ("matches, unsigned", "matches")
    assert "# ◇ a matches" in certificate.markdown(
        replace(unsigned, digests=dict.fromkeys(("statement", "profile", "lock", "evidence"), "0"))
    )
    assert 'class="verdict pass"' not in certificate.html(unsigned)


@pytest.mark.parametrize(
    ("number", "clauses"),
    [
        (1, "1 check fails, 1 check is unknown, 1 check is excused, 1 check was left out"),
        (2, "2 checks fail, 2 checks are unknown, 2 checks are excused, 2 checks were left out"),
    ],
)
def test_the_sentence_counts_what_is_not_proven_the_worst_first(number: int, clauses: str) -> None:
    some = (Finding("gcc", "", "fail", "", ""),) * number
    empty: tuple[Finding, ...] = ()
    host = CertifiedHost("a", "", 1, some, some, empty, empty, (), some, empty, (), again=True, digests={})
    made = Certificate("t4-train", "", "", 1, (host,), ("x",) * number, (), (), 0, 0, {}, "", "", "")
    assert (made.word, made.sentence) == ("does NOT match, unsigned", f"a does NOT match the profile t4-train: {clauses}")
