"""Each kind of difference is on the list, and equal answers are not, whatever their values and their number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cloud.deviations import Kind, deviations, read

GOOD = {
    "at": "2026-11-23T09:00:00+00:00",
    "operation": "ec2.DescribeInstances",
    "status": 200,
    "code": "",
    "request_id": True,
    "fields": ["A.Id string", "A.Tags[owner] tag", "A.Cores number"],
    "words": ["A.State.Name=running", "A.Disk.Status=attached"],
    "machines": [["i-1", "running"]],
    "consoles": [],
}


def call(**more: Any) -> dict[str, Any]:
    return {**GOOD, **more}


def kinds(embedded: list[dict[str, Any]], account: list[dict[str, Any]]) -> list[Kind]:
    return [each.kind for each in deviations("aws", embedded, account)]


@pytest.mark.parametrize(
    ("account", "kind"),
    [
        ([call(), call(status=503, code="RequestLimitExceeded")], Kind.ERROR),
        ([call(), call(status=202)], Kind.STATUS),
        ([call(fields=GOOD["fields"][1:])], Kind.FIELD_MISSING),  # type: ignore[index]
        ([call(fields=[*GOOD["fields"], "A.New string"])], Kind.FIELD_NEW),  # type: ignore[misc]
        ([call(fields=["A.Id string", "A.Tags[owner] tag", "A.Cores string"])], Kind.FIELD_TYPE),
        ([call(fields=["A.Id string", "A.Cores number"])], Kind.TAG_MISSING),
        ([call(words=["A.State.Name=running", "A.Disk.Status=busy"])], Kind.WORD),
        ([call(request_id=False)], Kind.REQUEST_ID),
        ([call(), call(operation="ec2.DescribeNothing")], Kind.CALL_NEW),
        ([call(operation="ec2.DescribeNothing")], Kind.CALL_NEW),
    ],
)
def test_a_difference_is_on_the_list_once(account: list[dict[str, Any]], kind: Kind) -> None:
    found = kinds([call()], account)
    assert found.count(kind) == 1
    assert set(found) <= {kind, Kind.CALL_MISSING}


def test_a_call_that_was_never_made_is_on_the_list() -> None:
    assert kinds([call(), call(operation="ec2.GetConsoleOutput")], [call()]) == [Kind.CALL_MISSING]


def test_a_console_that_lacks_a_kind_of_key_is_on_the_list_and_one_that_is_empty_at_first_is_not() -> None:
    whole = call(operation="ec2.GetConsoleOutput", consoles=[{"characters": 9, "host_keys": ["ssh-ed25519"]}])
    early = call(operation="ec2.GetConsoleOutput", consoles=[{"characters": 5, "host_keys": []}])
    assert kinds([whole], [early, whole]) == []
    assert kinds([whole], [early]) == [Kind.CONSOLE]


def test_a_machine_that_takes_long_is_on_the_list() -> None:
    pending, late = call(machines=[["i-1", "pending"]]), call(at="2026-11-23T09:00:20+00:00")
    soon = call(at="2026-11-23T09:00:01+00:00")
    assert kinds([pending, soon], [pending, late]) == [Kind.SLOWER]
    assert kinds([pending, soon], [pending, soon]) == []


def test_states_that_a_client_sees_by_chance_and_other_clouds_are_no_difference() -> None:
    other = call(operation="GET /v2/droplets", status=401, code="Unauthorized")
    assert kinds([call()], [call(words=["A.State.Name=pending"]), call(), other]) == []
    assert [each.kind for each in deviations("digitalocean", [call()], [other])] == [Kind.CALL_NEW]


def test_a_line_that_a_killed_process_left_half_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"operation": "a"}\n{"operation": "b", "sta')
    assert read(path) == [{"operation": "a"}]


def test_the_console_of_the_questions_is_not_compared() -> None:
    whole: list[Any] = [{"host_keys": ["ssh-ed25519"]}]
    none: list[Any] = [{"host_keys": []}]
    asked = call(step="questions", consoles=whole)
    assert kinds([call(step="up", consoles=whole), asked], [call(step="up", consoles=whole), call(step="questions", consoles=none)]) == []
    assert kinds([asked], [call(step="questions", consoles=none)]) == []
    assert kinds([call(step="up", consoles=whole)], [call(step="up", consoles=none), asked]) == [Kind.CONSOLE]
