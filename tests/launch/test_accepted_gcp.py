"""What GCE says after it accepted an insert leads where a refusal does, and nothing is left; so does what its other APIs say."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from google.cloud import compute_v1

from provision.clouds.gcp.client import client as gcp_client

from .conftest import Clients, gcp_access

KIND = "gcp"
FIRST, SECOND, OTHER = "asia-east1-a", "asia-east1-c", "asia-southeast1-a"
numbers = itertools.count(1)
ZONE_LINK = f"projects/p/zones/{FIRST}"
INSERT = r"compute\.instances\.insert"
INFO = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "domain": "googleapis.com"}


@pytest.fixture
def name(clients: Clients) -> Any:
    clients.faults([])
    clients.settings()
    clients.forget_calls()
    yield f"a{next(numbers)}"
    clients.faults([])
    clients.settings()
    assert clients.left() == []


def placed(clients: Clients, name: str) -> list[str]:
    """The zones of the machines."""
    machines, access = clients.machines(name), gcp_access(clients.rehearsal)
    scopes = gcp_client("InstancesClient", access).aggregated_list(project=access.project)
    return [scope.rpartition("/")[2] for scope, scoped in scopes for raw in scoped.instances if raw.name in machines]


def ended(code: str, message: str, http: int) -> dict[str, Any]:
    """The operation of an insert ends so."""
    return {"kind": "operation", "action": INSERT, "code": code, "message": message, "http": http}


@pytest.mark.parametrize(
    ("said", "zone"),
    [
        (("ZONE_RESOURCE_POOL_EXHAUSTED", f"The zone '{ZONE_LINK}' does not have enough resources available.", 503), SECOND),
        (("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", f"The zone '{ZONE_LINK}' does not have enough resources available.", 503), SECOND),
        (("GCE_STOCKOUT", "There is no room.", 503), SECOND),
        (("RESOURCE_NOT_FOUND", f"The resource '{ZONE_LINK}/acceleratorTypes/nvidia-tesla-t4' was not found", 404), SECOND),
        (("UNSUPPORTED_OPERATION", "[n1-standard-8, nvidia-tesla-t4] features and zone are not compatible.", 400), SECOND),
        (("QUOTA_EXCEEDED", "Quota 'NVIDIA_T4_GPUS' exceeded.  Limit: 0.0 in region asia-east1.", 403), OTHER),
        (("IP_SPACE_EXHAUSTED", "IP space of 'projects/p/regions/asia-east1/subnetworks/default' is exhausted.", 400), OTHER),
        (("IP_SPACE_EXHAUSTED_WITH_DETAILS", "IP space of the subnetwork is exhausted.", 400), OTHER),
        (("RESOURCE_NOT_READY", "The resource 'projects/p/regions/asia-east1/subnetworks/default' is not ready", 400), FIRST),
        (("INTERNAL_ERROR", "Internal error. Please try again or contact Google Support.", 500), FIRST),
    ],
)
def test_an_operation_that_fails_leads_to_the_next_place(clients: Clients, name: str, said: tuple[str, str, int], zone: str) -> None:
    clients.faults([{**ended(*said), "region": FIRST, "count": 1}])
    result = clients.run("up", name)
    assert "error" not in result, result
    assert placed(clients, name) == [zone]
    clients.run("down", name)


@pytest.mark.parametrize(
    ("said", "ours", "says"),
    [
        (("PERMISSIONS_ERROR", "Required 'compute.disks.create' permission for 'projects/p'", 403), "permission-refused", "disks.create"),
        (("RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", f"The disk '{ZONE_LINK}/disks/d' is already being used", 400), "throttled", "used"),
        (
            ("CONDITION_NOT_MET", 'Operation denied by custom org policies: ["customConstraints/custom.t4": "No T4."].', 412),
            "organisation-policy",
            "No T4",
        ),
        (("RESOURCE_NOT_FOUND", "The resource 'global/networks/default' was not found", 404), "cloud-invalid", "network.subnet"),
    ],
)
def test_one_that_no_other_place_helps_ends_with_what_gce_said(
    clients: Clients, name: str, said: tuple[str, str, int], ours: str, says: str
) -> None:
    clients.faults([ended(*said)])
    result = clients.run("up", name)
    assert result["code"] == ours
    assert says in result["message"] + result["hint"]
    assert len({row["zone"] for row in clients.rows()}) == 1


def test_a_machine_that_gce_stops_at_once_leads_to_the_next_place(clients: Clients, name: str) -> None:
    clients.settings(gce_stops={FIRST: "Instance stopped due to preemption."}, gce_operation_s=0.02)
    result = clients.run("up", name)
    assert "error" not in result, result
    assert placed(clients, name) == [SECOND]
    assert "Instance stopped due to preemption." in str(clients.rows())
    clients.run("down", name)


def test_where_gce_stops_each_machine_at_once_none_is_left(clients: Clients, name: str) -> None:
    clients.settings(gce_stops=dict.fromkeys((FIRST, SECOND, OTHER), "No room."))
    result = clients.run("up", name)
    assert result["code"] == "no-capacity"


def test_several_that_gce_stops_at_once_are_made_in_the_next_place(clients: Clients, name: str) -> None:
    clients.settings(gce_stops={FIRST: "No room."})
    result = clients.run("up", name, count=2)
    assert "error" not in result, result
    assert placed(clients, name) == [SECOND, SECOND]
    clients.run("down", name)


def test_a_machine_whose_operation_says_that_it_is_not_there_is_removed(clients: Clients, name: str) -> None:
    """skypilot-org/skypilot#1797: the operation of an insert ends with RESOURCE_NOT_FOUND, and the machine exists."""
    clients.settings(gce_kept=[FIRST])
    gone = {"code": "RESOURCE_NOT_FOUND", "message": f"The resource '{ZONE_LINK}/instances/gpuprov-{name}' was not found", "http": 404}
    clients.faults([{"kind": "operation", "action": INSERT, "region": FIRST, "count": 1, **gone}])
    result = clients.run("up", name)
    assert "error" not in result, result
    assert placed(clients, name) == [SECOND]
    clients.run("down", name)


def refused(message: str, reason: str, http: int = 403, **more: Any) -> dict[str, Any]:
    """A call is refused with a reason that stands in its details alone, as newer services write it."""
    return {"kind": "error", "http": http, "message": message, "details": [{**INFO, "reason": reason, **more}]}


@pytest.mark.parametrize(
    ("rule", "ours", "says"),
    [
        (refused("It is off.", "SERVICE_DISABLED"), "permission-refused", "services enable compute.googleapis.com"),
        (
            refused("It is off.", "SERVICE_DISABLED", metadata={"service": "iap.googleapis.com"}),
            "permission-refused",
            "services enable iap.googleapis.com",
        ),
        (refused("No billing.", "BILLING_DISABLED"), "account-refused", "No billing."),
        (refused("Too few scopes.", "ACCESS_TOKEN_SCOPE_INSUFFICIENT"), "credentials-missing", "cloud-platform"),
        (
            refused("Prohibited. vpcServiceControlsUniqueIdentifier: 8Pg-V", "SECURITY_POLICY_VIOLATED"),
            "organisation-policy",
            "8Pg-V",
        ),
        (
            refused('Operation denied by custom org policy: ["customConstraints/custom.n2": "N2."].', "CUSTOM_ORG_POLICY_VIOLATION", 400),
            "organisation-policy",
            "custom.n2",
        ),
    ],
    ids=["api", "other api", "billing", "scope", "vpc-sc", "custom constraint"],
)
def test_a_refusal_whose_reason_stands_in_its_details_ends_a_launch(
    clients: Clients, name: str, rule: dict[str, Any], ours: str, says: str
) -> None:
    for call in (INSERT, r"compute\.firewalls\.insert"):
        clients.faults([{**rule, "action": call}])
        result = clients.run("up", name)
        assert result["code"] == ours, result
        assert says in result["message"] + result["hint"]


@pytest.mark.parametrize(
    ("constraint", "words", "says"),
    [
        ("compute.managed.vmExternalIpAccess", [], "network: {address: private, via: iap}"),
        ("compute.vmExternalIpAccess", [], "network: {address: private, via: iap}"),
        ("custom.onlyN2", ["Only N2 machines are allowed."], "Only N2 machines are allowed."),
    ],
)
def test_a_constraint_of_any_kind_ends_a_launch_by_its_name(
    clients: Clients, name: str, constraint: str, words: list[str], says: str
) -> None:
    clients.settings(gce_constraints={constraint: words})
    result = clients.run("up", name)
    assert result["code"] == "organisation-policy", result
    assert constraint in result["message"]
    assert says in result["message"] + result["hint"]


def test_a_protected_machine_stays_with_its_launch_until_the_protection_is_off(clients: Clients, name: str) -> None:
    (machine,) = clients.run("up", name)["ids"]
    access = gcp_access(clients.rehearsal)
    where = {"project": access.project, "zone": FIRST, "resource": machine}
    protect = gcp_client("InstancesClient", access).set_deletion_protection_unary
    protect(request=compute_v1.SetDeletionProtectionInstanceRequest(**where, deletion_protection=True))
    result = clients.run("down", name)
    assert result["code"] == "machine-refused"
    assert f"gcloud compute instances update {machine} --zone {FIRST} --no-deletion-protection" in result["hint"]
    assert machine in clients.machines(name)
    protect(request=compute_v1.SetDeletionProtectionInstanceRequest(**where, deletion_protection=False))
    assert machine in json.dumps(clients.run("down", name)["removed"])
