"""Managed instance groups of the embedded GCP through Google's own client, without hosts: what answers health checks is a setting."""

import datetime as dt
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from google.api_core import exceptions as x
from google.cloud import compute_v1 as c

from tests.rehearsal.gcp.conftest import IMAGE, PROJECT_ZONES, REGION, Gce
from tests.waiting import until


class Managed:
    """A group of a region, its templates and its check."""

    def __init__(self, gce: Gce) -> None:
        self.gce, self.name = gce, f"g-{uuid.uuid4().hex[:8]}"
        self.groups, self.at = gce.client("RegionInstanceGroupManagersClient"), {"project": gce.project, "region": REGION}
        self.one = {**self.at, "instance_group_manager": self.name}

    def answers(self, **by_name: int) -> None:
        self.gce.ask("settings", {"gce_answers": by_name})

    def template(self, number: int, **more: Any) -> str:
        disk = c.AttachedDisk(boot=True, auto_delete=True, initialize_params=c.AttachedDiskInitializeParams(source_image=IMAGE))
        properties = c.InstanceProperties(
            machine_type="n1-standard-4",
            disks=[disk],
            labels={"a": "b"},
            network_interfaces=[c.NetworkInterface(network="global/networks/default")],
            **more,
        )
        name = f"{self.name}-{number}"
        body = c.InstanceTemplate(name=name, properties=properties)
        self.done(self.gce.client("InstanceTemplatesClient").insert_unary(project=self.gce.project, instance_template_resource=body))
        return f"projects/{self.gce.project}/global/instanceTemplates/{name}"

    def check(self) -> str:
        body = c.HealthCheck(name=self.name, type_="HTTP", http_health_check=c.HTTPHealthCheck(port=8080), unhealthy_threshold=2)
        self.done(self.gce.client("HealthChecksClient").insert_unary(project=self.gce.project, health_check_resource=body))
        return f"projects/{self.gce.project}/global/healthChecks/{self.name}"

    def done(self, operation: Any) -> None:
        end = self.gce.done(operation)
        assert not end.error.errors, end.error

    def create(self, size: int, *, checked: bool = True, **more: Any) -> None:
        healing = [c.InstanceGroupManagerAutoHealingPolicy(health_check=self.check(), initial_delay_sec=3600)] if checked else []
        body: dict[str, Any] = {"versions": [c.InstanceGroupManagerVersion(instance_template=self.template(1))], **more}
        manager = c.InstanceGroupManager(name=self.name, target_size=size, auto_healing_policies=healing, **body)
        self.done(self.groups.insert_unary(**self.at, instance_group_manager_resource=manager))

    def patch(self, **body: Any) -> None:
        self.done(self.groups.patch_unary(**self.one, instance_group_manager_resource=c.InstanceGroupManager(**body)))

    def shown(self) -> Any:
        return self.groups.get(**self.one)

    def members(self) -> dict[str, Any]:
        return {row.name: row for row in self.groups.list_managed_instances(**self.one)}

    def steady(self, count: int, action: str = "NONE") -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            rows = self.members()
            fine = all(row.current_action == action and row.instance_status == "RUNNING" for row in rows.values())
            return rows if len(rows) == count and fine else None

        if count == 0:
            until(lambda: not self.members())
            return {}
        return until(found) or {}

    def instance(self, row: Any) -> Any:
        return self.gce.get(row.name, zone=row.instance.split("/zones/")[1].split("/")[0])

    def to(self, template: str, *, only: int | None = None, type_: str = "PROACTIVE", **more: Any) -> None:
        old = self.shown().versions[-1].instance_template
        versions = [c.InstanceGroupManagerVersion(instance_template=template)]
        if only is not None:
            versions = [
                c.InstanceGroupManagerVersion(instance_template=template, target_size=c.FixedOrPercent(fixed=only)),
                c.InstanceGroupManagerVersion(instance_template=old),
            ]
        policy = {"max_surge": c.FixedOrPercent(fixed=0), "max_unavailable": c.FixedOrPercent(fixed=len(PROJECT_ZONES)), **more}
        self.patch(versions=versions, update_policy=c.InstanceGroupManagerUpdatePolicy(type_=type_, **policy))

    def templates(self) -> list[str]:
        return sorted(row.version.instance_template.rpartition("-")[2] for row in self.members().values())


@pytest.fixture
def group(gce: Gce) -> Iterator[Managed]:
    made = Managed(gce)
    made.answers(**{"*": 200})
    yield made
    gce.ask("settings", {"gce_capacity": {}, "gce_allowed": None})
    try:
        made.done(made.groups.delete_unary(**made.one))
    except x.NotFound:
        return


def test_a_group_reaches_its_size_over_its_zones_from_its_template(group: Managed) -> None:
    group.create(4)
    rows = group.steady(4)
    instances = [group.instance(row) for row in rows.values()]
    assert len({instance.zone for instance in instances}) > 1
    assert all(instance.labels == {"a": "b"} and instance.name.startswith(f"{group.name}-") for instance in instances)
    created = {item.key: item.value for item in instances[0].metadata.items}["created-by"]
    assert created.endswith(f"/{group.name}")
    assert {int(row.id) for row in rows.values()} == {instance.id for instance in instances}
    assert until(lambda: group.shown().status.is_stable)


def test_a_member_is_being_verified_until_its_check_is_answered(group: Managed) -> None:
    group.answers(**{"*": 503})
    group.create(2)
    rows = group.steady(2, "VERIFYING")
    until(lambda: {r.instance_health[0].detailed_health_state for r in group.members().values()} == {"UNHEALTHY"})
    assert set(group.members()) == set(rows)  # within the initial delay nothing is repaired
    assert not group.shown().status.is_stable
    first = min(rows)
    group.answers(**{"*": 503, first: 200})
    until(lambda: group.members()[first].current_action == "NONE")
    assert group.shown().current_actions.verifying == 1


def test_a_member_that_answered_once_and_no_more_is_made_anew_under_its_name(group: Managed) -> None:
    group.create(2)
    before = group.steady(2)
    sick = min(before)
    group.answers(**{"*": 200, sick: 500})
    until(lambda: group.members()[sick].id != before[sick].id)
    group.answers(**{"*": 200})
    after = group.steady(2)
    assert set(after) == set(before)


@pytest.mark.parametrize("how", ["delete", "stop"])
def test_a_member_that_ends_comes_again_while_no_client_runs(group: Managed, how: str) -> None:
    group.create(2)
    before = group.steady(2)
    name = min(before)
    zone = before[name].instance.split("/zones/")[1].split("/")[0]
    getattr(group.gce.instances, f"{how}_unary")(project=group.gce.project, zone=zone, instance=name)
    until(lambda: group.members()[name].id not in {0, before[name].id})
    assert set(group.steady(2)) == set(before)


def test_do_nothing_on_failure_leaves_it(group: Managed) -> None:
    policy = c.InstanceGroupManagerInstanceLifecyclePolicy(default_action_on_failure="DO_NOTHING")
    group.create(1, instance_lifecycle_policy=policy)
    ((name, row),) = group.steady(1).items()
    zone = row.instance.split("/zones/")[1].split("/")[0]
    group.gce.done(group.gce.instances.stop_unary(project=group.gce.project, zone=zone, instance=name))
    group.gce.until(name, "TERMINATED", zone=zone)
    assert group.members()[name].current_action == "NONE"


def test_resize_takes_the_members_that_do_not_serve_first(group: Managed) -> None:
    group.create(2)
    serving = set(group.steady(2))
    group.answers(**dict.fromkeys(serving, 200))
    group.done(group.groups.resize_unary(**group.one, size=4))
    until(lambda: group.shown().current_actions.verifying == 2)
    group.done(group.groups.resize_unary(**group.one, size=2))
    until(lambda: set(group.members()) == serving)


def test_a_canary_has_its_size_and_the_rest_follows(group: Managed) -> None:
    group.create(4)
    group.steady(4)
    second = group.template(2)
    group.to(second, only=1)
    until(lambda: group.shown().status.version_target.is_reached and group.steady(4))
    assert group.templates() == ["1", "1", "1", "2"]
    group.to(second)
    until(lambda: group.shown().status.version_target.is_reached and group.steady(4))
    assert group.templates() == ["2"] * 4


def test_no_more_than_max_unavailable_are_away_where_the_new_ones_fail(group: Managed) -> None:
    group.create(6)
    old = set(group.steady(6))
    group.answers(**dict.fromkeys(old, 200))
    group.to(group.template(2))
    until(lambda: group.templates().count("2") == len(PROJECT_ZONES))
    assert group.shown().current_actions.none == 6 - len(PROJECT_ZONES)
    group.to(f"projects/{group.gce.project}/global/instanceTemplates/{group.name}-1")
    group.answers(**{"*": 200})
    group.steady(6)
    until(lambda: group.templates() == ["1"] * 6)


def test_an_opportunistic_group_changes_whom_it_is_told_to(group: Managed) -> None:
    group.create(2)
    rows = group.steady(2)
    chosen = min(rows)
    group.to(group.template(2), type_="OPPORTUNISTIC", replacement_method="RECREATE")
    assert group.templates() == ["1", "1"]
    asked = c.RegionInstanceGroupManagersApplyUpdatesRequest(instances=[rows[chosen].instance], minimal_action="REPLACE")
    group.done(
        group.groups.apply_updates_to_instances_unary(**group.one, region_instance_group_managers_apply_updates_request_resource=asked)
    )
    until(lambda: group.templates() == ["1", "2"] and group.steady(2))
    assert group.members()[chosen].version.instance_template.endswith("-2")


def test_recreate_and_delete_of_named_members(group: Managed) -> None:
    group.create(2)
    before = group.steady(2)
    first, second = sorted(before)
    again = c.RegionInstanceGroupManagersRecreateRequest(instances=[before[first].instance])
    group.done(group.groups.recreate_instances_unary(**group.one, region_instance_group_managers_recreate_request_resource=again))
    until(lambda: group.members()[first].id not in {0, before[first].id})
    gone = c.RegionInstanceGroupManagersDeleteInstancesRequest(instances=[before[second].instance])
    group.done(group.groups.delete_instances_unary(**group.one, region_instance_group_managers_delete_instances_request_resource=gone))
    until(lambda: set(group.members()) == {first})
    assert group.shown().target_size == 1
    other = c.RegionInstanceGroupManagersRecreateRequest(instances=[before[second].instance])
    with pytest.raises(x.BadRequest, match="not a member"):
        group.groups.recreate_instances_unary(**group.one, region_instance_group_managers_recreate_request_resource=other)


def test_what_cannot_be_launched_is_an_error_of_the_group_and_tried_again(group: Managed) -> None:
    group.gce.ask("settings", {"gce_capacity": dict.fromkeys(PROJECT_ZONES, 0)})
    group.create(1)
    errors = until(lambda: list(group.groups.list_errors(**group.one)))
    assert errors[0].error.code == "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"
    (row,) = group.members().values()
    assert row.last_attempt.errors.errors[0].code == errors[0].error.code
    group.gce.ask("settings", {"gce_capacity": {}})
    group.steady(1)


def test_after_its_termination_time_no_member_runs_and_none_comes_again(group: Managed) -> None:
    group.gce.ask("settings", {"gce_shortest_run_s": 0.0})
    at = (dt.datetime.now(dt.UTC) + dt.timedelta(seconds=3)).isoformat()
    limits = c.Scheduling(on_host_maintenance="TERMINATE", termination_time=at, instance_termination_action="DELETE")
    group.create(2, versions=[c.InstanceGroupManagerVersion(instance_template=group.template(7, scheduling=limits))])
    group.steady(2)
    until(lambda: all(not row.id for row in group.members().values()) and list(group.groups.list_errors(**group.one)))
    assert not group.gce.instances.list(
        c.ListInstancesRequest(project=group.gce.project, zone=PROJECT_ZONES[0], filter=f"name={group.name}*")
    ).items


def test_a_fingerprint_that_is_old_is_refused(group: Managed) -> None:
    group.create(0)
    old = group.shown().fingerprint
    group.patch(description="x", fingerprint=old)
    with pytest.raises(x.PreconditionFailed):
        group.patch(description="y", fingerprint=old)


@pytest.mark.parametrize(
    "body",
    [
        {"versions": []},
        {"update_policy": c.InstanceGroupManagerUpdatePolicy(max_surge=c.FixedOrPercent(fixed=1))},
        {"update_policy": c.InstanceGroupManagerUpdatePolicy(max_unavailable=c.FixedOrPercent(percent=10))},
        {"update_policy": c.InstanceGroupManagerUpdatePolicy(replacement_method="RECREATE")},
        {"distribution_policy": c.DistributionPolicy(zones=[c.DistributionPolicyZoneConfiguration(zone="zones/europe-west1-b")])},
    ],
)
def test_what_google_refuses_is_refused(group: Managed, body: dict[str, Any]) -> None:
    with pytest.raises(x.BadRequest):
        group.create(1, **body)


def test_a_stateful_policy_is_refused_and_not_ignored(group: Managed) -> None:
    with pytest.raises(x.MethodNotImplemented, match="statefulPolicy"):
        group.create(1, stateful_policy=c.StatefulPolicy())


def test_templates_and_checks_in_use_stay(group: Managed) -> None:
    group.create(0)
    with pytest.raises(x.BadRequest, match="already being used"):
        group.gce.client("InstanceTemplatesClient").delete_unary(project=group.gce.project, instance_template=f"{group.name}-1")
    with pytest.raises(x.BadRequest, match="already being used"):
        group.gce.client("HealthChecksClient").delete_unary(project=group.gce.project, health_check=group.name)


def test_deleting_a_group_ends_its_members_before_the_operation_ends(group: Managed) -> None:
    group.create(2)
    rows = group.steady(2)
    group.done(group.groups.delete_unary(**group.one))
    for row in rows.values():
        with pytest.raises(x.NotFound):
            group.instance(row)
    with pytest.raises(x.NotFound):
        group.shown()


def test_a_group_of_a_zone_is_the_same(gce: Gce) -> None:
    made = Managed(gce)
    groups = gce.client("InstanceGroupManagersClient")
    at = {"project": gce.project, "zone": gce.zone}
    body = c.InstanceGroupManager(name=made.name, target_size=1, instance_template=made.template(1))
    made.done(groups.insert_unary(**at, instance_group_manager_resource=body))
    one = {**at, "instance_group_manager": made.name}
    until(lambda: [row.current_action for row in groups.list_managed_instances(**one)] == ["NONE"])
    assert [row.name for row in groups.list(**at)].count(made.name) == 1
    made.done(groups.delete_unary(**one))


@pytest.mark.parametrize("lacking", ["compute.instanceGroupManagers.create", "compute.instanceTemplates.useReadOnly"])
def test_a_permission_that_lacks_is_named(group: Managed, lacking: str) -> None:
    every = ["create", "delete", "get", "useReadOnly"]
    allowed = {f"compute.{kind}.{verb}" for kind in ("instanceGroupManagers", "instanceTemplates", "healthChecks") for verb in every}
    group.gce.ask("settings", {"gce_allowed": [*(allowed - {lacking}), "compute.globalOperations.get", "compute.regionOperations.get"]})
    with pytest.raises(x.Forbidden, match=lacking):
        group.create(0)
