"""What is ours at the clouds: found by tag in many regions at the same time, and removed there."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from provision.clouds import base
from provision.concurrent import at_once
from provision.errors import CloudError, CredentialsMissingError, NameTakenError
from provision.launch.journal import Record
from provision.launch.patience import PATIENT, Patience
from provision.launch.regions import Connect

T = TypeVar("T")
_LISTED: Final = 20
Pair = tuple[str, str]


@dataclass(slots=True)
class Ours:
    """The clouds as one run sees them: one cloud object for each region, because it remembers what it has made.

    Args:
        connect: (cloud, region) → cloud object.
        on_step: told about pauses and removals.
        patience: how often a call is repeated.
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
        """The handles of these regions, but only one for a cloud whose every region sees the whole project."""
        handles: dict[Pair, base.Cloud] = {}
        for pair in sorted(set(where)):
            handle = self.handle(pair)
            if handle.spans != "project" or all(pair[0] != cloud for cloud, _ in handles):
                handles[pair] = handle
        return handles

    def everywhere(self, where: Iterable[Pair], ask: Callable[[base.Cloud], T]) -> dict[Pair, T | CloudError]:
        """Ask all regions at the same time. The answer of a region that fails is its error."""
        handles = self.once(where)

        def one(handle: base.Cloud) -> T | CloudError:
            try:
                return ask(handle)
            except CloudError as error:
                return error

        return dict(zip(handles, at_once(one, handles.values()), strict=True))

    def look(self, name: str, where: Iterable[Pair]) -> list[base.Instance]:
        """The living machines of a launch, the oldest launch first.

        A cloud without credentials is ignored when another one answers: nothing of ours there can be reached from here anyway.

        Raises:
            CloudError: a region did not answer, so machines may exist that are not in sight.
        """

        def find(handle: base.Cloud) -> list[base.Instance]:
            what = f"looking for {name} in {handle.region}"
            return self.patience.ask(lambda: handle.find(name), on_step=self.on_step, what=what, repeat_unanswered=False)

        answers = self.everywhere(where, find)
        errors = [answer for answer in answers.values() if isinstance(answer, CloudError)]
        without_credentials = [error for error in errors if isinstance(error, CredentialsMissingError)]
        for error in errors:
            if error not in without_credentials or len(without_credentials) == len(answers):
                raise error
        instances = [instance for answer in answers.values() if not isinstance(answer, CloudError) for instance in answer]
        return oldest_first(instance for instance in instances if instance.state not in {"shutting-down", "terminated"})

    def clear(self, record: Record, where: Iterable[Pair]) -> None:
        """Remove everything of one launch in these regions, at the same time. Things of other launches stay.

        Raises:
            CloudError: of the first region that failed.
        """

        def one(handle: base.Cloud) -> None:
            def clear() -> None:
                things = [thing for thing in handle.things(record.name) if thing.launch_id == record.launch_id]
                if things:
                    handle.remove(things, on_step=lambda _: None)

            self.patience.ask(clear, on_step=self.on_step, what=f"removing what is not needed in {handle.region}")

        for answer in self.everywhere(where, one).values():
            if isinstance(answer, CloudError):
                raise answer


def oldest_first(instances: Iterable[base.Instance]) -> list[base.Instance]:
    """Sort by launch, the oldest first (in the same second by launch id), and within a launch by name."""
    members = list(instances)
    launched: dict[str, str] = {}
    for i in members:
        launched[i.launch_id] = min(i.launched_at, launched.get(i.launch_id, i.launched_at))
    return sorted(members, key=lambda i: (launched[i.launch_id], i.launch_id, len(i.name), i.name))


def of_another_launch(name: str, others: Sequence[base.Instance], *, own: bool) -> NameTakenError:
    """The error for machines that have the name of a launch and are not of it.

    Args:
        name: of the launch.
        others: these machines.
        own: whether the launch itself has machines.
    """
    listed = [f"{i.id} in {i.region}, {i.state} since {i.launched_at}, of {i.owner or 'an unknown owner'}" for i in others]
    if len(listed) > _LISTED:
        listed = [*listed[:_LISTED], f"and {len(listed) - _LISTED} more"]
    many = "a machine" if len(others) == 1 else f"{len(others)} machines"
    msg = f"{name!r} is also the name of {many} of another launch: {'; '.join(listed)}"
    if own:
        return NameTakenError(msg, hint=f"ask for their removal, or `gpuprov down {name}` removes everything of that name, yours too")
    return NameTakenError(msg, hint=f"choose another --name; if nobody needs them, `gpuprov down {name}` removes them and frees the name")
