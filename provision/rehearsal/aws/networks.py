"""Key pairs, security groups and default VPCs of the embedded EC2, where moto is laxer than EC2, and Block Public Access of its VPCs.

The fields of the last are those of botocore's model. What a region without a default VPC refuses is in refusals.py.
"""

import threading
from typing import Any

from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.responses import ActionResult
from moto.ec2.models.key_pairs import KeyPairBackend
from moto.ec2.models.security_groups import SecurityGroupBackend
from moto.ec2.models.subnets import SubnetBackend
from moto.ec2.models.vpcs import VPCBackend
from moto.ec2.responses.vpcs import VPCs

from provision.rehearsal.aws import late
from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.aws.world import instances, method_of, refuse


def patch(settings: AwsSettings) -> None:
    """Refuse keys that are not in OpenSSH's format, a second group of a name, and the removal of groups that are in use."""
    _patch_vpcs(settings)
    import_key, delete_group = KeyPairBackend.import_key_pair, SecurityGroupBackend.delete_security_group
    describe_groups = SecurityGroupBackend.describe_security_groups
    create_group, lock = SecurityGroupBackend.create_security_group, threading.RLock()

    @method_of(SecurityGroupBackend)
    def create_security_group(self: Any, *args: Any, **kwargs: Any) -> Any:
        with lock:  # moto looks for the name and then makes the group, so that two requests at once would both make one
            group = create_group(self, *args, **kwargs)
        if group.name != "default":  # which comes with its network
            late.born(group.id)
        return group

    @method_of(SecurityGroupBackend)
    def describe_security_groups(self: Any, *args: Any, **kwargs: Any) -> list[Any]:
        # One that is named is refused before.
        return [group for group in describe_groups(self, *args, **kwargs) if not late.is_late(group.id, settings)]

    @method_of(KeyPairBackend)
    def import_key_pair(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return import_key(self, *args, **kwargs)
        except (ValueError, TypeError, IndexError):
            refuse("InvalidKey.Format", "Key is not in valid OpenSSH public key format")

    @method_of(SecurityGroupBackend)
    def delete_security_group(self: Any, name: str | None = None, group_id: str | None = None) -> None:
        for instance in instances(self.region_name):
            if instance.state != "terminated" and any(group.id == group_id for group in instance.security_groups):
                refuse("DependencyViolation", f"resource {group_id} has a dependent object")
        delete_group(self, name, group_id)


def _patch_vpcs(settings: AwsSettings) -> None:
    describe_all_vpcs, describe_all_subnets = VPCBackend.describe_vpcs, SubnetBackend.describe_subnets

    @method_of(VPCBackend)
    def describe_vpcs(self: Any, *args: Any, **kwargs: Any) -> Any:
        none = self.region_name in settings.no_default_vpc
        return [vpc for vpc in describe_all_vpcs(self, *args, **kwargs) if not (none and vpc.is_default)]

    @method_of(SubnetBackend)
    def describe_subnets(self: Any, *args: Any, **kwargs: Any) -> Any:
        none = self.region_name in settings.no_default_vpc
        return [each for each in describe_all_subnets(self, *args, **kwargs) if not (none and str(each.default_for_az).lower() == "true")]

    @method_of(VPCs)
    def describe_vpc_block_public_access_options(self: Any) -> ActionResult:
        mode = settings.block_public_access.get(self.region, "off")
        state = {"State": "default-state" if mode == "off" else "update-complete", "InternetGatewayBlockMode": mode}
        more = {"AwsAccountId": DEFAULT_ACCOUNT_ID, "AwsRegion": self.region, "ExclusionsAllowed": settings.exclusions_allowed}
        return ActionResult({"VpcBlockPublicAccessOptions": {**state, **more, "ManagedBy": "account"}})
