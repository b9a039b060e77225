"""A CloudFormation template that makes at one place on AWS what `up` makes there, out of the same requests.

RunInstances and a launch template name their members alike, so the request that `up` sends becomes the template's data as it is; only
the instance type of a spot request and the tags of a network interface cannot be said without a launch template. The launch's id is
the unique part of the stack's own id, so that two stacks of one template are two launches. Texts are joined with Fn::Join and never with
Fn::Sub: `${…}` in them stays what it is. Free text of the profile is left out, because CloudFormation would resolve `{{resolve:…}}` in it.
"""

import datetime as dt
from typing import Any, Final

from provision.clouds.aws import requests
from provision.clouds.aws.image_choice import own_of, wanted
from provision.clouds.aws.place import place_of
from provision.clouds.base import Order
from provision.clouds.forms import KEY_PATTERN, Hole, Marked, Parts, Subject, dumped
from provision.errors import UsageError
from provision.structs import replace

_ONCE: Final = ("MinCount", "MaxCount", "ClientToken")  # the stack's own business
_UNIQUE: Final = {"Fn::Split": ["-", {"Fn::Select": [2, {"Fn::Split": ["/", {"Ref": "AWS::StackId"}]}]}]}
_DATE: Final = {"Fn::Select": [0, {"Fn::Split": ["T", {"Ref": "Deadline"}]}]}
_HOUR: Final = {"Fn::Select": [0, {"Fn::Split": ["+", {"Fn::Select": [1, {"Fn::Split": ["T", {"Ref": "Deadline"}]}]}]}]}
_GROUP: Final = {"Fn::GetAtt": ["SecurityGroup", "GroupId"]}
_HOLES: Final[dict[str, Any]] = {
    "launch": {"Fn::Join": ["", _UNIQUE]},
    "key": {"Ref": "AuthorizedKey"},
    "caller": {"Ref": "CallerCidr"},
    "deadline": {"Ref": "Deadline"},
    "timer": {"Fn::Join": ["", [_DATE, " ", _HOUR, " UTC"]]},
}


def render(subject: Subject) -> dict[str, bytes]:
    """The template as JSON, in one file.

    Raises:
        ImageNotFoundError: how AWS names its images of the system is not known.
    """
    marked = Marked(subject)
    template = {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"gpuprov: profile {subject.profile}, {subject.place}. Delete the stack to remove everything.",
        "Metadata": {"gpuprov": {"profile-sha256": subject.profile_sha256, "lock-sha256": subject.lock_sha256}},
        "Parameters": _parameters(subject),
        "Resources": _resources(subject, marked),
        "Outputs": {
            "InstanceId": {"Description": "The machine.", "Value": {"Ref": "Instance"}},
            "SecurityGroupId": {"Description": "What lets SSH in.", "Value": _GROUP},
        },
    }
    return {"template.json": dumped(template)}


def _parameters(subject: Subject) -> dict[str, Any]:
    """What to fill in when the stack is made; a value that the subject already has is the default."""
    values, hours = subject.given, subject.deadline_h
    parameters: dict[str, dict[str, Any]] = {
        "AuthorizedKey": {
            "Type": "String",
            "Description": "The OpenSSH public key that may log in first: type and key, without comment.",
            "AllowedPattern": KEY_PATTERN,
            **({"Default": values.public_key} if values.public_key else {}),
        },
        "Deadline": {
            "Type": "String",
            "Description": f"When the machine ends itself, in UTC, as 2026-11-22T08:00:00+00:00. The profile allows {hours} h from now.",
            "AllowedPattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\+00:00$",
            **({"Default": values.deadline.astimezone(dt.UTC).isoformat(timespec="seconds")} if values.deadline else {}),
        },
        "ImageId": _image(subject),
        **_root_device(subject),
    }
    if subject.template.subnet:
        parameters["VpcId"] = {"Type": "AWS::EC2::VPC::Id", "Description": f"The VPC of {subject.template.subnet}."}
    if subject.from_caller:
        parameters["CallerCidr"] = {
            "Type": "String",
            "Description": "The one address that SSH is let in from beside the networks of the profile, as 203.0.113.7/32.",
            "AllowedPattern": r"^(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])(\.(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])){3}/32$",
            **({"Default": values.caller} if values.caller else {}),
        }
    return parameters


def _image(subject: Subject) -> dict[str, Any]:
    """The image by its id, or as the parameter names the newest; no other is accepted. A template cannot look for a name itself."""
    want = wanted(replace(subject.template, image_id=subject.image_id))
    if want.name:
        about = f"The newest image of owner {want.owner} whose name is like {want.name}: look for it with `aws ec2 describe-images`."
        return {"Type": "AWS::EC2::Image::Id", "Description": about}
    kind = "AWS::EC2::Image::Id" if want.id else "AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>"
    value, about = want.id or want.parameter, "The custom image of the profile." if want.own else "The image of the profile's system."
    return {"Type": kind, "Description": about, "Default": value, "AllowedValues": [value]}


def _root_device(subject: Subject) -> dict[str, Any]:
    """What only DescribeImages says of an image of one's own; nothing where the image is the system's."""
    if own_of(subject.template.place) is None:
        return {}
    about = "RootDeviceName of the image, as `aws ec2 describe-images` shows it: the root volume gets the profile's size under that name."
    return {"RootDevice": {"Type": "String", "Description": about, "AllowedPattern": "^/dev/[a-z0-9]{2,10}$"}}


def _resources(subject: Subject, marked: Marked) -> dict[str, Any]:
    order = marked.order
    tags = marked.written(requests.tag_list(order), _text)
    request = {k: v for k, v in requests.run_instances(order, subject.region).items() if k not in _ONCE}
    data = marked.written(request, _text)
    data["UserData"] = {"Fn::Base64": _lines(marked.parts(request["UserData"]))}
    if _root_device(subject):
        data["BlockDeviceMappings"][0]["DeviceName"] = {"Ref": "RootDevice"}
    data["ImageId"] = {"Ref": "ImageId"}
    if "NetworkInterfaces" in data:
        data["NetworkInterfaces"] = [{**card, "Groups": [_GROUP]} for card in data["NetworkInterfaces"]]
    else:
        data["SecurityGroupIds"] = [_GROUP]
    return {
        **(_members() if _adapters(order) else {}),
        "SecurityGroup": {
            "Type": "AWS::EC2::SecurityGroup",
            "Properties": {
                "GroupName": requests.resource_name(order),
                "GroupDescription": f"gpuprov {order.name}: SSH",
                "SecurityGroupIngress": _ingress(marked),
                **({"VpcId": {"Ref": "VpcId"}} if order.subnet else {}),
                "Tags": tags,
            },
        },
        "LaunchTemplate": {
            "Type": "AWS::EC2::LaunchTemplate",
            "Properties": {"LaunchTemplateData": data, "TagSpecifications": [{"ResourceType": "launch-template", "Tags": tags}]},
        },
        "Instance": {
            "Type": "AWS::EC2::Instance",
            "Properties": {
                "LaunchTemplate": {
                    "LaunchTemplateId": {"Ref": "LaunchTemplate"},
                    "Version": {"Fn::GetAtt": ["LaunchTemplate", "LatestVersionNumber"]},
                }
            },
        },
    }


def _adapters(order: Order) -> int:
    place = place_of(order)
    return place.adapters if place else 0


def _members() -> dict[str, Any]:
    """What lets the members of the group reach one another, which EFA needs."""
    both = {"GroupId": _GROUP, "IpProtocol": "-1"}
    return {
        "MembersIn": {"Type": "AWS::EC2::SecurityGroupIngress", "Properties": {**both, "SourceSecurityGroupId": _GROUP}},
        "MembersOut": {"Type": "AWS::EC2::SecurityGroupEgress", "Properties": {**both, "DestinationSecurityGroupId": _GROUP}},
    }


def _ingress(marked: Marked) -> list[dict[str, Any]]:
    """The rules of the group, one a network."""
    rule = marked.written(requests.ingress(marked.order.ssh_from), _text)
    common = {key: rule[key] for key in ("IpProtocol", "FromPort", "ToPort")}
    return [{**common, **entry} for entry in (*rule["IpRanges"], *rule["Ipv6Ranges"])]


def _piece(piece: str | Hole) -> Any:
    if isinstance(piece, Hole):
        return _HOLES[piece.name]
    if "{{" in piece:  # no field of an order admits it, and CloudFormation has no way to write it as a plain text
        msg = "a text of the profile contains {{, which CloudFormation would evaluate"
        raise UsageError(msg, hint="take it out of the profile, or choose another form")
    return piece


def _text(parts: Parts) -> Any:
    if len(parts) == 1:
        return _piece(parts[0])
    return {"Fn::Join": ["", [_piece(piece) for piece in parts]]} if parts else ""


def _lines(parts: Parts) -> Any:
    """Like `_text`, but split at the ends of the lines, for readers."""
    cut = [line for piece in parts for line in ([piece] if isinstance(piece, Hole) else piece.splitlines(keepends=True))]
    return {"Fn::Join": ["", [_piece(piece) for piece in cut]]}
