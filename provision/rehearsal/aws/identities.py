"""Instance profiles of the embedded account, and who may hand them over.

The account has every instance profile that a request names, each with a role of its name, unless the settings say otherwise, so that a
rehearsal needs none of its own. That RunInstances needs iam:PassRole on the role, with the condition key iam:PassedToService:
docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html.
"""

import json
from typing import Any, Final

from moto.core import DEFAULT_ACCOUNT_ID
from moto.ec2.models.iam_instance_profile import IamInstanceProfileAssociationBackend as AssociationBackend
from moto.iam.models import IAMBackend, InstanceProfile, iam_backends

from provision.rehearsal.aws.permissions import AwsCall, Need
from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.aws.world import method_of, refuse

_NAME: Final = "IamInstanceProfile.Name"
_TRUST: Final = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}


def profile_of(name: str, settings: AwsSettings) -> InstanceProfile | None:
    """The instance profile of a name; None where the account does not have it."""
    backend: IAMBackend = iam_backends[DEFAULT_ACCOUNT_ID]["aws"]
    if name in settings.missing:
        return None
    if name not in backend.instance_profiles:
        trust = json.dumps({"Version": "2012-10-17", "Statement": [_TRUST]})
        if name not in {role.name for role in backend.get_roles()}:
            backend.create_role(name, trust, "/", None, "", [], None)
        backend.create_instance_profile(name, "/", [name])
    profile: InstanceProfile = backend.instance_profiles[name]
    return profile


def patch() -> None:
    """Let a machine have its instance profile once, however often a client repeats its launch."""
    associate = AssociationBackend.associate_iam_instance_profile

    @method_of(AssociationBackend)
    def associate_iam_instance_profile(self: Any, instance_id: str, *args: Any, **kwargs: Any) -> Any:
        return self.iam_instance_profile_associations.get(instance_id) or associate(self, instance_id, *args, **kwargs)


def check(name: str, settings: AwsSettings) -> None:
    """Refuse a launch with an instance profile that the account does not have (EC2's words are from memory)."""
    if name and profile_of(name, settings) is None:
        words = f"Value ({name}) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"
        refuse("InvalidParameterValue", words)


def asked(call: AwsCall, settings: AwsSettings) -> tuple[Need, ...]:
    """What a launch needs for the role that it hands over, and what a question to IAM needs."""
    where = {"aws:RequestedRegion": call.region}
    if call.service == "iam":
        name = call.params.get("InstanceProfileName")
        if name:
            profile_of(name, settings)
        return (Need(f"iam:{call.action}", "*", where),)
    profile = profile_of(call.params[_NAME], settings) if call.action == "RunInstances" and _NAME in call.params else None
    handed = where | {"iam:PassedToService": "ec2.amazonaws.com"}
    return tuple(Need("iam:PassRole", role.arn, handed) for role in profile.roles) if profile else ()
