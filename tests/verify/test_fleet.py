"""Several hosts at once, over a stand-in for ssh that runs the probe here: their order, one that is down, and waiting for one."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from provision.errors import HostUnreachableError
from provision.host.ssh import Target
from provision.verify.finding import Report
from provision.verify.fleet import REACHABLE, Expectation, HostVerification, verify, verify_all
from provision.verify.judge import Selection

from . import good

# "down" refuses; "later" refuses once; every other host answers.
SSH = """#!/bin/sh
for last; do :; done
case " $* " in
*" later "*) [ -e {folder}/seen ] || {{ touch {folder}/seen; down=1; }};;
*" down "*) down=1;;
esac
[ -z "$down" ] || {{ echo "ssh: connect to host port 22: Connection refused" >&2; exit 255; }}
exec /bin/sh -c "$last"
"""
ONLY = Selection(only=frozenset({"python3"}), tier="quick")


@pytest.fixture(autouse=True)
def _ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ssh").write_text(SSH.format(folder=tmp_path))
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")


def verified(*names: str, **options: Any) -> list[HostVerification]:
    hosts = [Expectation(Target(name, name), good.PROFILE) for name in names]
    return asyncio.run(verify_all(hosts, selection=ONLY, timeout_s=240, **options))


def test_a_host_that_is_down_is_unknown_and_the_others_are_judged_in_their_order() -> None:
    calls: list[tuple[str, bool]] = []
    down, up = verified("down", "up", jobs=1, say=lambda host, report: calls.append((host, report is not None)))
    assert ([f.check for f in down.report.findings], down.report.exit_code(), down.facts) == ([REACHABLE], 3, None)
    assert "host-unreachable: " in down.report.findings[0].observed
    assert down.report.notes == ("unreachable: no check was made",)
    assert ([f.check for f in up.report.findings], up.report.exit_code()) == (["python3"], 0)
    assert up.facts is not None
    assert up.report.elapsed_s is not None
    assert sorted(calls) == [("down", False), ("down", True), ("up", False), ("up", True)]


def test_the_only_host_that_is_down_is_an_error() -> None:
    with pytest.raises(HostUnreachableError):
        verified("down")
    with pytest.raises(HostUnreachableError):
        asyncio.run(verify(Target("down", "down"), good.PROFILE))


def test_a_host_that_does_not_answer_yet_is_observed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provision.verify.fleet._LOOK_AGAIN_S", 0.1)
    reports: list[Report | None] = []
    [one] = verified("later", wait_s=30, say=lambda _, report: reports.append(report))
    assert one.report.exit_code() == 0
    assert reports == [None, None, one.report]


def test_one_host_has_a_report_of_every_check() -> None:
    report = asyncio.run(verify(Target("up", "up"), good.PROFILE, without_gpu=True))
    assert (report.host, report.profile) == ("up", good.PROFILE.name)
    assert {finding.outcome for finding in report.findings if finding.needs_gpu} <= {"pass", "waived", "not-applicable"}
