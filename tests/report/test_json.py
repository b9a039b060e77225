"""The report for programs."""

import json

import jsonschema
import pytest

from provision.report import json as report_json
from provision.verify.finding import OUTCOMES, Report

from .examples import CLEAN, EVIL, HOSTILE, ONE, UNKNOWN


def test_one_host_is_a_list_of_one_report_and_whole() -> None:
    document = json.loads(report_json.render(ONE))
    assert document.keys() == json.loads(report_json.render(ONE, CLEAN)).keys()
    [data] = document["hosts"]
    assert data["schema"] == "gpuprov-report/1"
    assert data["summary"] == dict.fromkeys(OUTCOMES, 1)
    assert data["exit_code"] == 1
    assert json.loads(report_json.render(HOSTILE))["hosts"][0]["findings"][0]["observed"] == EVIL


def test_several_hosts_are_one_document_with_a_list() -> None:
    data = json.loads(report_json.render(CLEAN, UNKNOWN))
    assert data["schema"] == "gpuprov-reports/2"
    assert data["hosts"] == [json.loads(report_json.render(each))["hosts"][0] for each in (CLEAN, UNKNOWN)]
    assert data["summary"] == {**dict.fromkeys(OUTCOMES, 0), "pass": 2, "unknown": 1}
    assert data["exit_code"] == 3


@pytest.mark.parametrize("reports", [(ONE,), (HOSTILE,), (CLEAN, UNKNOWN)], ids=["one", "hostile", "several"])
def test_the_published_schema_admits_what_is_printed_and_nothing_else(reports: tuple[Report, ...]) -> None:
    schema = report_json.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    data = json.loads(report_json.render(*reports))
    jsonschema.validate(data, schema)
    report = data["hosts"][0]
    for spoilt in ({"outcome": "skipped"}, {"observed": None}, {"more": 1}):
        before = dict(report["findings"][0])
        report["findings"][0] |= spoilt
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(data, schema)
        report["findings"][0] = before
    del data["summary"]["unknown"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, schema)
