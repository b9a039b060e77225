"""VPCs and firewalls of the embedded DigitalOcean."""

import functools
import ipaddress
import re
from typing import Any, Final

from provision.rehearsal.digitalocean import offers
from provision.rehearsal.digitalocean.refusals import DropletApiError, not_found, not_implemented, unprocessable
from provision.rehearsal.digitalocean.world import Answer, DropletCall, DropletState, DropletWorld, Handler, new_uuid, now

_PORTS: Final = re.compile(r"0|all|([1-9]\d{0,4})(-([1-9]\d{0,4}))?")
_RULES: Final = {"inbound_rules": "sources", "outbound_rules": "destinations"}
_SSH: Final = 22
_ALL: Final = {"0", "all"}
_BEYOND: Final = ("load_balancer_uids", "kubernetes_ids")


def seed(world: DropletWorld) -> None:
    """Make the default VPC of each region."""
    for number, slug in enumerate(offers.region_slugs()):
        _add_vpc(world, {"name": f"default-{slug}", "region": slug, "ip_range": f"10.{108 + number}.0.0/20"}, default=True)


def _add_vpc(world: DropletWorld, given: dict[str, Any], *, default: bool) -> dict[str, Any]:
    number = new_uuid()
    vpc = {"id": number, "urn": f"do:vpc:{number}", "description": "", "created_at": now(), "default": default, **given}
    world.vpcs[number] = vpc
    return vpc


def _create_vpc(call: DropletCall) -> Answer:
    world, given = call.world, dict(call.body)
    if not offers.is_region(given["region"]):
        raise unprocessable("region is not valid")
    if any(vpc["name"] == given["name"] for vpc in world.vpcs.values()):
        raise DropletApiError(409, "a VPC with that name already exists")
    given.setdefault("ip_range", f"10.{140 + len(world.vpcs) % 100}.0.0/20")
    mine = _network(given["ip_range"])
    if any(mine.overlaps(_network(vpc["ip_range"])) for vpc in world.vpcs.values()):
        raise unprocessable("This range/size overlaps with another VPC network in your account.")
    return 201, {"vpc": _add_vpc(world, given, default=False)}


def _network(text: str) -> ipaddress.IPv4Network:
    try:
        return ipaddress.IPv4Network(text)
    except ValueError as error:
        raise unprocessable("ip_range is not a valid CIDR") from error


def _vpc(call: DropletCall) -> dict[str, Any]:
    vpc = call.world.vpcs.get(str(call.path["vpc_id"]))
    if vpc is None:
        raise not_found()
    return vpc


def _delete_vpc(call: DropletCall) -> Answer:
    vpc = _vpc(call)
    if vpc["default"] or any(d.shown["vpc_uuid"] == vpc["id"] for d in call.world.droplets.values()):
        raise DropletApiError(403, "Can not delete VPC with members")
    del call.world.vpcs[vpc["id"]]
    return 204, None


def _checked(call: DropletCall, own: str = "") -> dict[str, Any]:
    """A firewall as a request describes it; what it leaves out is empty, in a change too."""
    world, body = call.world, call.body
    if any(f["name"] == body["name"] and f["id"] != own for f in world.firewalls.values()):
        raise DropletApiError(409, "duplicate name")
    for side, target in _RULES.items():
        for rule in body.get(side) or []:
            _check_rule(world, rule, target)
    for tag in body.get("tags") or []:
        if world.tags.get(tag.lower()) != tag:
            raise unprocessable(f"tag {tag} does not exist")
    for number in body.get("droplet_ids") or []:
        if number not in world.droplets:
            raise unprocessable(f"droplet {number} does not exist")
    lists = {key: list(body.get(key) or []) for key in ("droplet_ids", "tags", *_RULES)}
    return {"name": body["name"], **lists}


def _check_rule(world: DropletWorld, rule: dict[str, Any], target: str) -> None:
    beyond = sorted(field for field in _BEYOND if rule[target].get(field))
    if beyond:
        raise not_implemented("a rule of a firewall", beyond)
    ports = _PORTS.fullmatch(rule["ports"])
    ends = [int(part) for part in (ports[1], ports[3]) if part] if ports else []
    if ports is None or ends != sorted(ends) or (ends and ends[-1] > 65_535):  # noqa: PLR2004 - the largest port
        raise unprocessable(f"ports {rule['ports']!r} must be a port, a range of ports, or 0 for all")
    if rule["protocol"] == "icmp" and rule["ports"] not in _ALL:
        raise unprocessable("icmp has no ports")
    if not any(rule[target].values()):
        raise unprocessable(f"a rule must have {target}")
    for address in rule[target].get("addresses", []):
        try:
            ipaddress.ip_network(address)
        except ValueError as error:
            raise unprocessable(f"{address!r} is neither an address nor a CIDR") from error
    for tag in rule[target].get("tags") or []:
        if world.tags.get(tag.lower()) != tag:
            raise unprocessable(f"tag {tag} does not exist")


def _create_firewall(call: DropletCall) -> Answer:
    number = new_uuid()
    firewall = {"id": number, "created_at": now(), **_checked(call)}
    call.world.firewalls[number] = firewall
    _take_effect(call.world, firewall)
    return 202, {"firewall": dict(firewall)}


def _update_firewall(call: DropletCall) -> Answer:
    firewall = _firewall(call)
    firewall |= _checked(call, firewall["id"])
    _take_effect(call.world, firewall)
    return 200, {"firewall": dict(firewall)}


def _take_effect(world: DropletWorld, firewall: dict[str, Any]) -> None:
    """Let the change hold, at once or after a while: `waiting` until then."""
    members = [droplet.id for droplet in world.droplets.values() if _covers(firewall, droplet)]
    firewall["pending_changes"] = []
    _wait(world, firewall, members)


def join(world: DropletWorld, droplet: DropletState, before: list[str]) -> None:
    """Let the firewalls of a droplet's new tags take effect for it. Those that it had the tags of hold on, for others as well.

    "pending_changes … detail exactly which Droplets are having their security policies updated. When empty, all changes have been
    successfully applied": docs.digitalocean.com/reference/terraform/reference/data-sources/firewall.
    """
    new = set(droplet.shown["tags"]) - set(before)
    for firewall in [firewall for firewall in world.firewalls.values() if new & set(firewall["tags"])]:
        _wait(world, firewall, [droplet.id])


def _wait(world: DropletWorld, firewall: dict[str, Any], members: list[int]) -> None:
    changes = [{"droplet_id": number, "removing": False, "status": "waiting"} for number in members]
    firewall |= {"status": "waiting", "pending_changes": [*firewall["pending_changes"], *changes]}

    def settle() -> None:
        with world.lock:
            if world.settings.do_firewall_fails:
                firewall["status"] = "failed"
                return
            left = [change for change in firewall["pending_changes"] if change not in changes]
            firewall.update(status="waiting" if left else "succeeded", pending_changes=left)
            protect(world)

    if world.settings.do_firewall_s:
        world.timers.after(world.settings.do_firewall_s, settle)
    else:
        settle()


def _firewall(call: DropletCall) -> dict[str, Any]:
    firewall = call.world.firewalls.get(str(call.path["firewall_id"]))
    if firewall is None:
        raise not_found()
    return firewall


def _delete_firewall(call: DropletCall) -> Answer:
    del call.world.firewalls[_firewall(call)["id"]]
    protect(call.world)
    return 204, None


def _covers(firewall: dict[str, Any], droplet: DropletState) -> bool:
    """Whether a firewall is for a droplet: by its number, or by a tag that the droplet has."""
    return droplet.id in firewall["droplet_ids"] or bool(set(firewall["tags"]) & set(droplet.shown["tags"]))


def _holds(firewall: dict[str, Any], droplet: DropletState) -> bool:
    """Whether a firewall has taken effect for a droplet; one that others wait for holds as before."""
    pending = [change["droplet_id"] for change in firewall["pending_changes"]]
    return bool(firewall["status"] == "succeeded" or pending) and droplet.id not in pending


def admitted(world: DropletWorld, droplet: DropletState) -> list[tuple[str, str]] | None:
    """The TCP ports of a droplet and the networks that reach them by now; None without a firewall, which is everybody."""
    own = [f for f in world.firewalls.values() if _covers(f, droplet) and _holds(f, droplet)]
    rules = [rule for firewall in own for rule in firewall["inbound_rules"] if rule["protocol"] == "tcp"]
    return [(rule["ports"], network) for rule in rules for network in _sources(world, rule["sources"])] if own else None


def _sources(world: DropletWorld, sources: dict[str, Any]) -> list[str]:
    """The networks of a rule: those that it names, and the addresses of the droplets that it names."""
    members = [droplet for tag in sources.get("tags") or [] for droplet in world.tagged(tag)]
    members += [world.droplets[number] for number in sources.get("droplet_ids", []) if number in world.droplets]
    cards = [card for member in members for card in member.shown["networks"]["v4"]]
    return [*sources.get("addresses", []), *(f"{card['ip_address']}/32" for card in cards)]


def ssh_from(world: DropletWorld, droplet: DropletState) -> list[str]:
    """The networks that reach port 22 of a droplet."""
    rules = admitted(world, droplet)
    return ["0.0.0.0/0", "::/0"] if rules is None else sorted({network for ports, network in rules if _has_ssh(ports)})


def _has_ssh(ports: str) -> bool:
    first, _, last = ports.partition("-")
    return ports in _ALL or int(first) <= _SSH <= int(last or first)


def protect(world: DropletWorld) -> None:
    """Hold every host to the firewalls that are for its droplet by now, in a moment."""
    for droplet in [droplet for droplet in world.droplets.values() if droplet.on and world.park]:
        world.timers.after(0, functools.partial(_protect, world, droplet))


def _protect(world: DropletWorld, droplet: DropletState) -> None:
    with droplet.hosting:
        hold(world, droplet)


def hold(world: DropletWorld, droplet: DropletState) -> None:
    """Hold the host of a droplet to its firewalls; called without the world's lock, and with the droplet's own."""
    if world.park and droplet.on:
        with world.lock:
            rules = admitted(world, droplet)
        every = [("1-65535" if ports in _ALL else ports, network) for ports, network in rules or () if ":" not in network]
        world.park.admit(droplet.host_id, None if rules is None else every)


HANDLERS: Final[dict[str, Handler]] = {
    "vpcs_list": lambda call: call.listed("vpcs", list(call.world.vpcs.values())),
    "vpcs_get": lambda call: (200, {"vpc": _vpc(call)}),
    "vpcs_create": _create_vpc,
    "vpcs_delete": _delete_vpc,
    "firewalls_list": lambda call: call.listed("firewalls", [dict(f) for f in call.world.firewalls.values()]),
    "firewalls_get": lambda call: (200, {"firewall": dict(_firewall(call))}),
    "firewalls_create": _create_firewall,
    "firewalls_update": _update_firewall,
    "firewalls_delete": _delete_firewall,
}
