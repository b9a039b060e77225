"""Hand-back through the command line, from facts files: `verify --bundle --evidence`, `verify --against`, `accept`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from provision.canonical import digest
from provision.profile import load
from provision.review import bundle
from provision.verify import drift
from provision.verify import evidence as proof
from provision.verify.checks import CHECKS
from tests.cli.conftest import Call, facts_file
from tests.review.examples import HOSTILE
from tests.review.samples import POLICY, WAIVED, People, small
from tests.review.test_page import ACTIVE, Parsed


@dataclass
class Desk:
    """One bundle, and what is done with it."""

    call: Call
    folder: Path
    bundle: Path
    people: People

    def verify(self, name: str, *words: str, **changes: Any) -> tuple[int, str, str]:
        given = facts_file(self.folder, f"facts-{name}", **changes)
        evidence = ("--evidence", str(self.folder / f"{name}.json"))
        return self.call("verify", "--facts", str(given), "--bundle", str(self.bundle), *evidence, *words)

    def accept(self, name: str, *words: str) -> tuple[int, str, str]:
        page = self.folder / "certificate.html"
        return self.call("accept", str(self.folder / f"{name}.json"), "--bundle", str(self.bundle), "-o", str(page), *words)

    def read(self, name: str) -> Any:
        return json.loads((self.folder / f"{name}.json").read_text())

    def forge(self, name: str, change: Callable[[Any], None]) -> None:
        """Change evidence and make every digest agree, as a careful forger does."""
        data = self.read(name)
        change(data)
        for host in data["hosts"]:
            host["sha256"] = {part: digest(host[part]) for part in ("report", "facts", "profile", "lock")}
            host["findings_sha256"] = proof.findings_digest(host["report"])
        data["sha256"] = proof._digest_of_all(data)
        (self.folder / f"{name}.json").write_text(json.dumps(data))

    @property
    def page(self) -> str:
        return (self.folder / "certificate.html").read_text()


@pytest.fixture
def desk(call: Call, tmp_path: Path) -> Desk:
    path = tmp_path / "t4.bundle"
    bundle.write(path, small(POLICY))
    return Desk(call, tmp_path, path, People.make(tmp_path / "isa"))


ONLY = ("--only", "gcc", "--only", "tmux", "--only", "python3")
OLD_PYTHON = {"python3": {"version": "3.6.9"}}


def test_evidence_names_the_review_and_the_certificate_says_what_holds(desk: Desk) -> None:
    code, _, err = desk.verify("e", *ONLY)
    assert code == 0, err
    review = desk.read("e")["review"]
    read = bundle.read(desk.bundle)
    assert (review["statement"], review["profile"], review["lock"]) == (read.digest, load.digest(read.profile), read.lock.digest)
    assert (review["approvals"], review["required"]) == ([], 0)
    code, out, err = desk.accept("e")
    assert (code, out.splitlines()[0].startswith("holds: facts holds t4-train: ")) == (0, True), err
    assert "Nobody signed this review." in desk.page
    assert f"{len(CHECKS) - 3} checks were left out" in out
    for value in (*(review[k] for k in ("statement", "profile", "lock")), *desk.read("e")["hosts"][0]["sha256"].values()):
        assert value in desk.page or value == desk.read("e")["hosts"][0]["sha256"]["profile"]


def test_a_certificate_with_failures_says_so_first_and_exits_with_the_verdict(desk: Desk) -> None:
    assert desk.verify("e", *ONLY, **OLD_PYTHON)[0] == 1
    code, out, _ = desk.accept("e")
    assert (code, out.startswith("does not hold: facts does not hold t4-train: 1 check fails")) == (1, True)
    parsed = Parsed(desk.page)
    assert parsed.text.index("does not hold") < parsed.text.index("Holds")
    assert [a["class"] for tag, a in parsed.found if tag == "section" and a.get("id") == "verdict"] == ["verdict fail"]
    code, out, _ = desk.accept("e", "--json")
    assert (code, json.loads(out)["word"], json.loads(out)["parts"][0]["fails"][0]["check"]) == (1, "does not hold", "python3")
    code, _, _ = desk.accept("e", "--md")
    assert (code, desk.page.startswith("# ✗ facts does not hold t4")) == (1, True)


def test_the_verdict_of_what_is_unknown_is_3(desk: Desk) -> None:
    given = json.loads(facts_file(desk.folder, "x").read_text())
    given["facts"]["python3"] = {"unknown": "it did not answer"}
    (desk.folder / "x.json").write_text(json.dumps(given))
    words = ("--bundle", str(desk.bundle), "--evidence", str(desk.folder / "e.json"), *ONLY)
    assert desk.call("verify", "--facts", str(desk.folder / "x.json"), *words)[0] == 3
    code, out, _ = desk.accept("e")
    assert (code, "not proven: facts is not proven to hold t4-train: 1 check is unknown" in out) == (3, True)


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


def without_review(data: Any) -> None:
    data["review"] = None


def of_another(data: Any) -> None:
    data["review"]["statement"] = "0" * 64


def better(data: Any) -> None:
    finding = next(f for f in data["hosts"][0]["report"]["findings"] if f["check"] == "python3")
    finding.update(outcome="pass", observed="3.11.2", hint="")


def waived(data: Any) -> None:
    finding = next(f for f in data["hosts"][0]["report"]["findings"] if f["check"] == "python3")
    finding.update(outcome="waived", observed="waived by nobody")
    data["made_by"] = "gpuprov 0.0.1"


def another_lock(data: Any) -> None:
    data["hosts"][0]["lock"]["catalogue"] = "another"


def another_profile(data: Any) -> None:
    data["hosts"][0]["profile"]["limits"]["deadline_h"] = 1


def no_facts(data: Any) -> None:
    data["hosts"][0]["facts"] = None


def no_hosts(data: Any) -> None:
    data["hosts"] = []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without_review, "belongs to no review"),
        (of_another, "belongs to another statement"),
        (better, "do not follow from the facts"),
        (waived, "the profile has no waiver of it"),
        (another_lock, "judged against another lock"),
        (another_profile, "judged against another profile"),
        (no_facts, "do not follow from the facts"),
        (no_hosts, "there is no host"),
    ],
)
def test_evidence_that_a_careful_forger_changed_is_refused(desk: Desk, change: Callable[[Any], None], said: str) -> None:
    assert desk.verify("e", *ONLY, **OLD_PYTHON)[0] == 1
    desk.forge("e", change)
    code, _, err = desk.accept("e")
    assert (code, "error[evidence-refused]" in err, said in err, "hint: " in err) == (2, True, True, True), err
    assert not (desk.folder / "certificate.html").exists()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema":"gpuprov-evidence/1"}', "[" * 100_000, '{"schema":"gpuprov-evidence/1","hosts":[{}]}']
)
def test_what_is_no_evidence_is_refused(desk: Desk, text: str) -> None:
    (desk.folder / "e.json").write_text(text)
    code, _, err = desk.accept("e")
    assert (code, "error[facts-invalid]" in err) == (2, True), err


def test_every_part_of_evidence_is_bound(desk: Desk) -> None:
    assert desk.verify("e", *ONLY)[0] == 0
    good = desk.read("e")
    for part, value in (("made_by", "gpuprov 9"), ("how", {**good["how"], "without_gpu": True}), ("review", None)):
        (desk.folder / "e.json").write_text(json.dumps({**good, part: value}))
        code, _, err = desk.accept("e")
        assert (code, "the choice of checks or the version was changed" in err) == (2, True), part


def test_evidence_of_another_version_is_not_judged_again_and_the_page_says_so(desk: Desk) -> None:
    assert desk.verify("e", *ONLY)[0] == 0
    desk.forge("e", lambda data: data.update(made_by="gpuprov 0.0.1"))
    assert desk.accept("e")[0] == 0
    assert "not every host was judged again" in desk.page


def test_checks_that_a_lower_tier_leaves_out_are_named(desk: Desk) -> None:
    assert desk.verify("e", "--tier", "quick", "--without-gpu")[0] in {0, 1, 3}
    assert desk.accept("e")[0] in {0, 1, 3}
    left = [check.id for check in CHECKS if check.tier == "standard"]
    assert left
    assert f"by a tier below the profile&#39;s: {', '.join(left)}" in desk.page


class TestSignatures:
    RULES = b"schema: 1\nname: isa\nsignatures: {required: 1}\n"

    @pytest.fixture
    def signed(self, desk: Desk) -> Desk:
        bundle.write(desk.folder / "signed.bundle", small(self.RULES))
        desk.bundle = desk.folder / "signed.bundle"
        return desk

    def test_what_the_rules_in_the_bundle_demand_is_demanded(self, signed: Desk) -> None:
        signers = ("--signers", str(signed.people.signers))
        code, _, err = signed.verify("e", *ONLY, *signers)
        assert (code, "error[signature-missing]" in err) == (2, True)
        words = ("sign", str(signed.bundle), "--key", str(signed.people.alice), "--as", "alice@example.com", "--pages-differ")
        assert signed.call(*words)[0] == 0
        code, _, err = signed.verify("e", *ONLY)
        assert (code, "who may sign is not known" in err) == (2, True)
        code, _, err = signed.verify("e", *ONLY, *signers)
        assert (code, "holds: alice@example.com: signed " in err) == (0, True), err
        [approval] = signed.read("e")["review"]["approvals"]
        assert (approval["principal"], approval["outcome"], approval["expires"] > approval["signed_at"]) == (
            "alice@example.com",
            "holds",
            True,
        )
        code, out, _ = signed.accept("e", *signers)
        assert (code, f"holds: alice@example.com: signed {approval['signed_at']}, until {approval['expires']}" in out) == (0, True)
        assert approval["key"] in signed.page

    def test_where_none_is_demanded_it_is_shown_and_a_forged_one_refused(self, desk: Desk) -> None:
        assert desk.call("sign", str(desk.bundle), "--key", str(desk.people.alice), "--as", "alice@example.com", "--pages-differ")[0] == 0
        code, _, err = desk.verify("e", *ONLY)
        assert (code, "unchecked: alice@example.com: not checked" in err) == (0, True)
        assert desk.accept("e")[0] == 0
        assert "no signature of this review was checked and held" in desk.page
        code, _, err = desk.verify("e", *ONLY, "--signers", str(desk.people.signers))
        assert (code, "holds: alice@example.com" in err) == (0, True)
        signature = desk.bundle / "approvals" / "alice@example.com.json.sig"
        signature.write_text(signature.read_text().replace("U1NIU0lH", "U1NIU0lI"))
        code, _, err = desk.verify("e", *ONLY, "--signers", str(desk.people.signers))
        assert (code, "error[signature-refused]" in err) == (2, True)


class TestDrift:
    def test_nothing_moved(self, desk: Desk) -> None:
        desk.verify("e", *ONLY)
        code, out, _ = desk.verify("later", *ONLY, "--against", str(desk.folder / "e.json"))
        assert (code, out.endswith("since the evidence:\n  nothing moved since the evidence\n")) == (0, True)

    def test_what_broke_what_was_mended_and_what_is_only_otherwise(self, desk: Desk) -> None:
        desk.verify("e", *ONLY, tool_tmux={"found": None})
        against = ("--against", str(desk.folder / "e.json"))
        code, out, _ = desk.verify("later", *ONLY, *against, **OLD_PYTHON)
        assert code == 1
        lines = out.partition("since the evidence:\n")[2].splitlines()
        assert [line.split(":")[1].strip() for line in lines] == ["python3 broke", "tmux mended"]
        code, out, _ = desk.verify("later", *ONLY, *against, "--json", tool_tmux={"found": None}, python3={"version": "3.12.9"})
        data = json.loads(out)
        assert [(d["check"], d["kind"]) for d in data["drift"]] == [("python3", "observed")]

    def test_only_what_broke_since_then_makes_1_of_what_is_else_unknown(self, desk: Desk) -> None:
        assert desk.verify("e", *ONLY)[0] == 0
        path = desk.folder / "later-facts.json"
        data = json.loads(facts_file(desk.folder, "later-facts").read_text())
        data["facts"]["python3"] = {"unknown": "it did not answer"}
        path.write_text(json.dumps(data))
        words = ("verify", "--facts", str(path), "--bundle", str(desk.bundle), *ONLY)
        assert desk.call(*words)[0] == 3
        assert desk.call(*words, "--against", str(desk.folder / "e.json"))[0] == 1

    def test_another_choice_of_checks_and_another_review_cannot_be_compared(self, desk: Desk) -> None:
        desk.verify("e", *ONLY)
        against = ("--against", str(desk.folder / "e.json"))
        code, _, err = desk.verify("later", *ONLY, "--without-gpu", *against)
        assert (code, "without_gpu was False" in err) == (2, True)
        bundle.write(desk.folder / "other.bundle", small(None))
        desk.bundle = desk.folder / "other.bundle"
        code, _, err = desk.verify("later", *ONLY, *against)
        assert (code, "belongs to another review" in err) == (2, True)

    def test_figures_that_nobody_set_are_no_change(self) -> None:
        assert {check.id for check in CHECKS} >= drift.MEASURING


def test_a_bundle_and_a_profile_are_two_answers(desk: Desk) -> None:
    code, _, err = desk.verify("e", "--profile", "t4-train")
    assert (code, "leave --profile out" in err) == (2, True)
