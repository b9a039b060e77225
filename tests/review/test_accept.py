"""Evidence against its review: what contradicts itself is refused."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Any

import pytest

from provision.errors import EvidenceRefusedError, FactsInvalidError
from provision.review.accept import certificate
from provision.review.approval import agreement
from provision.review.where import Organisation
from provision.structs import replace
from provision.verify import evidence as proof
from provision.verify.checks import CHECKS
from tests.review.desk import OLD_PYTHON, ONLY, Desk

NOW = dt.datetime.now(dt.UTC)


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


def noted(data: Any) -> None:
    data["hosts"][0]["report"]["notes"] = ["all is well"]


def later(data: Any) -> None:
    data["hosts"][0]["report"]["observed_at"] = "2030-01-01T00:00:00Z"


def before(data: Any) -> None:
    data["how"]["on"] = "2026-10-01"


def nothing_found(data: Any) -> None:
    data["made_by"] = "gpuprov 0.0.9"
    data["hosts"][0]["report"]["findings"] = []


def excused(data: Any) -> None:
    """What failed is no check of the GPU, and nobody left the GPU part out."""
    data["made_by"] = "gpuprov 0.0.1"
    finding = next(each for each in data["hosts"][0]["report"]["findings"] if each["outcome"] == "fail")
    finding |= {"outcome": "waived", "excuse": "without-gpu", "hint": ""}


def excused_with_the_gpu(data: Any) -> None:
    excused(data)
    next(each for each in data["hosts"][0]["report"]["findings"] if each["outcome"] == "waived")["needs_gpu"] = True


def excused_beside_the_gpu(data: Any) -> None:
    excused(data)
    data["how"]["without_gpu"] = True


def twice(data: Any) -> None:
    data["hosts"].append(data["hosts"][0])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without_review, "belongs to no review"),
        (of_another, "belongs to another statement"),
        (better, "do not follow from the facts"),
        (another_lock, "judged against another lock"),
        (another_profile, "judged against another profile"),
        (no_facts, "do not follow from the facts"),
        (no_hosts, "there is no host"),
        (noted, "do not follow from the facts"),
        (later, "do not follow from the facts"),
        (before, "when waivers counted that may have ended"),
        (twice, "more than once"),
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


def nearly(digest: str) -> str:
    """Another digest that differs in its last character alone."""
    return digest[:-1] + ("0" if digest[-1] != "0" else "1")


def test_a_digest_of_evidence_is_compared_to_its_last_character(desk: Desk) -> None:
    assert desk.verify("e", *ONLY)[0] == 0
    agreed = agreement(desk.bundle, Organisation(), NOW)
    given = proof.read(desk.folder / "e.json")
    assert certificate(given, agreed, NOW).verdict == 0
    [host] = given.hosts
    assert given.review is not None
    statement = given.review.model_copy(update={"statement": nearly(given.review.statement)})
    with pytest.raises(EvidenceRefusedError, match="belongs to another statement"):
        certificate(replace(given, review=statement), agreed, NOW)
    for part in ("profile", "lock"):
        other = replace(host, sha256={**host.sha256, part: nearly(host.sha256[part])})
        with pytest.raises(EvidenceRefusedError, match=f"judged against another {part}"):
            certificate(replace(given, hosts=(other,)), agreed, NOW)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        *((part, f"the {part} of 'facts-e' was changed") for part in ("report", "facts", "profile", "lock")),
        ("findings_sha256", "do not match their digest"),
        ("sha256", "a host was added"),
    ],
)
def test_a_digest_in_evidence_is_checked_to_its_last_character(desk: Desk, part: str, said: str) -> None:
    assert desk.verify("e", *ONLY)[0] == 0
    data = desk.read("e")
    place = data if part == "sha256" else data["hosts"][0] if part == "findings_sha256" else data["hosts"][0]["sha256"]
    place[part] = nearly(place[part])
    with pytest.raises(FactsInvalidError) as refused:
        proof.check(data)
    assert said.partition(" of '")[0] in refused.value.message


def test_every_part_of_evidence_is_bound(desk: Desk) -> None:
    assert desk.verify("e", *ONLY)[0] == 0
    good = desk.read("e")
    for part, value in (("made_by", "gpuprov 9"), ("how", {**good["how"], "without_gpu": True}), ("review", None)):
        (desk.folder / "e.json").write_text(json.dumps({**good, part: value}))
        code, _, err = desk.accept("e")
        assert (code, "the choice of checks or the version was changed" in err) == (2, True), part


def test_evidence_of_another_version_is_judged_by_its_facts_and_the_page_says_so(desk: Desk) -> None:
    assert desk.verify("e", *ONLY)[0] == 0
    desk.forge("e", lambda data: data.update(made_by="gpuprov 0.0.1"))
    assert desk.accept("e")[0] == 0
    assert "its own findings do not count" in desk.page


@pytest.mark.parametrize("change", [nothing_found, waived, excused, excused_with_the_gpu, excused_beside_the_gpu])
def test_what_another_version_is_said_to_have_found_is_not_believed(desk: Desk, change: Callable[[Any], None]) -> None:
    """The facts show an old Python, whatever the report and its digests say."""
    assert desk.verify("e", *ONLY, **OLD_PYTHON)[0] == 1
    desk.forge("e", change)
    code, out, err = desk.accept("e", "--json")
    assert code == 1, err
    assert [finding["check"] for finding in json.loads(out)["parts"][0]["fails"]] == ["python3"]


def test_facts_that_show_nothing_prove_nothing_whichever_version_is_named(desk: Desk) -> None:
    """The report's very case: another version, no findings, and digests that hold."""

    def nothing_seen(data: Any) -> None:
        nothing_found(data)
        data["hosts"][0]["facts"]["facts"]["python3"] = {"unknown": "nobody looked"}

    assert desk.verify("e", *ONLY)[0] == 0
    desk.forge("e", nothing_seen)
    code, out, err = desk.accept("e", "--json")
    assert (code, json.loads(out)["word"]) == (3, "not proven, unsigned"), err


def test_checks_that_a_lower_tier_leaves_out_are_named(desk: Desk) -> None:
    assert desk.verify("e", "--tier", "quick", "--without-gpu")[0] in {0, 1, 3}
    assert desk.accept("e")[0] in {0, 1, 3}
    left = [check.id for check in CHECKS if check.tier == "standard"]
    assert left
    assert f"so these checks were not made: {', '.join(left)}" in desk.page


def test_what_is_excused_is_told_by_its_type_and_not_by_its_words(desk: Desk) -> None:
    assert desk.verify("e", "--only", "driver", "--only", "gcc", "--without-gpu", driver={"loaded": None})[0] == 0

    def reword(data: Any) -> None:
        finding = next(f for f in data["hosts"][0]["report"]["findings"] if f["check"] == "driver")
        finding["observed"] = "in other words"
        data["made_by"] = "gpuprov 0.0.1"

    desk.forge("e", reword)
    code, out, err = desk.accept("e", "--json")
    assert code == 0, err
    [host] = json.loads(out)["parts"]
    assert [finding["check"] for finding in host["excused"]] == ["driver"]
    assert "below_tier" not in json.loads(out)
