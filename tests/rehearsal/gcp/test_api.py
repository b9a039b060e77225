"""What the embedded GCP refuses, logs and lets fail before it does anything."""

import json
import time
import uuid
from typing import Any

import pytest
from google.api_core import exceptions as x
from google.cloud import compute_v1 as c
from requests.exceptions import ConnectionError as Dropped

from provision.errors import RehearsalFailedError
from provision.rehearsal import control
from tests.rehearsal.gcp.conftest import ZONE, Gce, fresh, t4


@pytest.mark.parametrize(
    ("method", "path", "body", "says"),
    [
        ("POST", f"zones/{ZONE}/instances", {"nmae": "a"}, b"Unknown name"),
        ("POST", f"zones/{ZONE}/instances", {"disks": [{"bot": True}]}, b"resource.disks[0]"),
        ("POST", f"zones/{ZONE}/instances", {"name": 7}, b"a string is expected"),
        ("POST", f"zones/{ZONE}/instances", {"name": "Upper"}, b"Must be a match of regex"),
        ("POST", f"zones/{ZONE}/instances", {"scheduling": {"onHostMaintenance": "EXPLODE"}}, b"listed values"),
        ("POST", f"zones/{ZONE}/instances", {"disks": {}}, b"a list is expected"),
        ("POST", f"zones/{ZONE}/instances", {"canIpForward": "yes"}, b"a boolean is expected"),
        ("POST", f"zones/{ZONE}/instances", {"disks": [{"diskSizeGb": "big"}]}, b"int64 is expected"),
        ("POST", f"zones/{ZONE}/instances", ["a"], b"an object is expected"),
        ("POST", f"zones/{ZONE}/instances", {"name": "a"}, b"Required field 'resource.machineType'"),
        ("POST", "global/firewalls", {"name": "a", "labels": {"a": "b"}}, b"Unknown name"),
        ("GET", f"zones/{ZONE}/instances?colour=red", None, b'Unknown name \\"colour\\"'),
        ("GET", f"zones/{ZONE}/instances?maxResults=many", None, b"an integer is expected"),
        ("GET", f"zones/{ZONE}/instances?filter=name", None, b"Invalid list filter expression"),
        ("GET", "zones/UPPER/instances", None, b"Must be a match of regex"),
        ("POST", f"zones/{ZONE}/instances/a/stop", {"a": 1}, b"takes no body"),
    ],
)
def test_what_is_not_in_googles_document_is_refused(gce: Gce, method: str, path: str, body: Any, says: bytes) -> None:
    status, answer = gce.raw(method, path, None if body is None else json.dumps(body).encode())
    assert status == 400
    assert says in answer
    assert json.loads(answer)["error"]["errors"][0]["domain"] == "global"


def test_what_does_not_parse_or_does_not_exist(gce: Gce) -> None:
    assert gce.raw("POST", f"zones/{ZONE}/instances", b"{")[0] == 400
    assert gce.raw("GET", "zones/mars-north1-a/instances")[0] == 404
    assert gce.raw("GET", "regions/mars-north1")[0] == 404
    assert gce.raw("GET", "nothing/at/all")[0] == 404
    assert gce.raw("GET", "global/healthChecks")[0] == 501
    assert gce.raw("GET", f"zones/{ZONE}/instances?orderBy=name")[0] == 501
    with pytest.raises(x.NotFound):
        gce.instances.get(project="another-project", zone=ZONE, instance="a")


def test_every_handled_method_is_one_of_googles() -> None:
    from provision.rehearsal.gcp import api, discovery

    known = {method.id for methods in discovery.load().methods.values() for method in methods}
    assert set(api._HANDLERS) <= known


def test_an_answer_that_google_could_not_have_sent_is_our_defect(gce: Gce) -> None:
    gce.made("odd")
    gce.ask("settings", {"gce_maintenance": {"odd": {"no-such-field": 1}}})
    status, answer = gce.raw("GET", f"zones/{ZONE}/instances/odd")
    assert (status, json.loads(answer)["error"]["errors"][0]["reason"]) == (500, "emulatorError")


# --- request ids --------------------------------------------------------------------------------------------------


def test_one_request_id_makes_one_instance_and_another_body_is_refused(gce: Gce) -> None:
    name, again = fresh(), str(uuid.uuid4())
    first = gce.insert(name, request_id=again)
    assert gce.insert(name, request_id=again).name == first.name
    gce.done(first)
    assert gce.insert(name, request_id=again).status == c.Operation.Status.DONE
    with pytest.raises(x.BadRequest, match="used for another request"):
        gce.insert(name, request_id=again, machine="n1-standard-8")
    with pytest.raises(x.Conflict) as caught:
        gce.insert(name, request_id=str(uuid.uuid4()))
    assert caught.value.errors[0]["reason"] == "alreadyExists"
    assert gce.names(f"name={name}") == [name]


@pytest.mark.parametrize("wrong", ["one", "0f8fad5bd9cb469fa16570867728950e", str(uuid.UUID(int=0))])
def test_a_request_id_is_a_uuid(gce: Gce, wrong: str) -> None:
    with pytest.raises(x.BadRequest, match="requestId"):
        gce.insert(request_id=wrong)


# --- the log and the faults ---------------------------------------------------------------------------------------


def put(gce: Gce, **rule: Any) -> None:
    gce.ask("faults", [rule])


def test_the_log_names_method_place_and_request(gce: Gce) -> None:
    name, again = fresh(), str(uuid.uuid4())
    gce.done(gce.insert(name, request_id=again))
    list(gce.client("FirewallsClient").list(project=gce.project))
    first, second, third = control.ask(gce.rehearsal, "calls")
    assert (first["action"], first["region"], first["name"], first["requestId"]) == ("compute.instances.insert", ZONE, name, again)
    assert second["action"] == "compute.zoneOperations.wait"
    assert second["seconds"] > 0
    assert (third["action"], third["region"]) == ("compute.firewalls.list", "global")


def test_an_error_comes_in_googles_shape_and_counts_down(gce: Gce) -> None:
    put(gce, kind="error", action=r"compute\.instances\.insert", region="us-.*", params={"machineType": "n1-standard-4"}, count=1)
    gce.insert(machine="n1-standard-8")
    with pytest.raises(x.BadRequest) as caught:
        gce.insert()
    assert caught.value.errors[0]["reason"] == "InternalError"
    gce.insert()
    put(gce, kind="error", action="compute.instances.list", http=429, code="rateLimitExceeded", message="slower")
    with pytest.raises(x.TooManyRequests, match="slower") as limited:
        gce.names()
    assert limited.value.errors[0] == {"message": "slower", "domain": "usageLimits", "reason": "rateLimitExceeded"}


def test_a_dropped_connection_and_a_page_instead_of_an_answer(gce: Gce) -> None:
    name = fresh()
    put(gce, kind="drop", action="compute.instances.insert", count=1)
    with pytest.raises(Dropped):
        gce.insert(name)
    assert gce.names(f"name={name}") == []
    put(gce, kind="html", action="compute.instances.insert", count=1)
    with pytest.raises(x.BadGateway):
        gce.insert(name)


def test_a_lost_reply_was_executed_and_its_request_id_finds_it(gce: Gce) -> None:
    name, again = fresh(), str(uuid.uuid4())
    put(gce, kind="lost", action="compute.instances.insert", count=1)
    with pytest.raises(Dropped):
        gce.insert(name, request_id=again)
    created = gce.get(name).id
    assert gce.done(gce.insert(name, request_id=again)).target_id == created
    assert gce.names(f"name={name}") == [name]


def test_a_delay_delays(gce: Gce) -> None:
    put(gce, kind="delay", action="compute.zones.list", delay_s=0.3)
    started = time.monotonic()
    list(gce.client("ZonesClient").list(project=gce.project))
    assert time.monotonic() - started >= 0.3


def test_a_rule_for_one_cloud_does_not_count_down_at_the_other(gce: Gce) -> None:
    put(gce, kind="operation", action=".*", count=1, code="X")
    assert control.ask(gce.rehearsal, "faults")[0]["count"] == 1
    with pytest.raises(RehearsalFailedError):
        put(gce, kind="explode")


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


# --- permissions --------------------------------------------------------------------------------------------------

LAUNCH = {
    "compute.instances.create",
    "compute.disks.create",
    "compute.subnetworks.use",
    "compute.subnetworks.useExternalIp",
    "compute.instances.setMetadata",
    "compute.instances.setLabels",
    "compute.instances.setTags",
}


def labelled() -> dict[str, Any]:
    return {"labels": {"a": "b"}, "tags": c.Tags(items=["t"]), "metadata": c.Metadata(items=[c.Items(key="k", value="v")])}


@pytest.mark.parametrize("missing", sorted(LAUNCH))
def test_an_insert_needs_each_of_its_permissions(gce: Gce, missing: str) -> None:
    gce.ask("settings", {"gce_allowed": sorted(LAUNCH - {missing})})
    with pytest.raises(x.Forbidden, match=f"Required '{missing}' permission for 'projects/") as caught:
        gce.insert(**labelled())
    assert caught.value.errors[0]["reason"] == "forbidden"


def test_with_all_of_them_it_works_and_nothing_else_is_needed(gce: Gce) -> None:
    gce.ask("settings", {"gce_allowed": sorted(LAUNCH)})
    operation = gce.insert(**labelled())
    with pytest.raises(x.Forbidden, match=r"compute\.zoneOperations\.get"):
        gce.done(operation)
    gce.ask("settings", {"gce_allowed": ["compute.images.getFromFamily"]})
    found = gce.client("ImagesClient").get_from_family(project="ubuntu-os-cloud", family="ubuntu-2404-lts-amd64")
    assert found.family == "ubuntu-2404-lts-amd64"


def test_a_firewall_needs_its_network_too(gce: Gce) -> None:
    gce.ask("settings", {"gce_allowed": ["compute.firewalls.create"]})
    rule = c.Firewall(name=fresh(), allowed=[c.Allowed(I_p_protocol="tcp")])
    with pytest.raises(x.Forbidden, match=r"compute\.networks\.updatePolicy"):
        gce.client("FirewallsClient").insert_unary(project=gce.project, firewall_resource=rule)
