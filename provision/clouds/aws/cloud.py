"""One region of AWS: launch, find, wait, host keys, power, who may come in.

A warm launch is three calls after the caller's `find`: the security group, its rule, RunInstances. What costs money is asked for last,
when everything that is free has been accepted. The group's name derives from the launch id, so that asking again finds it.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ClassVar, Final, Literal, TypeVar

import tenacity

from provision.clouds import base
from provision.clouds.aws import data, examine, removal, requests
from provision.clouds.aws.answers import instance_of
from provision.clouds.aws.client import AwsAccess, client
from provision.clouds.aws.errors import classified, code_of
from provision.clouds.aws.network import subnet_of
from provision.clouds.caller import resolved
from provision.errors import (
    CapacityError,
    CloudInvalidError,
    CloudUnreachableError,
    HostKeyUnknownError,
    ImageNotFoundError,
    InstanceLostError,
    InstanceNotFoundError,
)
from provision.host import hostkeys

T = TypeVar("T")

_ALIVE: Final = ["pending", "running", "stopping", "stopped", "shutting-down"]
_ENDED: Final = {"shutting-down", "terminated"}
# EC2 is eventually consistent: an instance that RunInstances named may be unknown to DescribeInstances for a while
# (docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html gives no bound).
_UNSEEN_S: Final = 20.0
_UNKNOWN_GROUP_S: Final = 10.0  # the same of the security group that CreateSecurityGroup named
_SSH: Final = 22


class AwsCloud:
    """The `Cloud` of one AWS region.

    Args:
        region: region code.
        access: whose AWS; the user's own by default.
    """

    spans: ClassVar[Literal["region", "project"]] = "region"

    def __init__(self, region: str, access: AwsAccess | None = None) -> None:
        self.region = region
        self._access = access or AwsAccess()
        self._groups_made: dict[str, str] = {}
        self._making_group = threading.Lock()
        self._images: dict[str, str] = {}

    @property
    def _ec2(self) -> Any:
        return client("ec2", self.region, self._access)

    @property
    def _once(self) -> Any:
        """The client that sends a call once: for every call that makes something."""
        return client("ec2", self.region, self._access, retried=False)

    # --- finding --------------------------------------------------------------------------------------------------

    def find(self, name: str | None = None) -> list[base.Instance]:
        """Our instances in this region that are not terminated."""
        tag = {"Name": f"tag:{base.NAME_TAG}", "Values": [name]} if name else {"Name": "tag-key", "Values": [base.NAME_TAG]}
        return self._described([tag, {"Name": "instance-state-name", "Values": _ALIVE}])

    def _described(self, filters: list[dict[str, Any]]) -> list[base.Instance]:
        with classified("ec2:DescribeInstances", self.region):
            pages = self._ec2.get_paginator("describe_instances").paginate(Filters=filters)
            found = [i for page in pages for reservation in page["Reservations"] for i in reservation["Instances"]]
        return sorted((instance_of(i, self.region) for i in found), key=lambda i: (i.launched_at, i.name))

    def _again(self, ids: Iterable[str]) -> list[base.Instance]:
        """The instances of these ids as they are now, ended ones included; by filter, which does not fail for an id not yet known."""
        return self._described([{"Name": "instance-id", "Values": list(ids)}])

    def zones(self, order: base.Order) -> list[str]:
        """The zones of the region that offer the type, or the one of them that the order's subnet is in; empty when none does."""
        subnet = subnet_of(order, self.region, self._access)
        with classified("ec2:DescribeInstanceTypeOfferings", self.region):
            reply = self._ec2.describe_instance_type_offerings(
                LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": [order.instance_type]}]
            )
        return sorted(o["Location"] for o in reply["InstanceTypeOfferings"] if subnet is None or o["Location"] == subnet.zone)

    # --- launching ------------------------------------------------------------------------------------------------

    def launch(self, order: base.Order) -> list[base.Instance]:
        """Make the machines of an order; the client token returns those that an earlier try of it made."""
        with ThreadPoolExecutor(max_workers=2, thread_name_prefix="aws") as pool:
            image = pool.submit(self._image_id, order)
            group = self._security_group(order, pool)
            image_id = image.result()
        try:
            with classified("ec2:RunInstances", self.region, instance_type=order.instance_type):
                asked = requests.run_instances(order, self.region, group)
                reply = _once_shown(partial(self._once.run_instances, ImageId=image_id, **asked))
        except CapacityError as error:
            if order.subnet:
                error.elsewhere = ()  # a subnet is in no other zone
            raise
        except CloudInvalidError:
            self._groups_made.pop(order.launch_id, None)  # it may have been removed meanwhile: the next try looks again
            raise
        return [instance_of(raw, self.region) for raw in sorted(reply["Instances"], key=lambda raw: int(raw["AmiLaunchIndex"]))]

    def _image_id(self, order: base.Order) -> str:
        if order.image_id is not None:
            return order.image_id
        image = data.image(order.os)
        parameter = image.parameter if image else None
        if parameter is None:
            msg = f"how AWS names its images of {' '.join(order.os)} is not in the catalogue"
            raise ImageNotFoundError(msg, hint="choose a system of `gpuprov profile schema` that AWS has images of, such as ubuntu 24.04")
        if parameter not in self._images:  # asked once: a later attempt of the same launch, in another zone, is for the same image
            with classified("ssm:GetParameter", self.region):
                value = client("ssm", self.region, self._access).get_parameter(Name=parameter)["Parameter"]["Value"]
            self._images[parameter] = str(value)
        return self._images[parameter]

    def _security_group(self, order: base.Order, pool: ThreadPoolExecutor) -> str:
        """A group that opens port 22 to the order's networks and nothing else; one for all attempts of a launch.

        It stands in the VPC of the order's subnet, or in the default one.
        """
        with self._making_group:
            known = self._groups_made.get(order.launch_id)
            if known is None:
                known = self._groups_made[order.launch_id] = self._make_group(order, pool)
            return known

    def _make_group(self, order: base.Order, pool: ThreadPoolExecutor) -> str:
        name = requests.resource_name(order)
        networks = pool.submit(resolved, order.ssh_from, self._access.caller_address_url)
        subnet = subnet_of(order, self.region, self._access)
        within = {"VpcId": subnet.vpc} if subnet else {}
        with classified("ec2:CreateSecurityGroup", self.region):
            made = self._unless_there(
                "InvalidGroup.Duplicate",
                lambda: self._once.create_security_group(
                    GroupName=name,
                    Description=f"gpuprov {order.name}: SSH",
                    TagSpecifications=[{"ResourceType": "security-group", "Tags": requests.tag_list(order)}],
                    **within,
                ),
            )
        group = str(made["GroupId"]) if made else self._group_of_name(name)
        if not order.ssh_from:  # whoever reaches it comes by no open port
            return group
        with classified("ec2:AuthorizeSecurityGroupIngress", self.region):
            self._unless_there(
                "InvalidPermission.Duplicate",
                partial(
                    _once_shown,
                    partial(
                        self._once.authorize_security_group_ingress, GroupId=group, IpPermissions=[requests.ingress(networks.result())]
                    ),
                ),
            )
        return group

    def _group_of_name(self, name: str) -> str:
        with classified("ec2:DescribeSecurityGroups", self.region):
            found = self._ec2.describe_security_groups(Filters=[{"Name": "group-name", "Values": [name]}])["SecurityGroups"]
        if not found:
            # Made a moment ago by a call whose reply was lost, and not yet shown.
            msg = f"security group {name} exists in {self.region} and is not shown yet"
            raise CloudUnreachableError(msg, hint="run the same command again; it goes on where it stopped")
        return str(found[0]["GroupId"])

    @staticmethod
    def _unless_there(duplicate: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        """Make a thing whose name derives from the launch id; None when an earlier try made it."""
        from botocore.exceptions import ClientError  # noqa: PLC0415

        try:
            return make()
        except ClientError as error:
            if code_of(error) == duplicate:
                return None
            raise

    def examine(self, order: base.Order) -> list[base.Answer]:
        """What AWS says before a launch: the region, the type, the quota and its use, the image, and the dry runs."""
        return examine.examine(order, self.region, self._access, image=self._image_id)

    # --- waiting --------------------------------------------------------------------------------------------------

    def wait_running(self, instance: base.Instance, *, timeout_s: float) -> base.Instance:
        """Poll until the instance runs and has its address."""
        return self._until_running([instance], timeout_s=timeout_s)[0]

    def _until_running(self, instances: Sequence[base.Instance], *, timeout_s: float) -> list[base.Instance]:
        ids = [i.id for i in instances]
        unseen = tenacity.stop_after_delay(min(_UNSEEN_S, timeout_s))

        def settled(state: tenacity.RetryCallState) -> bool:
            found: list[base.Instance] = state.outcome.result() if state.outcome else []
            lost = any(i.state in {*_ENDED, "stopped"} for i in found) or (len(found) < len(ids) and unseen(state))
            return lost or (len(found) == len(ids) and all(i.state == "running" and i.address for i in found))

        now = {i.id: i for i in _poll(lambda: self._again(ids), settled, timeout_s=timeout_s)}
        for instance in instances:
            found = now.get(instance.id)
            if found is None or found.state != "running" or not found.address:
                state = found.state if found else "gone"
                msg = f"instance {instance.id} of {instance.name!r} did not come up in {self.region}: it is {state}"
                raise InstanceLostError(msg, hint=f"`gpuprov down {instance.group}` removes what is left; then run `gpuprov up` again")
        return [now[i] for i in ids]

    def host_keys(self, instance: base.Instance, *, timeout_s: float) -> tuple[str, ...]:
        """Read the keys that cloud-init printed on the console: EC2 signs for that channel, the network does not."""

        def read() -> tuple[str, ...]:
            with classified("ec2:GetConsoleOutput", self.region):
                reply = self._ec2.get_console_output(InstanceId=instance.id, Latest=True)
            # botocore has already decoded the base64 of the wire
            return hostkeys.parse_console(str(reply.get("Output", "")))

        keys = _poll(read, lambda state: bool(state.outcome and state.outcome.result()), timeout_s=timeout_s)
        if keys:
            return keys
        msg = f"the console of {instance.id} showed no SSH host keys within {timeout_s:g} s"
        raise HostKeyUnknownError(msg, hint=f"run the same `gpuprov up` again to go on waiting; `gpuprov down {instance.group}` gives up")

    def notices(self, instances: Sequence[base.Instance]) -> dict[str, tuple[str, ...]]:
        """Events of the instances' status, and what became of their spot requests."""
        return examine.notices(instances, self.region, self._access)

    # --- power ----------------------------------------------------------------------------------------------------

    def stop(self, instances: Sequence[base.Instance], *, timeout_s: float) -> None:
        """Stop them and wait until they are stopped."""
        ids = [i.id for i in instances]
        to_stop = [i.id for i in instances if i.state not in {"stopped", "stopping"}]
        if to_stop:
            with classified("ec2:StopInstances", self.region):
                self._ec2.stop_instances(InstanceIds=to_stop)
        self._until_stopped(ids, timeout_s=timeout_s)

    def _until_stopped(self, ids: Sequence[str], *, timeout_s: float) -> None:
        def settled(state: tenacity.RetryCallState) -> bool:
            found: list[base.Instance] = state.outcome.result() if state.outcome else []
            return all(i.state in {*_ENDED, "stopped"} for i in found)

        for now in _poll(lambda: self._again(ids), settled, timeout_s=timeout_s):
            if now.state != "stopped":
                msg = f"instance {now.id} of {now.name!r} did not stop in {self.region}: it is {now.state}"
                raise InstanceLostError(msg, hint=f"`gpuprov ls` shows what it is now; `gpuprov down {now.group}` removes it")

    def start(self, instances: Sequence[base.Instance], *, timeout_s: float) -> list[base.Instance]:
        """Start the stopped ones and wait until all run; EC2 gives them other public addresses."""
        going = [i.id for i in instances if i.state == "stopping"]
        if going:
            self._until_stopped(going, timeout_s=timeout_s)
        to_start = [i.id for i in instances if i.state in {"stopped", "stopping"}]
        if to_start:
            with classified("ec2:StartInstances", self.region):
                self._ec2.start_instances(InstanceIds=to_start)
        # A moment after the call they may still be shown as stopped, which is not lost here.
        _poll(lambda: self._again(to_start), _none_stopped, timeout_s=min(_UNSEEN_S, timeout_s))
        return self._until_running(instances, timeout_s=timeout_s)

    def extend(self, instances: Sequence[base.Instance], deadline: dt.datetime) -> None:
        """Move the tag; EC2 holds no deadline itself, and the timer on the host is the caller's to move."""
        value = deadline.astimezone(dt.UTC).isoformat(timespec="seconds")
        with classified("ec2:CreateTags", self.region):
            self._ec2.create_tags(Resources=[i.id for i in instances], Tags=[{"Key": base.DEADLINE_TAG, "Value": value}])

    # --- who may come in ------------------------------------------------------------------------------------------

    def allow(self, name: str, networks: Sequence[str]) -> list[str]:
        """Open port 22 of the launch's groups to these networks, then close it to all others: an open session is never cut between."""
        wanted = resolved(networks, self._access.caller_address_url)
        with classified("ec2:DescribeSecurityGroups", self.region):
            by_tag = [{"Name": f"tag:{base.NAME_TAG}", "Values": [name]}]
            groups = self._ec2.describe_security_groups(Filters=by_tag)["SecurityGroups"]
        if not groups:
            msg = f"{name!r} has no security group in {self.region}"
            raise InstanceNotFoundError(msg, hint="`gpuprov ls` shows what there is")
        for group in groups:
            opened, extra = _compared(group["IpPermissions"], wanted)
            missing = [n for n in wanted if n not in opened]
            if missing:
                with classified("ec2:AuthorizeSecurityGroupIngress", self.region):
                    self._unless_there(
                        "InvalidPermission.Duplicate",
                        partial(
                            self._once.authorize_security_group_ingress,
                            GroupId=group["GroupId"],
                            IpPermissions=[requests.ingress(missing)],
                        ),
                    )
            if extra:
                with classified("ec2:RevokeSecurityGroupIngress", self.region):
                    self._ec2.revoke_security_group_ingress(GroupId=group["GroupId"], IpPermissions=extra)
        return sorted(wanted)

    # --- removing -------------------------------------------------------------------------------------------------

    def things(self, name: str | None = None) -> list[base.Thing]:
        """Everything of ours in this region, by tag."""
        return removal.things(name, self.region, self._access)

    def remove(self, things: Sequence[base.Thing], *, on_step: base.Step) -> list[str]:
        """Remove them in the order in which they depend on one another, and wait until they are gone."""
        self._groups_made.clear()
        return removal.remove(things, self.region, self._access, on_step=on_step)


def _once_shown(call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Make a call that names the group made a moment ago; while EC2 does not know that group yet, ask again."""
    from botocore.exceptions import ClientError  # noqa: PLC0415

    def not_yet(error: BaseException) -> bool:
        return isinstance(error, ClientError) and code_of(error) == "InvalidGroup.NotFound"

    answer: dict[str, Any] = tenacity.Retrying(
        retry=tenacity.retry_if_exception(not_yet),
        wait=tenacity.wait_exponential(multiplier=0.1, exp_base=1.5, max=2),
        stop=tenacity.stop_after_delay(_UNKNOWN_GROUP_S),
        reraise=True,
    )(call)
    return answer


def _none_stopped(state: tenacity.RetryCallState) -> bool:
    return bool(state.outcome and not any(i.state == "stopped" for i in state.outcome.result()))


def _poll(ask: Callable[[], T], enough: Callable[[tenacity.RetryCallState], bool], *, timeout_s: float) -> T:
    """Ask at growing intervals until the answer is enough or time is up; returns the last answer."""
    return tenacity.Retrying(
        retry=lambda state: (not state.outcome.failed and not enough(state)) if state.outcome else True,
        wait=tenacity.wait_exponential(multiplier=0.05, exp_base=1.5, max=5),
        stop=tenacity.stop_after_delay(timeout_s),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
    )(ask)


def _compared(rules: Sequence[dict[str, Any]], wanted: Sequence[str]) -> tuple[set[str], list[dict[str, Any]]]:
    """The wanted networks that the rules already let in to port 22, and the parts of the rules that let in anything else."""
    opened: set[str] = set()
    extra: list[dict[str, Any]] = []
    for rule in rules:
        low, high = rule.get("FromPort", 0), rule.get("ToPort", 65_535)
        if rule["IpProtocol"] not in {"tcp", "-1", "6"} or (rule["IpProtocol"] != "-1" and not low <= _SSH <= high):
            continue
        exact = rule["IpProtocol"] in {"tcp", "6"} and low == high == _SSH
        part: dict[str, Any] = {key: rule[key] for key in ("IpProtocol", "FromPort", "ToPort") if key in rule}
        for key, field in (("IpRanges", "CidrIp"), ("Ipv6Ranges", "CidrIpv6")):
            listed = rule.get(key, [])
            kept = [entry[field] for entry in listed if exact and entry[field] in wanted]
            opened.update(kept)
            part[key] = [{field: entry[field]} for entry in listed if entry[field] not in kept]
        for key in ("UserIdGroupPairs", "PrefixListIds"):
            part[key] = rule.get(key, [])
        part = {key: value for key, value in part.items() if value != []}
        if any(isinstance(value, list) for value in part.values()):
            extra.append(part)
    return opened, extra


def connect(region: str, access: AwsAccess | None = None) -> AwsCloud:
    """The client of one region; the user's own account by default."""
    return AwsCloud(region, access)
