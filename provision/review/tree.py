"""What a review says, as plain frozen data: the page, the Markdown, the JSON and the terminal show this and nothing else.

The classes whose names end in `Item` are entries of a review, beside the record of the same thing in the catalog, a lock or a cloud.
"""

from typing import Any, Final, Literal, get_args

from provision.converge.declared import Change
from provision.launch.permissions import PlannedPermissions
from provision.profile.pins import WheelPin
from provision.structs import Struct, asdict, field

SCHEMA: Final = "gpuprov-review/1"
Severity = Literal["high", "medium", "low", "note"]
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)


class Risk(Struct):
    """Something that a reviewer should know before deciding.

    Attributes:
        id: of the kind of risk, equal in every review.
        reason: why it is a risk.
        narrower: what would make it smaller; empty when nothing does.
        key: the key of the profile that causes it, dotted; empty when none does.
        line: of that key in the profile, or of the nearest key above it that is in the file.
        written: whether the key itself is in the file; otherwise its default causes the risk.
    """

    id: str
    severity: Severity
    title: str
    reason: str
    narrower: str
    key: str
    line: int | None
    written: bool


class Gain(Struct):
    """What is safer than with a machine set up by hand, and why."""

    title: str
    reason: str


class PlaceItem(Struct):
    """One place of the profile, in its order.

    Attributes:
        image: how the image is looked up.
        image_id: the image itself; None where the lock has no id.
        image_about: its name, owner and day, where the lock has them.
        usd_per_hour: from the catalog; None when it is not known there.
        usd_to_deadline: the same until the deadline.
        price_source: where the price comes from, with its date; without a price why there is none.
        price_whole: False where only the price of the GPU is known.
        passed_over: why it would not be used; empty when it would be tried.
    """

    cloud: str
    region: str
    instance_type: str
    market: str
    gpus: str
    image: str
    image_id: str | None
    usd_per_hour: float | None
    usd_to_deadline: float | None
    price_source: str
    price_whole: bool
    passed_over: str
    image_about: str = ""


class DiskItem(Struct):
    """A disk of each instance."""

    what: str
    size_gb: int | None
    encrypted: str
    mount: str
    filesystem: str
    kept: str


class DoorItem(Struct):
    """One rule of the security group: which network may connect to which port."""

    direction: Literal["in", "out"]
    port: str
    network: str
    meaning: str


class Money(Struct):
    """What it costs; every figure in US dollars.

    Attributes:
        ceiling_usd: the hourly limit until the deadline; None where a price is unknown, or no place would be tried.
        lowest_usd_per_hour, highest_usd_per_hour: over the places whose whole price is known.
        machines: how many of them one launch or one fleet may have, each at this price; None where the profile does not say.
        beside: what is billed and not included in these figures.
    """

    limit_usd_per_hour: float
    deadline_h: int
    limit_to_deadline_usd: float
    ceiling_usd: float | None
    lowest_usd_per_hour: float | None
    highest_usd_per_hour: float | None
    unknown_places: int
    machines: int | None
    beside: str


class FleetItem(Struct):
    """The fleet that the profile plans.

    Attributes:
        store: where the members' program and evidence are.
        cloud, region, machine: where it is launched, and what its members are.
        largest: how many members it may have; None where the profile does not say.
        usd_per_hour: of the largest, US dollars; None where that is not known.
        usd_to_deadline: the same until the first deadline.
        halts_after: how many members may fail with one program before it launches no more.
        identity: the role or account of the members.
        member, caller: the policy documents of that identity and of whoever runs `gpuprov fleet`.
        refusal: why none can be made; everything else but the store is empty then.
    """

    store: str
    cloud: str = ""
    region: str = ""
    machine: str = ""
    largest: int | None = None
    usd_per_hour: float | None = None
    usd_to_deadline: float | None = None
    halts_after: int = 0
    identity: str = ""
    member: dict[str, Any] = field(default_factory=dict)
    caller: dict[str, Any] = field(default_factory=dict)
    refusal: str = ""


class RepositoryItem(Struct):
    """Where packages come from; trusted by the fingerprint of its key, or by a keyring of the image."""

    name: str
    kind: str
    url: str
    trust: str


class PackageItem(Struct):
    """A package that is installed by name; `version` is None where the lock pins none."""

    name: str
    version: str | None
    origin: str
    roles: tuple[str, ...]


class EnvironmentItem(Struct):
    """A virtual environment and every wheel in it; a line of the lock that names no wheel has no version and no hashes."""

    name: str
    version: str
    index: str
    wheels: tuple[WheelPin, ...]


class ControlItem(Struct):
    """One check and why it is made: its id is the same in waivers, roles, reports and this review.

    Attributes:
        keys: the keys of the profile that require it.
        lines: of those keys, in the same order.
        role: what sets it up; None where no role can.
        tasks: how many things that role changes.
        applies: whether `verify` will judge it at the profile's tier; `why` says why not.
        waived: until which day; empty when it is not.
    """

    check: str
    title: str
    keys: tuple[str, ...]
    lines: tuple[int | None, ...]
    role: str | None
    tasks: int
    tier: str
    applies: bool
    why: str
    waived: str


class CallItem(Struct):
    """One API call of a launch, with its parameters."""

    cloud: str
    action: str
    why: str
    parameters: dict[str, Any]


class WaiverItem(Struct):
    """A waiver of the profile: a finding that its owner takes responsibility for."""

    check: str
    reason: str
    owner: str
    expires: str
    line: int | None


class Question(Struct):
    """A question that the reviewer answers on the page."""

    id: str
    text: str


class Review(Struct):
    """Everything that a reviewer needs to decide.

    Attributes:
        rules: the name of the organisation's rules that the profile was checked against; empty where there are none.
        stack: the parts of the stack and their versions, in words.
        fleet: what the profile plans to launch as a group; None where it plans none.
        text: the lines of the profile's file.
    """

    schema: str
    profile: str
    profile_sha256: str
    lock_sha256: str
    catalogue: str
    made_by: str
    purpose: str
    owner: str
    owner_email: str
    system: str
    gpu: str
    rules: str
    rules_sha256: str
    risks: tuple[Risk, ...]
    gains: tuple[Gain, ...]
    places: tuple[PlaceItem, ...]
    disks: tuple[DiskItem, ...]
    addresses: str
    tags: tuple[str, ...]
    money: Money
    doors: tuple[DoorItem, ...]
    logins: tuple[str, ...]
    stack: tuple[tuple[str, str], ...]
    repositories: tuple[RepositoryItem, ...]
    packages: tuple[PackageItem, ...]
    environments: tuple[EnvironmentItem, ...]
    changes: tuple[Change, ...]
    reboots: int
    undo: tuple[str, ...]
    controls: tuple[ControlItem, ...]
    tier: str
    waivers: tuple[WaiverItem, ...]
    fleet: FleetItem | None
    permissions: tuple[PlannedPermissions, ...]
    calls: tuple[CallItem, ...]
    questions: tuple[Question, ...]
    text: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The review as JSON-compatible data."""
        data = asdict(self)
        for change in data["changes"]:
            del change["stays"]
        return {**data, "sentence": self.sentence}

    @property
    def sentence(self) -> str:
        """What the decision is about, in one sentence without its full stop."""
        if not self.places:
            return f"{self.profile}: hosts with {self.gpu} that exist; no machine is launched"
        if all(place.passed_over for place in self.places):
            return f"{self.profile}: a machine with {self.gpu} that this release can launch in none of its places"
        money = self.money
        cost = f"and {money.ceiling_usd:.2f} USD" if money.ceiling_usd is not None else "at a price that is not known in every place"
        return f"{self.profile}: a machine with {self.gpu} for at most {money.deadline_h} hours {cost}"

    def count(self, severity: Severity) -> int:
        """How many risks have it."""
        return sum(risk.severity == severity for risk in self.risks)
