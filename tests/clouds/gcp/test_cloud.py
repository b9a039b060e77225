"""GCP keeps the contract, through real google-cloud-compute over HTTP against the embedded GCP; and what is GCP's alone."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from google.cloud import compute_v1

from provision.clouds import base
from provision.clouds.gcp import cloud as cloud_module
from provision.clouds.gcp import permissions
from provision.clouds.gcp.answers import notices_of, tags_of
from provision.clouds.gcp.client import GcpAccess, client
from provision.clouds.gcp.cloud import GcpCloud
from provision.errors import (
    CapacityError,
    CloudInvalidError,
    CloudUnreachableError,
    InstanceLostError,
    NameTakenError,
    PermissionRefusedError,
    QuotaExceededError,
    ThrottledError,
)
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.rehearsal.gcp.settings import PROJECT as GCP_PROJECT
from tests.clouds.contract import CloudContract, Failure, Rig, Seen, alive, ids

REGION, ZONE = "asia-east1", "asia-east1-a"
MAKING = r"compute\.(instances|regionInstances)\.(insert|bulkInsert)"
STOCK_OUT = {"kind": "operation", "code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "The zone has not enough resources.", "http": 503}
FAULTS: dict[Failure, dict[str, Any]] = {
    "capacity": STOCK_OUT,
    "quota": {
        "kind": "operation",
        "code": "QUOTA_EXCEEDED",
        "message": "Quota 'CPUS' exceeded.  Limit: 8.0 in region asia-east1.",
        "http": 403,
    },
    "throttled": {"kind": "error", "code": "rateLimitExceeded", "http": 403},
    "refused": {
        "kind": "error",
        "code": "forbidden",
        "http": 403,
        "message": "Required 'compute.instances.create' permission for 'projects/p'",
    },
    "invalid": {"kind": "error", "code": "invalid", "http": 400},
    "expired": {"kind": "error", "code": "authError", "http": 401},
    "server": {"kind": "error", "code": "backendError", "http": 503},
    "html": {"kind": "html"},
    "drop": {"kind": "drop"},
}
QUIET: dict[str, Any] = {
    "gce_operation_s": 0.1,
    "gce_running_s": 0.1,
    "gce_guest_attributes_s": 0.0,
    "gce_quota": {},
    "gce_capacity": {},
    "gce_allowed": None,
    "gce_maintenance": {},
}


class GcpRig(Rig):
    region = REGION
    making = "making"
    machine = {"instance_type": "n1-standard-8", "gpu": "t4", "gpu_count": 1, "os": ("ubuntu", "24.04")}  # noqa: RUF012 - as the base says

    def __init__(self, rehearsal: Rehearsal) -> None:
        self.rehearsal = rehearsal
        self.access = GcpAccess(**rehearsal.settings("gcp"))

    def cloud(self) -> GcpCloud:
        return GcpCloud(REGION, self.access)

    def named(self) -> list[str]:
        return [str(call["action"]) for call in control.ask(self.rehearsal, "calls") if str(call["action"]).startswith("compute.")]

    def calls(self) -> list[str]:
        return [self.making if a.rpartition(".")[2] in {"insert", "bulkInsert"} and "nstances" in a else a for a in self.named()]

    def forget(self) -> None:
        control.ask(self.rehearsal, "calls", method="DELETE")

    def set(self, **settings: Any) -> None:
        control.ask(self.rehearsal, "settings", method="PUT", body=settings)

    def faults(self, *rules: dict[str, Any]) -> None:
        control.ask(self.rehearsal, "faults", method="PUT", body=list(rules))

    def stock(self, left: dict[str, int]) -> None:
        here = Counter(i.zone for i in self.cloud().find() if i.state != "stopped")  # of other tests; they count
        self.set(gce_capacity={zone: count + here[zone] for zone, count in left.items()})

    def no_quota(self) -> None:
        self.set(gce_quota={REGION: {"NVIDIA_T4_GPUS": 0}})

    def fail(self, how: Failure) -> None:
        self.faults({"action": MAKING, **FAULTS[how]})

    def lose_reply(self) -> None:
        self.faults({"kind": "lost", "action": MAKING, "count": 1})

    def heal(self) -> None:
        self.faults()
        self.set(**QUIET)

    def subnet(self, zone: str) -> str:
        region, name = zone.rpartition("-")[0], f"n{uuid.uuid4().hex[:8]}"
        network = compute_v1.Network(name=name, auto_create_subnetworks=False)
        client("NetworksClient", self.access).insert_unary(project=GCP_PROJECT, network_resource=network)
        link = f"projects/{GCP_PROJECT}/global/networks/{name}"
        made = compute_v1.Subnetwork(name=f"{name}-s", network=link, ip_cidr_range="10.9.0.0/20")
        client("SubnetworksClient", self.access).insert_unary(project=GCP_PROJECT, region=region, subnetwork_resource=made)
        return f"{name}-s"

    def seen(self, instance: base.Instance) -> Seen:
        (card,) = self.raw(instance.id, instance.zone).network_interfaces
        rules = [r for name, r in self.rules().items() if name.startswith(f"gpuprov-{instance.launch_id}")]
        assert {r.network for r in rules} == {card.network}
        public = [config.nat_i_p for config in card.access_configs]
        opened = {source for rule in rules if rule.allowed for source in rule.source_ranges}
        return Seen(public[0] if public else "", card.network_i_p, card.subnetwork.rpartition("/")[2], opened)

    def raw(self, name: str, zone: str = ZONE) -> Any:
        return client("InstancesClient", self.access).get(project=GCP_PROJECT, zone=zone, instance=name)

    def rules(self) -> dict[str, Any]:
        return {rule.name: rule for rule in client("FirewallsClient", self.access).list(project=GCP_PROJECT)}


@pytest.fixture
def rig(ec2_api: Rehearsal) -> Iterator[GcpRig]:
    made = GcpRig(ec2_api)
    made.heal()
    made.forget()
    yield made
    made.heal()


class TestContract(CloudContract):
    """The suite of all clouds."""

    def test_fewer_than_asked_for_and_enough(self, rig: Rig) -> None:
        """Which of them a bulk insert makes is not said; the next attempt is for those that are missing."""
        order = rig.order(count=3, minimum=2)
        zone, other, *_ = rig.cloud().zones(order)
        rig.stock({zone: 2})
        made = rig.cloud().launch(order.at(zone))
        assert len(made) == 2
        tags = {**order.tags, base.FIRST_TAG: "3"}
        rest = dataclasses.replace(order.at(other), first=3, count=1, minimum=1, tags=tags)
        made += rig.cloud().launch(rest)
        assert sorted(i.name for i in made) == [f"{order.name}-{n}" for n in (1, 2, 3)]
        assert [i.name for i in rig.cloud().launch(rest)] == [made[-1].name]

    @pytest.mark.parametrize("zone", [ZONE, ""])
    def test_an_attempt_fills_the_gap_that_another_left(self, rig: GcpRig, zone: str) -> None:
        order = rig.order(count=3, minimum=1)
        second = dataclasses.replace(order, first=2, count=1, tags={**order.tags, base.FIRST_TAG: "2"}).at(ZONE)
        rig.cloud().launch(second)
        rest = dataclasses.replace(order, count=2, minimum=2).at(zone)
        others = rig.cloud().launch(rest)
        assert sorted(i.name for i in others) == [f"{order.name}-1", f"{order.name}-3"]
        assert ids(rig.cloud().launch(rest)) == ids(others)

    def test_the_deadline_moves(self, rig: Rig) -> None:
        """On GCP that of a stopped machine alone; a running one keeps it, and it is said."""
        order, cloud = rig.order(), rig.cloud()
        (made,) = cloud.launch(order)
        running = cloud.wait_running(made, timeout_s=20)
        later = order.deadline + dt.timedelta(hours=3)
        with pytest.raises(CloudInvalidError, match="is not stopped") as caught:
            cloud.extend([running], later)
        assert f"gpuprov stop {order.name}" in caught.value.hint
        assert cloud.find(order.name)[0].deadline == order.deadline.isoformat()
        cloud.stop([running], timeout_s=20)
        cloud.extend(cloud.find(order.name), later)
        (found,) = cloud.find(order.name)
        assert dt.datetime.fromisoformat(found.deadline) == later
        cloud.start([found], timeout_s=20)
        assert cloud.notices([found]) == {}  # GCE's own time limit is the deadline of the tag


def test_the_operation_and_not_the_call_says_that_there_is_no_machine(rig: GcpRig) -> None:
    order = rig.order().at(ZONE)
    rig.stock({ZONE: 0})
    with pytest.raises(CapacityError) as caught:
        rig.cloud().launch(order)
    assert set(caught.value.elsewhere) == {"asia-east1-c"}
    assert "asia-east1-c" in caught.value.message
    assert rig.calls().count(rig.making) == 1


def test_a_warm_launch_is_four_kinds_of_calls(rig: GcpRig) -> None:
    rig.cloud().launch(rig.order(ssh_from=("192.0.2.0/24",)).at(ZONE))
    waits = {"compute.zoneOperations.wait", "compute.globalOperations.wait"}
    before = [a for a in rig.named() if a not in waits]
    assert sorted(before) == ["compute.firewalls.insert", "compute.firewalls.insert", "compute.instances.get", "compute.instances.insert"]
    assert before.index("compute.instances.insert") == 2  # the rules are accepted before there is a machine


def test_the_rules_let_in_the_caller_and_shut_out_the_rest(rig: GcpRig) -> None:
    order = rig.order().at(ZONE)
    rig.cloud().launch(order)
    tag = f"gpuprov-{order.launch_id}"
    rules = rig.rules()
    allow, deny = rules[tag], rules[f"{tag}-deny"]
    assert list(rig.raw(f"gpuprov-{order.name}").tags.items) == list(allow.target_tags) == list(deny.target_tags) == [tag]
    assert list(allow.source_ranges) == ["127.0.0.1/32"]
    assert (list(deny.source_ranges), deny.denied[0].I_p_protocol, list(deny.denied[0].ports)) == (["0.0.0.0/0"], "tcp", ["22"])
    assert allow.priority < deny.priority < 65534
    assert json.loads(allow.description)[base.NAME_TAG] == order.name


def test_ipv6_has_rules_of_its_own_and_they_go_when_it_is_no_longer_allowed(rig: GcpRig) -> None:
    order = rig.order(ssh_from=("192.0.2.0/24", "2001:db8::/64")).at(ZONE)
    cloud = rig.cloud()
    cloud.launch(order)
    tag = f"gpuprov-{order.launch_id}"
    assert {n for n in rig.rules() if n.startswith(tag)} == {tag, f"{tag}-deny", f"{tag}-v6", f"{tag}-deny-v6"}
    cloud.allow(order.name, ["192.0.2.0/24"])
    assert {n for n in rig.rules() if n.startswith(tag)} == {tag, f"{tag}-deny"}


def test_asked_again_from_another_address_the_rule_follows(rig: GcpRig) -> None:
    order = rig.order(ssh_from=("192.0.2.0/24",)).at(ZONE)
    rig.cloud().launch(order)
    rig.cloud().launch(dataclasses.replace(order, ssh_from=("198.51.100.7/32",)))
    assert list(rig.rules()[f"gpuprov-{order.launch_id}"].source_ranges) == ["198.51.100.7/32"]


def test_allow_makes_a_rule_again_that_somebody_removed(rig: GcpRig) -> None:
    order = rig.order(ssh_from=("192.0.2.0/24",)).at(ZONE)
    cloud = rig.cloud()
    cloud.launch(order)
    cloud.remove([t for t in cloud.things(order.name) if t.kind == "firewall"], on_step=lambda _: None)
    cloud.allow(order.name, ["192.0.2.0/24"])
    tag = f"gpuprov-{order.launch_id}"
    assert {n for n in rig.rules() if n.startswith(tag)} == {tag, f"{tag}-deny"}


def test_host_keys_come_from_the_guest_attributes(rig: GcpRig) -> None:
    cloud = rig.cloud()
    (made,) = cloud.launch(rig.order().at(ZONE))
    running = cloud.wait_running(made, timeout_s=20)
    keys = cloud.host_keys(running, timeout_s=20)
    assert [key.split(" ")[0] for key in keys] == ["ssh-ed25519"]


def test_another_machine_of_that_name_is_not_adopted(rig: GcpRig) -> None:
    first = rig.order().at(ZONE)
    rig.cloud().launch(first)
    with pytest.raises(NameTakenError, match=f"gpuprov-{first.name}"):
        rig.cloud().launch(rig.order(first.name).at(ZONE))


def test_a_machine_of_our_own_launch_is_adopted_when_the_request_is_a_new_one(rig: GcpRig) -> None:
    order = rig.order().at(ZONE)
    (made,) = rig.cloud().launch(order)
    again = rig.cloud()
    again._failed[order.token(REGION)] = 7  # as after failed tries of this process: another request id, the same name
    assert [i.id for i in again.launch(order)] == [made.id]


def test_a_quota_is_told_with_limit_and_use(rig: GcpRig) -> None:
    rig.set(gce_quota={REGION: {"NVIDIA_T4_GPUS": 1}})
    cloud = rig.cloud()
    before = rig.order().at(ZONE)
    cloud.remove(cloud.things(), on_step=lambda _: None)  # what the tests before have left counts
    cloud.launch(before)
    with pytest.raises(QuotaExceededError) as caught:
        cloud.launch(rig.order().at(ZONE))
    assert "NVIDIA_T4_GPUS" in caught.value.message
    assert "limit 1, 1 in use" in caught.value.message
    answers = {a.about: a for a in cloud.examine(rig.order().at(ZONE))}
    assert answers["quota"].holds is False
    assert "1 of 1 used (NVIDIA_T4_GPUS)" in answers["quota"].said


def test_examine_says_what_is_not_there(rig: GcpRig) -> None:
    answers = {
        a.about: a for a in rig.cloud().examine(rig.order(image_id="projects/ubuntu-os-cloud/global/images/nosuch").at("asia-east1-b"))
    }
    assert (answers["offered"].holds, answers["image"].holds) == (False, False)
    assert "nvidia-tesla-t4" in answers["offered"].said
    assert answers["dry-run"].holds is None


def test_a_machine_that_is_gone_while_it_is_waited_for_is_lost(rig: GcpRig) -> None:
    rig.set(gce_running_s=5.0)
    cloud = rig.cloud()
    order = rig.order().at(ZONE)
    (made,) = cloud.launch(order)
    cloud.remove([t for t in cloud.things(order.name) if t.kind == "instance"], on_step=lambda _: None)
    with pytest.raises(InstanceLostError, match="gone"):
        cloud.wait_running(made, timeout_s=5)


def test_a_machine_with_a_local_ssd_can_be_stopped(rig: GcpRig) -> None:
    cloud = rig.cloud()
    (made,) = cloud.launch(rig.order(instance_store=True).at(ZONE))
    running = cloud.wait_running(made, timeout_s=20)
    cloud.stop([running], timeout_s=20)
    assert cloud.find(made.group)[0].state == "stopped"


def test_find_sees_the_whole_project(rig: GcpRig) -> None:
    order = rig.order().at("europe-west4-a")
    (made,) = GcpCloud("europe-west4", rig.access).launch(order)
    assert made.region == "europe-west4"
    assert [i.region for i in rig.cloud().find(order.name)] == ["europe-west4"]


def life(rig: GcpRig, order: base.Order) -> None:
    """Everything that is done with the machines of an order."""
    cloud = rig.cloud()
    cloud.examine(order)
    made = cloud.launch(order)
    running = [cloud.wait_running(i, timeout_s=20) for i in made]
    cloud.host_keys(running[0], timeout_s=20)
    cloud.allow(order.name, ["192.0.2.0/24", "2001:db8::/64"])
    cloud.allow(order.name, ["192.0.2.0/24"])
    cloud.stop(running, timeout_s=20)
    cloud.extend(cloud.find(order.name), order.deadline + dt.timedelta(hours=1))
    cloud.start(cloud.find(order.name), timeout_s=20)
    cloud.remove(cloud.things(order.name), on_step=lambda _: None)
    assert alive(cloud, order.name) == []


def test_the_permissions_of_an_order_are_enough_for_its_life(rig: GcpRig) -> None:
    inside: dict[str, Any] = {"subnet": rig.subnet(ZONE), "public_address": False, "ssh_from": ("10.9.0.0/16",)}
    for order in (rig.order(volume_gb=10).at(ZONE), rig.order(count=2, minimum=2), rig.order(**inside).at(ZONE)):
        rig.set(gce_allowed=list(permissions.permissions(order)))
        life(rig, order)


def test_a_private_machine_of_a_subnet_needs_other_permissions(rig: GcpRig) -> None:
    inside = rig.order(subnet=rig.subnet(ZONE), public_address=False).at(ZONE)
    public, private = (set(permissions.permissions(o)) for o in (rig.order().at(ZONE), inside))
    assert public - private == {"compute.subnetworks.useExternalIp"}
    assert private - public == {"compute.subnetworks.get"}
    for missing in ("compute.subnetworks.get", "compute.subnetworks.use"):
        rig.set(gce_allowed=sorted(private - {missing}))
        with pytest.raises(PermissionRefusedError, match=missing):
            rig.cloud().launch(inside)
    rig.heal()
    (made,) = rig.cloud().launch(inside)
    assert made.project == GCP_PROJECT


# Needed when something goes another way than here: an earlier try, fewer machines than asked for, an image of one's own project.
_ELSE = {
    "compute.firewalls.get",
    "compute.firewalls.update",
    "compute.images.useReadOnly",
    "compute.instances.delete",
    "compute.instances.list",
}


@pytest.mark.parametrize("missing", [p for p in permissions.LAUNCHING if p not in _ELSE])
def test_a_missing_permission_is_named(rig: GcpRig, missing: str) -> None:
    order = rig.order().at(ZONE)
    cloud = rig.cloud()
    rig.set(gce_allowed=[p for p in permissions.permissions(order) if p != missing])
    with pytest.raises(PermissionRefusedError) as caught:
        cloud.host_keys(cloud.wait_running(cloud.launch(order)[0], timeout_s=20), timeout_s=20)
    assert missing in caught.value.message
    rig.heal()
    cloud.remove(cloud.things(order.name), on_step=lambda _: None)


def test_an_answer_lost_while_an_operation_is_waited_for_is_asked_for_again(rig: GcpRig) -> None:
    order = rig.order().at(ZONE)
    waits = r"compute\.(zone|global)Operations\.wait"
    rig.faults({"kind": "lost", "action": waits, "count": 1}, {"kind": "html", "action": waits, "count": 2})
    (made,) = rig.cloud().launch(order)
    assert [i.id for i in rig.cloud().find(order.name)] == [made.id]


def test_an_operation_without_an_end_is_bounded(rig: GcpRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_module, "_INSERTED_S", 0.3)
    rig.set(gce_operation_s=3.0)
    order = rig.order().at(ZONE)
    with pytest.raises(CloudUnreachableError, match="still under way"):
        rig.cloud().launch(order)
    rig.set(gce_operation_s=0.1)
    monkeypatch.undo()
    (made,) = rig.cloud().launch(order)  # the same operation, asked for again
    assert [i.id for i in rig.cloud().find(order.name)] == [made.id]


def test_a_refused_rule_leaves_no_machine(rig: GcpRig) -> None:
    order = rig.order().at(ZONE)
    rig.faults({"kind": "operation", "action": r"compute\.firewalls\.insert", "code": "INVALID_USAGE", "message": "no", "http": 400})
    cloud = rig.cloud()
    with pytest.raises(CloudInvalidError, match=r"compute\.firewalls\.create"):
        cloud.launch(order)
    assert cloud.find(order.name) == []


def test_maintenance_and_a_spot_machine_taken_back_are_announced(rig: GcpRig) -> None:
    cloud = rig.cloud()
    (made,) = cloud.launch(rig.order(market="spot").at(ZONE))
    running = cloud.wait_running(made, timeout_s=20)
    assert running.market == "spot"
    coming = {"type": "SCHEDULED", "maintenanceStatus": "PENDING", "windowStartTime": "2027-01-01T00:00:00Z"}
    rig.set(gce_maintenance={made.id: coming})
    assert cloud.notices([running]) == {made.id: ("scheduled maintenance (pending) from 2027-01-01T00:00:00Z",)}
    raw = rig.raw(made.id)
    raw.status = "STOPPING"  # the moment is too short to be met
    said = notices_of(raw)
    assert any(s.startswith("spot:") for s in said)
    raw.resource_status.scheduling.termination_timestamp = "2026-01-01T00:00:00+00:00"
    assert any("not its deadline" in s for s in notices_of(raw))


def test_a_start_after_the_deadline_is_refused_with_the_way_out(rig: GcpRig) -> None:
    cloud = rig.cloud()
    (made,) = cloud.launch(rig.order().at(ZONE))
    cloud.stop([cloud.wait_running(made, timeout_s=20)], timeout_s=20)
    (stopped,) = cloud.find(made.group)
    raw = rig.raw(made.id)
    items = [{"key": i.key, "value": i.value} for i in raw.metadata.items if i.key != "gpuprov-tags"]
    late = json.dumps({**tags_of(raw), base.DEADLINE_TAG: "2026-01-01T00:00:00+00:00"})
    body = {"fingerprint": raw.metadata.fingerprint, "items": [*items, {"key": "gpuprov-tags", "value": late}]}
    client("InstancesClient", rig.access).set_metadata_unary(
        request={"project": GCP_PROJECT, "zone": ZONE, "instance": made.id, "metadata_resource": body}
    )
    with pytest.raises(CloudInvalidError) as caught:
        cloud.start([stopped], timeout_s=20)
    assert "gpuprov extend" in caught.value.hint


@pytest.mark.parametrize("operation_s", [0.0, 0.1])
def test_an_attempt_that_failed_is_not_answered_with_its_old_failure(rig: GcpRig, operation_s: float) -> None:
    rig.set(gce_operation_s=operation_s)
    order = rig.order().at(ZONE)
    rig.stock({ZONE: 0})
    rig.forget()
    for _ in range(2):
        with pytest.raises(CapacityError):
            rig.cloud().launch(order)  # each time a client that knows nothing of the one before
    rig.set(gce_capacity={})
    (made,) = rig.cloud().launch(order)
    assert [i.id for i in rig.cloud().find(order.name)] == [made.id]
    assert rig.calls().count(rig.making) == 1 + 2 + 3


def test_a_quota_of_calls_is_no_quota_of_machines(rig: GcpRig) -> None:
    order = rig.order().at(ZONE)
    rig.faults({"kind": "error", "action": r"compute\.instances\.get", "code": "quotaExceeded", "http": 403, "count": 1})
    with pytest.raises(ThrottledError):
        rig.cloud().launch(order)
    (made,) = rig.cloud().launch(order)
    assert [i.id for i in rig.cloud().find(order.name)] == [made.id]
