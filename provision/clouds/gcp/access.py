"""Whose GCP is spoken to. Importing this loads nothing of Google's."""

import os
from dataclasses import dataclass, field

from provision.structs import replace


@dataclass(frozen=True, slots=True)
class GcpAccess:
    """The credentials and the endpoint. All None: the user's own, by Google's application default credentials.

    Attributes:
        project: the project that asks.
        endpoint_url: another place than Google's; it gets `token` and no other credentials.
        token: the access token for that place.
        machine_endpoint_url: where machines reach Google and their metadata, in the embedded cloud; None for Google's own addresses.
        caller_address_url: answers with the address under which instances see this machine.
        timeout_s: how long one call may go unanswered.
    """

    project: str | None = None
    endpoint_url: str | None = None
    token: str | None = field(default=None, repr=False)
    machine_endpoint_url: str | None = None
    caller_address_url: str | None = None
    timeout_s: float = 30.0


def access_from(settings: dict[str, str]) -> GcpAccess:
    """The access that plain settings describe, such as the embedded cloud's; without any the user's own, or GPUPROV_GCP_ENDPOINT's."""
    access = GcpAccess(**settings)  # type: ignore[arg-type]  # the settings are texts: the time-out is not among them
    endpoint = os.environ.get("GPUPROV_GCP_ENDPOINT")
    if access.endpoint_url or not endpoint:
        return access
    # Nobody logs in there, so Google's library cannot say whose project it is.
    project = access.project or os.environ.get("GOOGLE_CLOUD_PROJECT")
    return replace(access, endpoint_url=endpoint, project=project, token=os.environ.get("CLOUDSDK_AUTH_ACCESS_TOKEN"))
