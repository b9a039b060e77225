"""Keys of the embedded GCP's disks: where they are valid, and how an operation fails whose service agent may not use one.

The words: googleapis of Compute Engine as `gcloud compute` shows them ("Cloud KMS error when using key …: Permission
'cloudkms.cryptoKeyVersions.useToEncrypt' denied on resource '…' (or it may not exist)."). The code is inferred (clouds/gcp/errors.py).
"""

import re
from collections.abc import Iterable
from typing import Any, Final

from provision.rehearsal.gcp.offers import region_of
from provision.rehearsal.gcp.operations import failure
from provision.rehearsal.gcp.refusals import invalid
from provision.rehearsal.gcp.world import World

_KEY: Final = re.compile(r"projects/[^/]+/locations/([^/]+)/keyRings/[^/]+/cryptoKeys/[^/]+")
_WIDE: Final = {"asia", "europe", "us"}


def check(disk: dict[str, Any], zone: str, at: str) -> None:
    """Refuse a key that is none, is given for a local SSD, or is too far away."""
    if "diskEncryptionKey" not in disk:
        return
    name = str(disk["diskEncryptionKey"].get("kmsKeyName", ""))
    parsed = _KEY.fullmatch(name)
    if parsed is None:
        raise invalid(f"{at}.diskEncryptionKey.kmsKeyName", name, "It must name a key of Cloud KMS.")
    if disk.get("type") == "SCRATCH":
        raise invalid(f"{at}.diskEncryptionKey", name, "A local SSD takes no key.")
    region, location = region_of(zone), parsed[1]
    if location not in {"global", region} and not (location in _WIDE and region.startswith(f"{location}-")):
        raise invalid(
            f"{at}.diskEncryptionKey.kmsKeyName", name, f"The key must be in {region}, in a multi-region that holds it, or global."
        )


def obstacle(world: World, bodies: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """How an operation fails that makes these instances, if the service agent may not use a key of their disks, or there is none."""
    names = [disk.get("diskEncryptionKey", {}).get("kmsKeyName", "") for body in bodies for disk in body["disks"]]
    refused = next((name for name in names if name in world.settings.gce_keys_refused), None)
    if refused is None:
        return None
    denied = f"Permission 'cloudkms.cryptoKeyVersions.useToEncrypt' denied on resource '{refused}' (or it may not exist)."
    return failure("KMS_PERMISSION_DENIED", f"Cloud KMS error when using key {refused}: {denied}", http=400)
