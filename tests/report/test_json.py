"""The report for programs."""

import json

from provision.report import json as report_json
from provision.verify.finding import OUTCOMES

from .examples import CLEAN, EVIL, HOSTILE, ONE, UNKNOWN


def test_one_host_is_its_report_and_whole() -> None:
    data = json.loads(report_json.render(ONE))
    assert data["schema"] == "gpuprov-report/1"
    assert data["summary"] == dict.fromkeys(OUTCOMES, 1)
    assert data["exit_code"] == 1
    assert json.loads(report_json.render(HOSTILE))["findings"][0]["observed"] == EVIL


def test_several_hosts_are_one_document_with_a_list() -> None:
    data = json.loads(report_json.render(CLEAN, UNKNOWN))
    assert data["schema"] == "gpuprov-reports/1"
    assert data["hosts"] == [json.loads(report_json.render(each)) for each in (CLEAN, UNKNOWN)]
    assert data["summary"] == {**dict.fromkeys(OUTCOMES, 0), "pass": 2, "unknown": 1}
    assert data["exit_code"] == 3
