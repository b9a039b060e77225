"""What an account brings to a machine itself: options of a place, what an identity may do, and how a machine copies from a bucket."""

from __future__ import annotations

from typing import Final, Literal

from provision.structs import Struct

_GRADES: Final = ("low", "medium", "high")


class CloudOption(Struct):
    """Something that a place of a profile asks of its cloud beyond the machine itself: a key, an identity, an image of one's own.

    Attributes:
        key: of the place in the profile, such as `identity`.
        summary: in a few words.
        severity: how a review grades it; None where it makes nothing weaker.
        title, reason, narrower: for the review, where it has a severity.
        safer: whether it makes the machine safer than the default; the review lists it with `reason` then.
        unpriced: why the list price of the machine is not its price here; empty where it is. A limit cannot be kept then.
    """

    key: str
    summary: str
    severity: Literal["high", "medium", "low", "note"] | None = None
    title: str = ""
    reason: str = ""
    narrower: str = ""
    safer: bool = False
    unpriced: str = ""


class Authority(Struct):
    """What an identity may do at its cloud, graded as a review grades risks; the more it may do, the greater.

    Attributes:
        said: the widest of it, for people.
    """

    severity: Literal["high", "medium", "low"]
    said: str

    def __gt__(self, other: Authority) -> bool:
        return _GRADES.index(self.severity) > _GRADES.index(other.severity)


class BucketCopy(Struct):
    """How a machine copies from a bucket of its cloud by itself, as its own identity.

    Attributes:
        scheme: what addresses begin with, before `://`.
        program: the cloud's command line, on the machine.
        alone: words before it, so that it uses the machine's identity and no credentials that somebody left there.
        one: its words that copy one object, followed by address and destination.
        all: the same for everything below an address.
        delete, dry_run: options of the latter.
    """

    scheme: str
    program: str
    alone: tuple[str, ...]
    one: tuple[str, ...]
    all: tuple[str, ...]
    delete: str
    dry_run: str
