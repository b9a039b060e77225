"""Our things in a team, found by tag and by name, and their removal in the order in which they depend on one another."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from provision.clouds import base
from provision.clouds.digitalocean import requests
from provision.clouds.digitalocean.answers import is_tagged, tags_of
from provision.clouds.digitalocean.api import DigitalOceanApi
from provision.clouds.digitalocean.errors import NameUsedError, NotThereError, PendingEventError
from provision.clouds.digitalocean.firewall import firewalls_of
from provision.clouds.polling import poll
from provision.concurrent import at_once
from provision.errors import CloudInvalidError, CloudUnreachableError

# In the order of removal: what is in use cannot go, and the tags tell whose all of it is. The tag that binds the
# firewall stands for all tags that only its launch has.
KINDS: Final = {
    "instance": ("droplets_destroy", "droplet"),
    "volume": ("volumes_delete", "volume"),
    "firewall": ("firewalls_delete", "firewall"),
    "tag": ("tags_delete", "tag"),
}
_REMOVED_S: Final = 1200.0


def droplets(api: DigitalOceanApi) -> list[tuple[Any, dict[str, str]]]:
    """Our droplets with what is known of them: by their tags, and before those are there by name and firewall.

    A list without `type=gpus` leaves out droplets with GPUs (resources/droplets/droplets_list.yml).
    """
    raws = [raw for raw in api.pages("droplets_list", "droplets", type="gpus") if is_tagged(raw) or requests.parsed_name(raw["name"])]
    launches = {} if all(map(is_tagged, raws)) else _launches(api)
    return [(raw, tags_of(raw) if is_tagged(raw) else _by_name(raw, launches)) for raw in raws]


def _launches(api: DigitalOceanApi) -> dict[str, dict[str, str]]:
    """Launch id → our tags, of the firewalls, which are there before the droplets."""
    return {tags[base.LAUNCH_TAG]: tags for tags in map(tags_of, firewalls_of(api))}


def _by_name(raw: Any, launches: Mapping[str, dict[str, str]]) -> dict[str, str]:
    _, beginning = requests.parsed_name(raw["name"]) or ("", "")
    return next((tags for launch_id, tags in launches.items() if launch_id.startswith(beginning)), {})


def things(api: DigitalOceanApi, name: str | None) -> list[base.Thing]:
    """Everything of ours in the team, or that of one launch's name."""

    def instances() -> list[base.Thing]:
        return [base.Thing.tagged("instance", str(raw["id"]), raw["region"]["slug"], tags) for raw, tags in droplets(api) if tags]

    def volumes() -> list[base.Thing]:
        raws = [raw for raw in api.pages("volumes_list", "volumes") if is_tagged(raw)]
        return [base.Thing.tagged("volume", raw["id"], raw["region"]["slug"], tags_of(raw)) for raw in raws]

    def firewalls() -> list[base.Thing]:
        return [base.Thing.tagged("firewall", raw["id"], "global", tags_of(raw)) for raw in firewalls_of(api)]

    def tags() -> list[base.Thing]:
        read = ((each, requests.read_tags([each])) for each in _tag_names(api))
        return [base.Thing.tagged("tag", each, "global", found) for each, found in read if base.LAUNCH_TAG in found]

    questions: tuple[Callable[[], list[base.Thing]], ...] = (instances, volumes, firewalls, tags)
    return [thing for found in at_once(lambda ask: ask(), questions) for thing in found if name in {None, thing.group}]


def droplet(api: DigitalOceanApi, droplet_id: str) -> Any:
    """The droplet of an id, which no list may show yet; None where there is none, or none any more."""
    try:
        raw = api.call("droplets_get", droplet=droplet_id)["droplet"]
    except NotThereError:
        return None
    return None if str(raw["status"]) == "archive" else raw


def known(api: DigitalOceanApi, launch: base.Known) -> list[base.Thing]:
    """The droplets of a launch, by id: lists may leave out a new one, and its tags arrive later."""

    def one(machine: tuple[str, str]) -> list[base.Thing]:
        raw = droplet(api, machine[0])
        _, beginning = (requests.parsed_name(str(raw["name"])) if raw else None) or ("", "")
        mine = bool(beginning) and launch.launch_id.startswith(beginning)
        return [launch.thing("instance", machine[0], str(raw["region"]["slug"]))] if mine else []

    return [thing for found in at_once(one, launch.machines) for thing in found]


def remove(api: DigitalOceanApi, things: Sequence[base.Thing], *, on_step: base.Step) -> list[str]:
    """Remove them kind by kind, those of one kind at the same time, and wait until they are gone."""
    phrases: list[str] = []
    for kind in KINDS:
        of_kind = [thing for thing in things if thing.kind == kind]
        if not of_kind:
            continue
        on_step(f"removing {', '.join(map(str, of_kind))}")
        phrases += map(str, of_kind)
        if kind == "tag":  # that of a launch goes last, because it tells whose the others are
            launches = {thing.launch_id for thing in of_kind} - {""}
            others = [name for name in _tag_names(api) if requests.launch_of(name) in launches and not name.startswith(base.LAUNCH_TAG)]
            at_once(lambda name: _remove(api, base.Thing("tag", name, "", "", "", "global")), others)
        at_once(lambda thing: _remove(api, thing), of_kind)
    return phrases


def _tag_names(api: DigitalOceanApi) -> list[str]:
    return [str(raw["name"]) for raw in api.pages("tags_list", "tags")]


def _remove(api: DigitalOceanApi, thing: base.Thing) -> None:
    """Remove a thing that may be gone already, as soon as nothing else is being done to it.

    Raises:
        CloudUnreachableError: it takes longer, after DigitalOcean said that it goes.
        CloudInvalidError: DigitalOcean does not let it go.
    """
    action, what = KINDS[thing.kind]
    busy: list[CloudInvalidError] = []

    def gone() -> bool:
        try:
            api.call(action, **_target(thing, what))
        except NotThereError:
            return True
        except (PendingEventError, NameUsedError) as error:  # it is being made, or a volume is still attached
            busy[:] = [error]
            return False
        busy.clear()
        return thing.kind != "instance" or _is_gone(api, thing.id)

    if poll(gone, bool, timeout_s=_REMOVED_S, first_s=0.2):
        return
    if busy:
        msg, hint = f"DigitalOcean does not let {thing} go within {_REMOVED_S:g} s", ", and ask DigitalOcean's support"
        raise CloudInvalidError(msg, hint=f"run `gpuprov down {thing.group}` again later{hint}", detail=busy[0].detail)
    msg = f"the removal of {thing} is under way, and longer than {_REMOVED_S:g} s"
    raise CloudUnreachableError(msg, hint=f"run `gpuprov down {thing.group}` again: it goes on where it stopped")


def _target(thing: base.Thing, what: str) -> dict[str, Any]:
    return {"where": "" if thing.where == "global" else thing.where, what: thing.id}


def _is_gone(api: DigitalOceanApi, droplet_id: str) -> bool:
    return poll(lambda: droplet(api, droplet_id) is None, bool, timeout_s=_REMOVED_S)
