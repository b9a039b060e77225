"""The service account that a place gives its machines: how it is written, what handing it over needs, and what is known of it.

A grant of a service account can stand at the project, its folders, its organisation or any single resource. A review contacts nobody, so it
is not known there. `plan --ask` reads the project's policy and grades what stands in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field, StringConstraints

from provision.clouds.own import Authority, BucketCopy, CloudOption
from provision.errors import UsageError
from provision.strict import StrictModel

if TYPE_CHECKING:
    from provision.clouds.base import Order

# cloud.google.com/compute/docs/access/create-enable-service-accounts-for-instances
ACTIONS: Final = ("compute.instances.setServiceAccount", "iam.serviceAccounts.actAs")
READ_POLICY: Final = "resourcemanager.projects.getIamPolicy"
"""Reading who has which role in the project: docs.cloud.google.com/resource-manager/docs/access-control-proj."""
OS_LOGIN: Final = ("compute.instances.osAdminLogin",)
"""Logging in as a user who can become root: roles/compute.osAdminLogin (cloud.google.com/compute/docs/oslogin/set-up-oslogin)."""
SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
"""The one scope that Google advises: what the account may do is decided by its roles alone (same page)."""
# The predefined roles: docs.cloud.google.com/iam/docs/roles-permissions. Whoever has one of the first may change everything, give itself
# any role, or become another account.
_HIGH: Final = re.compile(r"roles/(owner|editor|admin|writer|(iam|resourcemanager|orgpolicy)\..*)")
# What an account of a machine needs for its own logs, figures and images, and what names things without their contents. Every other role
# that reads may read contents everywhere in the project.
_NARROW: Final = frozenset(
    f"roles/{role}"
    for role in (
        *("artifactregistry.reader", "browser", "cloudtrace.agent", "compute.viewer", "iam.securityReviewer", "logging.logWriter"),
        *("monitoring.metricWriter", "monitoring.viewer", "resourcemanager.organizationViewer", "resourcemanager.folderViewer"),
    )
)
_READS: Final = re.compile(r"roles/(.*\.)?(.*[vV]iewer|.*[rR]eader|.*Accessor)")
_PREDEFINED: Final = "roles/"
_EVERYBODY: Final = ("allUsers", "allAuthenticatedUsers")
_DEFAULT: Final = re.compile(r"[0-9]+-compute@developer\.gserviceaccount\.com")

# cloud.google.com/sdk/gcloud/reference/storage/rsync. With a configuration of its own, in the home folder where a command
# over ssh begins, it uses the machine's account, which it asks the metadata server for (from memory).
BUCKET: Final = BucketCopy(
    scheme="gs",
    program="gcloud",
    alone=(
        "env",
        *("-u", "GOOGLE_APPLICATION_CREDENTIALS", "-u", "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE", "-u", "CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE"),
        *("-u", "CLOUDSDK_ACTIVE_CONFIG_NAME", "CLOUDSDK_CONFIG=.config/gpuprov-bucket", "CLOUDSDK_CORE_DISABLE_PROMPTS=1"),
    ),
    one=("storage", "cp"),
    all=("storage", "rsync", "--recursive"),
    delete="--delete-unmatched-destination-objects",
    dry_run="--dry-run",
)


class ServiceAccount(StrictModel):
    """A service account by its address."""

    service_account: Annotated[
        str,
        StringConstraints(
            pattern=r"^([a-z][a-z0-9-]{4,28}[a-z0-9]@[a-z][a-z0-9.-]{4,61}[a-z0-9]\.iam|[0-9]{6,20}-compute@developer)\.gserviceaccount\.com$"
        ),
        Field(description="the address of a service account, such as gpu-node@PROJECT.iam.gserviceaccount.com"),
    ]
    """The service account that the machine gets."""


def of(order: Order) -> ServiceAccount | None:
    """The identity of an order's place; None where it has none."""
    identity = getattr(order.place, "identity", "none")
    return identity if isinstance(identity, ServiceAccount) else None


def by_os_login(order: Order) -> bool:
    """Whether the machines of an order take the keys of OS Login, and none from their metadata."""
    return bool(getattr(order.place, "os_login", False))


def authority(bindings: Iterable[Mapping[str, Any]], email: str) -> Authority | None:
    """What a service account may do by the roles that a project gives it. Conditions are not counted in its favour.

    None where that is not known: the project gives it nothing, so that it can only have what stands elsewhere, or it has a role of one's
    own, whose permissions do not stand in the policy, and no other that is high.

    Args:
        bindings: of the project's IAM policy.
        email: the account's address.
    """
    members = {f"serviceAccount:{email}".lower(), *(name.lower() for name in _EVERYBODY)}
    held = [b for b in bindings if members & {str(member).lower() for member in b.get("members", [])}]
    roles = list(dict.fromkeys(str(binding.get("role", "")) for binding in held))
    grades = [_graded(role) for role in roles if role.startswith(_PREDEFINED)]
    worst = max(grades, default=None)
    whole = len(grades) == len(roles)
    return worst if worst is not None and (whole or worst.severity == "high") else None


def _graded(role: str) -> Authority:
    if role in _NARROW:
        return Authority("low", f"it may read names, or write its own logs and figures: {role}")
    if _HIGH.fullmatch(role):
        return Authority("high", f"it may change everything, or give itself any role: {role}")
    if _READS.fullmatch(role):
        return Authority("medium", f"it may read contents everywhere in the project: {role}")
    return Authority("medium", f"it may change things: {role}")


def check_form(order: Order) -> None:
    """Refuse a form of an order that imports a key into OS Login, which none can say.

    Raises:
        UsageError: it does.
    """
    if by_os_login(order):
        msg = "os_login: no form imports a key into OS Login"
        raise UsageError(msg, hint="launch with `gpuprov up`, or render a profile whose place leaves os_login out")


def request(order: Order) -> list[dict[str, Any]]:
    """The `service_accounts` of a machine: the one, or none, so that nothing on it can act for the project."""
    identity = of(order)
    return [{"email": identity.service_account, "scopes": [SCOPE]}] if identity else []


def options(place: Any) -> tuple[CloudOption, ...]:
    """What the plan and the review say about the identity of a place, and about who logs in."""
    login = _os_login() if place.os_login else ()
    if not isinstance(place.identity, ServiceAccount):
        return login
    email = place.identity.service_account
    editor = "it is the project's default account, which has the role Editor unless an organisation policy or a person took it away"
    unknown = "it is not known what it may do: grants may be on the project, its folders, its organisation and at single resources"
    default = _DEFAULT.fullmatch(email) is not None
    return (
        *login,
        CloudOption(
            "identity",
            f"acts in the project as {email}",
            severity="high" if default else "medium",
            title=f"The machine acts in the project as {email}",
            reason=f"{editor if default else unknown}. Its own metadata server hands the account's tokens to every process on the machine",
            narrower="`identity: none`, or a service account of its own with roles on single buckets",
        ),
    )


def _os_login() -> tuple[CloudOption, ...]:
    reason = (
        "who may log in is decided by IAM at each login, and not by a key in the machine's metadata; the key is in the Google account "
        "of whoever launches, until `down` or the deadline"
    )
    return (CloudOption("os_login", "logs in through OS Login", title="IAM decides who logs in (OS Login)", reason=reason, safer=True),)
