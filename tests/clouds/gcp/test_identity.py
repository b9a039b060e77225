"""A service account on GCP: how it is written, what handing it over needs, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from provision import clouds
from provision.clouds import base
from provision.clouds.gcp import identity, permissions
from provision.clouds.gcp.place import GcpPlace
from provision.clouds.gcp.requests import instance
from provision.errors import CloudInvalidError, PermissionRefusedError
from provision.structs import replace
from tests.clouds.gcp.orders import order as plain
from tests.clouds.gcp.rig import ZONE, GcpRig
from tests.clouds.gcp.test_permissions import life

EMAIL = "gpu-node@isa-gpu.iam.gserviceaccount.com"


def place(given: Any) -> GcpPlace:
    fields = {"cloud": "gcp", "instance_type": "n1-standard-8", "gpu": "t4", "gpu_count": 1, "zones": [ZONE], "identity": given}
    return GcpPlace.model_validate(fields, strict=False)


@pytest.mark.parametrize(
    "given", ["none", {"service_account": EMAIL}, {"service_account": "123456789012-compute@developer.gserviceaccount.com"}]
)
def test_an_identity_is_accepted_and_none_leaves_the_data_as_it_was(given: Any) -> None:
    dumped = place(given).model_dump(mode="json")
    assert ("identity" in dumped) == (given != "none")
    assert GcpPlace.model_validate(dumped, strict=False) == place(given)


@pytest.mark.parametrize(
    "given",
    [
        EMAIL,
        "default",
        {"service_account": "me@example.org"},
        {"service_account": f"{EMAIL},other"},
        {"service_account": f"{EMAIL}\n"},
        {"service_account": "$(x)@isa-gpu.iam.gserviceaccount.com"},
        {"instance_profile": "gpu-node"},
    ],
)
def test_anything_else_is_refused(given: Any) -> None:
    with pytest.raises(ValidationError):
        place(given)


def test_the_permissions_are_enough_and_each_new_one_is_needed_and_named(rig: GcpRig) -> None:
    order = replace(rig.order().at(ZONE), place=place({"service_account": EMAIL}))
    needed = permissions.permissions(order)
    assert set(needed) - set(permissions.permissions(rig.order().at(ZONE))) == {*identity.ACTIONS, identity.READ_POLICY}
    for action in identity.ACTIONS:
        rig.set(gce_allowed=[each for each in needed if each != action])
        with pytest.raises(PermissionRefusedError, match=action):
            rig.cloud().launch(order)
    rig.set(gce_allowed=list(needed))
    life(rig, order)


def test_a_machine_has_the_account_with_one_scope_or_none(rig: GcpRig) -> None:
    order = replace(rig.order().at(ZONE), place=place({"service_account": EMAIL}))
    (made,) = rig.cloud().launch(order)
    (account,) = rig.raw(made.id).service_accounts
    assert (account.email, list(account.scopes)) == (EMAIL, ["https://www.googleapis.com/auth/cloud-platform"])
    assert instance(plain(), "x")["service_accounts"] == []


def test_an_account_that_does_not_exist_or_may_not_be_used_is_named(rig: GcpRig) -> None:
    order = replace(rig.order().at(ZONE), place=place({"service_account": EMAIL}))
    rig.set(gce_missing_accounts=[EMAIL])
    with pytest.raises(CloudInvalidError, match=EMAIL):
        rig.cloud().launch(order)
    rig.set(gce_missing_accounts=[])
    denied = {"kind": "operation", "code": "SERVICE_ACCOUNT_ACCESS_DENIED", "message": "The user does not have access.", "http": 400}
    rig.faults({"action": r"compute\.instances\.insert", **denied})
    with pytest.raises(PermissionRefusedError, match=r"refuses iam\.serviceAccounts\.actAs"):
        rig.cloud().launch(order)


def test_the_review_grades_the_default_account_as_high_and_others_as_not_known() -> None:
    (option,) = clouds.provider("gcp").cloud_options(place({"service_account": EMAIL}))
    assert (option.key, option.severity, "not known" in option.reason) == ("identity", "medium", True)
    (default,) = clouds.provider("gcp").cloud_options(place({"service_account": "123456789012-compute@developer.gserviceaccount.com"}))
    assert (default.severity, "Editor" in default.reason) == ("high", True)
    assert clouds.provider("gcp").cloud_options(place("none")) == ()


def bound(role: str, *members: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "members": list(members or (f"serviceAccount:{EMAIL}",)), **more}


@pytest.mark.parametrize(
    ("bindings", "severity"),
    [
        ([bound("roles/owner")], "high"),
        ([bound("roles/editor")], "high"),
        ([bound("roles/iam.serviceAccountTokenCreator")], "high"),
        ([bound("roles/resourcemanager.projectIamAdmin")], "high"),
        ([bound("roles/compute.admin")], "medium"),
        ([bound("roles/storage.objectAdmin")], "medium"),
        ([bound("roles/storage.objectViewer")], "medium"),
        ([bound("roles/viewer")], "medium"),
        ([bound("roles/secretmanager.secretAccessor")], "medium"),
        ([bound("roles/logging.logWriter")], "low"),
        ([bound("roles/artifactregistry.reader"), bound("roles/iam.securityReviewer")], "low"),
        ([bound("roles/logging.logWriter"), bound("roles/owner")], "high"),  # the worst decides
        ([bound("roles/owner", "user:me@example.com"), bound("roles/logging.logWriter")], "low"),  # somebody else's
        ([bound("roles/editor", "allAuthenticatedUsers")], "high"),  # it is one of them
        ([bound("roles/owner", f"serviceAccount:{EMAIL.upper()}")], "high"),
        ([bound("roles/owner", condition={"expression": "false"})], "high"),  # a condition counts for nothing
        ([bound("projects/p/roles/own"), bound("roles/owner")], "high"),
        ([bound("projects/p/roles/own"), bound("roles/logging.logWriter")], None),  # who knows what the other holds
        ([bound("organizations/1/roles/own")], None),
        ([bound("roles/owner", "group:all@example.com")], None),
        ([bound("roles/owner", f"deleted:serviceAccount:{EMAIL}?uid=1")], None),
        ([{"role": "roles/owner"}], None),
        ([], None),
    ],
)
def test_an_account_is_graded_by_its_roles_in_the_project(bindings: list[dict[str, Any]], severity: str | None) -> None:
    graded = identity.authority(bindings, EMAIL)
    assert (graded.severity if graded else None) == severity


def test_a_plan_that_asks_grades_the_account_and_what_is_not_known_is_never_low(rig: GcpRig) -> None:
    order = replace(rig.order().at(ZONE), place=place({"service_account": EMAIL}))

    def asked() -> base.Answer:
        return {answer.about: answer for answer in rig.cloud().examine(order)}["identity"]

    assert (asked().holds, "it is not known what" in asked().said) == (None, True)
    rig.set(gce_bindings=[bound("roles/logging.logWriter")])
    assert (asked().holds, f"{EMAIL}: low risk in gpuprov-rehearsal: " in asked().said) == (True, True)
    assert "grants elsewhere, and to groups, are not read" in asked().said
    rig.set(gce_bindings=[bound("roles/editor", condition={"title": "t", "expression": "e"})])
    assert (asked().holds, "high risk" in asked().said) == (False, True)
    rig.set(gce_allowed=[each for each in permissions.permissions(order) if each != identity.READ_POLICY])
    assert (asked().holds, identity.READ_POLICY in asked().said) == (None, True)
    assert "identity" not in {answer.about for answer in rig.cloud().examine(rig.order())}
    (machine,) = rig.cloud().launch(order)  # which needs it not
    assert machine.zone == ZONE
