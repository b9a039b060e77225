"""Service-linked roles of the embedded account: a service makes its own at its first use, by the rights of whoever uses it first.

Auto Scaling: docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-api-permissions.html, CreateAutoScalingGroup. Spot:
docs.aws.amazon.com/AWSEC2/latest/UserGuide/service-linked-roles-spot-instance-requests.html; the code and words of its refusal:
https://github.com/determined-ai/determined/issues/1830.
"""

from typing import Final

from moto.core import DEFAULT_ACCOUNT_ID
from moto.iam.models import IAMBackend, iam_backends

from provision.rehearsal.aws.permissions import Need, lacking
from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.aws.world import refuse

AUTO_SCALING: Final = "autoscaling.amazonaws.com"
SPOT: Final = "spot.amazonaws.com"
_ROLES: Final = {AUTO_SCALING: "AWSServiceRoleForAutoScaling", SPOT: "AWSServiceRoleForEC2Spot"}


def need(service: str, settings: AwsSettings) -> tuple[Need, ...]:
    """What the first use of a service needs; nothing where the account has its role."""
    if settings.service_roles is None or service in settings.service_roles:
        return ()
    role = f"arn:aws:iam::{DEFAULT_ACCOUNT_ID}:role/aws-service-role/{service}/{_ROLES[service]}"
    return (Need("iam:CreateServiceLinkedRole", role, {"iam:AWSServiceName": service}),)


def arn(name: str, settings: AwsSettings) -> str:
    """The ARN of a service-linked role, which IAM knows from now on where the account has it; `*` for another role."""
    service = next((service for service, each in _ROLES.items() if each == name), "")
    if not service:
        return "*"
    backend: IAMBackend = iam_backends[DEFAULT_ACCOUNT_ID]["aws"]
    known = [role for role in backend.get_roles() if role.name == name]
    if settings.service_roles is not None and service not in settings.service_roles:
        for role in known:
            del backend.roles[role.id]
    elif not known:
        backend.create_role(name, "{}", f"/aws-service-role/{service}/", None, "", [], None)
    return f"arn:aws:iam::{DEFAULT_ACCOUNT_ID}:role/aws-service-role/{service}/{name}"


def made(service: str, settings: AwsSettings) -> None:
    """The account has the role from now on."""
    if settings.service_roles is not None and service not in settings.service_roles:
        settings.service_roles.append(service)


def use_spot(settings: AwsSettings, *, by_group: bool) -> None:
    """Refuse a spot launch whose caller may not make the role; the role of Auto Scaling may (AutoScalingServiceRolePolicy)."""
    if not by_group and settings.allowed is not None and any(lacking(settings.allowed, each) for each in need(SPOT, settings)):
        words = "The provided credentials do not have permission to create the service-linked role for EC2 Spot Instances."
        refuse("AuthFailure.ServiceLinkedRoleCreationNotPermitted", words)
    made(SPOT, settings)
