"""How Auto Scaling of the embedded AWS shows its groups, members, activities and refreshes."""

import datetime as dt
from typing import Any, Final

from moto.core import DEFAULT_ACCOUNT_ID

from provision.rehearsal.aws.group_members import zone_of
from provision.rehearsal.aws.refreshes import Refresh
from provision.rehearsal.aws.scaling import Activity, Group, GroupMember

ARN: Final = f"arn:aws:autoscaling:{{}}:{DEFAULT_ACCOUNT_ID}:autoScalingGroup:*:autoScalingGroupName/{{}}"


def moment(seconds: float | None) -> dt.datetime | None:
    """A time of the clock; None for none."""
    return None if seconds is None else dt.datetime.fromtimestamp(seconds, dt.UTC)


def row(group: Group) -> dict[str, Any]:
    """A group, as DescribeAutoScalingGroups shows it."""
    return {
        "AutoScalingGroupName": group.name,
        "AutoScalingGroupARN": ARN.format(group.region, group.name),
        "MinSize": group.least,
        "MaxSize": group.most,
        "DesiredCapacity": group.desired,
        "DefaultCooldown": 300,
        "HealthCheckType": "EC2",
        "AvailabilityZones": sorted({zone_of(group.region, subnet) for subnet in group.subnets}),
        "VPCZoneIdentifier": ",".join(group.subnets),
        "CreatedTime": moment(group.created),
        "Instances": [member_row(member) for member in group.members.values()],
        "SuspendedProcesses": [{"ProcessName": name, "SuspensionReason": "User suspended"} for name in sorted(group.suspended)],
        "Tags": group.tags,
        **({} if "MixedInstancesPolicy" in group.given else {"LaunchTemplate": group.template}),
        **({"Status": "Delete in progress"} if group.deleting else {}),
        **group.given,
    }


def member_row(member: GroupMember) -> dict[str, Any]:
    """A member of it."""
    return {
        "InstanceId": member.id,
        "InstanceType": member.type,
        "AvailabilityZone": member.zone,
        "LifecycleState": member.state,
        "HealthStatus": "Healthy" if member.healthy else "Unhealthy",
        "LaunchTemplate": member.template,
        "ProtectedFromScaleIn": member.protected,
    }


def activity_row(group: Group, activity: Activity) -> dict[str, Any]:
    """An activity, as DescribeScalingActivities shows it."""
    return {
        "ActivityId": activity.id,
        "AutoScalingGroupName": group.name,
        "Description": activity.description,
        "Cause": activity.cause,
        "StartTime": moment(activity.started),
        "StatusCode": activity.status,
        "Progress": 100 if activity.ended is not None else 50,
        **({"StatusMessage": activity.message} if activity.message else {}),
        **({"EndTime": moment(activity.ended)} if activity.ended is not None else {}),
    }


def refresh_row(group: Group, refresh: Refresh) -> dict[str, Any]:
    """A refresh, as DescribeInstanceRefreshes shows it."""
    return {
        "InstanceRefreshId": refresh.id,
        "AutoScalingGroupName": group.name,
        "Status": refresh.status,
        "StartTime": moment(refresh.started),
        "PercentageComplete": refresh.percentage,
        "InstancesToUpdate": len(refresh.waiting),
        "Preferences": refresh.preferences,
        "Strategy": "Rolling",
        **({"EndTime": moment(refresh.ended)} if refresh.ended is not None else {}),
        **({"StatusReason": refresh.reason} if refresh.reason else {}),
        **({"DesiredConfiguration": refresh.desired} if refresh.desired else {}),
    }
