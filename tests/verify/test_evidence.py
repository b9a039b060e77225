"""Evidence: every part has its digest, strangers' files are refused, and files of earlier versions are read."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from provision.canonical import digest
from provision.errors import FactsInvalidError
from provision.host.ssh import Target
from provision.profile.model import Profile
from provision.verify.evidence import Conditions, check, evidence, findings_digest, read
from provision.verify.facts import Facts
from provision.verify.fleet import Expectation, HostVerification
from provision.verify.judge import judge

from . import good

WAIVER = {"check": "gcc", "reason": "agreed in ISA-17", "owner": "isa@example.com", "expires": "2999-12-31"}
TODAY = dt.date(2026, 11, 21)
CONDITIONS = Conditions(without_gpu=True, on=TODAY.isoformat())


def verified(facts: Facts, profile: Profile = good.PROFILE, *, without_gpu: bool = True) -> HostVerification:
    report = judge(facts, profile, host="h", without_gpu=without_gpu, today=TODAY)
    return HostVerification(Expectation(Target("h", ""), profile), report, facts)


def excused() -> HostVerification:
    """A host without a GPU and without gcc, whose profile waives gcc."""
    return verified(good.facts(gpu=good.NO_GPU, tool_gcc__found=None), good.profile(verify__waivers=[WAIVER]))


def written(path: Path, data: Any) -> Path:
    path.write_text(json.dumps(data))
    return path


def signed(data: Any) -> Any:
    """The same data with every digest as it should be."""
    for host in data["hosts"]:
        host["sha256"] = {part: digest(host[part]) for part in ("report", "facts", "profile", "lock")}
        host["findings_sha256"] = findings_digest(host["report"])
    data["sha256"] = digest([[host["sha256"] for host in data["hosts"]], data["made_by"], data["how"], data["review"]])
    return data


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    one = excused()
    data = evidence([one], CONDITIONS)
    back = read(written(tmp_path / "e.json", data))
    assert (back.hosts[0].report, back.hosts[0].facts, back.hosts[0].profile) == (one.report, one.facts, one.expectation.profile.dump())
    assert (back.conditions, back.review, back.sha256) == (CONDITIONS, None, data["sha256"])
    assert {f.excuse for f in back.hosts[0].report.findings} == {None, "without-gpu", "waiver"}


def test_a_file_of_an_earlier_version_says_why_each_finding_is_waived(tmp_path: Path) -> None:
    one = excused()
    data = json.loads(json.dumps(evidence([one], CONDITIONS)))
    before = data["hosts"][0]["findings_sha256"]
    for finding in data["hosts"][0]["report"]["findings"]:
        finding.pop("excuse", None)
    signed(data)
    assert data["hosts"][0]["findings_sha256"] == before
    assert read(written(tmp_path / "e.json", data)).hosts[0].report == one.report


@pytest.mark.parametrize("part", ["report", "facts", "profile", "lock"])
def test_a_changed_part_is_named(part: str) -> None:
    data = json.loads(json.dumps(evidence([excused()], CONDITIONS)))
    data["hosts"][0][part] = {**(data["hosts"][0][part] or {}), "x": 1}
    with pytest.raises(FactsInvalidError, match=f"the {part} of 'h'"):
        check(data)


@pytest.mark.parametrize("findings", [None, 1, [1], {"a": 1}, "text"])
def test_a_report_without_a_list_of_findings_is_refused(tmp_path: Path, findings: Any) -> None:
    data = json.loads(json.dumps(evidence([excused()], CONDITIONS)))
    data["hosts"][0]["report"]["findings"] = findings
    with pytest.raises(FactsInvalidError):
        read(written(tmp_path / "e.json", data))


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"schema": "gpuprov-evidence/1"}', "[" * 100_000])
def test_a_file_that_holds_no_evidence_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "e.json"
    path.write_text(text)
    with pytest.raises(FactsInvalidError) as caught:
        read(path)
    assert caught.value.hint


def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FactsInvalidError, match="cannot read"):
        read(tmp_path / "none.json")
