"""The service account that a place gives its machines: how it is written, what handing it over needs, and what is known of it.

A grant of a service account can stand at the project, its folders, its organisation or any single resource, so that no one answer says what
it may do. It counts as not known.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field, StringConstraints

from provision.clouds.own import BucketCopy, CloudOption
from provision.strict import StrictModel

if TYPE_CHECKING:
    from provision.clouds.base import Order

# cloud.google.com/compute/docs/access/create-enable-service-accounts-for-instances
ACTIONS: Final = ("compute.instances.setServiceAccount", "iam.serviceAccounts.actAs")
SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
"""The one scope that Google advises: what the account may do is decided by its roles alone (same page)."""
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


def of(order: Order) -> ServiceAccount | None:
    """The identity of an order's place; None where it has none."""
    identity = getattr(order.place, "identity", "none")
    return identity if isinstance(identity, ServiceAccount) else None


def request(order: Order) -> list[dict[str, Any]]:
    """The `service_accounts` of a machine: the one, or none, so that nothing on it can act for the project."""
    identity = of(order)
    return [{"email": identity.service_account, "scopes": [SCOPE]}] if identity else []


def options(place: Any) -> tuple[CloudOption, ...]:
    """What the plan and the review say about the identity of a place."""
    if not isinstance(place.identity, ServiceAccount):
        return ()
    email = place.identity.service_account
    editor = "it is the project's default account, which has the role Editor unless an organisation policy or a person took it away"
    unknown = "it is not known what it may do: grants stand at the project, its folders, its organisation and at single resources"
    default = _DEFAULT.fullmatch(email) is not None
    return (
        CloudOption(
            "identity",
            f"acts in the project as {email}",
            severity="high" if default else "medium",
            title=f"The machine acts in the project as {email}",
            reason=f"{editor if default else unknown}. Its own metadata server hands the account's tokens to every process on the machine",
            narrower="`identity: none`, or a service account of its own with roles on single buckets",
        ),
    )
