"""Key pairs and security groups of the embedded EC2, where moto is laxer."""

from __future__ import annotations

from typing import Any

from moto.ec2.models.key_pairs import KeyPairBackend
from moto.ec2.models.security_groups import SecurityGroupBackend

from provision.rehearsal.aws.world import instances, refuse


def patch() -> None:
    """Refuse keys that are none, and keep groups that are in use."""
    import_key = KeyPairBackend.import_key_pair

    def import_key_pair(self: Any, key_name: str, public_key_material: bytes, *rest: Any, **named: Any) -> Any:
        try:
            return import_key(self, key_name, public_key_material, *rest, **named)
        except (ValueError, TypeError, IndexError):
            refuse("InvalidKey.Format", "Key is not in valid OpenSSH public key format")

    KeyPairBackend.import_key_pair = import_key_pair
    delete_group = SecurityGroupBackend.delete_security_group

    def delete_security_group(self: Any, name: str | None = None, group_id: str | None = None) -> None:
        for instance in instances(self.region_name):
            if instance.state != "terminated" and any(group.id == group_id for group in instance.security_groups):
                refuse("DependencyViolation", f"resource {group_id} has a dependent object")
        delete_group(self, name, group_id)

    SecurityGroupBackend.delete_security_group = delete_security_group
