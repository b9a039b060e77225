"""Which members of a fleet failed, and at what: also those that the cloud has ended since, whose evidence alone is left."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from provision.clouds.fleet import PostedEvidence
from provision.converge.failed_member import FailedTask, failed_task
from provision.structs import Struct

_WORDS_CHARS: Final = 300


class MemberFailures(Struct):
    """Members that failed with one program in one way.

    Attributes:
        program: SHA-256 of what they ran.
        role, task: of their set-up; empty where no task failed.
        why: in the words of the last of them.
        members: how many they are.
        last: the id of the last one.
        at: when it said so.
    """

    program: str
    role: str
    task: str
    why: str
    members: int
    last: str
    at: str

    @property
    def place(self) -> str:
        """Where they failed, for a sentence."""
        return place_of(self.role, self.task)


def place_of(role: str, task: str) -> str:
    """A role and a task, for a sentence; empty where there is neither."""
    return " ".join([*([f"at role {role}"] if role else []), *([f"task “{task}”"] if task else [])])


def what_failed(content: Mapping[str, Any]) -> FailedTask:
    """At what a member failed by its own word; its last line where it names no task."""
    said = str(content.get("errors", ""))
    last = next((line for line in reversed(said.splitlines()) if line.strip()), "")
    return failed_task(said) or FailedTask("", "", last[:_WORDS_CHARS])


def failures_of(evidence: Iterable[PostedEvidence], fleet: str, programs: set[str]) -> tuple[MemberFailures, ...]:
    """The failures with these programs, the most frequent first; each machine counts once in each way.

    Args:
        evidence: by time, the oldest first.
        fleet: the name that the evidence has to be of.
        programs: the digests that count.
    """
    found: dict[tuple[str, str, str, str], dict[str, tuple[FailedTask, str]]] = {}
    for each in evidence:
        content = each.content
        own = (content.get("fleet"), content.get("instance"), content.get("digest")) == (fleet, each.instance, each.digest)
        if not own or each.doubt or each.digest not in programs or not content.get("exit_code"):
            continue
        told = what_failed(content)
        way = (each.digest, told.role, told.task, "" if told.task else told.why)
        found.setdefault(way, {})[each.instance] = (told, str(content.get("at", ""))[:25])
    rows = []
    for (program, role, task, _), members in found.items():
        last, (told, at) = list(members.items())[-1]
        rows.append(MemberFailures(program, role, task, told.why, len(members), last, at))
    return tuple(sorted(rows, key=lambda row: -row.members))
