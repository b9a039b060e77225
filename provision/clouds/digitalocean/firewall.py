"""The firewall of a launch. It stands before its droplets, bound to the launch's tag, and nothing is done with one before it holds.

DigitalOcean has one firewall of a name ("409 duplicate name": harmony-one/harmony-ops#390), so the firewall, which is called after the
launch's name alone, is the claim of a launch to its name: of two launches of one name only one gets as far as its droplets.
"""

from collections.abc import Sequence
from typing import Any, Final

from provision.clouds import base
from provision.clouds.claim import taken
from provision.clouds.digitalocean import requests
from provision.clouds.digitalocean.answers import tags_of
from provision.clouds.digitalocean.api import DigitalOceanApi
from provision.clouds.digitalocean.errors import NameUsedError, NotThereError
from provision.clouds.polling import poll
from provision.errors import CloudInvalidError, CloudUnreachableError, NameTakenError

_HOLDS_S: Final = 120.0


def firewalls_of(api: DigitalOceanApi, name: str | None = None) -> list[Any]:
    """Our firewalls, all or the one of a launch's name: those that are called as ours are and are bound to a tag of ours."""
    found = api.pages("firewalls_list", "firewalls")
    return [raw for raw in found if _is_ours(raw) and name in {None, tags_of(raw)[base.NAME_TAG]}]


def _is_ours(raw: Any) -> bool:
    name = tags_of(raw).get(base.NAME_TAG)
    return name is not None and raw["name"] == requests.firewall_name(name)


def stand(api: DigitalOceanApi, name: str, tag: str, networks: Sequence[str]) -> None:
    """Let the firewall of a launch admit exactly these networks; one that an earlier try made gets today's.

    Args:
        api: whose team.
        name: of the launch.
        tag: of the launch; it must exist before a firewall can be bound to it.
        networks: who may come in.

    Raises:
        NameTakenError: another launch has the name.
        CloudInvalidError: a firewall of that name is not ours; it was not changed.
    """
    api.call("tags_create", body={"name": tag})
    wanted = requests.firewall(name, tag, networks)
    try:
        api.call("firewalls_create", body=wanted)
    except NameUsedError:
        current = next((raw for raw in api.pages("firewalls_list", "firewalls") if raw["name"] == wanted["name"]), None)
        if current is None:  # it went at this moment
            msg = f"the firewall {wanted['name']} comes and goes"
            raise CloudUnreachableError(msg, hint="run the same command again") from None
        _check_mine(current, name, tag)
        if current["status"] == "failed" or any(current[key] != wanted[key] for key in ("inbound_rules", "tags")):
            _change(api, current, wanted)


def until_holds(api: DigitalOceanApi, name: str) -> None:
    """Wait until the firewall of a launch has taken effect for all its droplets, which until then are open to everybody.

    Its `status`, and which droplets it is `waiting` for: docs.digitalocean.com/reference/terraform/reference/data-sources/firewall.

    Raises:
        CloudInvalidError: it failed, is gone, or did not take effect in time.
    """

    def held(raw: Any) -> bool:
        return bool(raw is not None and raw["status"] == "succeeded" and not raw.get("pending_changes"))

    def look() -> Any:
        return next(iter(firewalls_of(api, name)), None)

    raw = poll(look, lambda raw: raw is None or raw["status"] == "failed" or held(raw), timeout_s=_HOLDS_S)
    if not held(raw):
        msg = f"the firewall {requests.firewall_name(name)} is not in force: it is {raw['status'] if raw else 'gone'}"
        raise CloudInvalidError(msg, hint=f"try again; where it stays so, `gpuprov down {name}`, and ask DigitalOcean's support")


def _check_mine(current: Any, name: str, tag: str) -> None:
    """See that a firewall is this launch's.

    Raises:
        NameTakenError, CloudInvalidError: it is another launch's, or nobody's that we know.
    """
    if tag in (current["tags"] or ()):
        return
    if _is_ours(current):
        raise _taken(name, current)
    msg = f"the firewall {current['name']} is not of gpuprov"
    raise CloudInvalidError(msg, hint="ask its owner to rename it, or remove it")


def _taken(name: str, current: Any) -> NameTakenError:
    return taken(name, f"firewall {current['name']}", tags_of(current))


def _change(api: DigitalOceanApi, current: Any, wanted: dict[str, Any]) -> None:
    try:
        api.call("firewalls_update", body=wanted, firewall=current["id"])
    except NotThereError as error:
        msg = f"the firewall {wanted['name']} went while it was changed"
        raise CloudUnreachableError(msg, hint="run the same command again", detail=error.detail) from error
