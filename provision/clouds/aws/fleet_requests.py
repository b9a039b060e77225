"""The requests that AWS gets for a fleet, and the policies of who makes it and of its members: pure functions."""

import base64
import datetime as dt
import gzip
import json
from importlib import resources
from typing import Any, Final

from provision.clouds import base
from provision.clouds.aws import disk_key, identity
from provision.clouds.aws.disk_key import partition
from provision.clouds.aws.permissions import policy_document, service_role
from provision.clouds.aws.place import AwsPlace, capacity_of, place_of
from provision.clouds.aws.requests import resource_name, run_instances, tag_list
from provision.clouds.fleet import FleetOrder, Waves
from provision.errors import CloudUnsupportedError, UsageError

HOOK: Final = "gpuprov-verified"
DEADLINE: Final = "gpuprov-deadline"
ENDED: Final = {"Successful", "Failed", "Cancelled", "RollbackFailed", "RollbackSuccessful"}
"""The states of a refresh that has ended."""
_RESERVED: Final = "CapacityReservationSpecification"
DIFFERS: Final = {
    **dict.fromkeys(("MinCount", "MaxCount", "ClientToken"), "how many there are is the size of the group"),
    "Placement.AvailabilityZone": "the group chooses among the zones of its subnets",
    "UserData": "a member fetches its program at its first boot, and its deadline is the group's",
    "TagSpecifications.Deadline": "the deadline's tag is the group's, which can move it",
    f"{_RESERVED}.CapacityReservationTarget.CapacityReservationId": "the reservation is named by the group",
    "ImageId": "the image is found when the group is made or rolled, and not at each launch",
}
STORE_KEY: Final = (
    "a bucket that is encrypted with a KMS key of your own needs the use of that key as well: with `--store-key ARN` both policies have it"
)
HEARTBEAT_S: Final = 900
_PATIENCE_S: Final = 1500
_UNIT: Final = """[Unit]
Description=Verify this member of a gpuprov fleet at its first boot
After=network-online.target
Wants=network-online.target
[Service]
Type=oneshot
ExecStart=/usr/bin/env python3 /etc/gpuprov/member.py
Restart=on-failure
RestartSec=10
[Install]
WantedBy=multi-user.target
"""
_WATCH: Final = """[Unit]
Description=End this machine when its gpuprov fleet may have no members any more
After=network-online.target
Wants=network-online.target
[Service]
ExecStart=/usr/bin/env python3 /etc/gpuprov/member.py watch
Restart=on-failure
RestartSec=60
[Install]
WantedBy=multi-user.target
"""
_WATCH_S: Final = 600
# docs.aws.amazon.com/AWSEC2/latest/UserGuide/user-data.html: 16 KB before it is encoded.
_MOST_USER_DATA: Final = 16 * 1024


def role_of(order: base.Order) -> identity.InstanceProfile:
    """The identity that a member needs to fetch, to post and to say that it may serve.

    Raises:
        UsageError: the place has none.
    """
    found = identity.of(order)
    if found is None:
        msg = f"a member of a fleet needs a role, and the place {order.instance_type} has `identity: none`"
        raise UsageError(msg, hint="write identity: {instance_profile: NAME} in the place; `gpuprov fleet plan` prints the role's policy")
    return found


def user_data(order: FleetOrder, region: str, endpoint: str | None, store_region: str = "") -> str:
    """The first boot of a member. The deadline is the group's: a member ends itself only where the group may have none any more.

    A change of size ends no member that is protected from scale-in, and none in Standby:
    docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-instance-protection.html and …/as-enter-exit-standby.html. Where the
    bucket's region is not given, it is the same one.

    Raises:
        CloudUnsupportedError: it is larger than EC2 takes.
    """
    config = {
        "fleet": order.machine.name,
        "launch": order.machine.launch_id,
        "group": resource_name(order.machine),
        "hook": HOOK,
        "region": region,
        "store_region": store_region or region,
        "bucket": order.bucket,
        "prefix": order.prefix,
        "digest": order.digest,
        "breaker": order.breaker,
        "longest_s": order.longest_s,
        "heartbeat_s": HEARTBEAT_S,
        "patience_s": _PATIENCE_S,
        "pause_s": 1.0,
        "watch_from": int(order.machine.deadline.timestamp()),
        "watch_s": _WATCH_S,
        **({"trust": dict(order.trust)} if order.trust else {}),
        **({"endpoint": endpoint} if endpoint else {}),
    }
    program = resources.files("provision.clouds.aws.onhost").joinpath("member.py").read_text()
    files = [
        ("/etc/gpuprov/member.json", "0600", json.dumps(config, sort_keys=True)),
        ("/etc/gpuprov/member.py", "0700", base64.b64encode(gzip.compress(program.encode(), mtime=0)).decode()),
        ("/etc/systemd/system/gpuprov-member.service", "0644", _UNIT),
        ("/etc/systemd/system/gpuprov-watch.service", "0644", _WATCH),
    ]
    document = {
        "ssh_pwauth": False,
        "disable_root": True,
        "ssh_authorized_keys": [order.machine.public_key.strip()],
        "write_files": [
            {"path": path, "permissions": mode, "content": text, **({"encoding": "gz+b64"} if path.endswith(".py") else {})}
            for path, mode, text in files
        ],
        "runcmd": [
            ["systemctl", "daemon-reload"],
            ["systemctl", "enable", "--now", "--no-block", "gpuprov-member.service", "gpuprov-watch.service"],
        ],
    }
    text = "#cloud-config\n" + json.dumps(document, sort_keys=True) + "\n"
    if len(text.encode()) > _MOST_USER_DATA:
        msg = f"the user data of a member has {len(text.encode())} bytes, and EC2 takes {_MOST_USER_DATA}"
        raise CloudUnsupportedError(msg, hint="shorten the store's prefix or the SSH key")
    return text


def template_data(
    order: FleetOrder, region: str, *, image: str, root: str, group: str, endpoint: str | None, store_region: str = ""
) -> dict[str, Any]:
    """LaunchTemplateData: what RunInstances would get for one machine, but for its number, its token and its first boot."""
    data = run_instances(order.machine, region, group, root)
    if data.get("Placement", {}).pop("AvailabilityZone", "") and not data["Placement"]:
        del data["Placement"]
    data = {name: value for name, value in data.items() if name not in {*DIFFERS, _RESERVED}}
    for row in data["TagSpecifications"]:  # which of two tags of a key a member gets, the group's or the template's, AWS does not say
        row["Tags"] = [tag for tag in row["Tags"] if row["ResourceType"] != "instance" or tag["Key"] != base.DEADLINE_TAG]
    encoded = base64.b64encode(user_data(order, region, endpoint, store_region).encode()).decode()
    return {**data, "ImageId": image, "UserData": encoded, "IamInstanceProfile": {"Name": role_of(order.machine).instance_profile}}


def template(order: FleetOrder, data: dict[str, Any]) -> dict[str, Any]:
    """CreateLaunchTemplate; the first version's description is the digest of its program."""
    return {
        "LaunchTemplateName": resource_name(order.machine),
        "VersionDescription": order.digest,
        "LaunchTemplateData": data,
        "TagSpecifications": [{"ResourceType": "launch-template", "Tags": tag_list(order.machine)}],
    }


def named(template_id: str, version: int) -> dict[str, str]:
    """A version by its number: `$Latest` would let nothing go back."""
    return {"LaunchTemplateId": template_id, "Version": str(version)}


def group(order: FleetOrder, template_id: str, subnets: list[str]) -> dict[str, Any]:
    """CreateAutoScalingGroup, without members: first comes the deadline, then the size."""
    name = resource_name(order.machine)
    hook = {"LifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING", "DefaultResult": "ABANDON", "HeartbeatTimeout": HEARTBEAT_S}
    return {
        "AutoScalingGroupName": name,
        "MinSize": 0,
        "MaxSize": 0,
        "DesiredCapacity": 0,
        "LaunchTemplate": named(template_id, 1),
        "VPCZoneIdentifier": ",".join(subnets),
        "HealthCheckType": "EC2",
        "HealthCheckGracePeriod": 0,
        "DefaultInstanceWarmup": 0,
        **reservation(order),
        "LifecycleHookSpecificationList": [{"LifecycleHookName": HOOK, **hook}],
        "Tags": [
            {**tag, "ResourceId": name, "ResourceType": "auto-scaling-group", "PropagateAtLaunch": tag["Key"] == base.DEADLINE_TAG}
            for tag in tag_list(order.machine)
        ],
    }


def reservation(order: FleetOrder) -> dict[str, Any]:
    """Where the group takes its machines from. Of a block the template says the market alone, as for one machine.

    docs.aws.amazon.com/autoscaling/ec2/userguide/target-capacity-reservations.html
    """
    capacity = capacity_of(order.machine)
    if capacity is None or capacity.reserved is None:
        return {}
    target = {"CapacityReservationIds": [capacity.reserved]}
    only = {"CapacityReservationPreference": "capacity-reservations-only", "CapacityReservationTarget": target}
    return {_RESERVED: only}


def deadline(order: FleetOrder) -> dict[str, Any]:
    """PutScheduledUpdateGroupAction: at the deadline the group goes to nothing; members that it leaves running end themselves then."""
    at: dt.datetime = order.machine.deadline
    sizes = {"MinSize": 0, "MaxSize": 0, "DesiredCapacity": 0}
    return {"AutoScalingGroupName": resource_name(order.machine), "ScheduledActionName": DEADLINE, "StartTime": at, **sizes}


def refresh(name: str, target: dict[str, str], waves: Waves) -> dict[str, Any]:
    """StartInstanceRefresh towards a numbered version.

    A member that somebody protected from scale-in is replaced like the others, because whoever rolls wants one program on all members. AWS
    otherwise waits an hour for the protection to be taken away, and then fails
    (docs.aws.amazon.com/autoscaling/ec2/APIReference/API_RefreshPreferences.html).
    """
    preferences = {
        "MinHealthyPercentage": waves.healthy_percent,
        "SkipMatching": True,
        "AutoRollback": True,
        "CheckpointPercentages": list(waves.percents),
        "CheckpointDelay": waves.pause_s,
        "ScaleInProtectedInstances": "Refresh",
    }
    return {"AutoScalingGroupName": f"gpuprov-{name}", "DesiredConfiguration": {"LaunchTemplate": target}, "Preferences": preferences}


def superseded(order: FleetOrder, digest: str) -> str:
    """Where the store says that the fleet does not roll to this program any more: a member that has it must not end the roll after it."""
    return f"{order.prefix}bundles/{order.machine.launch_id}-{digest}.superseded"


def member_policy(order: FleetOrder, region: str) -> dict[str, Any]:
    """What a member's role may do: read its program, post under its own name, and speak for itself in its own group.

    aws:userid is ROLE-ID:INSTANCE-ID for the role of a machine, and AWS fills it in: a member cannot write its neighbour's
    (docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_variables.html).
    """
    part, fleet = partition(region), order.machine.name
    store = f"arn:{part}:s3:::{order.bucket}/{order.prefix}"
    own_group = f"arn:{part}:autoscaling:{region}:*:autoScalingGroup:*:autoScalingGroupName/{resource_name(order.machine)}"
    own = ("CompleteLifecycleAction", "RecordLifecycleActionHeartbeat", "RollbackInstanceRefresh", "SuspendProcesses")
    listed, asks = {"StringLike": {"s3:prefix": [f"{order.prefix}failures/{fleet}/*"]}}, ("AutoScalingGroups", "InstanceRefreshes")
    posts = [f"{store}evidence/{fleet}/${{aws:userid}}/*", f"{store}failures/{fleet}/*/${{aws:userid}}"]
    statements: list[dict[str, Any]] = [
        {"Sid": "Fetch", "Action": ["s3:GetObject"], "Resource": [f"{store}bundles/*"]},
        {"Sid": "Post", "Action": ["s3:PutObject"], "Resource": posts},
        {"Sid": "CountFailures", "Action": ["s3:ListBucket"], "Resource": [f"arn:{part}:s3:::{order.bucket}"], "Condition": listed},
        {"Sid": "OwnGroup", "Action": [f"autoscaling:{name}" for name in own], "Resource": [own_group]},
        # Describing cannot be narrowed: docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2autoscaling.html
        {"Sid": "AskAboutFleets", "Action": [f"autoscaling:Describe{each}" for each in asks], "Resource": ["*"]},
    ]
    allowed = [{"Effect": "Allow", **statement} for statement in statements]
    return {"Version": "2012-10-17", "Statement": [*allowed, *disk_key.store_statements(order.store_key)]}


def caller_policy(order: FleetOrder, region: str, parameters: tuple[str, ...]) -> dict[str, Any]:
    """What whoever runs `gpuprov fleet` needs: what one machine needs, and the template, the group and the store."""
    machine, place = order.machine, place_of(order.machine)
    places: list[AwsPlace] = [place] if place else []
    document = policy_document(
        name=machine.name,
        regions=[region],
        instance_types=[machine.instance_type],
        spot=machine.market == "spot",
        subnet=machine.subnet,
        places=places,
        parameters=parameters,
    )
    part, name = partition(region), machine.name
    templates, groups = f"arn:{part}:ec2:{region}:*:launch-template/*", f"arn:{part}:autoscaling:{region}:*:autoScalingGroup:*:*"
    requested = {f"aws:RequestTag/{base.NAME_TAG}": name}
    made, with_template = {"StringEquals": requested}, {"StringEquals": {**requested, "ec2:CreateAction": "CreateLaunchTemplate"}}
    store = f"arn:{part}:s3:::{order.bucket}"
    asks = ("AutoScalingGroups", "InstanceRefreshes", "ScalingActivities", "ScheduledActions")
    changes = (
        *("CancelInstanceRefresh", "CreateOrUpdateTags", "DeleteAutoScalingGroup", "PutScheduledUpdateGroupAction", "ResumeProcesses"),
        *("StartInstanceRefresh", "TerminateInstanceInAutoScalingGroup", "UpdateAutoScalingGroup"),
    )

    def owned(service: str) -> dict[str, Any]:
        return {"StringEquals": {f"{service}:ResourceTag/{base.NAME_TAG}": name}}

    kept = ("CreateLaunchTemplateVersion", "DeleteLaunchTemplate", "RunInstances")
    more = [
        ("AskAboutFleets", [f"autoscaling:Describe{each}" for each in asks], ["*"], {}),
        ("AskAboutTemplates", ["ec2:DescribeLaunchTemplateVersions", "ec2:DescribeLaunchTemplates", "ec2:DescribeSubnets"], ["*"], {}),
        ("MakeTemplate", ["ec2:CreateLaunchTemplate"], [templates], made),
        ("TagTemplate", ["ec2:CreateTags"], [templates], with_template),
        ("OwnTemplate", [f"ec2:{each}" for each in kept], [templates], owned("ec2")),
        ("MakeFleet", ["autoscaling:CreateAutoScalingGroup"], [groups], made),
        ("OwnFleet", [f"autoscaling:{each}" for each in changes], [groups], owned("autoscaling")),
        ("Programs", ["s3:GetObject", "s3:PutObject"], [f"{store}/{order.prefix}bundles/*"], {}),
        ("ReadEvidence", ["s3:GetObject"], [f"{store}/{order.prefix}evidence/{name}/*"], {}),
        ("ListEvidence", ["s3:ListBucket"], [store], {"StringLike": {"s3:prefix": [f"{order.prefix}evidence/{name}/*"]}}),
    ]
    statements = [
        {"Sid": sid, "Effect": "Allow", "Action": sorted(actions), "Resource": where, **({"Condition": held} if held else {})}
        for sid, actions, where, held in more
    ]
    given = role_of(machine)
    asked = {"SimulatePrincipalPolicy": f"role/{given.role_name}", "GetInstanceProfile": f"instance-profile/*{given.instance_profile}"}
    statements += [
        {"Sid": action, "Effect": "Allow", "Action": [f"iam:{action}"], "Resource": [f"arn:{part}:iam::*:{of}"]}
        for action, of in asked.items()
    ]
    own = [*statements, service_role("AutoScaling", [region]), *disk_key.store_statements(order.store_key)]
    return {**document, "Statement": [*document["Statement"], *own]}
