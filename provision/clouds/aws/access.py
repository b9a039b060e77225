"""Whose AWS is spoken to. Importing this loads nothing of boto3."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class AwsAccess:
    """The credentials and the endpoint. All None: the user's own, by boto3's usual chain.

    Attributes:
        endpoint_url: another place than AWS, such as the embedded cloud.
        access_key_id, secret_access_key: explicit credentials for it.
        caller_address_url: answers with the address under which instances see this machine.
        machine_endpoint_url: where machines reach AWS and their metadata, in the embedded cloud; None for AWS's own addresses.
        timeout_s: how long one call may go unanswered.
    """

    endpoint_url: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)
    caller_address_url: str | None = None
    machine_endpoint_url: str | None = None
    timeout_s: float = 30.0


def access_from(settings: dict[str, str]) -> AwsAccess:
    """The access that plain settings describe, such as those of the embedded cloud."""
    return AwsAccess(**settings)  # type: ignore[arg-type]  # the settings are texts: the time-out is not among them
