"""The `Cloud` of one AWS region, which only delegates and launches.

A warm launch is three calls after the caller's `find`: the security group, its rule, RunInstances. The call that costs money comes last,
when AWS has accepted everything that is free.
"""

import datetime as dt
import threading
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from provision.clouds import base
from provision.clouds.aws import examine, firewall, power, removal, reservations
from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.answers import instance_of, instances_of, tags_of
from provision.clouds.aws.api import ENDED, AwsRegionApi, poll_ec2
from provision.clouds.aws.bakery import AwsBakery
from provision.clouds.aws.errors import cloud_errors
from provision.clouds.aws.images import Images
from provision.clouds.aws.requests import run_instances, tag_list
from provision.clouds.base import TokenSpentError
from provision.clouds.caller import resolve
from provision.errors import CapacityError, CloudInvalidError, HostKeyUnknownError
from provision.host import hostkeys

_ALIVE = ["pending", "running", "stopping", "stopped", "shutting-down"]


class AwsCloud:
    """The `Cloud` of one AWS region.

    Args:
        region: region code.
        access: whose AWS; the user's own by default.
    """

    spans: ClassVar[Literal["region", "project"]] = "region"

    def __init__(self, region: str, access: AwsAccess | None = None) -> None:
        self.region = region
        self._api = AwsRegionApi(region, access or AwsAccess())
        self._groups: dict[str, str] = {}  # launch id → the security group that all attempts of the launch share
        self._made: dict[str, str] = {}  # the same of the groups that this client made, until they are removed
        self._groups_lock = threading.Lock()
        self._images = Images(self._api)
        self.bakery = AwsBakery(self._api, self._images)

    def find(self, name: str | None = None) -> list[base.Instance]:
        """Our instances in this region that are not terminated."""
        alive = {"Name": "instance-state-name", "Values": _ALIVE}
        return instances_of(self._api.instances([removal.tag_filter(name), alive]), self.region)

    def zones(self, order: base.Order) -> list[str]:
        """The zones of the region that offer the type, or the one of them that the order's subnet is in; empty when none does."""
        subnet = firewall.subnet_of(self._api, order)
        only = {subnet.zone if subnet else "", reservations.zone_of(self._api, order)} - {""}
        return [zone for zone in examine.offering_zones(self._api, order) if only <= {zone}]

    def examine(self, order: base.Order) -> list[base.Answer]:
        """What AWS says before a launch: the region, the type, the quota and its use, the image, and the dry runs."""
        return examine.examine(self._api, order, find=self._images.of)

    def launch(self, order: base.Order) -> list[base.Instance]:
        """Make the machines of an order; the client token returns those that an earlier try of it made."""
        reserved = reservations.zone_of(self._api, order)
        if reserved:
            order = order.at(reserved)  # the machines of a reservation are in its zone
        image = self._images.of(order)  # nothing is made for an image that is not there
        group = self._security_group(order)
        request = run_instances(order, self.region, group, image.root_device)

        def run() -> dict[str, Any]:
            reply: dict[str, Any] = self._api.ec2_once.run_instances(ImageId=image.id, **request)
            return reply

        try:
            with cloud_errors("ec2:RunInstances", self.region, instance_type=order.instance_type):
                reply = firewall.once_visible(run)
        except CapacityError as error:
            if order.subnet:
                error.elsewhere = ()  # a subnet is in no other zone
            raise
        except TokenSpentError:
            # Its machines, where they run: other parameters than theirs, such as a newer image, are no reason for a second one.
            made = {"Name": "client-token", "Values": [request["ClientToken"]]}
            shown = poll_ec2(lambda: self._api.instances([made]), bool, timeout_s=firewall.UNSEEN_S)
            reply = {"Instances": [raw for raw in shown if raw["State"]["Name"] not in ENDED]}
            if not reply["Instances"]:
                raise
        except CloudInvalidError:
            self._groups.pop(order.launch_id, None)  # somebody may have removed it: the next try looks again
            raise
        tags = tags_of({"Tags": tag_list(order)})
        instances = [instance_of(raw, self.region, tags) for raw in sorted(reply["Instances"], key=lambda raw: int(raw["AmiLaunchIndex"]))]
        power.check_started(self._api, order, instances)
        return instances

    def _security_group(self, order: base.Order) -> str:
        with self._groups_lock:
            if order.launch_id not in self._groups:
                self._groups[order.launch_id] = firewall.ensure_group(self._api, order, self._made)
            return self._groups[order.launch_id]

    def wait_running(self, instance: base.Instance, *, timeout_s: float) -> base.Instance:
        """Poll until the instance runs and has its address."""
        return power.until_running(self._api, [instance], timeout_s=timeout_s)[0]

    def host_keys(self, instance: base.Instance, *, timeout_s: float) -> tuple[str, ...]:
        """Read the keys that cloud-init printed on the console: AWS signs for that channel, the network does not."""

        def read() -> tuple[str, ...]:
            with cloud_errors("ec2:GetConsoleOutput", self.region):
                reply = self._api.ec2.get_console_output(InstanceId=instance.id, Latest=True)
            # botocore has already decoded the base64 of the wire
            keys = hostkeys.parse_console(str(reply.get("Output", "")))
            if not keys:
                power.check_alive(self._api, instance)
            return keys

        keys = poll_ec2(read, bool, timeout_s=timeout_s)
        if keys:
            return keys
        msg = f"the console of {instance.id} showed no SSH host keys within {timeout_s:g} s"
        raise HostKeyUnknownError(msg, hint=f"run the same `gpuprov up` again to wait longer; `gpuprov down {instance.group}` gives up")

    def publish_host_keys(self, instance: base.Instance, keys: Sequence[str]) -> None:
        """Nothing: a machine makes its own keys, and `host_keys` reads what the machine says."""

    def console(self, instance: base.Instance) -> str:
        """The output that EC2 posted when the instance ended, which it keeps for an hour.

        `Latest` is of instances that run (docs.aws.amazon.com/AWSEC2/latest/APIReference/API_GetConsoleOutput.html).
        """
        with cloud_errors("ec2:GetConsoleOutput", self.region):
            return str(self._api.ec2.get_console_output(InstanceId=instance.id).get("Output", ""))

    def notices(self, instances: Sequence[base.Instance]) -> dict[str, tuple[str, ...]]:
        """Events of the instances' status, and what became of their spot requests."""
        return examine.notices(self._api, instances)

    def stop(self, instances: Sequence[base.Instance], *, timeout_s: float) -> None:
        """Stop them and wait until they are stopped."""
        power.stop(self._api, instances, timeout_s=timeout_s)

    def start(self, instances: Sequence[base.Instance], *, timeout_s: float) -> list[base.Instance]:
        """Start the stopped ones and wait until all of them run; EC2 gives them other public addresses."""
        return power.start(self._api, instances, timeout_s=timeout_s)

    def extend(self, instances: Sequence[base.Instance], deadline: dt.datetime) -> None:
        """Move the tag; EC2 holds no deadline itself, and the caller moves the timer on the host."""
        power.extend(self._api, instances, deadline)

    def allow(self, name: str, networks: Sequence[str]) -> list[str]:
        """Open port 22 of the launch's groups to exactly these networks."""
        sources = resolve(networks, self._api.access.caller_address_url)
        firewall.allow(self._api, name, sources)
        return sorted(sources)

    def things(self, name: str | None = None, known: base.Known | None = None) -> list[base.Thing]:
        """Everything of ours in this region, by tag, and what is known of a launch by its ids and names."""
        made = self._made.get(known.launch_id) if known else None
        return base.merged(removal.things(self._api, name), removal.known(self._api, known, made) if known else ())

    def remove(self, things: Sequence[base.Thing], *, on_step: base.Step) -> list[str]:
        """Remove them in the order in which they depend on one another, and wait until they are gone."""
        self._groups.clear()
        self._made.clear()
        return removal.remove(self._api, things, on_step=on_step)


def connect(region: str, access: AwsAccess | None = None) -> AwsCloud:
    """The client of one region; the user's own account by default."""
    return AwsCloud(region, access)
