"""What the forms share: the subject that is rendered, the order that `up` would send, and the holes in it that somebody fills in later.

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
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from provision.clouds.base import DEADLINE_TAG, LAUNCH_TAG, Order
from provision.errors import UsageError
from provision.structs import Struct, replace

HoleName = Literal["launch", "key", "caller", "deadline", "timer", "late-timer"]
Missing = Literal["deadline", "public_key", "caller"]
TIMER: Final = "%Y-%m-%d %H:%M:%S UTC"
"""How a deadline stands in a timer of the user data."""
KEY_PATTERN: Final = r"^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]{40,}={0,2}$"
"""A public key without comment: nothing in it can end a string of JSON, YAML or a shell."""
_WIDE: Final = 140  # characters
LATE: Final = dt.timedelta(minutes=10)
"""How much later than the deadline the timer on a host acts where the cloud itself ends the machine."""
_OPTIONS: Final[Mapping[Missing, str]] = {
    "deadline": "--deadline 2026-11-22T08:00:00+00:00",
    "public_key": "--public-key ~/.ssh/id_ed25519.pub",
    "caller": "--ssh-from 203.0.113.7/32",
}


class Given(Struct):
    """The values that are already decided; whoever runs the form fills in the others.

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
    """One place of one profile, under the name that its machine will have.

    Attributes:
        profile, profile_sha256, lock_sha256: name and digests.
        name: of the machine.
        place: the place in words.
        region: where.
        image_id: the lock's image; None where the newest of the system is looked up.
        os: (system, version).
        deadline_h: the hours that the profile allows.
        from_caller: whether the profile lets in the address that the machine is made from.
        template: the order that `up` would send, without what only a launch decides.
    """

    profile: str
    profile_sha256: str
    lock_sha256: str
    name: str
    cloud: str
    place: str
    region: str
    image_id: str | None
    os: tuple[str, str]
    deadline_h: int
    from_caller: bool
    template: Order
    given: Given = field(default_factory=Given)

    def mark(self, purpose: str) -> str:
        """A text that stands for what is not known yet, which no text of this profile can hold."""
        return hashlib.sha256(f"gpuprov/{purpose}/{self.profile_sha256}/{self.lock_sha256}/{self.name}/{self.place}".encode()).hexdigest()

    def token(self, request: str) -> str:
        """What makes a repeated call harmless: the same for the same request of this subject."""
        return hashlib.sha256(f"{self.mark('token')}/{request}".encode()).hexdigest()[:32]

    def order(self, *, launch_id: str, public_key: str, deadline: dt.datetime) -> Order:
        """The order that `up` would send for this place."""
        moment = deadline.astimezone(dt.UTC).isoformat(timespec="seconds")
        tags = {**self.template.tags, LAUNCH_TAG: launch_id, DEADLINE_TAG: moment}
        return replace(self.template, launch_id=launch_id, public_key=public_key, deadline=dt.datetime.fromisoformat(moment), tags=tags)

    def filled(self, parts: Parts) -> str:
        """A text with its holes filled in. The launch's id follows from the profile, so commands run twice make one machine.

        Raises:
            UsageError: the deadline is not given.
        """
        if self.given.deadline is None:
            msg = "the deadline of the launch is not known"
            raise UsageError(msg, hint=f"give {_OPTIONS['deadline']}")
        ends = self.given.deadline.astimezone(dt.UTC)
        values: dict[HoleName, str] = {
            "launch": self.mark("launch")[:32],
            "key": self.given.public_key,
            "caller": self.given.caller,
            "deadline": ends.isoformat(timespec="seconds"),
            "timer": ends.strftime(TIMER),
            "late-timer": (ends + LATE).strftime(TIMER),
        }
        return "".join(values[piece.name] if isinstance(piece, Hole) else piece for piece in parts)


class Hole(Struct):
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
        deadline = (now or dt.datetime.now(dt.UTC)).replace(microsecond=0) + dt.timedelta(hours=subject.deadline_h)
        key, caller = f"ssh-ed25519 {subject.mark('key')}", subject.mark("caller")
        order = subject.order(launch_id=self.launch_id, public_key=key, deadline=deadline)
        networks = tuple(caller if network == "caller" else network for network in order.ssh_from)
        # No form brings a host key: the machine makes its own, which nobody else has had in hands.
        self.order = replace(order, ssh_from=networks, host_key="")
        self._marks: dict[str, Hole] = {
            self.launch_id: Hole("launch"),
            key: Hole("key"),
            caller: Hole("caller"),
            deadline.isoformat(timespec="seconds"): Hole("deadline"),
            deadline.strftime(TIMER): Hole("timer"),
            (deadline + LATE).strftime(TIMER): Hole("late-timer"),
        }
        self._pattern = re.compile("|".join(re.escape(mark) for mark in self._marks))

    def parts(self, text: str) -> list[str | Hole]:
        """A text, cut at its marks; no piece is empty."""
        pieces: list[str | Hole] = []
        at = 0
        for match in self._pattern.finditer(text):
            pieces += [text[at : match.start()], self._marks[match[0]]]
            at = match.end()
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


class Form(Struct):
    """One way to hand a profile over.

    Attributes:
        about: what it is, for `--help`.
        file: the name of its one file; None for a folder.
        module: whose `render(subject) -> dict[str, bytes]` writes it; imported on use, because a run writes one form.
        cloud: the only cloud that it is for; None for all.
        needs: what it cannot leave open.
        launches: whether it makes a machine, so that the limit of the price counts.
    """

    about: str
    file: str | None
    module: str
    cloud: str | None = None
    needs: tuple[Missing, ...] = ()
    launches: bool = True

    def require(self, name: str, subject: Subject) -> None:
        """Check that everything which cannot be left open is given.

        Raises:
            UsageError: names all that is missing at once.
        """
        values = subject.given
        present = {
            "deadline": values.deadline is not None,
            "public_key": bool(values.public_key),
            "caller": bool(values.caller) or not subject.from_caller,
        }
        lacking: list[Missing] = [item for item in get_args(Missing) if item in self.needs and not present[item]]
        if lacking:
            msg = f"{name} is written for one launch, and needs its {', '.join(lacking).replace('_', ' ')}"
            raise UsageError(msg, hint=f"give {' '.join(_OPTIONS[item] for item in lacking)}")

    def render(self, subject: Subject) -> dict[str, bytes]:
        """The files by their path; the same bytes for an equal subject."""
        files: dict[str, bytes] = importlib.import_module(self.module).render(subject)
        return files


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
