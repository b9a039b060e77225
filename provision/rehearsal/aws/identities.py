"""Instance profiles of the embedded account, and who may hand them over.

The account has every instance profile that a request names, each with a role of its name, unless the settings say otherwise, so that a
rehearsal needs none of its own. That RunInstances needs iam:PassRole on the role, with the condition key iam:PassedToService:
docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html. The simulation of what a role may do, which moto lacks: the fields are
those of botocore's model, the rest is of docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html.
"""

import html
import json
import re
import time
from typing import Any, Final

from moto.core import DEFAULT_ACCOUNT_ID
from moto.ec2.models.iam_instance_profile import IamInstanceProfileAssociationBackend as AssociationBackend
from moto.iam.models import IAMBackend, InstanceProfile, iam_backends
from werkzeug import Response

from provision.rehearsal.aws import service_roles
from provision.rehearsal.aws.permissions import AwsCall, Need, denied, lacking
from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.aws.world import method_of, refuse

_NAME: Final = "IamInstanceProfile.Name"
_first_named: Final[dict[str, float]] = {}
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
    """Refuse a launch with an instance profile that the account does not have, or has had for a moment only.

    EC2's words: https://github.com/hashicorp/terraform/issues/9474.
    """
    now = time.monotonic()
    is_new = bool(name) and now < _first_named.setdefault(name, now) + settings.profile_s
    if name and (is_new or profile_of(name, settings) is None):
        words = f"Value ({name}) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"
        refuse("InvalidParameterValue", words)


def asked(call: AwsCall, settings: AwsSettings) -> tuple[Need, ...]:
    """What a launch needs for the role that it hands over, and what a question to IAM needs."""
    where = {"aws:RequestedRegion": call.region}
    if call.service == "iam":
        name = call.params.get("InstanceProfileName")
        profile = profile_of(name, settings) if name else None
        on = call.params.get("PolicySourceArn") or (
            profile.arn if profile else service_roles.arn(call.params.get("RoleName", ""), settings)
        )
        return (Need(f"iam:{call.action}", on, where),)
    profile = profile_of(call.params[_NAME], settings) if call.action == "RunInstances" and _NAME in call.params else None
    handed = where | {"iam:PassedToService": "ec2.amazonaws.com"}
    return tuple(Need("iam:PassRole", role.arn, handed) for role in profile.roles) if profile else ()


def simulated(call: AwsCall, settings: AwsSettings) -> Response:
    """What the policies of a role and of the organization decide of actions on resources, with the context that the request names."""
    role = call.params["PolicySourceArn"].rpartition("/")[2]
    keys = {key: name for key, name in call.params.items() if re.fullmatch(r"ContextEntries\.member\.\d+\.ContextKeyName", key)}
    context = {name: call.params[key.replace("ContextKeyName", "ContextKeyValues.member.1")] for key, name in keys.items()}
    words = json.dumps(settings.role_policies.get(role, {"Version": "2012-10-17", "Statement": []}))
    policy = json.loads(words.replace("${aws:userid}", context.get("aws:userid", "${aws:userid}")))

    def decided(need: Need) -> str:
        if denied(policy, need) or (settings.guardrail and denied(settings.guardrail, need)):
            return "explicitDeny"
        return "implicitDeny" if lacking(policy, need) else "allowed"

    rows = "".join(
        f"<member><EvalActionName>{action}</EvalActionName><EvalResourceName>{html.escape(resource)}</EvalResourceName>"
        f"<EvalDecision>{decided(Need(action, resource, context))}</EvalDecision></member>"
        for action in _members(call, "ActionNames")
        for resource in _members(call, "ResourceArns") or ["*"]
    )
    result = f"<EvaluationResults>{rows}</EvaluationResults><IsTruncated>false</IsTruncated>"
    answer = f"<SimulatePrincipalPolicyResult>{result}</SimulatePrincipalPolicyResult>"
    answer += "<ResponseMetadata><RequestId>0</RequestId></ResponseMetadata>"
    space = 'xmlns="https://iam.amazonaws.com/doc/2010-05-08/"'
    return Response(f"<SimulatePrincipalPolicyResponse {space}>{answer}</SimulatePrincipalPolicyResponse>", content_type="text/xml")


def _members(call: AwsCall, name: str) -> list[str]:
    return [value for key, value in call.params.items() if re.fullmatch(rf"{name}\.member\.\d+", key)]
