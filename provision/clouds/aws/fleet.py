"""A fleet on AWS: one Auto Scaling group and its launch template, and a bucket for programs and evidence."""

import datetime as dt
from collections.abc import Sequence
from typing import Any, Final

import tenacity

from provision.canonical import digest as canonical_digest
from provision.clouds import base
from provision.clouds.aws import disk_key, examine, firewall, fleet_requests, member_role, removal, reservations, store
from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.answers import tags_of
from provision.clouds.aws.api import AwsRegionApi
from provision.clouds.aws.errors import cloud_errors, is_refusal, unless_refused
from provision.clouds.aws.image_choice import Ami
from provision.clouds.aws.images import Images
from provision.clouds.aws.permissions import parameters_of
from provision.clouds.aws.requests import resource_name
from provision.clouds.claim import taken
from provision.clouds.fleet import MOST_EVIDENCE, FleetMember, FleetOrder, FleetPlan, FleetView, PostedEvidence, Waves, content_of, newest
from provision.clouds.polling import poll
from provision.clouds.refusals import RollUnderWayError
from provision.concurrent import at_once
from provision.errors import CloudInvalidError, CloudUnsupportedError

_GROUP: Final = "AutoScalingGroupName"
_FORWARD: Final = {"Pending", "InProgress", "Baking"}
_CANCELLED_S: Final = 300.0
_TOLD: Final = 5
_AT_ONCE: Final = 10  # as many connections as the client keeps
_REACH: Final = (
    "the role is the group's, and some calls cannot be narrowed to one machine: root on a member can say that a neighbour may serve, and "
    "can stop the launches, the roll and the scheduled deadline of its own group; it cannot write a neighbour's evidence"
)
_UNSEEN: Final = (
    "`fleet up` and `fleet roll` ask IAM whether the role may do all this. They see no right that it loses later, no policy of a bucket or "
    f"key, and no network: a member that reaches nothing is replaced every {fleet_requests.HEARTBEAT_S // 60} minutes until the deadline"
)


class AwsFleet:
    """See `clouds.fleet.Fleet`."""

    def __init__(self, region: str, access: AwsAccess) -> None:
        self._api = AwsRegionApi(region, access)
        self._images = Images(self._api)

    @property
    def _groups(self) -> Any:
        return self._api.client("autoscaling")

    def ensure(self, order: FleetOrder, size: int, program: bytes, *, on_step: base.Step) -> None:
        """Make the group of an order, its deadline first, and give it its size."""
        fleet_requests.role_of(order.machine)
        stored = self._stored(order)
        member_role.check(self._api, order, on_step=on_step)
        image = self._images.of(order.machine)
        on_step("putting the members' program into the store")
        self._publish(order, program)
        on_step("making the security group and the launch template")
        security = firewall.ensure_group(self._api, order.machine)
        data = self._data(order, image, security, stored)
        template_id = self._template(order, data)
        on_step("making the Auto Scaling group, its deadline and its size")
        self._group(order, template_id)
        with cloud_errors("autoscaling:PutScheduledUpdateGroupAction", self._api.region):
            self._groups.put_scheduled_update_group_action(**fleet_requests.deadline(order))
        self.size(order.machine.name, size)

    def _data(self, order: FleetOrder, image: Ami, security: str, stored: str) -> dict[str, Any]:
        endpoint, found = self._api.access.machine_endpoint_url, {"image": image.id, "root": image.root_device, "group": security}
        return fleet_requests.template_data(order, self._api.region, **found, endpoint=endpoint, store_region=stored)

    def _stored(self, order: FleetOrder) -> str:
        return store.region_of(self._api, order.bucket, f"{order.prefix}evidence/{order.machine.name}/")

    def _publish(self, order: FleetOrder, program: bytes) -> None:
        key = f"{order.prefix}bundles/{order.digest}"
        with cloud_errors("s3:PutObject", self._api.region):
            request = {"Bucket": order.bucket, "Key": key, "Body": program, "IfNoneMatch": "*"}
            # Two at once: "you should retry the upload", docs.aws.amazon.com/AmazonS3/latest/API/API_PutObject.html, If-None-Match.
            again = tenacity.retry_if_exception(lambda error: is_refusal(error, "ConditionalRequestConflict"))
            retry = tenacity.Retrying(
                retry=again, wait=tenacity.wait_random_exponential(0.2), stop=tenacity.stop_after_attempt(6), reraise=True
            )
            retry(unless_refused, lambda: self._api.client("s3").put_object(**request), "PreconditionFailed")

    def _template(self, order: FleetOrder, data: dict[str, Any]) -> str:
        name = resource_name(order.machine)
        with cloud_errors("ec2:CreateLaunchTemplate", self._api.region):
            made = unless_refused(
                lambda: self._api.ec2_once.create_launch_template(**fleet_requests.template(order, data)),
                "InvalidLaunchTemplateName.AlreadyExistsException",
            )
        if made is not None:
            return str(made["LaunchTemplate"]["LaunchTemplateId"])
        with cloud_errors("ec2:DescribeLaunchTemplates", self._api.region):
            (found,) = self._api.ec2.describe_launch_templates(LaunchTemplateNames=[name])["LaunchTemplates"]
        self._check_ours(order, tags_of(found), f"launch template {name}")
        return str(found["LaunchTemplateId"])

    def _check_ours(self, order: FleetOrder, tags: dict[str, str], what: str) -> None:
        if tags.get(base.LAUNCH_TAG) != order.machine.launch_id:
            raise taken(order.machine.name, f"{what} in {self._api.region}", tags)

    def _group(self, order: FleetOrder, template_id: str) -> None:
        request = fleet_requests.group(order, template_id, self._subnets(order))
        with cloud_errors("autoscaling:CreateAutoScalingGroup", self._api.region):
            once = self._api.client("autoscaling", retried=False)
            made = unless_refused(lambda: firewall.once_visible(lambda: dict(once.create_auto_scaling_group(**request))), "AlreadyExists")
            if made is None:
                found = self._shown(order.machine.name)
                self._check_ours(order, tags_of(found or {}), f"Auto Scaling group {request[_GROUP]}")

    def _subnets(self, order: FleetOrder) -> list[str]:
        if order.machine.subnet:
            return [order.machine.subnet]
        with cloud_errors("ec2:DescribeSubnets", self._api.region):
            found = self._api.ec2.describe_subnets(Filters=[{"Name": "default-for-az", "Values": ["true"]}])["Subnets"]
        zone = reservations.zone_of(self._api, order.machine)  # elsewhere nothing is launched in it
        # A zone that never has the type fails anew whenever the group evens itself out.
        zones = [zone] if zone else examine.offering_zones(self._api, order.machine)
        found = [row for row in found if row["AvailabilityZone"] in zones]
        if not found:
            msg = f"{zone or self._api.region} has no default subnets where {order.machine.instance_type} is offered"
            raise CloudInvalidError(msg, hint="name one with network.subnet of the profile")
        return [str(row["SubnetId"]) for row in found]

    def _shown(self, name: str) -> dict[str, Any] | None:
        with cloud_errors("autoscaling:DescribeAutoScalingGroups", self._api.region):
            rows = self._groups.describe_auto_scaling_groups(AutoScalingGroupNames=[f"gpuprov-{name}"])["AutoScalingGroups"]
        return dict(rows[0]) if rows else None

    def size(self, name: str, size: int) -> None:
        """Let the group have so many members; it can have no more."""
        with cloud_errors("autoscaling:UpdateAutoScalingGroup", self._api.region):
            self._groups.update_auto_scaling_group(**{_GROUP: f"gpuprov-{name}"}, MinSize=0, MaxSize=size, DesiredCapacity=size)

    def shrink(self, name: str, members: Sequence[FleetMember]) -> None:  # noqa: ARG002 - AWS knows the group of each
        """End exactly these members, one call for each; the most that the group can have stays as it was."""
        once = self._api.client("autoscaling", retried=False)  # sent twice it could make the group smaller by two
        for member in members:
            with cloud_errors("autoscaling:TerminateInstanceInAutoScalingGroup", self._api.region):
                once.terminate_instance_in_auto_scaling_group(InstanceId=member.id, ShouldDecrementDesiredCapacity=True)

    def extend(self, order: FleetOrder) -> None:
        """Move the scheduled action, after the tags: a sweep must not find members over their deadline while the group lives.

        The deadline's tag of members is the group's alone, so that one that comes later has the new one.
        """
        group, value = resource_name(order.machine), order.machine.deadline.astimezone(dt.UTC).isoformat(timespec="seconds")
        tag = {"Key": base.DEADLINE_TAG, "Value": value}
        propagated = {**tag, "ResourceId": group, "ResourceType": "auto-scaling-group", "PropagateAtLaunch": True}
        with cloud_errors("autoscaling:CreateOrUpdateTags", self._api.region):
            self._groups.create_or_update_tags(Tags=[propagated])
        shown = self._shown(order.machine.name) or {}
        ids = [row["InstanceId"] for row in shown.get("Instances", ())]
        if ids:
            with cloud_errors("ec2:CreateTags", self._api.region):
                self._api.ec2.create_tags(Resources=ids, Tags=[tag])
        with cloud_errors("autoscaling:PutScheduledUpdateGroupAction", self._api.region):
            self._groups.put_scheduled_update_group_action(**fleet_requests.deadline(order))

    def members(self, name: str) -> FleetView | None:
        """What AWS says of the group; None where there is none."""
        group = self._shown(name)
        if group is None:
            return None
        named = {_GROUP: f"gpuprov-{name}"}
        with cloud_errors("autoscaling:DescribeScalingActivities", self._api.region):
            activities = self._groups.describe_scaling_activities(**named, MaxRecords=50)["Activities"]
        with cloud_errors("autoscaling:DescribeScheduledActions", self._api.region):
            actions = self._groups.describe_scheduled_actions(**named)["ScheduledUpdateGroupActions"]
        rolls = self._rolls(name)
        failed = [str(row.get("StatusMessage", row["StatusCode"])) for row in activities if row["StatusCode"] in {"Failed", "Cancelled"}]
        ends = [row["StartTime"] for row in actions if row["ScheduledActionName"] == fleet_requests.DEADLINE]
        last = rolls[0] if rolls else {}
        return FleetView(
            size=int(group["DesiredCapacity"]),
            halted=any(row["ProcessName"] == "Launch" for row in group["SuspendedProcesses"]),
            deadline=ends[0].astimezone(dt.UTC).isoformat(timespec="seconds") if ends else "",
            version=str(group["LaunchTemplate"]["Version"]),
            members=tuple(
                FleetMember(
                    id=row["InstanceId"],
                    zone=row["AvailabilityZone"],
                    type=row.get("InstanceType", ""),
                    state=row["LifecycleState"],
                    serves=row["LifecycleState"] == "InService",
                    healthy=row["HealthStatus"] == "Healthy",
                    version=str(row.get("LaunchTemplate", {}).get("Version", "")),
                )
                for row in group["Instances"]
            ),
            roll=str(last.get("Status", "")),
            roll_percent=int(last.get("PercentageComplete", 0)),
            roll_reason=str(last.get("StatusReason", "")),
            failures=tuple(dict.fromkeys(failed))[:_TOLD],
        )

    def _rolls(self, name: str) -> list[dict[str, Any]]:
        with cloud_errors("autoscaling:DescribeInstanceRefreshes", self._api.region):
            return list(self._groups.describe_instance_refreshes(AutoScalingGroupName=f"gpuprov-{name}")["InstanceRefreshes"])

    def evidence(self, order: FleetOrder) -> Sequence[PostedEvidence]:
        """What members posted, each under the instance that AWS put into its prefix."""
        start, objects = f"{order.prefix}evidence/{order.machine.name}/", self._api.client("s3")
        with cloud_errors("s3:ListBucket", self._api.region):
            pages = objects.get_paginator("list_objects_v2").paginate(Bucket=order.bucket, Prefix=start)
            rows = (row for page in pages for row in page.get("Contents", []) if row["Size"] <= MOST_EVIDENCE)
            names = newest((row["Key"].removeprefix(start), row["LastModified"].isoformat(), row["Size"]) for row in rows)

        def read(name: str) -> bytes:
            with cloud_errors("s3:GetObject", self._api.region):
                return bytes(objects.get_object(Bucket=order.bucket, Key=start + name)["Body"].read(MOST_EVIDENCE))

        def posted(name: str, raw: bytes) -> PostedEvidence:
            member, _, rest = name.partition("/")
            return PostedEvidence(member.rpartition(":")[2], rest.removesuffix(".json"), content_of(raw))

        return [posted(*pair) for pair in zip(names, at_once(read, names, most=_AT_ONCE), strict=True)]

    def roll(self, order: FleetOrder, program: bytes, waves: Waves, *, instead: bool = False, on_step: base.Step) -> None:
        """A new numbered version, and a refresh towards it; one that is under way already is left to go on.

        Raises:
            RollUnderWayError: AWS takes one refresh at a time, and one to another version is under way.
        """
        name, stored, image = order.machine.name, self._stored(order), self._images.of(order.machine)
        member_role.check(self._api, order, on_step=on_step)
        has = (self._shown(name) or {}).get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
        wanted_of = fleet_requests.reservation(order).get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
        if has.get("CapacityReservationIds") != wanted_of.get("CapacityReservationIds"):
            msg = f"fleet {name} takes its machines from {', '.join(has.get('CapacityReservationIds', ())) or 'no reservation'}"
            raise CloudUnsupportedError(msg, hint="a fleet stays with its reservation: make another with `gpuprov fleet up --name …`")
        self._publish(order, program)
        security = firewall.ensure_group(self._api, order.machine)
        with cloud_errors("ec2:DescribeLaunchTemplateVersions", self._api.region):
            pages = self._api.ec2.get_paginator("describe_launch_template_versions").paginate(LaunchTemplateName=f"gpuprov-{name}")
            versions = [row for page in pages for row in page["LaunchTemplateVersions"]]
        data = self._data(order, image, security, stored)
        described = f"{order.digest} {canonical_digest(data)[:16]}"
        found = next((row for row in versions if row.get("VersionDescription") == described), None)
        running, wanted = self._running(name), str(found["VersionNumber"]) if found else ""
        other = running if running is not None and _towards(running) != wanted else None
        if other and not instead:
            raise _under_way(name, other)
        if found is None:
            on_step("making a new version of the launch template")
            with cloud_errors("ec2:CreateLaunchTemplateVersion", self._api.region):
                found = self._api.ec2_once.create_launch_template_version(
                    LaunchTemplateId=versions[0]["LaunchTemplateId"], VersionDescription=described, LaunchTemplateData=data
                )["LaunchTemplateVersion"]
        target = fleet_requests.named(found["LaunchTemplateId"], int(found["VersionNumber"]))
        if any(_program(row) == order.digest for row in versions):
            self._mark(order, order.digest, b"")  # it may have been superseded once
        if other:
            on_step(f"{name} {_said(other)}: ending that")
            self._supersede(order, other, versions)
        on_step(f"rolling to version {target['Version']}")
        self._refresh(name, target, waves)
        # After the refresh has begun: a member launched before it would have the program that failed, and stop the launches again.
        with cloud_errors("autoscaling:ResumeProcesses", self._api.region):
            self._groups.resume_processes(AutoScalingGroupName=f"gpuprov-{name}", ScalingProcesses=["Launch"])

    def _running(self, name: str) -> dict[str, Any] | None:
        """The refresh that is under way; None without one."""
        return next((row for row in self._rolls(name) if row["Status"] not in fleet_requests.ENDED), None)

    def _mark(self, order: FleetOrder, digest: str, word: bytes) -> None:
        with cloud_errors("s3:PutObject", self._api.region):
            self._api.client("s3").put_object(Bucket=order.bucket, Key=fleet_requests.superseded(order, digest), Body=word)

    def _supersede(self, order: FleetOrder, running: dict[str, Any], versions: Sequence[dict[str, Any]]) -> None:
        """End a refresh where it is. First its own members hear of it: the fifth that fails would otherwise end the refresh after it.

        They are not waited for: the next refresh replaces each when it is done, or when its hook's time is over.
        """
        name, target = order.machine.name, _target(running)
        digest = next((_program(row) for row in versions if str(row["VersionNumber"]) == target), "")
        if digest and digest != order.digest:
            self._mark(order, digest, b"superseded\n")
        with cloud_errors("autoscaling:CancelInstanceRefresh", self._api.region):
            asked = {_GROUP: f"gpuprov-{name}", "WaitForTransitioningInstances": False}
            unless_refused(lambda: self._groups.cancel_instance_refresh(**asked), "ActiveInstanceRefreshNotFound")
        left = poll(lambda: self._running(name), lambda row: row is None, timeout_s=_CANCELLED_S)
        if left is not None:
            msg = f"fleet {name} has not ended its other roll after {_CANCELLED_S:.0f} s"
            raise RollUnderWayError(msg, hint="run this again in a few minutes: it goes on where it stopped")

    def _refresh(self, name: str, target: dict[str, str], waves: Waves) -> None:
        with cloud_errors("autoscaling:StartInstanceRefresh", self._api.region):
            once = self._api.client("autoscaling", retried=False)
            try:
                once.start_instance_refresh(**fleet_requests.refresh(name, target, waves))
            except Exception as error:
                if not is_refusal(error, "InstanceRefreshInProgress"):
                    raise
                running = self._running(name)
                if running is None or _towards(running) != target["Version"]:
                    raise _under_way(name, running) from error

    def remove(self, name: str, *, on_step: base.Step) -> list[str]:
        """The group with its members, then whatever else carries the name's tag."""
        found = removal.things(self._api, name)
        named = (base.Known(name, launch_id, "", young=False) for launch_id in {thing.launch_id for thing in found})
        return removal.remove(self._api, base.merged(found, *(removal.known(self._api, each) for each in named)), on_step=on_step)


def _program(version: dict[str, Any]) -> str:
    """The digest of the program of a template's version."""
    return str(version.get("VersionDescription", "")).partition(" ")[0]


def _target(running: dict[str, Any]) -> str:
    """The version that a refresh was started for."""
    return str(running.get("DesiredConfiguration", {}).get("LaunchTemplate", {}).get("Version", ""))


def _towards(running: dict[str, Any]) -> str:
    """The version that it still goes to; empty where it goes back or is being cancelled."""
    return _target(running) if running["Status"] in _FORWARD else ""


def _said(running: dict[str, Any]) -> str:
    """What a fleet does, after its name."""
    if running["Status"] in _FORWARD:
        return f"is rolling to version {_target(running)} ({running.get('PercentageComplete', 0)} %)"
    return f"is ending its roll to version {_target(running)} ({running['Status']})"


def _under_way(name: str, running: dict[str, Any] | None) -> RollUnderWayError:
    msg = f"fleet {name} {_said(running) if running else 'had another roll under way a moment ago'}"
    hint = f"wait until `gpuprov fleet status {name}` shows its end; or end it, and roll to this one: `gpuprov fleet roll … --instead`"
    return RollUnderWayError(msg, hint=hint)


def plan(order: FleetOrder, region: str) -> FleetPlan:
    """What is reviewed of a fleet; nobody is contacted."""
    parameters = parameters_of([order.machine.place], order.machine.os)
    role = fleet_requests.role_of(order.machine)
    caller, member = fleet_requests.caller_policy(order, region, parameters), fleet_requests.member_policy(order, region)
    keys = {key: disk_key.group_statements(region) for key in disk_key.in_use(order.machine, region)}
    stored = f"the store's key is {order.store_key}" if order.store_key else fleet_requests.STORE_KEY
    # That a refresh waits an hour: docs.aws.amazon.com/autoscaling/ec2/userguide/instance-refresh-overview.html
    roll = f"a roll fails after 60 minutes in which no member comes to serve, so a program may take {order.longest_s // 60}"
    return FleetPlan(caller, member, role.role_name, "role_policies", _REACH, fleet_requests.DIFFERS, keys, stored, (_UNSEEN, roll))


def connect(region: str, access: AwsAccess | None = None) -> AwsFleet:
    """The fleets of one region; of the user's own account by default."""
    return AwsFleet(region, access or AwsAccess())
