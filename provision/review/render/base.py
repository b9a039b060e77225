"""What the forms share: what is rendered, the order that `up` would send with holes in it, and what is filled in later by whom.

A form that somebody runs next week cannot know the launch's id, its deadline, whose key it will be or from where. These are holes: the
order is made with marks in their places, and each form writes a mark as its own language says "given later". Marks are digests over the
profile, so that no text of a profile can hold one; that of the deadline has characters that no text of an order admits together.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import importlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol, get_args

from provision.catalog.places import aws_image
from provision.clouds.base import Order
from provision.errors import CloudUnsupportedError, ImageNotFoundError, UsageError
from provision.launch.journal import Pending, Record
from provision.launch.place import Option, options, order_of
from provision.profile import load as profiles
from provision.profile.locked import Lock
from provision.profile.model import Profile

__all__ = ["KEY_PATTERN", "TIMER", "Form", "Given", "Hole", "Marked", "Parts", "Subject", "choose", "dumped", "login"]

HoleName = Literal["launch", "key", "caller", "deadline", "timer", "late-timer"]
Missing = Literal["deadline", "public_key", "caller"]
TIMER: Final = "%Y-%m-%d %H:%M:%S UTC"
"""How a deadline stands in a timer of the user data."""
KEY_PATTERN: Final = r"^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]{40,}={0,2}$"
"""A public key without comment: nothing in it can end a string of JSON, YAML or a shell."""
_WIDE: Final = 140  # characters
_LATER: Final = dt.timedelta(minutes=10)  # the timer of a machine on GCP: provision/clouds/gcp/requests.py
_SAID: Final[Mapping[Missing, str]] = {
    "deadline": "--deadline 2026-11-22T08:00:00+00:00",
    "public_key": "--public-key ~/.ssh/id_ed25519.pub",
    "caller": "--ssh-from 203.0.113.7/32",
}


@dataclass(frozen=True, slots=True)
class Given:
    """What is known already of what is otherwise filled in by who runs the form.

    Attributes:
        public_key: type and key, without comment.
        deadline: when the machine ends itself; aware.
        caller: the network that stands for `caller` of the profile.
    """

    public_key: str = ""
    deadline: dt.datetime | None = None
    caller: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """One place of one profile with its lock, under the name that its machine will have."""

    profile: Profile
    lock: Lock
    option: Option
    name: str
    given: Given = field(default_factory=Given)

    @property
    def digest(self) -> str:
        """SHA-256 of the profile."""
        return profiles.digest(self.profile)

    @property
    def from_caller(self) -> bool:
        """Whether the profile lets in the address that the machine is made from."""
        return "caller" in self.profile.network.ssh_from

    def mark(self, what: str) -> str:
        """A text that stands for what is not known yet, which no text of this profile can hold."""
        return hashlib.sha256(f"gpuprov/{what}/{self.digest}/{self.lock.digest}/{self.name}/{self.option}".encode()).hexdigest()

    def token(self, asked: str) -> str:
        """What makes asking again harmless: the same for the same request of this subject."""
        return hashlib.sha256(f"{self.mark('token')}/{asked}".encode()).hexdigest()[:32]

    def order(self, *, launch_id: str, public_key: str, deadline: dt.datetime) -> Order:
        """The order that `up` would send for this place."""
        zone = self.option.zones[0] if self.option.zones else ""
        record = Record(
            name=self.name,
            launch_id=launch_id,
            rehearsal=False,
            profile={},
            profile_digest=self.digest,
            created_at="",
            deadline=deadline.astimezone(dt.UTC).isoformat(timespec="seconds"),
        )
        pending = Pending(place=self.option.index, region=self.option.region, zone=zone, first=1, count=1, minimum=1)
        return order_of(record, self.profile, self.option, public_key, pending)

    def filled(self, parts: Parts) -> str:
        """A text with its holes filled by what is given. The launch's id follows from the profile: commands run twice make one machine."""
        given = self.given
        assert given.deadline is not None  # noqa: S101 - `Form.require` has asked for it
        ends = given.deadline.astimezone(dt.UTC)
        values: dict[HoleName, str] = {
            "launch": self.mark("launch")[:32],
            "key": given.public_key,
            "caller": given.caller,
            "deadline": ends.isoformat(timespec="seconds"),
            "timer": ends.strftime(TIMER),
            "late-timer": (ends + _LATER).strftime(TIMER),
        }
        return "".join(values[piece.name] if isinstance(piece, Hole) else piece for piece in parts)


@dataclass(frozen=True, slots=True)
class Hole:
    """Something that is filled in later.

    `launch` is 32 hexadecimal digits, `key` a public key, `caller` the network of who makes the machine, `deadline` a time in ISO 8601,
    `timer` the same as systemd reads it, and `late-timer` that ten minutes later.
    """

    name: HoleName


Parts = Sequence[str | Hole]
"""A text, as its pieces."""


class Marked:
    """The order of a subject with marks for what is not known, and how to write what was made of it.

    Args:
        subject: what is rendered.
        now: the hour that the marks of the times are reckoned from. It decides about nothing that is written.
    """

    def __init__(self, subject: Subject, now: dt.datetime | None = None) -> None:
        self.launch_id = subject.mark("launch")[:32]
        deadline = (now or dt.datetime.now(dt.UTC)).replace(microsecond=0) + dt.timedelta(hours=subject.profile.limits.deadline_h)
        key, caller = f"ssh-ed25519 {subject.mark('key')}", subject.mark("caller")
        order = subject.order(launch_id=self.launch_id, public_key=key, deadline=deadline)
        self.order = replace(order, ssh_from=tuple(caller if network == "caller" else network for network in order.ssh_from))
        self._marks: dict[str, Hole] = {
            self.launch_id: Hole("launch"),
            key: Hole("key"),
            caller: Hole("caller"),
            deadline.isoformat(timespec="seconds"): Hole("deadline"),
            deadline.strftime(TIMER): Hole("timer"),
            (deadline + _LATER).strftime(TIMER): Hole("late-timer"),
        }
        self._pattern = re.compile("|".join(re.escape(mark) for mark in self._marks))

    def parts(self, text: str) -> list[str | Hole]:
        """A text, cut at its marks; no piece is empty."""
        pieces: list[str | Hole] = []
        at = 0
        for found in self._pattern.finditer(text):
            pieces += [text[at : found.start()], self._marks[found[0]]]
            at = found.end()
        return [piece for piece in [*pieces, text[at:]] if piece != ""]

    def written(self, value: Any, write: Callable[[Parts], Any]) -> Any:
        """The same data with every text, and the texts alone, as `write` writes its pieces; names of members stay."""
        if isinstance(value, str):
            return write(self.parts(value))
        if isinstance(value, Mapping):
            return {key: self.written(item, write) for key, item in value.items()}
        if isinstance(value, Sequence):
            return [self.written(item, write) for item in value]
        return value


class Renderer(Protocol):
    """A subject in, files out by their path; pure."""

    def __call__(self, subject: Subject) -> dict[str, bytes]:
        """The files."""
        ...


@dataclass(frozen=True, slots=True)
class Form:
    """One way to hand a profile over; its `render` is in the module of its name.

    Attributes:
        about: what it is, for `--help`.
        file: how its one file is called; None for a folder.
        cloud: the only one that it is for.
        needs: what it cannot leave open.
    """

    about: str
    file: str | None
    cloud: Literal["aws", "gcp"] | None = None
    needs: tuple[Missing, ...] = ()

    def require(self, name: str, subject: Subject) -> None:
        """See that what cannot be left open is given.

        Raises:
            UsageError: names all that is missing at once.
        """
        given = subject.given
        there = {"deadline": given.deadline is not None, "public_key": bool(given.public_key), "caller": bool(given.caller)}
        there["caller"] = there["caller"] or not subject.from_caller
        missing = [what for what in get_args(Missing) if what in self.needs and not there[what]]
        if missing:
            msg = f"{name} has its values filled in, and {' and '.join(missing).replace('_', ' ')} of the launch are not known"
            raise UsageError(msg, hint=f"say {' '.join(_SAID[what] for what in missing)}")

    def render(self, subject: Subject, name: str) -> dict[str, bytes]:
        """Write it; see `Renderer`."""
        renderer: Renderer = importlib.import_module(f"provision.review.render.{name.replace('-', '_')}").render
        return renderer(subject)


def choose(profile: Profile, lock: Lock, *, cloud: str | None = None, where: str | None = None) -> Option:
    """The first place of the profile that can be launched in.

    Args:
        profile: with its places.
        lock: says what is known against each.
        cloud: the only one that counts.
        where: the only region or zone that counts.

    Raises:
        UsageError: the profile names no such place.
        CloudUnsupportedError: nothing can be launched in any of them.
    """
    found = options(profile, lock, cloud)
    named = [o if where in {None, o.region} else replace(o, zones=(str(where),)) for o in found if where in {None, o.region, *o.zones}]
    if not named:
        msg = f"profile {profile.name} has no place in {where!a}"
        raise UsageError(msg, hint=f"it has {', '.join(dict.fromkeys(z for o in found for z in (o.zones or (o.region,))))}")
    able = next((option for option in named if not option.against), None)
    if able is None:
        reasons = "; ".join(dict.fromkeys(f"{o.region} {o.place.instance_type}: {o.against}" for o in named))
        msg = f"nothing can be launched there: {reasons}"
        raise CloudUnsupportedError(msg, hint="choose another place with --where; `gpuprov plan` lists those of the profile")
    return able


def login(subject: Subject) -> str:
    """The first user of the image of a subject's place.

    Raises:
        ImageNotFoundError: the catalogue knows no image of its system there.
    """
    system = (subject.profile.os.name, subject.profile.os.version)
    if subject.option.cloud == "gcp":
        from provision.clouds.gcp.requests import image_of  # noqa: PLC0415 - what the other forms have no need of

        return image_of(system).login
    image = aws_image(*system)
    if image is None:
        msg = f"no image of {' '.join(system)} on AWS is known"
        raise ImageNotFoundError(msg, hint="choose a system of `gpuprov profile schema` that AWS has images of, such as ubuntu 24.04")
    return image.login


def dumped(data: Any) -> bytes:
    """JSON as the forms write it, for people to read: in the order of the data, and what fits into a line on one line."""
    return (_laid_out(data, "") + "\n").encode()


def _laid_out(data: Any, indent: str, used: int = 0) -> str:
    line = json.dumps(data, ensure_ascii=True)
    if not isinstance(data, dict | list) or (len(indent) + used + len(line) <= _WIDE and not _deep(data)):
        return line
    inner = indent + "  "
    if isinstance(data, dict):
        members = [f"{json.dumps(key)}: {_laid_out(value, inner, len(json.dumps(key)) + 3)}" for key, value in data.items()]
        return "{\n" + ",\n".join(inner + member for member in members) + f"\n{indent}}}"
    return "[\n" + ",\n".join(inner + _laid_out(value, inner, 1) for value in data) + f"\n{indent}]"


def _deep(data: Any) -> bool:
    """Whether there are several members with members of their own, which nobody reads on one line."""
    members = list(data.values()) if isinstance(data, dict) else data
    return sum(isinstance(member, dict | list) and bool(member) for member in members) > 1
