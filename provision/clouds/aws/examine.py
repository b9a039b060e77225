"""What AWS says before a launch, and what it announces about machines that run: questions only, which change and cost nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from provision.clouds import base
from provision.clouds.aws import data, requests
from provision.clouds.aws.client import AwsAccess, client
from provision.clouds.aws.errors import classified, code_of
from provision.clouds.aws.network import subnet_of
from provision.errors import CloudError, CloudInvalidError, ImageNotFoundError, PermissionRefusedError

# A region that is not enabled refuses the credentials themselves, so that this one is asked about it: it is always enabled.
_HOME: Final = "us-east-1"
_ENABLED: Final = {"opt-in-not-required", "opted-in"}
# What a spot request says that is no news: docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-request-status.html.
_QUIET: Final = {None, "fulfilled", "request-canceled-and-instance-running", "instance-terminated-by-user"}
_COUNTED: Final = ["pending", "running"]  # stopped instances do not count against a quota

Image = Callable[[base.Order], str]


def examine(order: base.Order, region: str, access: AwsAccess, *, image: Image) -> list[base.Answer]:
    """All questions at the same time; one that could not be asked answers None, with the reason.

    Args:
        order: what would be launched.
        region: where.
        access: whose AWS.
        image: finds the id of the order's image.
    """
    questions: dict[str, Callable[[], base.Answer]] = {
        "region": lambda: _region(region, access),
        "offered": lambda: _offered(order, region, access),
        "quota": lambda: _quota(order, region, access),
        "image": lambda: _image(order, region, access, image),
        "dry-run": lambda: _dry_run(order, region, access, image),
    }

    def ask(about: str) -> base.Answer:
        try:
            return questions[about]()
        except CloudError as error:
            return base.Answer(about, holds=None, said=error.message)

    with ThreadPoolExecutor(max_workers=len(questions), thread_name_prefix="aws") as pool:
        answers = list(pool.map(ask, questions))
    if answers[0].holds is False:
        return [answers[0], *(base.Answer(a.about, holds=None, said=answers[0].said) for a in answers[1:])]
    return answers


def _region(region: str, access: AwsAccess) -> base.Answer:
    with classified("ec2:DescribeRegions", _HOME):
        found = client("ec2", _HOME, access).describe_regions(AllRegions=True, RegionNames=[region])["Regions"]
    status = found[0].get("OptInStatus", "") if found else "unknown to AWS"
    return base.Answer("region", holds=status in _ENABLED, said=f"{region} is {status}")


def _offered(order: base.Order, region: str, access: AwsAccess) -> base.Answer:
    with classified("ec2:DescribeInstanceTypeOfferings", region):
        reply = client("ec2", region, access).describe_instance_type_offerings(
            LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": [order.instance_type]}]
        )
    zones = sorted(offer["Location"] for offer in reply["InstanceTypeOfferings"])
    if not zones or (order.zone and order.zone not in zones):
        where = order.zone or region
        others = f"; {', '.join(zones)} have it" if zones else ""
        return base.Answer("offered", holds=False, said=f"{order.instance_type} is not offered in {where}{others}")
    return base.Answer("offered", holds=True, said=f"{order.instance_type} is offered in {', '.join(zones)}")


def _quota(order: base.Order, region: str, access: AwsAccess) -> base.Answer:
    """Needed against limit and use: all three in vCPUs, counted over the families that share the quota."""
    code = data.quota(order.instance_type, order.market)
    record = data.types().get(order.instance_type)
    if code is None or record is None:
        return base.Answer("quota", holds=None, said=f"which quota {order.instance_type} counts against is not in the catalogue")
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="aws") as pool:
        counting = pool.submit(_used_vcpus, code, order.market, region, access)
        with classified("servicequotas:GetServiceQuota", region):
            quotas = client("service-quotas", region, access)
            limit = int(quotas.get_service_quota(ServiceCode="ec2", QuotaCode=code)["Quota"]["Value"])
        used = counting.result()
    needed = record.vcpus * order.count
    said = f"{needed} vCPUs needed, {used} of {limit} used ({code})"
    return base.Answer("quota", holds=used + needed <= limit, said=said)


def _used_vcpus(code: str, market: str, region: str, access: AwsAccess) -> int:
    with classified("ec2:DescribeInstances", region):
        pages = client("ec2", region, access).get_paginator("describe_instances")
        running = [
            i
            for page in pages.paginate(Filters=[{"Name": "instance-state-name", "Values": _COUNTED}])
            for reservation in page["Reservations"]
            for i in reservation["Instances"]
        ]
    of_quota = [i for i in running if i.get("InstanceLifecycle", "on-demand") == market and data.quota(i["InstanceType"], market) == code]
    return sum(_vcpus(i) for i in of_quota)


def _vcpus(raw: dict[str, Any]) -> int:
    """Of a running instance: the catalogue's figure, or for a type that is not in it what EC2 says of the machine."""
    record = data.types().get(raw["InstanceType"])
    if record is not None:
        return record.vcpus
    options = raw.get("CpuOptions", {})
    return int(options.get("CoreCount", 0)) * int(options.get("ThreadsPerCore", 1))


def _image(order: base.Order, region: str, access: AwsAccess, image: Image) -> base.Answer:
    try:
        image_id = image(order)
        with classified("ec2:DescribeImages", region):
            found = client("ec2", region, access).describe_images(ImageIds=[image_id])["Images"]
    except ImageNotFoundError as error:
        return base.Answer("image", holds=False, said=error.message)
    if not found or found[0].get("State", "available") != "available":
        return base.Answer("image", holds=False, said=f"image {image_id} is not available in {region}")
    return base.Answer("image", holds=True, said=f"{image_id} {found[0].get('Name', '')}".strip())


def _dry_run(order: base.Order, region: str, access: AwsAccess, image: Image) -> base.Answer:
    """Whether these credentials may launch: EC2 checks the permission and makes nothing."""
    try:
        subnet = subnet_of(order, region, access)
    except CloudInvalidError as error:
        return base.Answer("dry-run", holds=False, said=error.message)
    within = {"VpcId": subnet.vpc} if subnet else {}
    ec2 = client("ec2", region, access, retried=False)
    tags = [{"ResourceType": "security-group", "Tags": requests.tag_list(order)}]
    name = requests.resource_name(order)
    calls: dict[str, Callable[[], Any]] = {
        "ec2:CreateSecurityGroup": lambda: ec2.create_security_group(
            GroupName=name, Description=f"gpuprov {order.name}: SSH", TagSpecifications=tags, DryRun=True, **within
        ),
        "ec2:RunInstances": lambda: ec2.run_instances(ImageId=image(order), **requests.run_instances(order, region), DryRun=True),
    }
    for action, call in calls.items():
        try:
            _would(action, region, call)
        except PermissionRefusedError as error:
            return base.Answer("dry-run", holds=False, said=error.message)
    return base.Answer("dry-run", holds=True, said="a dry run of the launch is allowed")


def _would(action: str, region: str, call: Callable[[], Any]) -> None:
    from botocore.exceptions import ClientError  # noqa: PLC0415

    with classified(action, region):
        try:
            call()
        except ClientError as error:
            if code_of(error) != "DryRunOperation":
                raise


def notices(instances: Sequence[base.Instance], region: str, access: AwsAccess) -> dict[str, tuple[str, ...]]:
    """Instance id → what AWS announced; instances about which it announced nothing are left out."""
    if not instances:
        return {}
    found: dict[str, list[str]] = defaultdict(list)
    ids = [i.id for i in instances]
    ec2 = client("ec2", region, access)
    by_id = [{"Name": "instance-id", "Values": [i.id for i in instances if i.market == "spot"]}]
    with classified("ec2:DescribeInstanceStatus", region):
        pages = list(ec2.get_paginator("describe_instance_status").paginate(InstanceIds=ids, IncludeAllInstances=True))
    for status in (s for page in pages for s in page["InstanceStatuses"]):
        for event in status.get("Events", []):
            # EC2 leaves events that are over in its answer, marked so in their descriptions.
            if not event.get("Description", "").startswith(("[Completed]", "[Canceled]")):
                found[status["InstanceId"]].append(_event(event))
    if by_id[0]["Values"]:
        with classified("ec2:DescribeSpotInstanceRequests", region):
            requests = ec2.describe_spot_instance_requests(Filters=by_id)["SpotInstanceRequests"]
        for spot in requests:
            status = spot.get("Status", {})
            if spot.get("InstanceId") and status.get("Code") not in _QUIET:
                found[spot["InstanceId"]].append(f"spot: {status['Code']}: {status.get('Message', '')}".rstrip(": "))
    return {instance_id: tuple(said) for instance_id, said in found.items()}


def _event(event: dict[str, Any]) -> str:
    starts = f", not before {event['NotBefore'].isoformat(timespec='minutes')}" if event.get("NotBefore") else ""
    return f"{event.get('Code', 'event')}{starts}: {event.get('Description', '')}".rstrip(": ")
