"""The scopes of a token that exactly one order needs, computed from it, so that a plan can name them.

Which operation needs which: `security` of each operation in DigitalOcean's OpenAPI document (specification/resources/*); for a create also
the words "Requires … scope" of its fields, and for a tag of a droplet `droplet:update` (tags_assign_resources.yml). A token can be bound to
these scopes, and to no region, size or name.
"""

from typing import Final

from provision.clouds import base
from provision.clouds.digitalocean.image_choice import own_of

PRE_CHECKS: Final = ("account:read", "image:read", "regions:read", "sizes:read")
LAUNCHING: Final = (
    "droplet:create",
    "droplet:read",
    "droplet:delete",  # a second droplet of one name is not kept
    "droplet:update",  # tags that the create did not bring
    "firewall:create",
    "firewall:read",
    "firewall:update",
    "image:read",
    "tag:create",
    "tag:read",
)
LIFECYCLE: Final = ("droplet:update", "firewall:read", "firewall:update", "tag:create", "tag:delete")
"""stop, start, extend, allow, and the tag of the rotated host key."""
ENDING: Final = ("block_storage:read", "droplet:delete", "droplet:read", "firewall:delete", "firewall:read", "tag:delete", "tag:read")
_VOLUME: Final = ("block_storage:create", "block_storage:delete", "block_storage:read")


def launching(order: base.Order) -> tuple[str, ...]:
    """What making the droplets of an order and waiting for them needs."""
    own = own_of(order.place)
    key = ("ssh_key:read",) if own is not None and own.ssh_key else ()
    vpc = ("vpc:read",) if order.subnet else ()
    return (*LAUNCHING, *(_VOLUME if order.volume_gb else ()), *vpc, *key)


def permissions(order: base.Order) -> tuple[str, ...]:
    """Everything from the first question to the last removal of an order, sorted."""
    return tuple(sorted({*PRE_CHECKS, *launching(order), *LIFECYCLE, *ENDING}))
