"""GCP: launch, find, wait, host keys, power, who may come in.

A warm launch is four calls: the two firewall rules at the same time, the insert, and the wait for all three operations. Whether there was
a machine is said by the operation, not by the insert. Names of what is made derive from the launch, so that asking again finds it.
"""

from __future__ import annotations

import datetime as dt
import os
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from provision.clouds import base
from provision.clouds.caller import resolved
from provision.clouds.gcp import examine, firewall, offers, power, removal, requests, sdk
from provision.clouds.gcp.answers import instance_of, notices_of, tags_of_firewall
from provision.clouds.gcp.api import GcpApi, asked_in, at_once, poll
from provision.clouds.gcp.client import GcpAccess
from provision.clouds.gcp.errors import AlreadyThereError, GoneError, of_operation, quota
from provision.clouds.gcp.network import network_of
from provision.errors import (
    CapacityError,
    CloudError,
    CloudUnreachableError,
    HostKeyUnknownError,
    InstanceNotFoundError,
    NameTakenError,
    QuotaExceededError,
    ThrottledError,
)
from provision.host import hostkeys

_CREATE = "compute.instances.create"
_INSERTED_S = 300.0
_MOST_TRIES = 64  # of one attempt, all failed; each costs one call to learn it
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
        # Google's library has no variable for another endpoint; the embedded GCP is found by ours.
        self._access = access or GcpAccess(endpoint_url=os.environ.get("GPUPROV_GCP_ENDPOINT") or None)
        self._api = GcpApi(self._access)
        # How often an attempt has failed for certain: GCE would answer the same request id with the operation that failed.
        self._failed: Counter[str] = Counter()
        sdk.preload()

    # --- finding --------------------------------------------------------------------------------------------------

    def find(self, name: str | None = None) -> list[base.Instance]:
        """Our instances in the project that exist."""
        found = [instance_of(raw) for raw in self._described(removal.labelled(name))]
        return sorted(found, key=lambda i: (i.launched_at, i.name))

    def _described(self, query: str) -> list[Any]:
        scopes = self._api.pages("Instances", "aggregated_list", "compute.instances.list", filter=query)
        return [raw for _, scoped in scopes for raw in scoped.instances]

    def zones(self, order: base.Order) -> list[str]:
        """The zones of the region that have the GPU, as the catalogue knows them."""
        return list(offers.offered_in(order.instance_type, order.gpu).get(self.region, ()))

    def examine(self, order: base.Order) -> list[base.Answer]:
        """What GCP says before a launch: the region, the type, the quotas and their use, the image."""
        return examine.examine(self._api, order, self.region, self.zones(order))

    # --- launching ------------------------------------------------------------------------------------------------

    def launch(self, order: base.Order) -> list[base.Instance]:
        """Make the machines of an order; asked again, the request id and the names return those that an earlier try made."""
        requests.check_limit(order.deadline)
        networks = resolved(order.ssh_from, self._access.caller_address_url)
        described = requests.description(order.name, order.launch_id, order.tags.get(base.OWNER_TAG, ""))
        network = network_of(self._api, order, self.region)
        opening = firewall.opening(self._api, order.launch_id, described, networks, network)
        made = self._make(order)
        try:
            firewall.settled(self._api, opening)
        except (CloudUnreachableError, ThrottledError):
            raise  # what became of the rules is not known: asked again, the launch goes on
        except CloudError:
            removal.remove(self._api, [_thing(i) for i in made], on_step=lambda _: None)
            raise
        return made

    def _make(self, order: base.Order) -> list[base.Instance]:
        taken: list[str] = []
        if order.first > 1:  # names are the zone's at GCE, and are to be the launch's
            taken, made = self._of_launch(order)
            if len(made) >= order.minimum:
                return made
        names = requests.machine_names(order, taken)
        try:
            return self._made(order, names)
        except AlreadyThereError as error:
            taken, made = self._of_launch(order)
            if len(made) >= order.minimum:
                return made
            others = requests.machine_names(order, taken)
            if others == names or len(others) < order.count:
                raise self._taken(order, names, error) from error
            self._failed[order.token(self.region)] += 1
            try:
                return self._made(order, others)
            except AlreadyThereError as again:
                raise self._taken(order, others, again) from again

    def _made(self, order: base.Order, names: Sequence[str]) -> list[base.Instance]:
        """Insert and wait.

        Raises:
            AlreadyThereError: machines of some of these names exist.
        """
        token = order.token(self.region)
        done = self._api.ended(self._begun(order, names, token), _CREATE, timeout_s=_INSERTED_S)
        failure = self._failure(done, order)
        if failure is None or order.count > 1 or not order.zone:
            made = self._of_attempt(order, names)
            if len(made) >= order.minimum:
                return made
            # GCE undoes a bulk insert below its minimum itself; what it left is not kept.
            removal.remove(self._api, [_thing(i) for i in made], on_step=lambda _: None)
        self._failed[token] += 1
        raise failure or CapacityError(
            f"{_CREATE} in {order.zone or self.region}: fewer than {order.minimum} of {order.count} machines could be made",
            hint="try again later, or add another zone, region or machine type to the profile's places",
        )

    def _begun(self, order: base.Order, names: Sequence[str], token: str) -> Any:
        """The operation that makes the machines: the one of an earlier try, or a new one where that try failed.

        GCE answers a request id that it knows with the operation that it was given first, for a failed one as well: one that is over and
        has failed at once, and began before it was asked for, is of an earlier try, and the attempt has the next id.
        """
        started = dt.datetime.now(dt.UTC)
        for number in range(self._failed[token], _MOST_TRIES):
            self._failed[token] = number
            begun = self._insert(order, names, requests.request_id(token, str(number)))
            over = begun.status.name == "DONE" and begun.error.errors and begun.insert_time
            if not over or dt.datetime.fromisoformat(begun.insert_time) >= started:
                break
        return begun

    def _insert(self, order: base.Order, names: Sequence[str], request_id: str) -> Any:
        """The call that makes machines: one in a zone, several in a zone, or any number in whichever zones of the region have them."""
        if order.zone and order.count == 1:
            given = {"zone": order.zone, "instance_resource": requests.instance(order, names[0])}
            return self._api.call("Instances", "insert_unary", _CREATE, where=order.zone, request_id=request_id, **given)
        body = {
            "bulk_insert_instance_resource_resource": requests.bulk(order, names, self.region, self.zones(order)),
            "request_id": request_id,
        }
        if order.zone:
            return self._api.call("Instances", "bulk_insert_unary", _CREATE, where=order.zone, zone=order.zone, **body)
        return self._api.call("RegionInstances", "bulk_insert_unary", _CREATE, where=self.region, region=self.region, **body)

    def _failure(self, done: Any, order: base.Order) -> CloudError | None:
        """What the codes of an operation mean, with what can be asked to explain them."""
        errors = list(done.error.errors)
        if not errors:
            return None
        if all(error.code == "VM_MIN_COUNT_NOT_REACHED" for error in errors):
            errors += self._api.cause(done)
        failure = of_operation(errors, done.http_error_status_code, asked_in(_CREATE, order.zone or self.region))
        metric = getattr(failure, "metric", "")
        if isinstance(failure, QuotaExceededError) and metric:
            now = examine.usage_of(self._api, metric, self.region)
            if now is not None:
                return quota(failure.message, failure.detail, metric=metric, limit=now[0], usage=now[1])
        return failure

    def _of_launch(self, order: base.Order) -> tuple[list[str], list[base.Instance]]:
        """The names that machines of the launch have, and the machines of this attempt, in the order of their names."""
        raw = self._described(removal.labelled(order.launch_id, base.LAUNCH_TAG))
        mine = sorted((r for r in raw if self._is_of(r, order)), key=lambda r: (len(r.name), r.name))
        return [r.name for r in raw], [instance_of(r) for r in mine]

    def _is_of(self, raw: Any, order: base.Order) -> bool:
        return bool(raw.labels.get(requests.ATTEMPT_LABEL) == order.token("") and instance_of(raw).region == self.region)

    def _of_attempt(self, order: base.Order, names: Sequence[str]) -> list[base.Instance]:
        """The machines of this attempt that exist."""
        if not order.zone or order.count > 1:
            return self._of_launch(order)[1]
        raw = self._api.call("Instances", "get", "compute.instances.get", where=order.zone, zone=order.zone, instance=names[0])
        return [instance_of(raw)] if self._is_of(raw, order) else []

    def _taken(self, order: base.Order, names: Sequence[str], error: AlreadyThereError) -> NameTakenError:
        msg = f"{', '.join(names)} in {order.zone or self.region} is the name of another machine of project {self._api.project}"
        return NameTakenError(msg, hint="choose another --name, or remove that one", detail=error.detail)

    # --- waiting --------------------------------------------------------------------------------------------------

    def wait_running(self, instance: base.Instance, *, timeout_s: float) -> base.Instance:
        """Poll until the instance runs and has its address."""
        return power.until_running(self._api, instance, timeout_s=timeout_s)

    def host_keys(self, instance: base.Instance, *, timeout_s: float) -> tuple[str, ...]:
        """Read the keys that Google's agent on the machine published as guest attributes, over Google's API."""

        def read() -> tuple[str, ...]:
            try:
                found = self._api.call(
                    "Instances",
                    "get_guest_attributes",
                    "compute.instances.getGuestAttributes",
                    where=instance.zone,
                    zone=instance.zone,
                    instance=instance.id,
                    query_path="hostkeys/",
                )
            except GoneError:  # nothing was published yet
                return ()
            return hostkeys.parse_pairs((item.key, item.value) for item in found.query_value.items)

        keys = poll(read, bool, timeout_s=timeout_s, first_s=_ATTRIBUTES_FIRST_S, longest_s=_ATTRIBUTES_LONGEST_S)
        if keys:
            return keys
        msg = f"the agent of {instance.id} published no SSH host keys within {timeout_s:g} s"
        raise HostKeyUnknownError(msg, hint=f"run the same `gpuprov up` again to go on waiting; `gpuprov down {instance.group}` gives up")

    def notices(self, instances: Sequence[base.Instance]) -> dict[str, tuple[str, ...]]:
        """What GCE says of the instances: maintenance, their time limit, a spot machine taken back."""

        def of(instance: base.Instance) -> tuple[str, ...]:
            raw = power.described(self._api, instance)
            return notices_of(raw) if raw is not None else ("it is gone",)

        return {i.id: said for i, said in zip(instances, at_once(of, instances), strict=True) if said}

    # --- power ----------------------------------------------------------------------------------------------------

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

    # --- who may come in ------------------------------------------------------------------------------------------

    def allow(self, name: str, networks: Sequence[str]) -> list[str]:
        """Open port 22 of the launches of that name to exactly these networks; a rule that is missing is made again."""
        wanted = resolved(networks, self._access.caller_address_url)
        there = firewall.listed(self._api, name)
        launches = {tags[base.LAUNCH_TAG]: tags.get(base.OWNER_TAG, "") for tags in map(tags_of_firewall, there) if base.LAUNCH_TAG in tags}
        # A rule stays in the network that it was made in; only a lost one has to be told that of its machines.
        within = {launch_id: str(r.network) for r in there if (launch_id := tags_of_firewall(r).get(base.LAUNCH_TAG))}
        if not launches:
            raw = [r for r in self._described(removal.labelled(name)) if instance_of(r).launch_id]
            launches = {instance_of(r).launch_id: instance_of(r).owner for r in raw}
            within = {instance_of(r).launch_id: r.network_interfaces[0].network for r in raw}
        if not launches:
            msg = f"{name!r} has neither machines nor firewall rules in project {self._api.project}"
            raise InstanceNotFoundError(msg, hint="`gpuprov ls` shows what there is")
        for launch_id, owner in launches.items():
            firewall.open_to(self._api, launch_id, requests.description(name, launch_id, owner), wanted, there, network=within[launch_id])
        return sorted(wanted)

    # --- removing -------------------------------------------------------------------------------------------------

    def things(self, name: str | None = None) -> list[base.Thing]:
        """Everything of ours in the project."""
        return removal.things(self._api, name)

    def remove(self, things: Sequence[base.Thing], *, on_step: base.Step) -> list[str]:
        """Remove them in the order in which they depend on one another, and wait until they are gone."""
        return removal.remove(self._api, things, on_step=on_step)


def _thing(instance: base.Instance) -> base.Thing:
    return base.Thing("instance", instance.id, instance.group, instance.launch_id, instance.owner, instance.zone)


def connect(region: str, access: GcpAccess | None = None) -> GcpCloud:
    """The client of one region; the user's own project by default."""
    return GcpCloud(region, access)
