"""What is ours in a region, by tag, and removing it in the order in which things depend on one another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import tenacity

from provision.clouds import base
from provision.clouds.aws.answers import tags_of
from provision.clouds.aws.client import AwsAccess, client
from provision.clouds.aws.errors import classified, code_of
from provision.errors import InstanceLostError


@dataclass(frozen=True, slots=True)
class AwsKind:
    """How one kind of thing is described and removed.

    Attributes:
        kind: as DescribeTags calls it, which is how a `Thing` is called too, but for the two of `_CALLED`.
        describe: the client's method; the IAM action is its name in capitals.
        listed: the key of its answer.
        id: the key of one entry's id.
        delete: the client's method, empty where instances are terminated in one call.
        takes: the parameter that `delete` takes the id in.
        waits: the filter by id of those that end with their instance, a moment after it.
    """

    kind: str
    describe: str
    listed: str
    id: str
    delete: str
    takes: str
    waits: str = ""

    @property
    def describes(self) -> str:
        """The permission that listing needs."""
        return _action(self.describe)

    @property
    def deletes(self) -> str:
        """The permission that removing needs."""
        return _action(self.delete)


def _action(method: str) -> str:
    return "ec2:" + "".join(word.capitalize() for word in method.split("_"))


# In the order of removal: a spot request first, so that it starts nothing more; then the machines; then what they held.
KINDS: Final = (
    AwsKind(
        "spot-instances-request",
        "describe_spot_instance_requests",
        "SpotInstanceRequests",
        "SpotInstanceRequestId",
        "cancel_spot_instance_requests",
        "SpotInstanceRequestIds",
    ),
    AwsKind("instance", "describe_instances", "Reservations", "InstanceId", "terminate_instances", "InstanceIds"),
    AwsKind("elastic-ip", "describe_addresses", "Addresses", "AllocationId", "release_address", "AllocationId"),
    AwsKind("volume", "describe_volumes", "Volumes", "VolumeId", "delete_volume", "VolumeId", "volume-id"),
    AwsKind(
        "network-interface",
        "describe_network_interfaces",
        "NetworkInterfaces",
        "NetworkInterfaceId",
        "delete_network_interface",
        "NetworkInterfaceId",
        "network-interface-id",
    ),
    AwsKind("security-group", "describe_security_groups", "SecurityGroups", "GroupId", "delete_security_group", "GroupId"),
    AwsKind(
        "launch-template", "describe_launch_templates", "LaunchTemplates", "LaunchTemplateId", "delete_launch_template", "LaunchTemplateId"
    ),
    AwsKind("key-pair", "describe_key_pairs", "KeyPairs", "KeyPairId", "delete_key_pair", "KeyPairId"),
)
_CALLED: Final = {"spot-instances-request": "spot-request", "elastic-ip": "address"}
_BY_NAME: Final = {_CALLED.get(k.kind, k.kind): k for k in KINDS}
_ENDED: Final = {"shutting-down", "terminated"}
_CLOSED: Final = {"closed", "cancelled", "failed"}
# What EC2 says while an instance that ended still holds its interface or volume.
_STILL_HELD: Final = {"DependencyViolation", "VolumeInUse", "IncorrectState", "InvalidNetworkInterface.InUse", "InvalidGroup.InUse"}
_GONE_S: Final = 300.0


def things(name: str | None, region: str, access: AwsAccess) -> list[base.Thing]:
    """What is ours in the region: one DescribeTags says which kinds there may be, and each is asked once which of it still exists."""
    ec2 = client("ec2", region, access)
    filters = [{"Name": "key", "Values": [base.NAME_TAG]}, *([{"Name": "value", "Values": [name]}] if name else [])]
    with classified("ec2:DescribeTags", region):
        pages = ec2.get_paginator("describe_tags").paginate(Filters=filters)
        tagged = {tag["ResourceType"] for page in pages for tag in page["Tags"]}
    asked = [kind for kind in KINDS if kind.kind in tagged]
    if not asked:
        return []
    with ThreadPoolExecutor(max_workers=len(asked), thread_name_prefix="aws") as pool:
        found = pool.map(lambda kind: _existing(ec2, kind, name, region), asked)
        return [thing for of_kind in found for thing in of_kind]


def _existing(ec2: Any, kind: AwsKind, name: str | None, region: str) -> list[base.Thing]:
    tag = {"Name": f"tag:{base.NAME_TAG}", "Values": [name]} if name else {"Name": "tag-key", "Values": [base.NAME_TAG]}
    with classified(kind.describes, region):
        if ec2.can_paginate(kind.describe):
            pages = list(ec2.get_paginator(kind.describe).paginate(Filters=[tag]))
        else:
            pages = [getattr(ec2, kind.describe)(Filters=[tag])]
    raw = [entry for page in pages for entry in page[kind.listed]]
    if kind.kind == "instance":
        raw = [instance for reservation in raw for instance in reservation["Instances"]]
    return [thing for entry in raw if (thing := _thing(entry, kind, region)) is not None]


def _thing(raw: dict[str, Any], kind: AwsKind, region: str) -> base.Thing | None:
    tags = tags_of(raw)
    state = raw.get("State")
    if kind.kind == "spot-instances-request" and state in _CLOSED:
        return None  # EC2 shows it for days, and nothing can come of it
    return base.Thing(
        kind=_CALLED.get(kind.kind, kind.kind),
        id=raw[kind.id],
        group=tags.get(base.NAME_TAG, ""),
        launch_id=tags.get(base.LAUNCH_TAG, ""),
        owner=tags.get(base.OWNER_TAG, ""),
        where=region,
        alive=not (isinstance(state, dict) and state.get("Name") in _ENDED),
    )


def remove(things: Sequence[base.Thing], region: str, access: AwsAccess, *, on_step: base.Step) -> list[str]:
    """Remove them, those that depend on others last; what is gone already counts as removed."""
    ec2 = client("ec2", region, access)
    removed: list[str] = []
    for name, kind in _BY_NAME.items():
        of_kind = [t for t in things if t.kind == name]
        if not of_kind:
            continue
        alive = [t for t in of_kind if t.alive]
        if alive:
            on_step(f"removing {', '.join(map(str, alive))}")
        ids = [t.id for t in of_kind]
        if name == "instance":
            _terminate(ec2, ids, region)
        elif kind.waits:
            _clear(ec2, kind, ids, region)
        else:
            with ThreadPoolExecutor(max_workers=8, thread_name_prefix="aws") as pool:
                list(pool.map(partial(_delete, ec2, kind, region), ids))
        removed += [str(t) for t in alive]
    return removed


def _terminate(ec2: Any, ids: Sequence[str], region: str) -> None:
    """Terminate instances and wait until EC2 shows them as terminated, or no longer shows them."""
    with classified("ec2:TerminateInstances", region):
        # EC2 refuses the whole call for one id that it no longer knows.
        if not _unless_gone(partial(ec2.terminate_instances, InstanceIds=list(ids))):
            for one in ids:
                _unless_gone(partial(ec2.terminate_instances, InstanceIds=[one]))

    def left() -> list[str]:
        with classified("ec2:DescribeInstances", region):
            pages = ec2.get_paginator("describe_instances").paginate(Filters=[{"Name": "instance-id", "Values": list(ids)}])
            found = [i for page in pages for r in page["Reservations"] for i in r["Instances"]]
        return [i["InstanceId"] for i in found if i["State"]["Name"] != "terminated"]

    _until_none(left, region)


def _clear(ec2: Any, kind: AwsKind, ids: Sequence[str], region: str) -> None:
    """Wait for those that end with their instance, and delete those that stay.

    What is gone is not asked to be deleted: whether EC2 answers that with "not found", or with "not authorized" because what is gone
    has no tags for a policy's condition to hold, is written nowhere.
    """

    def left() -> list[str]:
        with classified(kind.describes, region):
            reply = getattr(ec2, kind.describe)(Filters=[{"Name": kind.waits, "Values": list(ids)}])
        found = {entry[kind.id]: entry.get("State", entry.get("Status")) for entry in reply[kind.listed]}
        for thing_id, state in found.items():
            if state == "available":
                _delete(ec2, kind, region, thing_id)
        return [thing_id for thing_id, state in found.items() if state not in {"deleting", "deleted"}]

    _until_none(left, region)


def _until_none(left: Callable[[], list[str]], region: str) -> None:
    """Ask at growing intervals until nothing is left.

    Raises:
        InstanceLostError: something is, after five minutes.
    """
    still = tenacity.Retrying(
        retry=tenacity.retry_if_result(bool),
        wait=_WAIT,
        stop=tenacity.stop_after_delay(_GONE_S),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else [],
    )(left)
    if still:
        msg = f"{', '.join(still)} in {region} did not end within {_GONE_S:g} s"
        raise InstanceLostError(msg, hint="run the same command again; it goes on where it stopped")


def _delete(ec2: Any, kind: AwsKind, region: str, thing_id: str) -> None:
    """Remove one thing; while what ended still holds it, ask again."""
    from botocore.exceptions import ClientError  # noqa: PLC0415

    takes = [thing_id] if kind.takes.endswith("Ids") else thing_id

    def held(error: BaseException) -> bool:
        return isinstance(error, ClientError) and code_of(error) in _STILL_HELD

    retry = tenacity.Retrying(retry=tenacity.retry_if_exception(held), wait=_WAIT, stop=tenacity.stop_after_delay(_GONE_S), reraise=True)
    with classified(kind.deletes, region):
        retry(_unless_gone, partial(getattr(ec2, kind.delete), **{kind.takes: takes}))


_WAIT: Final = tenacity.wait_exponential(multiplier=0.05, exp_base=1.5, max=5)


def _unless_gone(delete: Callable[[], Any]) -> bool:
    """Whether EC2 did it; false when it says that there is no such thing."""
    from botocore.exceptions import ClientError  # noqa: PLC0415

    try:
        delete()
    except ClientError as error:
        if "NotFound" in code_of(error):
            return False
        raise
    return True
