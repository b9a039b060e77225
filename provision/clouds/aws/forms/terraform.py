"""Terraform that makes at one place on AWS what `up` makes there, out of the same requests.

Two things differ from `up`, because `aws_instance` has no word for them: the network interface and a spot request carry no tags. Both end
with the machine.
"""

from typing import Any, Final

from provision.clouds.aws import disk_key, requests
from provision.clouds.aws.image_choice import FIXED_FILTERS, wanted
from provision.clouds.aws.place import place_of
from provision.clouds.forms import Marked, Subject
from provision.clouds.terraform import check_empty, document, expression, folder, text
from provision.errors import UsageError
from provision.structs import replace

_PROVIDER: Final = "hashicorp/aws"
_VERSION: Final = ">= 5.0"  # aws_vpc_security_group_ingress_rule with tags of its own; applied with 5.100.0 in the tests
_SPOT: Final = {
    "MaxPrice": "max_price",
    "SpotInstanceType": "spot_instance_type",
    "InstanceInterruptionBehavior": "instance_interruption_behavior",
}
_CARD: Final = {"SubnetId": "subnet_id", "AssociatePublicIpAddress": "associate_public_ip_address"}
_PLACEMENT: Final = {"AvailabilityZone": "availability_zone", "GroupName": "placement_group", "Tenancy": "tenancy"}
_METADATA: Final = {
    "HttpTokens": "http_tokens",
    "HttpEndpoint": "http_endpoint",
    "HttpPutResponseHopLimit": "http_put_response_hop_limit",
}
_EBS: Final = {
    "VolumeSize": "volume_size",
    "VolumeType": "volume_type",
    "Encrypted": "encrypted",
    "KmsKeyId": "kms_key_id",
    "DeleteOnTermination": "delete_on_termination",
}


def render(subject: Subject) -> dict[str, bytes]:
    """The folder of the configuration.

    Raises:
        ImageNotFoundError: how AWS names its images of the system is not known.
        UsageError: the machine has Elastic Fabric Adapters.
    """
    marked = Marked(subject)
    place = place_of(marked.order)
    if place and place.adapters:
        msg = "Terraform's aws_instance has no word for Elastic Fabric Adapters (`capacity: efa`)"
        raise UsageError(msg, hint="render it as cloudformation, which has one, or leave out efa")
    tags = {tag["Key"]: tag["Value"] for tag in marked.written(requests.tag_list(marked.order), text)}
    image, lookups = _image(subject)
    if marked.order.subnet:
        lookups["aws_subnet"] = {"own": {"id": marked.order.subnet}}
    lookups |= _key(disk_key.of(marked.order, subject.region))
    address = "public_ip" if marked.order.public_address else "private_ip"
    configuration = document(
        subject,
        source=_PROVIDER,
        version=_VERSION,
        provider={"region": subject.region},
        resources={**_network(marked, tags), "aws_instance": {"machine": _machine(subject, marked, image, tags)}},
        **({"data": lookups} if lookups else {}),
        outputs={"instance_id": "aws_instance.machine.id", "address": f"aws_instance.machine.{address}"},
    )
    return folder(subject, marked, requests.run_instances(marked.order, subject.region)["UserData"], configuration)


def _image(subject: Subject) -> tuple[str, dict[str, Any]]:
    """The image by its id, by the parameter that names the newest, or the newest of an owner's name pattern."""
    want = wanted(replace(subject.template, image_id=subject.image_id))
    if want.id:
        return want.id, {}
    if want.parameter:
        return expression("data.aws_ssm_parameter.image.insecure_value"), {"aws_ssm_parameter": {"image": {"name": want.parameter}}}
    filters = [{"name": name, "values": [value]} for name, value in {"name": want.name, **FIXED_FILTERS}.items()]
    lookup = {"most_recent": True, "owners": [want.owner], "filter": filters}
    return expression("data.aws_ami.image.id"), {"aws_ami": {"image": lookup}}


def _key(key: str | None) -> dict[str, Any]:
    """The lookup of the key that an alias stands for, because Terraform compares ARNs of keys."""
    return {} if key is None or disk_key.is_arn_of_key(key) else {"aws_kms_key": {"disk": {"key_id": key}}}


def _ebs(mapping: dict[str, Any]) -> dict[str, Any]:
    fields = _renamed(mapping["Ebs"], _EBS)
    if "kms_key_id" in fields and not disk_key.is_arn_of_key(fields["kms_key_id"]):
        fields["kms_key_id"] = expression("data.aws_kms_key.disk.arn")
    return fields


def _network(marked: Marked, tags: dict[str, str]) -> dict[str, Any]:
    """The security group, a rule for each network, and the way out that EC2 gives a group which Terraform takes away."""
    order = marked.order
    rule = marked.written(requests.ingress(order.ssh_from), text)
    group = {"security_group_id": expression("aws_security_group.ssh.id")}
    common = {**group, "ip_protocol": rule["IpProtocol"], "from_port": rule["FromPort"], "to_port": rule["ToPort"]}
    rules = [
        *({**common, "cidr_ipv4": entry["CidrIp"], "description": entry["Description"]} for entry in rule["IpRanges"]),
        *({**common, "cidr_ipv6": entry["CidrIpv6"], "description": entry["Description"]} for entry in rule["Ipv6Ranges"]),
    ]
    return {
        "aws_security_group": {
            "ssh": {
                "name": requests.resource_name(order),
                "description": f"gpuprov {order.name}: SSH",
                **({"vpc_id": expression("data.aws_subnet.own.vpc_id")} if order.subnet else {}),
                "tags": tags,
            }
        },
        "aws_vpc_security_group_ingress_rule": {f"ssh_{number}": entry for number, entry in enumerate(rules, 1)},
        "aws_vpc_security_group_egress_rule": {"out": {**group, "ip_protocol": "-1", "cidr_ipv4": "0.0.0.0/0"}},
    }


def _machine(subject: Subject, marked: Marked, image: str, tags: dict[str, str]) -> dict[str, Any]:
    """The machine; a field of the request that this has no word for is an error here, not a gap in the result."""
    request = marked.written(requests.run_instances(marked.order, subject.region), text)
    for once in ("MinCount", "MaxCount", "ClientToken", "TagSpecifications"):
        request.pop(once)
    root, *others = request.pop("BlockDeviceMappings")
    resource: dict[str, Any] = {
        "ami": image,
        "instance_type": request.pop("InstanceType"),
        "vpc_security_group_ids": [expression("aws_security_group.ssh.id")],
        "user_data": request.pop("UserData"),
        "instance_initiated_shutdown_behavior": request.pop("InstanceInitiatedShutdownBehavior"),
        "metadata_options": _renamed(request.pop("MetadataOptions"), _METADATA),
        "root_block_device": _ebs(root),
        "ebs_block_device": [{"device_name": other["DeviceName"], **_ebs(other)} for other in others],
        "tags": tags,
        "volume_tags": tags,
        # A newer image is for the next machine, and the provider reads back a one-time spot request with other words.
        "lifecycle": {"ignore_changes": ["ami"]},
    }
    (card,) = request.pop("NetworkInterfaces", [{}])
    resource |= {_CARD[key]: value for key, value in card.items() if key in _CARD}
    resource |= _renamed(request.pop("Placement", {}), _PLACEMENT)
    reserved = request.pop("CapacityReservationSpecification", None)
    if reserved:
        target = {"capacity_reservation_id": reserved["CapacityReservationTarget"]["CapacityReservationId"]}
        resource["capacity_reservation_specification"] = {"capacity_reservation_target": target}
    market = request.pop("InstanceMarketOptions", None)
    if market:
        spot = {"spot_options": _renamed(market["SpotOptions"], _SPOT)} if "SpotOptions" in market else {}
        resource["instance_market_options"] = {"market_type": market["MarketType"], **spot}
    if "IamInstanceProfile" in request:
        resource["iam_instance_profile"] = request.pop("IamInstanceProfile")["Name"]
    check_empty(request)
    return resource


def _renamed(fields: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names[key]: value for key, value in fields.items()}
