"""What a certificate says of each host and of all: it is made of what was found, and of no more."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from provision.canonical import digest
from provision.errors import EvidenceRefusedError
from provision.profile.locked import pin
from provision.review import accept, bundle, sign
from provision.review.accept import Certificate, certificate
from provision.review.approval import Agreement
from provision.review.bundle import Bundle
from provision.structs import replace
from provision.verify.checks import CHECKS
from provision.verify.evidence import MADE_BY, Conditions, Evidence, HostEvidence
from provision.verify.facts import Facts
from provision.verify.finding import Finding, Report
from provision.verify.judge import Selection, judge
from tests.review.samples import WAIVED, small
from tests.verify.good import facts

NOW = dt.datetime(2026, 11, 26, 12, 30, 59, tzinfo=dt.UTC)
ANOTHER = "gpuprov 0.0.1"
IDS = tuple(check.id for check in CHECKS)
STANDARD = tuple(check.id for check in CHECKS if check.tier == "standard")


@pytest.fixture(scope="module")
def waiving(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A bundle whose profile waives gcc until the first day of 2999."""
    path = tmp_path_factory.mktemp("waiving") / "t4.bundle"
    bundle.write(path, small(None, WAIVED))
    return bundle.read(path)


def certified(given: Evidence, reviewed: Bundle, *signatures: sign.Signature, required: int = 0, now: dt.datetime = NOW) -> Certificate:
    with pytest.MonkeyPatch.context() as patch:
        if given.made_by == ANOTHER:  # whose facts say what these tests want to see in a certificate
            reports = {each.host: each.report for each in given.hosts}
            patch.setattr(accept, "judge", lambda *_facts, host, **_how: reports[host])
        return certificate(given, Agreement(reviewed, signatures, required), now)


def made(reviewed: Bundle, *hosts: HostEvidence, by: str = ANOTHER, **conditions: Any) -> Evidence:
    how = Conditions(**{"on": "2026-11-21", **conditions})
    return Evidence(hosts, by, how, Agreement(reviewed, (), 0).reviewed, "e" * 64)


def host(reviewed: Bundle, report: Report, observed: Facts | None = None) -> HostEvidence:
    pinned = pin(reviewed.profile, reviewed.lock).dump()
    digests = {"report": "a" * 64, "facts": "b" * 64, "profile": digest(pinned), "lock": reviewed.lock.digest}
    return HostEvidence(report.host, report, observed, pinned, reviewed.lock.as_dict(), digests)


def found(*outcomes: str, name: str = "node-1") -> Report:
    """A report of findings with these outcomes."""
    findings = tuple(Finding(f"check-{n}", "it holds", outcome, "x", "y") for n, outcome in enumerate(outcomes))  # type: ignore[arg-type]
    return Report(name, "t4-train", findings, ("a note",), "2026-11-21T00:00:00Z")


# --- hosts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [False, True])
def test_each_finding_is_in_the_group_of_its_outcome(waiving: Bundle, *, strict: bool) -> None:
    report = found("pass", "fail", "warn", "unknown", "not-applicable", "fail", "warn", "pass")
    by_waiver = Finding("gcc", "it holds", "waived", "x", "y", excuse="waiver")
    by_request = Finding("driver", "it holds", "waived", "x", "y", needs_gpu=True, excuse="without-gpu")
    report = replace(report, findings=(*report.findings, by_waiver, by_request))
    given = host(waiving, report, facts())
    said = certified(made(waiving, given, strict=strict, without_gpu=True), waiving)
    [part] = said.parts
    groups = {
        name: [finding.check for finding in getattr(part, name)] for name in ("fails", "unknown", "warns", "holds", "excused", "idle")
    }
    assert groups == {
        "fails": ["check-1", "check-2", "check-5", "check-6"] if strict else ["check-1", "check-5"],
        "unknown": ["check-3"],
        "warns": [] if strict else ["check-2", "check-6"],
        "holds": ["check-0", "check-7"],
        "excused": ["driver"],
        "idle": ["check-4"],
    }
    [waived] = part.waived
    assert (waived.finding, waived.waiver) == (by_waiver, waiving.profile.verify.waivers[0])
    assert (part.host, part.observed_at, part.verdict, part.again) == ("node-1", "2026-11-21T00:00:00Z", 1, True)
    assert (part.notes, part.digests) == (report.all_notes(strict=strict), given.sha256)
    data = json.loads(json.dumps(said.as_dict()))
    [entry] = data["parts"]
    assert entry["waived"] == [{**by_waiver.as_dict(), "waiver": waiving.profile.verify.waivers[0].model_dump(mode="json")}]
    assert entry["waived"][0]["waiver"]["expires"] == "2999-01-01"
    assert {name: [finding["check"] for finding in entry[name]] for name in groups} == groups


@pytest.mark.parametrize(
    ("outcomes", "plain", "strict"),
    [
        (("pass",), 0, 0),
        (("warn",), 0, 1),
        (("unknown", "warn"), 3, 1),
        (("unknown", "pass"), 3, 3),
        (("fail", "unknown"), 1, 1),
    ],
)
def test_a_warning_fails_only_where_that_was_asked_for(waiving: Bundle, outcomes: tuple[str, ...], plain: int, strict: int) -> None:
    given = host(waiving, found(*outcomes), facts())
    for asked, verdict in ((False, plain), (True, strict)):
        said = certified(made(waiving, given, strict=asked), waiving)
        assert (said.verdict, said.parts[0].verdict) == (verdict, verdict)
        assert any("--strict" in note for note in said.parts[0].notes) == (asked and "warn" in outcomes)


def test_the_worst_host_decides_and_each_keeps_its_own_verdict(waiving: Bundle) -> None:
    hosts = [host(waiving, found(outcome, name=outcome), facts()) for outcome in ("pass", "unknown", "fail")]
    said = certified(made(waiving, *hosts), waiving)
    assert (said.verdict, [(part.host, part.verdict) for part in said.parts]) == (1, [("pass", 0), ("unknown", 3), ("fail", 1)])
    assert certified(made(waiving, *hosts[:2]), waiving).verdict == 3


def test_a_finding_that_no_waiver_of_the_profile_names_is_refused_with_its_check(waiving: Bundle) -> None:
    report = replace(found(), findings=(Finding("cmake", "it holds", "waived", "x", "y", excuse="waiver"),))
    with pytest.raises(EvidenceRefusedError) as refused:
        certified(made(waiving, host(waiving, report, facts())), waiving)
    assert ("'cmake'" in refused.value.message, bool(refused.value.hint)) == (True, True)


# --- all together -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("far_from_utc")
@pytest.mark.parametrize("hours", [0, 14, -12])
def test_a_certificate_names_what_was_signed_by_whom_and_when_it_was_made(waiving: Bundle, hours: int) -> None:
    signatures = [
        sign.Signature("ada@example.org", "valid", "SHA256:a", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"),
        sign.Signature("bob@example.org", "valid", "SHA256:b", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"),
        sign.Signature("eve@example.org", "lapsed", "SHA256:c", why="expired"),
    ]
    now = NOW.astimezone(dt.timezone(dt.timedelta(hours=hours)))
    said = certified(made(waiving, host(waiving, found("pass"), facts())), waiving, *signatures, required=2, now=now)
    assert (said.approvals, said.required, said.counted) == (tuple(signatures), 2, 2)
    assert (said.made_at, said.made_by, said.evidence_by) == ("2026-11-26T12:30:59Z", MADE_BY, ANOTHER)
    assert (said.profile, said.purpose, said.owner) == (
        "t4-train",
        waiving.profile.purpose,
        f"{waiving.profile.owner.name} <{waiving.profile.owner.email}>",
    )
    statement = waiving.statement
    assert said.digests == {
        "statement": waiving.digest,
        "profile": statement.profile.sha256,
        "lock": statement.lock.sha256,
        "evidence": "e" * 64,
    }


@pytest.mark.parametrize(
    ("conditions", "left_out", "below"),
    [
        ({}, (), ()),
        ({"tier": "standard"}, (), ()),
        ({"tier": "perf"}, (), ()),
        ({"tier": "quick"}, STANDARD, STANDARD),
        ({"skip": ("gcc",)}, ("gcc",), ()),
        ({"only": ("gcc", "tmux")}, tuple(i for i in IDS if i not in {"gcc", "tmux"}), ()),
        ({"only": ("gcc", "tmux"), "skip": ("tmux",)}, tuple(i for i in IDS if i != "gcc"), ()),
        (
            {"tier": "quick", "skip": ("gcc", STANDARD[0])},
            tuple(i for i in IDS if i == "gcc" or i in STANDARD),
            STANDARD[1:],
        ),
        ({"tier": "quick", "only": ("gcc", STANDARD[0])}, tuple(i for i in IDS if i != "gcc"), STANDARD[:1]),
    ],
    ids=str,
)
def test_every_check_that_nobody_made_is_left_out_in_the_order_of_all(
    waiving: Bundle, conditions: dict[str, Any], left_out: tuple[str, ...], below: tuple[str, ...]
) -> None:
    said = certified(made(waiving, host(waiving, found("pass"), facts()), **conditions), waiving)
    assert (said.left_out, said.below_tier) == (left_out, below)


@pytest.mark.parametrize("other", [replace(found("pass"), host="another"), replace(found("pass"), profile="another")])
def test_a_report_about_something_else_is_refused(waiving: Bundle, other: Report) -> None:
    given = replace(host(waiving, found("pass"), facts()), report=other)
    with pytest.raises(EvidenceRefusedError) as refused:
        certified(made(waiving, given), waiving)
    assert ("'node-1'" in refused.value.message, bool(refused.value.hint)) == (True, True)


# --- judged again -------------------------------------------------------------------------------------------------


def judged(reviewed: Bundle, on: str, *only: str, **changes: Any) -> Evidence:
    """Evidence as this version makes it."""
    observed = facts(**changes)
    pinned = pin(reviewed.profile, reviewed.lock)
    report = judge(observed, pinned, host="node-1", selection=Selection(frozenset(only)), today=dt.date.fromisoformat(on))
    return made(reviewed, host(reviewed, report, observed), by=MADE_BY, on=on, only=only)


@pytest.mark.parametrize(("on", "verdict", "waived"), [("2026-11-21", 0, 1), ("2999-01-01", 0, 1), ("2999-01-02", 1, 0)])
def test_a_waiver_counts_by_the_day_of_the_evidence_and_not_by_ours(waiving: Bundle, on: str, verdict: int, waived: int) -> None:
    said = certified(judged(waiving, on, "gcc", tool_gcc={"found": None}), waiving)
    assert (said.verdict, len(said.parts[0].waived), said.parts[0].again) == (verdict, waived, True)


def test_a_finding_that_is_waived_after_the_last_day_is_refused(waiving: Bundle) -> None:
    given = judged(waiving, "2999-01-01", "gcc", tool_gcc={"found": None})
    late = replace(given, conditions=given.conditions.model_copy(update={"on": "2999-01-02"}))
    with pytest.raises(EvidenceRefusedError):
        certified(late, waiving)


def test_strict_evidence_says_so_beside_a_warning(waiving: Bundle) -> None:
    given = judged(waiving, "2026-11-21", "driver-on-disk", modules__held=["tmux"])
    [one] = given.hosts
    assert certified(given, waiving).verdict == 0
    strict = given.conditions.model_copy(update={"strict": True})
    told = replace(one, report=replace(one.report, notes=one.report.all_notes(strict=True)))
    assert certified(replace(given, conditions=strict, hosts=(told,)), waiving).verdict == 1
    for conditions, host in ((strict, one), (given.conditions, told)):
        with pytest.raises(EvidenceRefusedError):
            certified(replace(given, conditions=conditions, hosts=(host,)), waiving)


def test_a_day_that_is_none_is_refused_and_named(waiving: Bundle) -> None:
    given = judged(waiving, "2026-11-21", "gcc")
    with pytest.raises(EvidenceRefusedError) as refused:
        certified(replace(given, conditions=given.conditions.model_copy(update={"on": "2026-02-30"})), waiving)
    assert ("2026-02-30" in refused.value.message, bool(refused.value.hint)) == (True, True)


def unreached(*findings: tuple[str, str]) -> Report:
    made = tuple(Finding(check, "it was observed", outcome, "facts", "none", "h") for check, outcome in findings)  # type: ignore[arg-type]
    return replace(found(), findings=made)


@pytest.mark.parametrize("by", [MADE_BY, ANOTHER])
def test_a_host_that_nobody_could_observe_is_not_proven_and_not_judged_again(waiving: Bundle, by: str) -> None:
    said = certified(made(waiving, host(waiving, unreached(("reachable", "unknown"))), by=by), waiving)
    assert (said.verdict, said.word, said.parts[0].again) == (3, "not proven, unsigned", False)
    assert [finding.check for finding in said.parts[0].unknown] == ["reachable"]


@pytest.mark.parametrize("by", [MADE_BY, ANOTHER])
@pytest.mark.parametrize(
    "findings",
    [
        (),
        (("reachable", "pass"),),
        (("reachable", "fail"),),
        (("gcc", "unknown"),),
        (("reachable", "unknown"), ("gcc", "unknown")),
        (("reachable", "unknown"), ("gcc", "pass")),
    ],
)
def test_without_facts_nothing_else_can_have_been_found(waiving: Bundle, by: str, findings: tuple[tuple[str, str], ...]) -> None:
    with pytest.raises(EvidenceRefusedError) as refused:
        certified(made(waiving, host(waiving, unreached(*findings)), by=by), waiving)
    assert ("'node-1'" in refused.value.message, bool(refused.value.hint)) == (True, True)
