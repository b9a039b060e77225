"""Droplets that exist: what is read of them, and what is done to them."""

from collections.abc import Callable
from typing import Any, Final

from provision.rehearsal.digitalocean import guests, offers
from provision.rehearsal.digitalocean.refusals import not_found, not_implemented, pending, unprocessable
from provision.rehearsal.digitalocean.world import Answer, DropletCall, DropletState, DropletWorld, Handler

# What an action does, and the status from which it may start; None for any.
_ACTIONS: Final[dict[str, tuple[Callable[[DropletWorld, DropletState], None], str | None]]] = {
    "shutdown": (guests.power_off, "active"),
    "power_off": (guests.power_off, "active"),
    "power_on": (guests.activate, "off"),
    "reboot": (guests.restart, "active"),
    "power_cycle": (guests.restart, "active"),
}
_STATES: Final = {"active": "Droplet is currently off.", "off": "Droplet is already powered on."}


def _list(call: DropletCall) -> Answer:
    """By the document: no type is no droplet with GPUs; `tag_name` goes with neither `name` nor `type`; names are compared without case."""
    query, world = call.query, call.world
    if "tag_name" in query and {"name", "type"} & query.keys():
        raise unprocessable("tag_name can not be combined with name or type.")
    found = [droplet for droplet in world.droplets.values() if guests.is_seen(world, droplet)]
    if "tag_name" in query:
        own = world.tags.get(query["tag_name"].lower())
        found = [d for d in found if own in d.shown["tags"] and (world.settings.do_tag_lists_gpus or not d.gpu)]
    else:
        found = [d for d in found if d.gpu == (query.get("type") == "gpus")]
    if "name" in query:
        found = [d for d in found if d.shown["name"].lower() == query["name"].lower()]
    return call.listed("droplets", [guests.view(world, droplet) for droplet in found])


def _get(call: DropletCall) -> Answer:
    return 200, {"droplet": guests.view(call.world, call.world.droplet(call.path["droplet_id"]))}


def _delete(call: DropletCall) -> Answer:
    droplet = call.world.droplet(call.path["droplet_id"])
    if droplet.event and not call.world.settings.do_new_can_be_deleted:
        raise pending()
    _remove(call.world, droplet)
    return 204, None


def _remove(world: DropletWorld, droplet: DropletState) -> None:
    """Let a droplet go, after a while: digitalocean/terraform-provider-digitalocean waits until a GET finds it no more."""

    def end() -> None:
        with world.lock:
            guests.erase(world, droplet)

    if world.settings.do_gone_s:
        world.begin(droplet, "destroy", world.settings.do_gone_s, end)
    else:
        end()


def _delete_tagged(call: DropletCall) -> Answer:
    """All droplets of a tag, whatever they have; those with a pending event stay."""
    found = call.world.tagged(call.query["tag_name"])
    if call.query["tag_name"].lower() not in call.world.tags:
        raise not_found()
    for droplet in found:
        if not droplet.event or call.world.settings.do_new_can_be_deleted:
            _remove(call.world, droplet)
    return 204, None


def _act(call: DropletCall) -> Answer:
    world, droplet, kind = call.world, call.world.droplet(call.path["droplet_id"]), call.body["type"]
    if kind not in _ACTIONS:
        raise not_implemented(f"the action {kind}")
    if droplet.event:
        raise pending()
    act, state = _ACTIONS[kind]
    if state and droplet.shown["status"] != state:
        raise unprocessable(_STATES[state])
    return 201, {"action": _shown(world, world.begin(droplet, kind, world.settings.do_action_s, lambda: act(world, droplet)))}


def _shown(world: DropletWorld, action: dict[str, Any]) -> dict[str, Any]:
    """An action as its GET shows it, with the whole region."""
    return {**action, "region": offers.region(world, action["region_slug"])}


def _action(call: DropletCall) -> Answer:
    action: dict[str, Any] | None = call.world.actions.get(call.path["action_id"])
    if action is None or action["resource_id"] != call.path.get("droplet_id", action["resource_id"]):
        raise not_found()
    return 200, {"action": _shown(call.world, action)}


HANDLERS: Final[dict[str, Handler]] = {
    "droplets_list": _list,
    "droplets_get": _get,
    "droplets_destroy": _delete,
    "droplets_destroy_byTag": _delete_tagged,
    "dropletActions_post": _act,
    "dropletActions_get": _action,
    "actions_get": _action,
}
