"""What DigitalOcean's descriptions mean in our words: pure functions of its answers."""

from collections.abc import Mapping
from typing import Any, Final

from provision.clouds import base
from provision.clouds.digitalocean.requests import ADDRESS_TAG, LOGIN_TAG, PRIVATE, parsed_name, read_tags

# resources/droplets/models/droplet.yml, `status`.
_STATES: Final[Mapping[str, base.State]] = {"new": "pending", "active": "running", "off": "stopped", "archive": "terminated"}


def tags_of(raw: Any) -> dict[str, str]:
    """Our tags of a droplet, volume or firewall; a firewall's are those that it is bound to."""
    return read_tags(raw.get("tags") or ())


def is_tagged(raw: Any) -> bool:
    """Whether the tags of a droplet have arrived, which are applied after it is made."""
    return base.LAUNCH_TAG in tags_of(raw)


def addresses_of(raw: Any) -> tuple[str, str]:
    """The public and the private IPv4 address of a droplet; empty while, or where, it has none."""
    networks = (raw.get("networks") or {}).get("v4") or ()
    by_type = {network["type"]: str(network["ip_address"]) for network in networks}
    return by_type.get("public", ""), by_type.get("private", "")


def instance_of(raw: Any, tags: Mapping[str, str] | None = None) -> base.Instance:
    """Our instance for a droplet.

    Args:
        raw: of the API.
        tags: known of it where its own may not have arrived.
    """
    known = {**(tags or {}), **tags_of(raw)}
    public, private = addresses_of(raw)
    host = parsed_name(str(raw["name"]))
    created = base.parsed_deadline(str(raw.get("created_at") or ""))
    # A droplet without public networking never has a public address; any other has none at first.
    address = public or (private if known.get(ADDRESS_TAG) == PRIVATE else "")
    return base.Instance(
        name=host[0] if host else str(raw["name"]),
        group=known.get(base.NAME_TAG, ""),
        id=str(raw["id"]),
        cloud="digitalocean",
        region=str(raw["region"]["slug"]),
        zone=str(raw["region"]["slug"]),
        type=str(raw["size_slug"]),
        market="on-demand",
        state=_STATES.get(raw["status"], "pending"),
        address=address,
        login=known.get(LOGIN_TAG, "ubuntu"),
        launch_id=known.get(base.LAUNCH_TAG, ""),
        profile=known.get(base.PROFILE_TAG, ""),
        profile_digest=known.get(base.PROFILE_DIGEST_TAG, ""),
        owner=known.get(base.OWNER_TAG, ""),
        launched_at=created.isoformat(timespec="seconds") if created else "",
        deadline=known.get(base.DEADLINE_TAG, ""),
        count=base.count_of(known),
        tags=tuple(sorted((key, value) for key, value in base.added(known).items())),
    )
