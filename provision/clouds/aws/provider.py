"""AWS as far as it is known without contacting it: this module is the `Provider` of AWS."""

import datetime as dt
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from provision.clouds import baked
from provision.clouds.account import setting
from provision.clouds.aws import bake_permissions, capacity, data, disk_key, identity, requests
from provision.clouds.aws.data import sources as sources  # noqa: PLC0414 - part of the Provider
from provision.clouds.aws.image_choice import own_of, wanted
from provision.clouds.aws.offers import offered_in as offered_in  # noqa: PLC0414 - part of the Provider
from provision.clouds.aws.offers import offers as offers  # noqa: PLC0414 - part of the Provider
from provision.clouds.aws.offers import refreshes as refreshes  # noqa: PLC0414 - part of the Provider
from provision.clouds.aws.offers import regions as regions  # noqa: PLC0414 - part of the Provider
from provision.clouds.aws.permissions import parameters_of, policy_document
from provision.clouds.aws.permissions import permissions as permissions  # noqa: PLC0414 - part of the Provider
from provision.clouds.aws.place import AwsPlace
from provision.clouds.aws.prices import extras_price as extras_price  # noqa: PLC0414 - part of the Provider
from provision.clouds.aws.prices import price as price  # noqa: PLC0414 - part of the Provider
from provision.clouds.aws.prices import spot_price as spot_price  # noqa: PLC0414 - part of the Provider
from provision.clouds.base import NAME_TAG, Order
from provision.clouds.forms import Form
from provision.clouds.offline import PlaceBase
from provision.clouds.own import BucketCopy, CloudOption
from provision.clouds.own_image import option_of
from provision.clouds.terms import (
    DataPart,
    DeadlineKeeper,
    DriverAdvice,
    DriverImage,
    FirstKey,
    Grant,
    Image,
    KnownImage,
    Offer,
    PlannedCall,
    Refusal,
    RefusalKind,
    Safeguard,
    SecureBoot,
    Way,
)
from provision.nearest import nearest

# A subnet's id has 17 digits, or 8 where it was made before 2018.
_SUBNET: Final = re.compile(r"subnet-([0-9a-f]{8}|[0-9a-f]{17})")
_SHOWN: Final = 4

name: str = "aws"
title: str = "AWS"
deadline: DeadlineKeeper = DeadlineKeeper(
    by="host",
    title="On AWS the machine itself keeps the deadline",
    reason="EC2 has no deadline of its own: a timer on the host powers it off, which ends it, and root there can stop the timer",
    narrower="an alarm in the account beside it",
)
# docs/sources/clouds.md §11, from memory: the variable store of a public image is empty, so the firmware is in setup mode.
secure_boot: SecureBoot = SecureBoot(
    available=False,
    why="AWS's public images have no Secure Boot keys enrolled, so machines start with it off; an image of your own with UefiData has",
)
first_key: FirstKey = FirstKey()
boot_disk_doubt: str = ""
stopped_costs: str = ""
safeguards: tuple[Safeguard, ...] = (
    Safeguard("IMDSv2 required", "IMDSv2 only", "the metadata service answers only with a session token, and only to the machine itself"),
    Safeguard("no instance role", unless="identity"),
    Safeguard("host keys read from the console"),
)
# The ProxyCommand is that of "Allowing SSH connections for Session Manager":
# docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-getting-started-enable-ssh-connections.html. It names the region,
# because the machine need not be in the region of the user's profile. The permissions:
# …/systems-manager/latest/userguide/getting-started-restrict-access-quickstart.html.
# Without `identity` a machine has no role, so the account itself must let Systems Manager manage machines (IMDSv2 required, as here):
# …/systems-manager/latest/userguide/fleet-manager-default-host-management-configuration.html.
ways: Mapping[str, Way] = {
    "ssm": Way(
        name="ssm",
        opens=(),
        origin="",
        origin_detail="",
        needs=(
            "through `aws ssm`: the AWS CLI and its Session Manager plugin on this machine, credentials of a profile in ~/.aws",
            "the account's Default Host Management Configuration must be on, or `identity` name a role with AmazonSSMManagedInstanceCore",
            "the image must have the SSM Agent, 3.2.582.0 or later",
        ),
        programs=("aws", "session-manager-plugin"),
        credential_variables=("AWS_CONFIG_FILE", "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE"),
        permissions=("ssm:StartSession", "ssm:TerminateSession"),
        proxy_command="aws ssm start-session --target {id} --document-name AWS-StartSSHSession "
        "--parameters portNumber=%p --region {region}",
    )
}
bucket: BucketCopy | None = identity.BUCKET
forms: Mapping[str, Form] = {
    "cloudformation": Form(
        "a CloudFormation template of one place on AWS", "template.json", "provision.clouds.aws.forms.cloudformation", "aws"
    ),
    "terraform-aws": Form("Terraform of one place on AWS", None, "provision.clouds.aws.forms.terraform", "aws"),
}
agent_files: tuple[str, ...] = ("/var/lib/amazon/ssm", "/var/snap/amazon-ssm-agent/common/ssm")
reserved_tags: tuple[str, ...] = ("aws",)
metadata_hosts: tuple[str, ...] = ("169.254.169.254", "fd00:ec2::254")
where_to_look: str = "`aws ec2 describe-instance-type-offerings`, or ask with `gpuprov catalog refresh --only aws`"
price_hint: str = "`gpuprov catalog refresh --only prices` asks AWS for its prices"
place: type[PlaceBase] = AwsPlace


def default_region() -> tuple[str, str]:
    """In the order of https://docs.aws.amazon.com/sdkref/latest/guide/feature-region.html."""
    profile = os.environ.get("AWS_PROFILE") or "default"
    path = Path(os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config")
    return setting(("AWS_REGION", "AWS_DEFAULT_REGION"), path, profile if profile == "default" else f"profile {profile}", "region")


def parts() -> dict[str, DataPart]:
    """Instance types, regions, prices, images, quotas, and what is known of drivers."""
    known = data.aws()
    return {
        "aws instance types": DataPart([list(data.types().values()), known.withdrawn], "aws"),
        "aws regions": DataPart(known.regions, ""),
        "aws prices": DataPart([known.prices, known.disk_prices, known.address_price], "prices"),
        "aws images": DataPart([known.images, known.driver_images], "aws"),
        "aws quotas": DataPart(known.quotas, ""),
        "aws drivers": DataPart([known.drivers, known.licensed], ""),
    }


def driver_advice(instance_type: str) -> DriverAdvice | None:
    """What AWS's own image does on a family."""
    family = instance_type.partition(".")[0]
    record = next((record for record in data.aws().drivers if family in record.families), None)
    return DriverAdvice(record.flavour, record.gsp, f"{family}: {record.why}") if record else None


def place_at(offer: Offer, regions: Sequence[str]) -> AwsPlace:
    """A place with these regions; AWS chooses the zone."""
    return AwsPlace(cloud="aws", instance_type=offer.instance_type, regions=tuple(regions))


def smallest_with(gpu: str) -> str:
    """The smallest type with a GPU and its regions, in a few words; empty when there is none."""
    types = [t for t in data.types().values() if t.gpu == gpu and t.withdrawn is None and t.offered]
    if not types:
        return ""
    smallest = min(types, key=lambda t: (t.gpus, t.vcpus))
    return f"{smallest.type} in {_few(sorted(smallest.offered))} of AWS"


def _few(names: Sequence[str]) -> str:
    """The names, or how many there are."""
    return ", ".join(names) if len(names) <= _SHOWN else f"{len(names)} regions"


def family_departure(instance_type: str) -> str:
    """A sentence about a family that left the offerings; empty when nothing is recorded about that."""
    family = instance_type.partition(".")[0]
    record = next((w for w in data.aws().withdrawn if w.family == family), None)
    return f"{family} left AWS's offerings (last seen {record.last_seen})" if record else ""


def refusal(place: AwsPlace, region: str, gpu: str, count: int) -> Refusal | None:
    """What the catalog knows against a place.

    Args:
        place: of the profile.
        region: one of its regions; empty to ask about the type alone.
        gpu: the model that the profile asks for.
        count: how many of them.
    """
    name, record = place.instance_type, data.types().get(place.instance_type)
    if record is None:
        departure = family_departure(name)
        if departure:
            return Refusal(RefusalKind.WITHDRAWN, departure)
        near = nearest(name, data.types())
        return Refusal(RefusalKind.UNKNOWN_TYPE, f"{name} is not in the catalog" + (f"; did you mean {near}?" if near else ""))
    if record.withdrawn is not None:
        return Refusal(RefusalKind.WITHDRAWN, f"{name} was withdrawn everywhere by {record.withdrawn}")
    licensed = next((each for each in data.aws().licensed if name.partition(".")[0] in each.families), None)
    if licensed:
        return Refusal(RefusalKind.UNSUPPORTED, f"{name} {licensed.why}", licensed.instead)
    trap = f": {record.trap}" if record.trap else ""
    if record.gpu != gpu:
        return Refusal(RefusalKind.WRONG_GPU, f"{name} has {record.gpu_name} ({record.vendor}), and the profile asks for {gpu}{trap}")
    if record.gpus < count:
        return Refusal(RefusalKind.TOO_FEW_GPUS, f"{name} has {record.gpus:g} of the {count} GPUs that the profile asks for{trap}")
    recorded = data.aws().regions.codes.get(region)
    if recorded is None or recorded.zones is None:
        return Refusal(RefusalKind.UNRECORDED, f"what {region} offers is not recorded")
    if region not in record.offered:
        return Refusal(RefusalKind.NOT_OFFERED, f"{name} is not offered in {region}; it is in {_few(sorted(record.offered))}")
    return _not_sold(place, record)


def _not_sold(place: AwsPlace, record: data.AwsType) -> Refusal | None:
    """What the place asks for and the type does not have."""
    if place.market not in record.markets:
        return Refusal(RefusalKind.NOT_SOLD, f"{record.type} is not sold as {place.market}")
    if place.capacity and place.capacity.efa and not record.efa:
        return Refusal(RefusalKind.UNSUPPORTED, f"{record.type} has no Elastic Fabric Adapter", "leave out efa, or choose a larger type")
    return None


def source_of(instance_type: str) -> str:
    """The id of the source of an instance type."""
    return data.types()[instance_type].source


def gpu_of(instance_type: str) -> str | None:
    """The GPU of an instance type."""
    record = data.types().get(instance_type)
    return record.gpu if record else None


def names_type(instance_type: str) -> bool:
    """An EC2 instance type has a family and a size, with a dot between them."""
    return "." in instance_type


def why_nowhere(instance_type: str, gpu: str | None) -> Refusal:
    """Why a type is offered nowhere."""
    record = data.types().get(instance_type)
    somewhere = AwsPlace.model_construct(cloud="aws", instance_type=instance_type, regions=(), market="on-demand")
    model = record.gpu if record and record.gpu else gpu or ""
    return refusal(somewhere, "", model, 1) or Refusal(RefusalKind.NOT_OFFERED, f"{instance_type} is offered nowhere")


def withdrawn_with(gpu: str) -> tuple[tuple[str, dt.date], ...]:
    """The instance types with a GPU that were withdrawn everywhere."""
    return tuple((t.type, t.withdrawn) for t in data.types().values() if t.gpu == gpu and t.withdrawn is not None)


def image(os: tuple[str, str], place: AwsPlace | None = None) -> Image | None:
    """The place's own image, the publisher's parameter, or its owner and name pattern."""
    record, own = data.image(os), own_of(place)
    if own is not None:
        return Image(own.lookup, own.login or (record.login if record else "ec2-user"))
    return Image(record.parameter or f"{record.owner} {record.pattern}", record.login) if record else None


def image_systems() -> tuple[tuple[str, str], ...]:
    """The systems whose publisher's image is known."""
    return tuple(sorted({(record.os, record.version) for record in data.aws().images}))


def driver_images() -> tuple[DriverImage, ...]:
    """AWS's Deep Learning images."""
    return tuple(DriverImage(r.parameter, (r.os, r.version), r.driver, r.flavour, r.source) for r in data.aws().driver_images)


def known_image(region: str, os: tuple[str, str], place: AwsPlace | None = None) -> KnownImage | None:
    """The AMI that the place names by its id, or that a refresh has found."""
    own, layer = own_of(place), data.refreshed()
    found = own.id if own is not None else layer.images.get(region, {}).get(" ".join(os))
    if found is None:
        return None
    about = layer.described.get(found)
    return KnownImage(found, about.name, about.owner, about.created) if about else KnownImage(found)


def image_gap(region: str, os: tuple[str, str], place: AwsPlace | None = None) -> str:
    """An AMI id belongs to one region, and only a refresh knows it."""
    if known_image(region, os, place) is not None:
        return ""
    if own_of(place) is not None:
        return f"aws {region}: the image id; `gpuprov plan --ask` tells it, and `image: {{id: …}}` of the place pins it"
    return f"aws {region}: the image id; `gpuprov catalog refresh --only aws` finds it"


def local_disks(instance_type: str) -> int | None:
    """The NVMe disks inside an instance type."""
    record = data.types().get(instance_type)
    return len(record.nvme_gb) if record else None


def has_nvswitch(instance_type: str) -> bool | None:
    """Whether an instance type has NVSwitches; None for a type that is not in the catalog."""
    return instance_type in data.aws().nvswitch.types if instance_type in data.types() else None


def quota(instance_type: str, gpu: str | None, market: str) -> str | None:  # noqa: ARG001 - quotas count families, not GPUs
    """The code of the quota on vCPUs."""
    return data.quota(instance_type, market)


def subnet_problem(subnet: str | None, *, private: bool, regions: Sequence[str]) -> str:
    """A subnet is an id of one region, and a private machine needs one that leads out."""
    if private and subnet is None:
        # The subnets of the default VPC lead out through public addresses only: such a machine could install nothing.
        return "address: private on AWS needs subnet: the id of a subnet with a way out (NAT)"
    if subnet is not None and not _SUBNET.fullmatch(subnet):
        return "subnet on AWS is an id, such as subnet-0123456789abcdef0"
    if subnet is not None and len(set(regions)) > 1:
        return "on AWS a subnet belongs to one region, and the places name several; keep the region of the subnet"
    return ""


def cloud_options(place: AwsPlace) -> tuple[CloudOption, ...]:
    """An image, a key and an identity of one's own, and where the capacity comes from."""
    keys = disk_key.options(place, nvme=local_disks(place.instance_type) != 0)
    return (*option_of(place.image), *baked.options(place), *keys, *identity.options(place), *capacity.options(place.capacity))


def policy(grant: Grant) -> tuple[dict[str, Any] | None, str]:
    """The smallest identity-based policy."""
    document = policy_document(
        name=grant.name,
        regions=grant.regions,
        instance_types=grant.instance_types,
        spot=grant.spot,
        subnet=grant.subnet,
        places=grant.places,
        parameters=parameters_of(grant.places, grant.os) if grant.os else ("/aws/service/*",),
    )
    note = "every action to launch, look after and remove; the policy document narrows them to these places, types and this name"
    return document, note


def bake_policy(grant: Grant, line: str) -> tuple[tuple[str, ...], dict[str, Any] | None]:
    """What making images needs."""
    return bake_permissions.bake_policy(grant, line)


def user_data(order: Order, region: str) -> str:
    """The cloud-init document that RunInstances carries."""
    document: str = requests.run_instances(order, region)["UserData"]
    return document


def calls(order: Order, region: str) -> list[PlannedCall]:
    """The calls that change something, and those that find what they need.

    Args:
        order: of the first attempt; words stand in it for what only the launch decides.
        region: where.
    """
    rule = requests.ingress("<the address of the caller>" if network == "caller" else network for network in order.ssh_from)
    run = {
        **requests.run_instances(order, region, "<the group>"),
        "ClientToken": "<derived from the launch and the attempt>",
        "ImageId": order.image_id or "<the image>",
    }
    planned: list[tuple[str, str, dict[str, Any]]] = [
        ("ec2:DescribeInstances", "find what an earlier run made", {"Filters": [{"Name": f"tag:{NAME_TAG}", "Values": [order.name]}]}),
        ("ec2:CreateSecurityGroup", "claim the name with its group, of which EC2 makes one", requests.security_group(order)),
        ("ec2:RunInstances", "make the instance", run),
        ("ec2:GetConsoleOutput", "read the host keys", {"InstanceId": "<the instance>", "Latest": True}),
    ]
    if order.ssh_from:
        opening = {"GroupId": "<the group>", "IpPermissions": [rule]}
        planned.insert(2, ("ec2:AuthorizeSecurityGroupIngress", "open SSH and nothing else", opening))
    planned[1:1] = _image_calls(order)
    return [PlannedCall("aws", action, purpose, parameters) for action, purpose, parameters in planned]


def _image_calls(order: Order) -> list[tuple[str, str, dict[str, Any]]]:
    """The calls that find the image, and that say what it is where only EC2 knows."""
    want = wanted(order)
    calls: list[tuple[str, str, dict[str, Any]]] = []
    if want.parameter:
        calls.append(("ssm:GetParameter", "find the image, whose id the lock does not have", {"Name": want.parameter}))
    if want.name:
        lookup = {"Owners": [want.owner], "Filters": [{"Name": "name", "Values": [want.name]}], "IncludeDeprecated": True}
        calls.append(("ec2:DescribeImages", "find the newest image of this owner and name that can be used", lookup))
    elif want.described:
        named = {"ImageIds": [want.id or "<the image>"]}
        calls.append(("ec2:DescribeImages", "see that the machine can start from the image, and its root device", named))
    return calls
