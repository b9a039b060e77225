"""No embedded cloud has lost a field that others recorded, and what it has not has a reason that still holds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from provision.clouds.received import Received
from tests.cloud import recordings
from tests.cloud.bodies import SOURCES, Body, Source, objects, read
from tests.cloud.facts import fields
from tests.cloud.present import listen_apart
from tests.cloud.recordings import Difference


@pytest.fixture(scope="module")
def present() -> Mapping[str, Any]:
    return listen_apart()


def test_what_the_embedded_clouds_lack_of_the_recordings_stands_in_the_file_with_its_reason(present: Mapping[str, Any]) -> None:
    unexplained, stale = recordings.judge(recordings.differences(recordings.known(), present))
    assert not unexplained, "an embedded cloud lacks what others recorded: " + "; ".join(map(str, unexplained))
    assert not stale, "differences.yml explains what is no difference any more: " + "; ".join(map(str, stale))


def test_a_field_that_is_lost_or_has_another_type_is_a_difference() -> None:
    facts: Any = {"gcp": {"compute#disk": {"fields": ["name string", "sizeGb string", "status string"]}}}
    found = recordings.differences(facts, {"gcp": {"compute#disk": ["name string", "sizeGb number"]}})
    assert [(each.field, each.types) for each in found] == [
        ("sizeGb", "recorded string, embedded number"),
        ("status", "recorded string, embedded none"),
    ]
    assert [each.types for each in recordings.differences(facts, {"gcp": {}})] == ["no such answer"]


def test_a_line_stands_for_its_field_or_for_all_that_begin_so() -> None:
    lost = Difference("aws", "ec2.DescribeInstances", "A[].B.C")
    assert recordings.each_is(lost)(Difference("aws", "ec2.DescribeInstances", "A[].B.*"))
    assert not recordings.each_is(lost)(Difference("aws", "ec2.DescribeInstances", "A[].B"))
    assert not recordings.each_is(lost)(Difference("aws", "ec2.RunInstances", "A[].B.C"))


def test_each_reason_is_a_sentence_and_each_fact_has_its_source() -> None:
    assert all(len(why) > len("as it is") for _, why in recordings.explained())
    for answers in recordings.known().values():
        for what, fact in answers.items():
            assert fact["paths"], what
            assert all(path.startswith(tuple(source.name for source in SOURCES)) for path in fact["paths"]), what


def test_the_bodies_of_a_folder_are_read_as_what_they_are(tmp_path: Path) -> None:
    folder = "libcloud/test/compute/fixtures"
    files = {
        "ec2/a.xml": "<DescribeTagsResponse><tagSet><item><key>k</key></item></tagSet></DescribeTagsResponse>",
        "gce/b.json": '{"kind": "compute#diskList", "items": [{"kind": "compute#disk", "labels": {"mine": "x"}}]}',
        "digitalocean_v2/c.json": '{"droplets": [{"id": 1, "tags": ["t"]}], "links": {}, "meta": {"total": 1}}',
    }
    source = next(source for source in SOURCES if source.name == "apache/libcloud")
    for path, text in files.items():
        (tmp_path / source.name / folder / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / source.name / folder / path).write_text(text)
    assert found(tmp_path, source) == {
        "ec2.DescribeTags": {"Tags[].Key string"},
        "compute#disk": {"kind string", "labels.{} string"},
        "droplet": {"id number", "tags[] tag"},
    }


def test_a_go_test_has_its_answers_in_raw_strings(tmp_path: Path) -> None:
    source = next(source for source in SOURCES if source.name == "digitalocean/godo")
    (tmp_path / source.name).mkdir(parents=True)
    (tmp_path / source.name / "account_test.go").write_text('x := `\n{"account": {"droplet_limit": 25}}`\ny := `{"broken": %d}`\n')
    assert found(tmp_path, source) == {"account": {"droplet_limit number"}}


def test_a_body_that_lacks_nearly_everything_becomes_a_value_or_an_error_of_ours_and_else_it_is_named() -> None:
    machine = Received({"InstanceId": "i-1"})
    short = [
        Body("aws", "ec2.DescribeInstances", "a", Received({"Reservations": [Received({"Instances": [machine]})]})),
        Body("gcp", "", "b", {"kind": "compute#instanceAggregatedList", "items": {"zones/asia-east1-a": {"instances": [{"name": "x"}]}}}),
        Body("digitalocean", "", "c", {"droplets": [{"id": 1}]}),
        Body("digitalocean", "", "d", {"sizes": [{"slug": "gpu-h100x1-80gb"}]}),
    ]
    assert recordings.through_parsers(short) == []
    plain = Body("aws", "ec2.DescribeInstances", "e", {"Reservations": [{"Instances": [dict(machine)]}]})
    assert any("KeyError" in wrong for wrong in recordings.through_parsers([plain]))


def found(folder: Path, source: Source) -> dict[str, set[str]]:
    return {what: fields(each) for body in read(folder, source) for what, each in objects(body.cloud, body.operation, body.answer)}
