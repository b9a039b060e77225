"""The instance profile that a place gives its machines: how it is written, what handing it over needs, and what its role may then do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field, StringConstraints

from provision.clouds.aws.disk_key import partition
from provision.clouds.own import Authority, BucketCopy, CloudOption
from provision.strict import StrictModel

if TYPE_CHECKING:
    from provision.clouds.base import Order

HAND_OVER: Final = "iam:PassRole"
_READS: Final = re.compile(r"(Get|List|Describe|Head|BatchGet|Query|Scan|Select)")
_NAMES: Final = re.compile(r"(List|Describe)")
_BUCKET: Final = re.compile(r"arn:[a-z-]+:s3:::[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?")
# Whoever may do one of these may give itself any permission, or become somebody who has more.
_BEYOND: Final = ("iam", "organizations")

# docs.aws.amazon.com/cli/latest/reference/s3/sync.html. Without variables and files the command asks the metadata service:
# docs.aws.amazon.com/cli/latest/userguide/cli-configure-authentication.html, "Configuration and credential precedence".
_VARIABLES: Final = ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE", "ROLE_ARN", "WEB_IDENTITY_TOKEN_FILE")
BUCKET: Final = BucketCopy(
    scheme="s3",
    program="aws",
    alone=(
        "env",
        *(word for name in _VARIABLES for word in ("-u", f"AWS_{name}")),
        "AWS_CONFIG_FILE=/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE=/dev/null",
    ),
    one=("s3", "cp", "--no-progress"),
    all=("s3", "sync", "--no-progress"),
    delete="--delete",
    dry_run="--dryrun",
)


class InstanceProfile(StrictModel):
    """A named instance profile of the account; its role, with its path, where that is called otherwise."""

    instance_profile: Annotated[
        str, StringConstraints(pattern=r"^[A-Za-z0-9+=,.@_-]{1,128}$"), Field(description="the name of an instance profile")
    ]
    """The instance profile that the machine gets."""
    role: (
        Annotated[
            str,
            StringConstraints(pattern=r"^([A-Za-z0-9+=,.@_-]+/){0,20}[A-Za-z0-9+=,.@_-]{1,64}$", max_length=512),
            Field(description="the name of its role, with the path if it has one, such as service/gpu-node"),
        ]
        | None
    ) = None
    """The role in that profile, for the permission to hand it over."""

    @property
    def role_name(self) -> str:
        """The role, with its path."""
        return self.role or self.instance_profile


def of(order: Order) -> InstanceProfile | None:
    """The identity of an order's place; None where it has none."""
    identity = getattr(order.place, "identity", "none")
    return identity if isinstance(identity, InstanceProfile) else None


def request(order: Order) -> dict[str, Any]:
    """What RunInstances says of it."""
    identity = of(order)
    return {"IamInstanceProfile": {"Name": identity.instance_profile}} if identity else {}


def statements(places: Iterable[Any]) -> list[dict[str, Any]]:
    """The statement of a policy that lets the caller hand over the places' roles to EC2, and no others to nobody else.

    docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html
    """
    given = [(place, place.identity) for place in places if isinstance(place.identity, InstanceProfile)]
    if not given:
        return []
    parts = dict.fromkeys((partition(region), identity.role_name) for place, identity in given for region in place.regions)
    services = dict.fromkeys("ec2.amazonaws.com.cn" if part == "aws-cn" else "ec2.amazonaws.com" for part, _ in parts)
    return [
        {
            "Sid": "PassRole",
            "Effect": "Allow",
            "Action": [HAND_OVER],
            "Resource": [f"arn:{part}:iam::*:role/{role}" for part, role in parts],
            "Condition": {"StringEquals": {"iam:PassedToService": list(services)}},
        }
    ]


def options(place: Any) -> tuple[CloudOption, ...]:
    """What the plan and the review say about the identity of a place. Neither contacts AWS, so what it may do is not known."""
    if not isinstance(place.identity, InstanceProfile):
        return ()
    name = place.identity.instance_profile
    return (
        CloudOption(
            "identity",
            f"acts in the account as instance profile {name} (role {place.identity.role_name})",
            severity="medium",
            title=f"The machine acts in the account as instance profile {name}",
            reason=f"it is not known what role {place.identity.role_name} may do, because a review contacts nobody; "
            "with `--ask` the review reads its policies where the credentials may. The metadata service hands its credentials to every "
            "process on the machine; IMDSv2 and a hop limit of 1 keep only other machines and containers from it",
            narrower="`identity: none`, or a role whose policy names buckets and reads",
        ),
    )


def authority(documents: Mapping[str, Any]) -> Authority:
    """What a role may do, by its policy documents. Conditions and denials are not counted in its favour.

    Args:
        documents: name of a policy → its document.
    """
    grades = (
        _graded(action, _resources(statement), name)
        for name, document in documents.items()
        for statement in _listed(document.get("Statement", []))
        if statement.get("Effect") == "Allow"
        for action in _actions(statement)
    )
    return max(grades, default=Authority("low", "its policies allow nothing"))


def _actions(statement: Mapping[str, Any]) -> Sequence[str]:
    # Without Action there is NotAction, which allows all but a few.
    return [str(action) for action in _listed(statement.get("Action", "*"))]


def _resources(statement: Mapping[str, Any]) -> Sequence[str]:
    return [str(resource) for resource in _listed(statement.get("Resource", "*"))]  # or NotResource


def _graded(action: str, resources: Sequence[str], policy: str) -> Authority:
    service, _, verb = action.partition(":")
    service, reads = service.lower(), bool(_READS.match(verb))
    said = f"{action} on {', '.join(resources[:2])}{' and more' if len(resources) > 2 else ''} (policy {policy})"  # noqa: PLR2004 - a few
    everywhere = any(resource == "*" or resource.endswith(":*") for resource in resources)
    if "*" in service or "?" in service:
        return Authority("medium", f"it may read in every service: {said}") if reads else Authority("high", f"it is administrator: {said}")
    if service in _BEYOND and not reads:
        return Authority("high", f"it may give itself any permission: {said}")
    if service == "sts" and not reads and everywhere:
        return Authority("high", f"it may become other roles: {said}")
    if service == "s3" and verb != "*" and all(_BUCKET.fullmatch(resource) for resource in resources):
        return Authority("low", f"it may {'read' if reads else 'write'} in named buckets: {said}")
    if reads and (not everywhere or _NAMES.match(verb)):
        return Authority("low", f"it may read: {said}")
    return Authority("medium", f"it may {'read' if reads else 'change'} things: {said}")


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def documents_of(iam: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Name and document of every policy of an instance profile's role, attached and inline, as IAM answers."""
    for role in iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]["Roles"]:
        whose = {"RoleName": role["RoleName"]}
        for page in iam.get_paginator("list_attached_role_policies").paginate(**whose):
            for attached in page["AttachedPolicies"]:
                version = iam.get_policy(PolicyArn=attached["PolicyArn"])["Policy"]["DefaultVersionId"]
                reply = iam.get_policy_version(PolicyArn=attached["PolicyArn"], VersionId=version)
                yield attached["PolicyName"], reply["PolicyVersion"]["Document"]
        for page in iam.get_paginator("list_role_policies").paginate(**whose):
            for inline in page["PolicyNames"]:
                yield inline, iam.get_role_policy(**whose, PolicyName=inline)["PolicyDocument"]
