"""Hand-back through the command line, from facts files: `verify --bundle --evidence`, `verify --against`, `accept`."""

from __future__ import annotations

import json

import pytest

from provision.profile import load
from provision.review import bundle
from provision.verify import drift
from provision.verify.checks import CHECKS
from tests.review.desk import OLD_PYTHON, ONLY, Desk, facts
from tests.review.samples import small
from tests.review.test_page import Parsed


def test_evidence_names_the_review_and_the_certificate_says_what_holds(desk: Desk) -> None:
    code, _, err = desk.verify("e", *ONLY)
    assert code == 0, err
    review = desk.read("e")["review"]
    read = bundle.read(desk.bundle)
    assert (review["statement"], review["profile"], review["lock"]) == (read.digest, load.digest(read.profile), read.lock.digest)
    assert (review["approvals"], review["required"]) == ([], 0)
    code, out, err = desk.accept("e")
    assert (code, out.splitlines()[0].startswith("matches, unsigned: facts matches the profile t4-train: ")) == (0, True), err
    assert "Nobody signed this review." in desk.page
    assert '<dd>nobody<br><span class="quiet">unsigned</span></dd>' in desk.page
    assert f"{len(CHECKS) - 3} checks were left out" in out
    for value in (*(review[k] for k in ("statement", "profile", "lock")), *desk.read("e")["hosts"][0]["sha256"].values()):
        assert value in desk.page or value == desk.read("e")["hosts"][0]["sha256"]["profile"]


def test_a_certificate_with_failures_says_so_first_and_exits_with_the_verdict(desk: Desk) -> None:
    assert desk.verify("e", *ONLY, **OLD_PYTHON)[0] == 1
    code, out, _ = desk.accept("e")
    assert (code, out.startswith("does NOT match, unsigned: facts does NOT match the profile t4-train: 1 check fails")) == (1, True)
    parsed = Parsed(desk.page)
    assert parsed.text.index("Fails") < parsed.text.index("Passes")
    assert [a["class"] for tag, a in parsed.found if tag == "section" and a.get("id") == "verdict"] == ["verdict fail"]
    code, out, _ = desk.accept("e", "--json")
    assert (code, json.loads(out)["word"], json.loads(out)["parts"][0]["fails"][0]["check"]) == (1, "does NOT match, unsigned", "python3")
    code, _, _ = desk.accept("e", "--md")
    assert (code, desk.page.startswith("# ✗ facts does NOT match the profile t4")) == (1, True)


def test_the_verdict_of_what_is_unknown_is_3(desk: Desk) -> None:
    given = json.loads(facts(desk.folder, "x").read_text())
    given["facts"]["python3"] = {"unknown": "it did not answer"}
    (desk.folder / "x.json").write_text(json.dumps(given))
    words = ("--bundle", str(desk.bundle), "--evidence", str(desk.folder / "e.json"), *ONLY)
    assert desk.call("verify", "--facts", str(desk.folder / "x.json"), *words)[0] == 3
    code, out, _ = desk.accept("e")
    assert (code, "not proven, unsigned: facts is not proven to match the profile t4-train: 1 check is unknown" in out) == (3, True)


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
        assert (code, "valid: alice@example.com: signed " in err) == (0, True), err
        [approval] = signed.read("e")["review"]["approvals"]
        assert (approval["principal"], approval["outcome"], approval["expires"] > approval["signed_at"]) == (
            "alice@example.com",
            "valid",
            True,
        )
        code, out, _ = signed.accept("e", *signers)
        assert (code, f"valid: alice@example.com: signed {approval['signed_at']}, until {approval['expires']}" in out) == (0, True)
        assert approval["key"] in signed.page

    def test_the_next_step_names_the_host_where_it_is_known(self, desk: Desk) -> None:
        assert desk.verify("e", *ONLY)[0] == 0
        assert "`gpuprov verify HOST --against " in desk.accept("e")[1]  # a file of facts
        desk.forge("e", lambda data: data["hosts"][0]["report"].update(elapsed_s=1.0))
        assert "`gpuprov verify facts --against " in desk.accept("e")[1]

    def test_where_none_is_demanded_it_is_shown_and_a_forged_one_refused(self, desk: Desk) -> None:
        assert desk.call("sign", str(desk.bundle), "--key", str(desk.people.alice), "--as", "alice@example.com", "--pages-differ")[0] == 0
        code, _, err = desk.verify("e", *ONLY)
        assert (code, "unchecked: alice@example.com: not checked" in err) == (0, True)
        assert desk.accept("e")[0] == 0
        assert "this review has no verified signature that counts" in desk.page
        code, _, err = desk.verify("e", *ONLY, "--signers", str(desk.people.signers))
        assert (code, "valid: alice@example.com" in err) == (0, True)
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
        data = json.loads(facts(desk.folder, "later-facts").read_text())
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
