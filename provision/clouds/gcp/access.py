"""Whose GCP is spoken to. Importing this loads nothing of Google's."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GcpAccess:
    """The credentials and the endpoint. All None: the user's own, by Google's application default credentials.

    Attributes:
        project: the project that asks.
        endpoint_url: another place than Google's; it gets no credentials.
        caller_address_url: answers with the address under which instances see this machine.
        timeout_s: how long one call may go unanswered.
    """

    project: str | None = None
    endpoint_url: str | None = None
    caller_address_url: str | None = None
    timeout_s: float = 30.0


def access_from(settings: dict[str, str]) -> GcpAccess:
    """The access that plain settings describe, such as those of the embedded cloud."""
    return GcpAccess(**settings)  # type: ignore[arg-type]  # the settings are texts: the time-out is not among them
