"""Operations take their time, and fail as a fault says."""

from typing import Any

import pytest
from google.cloud import compute_v1 as c

from tests.rehearsal.gcp.conftest import ZONE, Gce, fresh, put, t4


def test_an_operation_takes_its_time_or_none(gce: Gce) -> None:
    gce.ask("settings", {"gce_operation_s": 1.0})
    operation = gce.insert()
    where = {"project": gce.project, "zone": ZONE, "operation": operation.name}
    assert gce.client("ZoneOperationsClient").get(**where).status == c.Operation.Status.RUNNING
    gce.done(operation)
    gce.ask("settings", {"gce_operation_s": 0})
    assert gce.insert().status == c.Operation.Status.DONE
    listed = gce.client("ZoneOperationsClient").list(
        c.ListZoneOperationsRequest(project=gce.project, zone=ZONE, filter=f"name={operation.name}")
    )
    assert [o.name for o in listed] == [operation.name]


@pytest.mark.parametrize(
    ("code", "http", "details"),
    [
        ("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", 503, [{"errorInfo": {"reason": "resource_availability", "metadatas": {"a": "b"}}}]),
        ("QUOTA_EXCEEDED", 403, [{"quotaInfo": {"metricName": "compute.googleapis.com/nvidia_t4_gpus", "limit": 0.0}}]),
        ("UNSUPPORTED_OPERATION", 400, []),
        ("SOMETHING_NEW", 500, [{"localizedMessage": {"locale": "en-US", "message": "so"}}]),
    ],
)
def test_an_operation_ends_with_the_error_that_was_asked_for_and_leaves_nothing(gce: Gce, code: str, http: int, details: Any) -> None:
    put(gce, kind="operation", action="compute.instances.insert", code=code, http=http, details=details, message="no", count=1)
    name = fresh()
    operation = gce.insert(name, **t4())
    assert operation.status != c.Operation.Status.DONE
    ended = gce.done(operation)
    assert (ended.error.errors[0].code, ended.error.errors[0].message, ended.http_error_status_code) == (code, "no", http)
    assert len(ended.error.errors[0].error_details) == len(details)
    if code == "QUOTA_EXCEEDED":
        assert ended.error.errors[0].error_details[0].quota_info.metric_name.endswith("nvidia_t4_gpus")
    assert gce.names(f"name={name}") == []
    assert not list(gce.client("DisksClient").list(c.ListDisksRequest(project=gce.project, zone=ZONE, filter=f"name={name}")))


def test_what_a_failing_operation_was_to_change_stays_as_it_was(gce: Gce) -> None:
    name = gce.made(labels={"a": "1"})
    where = {"project": gce.project, "zone": ZONE, "instance": name}
    put(gce, kind="operation", action=r"compute\.instances\.(stop|delete|setLabels|setMetadata)", code="INTERNAL_ERROR", http=500)
    change = c.InstancesSetLabelsRequest(labels={"a": "2"}, label_fingerprint=gce.get(name).label_fingerprint)
    data = c.Metadata(items=[c.Items(key="k", value="v")], fingerprint=gce.get(name).metadata.fingerprint)
    for operation in (
        gce.instances.set_labels_unary(**where, instances_set_labels_request_resource=change),
        gce.instances.set_metadata_unary(**where, metadata_resource=data),
        gce.instances.stop_unary(**where),
        gce.instances.delete_unary(**where),
    ):
        assert gce.done(operation).error.errors[0].code == "INTERNAL_ERROR"
    found = gce.get(name)
    assert (found.status, found.labels, list(found.metadata.items)) == ("RUNNING", {"a": "1"}, [])
