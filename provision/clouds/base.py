"""The contract between the clouds and everything above them: a Protocol and the dataclasses that cross it.

A cloud object speaks for one region. It classifies every error once, into the classes of `provision.errors`: capacity (the next zone
may have one), quota (another region may), throttled, refused (names the permission), invalid, unreachable. It puts the tags of
`Order.tags` on everything that it makes, and finds and removes by tag alone. No call of it is sent twice by the SDK when it makes
something: an answer is classified, and a lost reply is asked for again by the caller, under the same token.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Protocol

from provision.clouds.own import Authority
from provision.clouds.userdata import Downloads
from provision.errors import CloudInvalidError, CredentialsMissingError
from provision.structs import Struct, replace

if TYPE_CHECKING:
    from provision.clouds.baked import Bakery
    from provision.clouds.offline import PlaceBase

NAME_TAG = "gpuprov:name"
LAUNCH_TAG = "gpuprov:launch"
PROFILE_TAG = "gpuprov:profile"
PROFILE_DIGEST_TAG = "gpuprov:profile-digest"
OWNER_TAG = "gpuprov:owner"
DEADLINE_TAG = "gpuprov:deadline"
COUNT_TAG = "gpuprov:count"
FIRST_TAG = "gpuprov:first"
IMAGE_TAG = "gpuprov:image"

OURS = "gpuprov:"
"""What the keys of our own tags begin with."""

State = Literal["pending", "running", "stopping", "stopped", "shutting-down", "terminated"]
Step = Callable[[str], None]


class NotSetUpError(CredentialsMissingError):
    """Nothing names credentials for this cloud: nobody has used it from here."""


class TokenSpentError(CloudInvalidError, code="token-spent"):
    """A cloud does not repeat its answer to the token of an attempt: the machine of that token has ended."""


def count_of(tags: dict[str, str], tag: str = COUNT_TAG) -> int:
    """The number in a tag. Anybody may write a tag, so whatever is not a number of machines counts as 1."""
    text = tags.get(tag, "")
    return int(text) if re.fullmatch("[0-9]{1,6}", text) else 1


def folded(text: str) -> str:
    """A tag's key or value in the narrowest form that any cloud takes: up to 63 lower-case letters, digits, `-` and `_`."""
    return re.sub(r"[^a-z0-9_-]+", "-", text.lower())[:63].strip("-")


def added(tags: dict[str, str]) -> dict[str, str]:
    """The tags that a profile adds to ours. `Name` is ours too, for AWS's console, and `aws:` is the prefix of AWS's own."""
    return {key: value for key, value in tags.items() if key != "Name" and not key.startswith((OURS, "aws:"))}


def has_tags(tags: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether something has all of these tags: as they are written, or in the narrow form in which a cloud keeps them as labels."""
    return all(tags.get(key) == value or tags.get(folded(key)) == folded(value) for key, value in wanted.items())


def host_name(name: str, count: int, index: int) -> str:
    """What one machine of a launch is called: the launch's name, or with several NAME-1, NAME-2 and so on.

    Args:
        name: the launch's name.
        count: how many the whole launch asked for.
        index: from 1.
    """
    return name if count == 1 else f"{name}-{index}"


@dataclass(frozen=True, slots=True)
class Order:
    """Everything that one attempt needs, decided before the first call; the same order asked twice makes one set of machines.

    Attributes:
        name: what the user calls the launch; with several machines, the stem of their names.
        launch_id: hexadecimal, fresh for each launch; tokens and the names of all that is made derive from it.
        instance_type: the cloud's name of the machine type.
        gpu: the catalog's model; what is attached where a machine type has none of its own (N1).
        gpu_count: how many of them.
        market: on-demand, spot, or flex-start where the cloud has it.
        os: (system, version), as in the catalog.
        root_gb: size of the encrypted boot volume.
        volume_gb: size of an encrypted data volume, or None.
        instance_store: whether the profile's data disk is inside the machine; it is attached where it is not built in (GCP's local SSD).
        ssh_from: networks that may reach port 22, or `caller`; empty where nothing is opened at all.
        public_key: the OpenSSH public key that may log in first.
        deadline: when the machines end themselves.
        tags: put on everything that is made: the profile's own, and NAME_TAG to FIRST_TAG.
        image_id: the image of the lock; None lets the cloud find the newest of the system.
        zone: the only zone that is tried; empty lets the cloud choose one of its region.
        count: how many this attempt asks for.
        minimum: how many it must get; fewer is CapacityError and nothing is left.
        first: the index of the first machine of this attempt, from 1.
        subnet: the cloud's id or name of one; empty for the default network's.
        secure_boot: whether the machines start with Secure Boot on, which loads signed kernel modules only.
        public_address: whether the machines get an address that the Internet reaches; without, `Instance.address` is the private one.
        spot_limit_usd: US dollars an hour that a spot machine alone may cost, where the cloud can be told; None for no limit.
        place: the place of the profile, for the keys that only its cloud has; None in an order that no profile is behind.
        host_key: the OpenSSH private key that the machines show first, where the cloud has no channel to read theirs over; empty elsewhere.
        baked: the id of an image of ours that the machines start from, instead of every other one; empty for none.
        downloads: what the machines download at their first boot; None for nothing.
        store: where a fleet of the profile would keep its programs, as SCHEME://BUCKET/PREFIX; empty without one at this cloud.
        had: the ids of the launch's machines that the journal knows at this cloud; with `look_until`, for a cloud without tokens.
        look_until: until when machines of an earlier client's unfinished attempt may still appear; None if there is no such attempt.
    """

    name: str
    launch_id: str
    instance_type: str
    gpu: str
    gpu_count: int
    market: Literal["on-demand", "spot", "flex-start"]
    os: tuple[str, str]
    root_gb: int
    volume_gb: int | None
    instance_store: bool
    ssh_from: tuple[str, ...]
    public_key: str
    deadline: dt.datetime
    tags: dict[str, str] = field(default_factory=dict)
    image_id: str | None = None
    zone: str = ""
    count: int = 1
    minimum: int = 1
    first: int = 1
    subnet: str = ""
    public_address: bool = True
    secure_boot: bool = False
    spot_limit_usd: float | None = None
    place: PlaceBase | None = None
    host_key: str = field(default="", repr=False)
    baked: str = ""
    downloads: Downloads | None = None
    store: str = ""
    had: tuple[str, ...] = field(default=(), compare=False)
    look_until: dt.datetime | None = field(default=None, compare=False)

    def at(self, zone: str) -> Order:
        """The same order in another zone."""
        return replace(self, zone=zone)

    def token(self, region: str) -> str:
        """What makes asking again harmless: 32 hexadecimal digits, the same for the same attempt of the same launch."""
        attempt = (self.launch_id, region, self.zone, self.instance_type, self.market, str(self.first), str(self.count), str(self.minimum))
        return hashlib.sha256("/".join(attempt).encode()).hexdigest()[:32]


LOGIN: Final = re.compile(r"[a-z_][a-z0-9_.-]{0,31}")
"""A user name (useradd(8), and the dots of OS Login): what a tag may say that goes into a configuration for ssh."""
NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
"""The name of a launch, a fleet or a host."""
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_HOST: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
"""The name of a machine: of its launch with a number, or of a fleet's member as the cloud made it."""


def parsed_deadline(text: str) -> dt.datetime | None:
    """The moment that a tag says, in UTC; None where it says none: without an offset, out of range, or no date at all."""
    try:
        moment = dt.datetime.fromisoformat(text)
        return moment.astimezone(dt.UTC) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


def is_address(text: str) -> bool:
    """Whether it is an IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text  # behind it, any text is the scope of an IPv6 address


@dataclass(frozen=True, slots=True)
class Instance:
    """A machine at a cloud, as its tags and the cloud describe it.

    Attributes:
        name: of this machine, as `host_name` makes it.
        group: the launch's name, NAME_TAG; the same as `name` where one machine was asked for.
        launched_at, deadline: ISO 8601, UTC.
        address: the public one, or the private one of a machine that has and gets no other.
        login: the image's first user.
        project: whose it is, where a cloud has projects.
        tags: those that the profile added to ours, by key.
        in_fleet: whether the cloud says that a group of ours made it; `group` is then the fleet's name.
        odd: the fields that are empty, or `?` for the name, because what the cloud says there is none: anybody with rights to tag may
            have written it.
    """

    name: str
    group: str
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
    count: int = 1
    project: str = ""
    tags: tuple[tuple[str, str], ...] = ()
    in_fleet: bool = False
    odd: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Keep of what others can write only what can be what it should be."""
        fits: dict[str, bool] = {
            "name": bool(_HOST.fullmatch(self.name)),
            "group": bool(NAME.fullmatch(self.group)),
            "login": bool(LOGIN.fullmatch(self.login)),
            "address": is_address(self.address),
            "deadline": parsed_deadline(self.deadline) is not None,
            **{key: bool(_WORD.fullmatch(getattr(self, key))) for key in ("region", "zone", "type", "profile")},
        }
        odd = [key for key, fit in fits.items() if not fit and getattr(self, key)]
        object.__setattr__(self, "odd", tuple(dict.fromkeys([*self.odd, *odd])))
        for key in odd:
            object.__setattr__(self, key, "?" if key == "name" else "")


@dataclass(frozen=True, slots=True)
class Thing:
    """Anything of ours at a cloud, found by its tags.

    Attributes:
        kind: as the cloud calls it: instance, volume, security-group, spot-request, launch-template, disk, firewall, …
        id: what it is removed by.
        group: NAME_TAG.
        where: region, zone or `global`.
        alive: false for an instance that ended and that the cloud still shows.
        tags: those that its profile added to ours, as far as the cloud shows them.
    """

    kind: str
    id: str
    group: str
    launch_id: str
    owner: str
    where: str
    alive: bool = True
    tags: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    @classmethod
    def tagged(cls, kind: str, thing_id: str, where: str, tags: dict[str, str], *, alive: bool = True) -> Thing:
        """The thing that carries these tags."""
        own = tuple(sorted(added(tags).items()))
        return cls(kind, thing_id, tags.get(NAME_TAG, ""), tags.get(LAUNCH_TAG, ""), tags.get(OWNER_TAG, ""), where, alive, own)

    def __str__(self) -> str:
        return f"{self.kind} {self.id} in {self.where}"


def merged(*lists: Iterable[Thing]) -> list[Thing]:
    """Things that were found in several ways, each once, as the first list shows it."""
    found: dict[tuple[str, str, str], Thing] = {}
    for thing in (thing for things in lists for thing in things):
        found.setdefault((thing.kind, thing.id, thing.where), thing)
    return list(found.values())


class Known(Struct):
    """What the journal knows of a launch at one cloud. Its things are asked for by this too, because tags and lists may be late.

    Attributes:
        name, launch_id, owner: as its tags have them.
        machines: the id and the zone of each machine that the cloud confirmed; the zone may be empty.
        attempts: of each attempt the token, the zone, and the names of its machines.
        young: whether the launch is so new that the cloud may know a machine and not show it yet.
    """

    name: str
    launch_id: str
    owner: str
    machines: tuple[tuple[str, str], ...] = ()
    attempts: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    young: bool = True

    def thing(self, kind: str, thing_id: str, where: str, *, alive: bool = True) -> Thing:
        """The thing of this launch that has this id."""
        return Thing(kind, thing_id, self.name, self.launch_id, self.owner, where, alive)


class Answer(Struct):
    """One thing that the cloud says before a launch.

    Attributes:
        about: `region`, `offered`, `quota`, `image`, `dry-run`; on AWS and GCP `network`; on AWS `public-access`, for spot `spot-role`; on
            GCP `apis` and `billing`; on DigitalOcean `volumes`; and where the place names one `capacity`, `block-price`, `disk-key`,
            `image-key`, `identity`, `os-login`, `store` or `baked-image`.
        holds: None when it could not be asked; `said` is then the reason.
        authority: about `identity`, what the machine may do where that could be read; else None.
    """

    about: str
    holds: bool | None
    said: str
    authority: Authority | None = None


class Cloud(Protocol):
    """One region of one cloud, with the caller's credentials."""

    region: str
    spans: ClassVar[Literal["region", "project"]]
    """How far `find` and `things` see: this region, or everything of the account whatever the region."""

    @property
    def bakery(self) -> Bakery | None:
        """The images of ours there; None where this release makes none."""

    def find(self, name: str | None = None) -> list[Instance]:
        """Our instances that are not terminated, by tag; all of them, or those of one launch's name."""

    def zones(self, order: Order) -> list[str]:
        """The zones of the region that have the type, asked once; those that the catalog knows where the cloud need not be asked."""

    def launch(self, order: Order) -> list[Instance]:
        """Make the machines and all they need; the same order asked again returns the same machines.

        Raises:
            CapacityError: fewer than `minimum`; `elsewhere` of it holds the zones that the cloud named instead.
        """

    def examine(self, order: Order) -> list[Answer]:
        """What the cloud says before a launch: changes nothing, costs nothing."""

    def wait_running(self, instance: Instance, *, timeout_s: float) -> Instance:
        """Wait until the instance runs and has an address."""

    def host_keys(self, instance: Instance, *, timeout_s: float) -> tuple[str, ...]:
        """The public SSH host keys, read over the cloud's own channel and not over the network to be trusted.

        Raises:
            InstanceLostError: the instance has ended, so that there will be none.
        """

    def publish_host_keys(self, instance: Instance, keys: Sequence[str]) -> None:
        """Let `host_keys` answer with these from now on, beside the first key until `keys` were published twice.

        Only for clouds whose machines are given their first host key. The others read what the machine itself says.
        """

    def console(self, instance: Instance) -> str:
        """What the cloud still has of the machine's console, as the machine wrote it; the machine may have ended."""

    def notices(self, instances: Sequence[Instance]) -> dict[str, tuple[str, ...]]:
        """Instance id → what the cloud announced: maintenance, a spot interruption, a retirement."""

    def stop(self, instances: Sequence[Instance], *, timeout_s: float) -> None:
        """Power off and wait until they are stopped; stopped ones are left alone."""

    def start(self, instances: Sequence[Instance], *, timeout_s: float) -> list[Instance]:
        """Power on and wait until they run; they may have other addresses."""

    def extend(self, instances: Sequence[Instance], deadline: dt.datetime) -> None:
        """Move the deadline where the cloud holds it, and its tag; a timer on the host is the caller's to move."""

    def allow(self, name: str, networks: Sequence[str]) -> list[str]:
        """Open port 22 of a launch to exactly these networks (`caller` among them is resolved); returns what is open now."""

    def things(self, name: str | None = None, known: Known | None = None) -> list[Thing]:
        """Everything of ours, by tag: instances, and what was made for them; and by ids and names what is `known` of a launch."""

    def remove(self, things: Sequence[Thing], *, on_step: Step) -> list[str]:
        """Remove them in the order in which they depend on one another, and wait until they are gone.

        What is gone already is not an error. Returns a phrase for each that was removed.
        """
