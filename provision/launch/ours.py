"""What is ours at the clouds, found by tag in many regions at once, and removed there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from provision.clouds import base
from provision.errors import CloudError, CredentialsMissingError
from provision.launch.journal import Record
from provision.launch.patience import PATIENT, Patience
from provision.launch.regions import Connect

__all__ = ["Ours", "oldest_first"]

T = TypeVar("T")
Pair = tuple[str, str]


def _nobody(_: str) -> None:
    """What removing says is not said where it is a detail of something else."""


@dataclass(slots=True)
class Ours:
    """The clouds as one run sees them: one cloud object for each region, because it remembers what it has made.

    Args:
        connect: (cloud, region) → cloud object.
        on_step: told about pauses, and what is removed.
        patience: how often is asked again.
    """

    connect: Connect
    on_step: base.Step
    patience: Patience = PATIENT
    _handles: dict[Pair, base.Cloud] = field(default_factory=dict)

    def handle(self, pair: Pair) -> base.Cloud:
        """The cloud object of a region."""
        if pair not in self._handles:
            self._handles[pair] = self.connect(*pair)
        return self._handles[pair]

    def once(self, where: Iterable[Pair]) -> dict[Pair, base.Cloud]:
        """One handle of each cloud that sees its whole project, all of the others."""
        kept: dict[Pair, base.Cloud] = {}
        whole: set[str] = set()
        for pair in sorted(set(where)):
            handle = self.handle(pair)
            if handle.spans == "project" and pair[0] in whole:
                continue
            if handle.spans == "project":
                whole.add(pair[0])
            kept[pair] = handle
        return kept

    def everywhere(self, where: Iterable[Pair], ask: Callable[[base.Cloud], T]) -> dict[Pair, T | CloudError]:
        """Ask all regions at the same time; a region whose answer is an error has that error."""
        handles = self.once(where)

        def one(handle: base.Cloud) -> T | CloudError:
            try:
                return ask(handle)
            except CloudError as error:
                return error

        if not handles:
            return {}
        with ThreadPoolExecutor(max_workers=min(16, len(handles)), thread_name_prefix="ours") as pool:
            return dict(zip(handles, pool.map(one, handles.values()), strict=True))

    def look(self, name: str, where: Iterable[Pair]) -> list[base.Instance]:
        """The living machines of a launch's name, the oldest launch first.

        A cloud without credentials is passed over when another one could be asked: what it has is not reached from here anyway.

        Raises:
            CloudError: a region could not be asked, so that nobody knows.
        """

        def find(handle: base.Cloud) -> list[base.Instance]:
            what = f"looking for {name} in {handle.region}"
            return self.patience.ask(lambda: handle.find(name), on_step=self.on_step, what=what, repeat_unanswered=False)

        answers = self.everywhere(where, find)
        errors = [answer for answer in answers.values() if isinstance(answer, CloudError)]
        missing = [error for error in errors if isinstance(error, CredentialsMissingError)]
        for error in errors:
            if error not in missing or len(missing) == len(answers):
                raise error
        listed = [instance for answer in answers.values() if not isinstance(answer, CloudError) for instance in answer]
        return oldest_first(instance for instance in listed if instance.state not in {"shutting-down", "terminated"})

    def clear(self, record: Record, where: Iterable[Pair]) -> None:
        """Remove everything of a launch in these regions, at the same time; things of other launches are left.

        Raises:
            CloudError: of the first region in which it could not be done.
        """

        def one(handle: base.Cloud) -> None:
            def clear() -> None:
                things = [thing for thing in handle.things(record.name) if thing.launch_id == record.launch_id]
                if things:
                    handle.remove(things, on_step=_nobody)

            self.patience.ask(clear, on_step=self.on_step, what=f"removing what is not needed in {handle.region}")

        for answer in self.everywhere(where, one).values():
            if isinstance(answer, CloudError):
                raise answer


def oldest_first(found: Iterable[base.Instance]) -> list[base.Instance]:
    """By launch, the oldest first (of the same second the lesser id), and in a launch by name."""
    listed = list(found)
    launched: dict[str, str] = {}
    for instance in listed:
        launched[instance.launch_id] = min(instance.launched_at, launched.get(instance.launch_id, instance.launched_at))
    return sorted(listed, key=lambda i: (launched[i.launch_id], i.launch_id, len(i.name), i.name))
