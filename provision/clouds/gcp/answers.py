"""What GCE's descriptions mean in our words: pure functions of its answers."""

import datetime as dt
import json
from collections.abc import Mapping
from typing import Any, Final

from provision.clouds import base
from provision.clouds.gcp.image_choice import image_of
from provision.clouds.gcp.requests import LABELS, LOGIN_TAG, OS_TAG, TAGS_ITEM, group_name
from provision.errors import ImageNotFoundError

# https://docs.cloud.google.com/compute/docs/instances/instance-lifecycle: TERMINATED is a stopped machine that still exists. A machine
# under repair is one that Google tries to bring back.
_STATES: Final[Mapping[str, base.State]] = {
    "PENDING": "pending",
    "PROVISIONING": "pending",
    "STAGING": "pending",
    "REPAIRING": "pending",
    "RUNNING": "running",
    "PENDING_STOP": "stopping",
    "STOPPING": "stopping",
    "SUSPENDING": "stopping",
    "STOPPED": "stopped",
    "SUSPENDED": "stopped",
    "TERMINATED": "stopped",
    "DEPROVISIONING": "shutting-down",
}
_MARKETS: Final = {"SPOT": "spot", "FLEX_START": "flex-start"}
_MADE_BY: Final = "created-by"  # in the metadata of a group's machine; from memory
_SAME: Final = dt.timedelta(minutes=1)


def last(path: str) -> str:
    """The last part of a path or URL, which is the name of the thing."""
    return path.rpartition("/")[2]


def tags_of(raw: Any) -> dict[str, str]:
    """Our tags: as much as the labels hold, and in full from the metadata of an instance or the description of another thing."""
    of_labels = {tag: raw.labels[name] for tag, name in LABELS.items() if name in raw.labels}
    items = getattr(raw, "metadata", None)
    text = next((item.value for item in items.items if item.key == TAGS_ITEM), "") if items else raw.description
    return of_labels | _strings(text)


def tags_of_firewall(raw: Any) -> dict[str, str]:
    """Our tags of a firewall rule, a template or an image, from its description: a rule can have no labels."""
    return _strings(raw.description)


def _strings(text: str) -> dict[str, str]:
    """The entries of a JSON object of strings; none where the text is not one, since anybody in the project may have written it."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return {_writable(k): _writable(str(v)) for k, v in data.items()} if isinstance(data, dict) else {}


def _writable(text: str) -> str:
    """The text without halves of surrogate pairs, which JSON can escape and nothing can print or write."""
    return text.encode(errors="replace").decode()


def instance_of(raw: Any) -> base.Instance:
    """Our instance for GCE's."""
    tags = tags_of(raw)
    zone = last(raw.zone)
    system = tags.get(OS_TAG, "ubuntu 24.04").partition(" ")
    launched = base.parsed_deadline(raw.creation_timestamp)
    public = [config.nat_i_p for nic in raw.network_interfaces for config in nic.access_configs]
    # Without an access configuration a machine never has a public address; with one, it has none while it is stopped.
    addresses = [address for address in public if address] if public else [nic.network_i_p for nic in raw.network_interfaces]
    return base.Instance(
        name=raw.name.removeprefix("gpuprov-"),
        group=tags.get(base.NAME_TAG, ""),
        id=raw.name,
        cloud="gcp",
        region=zone.rpartition("-")[0],
        zone=zone,
        type=last(raw.machine_type),
        market=_MARKETS.get(raw.scheduling.provisioning_model, "on-demand"),
        state=_STATES.get(raw.status, "pending"),
        address=addresses[0] if addresses else "",
        login=tags.get(LOGIN_TAG) or _login(system[0], system[2]),
        launch_id=tags.get(base.LAUNCH_TAG, ""),
        profile=tags.get(base.PROFILE_TAG, ""),
        profile_digest=tags.get(base.PROFILE_DIGEST_TAG, ""),
        owner=tags.get(base.OWNER_TAG, ""),
        launched_at=launched.isoformat(timespec="seconds") if launched else "",
        deadline=tags.get(base.DEADLINE_TAG, ""),
        count=base.count_of(tags),
        project=raw.zone.partition("/projects/")[2].partition("/")[0],
        tags=tuple(sorted(base.added(tags).items())),
        in_fleet=_made_by(raw) == group_name(tags.get(base.NAME_TAG, "")),
    )


def _made_by(raw: Any) -> str:
    """The managed instance group that made a machine, as Compute Engine notes it in the machine's metadata; empty for none."""
    text = next((item.value for item in raw.metadata.items if item.key == _MADE_BY), "")
    return last(text) if "instancegroupmanagers/" in text.lower() else ""


def _login(system: str, version: str) -> str:
    try:
        return image_of((system, version)).login
    except ImageNotFoundError:
        return system


def notices_of(raw: Any) -> tuple[str, ...]:
    """GCE's announcements about an instance: maintenance, an end that is not its deadline, a spot machine that it takes back."""
    texts = []
    coming = raw.resource_status.upcoming_maintenance
    if coming.window_start_time:
        latest = f", at the latest {coming.latest_window_start_time}" if coming.latest_window_start_time else ""
        kind = coming.type_.lower() if coming.type_ else "planned"
        texts.append(f"{kind} maintenance ({coming.maintenance_status.lower() or 'pending'}) from {coming.window_start_time}{latest}")
    ends = raw.resource_status.scheduling.termination_timestamp
    moment, deadline = base.parsed_deadline(ends), base.parsed_deadline(tags_of(raw).get(base.DEADLINE_TAG, ""))
    if ends and not (moment and deadline and abs(moment - deadline) <= _SAME):
        texts.append(f"deleted by its time limit at {ends}, which is not its deadline")
    if raw.scheduling.provisioning_model == "SPOT" and _STATES.get(raw.status) in {"stopping", "shutting-down"}:
        texts.append("spot: Google is taking it back, or it is being stopped")
    return tuple(texts)
