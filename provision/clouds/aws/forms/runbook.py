"""The steps of a runbook on AWS, out of the request that `up` sends."""

import re
from typing import Any, Final

from provision.clouds.aws import requests
from provision.clouds.aws.image_choice import FIXED_FILTERS, own_of, wanted
from provision.clouds.aws.place import place_of
from provision.clouds.base import LAUNCH_TAG
from provision.clouds.forms import Marked, Subject
from provision.clouds.shell import Step, Var, Word, address_step, captured, command, forget_step, host_key_step, packed
from provision.structs import replace

TOOLS: Final = "`aws` (2)"
"""What a reader of the runbook needs on the machine."""
_GROUP, _IMAGE, _INSTANCE, _ROOT = Var("GROUP"), Var("IMAGE"), Var("INSTANCE"), Var("ROOT")
_VPC: Final = Var("VPC")
_HERE: Final = "sg-00000000000000000"  # stands for the group in the requests
_SEEN: Final = "Reservations[0].Instances[0].{0}"
_HOST_KEYS: Final = "^(ssh-ed25519|ecdsa-sha2-nistp256|ssh-rsa) "


class _Aws:
    """One place, with the request for it filled in."""

    def __init__(self, subject: Subject) -> None:
        marked = Marked(subject)
        self.region = subject.region
        self.name = requests.resource_name(marked.order)
        self.tags: list[dict[str, str]] = marked.written(requests.tag_list(marked.order), subject.filled)
        self.rule: dict[str, Any] = marked.written(requests.ingress(marked.order.ssh_from), subject.filled)
        self.request: dict[str, Any] = marked.written(requests.run_instances(marked.order, self.region, _HERE), subject.filled)
        self.request.pop("SecurityGroupIds", None)
        self.subnet, self.public = marked.order.subnet, marked.order.public_address
        place = place_of(marked.order)
        self.adapters = place.adapters if place else 0
        # A token that AWS has not seen with other words: what is filled in decides about it.
        self.request["ClientToken"] = subject.token(packed(self.request))

    def call(self, service: str, operation: str, *words: Word, query: str = "") -> str:
        """One call of the AWS CLI; with a query its answer is a plain text."""
        text = ("--query", query, "--output", "text") if query else ()
        return command("aws", service, operation, "--region", self.region, *words, *text)

    def wait(self, state: str) -> str:
        """Wait for a state of the machine."""
        return command("aws", "ec2", "wait", state, "--region", self.region, "--instance-ids", _INSTANCE)

    def described(self, query: str) -> str:
        """What EC2 says about the machine."""
        return self.call("ec2", "describe-instances", "--instance-ids", _INSTANCE, query=_SEEN.format(query))


def before(subject: Subject) -> list[Step]:
    """What the machine needs."""
    aws = _Aws(subject)
    tagged = packed([{"ResourceType": "security-group", "Tags": aws.tags}])
    vpc = ("--vpc-id", _VPC) if aws.subnet else ()
    group = aws.call(
        "ec2",
        "create-security-group",
        *vpc,
        *("--group-name", aws.name, "--description", f"gpuprov {subject.name}: SSH", "--tag-specifications", tagged),
        query="GroupId",
    )
    rule = {key: value for key, value in aws.rule.items() if value != []}
    open_to = ", ".join(entry["CidrIp"] for entry in aws.rule["IpRanges"]) or "none"
    open_to_6 = ", ".join(entry["CidrIpv6"] for entry in aws.rule["Ipv6Ranges"])
    fields = "SecurityGroups[0].IpPermissions[].[IpProtocol,FromPort,ToPort,IpRanges[].CidrIp,Ipv6Ranges[].CidrIpv6]"
    return [
        Step(
            "See whose account this is",
            (command("export", "AWS_PAGER="),),
            (aws.call("sts", "get-caller-identity"),),
            "the account and the role are those that the machine is meant for.",
        ),
        *_subnet(aws),
        Step(
            "Make a security group, which lets nothing in yet",
            (captured("GROUP", group),),
            (aws.call("ec2", "describe-security-groups", "--group-ids", _GROUP, query="SecurityGroups[0].GroupName"),),
            f"`{aws.name}`.",
        ),
        Step(
            "Let SSH in, from the networks of the profile and nobody else",
            (aws.call("ec2", "authorize-security-group-ingress", "--group-id", _GROUP, "--ip-permissions", packed([rule])),),
            (aws.call("ec2", "describe-security-groups", "--group-ids", _GROUP, query=fields),),
            f"one rule, tcp 22 to 22, from {open_to}{' and ' + open_to_6 if open_to_6 else ''}.",
        ),
        *_members(aws),
        _image(subject, aws),
    ]


def _subnet(aws: _Aws) -> list[Step]:
    """The network of the profile's subnet, which the security group must be in."""
    if not aws.subnet:
        return []
    look = aws.call("ec2", "describe-subnets", "--subnet-ids", aws.subnet, query="Subnets[0].VpcId")
    return [Step(f"Find the network of {aws.subnet}", (captured(_VPC.name, look),), (command("echo", _VPC),), "the id of a VPC.")]


def _members(aws: _Aws) -> list[Step]:
    """What lets the members of the group reach one another, where the machine has Elastic Fabric Adapters."""
    if not aws.adapters:
        return []
    rule = _within(packed([requests.members(_HERE)]))
    calls = [
        aws.call("ec2", f"authorize-security-group-{way}", "--group-id", _GROUP, "--ip-permissions", rule) for way in ("ingress", "egress")
    ]
    fields = "SecurityGroups[0].IpPermissionsEgress[].UserIdGroupPairs[].GroupId"
    look = aws.call("ec2", "describe-security-groups", "--group-ids", _GROUP, query=fields)
    return [Step("Let the launch's own machines reach one another, as EFA needs it", tuple(calls), (look,), "the id of the group.")]


def _within(text: str) -> Word:
    """JSON in which the group's variable stands for its placeholder."""
    first, *others = text.split(_HERE)
    return [first, *(piece for other in others for piece in (_GROUP, other))]


def _image(subject: Subject, aws: _Aws) -> Step:
    want = wanted(replace(subject.template, image_id=subject.image_id))
    if want.id:
        lookup = f"IMAGE={command(want.id)}"
    elif want.parameter:
        lookup = captured("IMAGE", aws.call("ssm", "get-parameter", "--name", want.parameter, query="Parameter.Value"))
    else:
        filters = [f"Name={name},Values={value}" for name, value in {"name": want.name, **FIXED_FILTERS}.items()]
        newest = "sort_by(Images[?!not_null(ProductCodes)],&CreationDate)[-1].ImageId"
        lookup = captured("IMAGE", aws.call("ec2", "describe-images", "--owners", want.owner, "--filters", *filters, query=newest))
    fields = "Images[0].[Name,OwnerId,CreationDate,Architecture,BootMode]"
    roots = aws.call("ec2", "describe-images", "--image-ids", _IMAGE, query="Images[0].RootDeviceName")
    return Step(
        f"Find the image of {' '.join(subject.os)}",
        (lookup, *((captured("ROOT", roots),) if want.own else ())),
        (aws.call("ec2", "describe-images", "--image-ids", _IMAGE, query=fields),),
        "the image that the profile names." if want.own else "a recent image of the system's publisher.",
    )


def _rooted(mappings: list[dict[str, Any]]) -> Word:
    """The disks, the first of them under the name that the image itself gives its root device."""
    first, *others = mappings
    before, after = packed([{**first, "DeviceName": _ROOT.name}, *others]).split(f'"{_ROOT.name}"', 1)
    return [f'{before}"', _ROOT, f'"{after}']


def _argument(key: str, value: Any, *, own: bool) -> Word:
    """A parameter of the request as one argument; `own` says that the image is one's own, whose root device is asked for."""
    if isinstance(value, str):
        return value
    if key == "NetworkInterfaces":
        return _within(packed(value))
    return _rooted(value) if own and key == "BlockDeviceMappings" else packed(value)


def machine(subject: Subject, user_data: str) -> list[Step]:
    """The machine, its address and its host key."""
    aws = _Aws(subject)
    request = dict(aws.request)
    once = {key: request.pop(key) for key in ("MinCount", "MaxCount", "UserData")}
    groups: tuple[Word, ...] = () if "NetworkInterfaces" in request else ("--security-group-ids", _GROUP)
    words: list[Word] = ["--image-id", _IMAGE, *groups, "--count", str(once["MaxCount"])]
    own = own_of(subject.template.place) is not None
    for key, value in request.items():
        words += [_option(key), _argument(key, value, own=own)]
    launch = aws.call("ec2", "run-instances", *words, "--user-data", f"file://{user_data}", query="Instances[0].InstanceId")
    options, mapped = request["MetadataOptions"], request["BlockDeviceMappings"]
    key = next((mapping["Ebs"]["KmsKeyId"] for mapping in mapped if "KmsKeyId" in mapping["Ebs"]), "")
    volumes = aws.call(
        "ec2",
        "describe-volumes",
        "--filters",
        ["Name=attachment.instance-id,Values=", _INSTANCE],
        query="Volumes[].[Size,VolumeType,Encrypted,KmsKeyId]" if key else "Volumes[].[Size,VolumeType,Encrypted]",
    )
    sizes = ", ".join(f"{mapping['Ebs']['VolumeSize']} GB {mapping['Ebs']['VolumeType']}" for mapping in mapped)
    shown = f"`{request['InstanceType']}`, `{options['HttpTokens']}`, `{aws.name}`"
    under = f" with `{key}` (an alias shows as the key that it stands for)" if key else ""
    console = aws.call("ec2", "get-console-output", "--instance-id", _INSTANCE, query="Output")
    return [
        Step(
            "Start the machine; the same command again names the same machine and makes no second one",
            (captured("INSTANCE", launch), aws.wait("instance-running")),
            (aws.described("[InstanceType,MetadataOptions.HttpTokens,SecurityGroups[].GroupName]"), volumes),
            f"{shown}; and disks of {sizes}, each of them encrypted (`True`){under}.",
        ),
        address_step(aws.described("PublicIpAddress" if aws.public else "PrivateIpAddress")),
        host_key_step(
            "its console, and not from the network (repeat it while the output is empty: it may take minutes)",
            *(console, command("tr", "-d", "\\r"), command("grep", "-E", _HOST_KEYS)),
        ),
    ]


def undo(subject: Subject) -> list[Step]:
    """The way back, in the order in which things depend on one another."""
    aws = _Aws(subject)
    launch = next(tag["Value"] for tag in aws.tags if tag["Key"] == LAUNCH_TAG)
    remainder = aws.call(
        "ec2",
        "describe-tags",
        *("--filters", f"Name=key,Values={LAUNCH_TAG}", f"Name=value,Values={launch}"),
        query="Tags[].[ResourceType,ResourceId]",
    )
    return [
        Step(
            "End the machine; its disks go with it",
            (
                aws.call("ec2", "terminate-instances", "--instance-ids", _INSTANCE),
                aws.wait("instance-terminated"),
            ),
        ),
        Step("Delete the security group", (aws.call("ec2", "delete-security-group", "--group-id", _GROUP),)),
        forget_step(),
        Step("Look for what is left", (), (remainder,), "nothing, or the ended machine, which AWS shows for an hour."),
    ]


def _option(name: str) -> str:
    """A parameter of the API as the AWS CLI spells it."""
    return "--" + re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()
