"""One region of AWS: launch, find, wait, host keys, destroy.

At most five calls stand before RunInstances: find by tag, and then, at the same time, the image, the key, the security group and its
rule. Names of what is made derive from the launch id, so that asking again finds it instead of making it twice.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import tenacity

from provision.catalog.places import aws_image
from provision.clouds import base
from provision.clouds.aws.client import Access, caller_address, client
from provision.clouds.aws.errors import classified, code_of
from provision.clouds.userdata import user_data
from provision.errors import HostKeyUnknownError, ImageNotFoundError, InstanceLostError
from provision.host import hostkeys

__all__ = ["AwsCloud"]

T = TypeVar("T")

_ALIVE: Final = ["pending", "running", "stopping", "stopped", "shutting-down"]


class AwsCloud:
    """The `Cloud` of one AWS region.

    Args:
        region: region code.
        access: whose AWS; the user's own by default.
    """

    def __init__(self, region: str, access: Access | None = None) -> None:
        self.region = region
        self._access = access or Access()

    @property
    def _ec2(self) -> Any:
        return client("ec2", self.region, self._access)

    # --- finding --------------------------------------------------------------------------------------------------

    def find(self, name: str | None = None) -> list[base.Instance]:
        """Our instances in this region that are not terminated."""
        tag = {"Name": f"tag:{base.NAME_TAG}", "Values": [name]} if name else {"Name": "tag-key", "Values": [base.NAME_TAG]}
        filters = [tag, {"Name": "instance-state-name", "Values": _ALIVE}]
        with classified("ec2:DescribeInstances", self.region):
            pages = self._ec2.get_paginator("describe_instances").paginate(Filters=filters)
            found = [i for page in pages for reservation in page["Reservations"] for i in reservation["Instances"]]
        return sorted((self._instance(i) for i in found), key=lambda i: i.launched_at)

    def _instance(self, raw: dict[str, Any]) -> base.Instance:
        tags = {tag["Key"]: tag["Value"] for tag in raw.get("Tags", [])}
        system = tags.get("gpuprov:os", "ubuntu 24.04").partition(" ")
        image = aws_image(system[0], system[2])
        return base.Instance(
            name=tags.get(base.NAME_TAG, ""),
            id=raw["InstanceId"],
            cloud="aws",
            region=self.region,
            zone=raw.get("Placement", {}).get("AvailabilityZone", ""),
            type=raw["InstanceType"],
            market=raw.get("InstanceLifecycle", "on-demand"),
            state=raw["State"]["Name"],
            address=raw.get("PublicIpAddress", ""),
            login=image.login if image else "ubuntu",
            launch_id=tags.get(base.LAUNCH_TAG, ""),
            profile=tags.get(base.PROFILE_TAG, ""),
            profile_digest=tags.get(base.PROFILE_DIGEST_TAG, ""),
            owner=tags.get(base.OWNER_TAG, ""),
            launched_at=raw["LaunchTime"].astimezone(dt.UTC).isoformat(timespec="seconds"),
            deadline=tags.get(base.DEADLINE_TAG, ""),
        )

    # --- launching ------------------------------------------------------------------------------------------------

    def launch(self, order: base.Order) -> base.Instance:
        """Make the instance of an order; the client token returns the one that an earlier try of it made."""
        with ThreadPoolExecutor(max_workers=3, thread_name_prefix="aws") as pool:
            image = pool.submit(self._image_id, order)
            key = pool.submit(self._import_key, order)
            group = pool.submit(self._security_group, order)
            # Each is asked for its result, so that an error of one does not hide that the others were made.
            parameters = {"ImageId": image.result(), "KeyName": key.result(), "SecurityGroupIds": [group.result()]}
        with classified("ec2:RunInstances", self.region):
            reply = client("ec2", self.region, self._access, retried=False).run_instances(**parameters, **self._request(order))
        return self._instance(reply["Instances"][0])

    def _request(self, order: base.Order) -> dict[str, Any]:
        """RunInstances without image, key and group: encrypted disks, IMDSv2, tags on everything, no role, end on power-off."""
        image = aws_image(*order.os)
        root = image.root_device if image else "/dev/sda1"
        tags = _aws_tags(order)
        spot = {"InstanceMarketOptions": {"MarketType": "spot"}} if order.market == "spot" else {}
        return {
            "InstanceType": order.instance_type,
            "MinCount": 1,
            "MaxCount": 1,
            "ClientToken": f"gpuprov-{order.launch_id}",
            "UserData": user_data(deadline=order.deadline),
            "InstanceInitiatedShutdownBehavior": "terminate",
            "MetadataOptions": {"HttpTokens": "required", "HttpEndpoint": "enabled", "HttpPutResponseHopLimit": 1},
            "BlockDeviceMappings": [
                _volume(root, order.root_gb),
                *([_volume("/dev/sdf", order.volume_gb)] if order.volume_gb else []),
            ],
            "TagSpecifications": [{"ResourceType": kind, "Tags": tags} for kind in ("instance", "volume", "network-interface")],
            **spot,
        }

    def _image_id(self, order: base.Order) -> str:
        if order.image_id is not None:
            return order.image_id
        image = aws_image(*order.os)
        parameter = image.parameter if image else None
        if parameter is None:
            msg = f"how AWS names its images of {' '.join(order.os)} is not in the catalogue"
            raise ImageNotFoundError(msg, hint="choose a system of `gpuprov profile schema` that AWS has images of, such as ubuntu 24.04")
        with classified("ssm:GetParameter", self.region):
            value = client("ssm", self.region, self._access).get_parameter(Name=parameter)["Parameter"]["Value"]
        return str(value)

    def _import_key(self, order: base.Order) -> str:
        name = _resource_name(order)
        with classified("ec2:ImportKeyPair", self.region):
            self._unless_there(
                "InvalidKeyPair.Duplicate",
                lambda: self._ec2.import_key_pair(
                    KeyName=name,
                    PublicKeyMaterial=order.public_key.encode(),
                    TagSpecifications=[{"ResourceType": "key-pair", "Tags": _aws_tags(order)}],
                ),
            )
        return name

    def _security_group(self, order: base.Order) -> str:
        """A group in the default VPC that opens port 22 to the order's networks and nothing else."""
        name = _resource_name(order)
        networks = [caller_address(self._access) if n == "caller" else n for n in order.ssh_from]
        with classified("ec2:CreateSecurityGroup", self.region):
            made = self._unless_there(
                "InvalidGroup.Duplicate",
                lambda: self._ec2.create_security_group(
                    GroupName=name,
                    Description=f"gpuprov {order.name}: SSH",
                    TagSpecifications=[{"ResourceType": "security-group", "Tags": _aws_tags(order)}],
                ),
            )
            group = made["GroupId"] if made else self._groups(Filters=[{"Name": "group-name", "Values": [name]}])[0]
        rule = {
            "IpProtocol": "tcp",
            "FromPort": 22,
            "ToPort": 22,
            "IpRanges": [{"CidrIp": n, "Description": "SSH"} for n in networks if ":" not in n],
            "Ipv6Ranges": [{"CidrIpv6": n, "Description": "SSH"} for n in networks if ":" in n],
        }
        with classified("ec2:AuthorizeSecurityGroupIngress", self.region):
            self._unless_there(
                "InvalidPermission.Duplicate",
                lambda: self._ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule]),
            )
        return group

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

    # --- waiting --------------------------------------------------------------------------------------------------

    def wait_running(self, instance: base.Instance, *, timeout_s: float) -> base.Instance:
        """Poll until the instance runs and has a public address."""

        def settled(now: base.Instance | None) -> bool:
            return now is None or (now.state == "running" and bool(now.address)) or now.state in {"shutting-down", "terminated", "stopped"}

        now = self._poll(lambda: self._refetch(instance), settled, timeout_s=timeout_s)
        if now is not None and now.state == "running" and now.address:
            return now
        state = now.state if now else "gone"
        msg = f"instance {instance.id} of {instance.name!r} did not come up in {self.region}: it is {state}"
        raise InstanceLostError(msg, hint=f"`gpuprov down {instance.name}` removes what is left; then run `gpuprov up` again")

    def _refetch(self, instance: base.Instance) -> base.Instance | None:
        return next((found for found in self.find(instance.name) if found.id == instance.id), None)

    def host_keys(self, instance: base.Instance, *, timeout_s: float) -> tuple[str, ...]:
        """Read the keys that cloud-init printed on the console: EC2 signs for that channel, the network does not."""

        def read() -> tuple[str, ...]:
            with classified("ec2:GetConsoleOutput", self.region):
                reply = self._ec2.get_console_output(InstanceId=instance.id, Latest=True)
            # botocore has already decoded the base64 of the wire
            return hostkeys.parse_console(str(reply.get("Output", "")))

        keys = self._poll(read, bool, timeout_s=timeout_s)
        if keys:
            return keys
        msg = f"the console of {instance.id} showed no SSH host keys within {timeout_s:g} s"
        raise HostKeyUnknownError(msg, hint=f"run the same `gpuprov up` again to go on waiting; `gpuprov down {instance.name}` gives up")

    @staticmethod
    def _poll(ask: Callable[[], T], enough: Callable[[T], bool], *, timeout_s: float) -> T:
        """Ask at growing intervals until the answer is enough or time is up; returns the last answer."""
        return tenacity.Retrying(
            retry=tenacity.retry_if_result(lambda answer: not enough(answer)),
            wait=tenacity.wait_exponential(multiplier=0.2, exp_base=1.5, max=5),
            stop=tenacity.stop_after_delay(timeout_s),
            retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
        )(ask)

    # --- destroying -----------------------------------------------------------------------------------------------

    def destroy(self, name: str, *, on_step: base.Step) -> Sequence[str]:
        """Terminate the instances of a name, wait until they are gone, and remove their groups and keys; all by tag."""
        removed = []
        instances = [i.id for i in self.find(name)]
        if instances:
            on_step(f"terminating {', '.join(instances)} in {self.region}")
            with classified("ec2:TerminateInstances", self.region):
                self._ec2.terminate_instances(InstanceIds=instances)
                waiter = self._ec2.get_waiter("instance_terminated")
                waiter.wait(
                    InstanceIds=instances,
                    WaiterConfig={"Delay": 1 if self._access.endpoint_url else 5, "MaxAttempts": 120},
                )
            removed += [f"instance {i}" for i in instances]
        by_tag = [{"Name": f"tag:{base.NAME_TAG}", "Values": [name]}]
        for group in self._groups(Filters=by_tag):
            on_step(f"removing security group {group}")
            with classified("ec2:DeleteSecurityGroup", self.region):
                self._ec2.delete_security_group(GroupId=group)
            removed.append(f"security group {group}")
        with classified("ec2:DescribeKeyPairs", self.region):
            keys = [k["KeyName"] for k in self._ec2.describe_key_pairs(Filters=by_tag)["KeyPairs"]]
        for key in keys:
            with classified("ec2:DeleteKeyPair", self.region):
                self._ec2.delete_key_pair(KeyName=key)
            removed.append(f"key pair {key}")
        return removed

    def _groups(self, **query: Any) -> list[str]:
        with classified("ec2:DescribeSecurityGroups", self.region):
            return [g["GroupId"] for g in self._ec2.describe_security_groups(**query)["SecurityGroups"]]


def _resource_name(order: base.Order) -> str:
    return f"gpuprov-{order.name}-{order.launch_id[:8]}"


def _aws_tags(order: base.Order) -> list[dict[str, str]]:
    tags = {"Name": f"gpuprov-{order.name}", **order.tags, "gpuprov:os": " ".join(order.os)}
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def _volume(device: str, size_gb: int) -> dict[str, Any]:
    return {
        "DeviceName": device,
        "Ebs": {"VolumeSize": size_gb, "VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True},
    }
