"""What the embedded GCP refuses, logs and lets fail before it does anything."""

import uuid

import pytest
from google.api_core import exceptions as x
from google.cloud import compute_v1 as c
from requests.exceptions import ConnectionError as Dropped

from provision.errors import RehearsalFailedError
from provision.rehearsal import control
from tests.rehearsal.gcp.conftest import ZONE, Gce, fresh, put


def test_what_does_not_parse_or_does_not_exist(gce: Gce) -> None:
    assert gce.raw("POST", f"zones/{ZONE}/instances", b"{")[0] == 400
    assert gce.raw("GET", "zones/mars-north1-a/instances")[0] == 400
    assert gce.raw("GET", "regions/mars-north1")[0] == 404
    assert gce.raw("GET", "nothing/at/all")[0] == 404
    assert gce.raw("GET", "global/targetPools")[0] == 404
    assert gce.raw("GET", "global/sslPolicies")[0] == 501
    assert gce.raw("GET", f"zones/{ZONE}/instances?orderBy=name")[0] == 501
    with pytest.raises(x.NotFound):
        gce.instances.get(project="another-project", zone=ZONE, instance="a")


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
    list(gce.client("ZonesClient").list(project=gce.project))
    assert control.ask(gce.rehearsal, "calls")[-1]["seconds"] >= 0.3


def test_a_rule_for_one_cloud_does_not_count_down_at_the_other(gce: Gce) -> None:
    put(gce, kind="operation", action=".*", count=1, code="X")
    assert control.ask(gce.rehearsal, "faults")[0]["count"] == 1
    with pytest.raises(RehearsalFailedError):
        put(gce, kind="explode")
