"""Whose DigitalOcean is spoken to."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DigitalOceanAccess:
    """The token and the endpoint. All None: the user's own, from the environment.

    Attributes:
        token: of the API; None for that of DIGITALOCEAN_TOKEN or DIGITALOCEAN_ACCESS_TOKEN.
        endpoint_url: another place than DigitalOcean's, without `/v2`.
        caller_address_url: answers with the address under which droplets see this machine.
        timeout_s: how long one call may go unanswered.
    """

    token: str | None = field(default=None, repr=False)
    endpoint_url: str | None = None
    caller_address_url: str | None = None
    timeout_s: float = 30.0


def access_from(settings: dict[str, str]) -> DigitalOceanAccess:
    """The access that plain settings describe, such as those of the embedded cloud."""
    return DigitalOceanAccess(**settings)  # type: ignore[arg-type]  # the settings are texts: the time-out is not among them
