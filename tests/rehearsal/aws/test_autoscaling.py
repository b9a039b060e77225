"""Auto Scaling of the embedded AWS through real boto3 over HTTP, without hosts; the clock is put forward, never waited for."""

import base64
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.rehearsal.aws.conftest import HK, refused
from tests.waiting import until

HOOK = {"LifecycleHookName": "verified", "LifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING", "HeartbeatTimeout": 600}


class Scaled:
    """A group and its template."""

    def __init__(self, ec2: Rehearsal, access: AwsAccess, image: str) -> None:
        self.rehearsal, self.name = ec2, f"g-{uuid.uuid4().hex[:8]}"
        self.aws, self.groups = client("ec2", HK, access, retried=False), client("autoscaling", HK, access, retried=False)
        data = {"ImageId": image, "InstanceType": "g4dn.xlarge", "UserData": base64.b64encode(b"one").decode()}
        self.template = self.aws.create_launch_template(LaunchTemplateName=self.name, LaunchTemplateData=data)["LaunchTemplate"]
        self.subnets = [row["SubnetId"] for row in self.aws.describe_subnets()["Subnets"]]
        self.ahead_s = 0.0

    def version(self, number: int) -> dict[str, str]:
        return {"LaunchTemplateId": self.template["LaunchTemplateId"], "Version": str(number)}

    def create(self, desired: int, **more: Any) -> None:
        asked = {"MinSize": 0, "MaxSize": 10, "DesiredCapacity": desired, "LaunchTemplate": self.version(1), **more}
        self.groups.create_auto_scaling_group(AutoScalingGroupName=self.name, VPCZoneIdentifier=",".join(self.subnets), **asked)

    def second_version(self) -> None:
        data = {"UserData": base64.b64encode(b"two").decode()}
        made = self.aws.create_launch_template_version(
            LaunchTemplateId=self.template["LaunchTemplateId"], SourceVersion="1", LaunchTemplateData=data
        )
        assert made["LaunchTemplateVersion"]["LaunchTemplateData"]["InstanceType"] == "g4dn.xlarge"

    def shown(self) -> dict[str, Any]:
        (row,) = self.groups.describe_auto_scaling_groups(AutoScalingGroupNames=[self.name])["AutoScalingGroups"]
        return dict(row)

    def members(self, state: str = "") -> dict[str, dict[str, Any]]:
        return {row["InstanceId"]: row for row in self.shown()["Instances"] if row["LifecycleState"].startswith(state)}

    def steady(self, count: int, state: str = "InService") -> dict[str, dict[str, Any]]:
        def found() -> dict[str, dict[str, Any]] | None:
            rows = self.members()
            return rows if len(rows) == count and all(row["LifecycleState"] == state for row in rows.values()) else None

        if count == 0:
            until(lambda: not self.members())
            return {}
        return until(found) or {}

    def complete(self, instance_id: str, result: str = "CONTINUE") -> None:
        self.groups.complete_lifecycle_action(
            AutoScalingGroupName=self.name, LifecycleHookName="verified", InstanceId=instance_id, LifecycleActionResult=result
        )

    def forward(self, seconds: float) -> None:
        self.ahead_s += seconds
        control.ask(self.rehearsal, "settings", method="PUT", body={"clock_ahead_s": self.ahead_s})

    def activities(self) -> list[dict[str, Any]]:
        return list(self.groups.describe_scaling_activities(AutoScalingGroupName=self.name)["Activities"])

    def refresh(self, version: int, **preferences: Any) -> str:
        asked = {"LaunchTemplate": self.version(version)}
        preferences = {"SkipMatching": True, **preferences}
        reply = self.groups.start_instance_refresh(AutoScalingGroupName=self.name, DesiredConfiguration=asked, Preferences=preferences)
        return str(reply["InstanceRefreshId"])

    def refreshed(self) -> dict[str, Any]:
        return dict(self.groups.describe_instance_refreshes(AutoScalingGroupName=self.name)["InstanceRefreshes"][0])

    def goes_back(self) -> None:
        """Wait until a refresh has gone back to the first version, whose members are approved here."""
        until(lambda: self.refreshed()["Status"] == "RollbackInProgress")

        def approved() -> bool:
            for one, row in self.members("Pending:Wait").items():
                if row["LaunchTemplate"]["Version"] == "1":
                    self.complete(one)
            return bool(self.refreshed()["Status"] == "RollbackSuccessful")

        until(approved)
        assert self.versions() == ["1", "1"]

    def versions(self) -> list[str]:
        return sorted(row["LaunchTemplate"]["Version"] for row in self.members("InService").values())


@pytest.fixture
def group(ec2: Rehearsal, access: AwsAccess, image: str) -> Iterator[Scaled]:
    made = Scaled(ec2, access, image)
    yield made
    control.ask(ec2, "settings", method="PUT", body={"zone_capacity": {}})
    try:
        made.groups.delete_auto_scaling_group(AutoScalingGroupName=made.name, ForceDelete=True)
    except ClientError:
        return
    until(lambda: not made.groups.describe_auto_scaling_groups(AutoScalingGroupNames=[made.name])["AutoScalingGroups"])


def test_a_group_reaches_its_size_in_all_zones_with_the_tags_and_the_data_of_its_template(group: Scaled) -> None:
    tags = [{"Key": "team", "Value": "ai", "PropagateAtLaunch": True}, {"Key": "own", "Value": "x", "PropagateAtLaunch": False}]
    group.create(3, Tags=tags)
    members = group.steady(3)
    assert len({row["AvailabilityZone"] for row in members.values()}) == 3
    for reservation in group.aws.describe_instances(InstanceIds=list(members))["Reservations"]:
        for instance in reservation["Instances"]:
            found = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
            assert found["aws:autoscaling:groupName"] == group.name
            assert found["aws:ec2launchtemplate:version"] == "1"
            assert found["team"] == "ai"
            assert "own" not in found
    one = next(iter(members))
    sent = group.aws.describe_instance_attribute(InstanceId=one, Attribute="userData")["UserData"]["Value"]
    assert base64.b64decode(sent) == b"one"


def test_a_member_that_ends_is_replaced_while_no_client_runs(group: Scaled) -> None:
    group.create(2)
    before = set(group.steady(2))
    gone = min(before)
    group.aws.terminate_instances(InstanceIds=[gone])
    until(lambda: gone not in group.members())
    assert len(set(group.steady(2)) - before) == 1


def test_a_member_is_in_service_only_after_its_hook_said_so(group: Scaled) -> None:
    group.create(1, LifecycleHookSpecificationList=[HOOK])
    (one,) = group.steady(1, "Pending:Wait")
    assert group.groups.describe_lifecycle_hooks(AutoScalingGroupName=group.name)["LifecycleHooks"][0]["DefaultResult"] == "ABANDON"
    group.complete(one)
    group.steady(1)
    assert group.activities()[0]["StatusCode"] == "Successful"


def test_an_abandoned_member_is_replaced_by_another(group: Scaled) -> None:
    group.create(1, LifecycleHookSpecificationList=[HOOK])
    (one,) = group.steady(1, "Pending:Wait")
    group.complete(one, "ABANDON")
    until(lambda: one not in group.members() and group.members("Pending:Wait"))
    assert "Cancelled" in [row["StatusCode"] for row in group.activities()]


@pytest.mark.parametrize("default", ["ABANDON", "CONTINUE"])
def test_a_hook_that_nobody_answers_ends_with_its_default(group: Scaled, default: str) -> None:
    group.create(1, LifecycleHookSpecificationList=[{**HOOK, "DefaultResult": default}])
    (one,) = group.steady(1, "Pending:Wait")
    group.forward(601)
    if default == "CONTINUE":
        assert set(group.steady(1)) == {one}
    else:
        until(lambda: one not in group.members())


def test_a_heartbeat_moves_the_end_and_the_ceiling_stays(group: Scaled) -> None:
    group.create(1, LifecycleHookSpecificationList=[HOOK])
    (one,) = group.steady(1, "Pending:Wait")
    beat = {"AutoScalingGroupName": group.name, "LifecycleHookName": "verified", "InstanceId": one}
    for _ in range(3):
        group.forward(500)
        group.groups.record_lifecycle_action_heartbeat(**beat)
    assert one in group.members("Pending:Wait")
    group.forward(49 * 3600)
    until(lambda: one not in group.members())


def test_an_action_is_completed_once_and_a_stranger_has_none(group: Scaled) -> None:
    group.create(1, LifecycleHookSpecificationList=[HOOK])
    (one,) = group.steady(1, "Pending:Wait")
    assert refused(group.complete, "i-0123456789abcdef0") == "ValidationError"
    group.complete(one)
    assert refused(group.complete, one) == "ValidationError"
    group.steady(1)


def test_a_scheduled_action_takes_the_group_to_nothing(group: Scaled) -> None:
    group.create(2)
    group.steady(2)
    at = {"MinSize": 0, "MaxSize": 0, "DesiredCapacity": 0, "StartTime": "2099-01-01T00:00:00Z"}
    group.groups.put_scheduled_update_group_action(AutoScalingGroupName=group.name, ScheduledActionName="deadline", **at)
    group.forward(80 * 365 * 86_400)
    group.steady(0)
    assert group.shown()["MaxSize"] == 0


def test_an_unhealthy_member_is_replaced(group: Scaled) -> None:
    group.create(1)
    (one,) = group.steady(1)
    group.groups.set_instance_health(InstanceId=one, HealthStatus="Unhealthy", ShouldRespectGracePeriod=False)
    until(lambda: one not in group.members())
    group.steady(1)


def test_a_launch_that_fails_is_an_activity_and_is_tried_again(group: Scaled) -> None:
    zones = {row["AvailabilityZone"]: 0 for row in group.aws.describe_subnets()["Subnets"]}
    control.ask(group.rehearsal, "settings", method="PUT", body={"zone_capacity": zones})
    group.create(1)
    failed = until(lambda: [row for row in group.activities() if row["StatusCode"] == "Failed"])
    assert "InsufficientInstanceCapacity" in failed[0]["StatusMessage"]
    control.ask(group.rehearsal, "settings", method="PUT", body={"zone_capacity": {}})
    group.steady(1)


def test_a_suspended_launch_waits(group: Scaled) -> None:
    group.create(0)
    group.groups.suspend_processes(AutoScalingGroupName=group.name, ScalingProcesses=["Launch"])
    group.groups.set_desired_capacity(AutoScalingGroupName=group.name, DesiredCapacity=1)
    assert group.shown()["SuspendedProcesses"][0]["ProcessName"] == "Launch"
    group.groups.resume_processes(AutoScalingGroupName=group.name, ScalingProcesses=["Launch"])
    group.steady(1)


def test_a_group_with_members_is_deleted_by_force_alone(group: Scaled) -> None:
    group.create(1)
    group.steady(1)
    assert refused(group.groups.delete_auto_scaling_group, AutoScalingGroupName=group.name) == "ResourceInUse"


def test_one_member_can_go_with_or_without_its_place(group: Scaled) -> None:
    group.create(2)
    first, second = sorted(group.steady(2))
    ended = group.groups.terminate_instance_in_auto_scaling_group
    ended(InstanceId=first, ShouldDecrementDesiredCapacity=True)
    assert set(group.steady(1)) == {second}
    ended(InstanceId=second, ShouldDecrementDesiredCapacity=False)
    until(lambda: second not in group.members())
    group.steady(1)


def test_a_refresh_replaces_what_does_not_match_and_then_the_groups_template(group: Scaled) -> None:
    group.create(3)
    group.steady(3)
    group.second_version()
    group.refresh(2, MinHealthyPercentage=50)
    until(lambda: group.refreshed()["Status"] == "Successful")
    assert group.versions() == ["2", "2", "2"]
    assert group.shown()["LaunchTemplate"]["Version"] == "2"
    group.refresh(2)
    until(lambda: group.refreshed()["Status"] == "Successful")
    assert group.refreshed().get("InstancesToUpdate", 0) == 0


def test_a_refresh_waits_at_its_checkpoint_and_goes_on_by_itself(group: Scaled) -> None:
    group.create(4)
    group.steady(4)
    group.second_version()
    group.refresh(2, MinHealthyPercentage=50, CheckpointPercentages=[25, 100], CheckpointDelay=1800)
    until(lambda: "checkpoint 25%" in group.refreshed().get("StatusReason", ""))
    assert group.versions() == ["1", "1", "1", "2"]
    assert refused(group.refresh, 2) == "InstanceRefreshInProgress"
    group.forward(1801)
    until(lambda: group.refreshed()["Status"] == "Successful")
    assert group.versions() == ["2", "2", "2", "2"]


def test_a_refresh_that_is_cancelled_leaves_what_there_is(group: Scaled) -> None:
    group.create(2)
    group.steady(2)
    group.second_version()
    group.refresh(2, MinHealthyPercentage=50, CheckpointPercentages=[50, 100])
    until(lambda: "checkpoint" in group.refreshed().get("StatusReason", ""))
    group.groups.cancel_instance_refresh(AutoScalingGroupName=group.name)
    until(lambda: group.refreshed()["Status"] == "Cancelled")
    assert group.versions() == ["1", "2"]
    assert group.shown()["LaunchTemplate"]["Version"] == "1"
    assert refused(group.groups.cancel_instance_refresh, AutoScalingGroupName=group.name) == "ActiveInstanceRefreshNotFound"


def test_a_refresh_is_rolled_back_by_hand(group: Scaled) -> None:
    group.create(2)
    group.steady(2)
    group.second_version()
    group.refresh(2, MinHealthyPercentage=50, CheckpointPercentages=[50, 100])
    until(lambda: "checkpoint" in group.refreshed().get("StatusReason", ""))
    group.groups.rollback_instance_refresh(AutoScalingGroupName=group.name)
    until(lambda: group.refreshed()["Status"] == "RollbackSuccessful")
    assert group.versions() == ["1", "1"]


def test_a_refresh_waits_an_hour_for_protected_members_and_then_fails(group: Scaled) -> None:
    """AWS's default."""
    group.create(3)
    kept = min(group.steady(3))
    group.groups.set_instance_protection(AutoScalingGroupName=group.name, InstanceIds=[kept], ProtectedFromScaleIn=True)
    group.second_version()
    group.refresh(2, MinHealthyPercentage=50)
    until(lambda: group.versions() == ["1", "2", "2"])
    assert group.refreshed()["Status"] == "InProgress"
    group.forward(3601)
    until(lambda: group.refreshed()["Status"] == "Failed")
    assert kept in group.members("InService")


@pytest.mark.parametrize(("wish", "versions"), [("Refresh", ["2", "2", "2"]), ("Ignore", ["1", "2", "2"])])
def test_protected_members_are_replaced_or_left_out_as_is_asked(group: Scaled, wish: str, versions: list[str]) -> None:
    group.create(3)
    kept = min(group.steady(3))
    group.groups.set_instance_protection(AutoScalingGroupName=group.name, InstanceIds=[kept], ProtectedFromScaleIn=True)
    group.second_version()
    group.refresh(2, MinHealthyPercentage=50, ScaleInProtectedInstances=wish)
    until(lambda: group.refreshed()["Status"] == "Successful")
    assert (group.versions(), kept in group.members()) == (versions, wish == "Ignore")


def test_a_protected_member_outlives_a_smaller_size_and_goes_when_it_is_not_protected_any_more(group: Scaled) -> None:
    group.create(2)
    kept = min(group.steady(2))
    protected = {"AutoScalingGroupName": group.name, "InstanceIds": [kept]}
    group.groups.set_instance_protection(**protected, ProtectedFromScaleIn=True)
    group.groups.set_desired_capacity(AutoScalingGroupName=group.name, DesiredCapacity=0)
    assert set(group.steady(1)) == {kept}
    group.groups.set_instance_protection(**protected, ProtectedFromScaleIn=False)
    group.steady(0)


@pytest.mark.parametrize("waits", [True, False])
def test_a_cancelled_refresh_waits_for_launches_that_are_under_way_unless_it_is_told_not_to(group: Scaled, *, waits: bool) -> None:
    group.create(2, LifecycleHookSpecificationList=[HOOK])
    for one in group.steady(2, "Pending:Wait"):
        group.complete(one)
    group.steady(2)
    group.second_version()
    group.refresh(2, MinHealthyPercentage=50)
    (new,) = until(lambda: group.members("Pending:Wait"))
    group.groups.cancel_instance_refresh(AutoScalingGroupName=group.name, WaitForTransitioningInstances=waits)
    if waits:
        assert group.refreshed()["Status"] == "Cancelling"
        assert refused(group.refresh, 2) == "InstanceRefreshInProgress"
        group.complete(new)
    until(lambda: group.refreshed()["Status"] == "Cancelled")
    assert len(group.members("Pending:Wait")) == (not waits)


def test_a_refresh_whose_members_never_verify_goes_back_by_itself(group: Scaled) -> None:
    group.create(2, LifecycleHookSpecificationList=[HOOK])
    for one in group.steady(2, "Pending:Wait"):
        group.complete(one)
    group.steady(2)
    group.second_version()
    group.refresh(2, MinHealthyPercentage=50, AutoRollback=True)
    (new,) = until(lambda: group.members("Pending:Wait"))
    group.complete(new, "ABANDON")
    group.forward(3601)
    group.goes_back()


def test_a_refresh_that_goes_back_also_replaces_a_member_that_is_not_in_service_yet(group: Scaled) -> None:
    group.create(2, LifecycleHookSpecificationList=[HOOK])
    for one in group.steady(2, "Pending:Wait"):
        group.complete(one)
    group.steady(2)
    group.second_version()
    group.refresh(2, MinHealthyPercentage=50, AutoRollback=True)
    (first,) = until(lambda: group.members("Pending:Wait"))
    control.ask(group.rehearsal, "settings", method="PUT", body={"pending_s": 1.5})
    group.complete(first, "ABANDON")
    until(lambda: group.members("Pending").keys() - {first})
    group.forward(3601)  # while the second one is pending
    control.ask(group.rehearsal, "settings", method="PUT", body={"pending_s": 0.3})
    group.goes_back()


def test_the_caller_needs_the_call_on_its_own_group_and_what_the_template_hands_over(group: Scaled) -> None:
    arn = f"arn:aws:autoscaling:{HK}:*:autoScalingGroup:*:autoScalingGroupName/"
    launch = {"Effect": "Allow", "Action": ["ec2:RunInstances"], "Resource": ["arn:aws:ec2:*:*:launch-template/*"]}
    create = {"Effect": "Allow", "Action": ["autoscaling:CreateAutoScalingGroup"], "Resource": [f"{arn}{group.name}"]}

    def allow(*statements: dict[str, Any]) -> None:
        control.ask(group.rehearsal, "settings", method="PUT", body={"allowed": {"Version": "2012-10-17", "Statement": list(statements)}})

    subnets = ",".join(group.subnets)
    asked = {
        "AutoScalingGroupName": group.name,
        "MinSize": 0,
        "MaxSize": 1,
        "LaunchTemplate": group.version(1),
        "VPCZoneIdentifier": subnets,
    }
    allow(create)
    assert refused(group.groups.create_auto_scaling_group, **asked) == "AccessDenied"
    allow({**create, "Resource": [f"{arn}other"]}, launch)
    assert refused(group.groups.create_auto_scaling_group, **asked) == "AccessDenied"
    allow(create, launch)
    group.groups.create_auto_scaling_group(**asked)
    control.ask(group.rehearsal, "settings", method="PUT", body={"allowed": None})
