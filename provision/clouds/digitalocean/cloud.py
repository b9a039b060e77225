"""The `Cloud` of one DigitalOcean region, which only delegates and launches.

DigitalOcean has no token that makes a repeated create harmless, so nothing is created before it has been looked for: by name, among the
droplets with GPUs, by the launch's tag, and by the ids that the journal knows. A create whose answer was lost is looked for until it can
no longer be under way, and of several droplets with one name the oldest stays. What is removed beside it, nobody has used: a launch waits
for no other droplet.
"""

import datetime as dt
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal

from provision.clouds import base
from provision.clouds.caller import resolve
from provision.clouds.digitalocean import examine, firewall, power, removal, requests
from provision.clouds.digitalocean.access import DigitalOceanAccess
from provision.clouds.digitalocean.answers import instance_of, is_tagged, tags_of
from provision.clouds.digitalocean.api import DigitalOceanApi
from provision.clouds.digitalocean.errors import ACCESS, NameUsedError, NotThereError
from provision.clouds.polling import poll
from provision.concurrent import at_once
from provision.errors import (
    CapacityError,
    CloudError,
    CloudInvalidError,
    CloudUnreachableError,
    HostKeyUnknownError,
    InstanceNotFoundError,
    QuotaExceededError,
    ShortageError,
)

_TAGS_S: Final = 15.0
# How long a create without an answer is looked for, in lengths of a call that nobody answers, and in seconds at most.
_SETTLES, _SETTLES_S = 4.0, 60.0


class DigitalOceanCloud:
    """The `Cloud` of one region; it finds and removes in the whole team, whose lists know no region.

    Args:
        region: such as nyc2.
        access: whose team; by default the user's own token, and the endpoint that GPUPROV_DIGITALOCEAN_ENDPOINT names.
    """

    spans: ClassVar[Literal["region", "project"]] = "project"
    bakery = None

    def __init__(self, region: str, access: DigitalOceanAccess | None = None) -> None:
        self.region = region
        self._access = access or DigitalOceanAccess()
        self._api = DigitalOceanApi(self._access)
        self._creates: dict[str, int] = {}  # id of a droplet → its create
        self._unsure: set[str] = set()  # names of droplets whose create nobody answered

    def find(self, name: str | None = None) -> list[base.Instance]:
        """Our droplets in the team that exist, one for each name of a launch: a second one is removed, and never used."""

        def look() -> list[tuple[Any, dict[str, str]]]:
            return [(raw, tags) for raw, tags in removal.droplets(self._api) if tags and name in {None, tags.get(base.NAME_TAG)}]

        found = look()
        if not all(is_tagged(raw) for raw, _ in found):  # only its tags tell all of a droplet
            found = poll(look, lambda pairs: all(is_tagged(raw) for raw, _ in pairs), timeout_s=_TAGS_S, first_s=0.2)
        first: dict[str, base.Instance] = {}
        for raw, tags in sorted(found, key=lambda pair: int(pair[0]["id"])):
            first.setdefault(str(raw["name"]), instance_of(raw, tags))
        return sorted(first.values(), key=lambda i: (i.launched_at, i.name))

    def zones(self, order: base.Order) -> list[str]:  # noqa: ARG002 - whatever is ordered
        """None: a region is one data centre."""
        return []

    def examine(self, order: base.Order) -> list[base.Answer]:
        """What DigitalOcean says before a launch: the region, the size, the account's limit, the image."""
        return examine.examine(self._api, order, self.region)

    def launch(self, order: base.Order) -> list[base.Instance]:
        """Make the droplets of an order, or return those that an earlier try made."""
        wanted = {host: requests.droplet(order, host, self.region) for host in requests.hosts(order)}
        self._check_vpc(order)
        networks = resolve(order.ssh_from, self._access.caller_address_url)
        tag = requests.launch_tag(order.launch_id, order.name, order.tags.get(base.OWNER_TAG, ""))
        firewall.stand(self._api, order.name, tag, networks)
        names = [request["name"] for request in wanted.values()]
        made = self._existing(order, names, tag)
        if len(made) < order.minimum or self._unsure & set(names):
            self._make(order, wanted, made)
        self._check_made(order, made)
        return [instance_of(made[name], order.tags) for name in names if name in made]

    def _make(self, order: base.Order, wanted: dict[str, dict[str, Any]], made: dict[str, Any]) -> None:
        """Make those that are missing, one after the other: each is one call, whose failure says what became of that one."""
        for host, request in wanted.items():
            name = request["name"]
            if name in made:
                continue
            try:
                made[name] = self._create(order, host, request)
            except ShortageError as error:
                if len(made) >= order.minimum:
                    return
                self._leave(order, made)
                raise self._explained(error, order) from error.__cause__

    def _check_made(self, order: base.Order, made: dict[str, Any]) -> None:
        """Wait until they are made, and remove those that DigitalOcean could not make after all.

        Raises:
            CapacityError: too few are left; then none is.
        """

        def failure(name: str) -> CapacityError | None:
            machine = instance_of(made[name], order.tags)
            try:
                power.check_made(self._api, machine, self._creates.get(machine.id))
            except CapacityError as error:
                return error
            return None

        failed = {name: error for name, error in zip(made, at_once(failure, made), strict=True) if error}
        if failed and len(made) - len(failed) < order.minimum:
            self._leave(order, made)
            raise next(iter(failed.values()))
        self._discard([instance_of(made.pop(name), order.tags) for name in failed])

    def _leave(self, order: base.Order, made: dict[str, Any]) -> None:
        """Remove what an attempt made here, its volumes too: the next place is elsewhere, and each costs money."""
        self._discard([instance_of(raw, order.tags) for raw in made.values()])
        if order.volume_gb and not order.instance_store:
            names = {requests.volume_name(host, order.launch_id) for host in requests.hosts(order)}
            found = self._api.pages("volumes_list", "volumes", region=self.region)
            things = [base.Thing.tagged("volume", raw["id"], self.region, tags_of(raw)) for raw in found if raw["name"] in names]
            removal.remove(self._api, things, on_step=lambda _: None)

    def _create(self, order: base.Order, host: str, request: dict[str, Any]) -> Any:
        volumes = {"volumes": [self._volume(order, host)]} if order.volume_gb and not order.instance_store else {}
        try:
            answer = self._api.call("droplets_create", where=self.region, body={**request, **volumes})
        except CloudUnreachableError:
            self._unsure.add(request["name"])
            raise
        self._unsure.discard(request["name"])
        raw, links = answer["droplet"], answer.get("links") or {}
        self._creates |= {str(raw["id"]): each["id"] for each in links.get("actions") or () if each["rel"] == "create"}
        return raw

    def _volume(self, order: base.Order, host: str) -> str:
        """The id of the data volume of a machine: a new one, or that of an earlier try, whose name is the same."""
        request = requests.volume(order, host, self.region)
        try:
            return str(self._api.call("volumes_create", where=self.region, body=request)["volume"]["id"])
        except NameUsedError as error:
            found = self._api.pages("volumes_list", "volumes", name=request["name"], region=self.region)
            mine = next((raw for raw in found if tags_of(raw).get(base.LAUNCH_TAG) == order.launch_id), None)
            if mine is None:
                msg = f"the volume {request['name']} in {self.region} is not of this launch"
                raise CloudInvalidError(msg, hint="choose another --name, or remove that volume", detail=error.detail) from error
            return str(mine["id"])

    def _existing(self, order: base.Order, names: list[str], tag: str) -> dict[str, Any]:
        """The droplets of these names that exist, one for each; lists show a new one late, so an earlier client's is asked for by id.

        One whose create nobody answered, here or to a client that died, is looked for until it is late.
        """

        def look() -> dict[str, Any]:
            queries: tuple[dict[str, str], ...] = ({"name": names[0]}, {"type": "gpus"}, {"tag_name": tag})
            lists = at_once(lambda query: self._api.pages("droplets_list", "droplets", **query), queries)
            found = [*at_once(lambda droplet: removal.droplet(self._api, droplet), order.had), *(raw for each in lists for raw in each)]
            raws = {int(raw["id"]): raw for raw in found if raw and raw["name"] in names}
            first: dict[str, Any] = {}
            extra = [raw for _, raw in sorted(raws.items()) if first.setdefault(raw["name"], raw) is not raw]
            self._discard([instance_of(raw) for raw in extra])
            return first

        unsure, settles_s = self._unsure & set(names), min(_SETTLES * self._access.timeout_s, _SETTLES_S)
        if order.look_until and not unsure:
            unsure, settles_s = set(names), (order.look_until - dt.datetime.now(dt.UTC)).total_seconds()
        found = poll(look, lambda made: unsure <= made.keys(), timeout_s=settles_s)
        self._unsure -= set(names)
        return found

    def _check_vpc(self, order: base.Order) -> None:
        """See that the VPC of an order is in the region.

        Raises:
            CloudInvalidError: it is not.
        """
        if not order.subnet:
            return
        try:
            where = str(self._api.call("vpcs_get", where=self.region, vpc=order.subnet)["vpc"]["region"])
        except (NotThereError, CloudInvalidError) as error:
            msg = f"there is no VPC {order.subnet}"
            raise CloudInvalidError(msg, hint="correct network.subnet of the profile, or create it", detail=error.detail) from error
        if where != self.region:
            msg = f"the VPC {order.subnet} is in {where}, and not in {self.region}"
            raise CloudInvalidError(msg, hint="name a VPC of that region in network.subnet, or keep the places of its region")

    def _explained(self, error: CloudError, order: base.Order) -> CloudError:
        """The error of a create; DigitalOcean says of a size that an account may not have what it says of one that is sold out."""
        if not isinstance(error, CapacityError):
            return error
        try:
            found = examine.regions_of(self._api, order.instance_type)
        except CloudError:
            return error
        if found:
            return error
        msg = f"this account may have {order.instance_type} in no region"
        return QuotaExceededError(msg, hint=ACCESS, detail=error.detail)

    def _discard(self, instances: Sequence[base.Instance]) -> None:
        things = [base.Thing("instance", i.id, i.group, i.launch_id, i.owner, i.region) for i in instances]
        removal.remove(self._api, things, on_step=lambda _: None)

    def wait_running(self, instance: base.Instance, *, timeout_s: float) -> base.Instance:
        """Poll until the droplet is active and has its address, and remove a second one of its name that came late."""
        now = power.until_running(self._api, instance, timeout_s=timeout_s)
        raws = removal.droplets(self._api)
        name = next((raw["name"] for raw, _ in raws if str(raw["id"]) == now.id), "")
        self._discard([instance_of(raw, tags) for raw, tags in raws if raw["name"] == name and int(raw["id"]) > int(now.id)])
        return now

    def host_keys(self, instance: base.Instance, *, timeout_s: float) -> tuple[str, ...]:
        """The keys that the droplet's tags tell: the first one, which it was given, and those that replaced it at the first contact.

        Nobody connects before its firewall holds. A droplet that it does not protect is removed where nobody has connected yet.
        """
        try:
            firewall.until_holds(self._api, instance.group)
        except CloudInvalidError:
            if not requests.host_keys(power.check_alive(self._api, instance)["tags"], requests.HOST_KEY_TAG):
                self._discard([instance])
            raise

        def read() -> tuple[str, ...]:
            names = power.check_alive(self._api, instance)["tags"]
            return requests.host_keys(names, requests.HOST_KEY_TAG) + requests.host_keys(names, requests.FIRST_KEY_TAG)

        keys = poll(read, bool, timeout_s=timeout_s)
        if keys:
            return keys
        msg = f"no tag of droplet {instance.id} has its SSH host key"
        raise HostKeyUnknownError(msg, hint=f"`gpuprov down {instance.group}`, and launch it again")

    def publish_host_keys(self, instance: base.Instance, keys: Sequence[str]) -> None:
        """Put the keys of a droplet into its tags; when they are there already, take away the first one, which they replaced."""
        names = [requests.host_key_tag(requests.HOST_KEY_TAG, instance.launch_id, key) for key in keys]
        has = power.check_exists(self._api, instance)["tags"]
        if set(names) <= set(has):
            old = (requests.FIRST_KEY_TAG, requests.HOST_KEY_TAG)
            power.take_tags(self._api, instance, [tag for tag in has if tag.startswith(tuple(f"{o}:" for o in old)) and tag not in names])
        else:
            power.put_tags(self._api, instance, names)

    def console(self, instance: base.Instance) -> str:  # noqa: ARG002 - whatever droplet it is
        """Nothing: DigitalOcean's API has no console."""
        return ""

    def notices(self, instances: Sequence[base.Instance]) -> dict[str, tuple[str, ...]]:
        """Which of them are off, and billed on: DigitalOcean announces nothing else of a droplet in its API."""
        return {i.id: ("it is off, and costs as much as one that runs",) for i in instances if i.state == "stopped"}

    def stop(self, instances: Sequence[base.Instance], *, timeout_s: float) -> None:
        """Shut them down and wait until they are off. They are billed on."""
        at_once(lambda i: power.stop(self._api, i, timeout_s=timeout_s), instances)

    def start(self, instances: Sequence[base.Instance], *, timeout_s: float) -> list[base.Instance]:
        """Switch on those that are off and wait until all run; their addresses stay."""
        return at_once(lambda i: power.start(self._api, i, timeout_s=timeout_s), instances)

    def extend(self, instances: Sequence[base.Instance], deadline: dt.datetime) -> None:
        """Move the tag of the deadline, which `sweep` goes by; the timer on the host is the caller's to move."""
        at_once(lambda i: power.extend(self._api, i, deadline), instances)

    def allow(self, name: str, networks: Sequence[str]) -> list[str]:
        """Open port 22 of the launch of that name to exactly these networks; a firewall that is missing is made again."""
        sources = resolve(networks, self._access.caller_address_url)
        launches = {tag for raw in firewall.firewalls_of(self._api, name) for tag in raw["tags"] if requests.read_tags([tag])}
        if not launches:
            launches = {
                requests.launch_tag(tags[base.LAUNCH_TAG], name, tags.get(base.OWNER_TAG, ""))
                for _, tags in removal.droplets(self._api)
                if tags.get(base.NAME_TAG) == name
            }
        if not launches:
            msg = f"{name!r} has neither droplets nor a firewall at DigitalOcean"
            raise InstanceNotFoundError(msg, hint="`gpuprov ls` shows what exists")
        for tag in launches:
            firewall.stand(self._api, name, tag, sources)
        firewall.until_holds(self._api, name)
        return sorted(sources)

    def things(self, name: str | None = None, known: base.Known | None = None) -> list[base.Thing]:
        """Everything of ours in the team, by tag, and what is known of a launch by its ids and names."""
        return base.merged(removal.things(self._api, name), removal.known(self._api, known) if known else ())

    def remove(self, things: Sequence[base.Thing], *, on_step: base.Step) -> list[str]:
        """Remove them in the order in which they depend on one another, and wait until they are gone."""
        return removal.remove(self._api, things, on_step=on_step)


def connect(region: str, access: DigitalOceanAccess | None = None) -> DigitalOceanCloud:
    """The client of one region; the user's own token by default."""
    return DigitalOceanCloud(region, access)
