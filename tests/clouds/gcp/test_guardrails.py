"""The organisation policies of GCP: a launch that one forbids is refused with its name and with what to write, and leaves nothing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from provision.clouds import base
from provision.clouds.gcp.errors import of_operation
from provision.clouds.refusals import HostKeysBlockedError, OrganisationPolicyError
from provision.structs import replace
from tests.clouds.gcp.rig import REGION, ZONE, GcpRig


def left(rig: GcpRig, name: str) -> list[base.Thing]:
    return [thing for thing in rig.cloud().things(name) if thing.alive]


@pytest.mark.parametrize("several", [False, True], ids=["one machine", "several"])
@pytest.mark.parametrize(
    ("constraint", "allowed", "answer"),
    [
        ("compute.vmExternalIpAccess", [], "network: {address: private, via: iap}"),
        ("compute.requireShieldedVm", [], "os.secure_boot: required"),
        ("compute.requireOsLogin", [], "write `os_login: true` at the place"),
        ("compute.trustedImageProjects", ["debian-cloud"], "whose image is of a trusted project"),
        ("gcp.resourceLocations", ["europe-west4"], "take the named location off"),
    ],
)
def test_a_launch_that_a_constraint_forbids_names_it(
    rig: GcpRig, constraint: str, allowed: list[str], answer: str, *, several: bool
) -> None:
    rig.set(gce_constraints={constraint: allowed})
    order = rig.order(count=2, minimum=2) if several else rig.order()
    with pytest.raises(OrganisationPolicyError) as caught:
        rig.cloud().launch(order)
    assert caught.value.constraints == (constraint,)
    assert f"the organisation's policy {constraint} refuses compute.instances.create in " in caught.value.message
    assert answer in caught.value.hint
    assert [thing for thing in left(rig, order.name) if thing.kind != "firewall"] == []


def test_all_that_a_launch_breaks_is_named_at_once(rig: GcpRig) -> None:
    rig.set(gce_constraints={"compute.vmExternalIpAccess": [], "compute.trustedImageProjects": ["debian-cloud"]})
    with pytest.raises(OrganisationPolicyError) as caught:
        rig.cloud().launch(rig.order())
    assert caught.value.constraints == ("compute.vmExternalIpAccess", "compute.trustedImageProjects")
    assert "images from project ubuntu-os-cloud is prohibited" in caught.value.message
    assert "; " in caught.value.hint


def test_what_keeps_the_constraints_is_launched(rig: GcpRig) -> None:
    rig.set(
        gce_constraints={
            "compute.vmExternalIpAccess": [],
            "compute.requireShieldedVm": [],
            "compute.disableSerialPortAccess": [],
            "compute.trustedImageProjects": ["ubuntu-os-cloud"],
            "gcp.resourceLocations": [REGION],
        }
    )
    (machine,) = rig.cloud().launch(replace(rig.order(), public_address=False, secure_boot=True))
    assert machine.zone == ZONE


def test_host_keys_that_the_policy_hides_are_named_as_such(rig: GcpRig) -> None:
    (machine,) = rig.cloud().launch(rig.order())
    machine = rig.cloud().wait_running(machine, timeout_s=240)
    rig.set(gce_constraints={"compute.disableGuestAttributesAccess": []})
    with pytest.raises(HostKeysBlockedError, match="disableGuestAttributesAccess") as caught:
        rig.cloud().host_keys(machine, timeout_s=0)
    assert "connects to no machine whose key it does not know" in caught.value.hint


def test_an_operation_that_fails_by_a_constraint_is_classified_as_the_call_is() -> None:
    words = "Instance 'x' creation failed: Constraint constraints/compute.vmExternalIpAccess violated for project 1."
    error = of_operation([SimpleNamespace(code="CONDITION_NOT_MET", message=words, error_details=[])], 412, "compute.instances.create")
    assert isinstance(error, OrganisationPolicyError)
    assert error.constraints == ("compute.vmExternalIpAccess",)
    unknown = "Constraint constraints/compute.somethingNew violated for project 1."
    error = of_operation([SimpleNamespace(code="CONDITION_NOT_MET", message=unknown, error_details=[])], 412, "compute.instances.create")
    assert "ask whoever keeps compute.somethingNew what it allows" in error.hint
    other = of_operation([SimpleNamespace(code="CONDITION_NOT_MET", message="stale fingerprint", error_details=[])], 412, "x")
    assert not isinstance(other, OrganisationPolicyError)
