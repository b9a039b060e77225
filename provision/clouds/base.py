"""The contract between the clouds and everything above them: a Protocol and the dataclasses that cross it.

A cloud object speaks for one region. It classifies every error once, into the classes of `provision.errors`: capacity (the next zone
or region may have one), quota (another region may), throttled, refused (names the permission), invalid, unreachable. It puts the tags
of `Order.tags` on everything that it makes, and finds and removes by tag alone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

__all__ = [
    "DEADLINE_TAG",
    "LAUNCH_TAG",
    "NAME_TAG",
    "OWNER_TAG",
    "PROFILE_DIGEST_TAG",
    "PROFILE_TAG",
    "Cloud",
    "Instance",
    "Order",
    "State",
    "Step",
]

NAME_TAG = "gpuprov:name"
LAUNCH_TAG = "gpuprov:launch"
PROFILE_TAG = "gpuprov:profile"
PROFILE_DIGEST_TAG = "gpuprov:profile-digest"
OWNER_TAG = "gpuprov:owner"
DEADLINE_TAG = "gpuprov:deadline"

State = Literal["pending", "running", "stopping", "stopped", "shutting-down", "terminated"]
Step = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Order:
    """Everything that a launch needs, decided before the first call; the same order asked twice makes one machine.

    Attributes:
        name: what the user calls the machine.
        launch_id: fresh for each launch; the client token and the names of all that is made derive from it.
        instance_type: the cloud's name of the machine type.
        market: on-demand or spot.
        os: (system, version), as in the catalogue.
        root_gb: size of the encrypted boot volume.
        volume_gb: size of an encrypted data volume, or None.
        ssh_from: networks that may reach port 22, or `caller`.
        public_key: the OpenSSH public key that may log in first.
        deadline: when the machine ends itself.
        tags: put on everything that is made.
        image_id: the image of the lock; None lets the cloud find the newest of the system.
    """

    name: str
    launch_id: str
    instance_type: str
    market: Literal["on-demand", "spot"]
    os: tuple[str, str]
    root_gb: int
    volume_gb: int | None
    ssh_from: tuple[str, ...]
    public_key: str
    deadline: dt.datetime
    tags: dict[str, str] = field(default_factory=dict)
    image_id: str | None = None


@dataclass(frozen=True, slots=True)
class Instance:
    """A machine at a cloud, as its tags and the cloud describe it."""

    name: str
    id: str
    cloud: str
    region: str
    zone: str
    type: str
    market: str
    state: State
    address: str
    login: str
    launch_id: str
    profile: str
    profile_digest: str
    owner: str
    launched_at: str
    deadline: str


class Cloud(Protocol):
    """One region of one cloud, with the caller's credentials."""

    region: str

    def find(self, name: str | None = None) -> list[Instance]:
        """Our instances that are not terminated, by tag; all of them, or those of one name."""
        ...

    def launch(self, order: Order) -> Instance:
        """Make the machine and all it needs; the same order asked again returns the same machine."""
        ...

    def wait_running(self, instance: Instance, *, timeout_s: float) -> Instance:
        """Wait until the instance runs and has an address."""
        ...

    def host_keys(self, instance: Instance, *, timeout_s: float) -> tuple[str, ...]:
        """The public SSH host keys, read over the cloud's own channel and not over the network to be trusted."""
        ...

    def destroy(self, name: str, *, on_step: Step) -> Sequence[str]:
        """Remove everything tagged with the name; returns what was removed. Nothing there is no error."""
        ...
