"""What AWS says before a launch, and what it announces about machines that run: questions that change nothing and cost nothing."""

import functools
from collections import defaultdict
from collections.abc import Callable, Sequence
from operator import call
from typing import Any, Final

from provision.clouds import base
from provision.clouds.aws import data, disk_key, guardrails, identity, reservations, store
from provision.clouds.aws.api import AwsRegionApi
from provision.clouds.aws.client import client
from provision.clouds.aws.errors import cloud_errors, unless_refused
from provision.clouds.aws.firewall import subnet_of
from provision.clouds.aws.image_choice import Ami, Wanted, choose
from provision.clouds.aws.place import capacity_of
from provision.clouds.aws.requests import run_instances, security_group
from provision.clouds.refusals import AccountRefusedError, RegionRefusedError
from provision.concurrent import at_once
from provision.errors import CloudError, CloudInvalidError, ImageNotFoundError, PermissionRefusedError

# This region answers for the others: it is always enabled, while a region that is not enabled refuses the credentials themselves.
_HOME: Final = "us-east-1"
_ENABLED: Final = {"opt-in-not-required", "opted-in"}
# Codes of a spot request that announce nothing: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-request-status.html.
_QUIET: Final = {None, "fulfilled", "request-canceled-and-instance-running", "instance-terminated-by-user"}
_SPOT_ROLE: Final = "AWSServiceRoleForEC2Spot"
_COUNTED: Final = ["pending", "running"]  # stopped instances do not count against a quota

FindImage = Callable[[base.Order], Ami]


def examine(api: AwsRegionApi, order: base.Order, *, find: FindImage) -> list[base.Answer]:
    """Ask all questions at the same time; the answer to one that fails is None, with the reason.

    Args:
        api: the region.
        order: the launch.
        find: finds the order's image.
    """
    questions = _questions(api, order, find)

    def ask(about: str) -> base.Answer:
        try:
            return questions[about]()
        except CloudError as error:
            return base.Answer(about, holds=None, said=error.message)

    region, *others = at_once(ask, questions)
    if region.holds is False:
        return [region, *(base.Answer(other.about, holds=None, said=region.said) for other in others)]
    return [region, *others]


def _questions(api: AwsRegionApi, order: base.Order, find: FindImage) -> dict[str, Callable[[], base.Answer]]:
    questions: dict[str, Callable[[], base.Answer]] = {
        "region": lambda: _region(api),
        "offered": lambda: _offered(api, order),
        "quota": lambda: _quota(api, order),
        "image": lambda: _image(api, order, find),
        **({} if order.subnet else {"network": lambda: _network(api, order)}),  # one that is named the dry run looks at
        "public-access": lambda: _public_access(api, order),
        "dry-run": lambda: _dry_run(api, order, find),
    }
    if order.market == "spot":
        questions["spot-role"] = lambda: _spot_role(api)

    capacity = capacity_of(order)
    if capacity and capacity.regional:
        questions["capacity"] = lambda: reservations.examine(api, order, capacity)
    block = capacity.block if capacity else None
    if block:
        questions["block-price"] = lambda: reservations.block_price(api, block)

    for about, key in zip(("disk-key", "image-key"), disk_key.by_use(order, api.region), strict=True):
        if key is not None:
            questions[about] = functools.partial(_disk_key, api, key, about)

    if order.store:
        questions["store"] = lambda: store.examine(api, order)

    given = identity.of(order)
    if given is not None:
        questions["identity"] = lambda: _identity(api, given.instance_profile)
    return questions


def _region(api: AwsRegionApi) -> base.Answer:
    with cloud_errors("ec2:DescribeRegions", _HOME):
        regions = client("ec2", _HOME, api.access).describe_regions(AllRegions=True, RegionNames=[api.region])["Regions"]
    status = regions[0].get("OptInStatus", "") if regions else "unknown to AWS"
    return base.Answer("region", holds=status in _ENABLED, said=f"{api.region} is {status}")


def offering_zones(api: AwsRegionApi, order: base.Order) -> list[str]:
    """The zones of the region that offer the order's type."""
    with cloud_errors("ec2:DescribeInstanceTypeOfferings", api.region):
        reply = api.ec2.describe_instance_type_offerings(
            LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": [order.instance_type]}]
        )
    return sorted(offering["Location"] for offering in reply["InstanceTypeOfferings"])


def _offered(api: AwsRegionApi, order: base.Order) -> base.Answer:
    zones = offering_zones(api, order)
    if not zones or (order.zone and order.zone not in zones):
        others = f"; {', '.join(zones)} have it" if zones else ""
        return base.Answer("offered", holds=False, said=f"{order.instance_type} is not offered in {order.zone or api.region}{others}")
    return base.Answer("offered", holds=True, said=f"{order.instance_type} is offered in {', '.join(zones)}")


def _quota(api: AwsRegionApi, order: base.Order) -> base.Answer:
    """Compare what is needed with the limit and the use: vCPUs, counted over all families that share the quota."""
    code = data.quota(order.instance_type, order.market)
    record = data.types().get(order.instance_type)
    if code is None or record is None:
        return base.Answer("quota", holds=None, said=f"the catalog does not know which quota {order.instance_type} counts against")
    (limit, whose), (used, _) = at_once(call, (lambda: _vcpu_limit(api, code), lambda: (_used_vcpus(api, code, order.market), "")))
    needed = record.vcpus * order.count
    return base.Answer("quota", holds=used + needed <= limit, said=f"{needed} vCPUs needed, {used} of {limit} used ({code}{whose})")


def _vcpu_limit(api: AwsRegionApi, code: str) -> tuple[int, str]:
    """The limit, and whether it is AWS's default: of an account's own there may be none.

    https://github.com/hashicorp/terraform-provider-aws/issues/10929; docs.aws.amazon.com/servicequotas/2019-06-24/apireference,
    API_GetAWSDefaultServiceQuota: it "does not reflect any quota increases".
    """
    quotas, asked = api.client("service-quotas"), {"ServiceCode": "ec2", "QuotaCode": code}
    with cloud_errors("servicequotas:GetServiceQuota", api.region):
        reply = unless_refused(lambda: dict(quotas.get_service_quota(**asked)), "NoSuchResourceException")
    if reply is not None:
        return int(reply["Quota"]["Value"]), ""
    with cloud_errors("servicequotas:GetAWSDefaultServiceQuota", api.region):
        return int(quotas.get_aws_default_service_quota(**asked)["Quota"]["Value"]), ", AWS's default"


def _used_vcpus(api: AwsRegionApi, code: str, market: str) -> int:
    running = api.instances([{"Name": "instance-state-name", "Values": _COUNTED}])
    return sum(
        _vcpus(i) for i in running if i.get("InstanceLifecycle", "on-demand") == market and data.quota(i["InstanceType"], market) == code
    )


def _vcpus(raw: dict[str, Any]) -> int:
    """The vCPUs of a running instance: from the catalog, or from EC2's description where the catalog lacks the type."""
    record = data.types().get(raw["InstanceType"])
    if record is not None:
        return record.vcpus
    options = raw.get("CpuOptions", {})
    return int(options.get("CoreCount", 0)) * int(options.get("ThreadsPerCore", 1))


def _image(api: AwsRegionApi, order: base.Order, find: FindImage) -> base.Answer:
    """The image, with its name, owner and day; and whether the type can start from it."""
    try:
        image = find(order)
        with cloud_errors("ec2:DescribeImages", api.region):
            raws = api.ec2.describe_images(ImageIds=[image.id])["Images"]
        if against := next(filter(None, map(guardrails.not_allowed, raws)), ""):
            return base.Answer("image", holds=False, said=against)
        image = choose(raws, Wanted(order.instance_type, id=image.id), api.region)
    except ImageNotFoundError as error:
        return base.Answer("image", holds=False, said=f"{error.message}{guardrails.LEFT_OUT}")
    except CloudInvalidError as error:
        return base.Answer("image", holds=False, said=error.message)
    about = f" (owner {image.owner}, {image.created})" if image.owner and image.created else ""
    locked = ", encrypted: its key's policy must let this account use it" if image.encrypted else ""
    return base.Answer("image", holds=True, said=f"{image.id} {image.name}".strip() + about + locked)


def _network(api: AwsRegionApi, order: base.Order) -> base.Answer:
    """Whether there is a default VPC with a default subnet in the order's zone."""
    with cloud_errors("ec2:DescribeVpcs", api.region):
        vpcs = api.ec2.describe_vpcs(Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"]
    if not vpcs:
        return base.Answer("network", holds=False, said=f"{api.region} has no default VPC: name a subnet in network.subnet of the profile")
    with cloud_errors("ec2:DescribeSubnets", api.region):
        subnets = api.ec2.describe_subnets(Filters=[{"Name": "default-for-az", "Values": ["true"]}])["Subnets"]
    zones = sorted(row["AvailabilityZone"] for row in subnets)
    fits = order.zone in zones if order.zone else bool(zones)
    return base.Answer("network", holds=fits, said=f"default VPC {vpcs[0]['VpcId']}, default subnets in {', '.join(zones) or 'no zone'}")


def _public_access(api: AwsRegionApi, order: base.Order) -> base.Answer:
    """Whether VPC Block Public Access leaves the machine its way out: docs.aws.amazon.com/vpc/latest/userguide/security-vpc-bpa.html."""
    with cloud_errors("ec2:DescribeVpcBlockPublicAccessOptions", api.region):
        options = api.ec2.describe_vpc_block_public_access_options()["VpcBlockPublicAccessOptions"]
    mode = options.get("InternetGatewayBlockMode", "off")
    said = f"VPC Block Public Access of {api.region} is {mode}"
    if mode == "off" or (mode == "block-ingress" and not order.public_address):  # then NAT gateways still let machines out
        return base.Answer("public-access", holds=True, said=said)
    holds, unless = (False, "") if options.get("ExclusionsAllowed") == "not-allowed" else (None, ", unless its VPC or subnet is excluded")
    return base.Answer("public-access", holds=holds, said=f"{said}: the machine reaches nothing{unless}")


def _spot_role(api: AwsRegionApi) -> base.Answer:
    """Whether the account has the role that EC2 makes at its first spot launch, by the rights of whoever launches."""
    with cloud_errors("iam:GetRole", api.region):
        found = unless_refused(lambda: dict(api.client("iam").get_role(RoleName=_SPOT_ROLE)), "NoSuchEntity")
    said = "is there" if found else "is not there yet: the first spot launch makes it, if you may iam:CreateServiceLinkedRole"
    return base.Answer("spot-role", holds=True if found else None, said=f"{_SPOT_ROLE} {said}")


def _disk_key(api: AwsRegionApi, key: str, about: str) -> base.Answer:
    with cloud_errors("kms:DescribeKey", api.region):
        reply = unless_refused(lambda: dict(api.client("kms").describe_key(KeyId=key)), "NotFoundException")
    if reply is None:
        return base.Answer(about, holds=False, said=f"KMS has no {key} in {api.region}")
    state = reply["KeyMetadata"]["KeyState"]
    return base.Answer(about, holds=state == "Enabled", said=f"{key} is {state}")


def _identity(api: AwsRegionApi, name: str) -> base.Answer:
    """What the machine may do, where these credentials may read it; no launch needs that, and without it nobody knows."""
    try:
        with cloud_errors("iam:GetInstanceProfile", api.region):
            documents = unless_refused(lambda: dict(identity.documents_of(api.client("iam"), name)), "NoSuchEntity")
    except PermissionRefusedError as error:
        return base.Answer("identity", holds=None, said=f"it is not known what {name} may do: {error.message}")
    if documents is None:
        return base.Answer("identity", holds=False, said=f"the account has no instance profile {name}")
    authority = identity.authority(documents)
    said = f"{name}: {authority.severity} risk: {authority.said}"
    return base.Answer("identity", holds=authority.severity != "high", said=said, authority=authority)


def _dry_run(api: AwsRegionApi, order: base.Order, find: FindImage) -> base.Answer:
    """Whether these credentials may launch: EC2 checks the permission and makes nothing."""
    try:
        subnet = subnet_of(api, order)
    except CloudInvalidError as error:
        return base.Answer("dry-run", holds=False, said=error.message)
    try:
        group = security_group(order, subnet.vpc if subnet else "")
        _would(api, "ec2:CreateSecurityGroup", lambda: api.ec2_once.create_security_group(**group, DryRun=True))
        image = find(order)
        machines = run_instances(order, api.region, root=image.root_device)
        _would(api, "ec2:RunInstances", lambda: api.ec2_once.run_instances(ImageId=image.id, **machines, DryRun=True))
    except (PermissionRefusedError, RegionRefusedError, AccountRefusedError) as error:
        return base.Answer("dry-run", holds=False, said=error.message)
    return base.Answer("dry-run", holds=True, said="a dry run of the launch is allowed")


def _would(api: AwsRegionApi, action: str, request: Callable[[], Any]) -> None:
    with cloud_errors(action, api.region):
        # The first is the answer to a dry run that would have worked. The second is about a name that is taken, perhaps by this launch.
        unless_refused(request, "DryRunOperation", "InvalidGroup.Duplicate")


def notices(api: AwsRegionApi, instances: Sequence[base.Instance]) -> dict[str, tuple[str, ...]]:
    """Instance id → what AWS announced; instances about which it announced nothing are left out."""
    if not instances:
        return {}
    texts: dict[str, list[str]] = defaultdict(list)
    with cloud_errors("ec2:DescribeInstanceStatus", api.region):
        pager = api.ec2.get_paginator("describe_instance_status")
        pages = list(pager.paginate(InstanceIds=[i.id for i in instances], IncludeAllInstances=True))
    for status in (s for page in pages for s in page["InstanceStatuses"]):
        for event in status.get("Events", []):
            # EC2 leaves events that are over in its answer and marks them in their descriptions.
            if not event.get("Description", "").startswith(("[Completed]", "[Canceled]")):
                texts[status["InstanceId"]].append(_event(event))
    spot_ids = [i.id for i in instances if i.market == "spot"]
    if spot_ids:
        with cloud_errors("ec2:DescribeSpotInstanceRequests", api.region):
            reply = api.ec2.describe_spot_instance_requests(Filters=[{"Name": "instance-id", "Values": spot_ids}])
        for spot in reply["SpotInstanceRequests"]:
            status = spot.get("Status", {})
            if spot.get("InstanceId") and status.get("Code") not in _QUIET:
                texts[spot["InstanceId"]].append(f"spot: {status['Code']}: {status.get('Message', '')}".rstrip(": "))
    return {instance_id: tuple(lines) for instance_id, lines in texts.items()}


def _event(event: dict[str, Any]) -> str:
    starts = f", not before {event['NotBefore'].isoformat(timespec='minutes')}" if event.get("NotBefore") else ""
    return f"{event.get('Code', 'event')}{starts}: {event.get('Description', '')}".rstrip(": ")
