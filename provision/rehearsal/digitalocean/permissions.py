"""Whether a token may make a request: if it is ours, and by its scopes.

Scopes are those of the document: the operation's `security`, and what descriptions of operations and fields name ("Requires `ssh_key:read`
scope").
"""

from collections.abc import Iterator
from typing import Final

from provision.rehearsal.digitalocean.refusals import DropletApiError
from provision.rehearsal.digitalocean.settings import DigitaloceanSettings
from provision.rehearsal.digitalocean.world import DropletCall

# operation → field of its body → the scopes that the field needs besides
_FIREWALL: Final = {"tags": ("tag:create", "tag:read"), "droplet_ids": ("droplet:read",)}
_FIELDS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "droplets_create": {
        "image": ("image:read",),
        "ssh_keys": ("ssh_key:read",),
        "tags": ("tag:create",),
        "volumes": ("block_storage:read",),
        "vpc_uuid": ("vpc:read",),
    },
    "volumes_create": {"tags": ("tag:create",)},
    "firewalls_create": _FIREWALL,
    "firewalls_update": _FIREWALL,
}
_TYPES: Final = {"droplet": "droplet", "volume": "block_storage"}  # what is tagged → the beginning of its scopes
_LEGACY: Final = ("api:",)  # of tokens before scopes: docs.digitalocean.com/release-notes/api/#2024-04-17


def authenticate(settings: DigitaloceanSettings, *, is_ours: bool) -> None:
    """Refuse a token that is not the one of this start, or not valid any more."""
    if not is_ours or not settings.do_token_valid:
        raise DropletApiError(401, "Unable to authenticate you")


def _needs(call: DropletCall) -> Iterator[str]:
    yield from (scope for scope in call.operation.needs if not scope.startswith(_LEGACY))
    for field, scopes in _FIELDS.get(call.operation.id, {}).items():
        yield from scopes if call.body.get(field) else ()
    for resource in call.body.get("resources", []):
        yield f"{_TYPES.get(resource.get('resource_type'), 'image')}:update"
    if "tag_name" in call.query:
        yield "tag:read"


def missing(call: DropletCall) -> list[str]:
    """The scopes that a call needs and its token has not."""
    scopes = call.world.settings.do_scopes
    return [] if scopes is None else sorted(set(_needs(call)) - set(scopes))


def not_authorized() -> DropletApiError:
    """The refusal of a call whose token lacks a scope; DigitalOcean does not say which (digitalocean/doctl#1635)."""
    return DropletApiError(403, "You are not authorized to perform this operation")
