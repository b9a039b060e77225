"""OS Login on the embedded GCP, whose calls are checked by Google's own documents: the key, its user, its end, and what it needs."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from provision.clouds import base
from provision.clouds.gcp import identity, os_login, permissions
from provision.clouds.gcp.api import GcpProjectApi
from provision.clouds.gcp.place import GcpPlace
from provision.clouds.gcp.requests import KEY_TAG, instance
from provision.errors import CapacityError, CloudError, CloudInvalidError, PermissionRefusedError, ThrottledError, UsageError
from provision.launch.plan import plan
from provision.profile.lock import build
from provision.rehearsal import control
from provision.render import render
from provision.structs import replace
from tests.clouds.contract import alive
from tests.clouds.gcp.orders import order as plain
from tests.clouds.gcp.rig import ZONE, GcpRig
from tests.clouds.gcp.test_identity import EMAIL
from tests.clouds.gcp.test_permissions import life
from tests.render.cases import GIVEN, profile, subject

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJlY0m8mG6UoYd7JmC3ZQvQ2vSn3v4rB5xq2p0o9l1aa gpuprov"
USER = "user@example.com"


def place(**more: Any) -> GcpPlace:
    fields = {"cloud": "gcp", "instance_type": "n1-standard-8", "gpu": "t4", "gpu_count": 1, "zones": [ZONE], "os_login": True}
    return GcpPlace.model_validate(fields | more, strict=False)


def wish(rig: GcpRig, *, of: GcpPlace | None = None, **more: Any) -> base.Order:
    return replace(rig.order(**more).at(ZONE), place=of or place(), public_key=KEY)


def keys(rig: GcpRig) -> dict[str, Any]:
    """The keys of the caller's profile by their text."""
    api = GcpProjectApi(rig.access)
    caller = api.caller()
    profile = api.ask("oslogin", "GET", f"/v1/users/{caller}/loginProfile", "look", query={"projectId": api.project})
    return {entry["key"]: entry for entry in profile.get("sshPublicKeys", {}).values()}


def ends(entry: dict[str, Any]) -> dt.datetime:
    return dt.datetime.fromtimestamp(int(entry["expirationTimeUsec"]) / 1e6, dt.UTC)


@pytest.fixture
def policy(rig: GcpRig) -> GcpRig:
    """Of an organisation that demands it."""
    rig.set(gce_constraints={"compute.requireOsLogin": []}, gce_caller=USER)
    return rig


def test_a_machine_has_no_key_in_its_metadata_and_iam_decides_who_logs_in() -> None:
    items = {i["key"]: i["value"] for i in instance(replace(plain(), place=place()), "gpuprov-x")["metadata"]["items"]}
    assert (items["enable-oslogin"], "ssh-keys" in items) == ("TRUE", False)
    before = {i["key"]: i["value"] for i in instance(plain(), "gpuprov-x")["metadata"]["items"]}
    assert (before["enable-oslogin"], "ssh-keys" in before) == ("FALSE", True)
    assert "os_login" not in place(os_login=False).model_dump(mode="json")
    (option,) = identity.options(place())
    assert (option.safer, identity.options(place(os_login=False))) == (True, ())


@pytest.mark.parametrize(("caller", "login"), [(USER, "user_example_com"), (EMAIL, r"sa_")])
def test_where_the_policy_demands_it_the_key_ends_with_the_launch(policy: GcpRig, caller: str, login: str) -> None:
    policy.set(gce_caller=caller)
    order = wish(policy)
    (machine,) = policy.cloud().launch(order)
    assert machine.login.startswith(login)
    assert policy.cloud().find(order.name)[0].login == machine.login
    entry = keys(policy)[KEY]
    assert abs(ends(entry) - order.deadline) < dt.timedelta(seconds=2)
    named = [thing for thing in policy.cloud().things(order.name) if thing.kind == "os-login-key"]
    assert [thing.id for thing in named] == [entry["name"]]
    said = policy.cloud().remove(policy.cloud().things(order.name), on_step=lambda _: None)
    assert any(phrase.startswith("os-login-key") for phrase in said)
    assert (keys(policy), alive(policy.cloud(), order.name)) == ({}, [])
    assert policy.cloud().remove(named, on_step=lambda _: None) == []


def test_a_key_stays_as_long_as_another_launch_needs_it(policy: GcpRig) -> None:
    long, short = wish(policy), wish(policy)
    short = replace(short, deadline=long.deadline - dt.timedelta(hours=1))
    policy.cloud().launch(long)
    policy.cloud().launch(short)
    assert abs(ends(keys(policy)[KEY]) - long.deadline) < dt.timedelta(seconds=2)  # the second import cuts nothing short
    policy.cloud().remove(policy.cloud().things(short.name), on_step=lambda _: None)
    assert KEY in keys(policy)
    policy.cloud().remove(policy.cloud().things(long.name), on_step=lambda _: None)
    assert keys(policy) == {}


NO_ENTRIES = [
    "projects/p/locations/l/signSshPublicKey",
    "users/a/sshPublicKeys/../../b",
    "users/../sshPublicKeys/0123",
    "users/a/sshPublicKeys/0?x=y",
    "users/a/sshPublicKeys/0#",
    "users/a/sshPublicKeys/0\n",
    "users/a b/sshPublicKeys/0",
    "../v1/users/a/sshPublicKeys/0",
]


def test_what_somebody_wrote_in_the_place_of_a_key_s_name_is_asked_for_nowhere(policy: GcpRig) -> None:
    """Whoever may set metadata in the project writes it, and `down` would delete what it names, with the rights of who runs it."""
    order, cloud = wish(policy), policy.cloud()
    (machine,) = cloud.launch(order)
    name = keys(policy)[KEY]["name"]
    cloud.stop([cloud.wait_running(machine, timeout_s=240)], timeout_s=240)
    policy.forget()
    for entry in NO_ENTRIES:
        policy.write_tags(machine.id, {KEY_TAG: entry})
        assert [thing.id for thing in cloud.things(order.name) if thing.kind == os_login.KIND] == []
    cloud.extend(cloud.find(order.name), order.deadline)
    cloud.remove(cloud.things(order.name), on_step=lambda _: None)
    assert not [call for call in policy.calls() if call.startswith("oslogin.")]
    assert alive(cloud, order.name) == []
    os_login.remove(GcpProjectApi(policy.access), name)


def test_the_machines_are_listed_once_for_all_keys(policy: GcpRig) -> None:
    kind, key, *_ = KEY.split()
    orders = [replace(wish(policy), public_key=f"{kind} {key[:-2]}{letter}{letter} x") for letter in "bc"]
    for order in orders:
        policy.cloud().launch(order)
    policy.forget()
    found = [thing for thing in policy.cloud().things() if thing.kind == os_login.KIND]
    assert {thing.launch_id for thing in found} >= {order.launch_id for order in orders}
    assert policy.calls().count("compute.instances.aggregatedList") == 2  # for themselves, and for all keys
    for order in orders:
        policy.cloud().remove(policy.cloud().things(order.name), on_step=lambda _: None)


def test_an_extension_moves_the_end_of_the_key(policy: GcpRig) -> None:
    order = wish(policy)
    machines = [policy.cloud().wait_running(each, timeout_s=240) for each in policy.cloud().launch(order)]
    policy.cloud().stop(machines, timeout_s=240)
    later = order.deadline + dt.timedelta(hours=3)
    policy.cloud().extend(policy.cloud().find(order.name), later)
    assert abs(ends(keys(policy)[KEY]) - later) < dt.timedelta(seconds=2)
    policy.cloud().remove(policy.cloud().things(order.name), on_step=lambda _: None)


@pytest.mark.parametrize("of", [place(), place(identity={"service_account": EMAIL})], ids=["no account", "an account"])
def test_without_a_permission_nothing_is_made_and_it_is_named(policy: GcpRig, of: GcpPlace) -> None:
    order = wish(policy, of=of)
    needed = permissions.permissions(order)
    assert identity.OS_LOGIN[0] in needed
    for missing in (*identity.OS_LOGIN, *(identity.ACTIONS[1:] if identity.of(order) else ())):
        policy.set(gce_allowed=[each for each in needed if each != missing])
        policy.forget()
        with pytest.raises(PermissionRefusedError, match=missing) as caught:
            policy.cloud().launch(order)
        assert "roles/" in caught.value.hint
        assert keys(policy) == {}
        assert policy.cloud().things(order.name) == []
        asked = {answer.about: answer for answer in policy.cloud().examine(order)}["os-login"]
        assert (asked.holds, missing in asked.said) == (False, True)
    policy.set(gce_allowed=list(needed))
    assert {answer.about: answer.holds for answer in policy.cloud().examine(order)}["os-login"] is True
    assert "os-login" not in {answer.about for answer in policy.cloud().examine(policy.order())}
    life(policy, order)


def test_a_launch_that_failed_leaves_no_key(policy: GcpRig) -> None:
    policy.fail("capacity")
    with pytest.raises(CapacityError):
        policy.cloud().launch(wish(policy))
    assert keys(policy) == {}


def test_two_launches_of_an_account_that_begin_at_once_take_turns(policy: GcpRig) -> None:
    """hashicorp/packer-plugin-googlecompute#320."""
    said = "Multiple concurrent mutations were attempted. Please retry the request."
    policy.faults(
        {"kind": "error", "action": r"oslogin\.users\.importSshPublicKey", "code": "aborted", "http": 409, "message": said, "count": 1}
    )
    order = wish(policy)
    with pytest.raises(ThrottledError, match="concurrent mutations"):  # which a launch repeats
        policy.cloud().launch(order)
    assert policy.cloud().things(order.name) == []
    life(policy, order)


def test_somebody_else_removes_the_machine_and_is_told_that_the_key_stays(policy: GcpRig) -> None:
    order, steps = wish(policy), list[str]()
    policy.cloud().launch(order)
    policy.set(gce_caller="other@example.com")
    said = policy.cloud().remove(policy.cloud().things(order.name), on_step=steps.append)
    assert alive(policy.cloud(), order.name) == []
    assert not any("os-login-key" in phrase for phrase in said)
    assert any("stays until it expires" in step for step in steps)
    policy.set(gce_caller=USER)
    assert KEY in keys(policy)
    os_login.remove(GcpProjectApi(policy.access), keys(policy)[KEY]["name"])


def test_the_name_of_the_key_stands_in_the_metadata_of_the_machine(policy: GcpRig) -> None:
    order = wish(policy)
    (machine,) = policy.cloud().launch(order)
    items = {item.key: item.value for item in policy.raw(machine.id).metadata.items}
    assert json.loads(items["gpuprov-tags"])[KEY_TAG] == keys(policy)[KEY]["name"]
    policy.cloud().remove(policy.cloud().things(order.name), on_step=lambda _: None)


@pytest.mark.parametrize("form", ["terraform-gcp", "runbook"])
def test_a_form_that_could_not_import_the_key_is_refused(form: str) -> None:
    given = place().model_dump(mode="json")
    with pytest.raises(UsageError, match="no form imports a key into OS Login"):
        render(form, subject("gcp", asked=profile(places=[given]), given=GIVEN))


def test_the_plan_says_who_logs_in_and_the_permission() -> None:
    asked = profile(places=[place().model_dump(mode="json")])
    planned = plan(asked, build(asked, dt.date(2026, 11, 21)), "x")
    assert identity.OS_LOGIN[0] in str(planned)
    assert "oslogin.users.importSshPublicKey" in str(planned)


def test_what_is_not_in_googles_documents_is_refused(policy: GcpRig) -> None:
    api = GcpProjectApi(policy.access)
    with pytest.raises(CloudError, match="Unknown name"):
        api.ask("oslogin", "POST", f"/v1/users/{USER}:importSshPublicKey", "x", body={"key": KEY, "expires": "1"})
    with pytest.raises(CloudError, match="int64 is expected"):
        api.ask("oslogin", "POST", f"/v1/users/{USER}:importSshPublicKey", "x", body={"key": KEY, "expirationTimeUsec": "soon"})
    assert "oslogin.users.importSshPublicKey" in [call["action"] for call in control.ask(policy.rehearsal, "calls")]


def test_an_account_of_another_organization_is_known_before_and_imports_nothing(policy: GcpRig) -> None:
    order = wish(policy)
    policy.set(gce_login_external=True)
    asked = {answer.about: answer for answer in policy.cloud().examine(order)}["os-login"]
    assert (asked.holds, "osLoginExternalUser" in asked.said) == (False, True)
    policy.forget()
    with pytest.raises(PermissionRefusedError) as caught:
        policy.cloud().launch(order)
    assert "roles/compute.osLoginExternalUser" in caught.value.hint
    assert "oslogin.users.importSshPublicKey" not in policy.calls()
    policy.set(gce_login_external=False)
    assert keys(policy) == {}
    assert policy.cloud().things(order.name) == []


def test_a_key_whose_profile_has_no_account_is_taken_back_unless_it_was_there_before(policy: GcpRig) -> None:
    order, api = wish(policy), GcpProjectApi(policy.access)
    policy.set(gce_login_accounts=False)
    with pytest.raises(CloudInvalidError, match="no POSIX account"):
        policy.cloud().launch(order)
    assert keys(policy) == {}
    assert policy.cloud().things(order.name) == []
    path = f"/v1/users/{api.caller()}:importSshPublicKey"
    api.ask("oslogin", "POST", path, "oslogin.users.importSshPublicKey", body={"key": order.public_key})
    with pytest.raises(CloudInvalidError):
        policy.cloud().launch(order)
    policy.set(gce_login_accounts=True)
    os_login.remove(api, keys(policy)[KEY]["name"])
