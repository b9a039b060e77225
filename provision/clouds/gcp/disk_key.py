"""A key of Cloud KMS that an organisation keeps itself, for the disks of a machine: how it is written, where it is valid, who needs it.

Compute Engine uses the key as its own service agent, so the caller needs nothing on it: "Before you begin" of
cloud.google.com/compute/docs/disks/customer-managed-encryption.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field, StringConstraints

from provision.clouds.own import CloudOption
from provision.errors import CloudError, DiskKeyRefusedError

if TYPE_CHECKING:
    from provision.clouds.base import Order

GcpDiskKey = Annotated[
    str,
    StringConstraints(
        pattern=r"^projects/[a-z][a-z0-9:.-]{4,61}[a-z0-9]/locations/[a-z0-9-]{1,63}/keyRings/[A-Za-z0-9_-]{1,63}/cryptoKeys/[A-Za-z0-9_-]{1,63}$"
    ),
    Field(description="a key of Cloud KMS: projects/P/locations/L/keyRings/R/cryptoKeys/K"),
]
# The multi-regions that hold the regions whose names begin with theirs: cloud.google.com/kms/docs/locations, "Multi-regional".
_HOLDS: Final = {"asia": "asia-", "europe": "europe-", "us": "us-"}
_AGENT: Final = "service-NUMBER@compute-system.iam.gserviceaccount.com"
_ROLE: Final = "roles/cloudkms.cryptoKeyEncrypterDecrypter"


def problem(key: str, zones: Sequence[str]) -> str:
    """Why a key cannot encrypt disks in these zones, in words for whoever wrote it; empty when it can."""
    location = key.split("/")[3]
    far = [zone for zone in zones if not _reaches(location, zone.rpartition("-")[0])]
    if not far:
        return ""
    region = far[0].rpartition("-")[0]
    wide = next((name for name, prefix in _HOLDS.items() if region.startswith(prefix)), "global")
    nearer = f"name one in {region}, {wide} or global, or write a place for each region"
    return f"a key in {location} encrypts no disk in {', '.join(far)}; {nearer}"


def _reaches(location: str, region: str) -> bool:
    return location in {"global", region} or region.startswith(_HOLDS.get(location, "\0"))


def of(order: Order) -> str | None:
    """The key of an order's place; None where it names none."""
    key: str | None = getattr(order.place, "disk_key", None)
    return key


def agent_note(places: Iterable[Any]) -> str:
    """What must be granted to Google's own agent, for the note of the permissions; empty where no place names a key."""
    keys = list(dict.fromkeys(place.disk_key for place in places if place.disk_key))
    if not keys:
        return ""
    return f"; beside them Compute Engine's service agent, {_AGENT} with the project's number, needs {_ROLE} on {', '.join(keys)}"


def explained(error: CloudError, order: Order) -> CloudError:
    """The error of a launch; one about the key names it and who must be allowed to use it.

    Which code an operation has where a key is disabled is not recorded: an error that may be about the key gets the same hint at its end.
    """
    key = of(order)
    if key is None:
        return error
    hint = (
        f"see that the key exists and is enabled, and grant it: `gcloud kms keys add-iam-policy-binding {key} --role {_ROLE} --member "
        f"serviceAccount:{_AGENT}`, with the number of the project that the machine is made in (`gcloud projects describe`)"
    )
    if not isinstance(error, DiskKeyRefusedError):
        error.hint += f"; if it is about the disks' key, {hint}"
        return error
    msg = f"Compute Engine could not use the key {key} for the disks: its service agent needs cloudkms.cryptoKeyEncrypterDecrypter on it"
    return DiskKeyRefusedError(msg, hint=hint, detail=error.detail)


def options(place: Any, *, scratch: bool) -> tuple[CloudOption, ...]:
    """What the plan and the review say about the key of a place.

    Args:
        place: of a profile.
        scratch: whether its machine type has, or may have, local SSDs.
    """
    if place.disk_key is None:
        return ()
    key = CloudOption(
        "disk_key",
        f"disks encrypted with {place.disk_key}, which Compute Engine's service agent must be allowed to use",
        title="Disks are encrypted with a key of your own",
        reason=f"{place.disk_key}: whoever disables it makes the disks unreadable, and its use is recorded in the project's audit log",
        safer=True,
    )
    inside = CloudOption(
        "disk_key",
        "local SSDs take no key",
        severity="note",
        title="Local SSDs are not under the key",
        reason="Google encrypts them with a key of its own, which ends with the machine; nothing else can be chosen",
        narrower="`disks.data.source: volume`",
    )
    return (key, *([inside] if scratch else []))
