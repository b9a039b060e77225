"""Auto Scaling of the embedded AWS: its calls, answered from `scaling` and `refreshes`; moto reads the requests and writes the answers."""

import datetime as dt
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn

from moto.autoscaling.exceptions import AutoscalingClientError
from moto.autoscaling.responses import AutoScalingResponse
from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult, EmptyResult
from moto.ec2.models import ec2_backends

from provision.rehearsal.aws import group_members, group_rows, inside, refreshes, templates
from provision.rehearsal.aws.scaling import Engine, Group, GroupMember, HookWait
from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.base import Wsgi

_SHOWN: Final = [
    "DefaultCooldown",
    "HealthCheckType",
    "HealthCheckGracePeriod",
    "NewInstancesProtectedFromScaleIn",
    "CapacityRebalance",
    "DefaultInstanceWarmup",
    "MaxInstanceLifetime",
    "CapacityReservationSpecification",
    "InstanceMaintenancePolicy",
    "DeletionProtection",
    "MixedInstancesPolicy",
    "TerminationPolicies",
]
_NAMED: Final = re.compile(r"[!-9;-~]([ -9;-~]{0,253}[!-9;-~])?")


def patch(settings: AwsSettings, application: Wsgi, now: Callable[[], float]) -> Engine:
    """Answer the calls of Auto Scaling from an engine, which is returned.

    Args:
        settings: for the pause after a launch that failed.
        application: moto, for the calls of the groups to EC2.
        now: the clock, in seconds.
    """

    def launch(group: Group) -> tuple[str, str, str, dict[str, str]]:
        return group_members.launched(application, group)

    def end(group: Group, instance_id: str) -> None:
        inside.ec2(application, group.region).terminate_instances(InstanceIds=[instance_id])

    def state(group: Group, instance_id: str) -> str:
        found = ec2_backends[DEFAULT_ACCOUNT_ID][group.region].get_instance_by_id(instance_id)
        return str(found.state) if found else ""

    engine = Engine(now, launch, end, state, lambda: settings.group_retry_s, refreshes.step)
    calls = _Calls(engine)
    for name in [name for name in dir(calls) if not name.startswith("_")]:
        setattr(AutoScalingResponse, name, _method(getattr(calls, name)))
    return engine


def _method(answer: Callable[[str, dict[str, Any]], dict[str, Any] | None]) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        result = answer(self.region, self.params)
        return EmptyResult() if result is None else ActionResult(result)

    return method


class _Calls:
    """A method for each call: the region and the parameters go in, the answer or nothing comes out."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def _group(self, region: str, params: dict[str, Any]) -> Group:
        group = self._engine.groups.get((region, params.get("AutoScalingGroupName", "")))
        if group is None:
            refused("AutoScalingGroup name not found - AutoScalingGroup not found")
        return group

    def _member(self, region: str, instance_id: str, name: str | None = None) -> tuple[Group, GroupMember]:
        for group in self._engine.groups.values():
            if group.region == region and name in {None, group.name} and instance_id in group.members:
                return group, group.members[instance_id]
        return refused(f"Instance Id not found - No managed instance found for instance ID: {instance_id}")

    def create_auto_scaling_group(self, region: str, params: dict[str, Any]) -> None:
        name = params["AutoScalingGroupName"]
        if not _NAMED.fullmatch(name):
            refused(f"Value '{name}' at 'autoScalingGroupName' failed to satisfy constraint")
        template, types = _template(region, params)
        least, most = params["MinSize"], params["MaxSize"]
        desired = least if params.get("DesiredCapacity") is None else params["DesiredCapacity"]
        _check_size(least, desired, most)
        subnets = tuple(filter(None, str(params.get("VPCZoneIdentifier") or "").replace(" ", "").split(",")))
        for subnet in subnets:
            group_members.zone_of(region, subnet)
        if not subnets:
            refused("At least one Availability Zone or VPC Subnet is required.")
        hooks = {hook["LifecycleHookName"]: _hook(hook) for hook in params.get("LifecycleHookSpecificationList") or []}
        tags = [_tag(name, tag) for tag in params.get("Tags") or []]
        given = {key: params[key] for key in _SHOWN if params.get(key) is not None}
        with self._engine.changing():
            if (region, name) in self._engine.groups:
                words = f"AutoScalingGroup by this name already exists - A group with the name {name} already exists"
                refused(words, "AlreadyExists")
            self._engine.groups[region, name] = Group(
                name, region, given, least, most, desired, self._engine.now(), template, types, subnets, hooks, tags=tags
            )

    def update_auto_scaling_group(self, region: str, params: dict[str, Any]) -> None:
        with self._engine.changing():
            group = self._group(region, params)
            sizes = [group.least, group.desired, group.most]
            for index, key in enumerate(("MinSize", "DesiredCapacity", "MaxSize")):
                sizes[index] = sizes[index] if params.get(key) is None else params[key]
            if params.get("DesiredCapacity") is None:
                sizes[1] = min(max(sizes[1], sizes[0]), sizes[2])
            _check_size(*sizes)
            if params.get("LaunchTemplate") or params.get("MixedInstancesPolicy"):
                group.template, group.types = _template(region, params)
            group.least, group.desired, group.most = sizes
            group.given |= {key: params[key] for key in _SHOWN if params.get(key) is not None}

    def set_desired_capacity(self, region: str, params: dict[str, Any]) -> None:
        self.update_auto_scaling_group(region, {key: params[key] for key in ("AutoScalingGroupName", "DesiredCapacity")})

    def delete_auto_scaling_group(self, region: str, params: dict[str, Any]) -> None:
        with self._engine.changing():
            group, forced = self._group(region, params), bool(params.get("ForceDelete"))
            protection = group.given.get("DeletionProtection", "none")
            if protection == "prevent-all-deletion" or (forced and protection == "prevent-force-deletion"):
                refused("The group is protected from deletion.", "ResourceInUse")
            if group.members and not forced:
                words = "You cannot delete an AutoScalingGroup while there are instances still in the group."
                refused(words, "ResourceInUse")
            group.deleting, group.least, group.desired, group.hooks = True, 0, 0, {}
            group.refreshes.clear()
            if not group.members:
                del self._engine.groups[region, group.name]

    def describe_auto_scaling_groups(self, region: str, params: dict[str, Any]) -> dict[str, Any]:
        names, filters = params.get("AutoScalingGroupNames") or [], params.get("Filters") or []
        with self._engine.changing():
            found = [g for (where, name), g in sorted(self._engine.groups.items()) if where == region and (not names or name in names)]
            rows = [group_rows.row(group) for group in found if all(_passes(group, each) for each in filters)]
        return {"AutoScalingGroups": rows}

    def describe_auto_scaling_instances(self, region: str, params: dict[str, Any]) -> dict[str, Any]:
        wanted = params.get("InstanceIds") or []
        with self._engine.changing():
            groups = [group for (where, _), group in self._engine.groups.items() if where == region]
            rows = [
                {**group_rows.member_row(member), "AutoScalingGroupName": group.name}
                for group in groups
                for member in group.members.values()
                if not wanted or member.id in wanted
            ]
        return {"AutoScalingInstances": rows}

    def put_lifecycle_hook(self, region: str, params: dict[str, Any]) -> None:
        with self._engine.changing():
            group = self._group(region, params)
            group.hooks[params["LifecycleHookName"]] = _hook({**group.hooks.get(params["LifecycleHookName"], {}), **_sent(params)})

    def delete_lifecycle_hook(self, region: str, params: dict[str, Any]) -> dict[str, Any]:
        with self._engine.changing():
            self._group(region, params).hooks.pop(params["LifecycleHookName"], None)
        return {}

    def describe_lifecycle_hooks(self, region: str, params: dict[str, Any]) -> dict[str, Any]:
        group, names = self._group(region, params), params.get("LifecycleHookNames")
        rows = [{**hook, "LifecycleHookName": name, "AutoScalingGroupName": group.name} for name, hook in group.hooks.items()]
        return {"LifecycleHooks": [row for row in rows if not names or row["LifecycleHookName"] in names]}

    def _waited(self, region: str, params: dict[str, Any]) -> tuple[Group, HookWait]:
        """The open action of a hook, by the instance's id or the action's token."""
        group, token = self._group(region, params), params.get("LifecycleActionToken")
        for member in group.members.values():
            wait = member.hooks.get(params["LifecycleHookName"])
            if wait and not wait.result and (token == wait.token if token else member.id == params.get("InstanceId")):
                return group, wait
        return refused(f"No active Lifecycle Action found with instance ID {params.get('InstanceId')}")

    def complete_lifecycle_action(self, region: str, params: dict[str, Any]) -> dict[str, Any]:
        with self._engine.changing():
            if params["LifecycleActionResult"] not in {"CONTINUE", "ABANDON"}:
                refused("LifecycleActionResult must be CONTINUE or ABANDON")
            self._waited(region, params)[1].result = params["LifecycleActionResult"]
        return {}

    def record_lifecycle_action_heartbeat(self, region: str, params: dict[str, Any]) -> dict[str, Any]:
        with self._engine.changing():
            group, wait = self._waited(region, params)
            wait.until = self._engine.now() + group.hooks[params["LifecycleHookName"]]["HeartbeatTimeout"]
        return {}

    def describe_scaling_activities(self, region: str, params: dict[str, Any]) -> dict[str, Any]:
        name = params.get("AutoScalingGroupName")
        with self._engine.changing():
            groups = [g for (where, key), g in self._engine.groups.items() if where == region and name in {None, key}]
            rows = [group_rows.activity_row(group, activity) for group in groups for activity in group.activities]
        return {"Activities": rows[: params.get("MaxRecords") or 100]}

    def set_instance_health(self, region: str, params: dict[str, Any]) -> None:
        with self._engine.changing():
            group, member = self._member(region, params["InstanceId"])
            member.healthy = params["HealthStatus"] == "Healthy"
            if params.get("ShouldRespectGracePeriod") is False and not member.healthy:
                member.since = min(member.since, self._engine.now() - float(group.given.get("HealthCheckGracePeriod") or 0))

    def set_instance_protection(self, region: str, params: dict[str, Any]) -> dict[str, Any]:
        with self._engine.changing():
            for instance_id in params["InstanceIds"]:
                self._member(region, instance_id, params["AutoScalingGroupName"])[1].protected = params["ProtectedFromScaleIn"]
        return {}

    def enter_standby(self, region: str, params: dict[str, Any]) -> dict[str, Any]:
        with self._engine.changing():
            group = self._group(region, params)
            for instance_id in params["InstanceIds"]:
                self._member(region, instance_id, group.name)[1].state = "Standby"
                if params["ShouldDecrementDesiredCapacity"]:
                    group.desired -= 1
        return {"Activities": []}

    def terminate_instance_in_auto_scaling_group(self, region: str, params: dict[str, Any]) -> dict[str, Any]:
        with self._engine.changing():
            group, member = self._member(region, params["InstanceId"])
            if params["ShouldDecrementDesiredCapacity"]:
                if group.desired <= group.least:
                    refused("Currently, desiredSize equals minSize. Terminating instance without replacement will violate it.")
                group.desired -= 1
            self._engine.retire(group, member, "a user request")
            return {"Activity": group_rows.activity_row(group, group.activities[0])}

    def suspend_processes(self, region: str, params: dict[str, Any]) -> None:
        with self._engine.changing():
            self._group(region, params).suspended |= set(params.get("ScalingProcesses") or _PROCESSES)

    def resume_processes(self, region: str, params: dict[str, Any]) -> None:
        with self._engine.changing():
            group = self._group(region, params)
            group.suspended -= set(params.get("ScalingProcesses") or _PROCESSES)
            group.retry_at = 0.0

    def put_scheduled_update_group_action(self, region: str, params: dict[str, Any]) -> None:
        at = params.get("StartTime") or params.get("Time")
        if at is None or params.get("Recurrence"):
            refused("The embedded cloud executes scheduled actions with a StartTime and without a Recurrence.")
        with self._engine.changing():
            moment = at.replace(tzinfo=at.tzinfo or dt.UTC).timestamp()
            if moment <= self._engine.now():
                refused("Given start time is in the past")
            sizes = {key: params.get(key) for key in ("MinSize", "MaxSize", "DesiredCapacity")}
            self._group(region, params).schedule[params["ScheduledActionName"]] = {"at": moment, **sizes}

    def delete_scheduled_action(self, region: str, params: dict[str, Any]) -> None:
        with self._engine.changing():
            self._group(region, params).schedule.pop(params["ScheduledActionName"], None)

    def describe_scheduled_actions(self, region: str, params: dict[str, Any]) -> dict[str, Any]:
        name = params.get("AutoScalingGroupName")
        groups = [group for (where, key), group in self._engine.groups.items() if where == region and name in {None, key}]
        rows = [
            {
                "AutoScalingGroupName": group.name,
                "ScheduledActionName": action,
                "StartTime": group_rows.moment(row["at"]),
                **{key: row[key] for key in ("MinSize", "MaxSize", "DesiredCapacity") if row[key] is not None},
            }
            for group in groups
            for action, row in group.schedule.items()
        ]
        return {"ScheduledUpdateGroupActions": rows}

    def create_or_update_tags(self, region: str, params: dict[str, Any]) -> None:
        with self._engine.changing():
            for tag in params["Tags"]:
                group = self._group(region, {"AutoScalingGroupName": tag["ResourceId"]})
                group.tags = [*(each for each in group.tags if each["Key"] != tag["Key"]), _tag(group.name, tag)]

    def start_instance_refresh(self, region: str, params: dict[str, Any]) -> dict[str, Any]:
        with self._engine.changing():
            group, preferences = self._group(region, params), _sent(params.get("Preferences") or {})
            if refreshes.active(group):
                refused("An Instance Refresh is already in progress and blocks the execution", "InstanceRefreshInProgress")
            desired = _sent(params.get("DesiredConfiguration") or {}) or None
            template, types = _template(region, desired) if desired else (dict(group.template), group.types)
            if preferences.get("AutoRollback") and not desired:
                refused("AutoRollback needs a DesiredConfiguration.")
            return {"InstanceRefreshId": refreshes.begin(group, preferences, desired, (template, types), self._engine.now()).id}

    def cancel_instance_refresh(self, region: str, params: dict[str, Any]) -> dict[str, Any]:
        with self._engine.changing():
            refresh = self._active(region, params)
            refresh.status, refresh.waits = "Cancelling", params.get("WaitForTransitioningInstances") is not False
        return {"InstanceRefreshId": refresh.id}

    def rollback_instance_refresh(self, region: str, params: dict[str, Any]) -> dict[str, Any]:
        with self._engine.changing():
            refresh = self._active(region, params)
            if refresh.desired is None or refresh.status == "RollbackInProgress":
                refused("The instance refresh cannot be rolled back.", "IrreversibleInstanceRefresh")
            refreshes.roll_back(self._group(region, params), refresh, self._engine.now(), "Rolled back by the user.")
        return {"InstanceRefreshId": refresh.id}

    def _active(self, region: str, params: dict[str, Any]) -> refreshes.Refresh:
        refresh = refreshes.active(self._group(region, params))
        if refresh is None:
            refused("No in progress or pending Instance Refresh found", "ActiveInstanceRefreshNotFound")
        return refresh

    def describe_instance_refreshes(self, region: str, params: dict[str, Any]) -> dict[str, Any]:
        wanted = params.get("InstanceRefreshIds")
        with self._engine.changing():
            group = self._group(region, params)
            rows = [group_rows.refresh_row(group, refresh) for refresh in group.refreshes if not wanted or refresh.id in wanted]
        return {"InstanceRefreshes": rows}


_PROCESSES: Final = [
    "Launch",
    "Terminate",
    "AddToLoadBalancer",
    "AlarmNotification",
    "AZRebalance",
    "HealthCheck",
    "InstanceRefresh",
    "ReplaceUnhealthy",
    "ScheduledActions",
]


def refused(words: str, code: str = "ValidationError") -> NoReturn:
    """Answer with an error of Auto Scaling."""
    raise AutoscalingClientError(code, words)


def _check_size(least: int, desired: int, most: int) -> None:
    if not 0 <= least <= desired <= most:
        refused(f"Desired capacity:{desired} must be between the specified min size:{least} and max size:{most}")


def _template(region: str, params: dict[str, Any]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The template of a request by id and number, and the types of its overrides."""
    mixed = params.get("MixedInstancesPolicy") or {}
    named = params.get("LaunchTemplate") or (mixed.get("LaunchTemplate") or {}).get("LaunchTemplateSpecification")
    if not named:
        refused("Valid requests must contain either LaunchTemplate, LaunchConfigurationName or MixedInstancesPolicy parameter.")
    try:
        template, version = templates.version_of(region, named)
    except ServiceException as error:
        refused(f"You must use a valid fully-formed launch template. {error.message}")
    types = tuple(each["InstanceType"] for each in (mixed.get("LaunchTemplate") or {}).get("Overrides") or [] if each.get("InstanceType"))
    return {"LaunchTemplateId": template.id, "LaunchTemplateName": template.name, "Version": str(version.number)}, types


def _hook(given: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in _sent(given).items() if key not in {"LifecycleHookName", "AutoScalingGroupName"}}
    hook: dict[str, Any] = {"HeartbeatTimeout": 3600, "DefaultResult": "ABANDON", "GlobalTimeout": 172_800} | kept
    if not 30 <= hook["HeartbeatTimeout"] <= 7200:  # noqa: PLR2004 - botocore's model of PutLifecycleHook
        refused("HeartbeatTimeout must be from 30 to 7200")
    return hook | {"GlobalTimeout": min(172_800, 100 * hook["HeartbeatTimeout"])}


def _tag(name: str, tag: dict[str, Any]) -> dict[str, Any]:
    return {"ResourceId": name, "ResourceType": "auto-scaling-group", "PropagateAtLaunch": False} | _sent(tag)


def _sent(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _passes(group: Group, each: dict[str, Any]) -> bool:
    """Whether a group has what a filter `tag:KEY` or `tag-key` asks for."""
    if each["Name"] == "tag-key":
        return any(tag["Key"] in each["Values"] for tag in group.tags)
    key = str(each["Name"]).removeprefix("tag:")
    return any(tag["Key"] == key and tag.get("Value") in each["Values"] for tag in group.tags)
