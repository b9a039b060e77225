"""The `Cloud` of one GCP region, which only delegates and launches.

A warm launch is four calls: the two firewall rules at the same time, the insert, and the wait for all three operations. The operation says
whether there was a machine, the insert does not. Names derive from the launch, so that a repetition finds what exists.
"""

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal

from provision.clouds import base
from provision.clouds.base import TokenSpentError
from provision.clouds.caller import resolve
from provision.clouds.gcp import capacity, disk_key, examine, firewall, os_login, power, provider, removal, requests
from provision.clouds.gcp.access import GcpAccess, access_from
from provision.clouds.gcp.answers import instance_of, notices_of, tags_of_firewall
from provision.clouds.gcp.api import GcpProjectApi
from provision.clouds.gcp.bakery import GcpBakery
from provision.clouds.gcp.data import FLEX_START
from provision.clouds.gcp.errors import AlreadyThereError, GoneError, in_place, of_operation
from provision.clouds.polling import poll
from provision.concurrent import at_once
from provision.errors import (
    CapacityError,
    CloudError,
    CloudInvalidError,
    CloudUnreachableError,
    DiskKeyRefusedError,
    HostKeyUnknownError,
    InstanceNotFoundError,
    NameTakenError,
    PermissionRefusedError,
    ShortageError,
    ThrottledError,
)
from provision.host import hostkeys

_CREATE: Final = "compute.instances.create"
_LAUNCH_LABEL: Final = requests.LABELS[base.LAUNCH_TAG]
_NO_ROOM: Final = "try again later, or add another zone, region or machine type to the profile's places"
_INSERTED_S = 300.0
_MOST_TRIES: Final = 64  # of one attempt, all failed; each costs one call to find out
# Guest attributes may be asked 10 times a minute (https://cloud.google.com/compute/docs/metadata/manage-guest-attributes): at 0, 0.5, 1.5,
# 3.5, 7.5, 15.5 s and then every 10 s is 10 in the first minute.
_ATTRIBUTES_FIRST_S, _ATTRIBUTES_LONGEST_S = 0.5, 10.0


class GcpCloud:
    """The `Cloud` of one GCP region; it finds and removes in the whole project, whose lists know no region.

    Args:
        region: such as asia-east2.
        access: whose GCP; by default the user's own, or the one that GPUPROV_GCP_ENDPOINT names.
    """

    spans: ClassVar[Literal["region", "project"]] = "project"

    def __init__(self, region: str, access: GcpAccess | None = None) -> None:
        self.region = region
        self._access = access or access_from({})
        self._api = GcpProjectApi(self._access)
        self.bakery = GcpBakery(self._api)
        # How often an attempt has certainly failed: GCE would answer the same request id with the operation that failed.
        self._failures: Counter[str] = Counter()

    def find(self, name: str | None = None) -> list[base.Instance]:
        """Our instances in the project that exist."""
        instances = map(instance_of, self._raws(removal.label_filter(name)))
        return sorted(instances, key=lambda i: (i.launched_at, i.name))

    def _raws(self, query: str) -> list[Any]:
        scopes = self._api.pages("Instances", "aggregated_list", "compute.instances.list", filter=query)
        return [raw for _, scoped in scopes for raw in scoped.instances]

    def zones(self, order: base.Order) -> list[str]:
        """The zones of the region that have the GPU, as the catalog knows them."""
        return list(provider.offered_in(order.instance_type, order.gpu).get(self.region, ()))

    def examine(self, order: base.Order) -> list[base.Answer]:
        """What GCP says before a launch: the region, the type, the quotas and their use, the image."""
        return examine.examine(self._api, order, self.region, self.zones(order))

    def launch(self, order: base.Order) -> list[base.Instance]:
        """Make the machines of an order; for a repetition, the request id and the names return those that an earlier try made."""
        requests.check_limit(order.deadline)
        if order.market == FLEX_START and not (order.zone and order.count == 1):
            msg = "GCP lets flex-start machines wait for room one at a time, and several are asked for"
            raise CloudInvalidError(msg, hint="launch them one by one, each under a name of its own")
        with os_login.for_launch(self._api, order) as ready:
            return self._launch(ready)

    def _launch(self, order: base.Order) -> list[base.Instance]:
        networks = resolve(order.ssh_from, self._access.caller_address_url)
        text = requests.description(order.name, order.launch_id, order.tags.get(base.OWNER_TAG, ""))
        network = firewall.network_of(self._api, order, self.region)
        rules = firewall.begin(self._api, order.name, order.launch_id, text, networks, network=network)
        try:
            instances = self._machines(order)
        except (DiskKeyRefusedError, CloudInvalidError, PermissionRefusedError) as error:
            raise disk_key.explained(error, order) from error.__cause__
        try:
            firewall.wait(self._api, rules)
        except (CloudUnreachableError, ThrottledError):
            raise  # nobody knows what became of the rules: a repetition goes on with the launch
        except CloudError:
            self._discard(instances)
            raise
        return instances

    def _discard(self, instances: Sequence[base.Instance]) -> None:
        things = [base.Thing("instance", i.id, i.group, i.launch_id, i.owner, i.zone) for i in instances]
        removal.remove(self._api, things, on_step=lambda _: None)

    def _machines(self, order: base.Order) -> list[base.Instance]:
        """The machines of this attempt: those that an earlier try made, or new ones."""
        in_use: list[str] = []
        if order.first > 1:  # a name must be unique in its zone at GCE, but in the whole launch for us
            in_use, instances = self._of_launch(order)
            if len(instances) >= order.minimum:
                return instances
        names = requests.machine_names(order, in_use)
        try:
            return self._insert(order, names)
        except AlreadyThereError as error:
            in_use, instances = self._of_launch(order)
            if len(instances) >= order.minimum:
                return instances
            others = requests.machine_names(order, in_use)
            if others == names or len(others) < order.count:
                raise self._name_taken(order, names, error) from error
            self._failures[order.token(self.region)] += 1
            try:
                return self._insert(order, others)
            except AlreadyThereError as again:
                raise self._name_taken(order, others, again) from again

    def _insert(self, order: base.Order, names: Sequence[str]) -> list[base.Instance]:
        """Insert machines and wait for them.

        Raises:
            AlreadyThereError: machines of some of these names exist.
        """
        token = order.token(self.region)
        waits_s = capacity.FLEX_START_WAITS_S if order.market == FLEX_START else 0
        operation = self._api.end_of(self._operation(order, names, token), _CREATE, timeout_s=waits_s + _INSERTED_S)
        failure = self._failure(operation, order)
        if failure is None or order.count > 1 or not order.zone:
            try:
                made = self._of_attempt(order, names)
            except GoneError as error:  # GCE repeats its answer to the request id of a machine that has ended
                self._failures[token] += 1
                msg = f"the machine of an earlier try has ended ({_CREATE} in {order.zone})"
                raise TokenSpentError(msg, hint="run the same command again; it asks under another request id") from error
            except ShortageError as error:  # of a question: what was made is there, and no other place may be tried
                raise CloudUnreachableError(error.message, hint=error.hint, detail=error.detail) from error
            longest_s = waits_s + _INSERTED_S
            instances = [each for each in made if not waits_s or power.got_room(self._api, each, timeout_s=longest_s)]
            # One that was confirmed once may have been stopped by who uses it; any other one is stopped by GCE, which says why.
            ended = [each for each in instances if each.state in power.ENDED and each.id not in order.had]
            instances = [each for each in instances if each not in ended]
            if len(instances) >= order.minimum:
                self._discard(ended)
                return instances
            failure = failure or power.stopped(self._api, ended)
            # GCE itself undoes a bulk insert below its minimum; we do not keep what it leaves.
            self._discard(made)
        elif isinstance(failure, GoneError):
            self._discard(
                [instance_of(raw) for raw in [removal.machine(self._api, order.zone, names[0])] if raw and self._is_of(raw, order)]
            )
            if any(names[0] in error.message for error in operation.error.errors):
                # Of the machine itself, which may exist (skypilot-org/skypilot#1797): what SkyPilot takes for a zone without room.
                failure = CapacityError(failure.message, hint=_NO_ROOM, detail=failure.detail)
        self._failures[token] += 1
        raise failure or CapacityError(
            f"{_CREATE} in {order.zone or self.region}: GCP made fewer than {order.minimum} of {order.count} machines",
            hint=_NO_ROOM,
        )

    def _operation(self, order: base.Order, names: Sequence[str], token: str) -> Any:
        """The operation that makes the machines: the one of an earlier try, or a new one if that try failed.

        GCE answers a request id that it knows with the first operation of that id, even if that one failed. An operation that has already
        failed, and began before this request, is therefore of an earlier try, and the attempt takes the next id.
        """
        started = dt.datetime.now(dt.UTC)
        for number in range(self._failures[token], _MOST_TRIES):
            self._failures[token] = number
            operation = self._request(order, names, requests.request_id(token, str(number)))
            began = base.parsed_deadline(operation.insert_time)
            if operation.status.name != "DONE" or not operation.error.errors or began is None or began >= started:
                break
        return operation

    def _request(self, order: base.Order, names: Sequence[str], request_id: str) -> Any:
        """The call that makes machines: one in a zone, several in a zone, or any number in whichever zones of the region have them."""
        if order.zone and order.count == 1:
            request = {"zone": order.zone, "instance_resource": requests.instance(order, names[0])}
            return self._api.call("Instances", "insert_unary", _CREATE, where=order.zone, request_id=request_id, **request)
        body = {
            "bulk_insert_instance_resource_resource": requests.bulk(order, names, self.region, self.zones(order)),
            "request_id": request_id,
        }
        if order.zone:
            return self._api.call("Instances", "bulk_insert_unary", _CREATE, where=order.zone, zone=order.zone, **body)
        return self._api.call("RegionInstances", "bulk_insert_unary", _CREATE, where=self.region, region=self.region, **body)

    def _failure(self, operation: Any, order: base.Order) -> CloudError | None:
        """What the codes of an operation mean, with whatever else GCP can say to explain them."""
        errors = list(operation.error.errors)
        if not errors:
            return None
        if all(error.code == "VM_MIN_COUNT_NOT_REACHED" for error in errors):
            errors += self._api.causes(operation)
        return of_operation(
            errors,
            operation.http_error_status_code,
            in_place(_CREATE, order.zone or self.region),
            usage_of=lambda metric: examine.usage_of(self._api, metric, self.region),
        )

    def _of_launch(self, order: base.Order) -> tuple[list[str], list[base.Instance]]:
        """The names that machines of the launch have, and the machines of this attempt, in the order of their names."""
        listed = self._raws(removal.label_filter(order.launch_id, base.LAUNCH_TAG))
        targets = [(zone, name) for zone in ([order.zone] if order.zone else self.zones(order)) for name in requests.machine_names(order)]
        # A list may leave out what was just made.
        named = [raw for raw in at_once(lambda target: removal.machine(self._api, *target), targets) if raw]
        raws = list({raw.self_link: raw for raw in (*named, *listed) if raw.labels.get(_LAUNCH_LABEL) == order.launch_id}.values())
        mine = sorted((raw for raw in raws if self._is_of(raw, order)), key=lambda raw: (len(raw.name), raw.name))
        return [raw.name for raw in raws], [instance_of(raw) for raw in mine]

    def _is_of(self, raw: Any, order: base.Order) -> bool:
        return bool(raw.labels.get(requests.ATTEMPT_LABEL) == order.token("") and instance_of(raw).region == self.region)

    def _of_attempt(self, order: base.Order, names: Sequence[str]) -> list[base.Instance]:
        """The machines of this attempt that exist."""
        if not order.zone or order.count > 1:
            return self._of_launch(order)[1]
        raw = self._api.call("Instances", "get", "compute.instances.get", where=order.zone, zone=order.zone, instance=names[0])
        return [instance_of(raw)] if self._is_of(raw, order) else []

    def _name_taken(self, order: base.Order, names: Sequence[str], error: AlreadyThereError) -> NameTakenError:
        msg = f"{', '.join(names)} in {order.zone or self.region} is the name of another machine of project {self._api.project}"
        return NameTakenError(msg, hint="choose another --name, or remove that machine", detail=error.detail)

    def wait_running(self, instance: base.Instance, *, timeout_s: float) -> base.Instance:
        """Poll until the instance runs and has its address."""
        return power.until_running(self._api, instance, timeout_s=timeout_s)

    def host_keys(self, instance: base.Instance, *, timeout_s: float) -> tuple[str, ...]:
        """Read the keys that Google's agent on the machine published as guest attributes, over Google's API."""
        action = "compute.instances.getGuestAttributes"
        target = {"zone": instance.zone, "instance": instance.id, "query_path": "hostkeys/"}

        def read() -> tuple[str, ...]:
            try:
                attributes = self._api.call("Instances", "get_guest_attributes", action, where=instance.zone, **target)
            except GoneError:  # the agent has published nothing yet
                power.check_alive(self._api, instance)
                return ()
            return hostkeys.parse_pairs((item.key, item.value) for item in attributes.query_value.items)

        keys = poll(read, bool, timeout_s=timeout_s, first_s=_ATTRIBUTES_FIRST_S, longest_s=_ATTRIBUTES_LONGEST_S)
        if keys:
            return keys
        msg = f"the agent of {instance.id} published no SSH host keys within {timeout_s:g} s"
        raise HostKeyUnknownError(msg, hint=f"run the same `gpuprov up` again to wait longer; `gpuprov down {instance.group}` gives up")

    def publish_host_keys(self, instance: base.Instance, keys: Sequence[str]) -> None:
        """Nothing: a machine makes its own keys, and `host_keys` reads what the machine says."""

    def console(self, instance: base.Instance) -> str:
        """The output of the first serial port, which is the console; it goes with the machine.

        It only explains another error, so its permission is not among those that a launch needs.
        """
        target = {"zone": instance.zone, "instance": instance.id}
        action = "compute.instances.getSerialPortOutput"
        return str(self._api.call("Instances", "get_serial_port_output", action, where=instance.zone, **target).contents)

    def notices(self, instances: Sequence[base.Instance]) -> dict[str, tuple[str, ...]]:
        """What GCE says of the instances: maintenance, their time limit, a spot machine that it takes back."""

        def ask(instance: base.Instance) -> tuple[str, ...]:
            raw = power.raw_of(self._api, instance)
            return notices_of(raw) if raw is not None else ("it is gone",)

        return {i.id: lines for i, lines in zip(instances, at_once(ask, instances), strict=True) if lines}

    def stop(self, instances: Sequence[base.Instance], *, timeout_s: float) -> None:
        """Stop them and wait until they are stopped; local SSDs lose what is on them."""
        at_once(lambda i: power.stop(self._api, i, timeout_s=timeout_s), instances)

    def start(self, instances: Sequence[base.Instance], *, timeout_s: float) -> list[base.Instance]:
        """Start the stopped ones and wait until all run; the time limit stays where it was."""
        return at_once(lambda i: power.start(self._api, i, timeout_s=timeout_s), instances)

    def extend(self, instances: Sequence[base.Instance], deadline: dt.datetime) -> None:
        """Move the time limit and the tag of stopped machines; GCE changes neither limit nor action of a running one.

        Raises:
            CloudInvalidError: one of them is not stopped; nothing was changed then.
        """
        power.extend(self._api, instances, deadline)

    def allow(self, name: str, networks: Sequence[str]) -> list[str]:
        """Open port 22 of the launches of that name to exactly these networks; a rule that is missing is made again."""
        sources = resolve(networks, self._access.caller_address_url)
        rules = firewall.rules_of(self._api, name)
        # Launch id → owner and network. A rule stays in the network that it was made in; where none is left, the machines tell the network.
        launches = {
            tags[base.LAUNCH_TAG]: (tags.get(base.OWNER_TAG, ""), str(rule.network)) for rule in rules for tags in [tags_of_firewall(rule)]
        }
        if not launches:
            raws = [(instance_of(raw), raw.network_interfaces[0].network) for raw in self._raws(removal.label_filter(name))]
            launches = {instance.launch_id: (instance.owner, network) for instance, network in raws if instance.launch_id}
        if not launches:
            msg = f"{name!r} has neither machines nor firewall rules in project {self._api.project}"
            raise InstanceNotFoundError(msg, hint="`gpuprov ls` shows what exists")
        for launch_id, (owner, network) in launches.items():
            text = requests.description(name, launch_id, owner)
            firewall.allow(self._api, name, launch_id, text, sources, rules=rules, network=network)
        return sorted(sources)

    def things(self, name: str | None = None, known: base.Known | None = None) -> list[base.Thing]:
        """Everything of ours in the project, by tag, and what is known of a launch by its ids and names."""
        return base.merged(removal.things(self._api, name), removal.known(self._api, known) if known else ())

    def remove(self, things: Sequence[base.Thing], *, on_step: base.Step) -> list[str]:
        """Remove them in the order in which they depend on one another, and wait until they are gone."""
        return removal.remove(self._api, things, on_step=on_step)


def connect(region: str, access: GcpAccess | None = None) -> GcpCloud:
    """The client of one region; the user's own account by default."""
    return GcpCloud(region, access)
