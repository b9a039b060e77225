"""A fleet on GCP: one regional managed instance group with its template and its health check, and a bucket for programs and evidence."""

import datetime as dt
from collections.abc import Sequence
from typing import Any, Final

from provision.clouds import base
from provision.clouds.caller import resolve
from provision.clouds.claim import taken
from provision.clouds.fleet import MOST_EVIDENCE, FleetMember, FleetOrder, FleetPlan, FleetView, PostedEvidence, Waves, newest
from provision.clouds.gcp import firewall, fleet_requests, posted, removal, requests, store
from provision.clouds.gcp.access import GcpAccess, access_from
from provision.clouds.gcp.answers import last, tags_of_firewall
from provision.clouds.gcp.api import GcpProjectApi
from provision.clouds.gcp.errors import AlreadyThereError, GoneError
from provision.clouds.gcp.waves import Roll, templates_of
from provision.clouds.refusals import RollUnderWayError
from provision.concurrent import at_once
from provision.errors import CloudError, CloudInvalidError, CloudUnsupportedError, PermissionRefusedError

_MADE_S: Final = 600.0
_TOLD: Final = 5
_REACH: Final = (
    "all members are one service account: root on a member can write evidence under a neighbour's name, which `gpuprov fleet status` shows "
    "as a conflict, and can use up the failures that are counted, so that no member runs the program any more"
)
_CLIENT: Final = "RegionInstanceGroupManagers"
_UPDATE: Final = "compute.instanceGroupManagers.update"
_READ: Final = "compute.instanceGroupManagers.get"


class GcpFleet:
    """See `clouds.fleet.Fleet`."""

    def __init__(self, region: str, access: GcpAccess) -> None:
        self._region, self._api = region, GcpProjectApi(access)

    def ensure(self, order: FleetOrder, size: int, program: bytes, *, on_step: base.Step) -> None:
        """Make the group of an order and give it its size; the deadline is in the template, so no member is without it."""
        machine = order.machine
        requests.check_limit(machine.deadline)
        template = self._template(order)
        self._check()
        on_step("putting the members' program into the store")
        store.put_once(self._api, order.bucket, f"{order.prefix}bundles/{order.digest}", program)
        on_step("making the firewall rules, the instance template and the health check")
        self._doors(order)
        self._make("InstanceTemplates", "compute.instanceTemplates.create", instance_template_resource=template)
        self._make("HealthChecks", "compute.healthChecks.create", health_check_resource=fleet_requests.health_check(order))
        on_step("making the managed instance group and its size")
        zones = fleet_requests.zones_of(machine, self._region)
        body = fleet_requests.group(order, self._api.project, template["name"], zones, size)
        made = self._make(_CLIENT, "compute.instanceGroupManagers.create", region=self._region, instance_group_manager_resource=body)
        if not made:
            shown = self._shown(machine.name)
            if shown is not None and (tags := tags_of_firewall(shown)).get(base.LAUNCH_TAG) != machine.launch_id:
                raise taken(machine.name, f"instance group {body['name']} in {self._region}", tags)
            self.size(machine.name, size)

    def _check(self) -> None:
        """Ask whether the caller may make groups, before anything is made. Where Google does not say it, the calls themselves do.

        What may be granted on the bucket or the service account is not asked for.

        Raises:
            PermissionRefusedError: the project does not let the caller do all of it.
        """
        try:
            missing = self._api.lacking([each for each in fleet_requests.FLEETS if each.startswith("compute.")])
        except CloudError:  # the API of the Resource Manager may be off, and the names of the permissions are from memory
            return
        if missing:
            msg = f"GCP refuses {' and '.join(missing)} to these credentials, and nothing was made"
            raise PermissionRefusedError(
                msg, hint="ask whoever owns the project; `gpuprov fleet plan` prints all permissions that a fleet needs"
            )

    def _template(self, order: FleetOrder) -> dict[str, Any]:
        return fleet_requests.template(order, self._region, self._api.access.machine_endpoint_url)

    def _doors(self, order: FleetOrder) -> None:
        """The rules of the launch, which claim its name, and the one for health checks."""
        machine = order.machine
        networks = resolve(machine.ssh_from, self._api.access.caller_address_url)
        text = requests.description(machine.name, machine.launch_id, machine.tags.get(base.OWNER_TAG, ""))
        network = firewall.network_of(self._api, machine, self._region)
        firewall.wait(self._api, firewall.begin(self._api, machine.name, machine.launch_id, text, networks, network=network))
        rule = fleet_requests.health_rule(order, self._region, network)
        self._make("Firewalls", "compute.firewalls.create", firewall_resource=rule)

    def _make(self, client: str, action: str, **request: Any) -> bool:
        """Make a thing whose name makes a repetition harmless, and return whether it is new."""
        try:
            self._api.run(client, "insert_unary", action, timeout_s=_MADE_S, **request)
        except AlreadyThereError:
            return False
        return True

    def _named(self, name: str) -> dict[str, str]:
        return {"region": self._region, "instance_group_manager": requests.group_name(name)}

    def _shown(self, name: str) -> Any:
        try:
            return self._api.call(_CLIENT, "get", _READ, where=self._region, **self._named(name))
        except GoneError:
            return None

    def size(self, name: str, size: int) -> None:
        """Let the group have so many members."""
        self._api.run(_CLIENT, "resize_unary", _UPDATE, timeout_s=_MADE_S, where=self._region, size=size, **self._named(name))

    def shrink(self, name: str, members: Sequence[FleetMember]) -> None:
        """End exactly these members, in one call, which also makes the group smaller by as many."""
        body = {"instances": [f"zones/{member.zone}/instances/{member.name}" for member in members]}
        request = {"region_instance_group_managers_delete_instances_request_resource": body, **self._named(name)}
        self._api.run(_CLIENT, "delete_instances_unary", _UPDATE, timeout_s=_MADE_S, where=self._region, **request)

    def extend(self, order: FleetOrder) -> None:
        """Refused: the deadline is in the template of each member, and a new template would replace all of them."""
        msg = f"the deadline of fleet {order.machine.name} is in its instance template, and GCP changes no template"
        raise CloudUnsupportedError(msg, hint="make another fleet with `gpuprov fleet up --name …` before this one ends")

    def members(self, name: str) -> FleetView | None:
        """What GCP says of the group; None where there is none."""
        shown = self._shown(name)
        if shown is None:
            return None
        rows = self._api.pages(_CLIENT, "list_managed_instances", _READ, **self._named(name))
        errors = self._api.pages(_CLIENT, "list_errors", _READ, **self._named(name))
        versions = [last(row.instance_template) for row in shown.versions]
        newest = next((last(row.instance_template) for row in shown.versions if "target_size" in row), versions[-1])
        template = self._api.call("InstanceTemplates", "get", "compute.instanceTemplates.get", instance_template=newest)
        said = tags_of_firewall(template)  # of its description
        members = tuple(map(_member, rows))
        rolling = len(versions) > 1 or not shown.status.version_target.is_reached
        there = sum(member.version == _version(newest) for member in members)
        return FleetView(
            size=int(shown.target_size),
            halted=self._halted(name, said),
            deadline=_deadline(template.properties.scheduling.termination_time),
            version=_version(newest),
            members=members,
            roll="InProgress" if rolling else "",
            roll_percent=100 * there // max(len(members), 1) if rolling else 0,
            failures=tuple(dict.fromkeys(str(row.error.message or row.error.code) for row in errors))[:_TOLD],
        )

    def _halted(self, name: str, said: dict[str, str]) -> bool:
        """Whether the last slot for failures of the members' program is taken: then none of them runs it any more."""
        bucket, _, prefix = said.get(fleet_requests.STORE_KEY, "").partition("/")
        digest, breaker = said.get(fleet_requests.DIGEST_KEY, ""), said.get(fleet_requests.BREAKER_KEY, "")
        slot = f"{prefix}failures/{name}/{digest}/{breaker}"
        return bool(bucket and digest) and store.get(self._api, bucket, slot) is not None

    def evidence(self, order: FleetOrder) -> Sequence[PostedEvidence]:
        """What members posted, each with whether Google signed that it was that machine; found with one listing."""
        start, account = f"{order.prefix}evidence/{order.machine.name}/", fleet_requests.account_of(order.machine)
        listed = store.names(self._api, order.bucket, start, MOST_EVIDENCE)
        names = [start + name for name in newest((name.removeprefix(start), at, size) for name, at, size in listed)]
        certificates = store.certificates(self._api) if names else {}
        bodies = at_once(lambda name: store.get(self._api, order.bucket, name), names)
        read = [(name, body) for name, body in zip(names, bodies, strict=True) if body is not None]
        return [posted.evidence_of(name.removeprefix(start), body, certificates, account) for name, body in read]

    def roll(self, order: FleetOrder, program: bytes, waves: Waves, *, instead: bool = False, on_step: base.Step) -> None:
        """A new template, and the group wave by wave to it; it returns when all members serve.

        Raises:
            CloudInvalidError: they do not, and the group goes back.
            RollUnderWayError: another roll is at one of its waves, or took the place of this one.
        """
        name, template = order.machine.name, self._template(order)
        store.put_once(self._api, order.bucket, f"{order.prefix}bundles/{order.digest}", program)
        shown = self._shown(name)
        if shown is None:
            msg = f"GCP has no group of the name {requests.group_name(name)} in {self._region}"
            raise CloudInvalidError(msg, hint=f"`gpuprov fleet up` makes it again, `gpuprov fleet down {name}` forgets it")
        under_way = next((last(row.instance_template) for row in shown.versions if "target_size" in row), "")
        old = next(last(row.instance_template) for row in shown.versions if "target_size" not in row)
        if under_way and template["name"] != under_way:
            said = f"to version {_version(under_way)}"
            if not instead:
                msg = f"fleet {name} is rolling {said}"
                hint = "run that roll again to its end; or end it, and roll to this one, with `gpuprov fleet roll … --instead`"
                raise RollUnderWayError(msg, hint=hint)
            on_step(f"ending the other roll, {said}")
        self._make("InstanceTemplates", "compute.instanceTemplates.create", instance_template_resource=template)
        zones = len(shown.distribution_policy.zones)

        def aim(wanted: Sequence[tuple[str, int | None]], seen: Any) -> None:
            versions = [
                {"instance_template": fleet_requests.template_link(self._api.project, each)}
                | ({} if count is None else {"target_size": {"fixed": count}})
                for each, count in wanted
            ]
            policy = fleet_requests.update_policy(zones, int(shown.target_size), waves.healthy_percent)
            # One that is not up to date is refused with 412 (field fingerprint of instanceGroupManagers in the reference).
            body = {"versions": versions, "update_policy": policy, "fingerprint": seen.fingerprint}
            request = {"instance_group_manager_resource": body, **self._named(name)}
            self._api.run(_CLIENT, "patch_unary", _UPDATE, timeout_s=_MADE_S, where=self._region, **request)

        views = (lambda: self._shown(name)), (lambda: self.members(name))
        Roll(name, old, template["name"], *views, aim, order.longest_s, templates_of(shown)).run(waves, on_step)

    def remove(self, name: str, *, on_step: base.Step) -> list[str]:
        """The group with its members, then whatever else carries the name's tag."""
        return removal.remove(self._api, removal.of_fleet(self._api, name, self._shown(name)), on_step=on_step)


def _version(template: str) -> str:
    return template.rpartition("-")[2]


def _deadline(text: str) -> str:
    return dt.datetime.fromisoformat(text).astimezone(dt.UTC).isoformat(timespec="seconds") if text else ""


def _member(row: Any) -> FleetMember:
    """A managed instance in our words. It serves when the group has nothing to do with it and it says itself that it does."""
    health = {each.detailed_health_state for each in row.instance_health}
    idle = row.current_action == "NONE"
    return FleetMember(
        id=str(row.id or row.name),
        zone=row.instance.partition("/zones/")[2].partition("/")[0],
        type="",
        state=row.instance_status if idle else row.current_action,
        serves=idle and row.instance_status == "RUNNING" and health == {"HEALTHY"},
        healthy=not health & {"UNHEALTHY", "TIMEOUT"},
        version=_version(last(row.version.instance_template)),
        name=row.name,
    )


def plan(order: FleetOrder, region: str) -> FleetPlan:  # noqa: ARG001 - a project's permissions know no region
    """What is reviewed of a fleet; nobody is contacted."""
    account = fleet_requests.account_of(order.machine)
    if order.store_key:  # docs.cloud.google.com/storage/docs/encryption/customer-managed-keys
        msg = "on Google the service agent of Cloud Storage uses the key of a bucket, and members and callers need no right to it"
        raise CloudUnsupportedError(msg, hint="leave --store-key out")
    caller, member = fleet_requests.caller_policy(order), fleet_requests.member_policy(order)
    return FleetPlan(caller, member, account, "gce_account_policies", _REACH, fleet_requests.differs(order.machine))


def connect(region: str, access: GcpAccess | None = None) -> GcpFleet:
    """The fleets of one region; of the user's own project by default."""
    return GcpFleet(region, access or access_from({}))
